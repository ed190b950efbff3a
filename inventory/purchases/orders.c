/* Orders by themselves: read, pay, confirm, cancel, return. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"

enum { RETURN_NOTE_SIZE = 64 };

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
    char payment[INVENTORY_PAYMENT_MAX + 1]; /* "": none was named */
    char key[INVENTORY_DIGEST_SIZE];         /* RETURN: its note, and the field of that without its + */
    char note[RETURN_NOTE_SIZE];
};

const enum inventory_status step_answers[INVENTORY_STEPS][INVENTORY_STATES] = {
    [INVENTORY_READ] = {INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_OK,
                        INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_CONFIRM] = {INVENTORY_UNAVAILABLE, INVENTORY_UNAVAILABLE, INVENTORY_OK, INVENTORY_OK,
                           INVENTORY_CANCELLED, INVENTORY_EXPIRED, INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_CANCEL] = {INVENTORY_UNAVAILABLE, INVENTORY_IN_PAYMENT, INVENTORY_CONFIRMED,
                          INVENTORY_CONFIRMED, INVENTORY_OK, INVENTORY_EXPIRED, INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_PAY] = {INVENTORY_UNAVAILABLE, INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_CANCELLED,
                       INVENTORY_EXPIRED, INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_RETURN] = {INVENTORY_OVER_RETURN, INVENTORY_OVER_RETURN, INVENTORY_OK, INVENTORY_OK,
                          INVENTORY_CANCELLED, INVENTORY_EXPIRED, INVENTORY_UNKNOWN_ORDER},
};

/* What the script's third word means; OK: there is none. */
static enum inventory_status orders_read_why(const struct redis_value *value) {
    static const struct {
        const char *word;
        enum inventory_status status;
    } reasons[] = {{"too-long", INVENTORY_PAY_TOO_LONG},
                   {"over-return", INVENTORY_OVER_RETURN},
                   {"key-reused", INVENTORY_KEY_REUSED}};
    const char *word = redis_value_count(value) > 2 ? redis_value_text(redis_value_at(value, 2)) : NULL;
    for (size_t i = 0; word && i < sizeof reasons / sizeof *reasons; i++) {
        if (strcmp(reasons[i].word, word) == 0)
            return reasons[i].status;
    }
    return word ? INVENTORY_UNAVAILABLE : INVENTORY_OK;
}

/* Judges the order as it is after the step. */
static enum inventory_status orders_judge(const struct step *step, const struct inventory_order *order,
                                          enum inventory_status why, bool done) {
    bool of_basket =
        step->step == INVENTORY_CONFIRM || step->step == INVENTORY_CANCEL ? order->pending : order->basket[0];
    bool is_confirmed = order->state == INVENTORY_STATE_CONFIRMED || order->state == INVENTORY_STATE_RETURNED;
    enum inventory_status status = step_answers[step->step][order->state];
    if (status == INVENTORY_UNKNOWN_ORDER || step->step == INVENTORY_READ)
        return status;
    if (of_basket)
        return INVENTORY_OF_BASKET;
    if (step->payment[0] && (order->payment[0] || is_confirmed) && strcmp(order->payment, step->payment) != 0)
        return order->payment[0] || step->step == INVENTORY_CONFIRM ? INVENTORY_PAYMENT_DIFFERS
                                                                    : INVENTORY_CONFIRMED;
    if (why != INVENTORY_OK && (status == INVENTORY_OK || why != INVENTORY_OVER_RETURN))
        return why;
    return status == INVENTORY_OK && !done ? INVENTORY_REPLAYED : status;
}

/* Keeps receipts of what the caller is told. */
static void orders_keep(const struct step *step, const struct inventory_order *order,
                        enum inventory_status status) {
    struct sale_keys keys;
    bool is_told = status == INVENTORY_OK || status == INVENTORY_REPLAYED;
    if (step->step == INVENTORY_READ || (!is_told && !order->refund_due))
        return;
    sale_keys_make(&keys, step->item);
    putback_keep_order(step->purchases, router_history(step->purchases->shared->store, keys.item), order,
                       step->digest);
    if (step->step == INVENTORY_RETURN && is_told)
        putback_keep(step->purchases, RECEIPT_MOVE, step->item, step->key, step->note);
}

static void orders_on_step(void *ctx, const struct redis_value *value) {
    struct step *step = ctx;
    enum inventory_status status = store_status(step->purchases->shared, value);
    struct inventory_order order = {.quantity = 0};
    bool found = false;
    if (status == INVENTORY_OK && redis_value_type(value) == REDIS_NIL) {
        status = INVENTORY_UNKNOWN_ORDER;
    } else if (status == INVENTORY_OK) {
        const char *record = redis_value_count(value) > 1 ? redis_value_text(redis_value_at(value, 0)) : NULL;
        found = record && record_read(&order, step->item, step->digest, record);
        status = found ? orders_judge(step, &order, orders_read_why(value),
                                      redis_value_integer(redis_value_at(value, 1), 0) == 1)
                       : INVENTORY_UNAVAILABLE;
        found = found && status != INVENTORY_UNKNOWN_ORDER;
        if (found)
            orders_keep(step, &order, status);
    }
    inventory_order_fn *fn = step->fn;
    void *fn_ctx = step->ctx;
    free(step);
    fn(fn_ctx, status, found ? &order : NULL);
}

static void orders_send(struct step *step, const struct inventory_order_call *call) {
    static const char *const names[] = {"get", "confirm", "cancel", "pay", "return"};
    struct shared *shared = step->purchases->shared;
    struct sale_keys keys;
    struct number arrived = {""}, units = number_of(call->quantity), pay_ms = number_of(call->pay_ms);
    if (call->arrived_ns)
        arrived = number_of(clock_wall_at_ms(shared->config.clock, call->arrived_ns));
    const char *args[SETTLE_ARGS] = {names[call->step], step->digest, arrived.text, call->owner};
    if (call->step == INVENTORY_CONFIRM || call->step == INVENTORY_PAY)
        args[4] = call->payment;
    if (call->step == INVENTORY_PAY && call->pay_ms >= 0)
        args[5] = pay_ms.text;
    if (call->step == INVENTORY_RETURN)
        memcpy(args + 4, (const char *[]){step->key, units.text, call->restock ? "1" : "0"},
               3 * sizeof *args);
    const char *argv[SETTLE_ARGV];
    sale_keys_make(&keys, step->item);
    int count = settle_command(argv, shared, &keys, args);
    router_run(shared->store, &settle_script, count, SCRIPT_ARGV + count + SETTLE_ARGS, argv, orders_on_step,
               step);
}

void inventory_order_step(struct inventory *inventory, const char *id,
                          const struct inventory_order_call *call, inventory_order_fn *fn, void *ctx) {
    const char *digest;
    char item[INVENTORY_NAME_MAX + 1];
    if (!orders_split_id(id, item, &digest)) {
        fn(ctx, INVENTORY_UNKNOWN_ORDER, NULL);
        return;
    }
    struct step *step = malloc(sizeof *step);
    if (!step) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *step = (struct step){.purchases = inventory->purchases, .step = call->step, .fn = fn, .ctx = ctx};
    snprintf(step->item, sizeof step->item, "%s", item);
    snprintf(step->digest, sizeof step->digest, "%s", digest);
    snprintf(step->payment, sizeof step->payment, "%s", call->payment ? call->payment : "");
    snprintf(step->key, sizeof step->key, "%s", call->digest);
    snprintf(step->note, sizeof step->note, "return %lld %d %s", (long long)call->quantity, call->restock,
             digest);
    orders_send(step, call);
}
