/* The members of a JSON answer that the auditor needs, read in place, without an allocation: it runs once for
 * each request. (books.c reads the audits with jansson.) */
#ifndef LOADTEST_JUDGE_BODY_H
#define LOADTEST_JUDGE_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of the bytes that were read; NULL and length 0: absent. */
struct body_text {
    const char *bytes;
    size_t length;
};

struct body {
    struct body_text order, basket, transfer;
    struct body_text type; /* the last path segment of a problem's type */
    struct body_text item; /* an order's, or the one that a problem names */
    struct body_text user, state, from, to;
    struct body_text orders; /* the text between the brackets, for body_next_order */
    uint64_t quantity;       /* 0: absent, or no whole number */
    /* A hash of the members, except `orders`; independent of their order and of white space. */
    uint64_t content;
};

/* False if it is not a JSON object. Checks the structure, not every rule of JSON; does not decode strings. */
bool body_read(const char *bytes, size_t length, struct body *body);

/* Removes the first one from `orders`. False if none is left, or the rest is not an object. */
bool body_next_order(struct body_text *orders, struct body *order);

/* Whether an id can be part of a URL as it is. */
bool body_id_usable(struct body_text id);

bool body_text_equals(struct body_text a, struct body_text b);
bool body_text_is(struct body_text text, const char *word);

#endif
