/* Strategies for lessons: `naive`, and `locked`, the same under a lock.
 *
 * It reads how many units are left, compares, and writes the result. Two that read the same number overwrite
 * each other: two units are sold, one is taken. The work delay makes the gap as wide as a payment call would.
 * Under a lock that holds for all sellers this is right. If the lock gave a fence, fenced.lua reads and
 * writes, and a holder that a newer one has overtaken writes nothing. If the lock gave only an epoch,
 * fenced.lua reads. A late confirm (settle.lua) takes no lock: without a fence it can come between a read and
 * its write, and its units are sold twice.
 *
 * The work delay is also that of naive baskets. */
#include <string.h>

#include "inventory/strategies/strategies.h"

/* ---- the work delay ---- */

enum { DELAY_TICK_MS = 1 };

void work_delay_init(struct work_delay *delay, uv_loop_t *loop, const struct clock *clock, int ms) {
    *delay = (struct work_delay){.ms = ms, .clock = clock};
    delay->timer.data = delay;
    uv_timer_init(loop, &delay->timer);
}

static struct delayed *work_delay_take_first(struct work_delay *delay) {
    struct delayed *first = delay->first;
    delay->first = first->next;
    return first;
}

static void work_delay_on_tick(uv_timer_t *timer) {
    struct work_delay *delay = timer->data;
    int64_t now_ms = clock_mono_ms(delay->clock);
    while (delay->first && delay->first->due_ms <= now_ms) {
        struct delayed *delayed = work_delay_take_first(delay);
        delayed->fn(delayed->ctx, false);
    }
    if (!delay->first)
        uv_timer_stop(timer);
}

void work_delay_begin(struct work_delay *delay, struct delayed *delayed, void (*fn)(void *ctx, bool closing),
                      void *ctx) {
    if (delay->ms == 0) {
        fn(ctx, false);
        return;
    }
    *delayed = (struct delayed){.due_ms = clock_mono_ms(delay->clock) + delay->ms, .fn = fn, .ctx = ctx};
    if (delay->first)
        delay->last->next = delayed;
    else
        delay->first = delayed;
    delay->last = delayed;
    if (!uv_is_active((const uv_handle_t *)&delay->timer)) /* a new start would put it off */
        uv_timer_start(&delay->timer, work_delay_on_tick, DELAY_TICK_MS, DELAY_TICK_MS);
}

void work_delay_end(struct work_delay *delay) {
    while (delay->first) {
        struct delayed *delayed = work_delay_take_first(delay);
        delayed->fn(delayed->ctx, true);
    }
}

/* ---- a purchase ---- */

static void naive_count_down(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    if (--read->pending == 0)
        client_read_finish(purchase, read->status == INVENTORY_OK ? INVENTORY_OK : INVENTORY_UNKNOWN);
}

static void naive_on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    enum inventory_status status = store_status(purchase->purchases->shared, value);
    if (purchase->read->status == INVENTORY_OK)
        purchase->read->status = status;
    naive_count_down(purchase);
}

static void naive_on_fenced_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    client_read_finish(purchase, fenced_decode(purchase, value));
}

static void naive_write(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    if (read->fenced) {
        client_print_record(purchase);
        fenced_send_write(purchase, client_expires_ms(read), naive_on_fenced_written);
    } else if (router_is_up(read->store, purchase->in->keys.item)) {
        read->pending = 1;
        client_write(purchase, naive_on_written, read->item.available - purchase->quantity);
        naive_count_down(purchase);
    } else {
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
    }
}

static void naive_on_worked(void *ctx, bool closing) {
    struct inventory_purchase *purchase = ctx;
    if (closing)
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    else
        naive_write(purchase);
}

static void naive_on_read(struct inventory_purchase *purchase, enum inventory_status status) {
    struct client_read *read = purchase->read;
    if (status != INVENTORY_OK)
        client_read_finish(purchase, status);
    else
        work_delay_begin(&purchase->strategies->work_delay, &read->delayed, naive_on_worked, purchase);
}

void naive_start(struct inventory_purchase *purchase) {
    client_read_begin(purchase, NULL, NULL, INVENTORY_NAIVE, naive_on_read);
}

void naive_start_locked(struct inventory_purchase *purchase) {
    if (purchase->locked)
        client_read_begin(purchase, NULL, NULL, INVENTORY_LOCKED, naive_on_read);
    else
        purchase_finish(purchase, INVENTORY_WANTS_LOCK);
}
