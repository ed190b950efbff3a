/* The header Idempotency-Key: exactly once, 1 to INVENTORY_KEY_MAX (255) characters of visible ASCII. And the
 * answers to calls that may be repeated, which say whether they are replays. */
#include <stdio.h>

#include "service/api/http_api.h"

bool idempotency_key_read(struct http_request *request, struct idempotency_key *key) {
    const char *text;
    size_t length, visible = 0;
    int count = http_request_header(request, "Idempotency-Key", &text, &length);
    while (visible < length && text[visible] > 0x20 && text[visible] < 0x7f)
        visible++;
    if (count == 1 && length > 0 && length <= INVENTORY_KEY_MAX && visible == length) {
        *key = (struct idempotency_key){text, length};
        return true;
    }
    char detail[128];
    if (count == 0)
        snprintf(detail, sizeof detail, "send an Idempotency-Key header, the same one for each retry");
    else if (count > 1)
        snprintf(detail, sizeof detail, "is there %d times; send it once", count);
    else if (length == 0)
        snprintf(detail, sizeof detail, "the Idempotency-Key header is empty");
    else if (visible < length)
        snprintf(detail, sizeof detail, "has a character at %zu, counted from 0, that is not visible ASCII",
                 visible);
    else
        snprintf(detail, sizeof detail, "has %zu characters; at most %d are allowed", length,
                 INVENTORY_KEY_MAX);
    if (count > 1 || length > 0)
        problem_answer_field(request, "Idempotency-Key", detail);
    else
        problem_answer(request, PROBLEM_KEY_MISSING, detail);
    return false;
}

void idempotency_key_answer(struct http_request *request, int status, const char *body, size_t length,
                            const char *location, bool replayed) {
    const char *const headers[] = {"Location", location, replayed ? "Idempotent-Replayed" : NULL, "true",
                                   NULL};
    http_answer(request, status, "application/json", body, length, location ? headers : headers + 2);
}
