/* struct inventory: the state of each layer. inventory.c opens, hands down and closes them. Only inventory.c
 * and the tests include this. */
#ifndef INVENTORY_LAYERS_H
#define INVENTORY_LAYERS_H

#include "inventory/purchases/purchases.h"
#include "inventory/store/shared.h"
#include "inventory/strategies/strategies.h"
#include "inventory/transactions/transactions_internal.h"

struct inventory {
    struct shared shared;
    struct purchases purchases;
    struct work_delay work_delay;
    struct strategies strategies;
    struct transactions transactions;
    uv_timer_t tick;
    int closing; /* handles that are not closed yet */
};

#endif
