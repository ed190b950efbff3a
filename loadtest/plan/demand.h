/* The plan: what each key requests, a purchase, a basket or a transfer, and of which items. It follows from
 * the seed and the number of the key alone, so that a retry or a duplicate sends the same request, and the
 * request log need not store it. */
#ifndef LOADTEST_PLAN_DEMAND_H
#define LOADTEST_PLAN_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "loadtest/options.h"

enum demand_kind { DEMAND_PURCHASE, DEMAND_BASKET, DEMAND_TRANSFER, DEMAND_KINDS };

/* "purchases", "baskets", "transfers": in paths and in reports. */
extern const char *const demand_kind_names[DEMAND_KINDS];

/* What one key requests; --quantity units of each item. */
struct wish {
    enum demand_kind kind;
    unsigned count;
    uint32_t items[OPTIONS_LINES]; /* of a basket: one for each line; of a transfer: from, to */
};

struct demand {
    const struct options *options;
    double *shares; /* cumulative: of each item and all before it; NULL: all items are equally likely */
};

/* False when out of memory. The options must outlive it. */
bool demand_init(struct demand *demand, const struct options *options);
void demand_free(struct demand *demand);

void demand_of_key(const struct demand *demand, uint32_t key, struct wish *wish);

/* True: some keys request this kind. */
bool demand_has(const struct demand *demand, enum demand_kind kind);

#endif
