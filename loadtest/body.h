/* What the hot path needs from the JSON answer to a purchase, read in place and without an allocation. */
#ifndef LOADTEST_BODY_H
#define LOADTEST_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Points into the bytes that were read; an absent member is NULL with length 0. */
struct body {
    const char *order;
    size_t order_length;
    const char *type; /* the last path segment of a problem's type */
    size_t type_length;
    uint64_t content; /* equal for equal members, whatever their sequence and the white space between */
};

/* False when it is not a JSON object. Checks the shape, not every rule of JSON: strings are not decoded. */
bool body_read(const char *bytes, size_t length, struct body *body);

/* Whether an order's id can stand in a URL as it is. */
bool body_order_usable(const struct body *body);

#endif
