/* What a purchase looks like on the wire, and what its answer means for the ledger. */
#ifndef LOADTEST_PURCHASE_H
#define LOADTEST_PURCHASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadtest/client.h"
#include "loadtest/ledger.h"
#include "loadtest/options.h"
#include "loadtest/pool.h"

#define PURCHASE_KEY_DIGITS  10
#define PURCHASE_USER_DIGITS 8
#define PURCHASE_RUN         16 /* hex digits */

/* A whole request for one target; only the digits of key, item and user change. A shorter number of an item
 * is followed by blanks, so that the length stays the same. */
struct purchase_form {
    const struct options *options;
    char text[CLIENT_REQUEST];
    size_t length;
    size_t key_at;
    size_t item_at;       /* of its number */
    unsigned item_digits; /* room for it; 0: the item has none */
    size_t user_at;
};

/* Keys are sl-RUN-NUMBER: another run repeats none of them. Users are u00000000 and up, in every run the
 * same. The options must outlive the form. */
void purchase_form_init(struct purchase_form *form, const char *host, const struct options *options,
                        const char *run);

/* Writes the request into `request` (CLIENT_REQUEST bytes) and returns its length. */
size_t purchase_render(const struct purchase_form *form, uint32_t key, uint32_t user, char *request);

/* The name under which `user` buys. */
void purchase_user(uint32_t user, char name[PURCHASE_USER_DIGITS + 2]);

/* Writes what one try came to into its line. Afterwards the line is not open any more. */
void purchase_judge(struct ledger *ledger, struct ledger_line *line, const struct pool_answer *answer);

#endif
