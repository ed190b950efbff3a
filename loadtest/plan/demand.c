#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "loadtest/plan/demand.h"
#include "loadtest/plan/item.h"

const char *const demand_kind_names[DEMAND_KINDS] = {"purchases", "baskets", "transfers"};

bool demand_init(struct demand *demand, const struct options *options) {
    struct demand made = {.options = options};
    if (options->zipf > 0) {
        uint32_t count = item_count(options);
        double sum = 0;
        made.shares = calloc(count, sizeof *made.shares);
        if (made.shares == NULL)
            return false;
        for (uint32_t i = 0; i < count; i++) {
            sum += pow(i + 1.0, -options->zipf);
            made.shares[i] = sum;
        }
    }
    *demand = made;
    return true;
}

void demand_free(struct demand *demand) {
    free(demand->shares);
    demand->shares = NULL;
}

static uint32_t draw(const struct demand *demand, uint64_t *random) {
    const double *shares = demand->shares;
    uint32_t count = item_count(demand->options);
    if (shares == NULL)
        return (uint32_t)(random_next(random) % count);
    /* A number below the sum of all shares, and the first item whose cumulative share exceeds it. */
    double drawn = (double)(random_next(random) >> 11) * 0x1p-53 * shares[count - 1];
    uint32_t low = 0;
    uint32_t high = count - 1; /* also if the product was rounded up to the sum */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shares[middle] > drawn)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void demand_of_key(const struct demand *demand, uint32_t key, struct wish *wish) {
    const struct options *o = demand->options;
    uint64_t random = o->seed;
    random = random_next(&random) ^ key; /* another sequence than the one that chooses duplicates */
    uint64_t percent = o->purchases + o->transfers > 0 ? random_next(&random) % 100 : 0;
    if (percent < o->transfers) {
        wish->kind = DEMAND_TRANSFER;
        wish->count = 2;
        wish->items[0] = draw(demand, &random);
        do {
            wish->items[1] = draw(demand, &random);
        } while (wish->items[1] == wish->items[0]);
        return;
    }
    bool basket = o->basket_lines > 0 && percent >= o->transfers + o->purchases;
    wish->kind = basket ? DEMAND_BASKET : DEMAND_PURCHASE;
    wish->count = basket ? o->basket_lines : 1;
    for (unsigned i = 0; i < wish->count; i++)
        wish->items[i] = draw(demand, &random);
}

bool demand_has(const struct demand *demand, enum demand_kind kind) {
    const struct options *o = demand->options;
    switch (kind) {
    case DEMAND_TRANSFER: return o->transfers > 0;
    case DEMAND_BASKET: return o->transfers + o->purchases < 100 && o->basket_lines > 0;
    default: return o->basket_lines > 0 ? o->purchases > 0 : o->transfers < 100;
    }
}
