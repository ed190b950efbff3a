/* What each key asks for: a purchase, a basket or a transfer, and of which items. It follows from the seed
 * and the key's number alone, so that a retry or a duplicate sends the very same request, and no line of the
 * ledger stores it. */
#ifndef LOADTEST_PLAN_DEMAND_H
#define LOADTEST_PLAN_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "loadtest/options.h"

enum demand_kind { DEMAND_PURCHASE, DEMAND_BASKET, DEMAND_TRANSFER, DEMAND_KINDS };

/* What one key asks for; of each item --quantity units. */
struct wish {
    enum demand_kind kind;
    unsigned count;
    uint32_t items[OPTIONS_LINES]; /* a basket's in the sequence of its lines; a transfer's: from, to */
};

struct demand {
    const struct options *options;
    double *shares; /* of each item and all before it together; NULL: the items are drawn alike */
};

/* False when there is no memory. The options must outlive it. */
bool demand_init(struct demand *demand, const struct options *options);
void demand_free(struct demand *demand);

void demand_of_key(const struct demand *demand, uint32_t key, struct wish *wish);

/* Whether any key asks for that. */
bool demand_has(const struct demand *demand, enum demand_kind kind);

#endif
