/* The plan: which request each key stands for (a purchase, a basket or a transfer, and of which items), and
 * the bytes of that request. It follows from the seed and the number of the key alone, so that a retry or a
 * duplicate sends the same request again, and the request log need not store it. */
#ifndef LOADTEST_REQUEST_PLAN_H
#define LOADTEST_REQUEST_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/load_options.h"

enum request_kind { REQUEST_PURCHASE, REQUEST_BASKET, REQUEST_TRANSFER, REQUEST_KINDS };

/* "purchases", "baskets", "transfers": in paths and in reports. */
extern const char *const request_kind_names[REQUEST_KINDS];

/* What one key requests; --quantity units of each item. */
struct planned_request {
    enum request_kind kind;
    unsigned count;
    uint32_t items[OPTIONS_LINES]; /* of a basket: one for each line; of a transfer: from, to */
};

struct plan {
    const struct options *options;
    double *shares; /* cumulative: of each item and all before it; NULL: all items are equally likely */
};

/* False when out of memory. The options must outlive the plan. */
bool plan_init(struct plan *plan, const struct options *options);
void plan_free(struct plan *plan);

void plan_of_key(const struct plan *plan, uint32_t key, struct planned_request *planned);

/* True: some keys request this kind. */
bool plan_has(const struct plan *plan, enum request_kind kind);

/* ---- names: of items and users ---- */

#define ITEM_NAME_SIZE (OPTIONS_ITEM + 1)

/* Items have numbers. Without --items there is one, NAME; with --items N they are NAME-0 to NAME-(N-1). */
uint32_t item_count(const struct options *options);
void item_name(const struct options *options, uint32_t item, char name[ITEM_NAME_SIZE]);

/* True: `text` is the name of that item. */
bool item_is(const struct options *options, uint32_t item, const char *text, size_t length);

#define USER_DIGITS    8
#define USER_NAME_SIZE (USER_DIGITS + 2)

/* Users are u00000000 and up, the same in every run. */
void user_name(uint32_t user, char name[USER_NAME_SIZE]);

/* ---- the bytes of a request ---- */

#define RUN_DIGITS 16 /* hexadecimal digits of the name of a run */

/* A whole request of one kind for one target, in which only the digits of key, items and user change. Blanks
 * after a shorter item number keep the length the same. */
struct request_template {
    char text[POOL_REQUEST_SIZE];
    size_t length;
    size_t key_at;
    size_t user_at; /* 0: the request has no user */
    unsigned item_count;
    unsigned item_digits;          /* reserved for each number; 0: the item has no number */
    size_t item_at[OPTIONS_LINES]; /* where the numbers are */
};

/* Keys are sl-RUN-NUMBER; `run` is random, so that no other run repeats them. `host`: of the target. */
void request_template_init(struct request_template *template, enum request_kind kind, const char *host,
                           const struct options *options, const char *run);

/* Writes the request into `request` (POOL_REQUEST_SIZE bytes) and returns its length. `planned` has the kind
 * of the template. */
size_t request_render(const struct request_template *template, uint32_t key, uint32_t user,
                      const struct planned_request *planned, char *request);

#endif
