/* Orders by themselves: read, confirm, cancel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"

/* Splits ITEM:DIGEST; false: it cannot be the id of an order. */
static bool orders_split_id(const char *id, char item[INVENTORY_NAME_MAX + 1], const char **digest) {
    const char *colon = strchr(id, ':');
    if (!colon || !inventory_name_valid(id, (size_t)(colon - id)) || !inventory_digest_valid(colon + 1))
        return false;
    memcpy(item, id, (size_t)(colon - id));
    item[colon - id] = '\0';
    *digest = colon + 1;
    return true;
}

struct step {
    struct purchases *purchases;
    enum inventory_step step;
    inventory_order_fn *fn;
    void *ctx;
    char item[INVENTORY_NAME_MAX + 1];
    char digest[INVENTORY_DIGEST_SIZE];
};

const enum inventory_status step_answers[INVENTORY_STEPS][INVENTORY_STATES] = {
    [INVENTORY_READ] = {INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_CONFIRM] = {INVENTORY_UNAVAILABLE, INVENTORY_OK, INVENTORY_CANCELLED, INVENTORY_EXPIRED,
                           INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_CANCEL] = {INVENTORY_UNAVAILABLE, INVENTORY_CONFIRMED, INVENTORY_OK, INVENTORY_EXPIRED,
                          INVENTORY_UNKNOWN_ORDER},
};

static void orders_on_step(void *ctx, const struct redis_value *value) {
    struct step *step = ctx;
    enum inventory_status status = store_status(step->purchases->shared, value);
    struct inventory_order order = {.quantity = 0};
    bool found = false;
    if (status == INVENTORY_OK) {
        const char *record = redis_value_text(value);
        if (redis_value_type(value) == REDIS_NIL) {
            status = INVENTORY_UNKNOWN_ORDER;
        } else if (record && record_read(&order, step->item, step->digest, record)) {
            status = step_answers[step->step][order.state];
            if (order.pending && step->step != INVENTORY_READ)
                status = INVENTORY_OF_BASKET;
            found = status != INVENTORY_UNKNOWN_ORDER;
            if (status == INVENTORY_OK && step->step != INVENTORY_READ)
                putback_keep(step->purchases, RECEIPT_ORDER, step->item, step->digest, record);
        } else {
            status = INVENTORY_UNAVAILABLE;
        }
    }
    inventory_order_fn *fn = step->fn;
    void *fn_ctx = step->ctx;
    free(step);
    fn(fn_ctx, status, found ? &order : NULL);
}

void inventory_order_step(struct inventory *inventory, const char *id,
                          const struct inventory_order_call *wanted, inventory_order_fn *fn, void *ctx) {
    struct shared *shared = &inventory->shared;
    static const char *const names[] = {"get", "confirm", "cancel"};
    const char *digest;
    char item[INVENTORY_NAME_MAX + 1];
    if (!orders_split_id(id, item, &digest)) {
        fn(ctx, INVENTORY_UNKNOWN_ORDER, NULL);
        return;
    }
    struct step *call = malloc(sizeof *call);
    if (!call) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *call = (struct step){.purchases = inventory->purchases, .step = wanted->step, .fn = fn, .ctx = ctx};
    snprintf(call->item, sizeof call->item, "%s", item);
    snprintf(call->digest, sizeof call->digest, "%s", digest);
    struct sale_keys keys;
    sale_keys_make(&keys, item);
    struct number arrived = {""};
    if (wanted->arrived_ns)
        arrived = number_of(clock_wall_at_ms(shared->config.clock, wanted->arrived_ns));
    const char *argv[SETTLE_ARGV];
    int count = settle_command(argv, shared, &keys,
                               (const char *[SETTLE_ARGS]){names[wanted->step], digest, arrived.text,
                                                           wanted->owner ? wanted->owner : ""});
    router_run(shared->store, &settle_script, count, SCRIPT_ARGV + count + SETTLE_ARGS, argv, orders_on_step,
               call);
}
