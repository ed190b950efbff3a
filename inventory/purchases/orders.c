/* Orders: ids, records, and what becomes of a hold. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/internal.h"

/* By enum inventory_state; a held order of a basket is `b`. */
static const char state_letters[] = "hcxeub";
enum { STATE_OF_BASKET = INVENTORY_STATES };

const char *inventory_state_name(enum inventory_state state) {
    static const char *const names[] = {"held", "confirmed", "cancelled", "expired", "undone"};
    return names[state];
}

void inventory_key_digest(const char *key, size_t length, char digest[INVENTORY_DIGEST_SIZE]) {
    unsigned char hash[16];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)key, length, NULL, 0);
    sodium_bin2base64(digest, INVENTORY_DIGEST_SIZE, hash, sizeof hash,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

bool inventory_digest_valid(const char *text) {
    static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return strspn(text, base64url) == INVENTORY_DIGEST_SIZE - 1 && text[INVENTORY_DIGEST_SIZE - 1] == '\0';
}

void record_print(char out[RECORD_SIZE], const struct inventory_order *order) {
    int length = snprintf(out, RECORD_SIZE, "%c %lld %s %lld",
                          state_letters[order->pending ? STATE_OF_BASKET : (int)order->state],
                          (long long)order->quantity, order->user, (long long)order->created_ms);
    if (order->expires_ms || order->basket[0])
        length += snprintf(out + length, RECORD_SIZE - (size_t)length, " %lld", (long long)order->expires_ms);
    if (order->basket[0])
        snprintf(out + length, RECORD_SIZE - (size_t)length, " %s", order->basket);
}

/* Reads digits up to a blank or the end and steps over the blank; false where there are none, or too many, or
 * nothing after the blank. */
static bool read_number(const char **at, int64_t *number) {
    const char *start = *at, *p = start;
    int64_t value = 0;
    while (*p >= '0' && *p <= '9' && p - start < 16)
        value = value * 10 + (*p++ - '0');
    if (p == start || (*p && (*p != ' ' || !p[1])))
        return false;
    *number = value;
    *at = *p ? p + 1 : p;
    return true;
}

/* The rest of a record after CREATED_MS: EXPIRES_MS, and that and BASKET. */
static bool read_rest(const char *at, struct inventory_order *order) {
    if (*at && !read_number(&at, &order->expires_ms))
        return false;
    if (*at && !inventory_digest_valid(at))
        return false;
    snprintf(order->basket, sizeof order->basket, "%s", at);
    return true;
}

bool record_read(struct inventory_order *order, const char *item, const char *digest, const char *record) {
    struct inventory_order read = {.quantity = 0};
    const char *letter = record[0] ? strchr(state_letters, record[0]) : NULL;
    if (!letter || record[1] != ' ')
        return false;
    read.pending = letter - state_letters == STATE_OF_BASKET;
    read.state = read.pending ? INVENTORY_STATE_HELD : (enum inventory_state)(letter - state_letters);
    const char *at = record + 2;
    if (!read_number(&at, &read.quantity))
        return false;
    size_t user_length = strcspn(at, " ");
    if (user_length == 0 || user_length > INVENTORY_NAME_MAX || at[user_length] != ' ')
        return false;
    memcpy(read.user, at, user_length);
    at += user_length + 1;
    if (!read_number(&at, &read.created_ms) || !read_rest(at, &read))
        return false;
    /* Only a hold can have a time to expire at, and only a confirmed order can do without, or a basket's. */
    if (read.expires_ms == 0 && read.state != INVENTORY_STATE_CONFIRMED && !read.basket[0])
        return false;
    bool by_basket = read.pending || read.state == INVENTORY_STATE_UNDONE;
    bool by_itself = read.state == INVENTORY_STATE_HELD && !read.pending;
    if (read.basket[0] ? by_itself : by_basket)
        return false;
    snprintf(read.item, sizeof read.item, "%s", item);
    snprintf(read.id, sizeof read.id, "%s:%s", item, digest);
    *order = read;
    return true;
}

/* ITEM:DIGEST -> its halves; false where it cannot be an order's id. */
static bool split_id(const char *id, char item[INVENTORY_NAME_MAX + 1], const char **digest) {
    const char *colon = strchr(id, ':');
    if (!colon || !inventory_name_valid(id, (size_t)(colon - id)) || !inventory_digest_valid(colon + 1))
        return false;
    memcpy(item, id, (size_t)(colon - id));
    item[colon - id] = '\0';
    *digest = colon + 1;
    return true;
}

struct step {
    struct inventory *inventory;
    enum inventory_step step;
    inventory_order_fn *fn;
    void *ctx;
    char item[INVENTORY_NAME_MAX + 1];
    char digest[INVENTORY_DIGEST_SIZE];
};

/* What a step answers where the order ends in a state, by step and state. */
static const enum inventory_status step_answers[3][INVENTORY_STATES] = {
    [INVENTORY_READ] = {INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_OK, INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_CONFIRM] = {INVENTORY_UNAVAILABLE, INVENTORY_OK, INVENTORY_CANCELLED, INVENTORY_EXPIRED,
                           INVENTORY_UNKNOWN_ORDER},
    [INVENTORY_CANCEL] = {INVENTORY_UNAVAILABLE, INVENTORY_CONFIRMED, INVENTORY_OK, INVENTORY_EXPIRED,
                          INVENTORY_UNKNOWN_ORDER},
};

static void on_step(void *ctx, const struct redis_value *value) {
    struct step *step = ctx;
    enum inventory_status status = store_status(step->inventory, value);
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
        } else {
            status = INVENTORY_UNAVAILABLE;
        }
    }
    inventory_order_fn *fn = step->fn;
    void *fn_ctx = step->ctx;
    free(step);
    fn(fn_ctx, status, found ? &order : NULL);
}

void inventory_order_step(struct inventory *inventory, const char *id, enum inventory_step step,
                          int64_t arrived_ns, inventory_order_fn *fn, void *ctx) {
    static const char *const names[] = {"get", "confirm", "cancel"};
    const char *digest;
    char item[INVENTORY_NAME_MAX + 1];
    if (!split_id(id, item, &digest)) {
        fn(ctx, INVENTORY_UNKNOWN_ORDER, NULL);
        return;
    }
    struct step *call = malloc(sizeof *call);
    if (!call) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *call = (struct step){.inventory = inventory, .step = step, .fn = fn, .ctx = ctx};
    snprintf(call->item, sizeof call->item, "%s", item);
    snprintf(call->digest, sizeof call->digest, "%s", digest);
    struct sale_keys keys;
    sale_keys_make(&keys, item);
    char arrived[24] = "";
    if (arrived_ns)
        snprintf(arrived, sizeof arrived, "%lld",
                 (long long)clock_wall_at_ms(inventory->config.clock, arrived_ns));
    const char *argv[] = {NULL,       NULL,        NULL,        keys.item, keys.orders, keys.users,
                          keys.holds, keys.events, names[step], digest,    arrived};
    if (!script_call(inventory, SCRIPT_SETTLE, 5, 11, argv, on_step, call)) {
        free(call);
        fn(ctx, INVENTORY_UNAVAILABLE, NULL);
        return;
    }
    redis_flush(inventory->redis);
}
