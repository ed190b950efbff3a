#include "service/api/plain_purchase.h"

#include <string.h>

struct reader {
    const char *at, *end;
};

static bool at_end(struct reader *reader) {
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
    return reader->at == reader->end;
}

static bool take(struct reader *reader, char c) {
    if (at_end(reader) || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* Reads a string that is a valid name, so it has no escapes. */
static bool take_name(struct reader *reader, char out[INVENTORY_NAME_MAX + 1]) {
    if (!take(reader, '"'))
        return false;
    const char *quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
    if (!quote || !inventory_name_valid(reader->at, (size_t)(quote - reader->at)))
        return false;
    size_t length = (size_t)(quote - reader->at);
    memcpy(out, reader->at, length);
    out[length] = '\0';
    reader->at = quote + 1;
    return true;
}

/* Reads digits that do not begin with 0. A comma or brace must follow, so no digit is left out. */
static bool take_quantity(struct reader *reader, int64_t *out) {
    int64_t quantity = 0;
    if (at_end(reader) || *reader->at == '0')
        return false;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        quantity = quantity * 10 + (*reader->at - '0');
        if (quantity > INVENTORY_QUANTITY_MAX)
            return false;
    }
    *out = quantity;
    return quantity > 0;
}

bool plain_read_purchase(const char *body, size_t length, struct codec_purchase *purchase) {
    struct reader reader = {body, body + length};
    struct codec_purchase read;
    enum { ITEM = 1, USER = 2, QUANTITY = 4 };
    unsigned int seen = 0;
    for (int i = 0; i < 3; i++) {
        char name[INVENTORY_NAME_MAX + 1];
        if (!take(&reader, i == 0 ? '{' : ',') || !take_name(&reader, name) || !take(&reader, ':'))
            return false;
        unsigned int field;
        if (strcmp(name, "item") == 0 && take_name(&reader, read.item))
            field = ITEM;
        else if (strcmp(name, "user") == 0 && take_name(&reader, read.user))
            field = USER;
        else if (strcmp(name, "quantity") == 0 && take_quantity(&reader, &read.quantity))
            field = QUANTITY;
        else
            return false;
        if (seen & field)
            return false;
        seen |= field;
    }
    if (!take(&reader, '}') || !at_end(&reader))
        return false;
    *purchase = read;
    return true;
}
