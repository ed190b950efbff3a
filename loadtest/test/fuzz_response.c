/* A response in one piece and the same in pieces must come to the same, and so must the JSON in it. The first
 * byte is the size of the pieces. */
#include <stdlib.h>
#include <string.h>

#include "loadtest/body.h"
#include "loadtest/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good) {
    if (!good)
        abort();
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
        check(body.order == NULL ||
              (body.order >= whole.body && body.order + body.order_length <= whole.body + whole.body_length));
        check(body.type == NULL ||
              (body.type >= whole.body && body.type + body.type_length <= whole.body + whole.body_length));
        body_order_usable(&body);
    }
    return 0;
}
