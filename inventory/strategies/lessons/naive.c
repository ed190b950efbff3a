/* Strategies that teach: `naive`, and the same body under a lock, `locked`.
 *
 * It reads how many units are left, compares, and writes what it worked out. Whoever read the same number in
 * between is overwritten: two are sold, one is taken. `work_delay_ms` makes the gap as wide as a payment call
 * would. Under a lock that holds for all who sell it is right; under one that does not, it shows that. Where
 * the lock gave a fence, fenced.c looks and writes, and a holder that another has overtaken writes nothing;
 * where it gave an epoch alone, fenced.c looks.
 */
#include "inventory/internal.h"

enum { DELAY_TICK_MS = 1 };

/* ---- the delay ---- */

static void on_delay(uv_timer_t *timer) {
    struct inventory *inventory = timer->data;
    int64_t now_ms = clock_mono_ms(inventory->config.clock);
    while (inventory->delayed && inventory->delayed->due_ms <= now_ms) {
        struct delayed *delayed = inventory->delayed;
        inventory->delayed = delayed->next;
        delayed->fn(delayed->ctx, false);
    }
    if (!inventory->delayed)
        uv_timer_stop(timer);
}

void naive_delay(struct inventory *inventory, struct delayed *delayed, void (*fn)(void *ctx, bool closing),
                 void *ctx) {
    int delay_ms = inventory->config.work_delay_ms;
    if (delay_ms == 0) {
        fn(ctx, false);
        return;
    }
    *delayed =
        (struct delayed){.due_ms = clock_mono_ms(inventory->config.clock) + delay_ms, .fn = fn, .ctx = ctx};
    if (inventory->delayed)
        inventory->delayed_last->next = delayed;
    else
        inventory->delayed = delayed;
    inventory->delayed_last = delayed;
    if (!uv_is_active((const uv_handle_t *)&inventory->delay)) /* to start it again would put it off */
        uv_timer_start(&inventory->delay, on_delay, DELAY_TICK_MS, DELAY_TICK_MS);
}

void naive_close(struct inventory *inventory) {
    while (inventory->delayed) {
        struct delayed *delayed = inventory->delayed;
        inventory->delayed = delayed->next;
        delayed->fn(delayed->ctx, true);
    }
}

/* ---- a purchase ---- */

static void on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (read->status == INVENTORY_OK)
        read->status = status;
    if (--read->pending == 0)
        client_read_finish(purchase, read->status == INVENTORY_OK ? INVENTORY_OK : INVENTORY_UNKNOWN);
}

static void do_write(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    if (read->fenced) {
        fenced_write(purchase);
        return;
    }
    read->pending = client_touch_index(purchase, on_written);
    read->pending += client_write(purchase, on_written, read->available - purchase->quantity);
    if (read->pending == 0)
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
    else
        redis_flush(read->redis);
}

static void on_worked(void *ctx, bool closing) {
    struct inventory_purchase *purchase = ctx;
    if (closing)
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    else
        do_write(purchase);
}

static void on_read(struct inventory_purchase *purchase, enum inventory_status status) {
    struct client_read *read = purchase->read;
    if (status != INVENTORY_OK)
        client_read_finish(purchase, status);
    else
        naive_delay(purchase->inventory, &read->delayed, on_worked, purchase);
}

static void start_naive(struct inventory_purchase *purchase) {
    client_read_begin(purchase, purchase->inventory->redis, INVENTORY_NAIVE, on_read);
}

static void start_locked(struct inventory_purchase *purchase) {
    if (purchase->locked)
        client_read_begin(purchase, purchase->inventory->redis, INVENTORY_LOCKED, on_read);
    else
        purchase_finish(purchase, INVENTORY_WANTS_LOCK);
}

const struct strategy strategy_naive = {.name = "naive", .teaches = true, .start = start_naive};
const struct strategy strategy_locked = {.name = "locked", .teaches = true, .start = start_locked};
