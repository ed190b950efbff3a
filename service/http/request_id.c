/* The names of a request in logs: X-Request-Id and traceparent, taken from the request or made up. */
#include <sodium.h>
#include <string.h>

#include "service/http/http_internal.h"

enum {
    /* 00-TRACE-SPAN-FLAGS of W3C Trace Context. */
    TRACE_AT = HTTP_TRACE_ID_AT,
    SPAN_AT = TRACE_AT + HTTP_TRACE_ID_LENGTH + 1,
    SPAN_LENGTH = 16,
    FLAGS_AT = SPAN_AT + SPAN_LENGTH + 1,
};

/* ---- made up ---- */

void http_random_open(struct http_random *random) {
    randombytes_buf(random->seed, sizeof random->seed);
    random->used = sizeof random->bytes;
}

/* Writes so many random digits, and a NUL. A system call for each request would take longer than all else
 * here. So the bytes come from a stream cipher, in blocks; each block begins with the key of the next one, so
 * that no block tells an earlier one. */
static void random_print(struct http_random *random, char *out, size_t digits) {
    size_t size = digits / 2;
    if (size > sizeof random->bytes - random->used) {
        randombytes_buf_deterministic(random->bytes, sizeof random->bytes, random->seed);
        memcpy(random->seed, random->bytes, sizeof random->seed);
        random->used = sizeof random->seed;
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = random->bytes[random->used++];
        *out++ = "0123456789abcdef"[byte >> 4];
        *out++ = "0123456789abcdef"[byte & 15];
    }
    *out = '\0';
}

void http_ids_complete(struct http_ids *ids, struct http_random *random) {
    if (!*ids->request_id)
        random_print(random, ids->request_id, HTTP_MADE_ID_LENGTH);
    if (*ids->traceparent)
        return;
    memcpy(ids->traceparent, "00-", TRACE_AT);
    random_print(random, ids->traceparent + TRACE_AT, HTTP_TRACE_ID_LENGTH);
    ids->traceparent[SPAN_AT - 1] = '-';
    random_print(random, ids->traceparent + SPAN_AT, SPAN_LENGTH);
    memcpy(ids->traceparent + FLAGS_AT - 1, "-00", 4); /* nobody has asked that the trace be recorded */
}

/* ---- taken ---- */

/* What is taken goes into a header of the answer and into the log, so it needs no escaping in either. */
static bool is_request_id(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~' || strchr("\"\\,;", text[i]))
            return false;
    return length >= 1 && length <= HTTP_REQUEST_ID_MAX;
}

/* Whether there are so many hexadecimal digits, in lower case; `zero` says whether all may be 0. */
static bool is_hex(const char *text, size_t length, bool zero) {
    size_t zeros = 0;
    for (size_t i = 0; i < length; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
        zeros += text[i] == '0';
    }
    return zero || zeros < length;
}

/* Of a version that is not known yet, the part that version 00 has is read; more may follow it. */
static bool is_traceparent(const char *text, size_t length) {
    return length >= HTTP_TRACEPARENT_LENGTH && is_hex(text, 2, true) && memcmp(text, "ff", 2) != 0 &&
           text[TRACE_AT - 1] == '-' && is_hex(text + TRACE_AT, HTTP_TRACE_ID_LENGTH, false) &&
           text[SPAN_AT - 1] == '-' && is_hex(text + SPAN_AT, SPAN_LENGTH, false) &&
           text[FLAGS_AT - 1] == '-' && is_hex(text + FLAGS_AT, 2, true) &&
           (length == HTTP_TRACEPARENT_LENGTH ||
            (memcmp(text, "00", 2) != 0 && text[HTTP_TRACEPARENT_LENGTH] == '-'));
}

static size_t header_length(const struct http_header *header) {
    size_t length = header->length;
    while (length && (header->value[length - 1] == ' ' || header->value[length - 1] == '\t'))
        length--;
    return length;
}

/* Of two headers of a name neither is taken: a proxy on the way may have meant the other one. */
void http_ids_take(struct http_ids *ids, struct http_random *random, const struct http_header *request_id,
                   const struct http_header *traceparent) {
    *ids->request_id = *ids->traceparent = '\0';
    size_t length = request_id->count == 1 ? header_length(request_id) : 0;
    if (length && is_request_id(request_id->value, length)) {
        memcpy(ids->request_id, request_id->value, length);
        ids->request_id[length] = '\0';
    }
    length = traceparent->count == 1 ? header_length(traceparent) : 0;
    if (length && is_traceparent(traceparent->value, length)) {
        memcpy(ids->traceparent, traceparent->value, HTTP_TRACEPARENT_LENGTH);
        memcpy(ids->traceparent, "00", 2);
        random_print(random, ids->traceparent + SPAN_AT, SPAN_LENGTH); /* our part of the trace */
        ids->traceparent[FLAGS_AT - 1] = '-';
        ids->traceparent[HTTP_TRACEPARENT_LENGTH] = '\0';
    }
}
