/* The JSON body of an answer: its members that the judge needs. Reads in place and without an allocation,
 * since it runs once for each request. (fetch_books.c reads the audits with jansson.) No I/O. */
#ifndef LOADTEST_JUDGE_ANSWER_BODY_H
#define LOADTEST_JUDGE_ANSWER_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of the bytes that were read, without a NUL behind it. NULL and length 0: absent. */
struct body_text {
    const char *bytes;
    size_t length;
};

struct body {
    struct body_text order, basket, transfer;
    struct body_text type; /* the last path segment of a problem's type */
    struct body_text item; /* of an order, or the one that a problem names */
    struct body_text user, state, from, to;
    struct body_text orders; /* the text between the brackets, for body_next_order */
    uint64_t quantity;       /* 0: absent, or no whole number */
    /* A hash of the members, except `orders`; independent of their order and of white space. */
    uint64_t content;
};

/* False if the bytes are not a JSON object. Checks the structure, not every rule of JSON; does not decode
 * strings. The pieces in `body` point into `bytes`. */
bool body_read(const char *bytes, size_t length, struct body *body);

/* Reads the first order, and removes it from `orders`. False if none is left, or the next one is no object.
 */
bool body_next_order(struct body_text *orders, struct body *order);

/* True: the id can be part of a URL as it is. */
bool body_id_usable(struct body_text id);

bool body_text_equals(struct body_text a, struct body_text b);
bool body_text_is(struct body_text text, const char *word);

#endif
