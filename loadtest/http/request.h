/* A request as bytes. */
#ifndef LOADTEST_HTTP_REQUEST_H
#define LOADTEST_HTTP_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "loadtest/http/connection.h"
#include "loadtest/options.h"
#include "loadtest/plan/demand.h"

#define REQUEST_KEY_DIGITS  10
#define REQUEST_USER_DIGITS 8
#define REQUEST_RUN         16 /* hex digits */

/* A template: a whole request of one kind for one target, in which only the digits of key, items and user
 * change. Blanks after a shorter item number keep the length the same. */
struct request_form {
    char text[REQUEST_SIZE];
    size_t length;
    size_t key_at;
    size_t user_at; /* 0: it has no user */
    unsigned item_count;
    unsigned item_digits;          /* reserved for each number; 0: the item has no number */
    size_t item_at[OPTIONS_LINES]; /* where the numbers are */
};

/* Keys are sl-RUN-NUMBER, which no other run repeats. Users are u00000000 and up, the same in every run. */
void request_form_init(struct request_form *form, enum demand_kind kind, const char *host,
                       const struct options *options, const char *run);

/* Writes the request into `request` (REQUEST_SIZE bytes) and returns its length. `wish` has the form's kind.
 */
size_t request_render(const struct request_form *form, uint32_t key, uint32_t user, const struct wish *wish,
                      char *request);

/* The name of a user. */
void request_user(uint32_t user, char name[REQUEST_USER_DIGITS + 2]);

#endif
