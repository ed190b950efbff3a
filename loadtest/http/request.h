/* What a request looks like on the wire. */
#ifndef LOADTEST_HTTP_REQUEST_H
#define LOADTEST_HTTP_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "loadtest/http/client.h"
#include "loadtest/options.h"
#include "loadtest/plan/demand.h"

#define REQUEST_KEY_DIGITS  10
#define REQUEST_USER_DIGITS 8
#define REQUEST_RUN         16 /* hex digits */

/* A whole request of one kind for one target; only the digits of key, items and user change. A shorter number
 * of an item is followed by blanks, so that the length stays the same. */
struct request_form {
    char text[CLIENT_REQUEST];
    size_t length;
    size_t key_at;
    size_t user_at; /* 0: it names none */
    unsigned item_count;
    unsigned item_digits;          /* room for each number; 0: the item has none */
    size_t item_at[OPTIONS_LINES]; /* of the numbers */
};

/* Keys are sl-RUN-NUMBER: another run repeats none of them. Users are u00000000 and up, in every run the
 * same. */
void request_form_init(struct request_form *form, enum demand_kind kind, const char *host,
                       const struct options *options, const char *run);

/* Writes the request into `request` (CLIENT_REQUEST bytes) and returns its length. The wish is of the form's
 * kind. */
size_t request_render(const struct request_form *form, uint32_t key, uint32_t user, const struct wish *wish,
                      char *request);

/* The name under which `user` buys. */
void request_user(uint32_t user, char name[REQUEST_USER_DIGITS + 2]);

#endif
