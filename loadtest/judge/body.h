/* What the hot path needs from the JSON answer to a request, read in place and without an allocation. */
#ifndef LOADTEST_JUDGE_BODY_H
#define LOADTEST_JUDGE_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Some of the bytes that were read; NULL with length 0: not there. */
struct body_text {
    const char *bytes;
    size_t length;
};

struct body {
    struct body_text order;
    struct body_text basket;
    struct body_text transfer;
    struct body_text type; /* the last path segment of a problem's type */
    struct body_text item; /* of an order, or that a problem is about */
    struct body_text user;
    struct body_text state;
    struct body_text from;
    struct body_text to;
    struct body_text orders; /* what is between the brackets, for body_next_order */
    uint64_t quantity;       /* 0: not there, or no whole number */
    uint64_t content; /* equal for equal members, whatever their sequence and the white space between; without
                         `orders`, each of which has its own */
};

/* False when it is not a JSON object. Checks the shape, not every rule of JSON: strings are not decoded. */
bool body_read(const char *bytes, size_t length, struct body *body);

/* Takes the first of `orders` off them. False when there is none left, or what is left is no object. */
bool body_next_order(struct body_text *orders, struct body *order);

/* Whether an id can stand in a URL as it is. */
bool body_id_usable(struct body_text id);

#endif
