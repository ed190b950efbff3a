/* Parses a response in one piece and in several: the results must be equal, and so must the JSON in it. The
 * first byte is the size of the pieces. */
#include <stdlib.h>
#include <string.h>

#include "loadtest/http/http_response.h"
#include "loadtest/judge/answer_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good) {
    if (!good)
        abort();
}

static void check_text(const struct response *response, struct body_text text) {
    check(text.bytes == NULL || (text.bytes >= response->body &&
                                 text.bytes + text.length <= response->body + response->body_length));
}

static void check_body(const struct response *response, const struct body *body) {
    const struct body_text texts[] = {body->order, body->basket, body->transfer, body->type, body->item,
                                      body->user,  body->state,  body->from,     body->to,   body->orders};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_text(response, texts[i]);
    body_id_usable(body->order);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct response whole;
    static struct response pieces;
    if (size < 2)
        return 0;
    size_t piece = data[0] > 0 ? data[0] : 1;
    const char *bytes = (const char *)data + 1;
    size_t length = size - 1;
    size_t used = 0;
    size_t at = 0;
    response_reset(&whole);
    response_reset(&pieces);
    enum response_status status = response_feed(&whole, bytes, length, &used);
    enum response_status in_pieces = RESPONSE_MORE;
    while (in_pieces == RESPONSE_MORE && at < length) {
        size_t taken = 0;
        in_pieces = response_feed(&pieces, bytes + at, length - at < piece ? length - at : piece, &taken);
        at += taken;
    }
    check(in_pieces == status);
    check(status != RESPONSE_DONE || at == used);
    check(status == RESPONSE_BAD || pieces.body_length == whole.body_length);
    check(status == RESPONSE_BAD || memcmp(pieces.body, whole.body, whole.body_length) == 0);

    struct body body;
    if (status == RESPONSE_DONE && body_read(whole.body, whole.body_length, &body)) {
        check_body(&whole, &body);
        struct body_text orders = body.orders;
        struct body order;
        while (body_next_order(&orders, &order)) {
            check_text(&whole, orders);
            check_body(&whole, &order);
        }
    }
    return 0;
}
