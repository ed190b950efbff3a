/* Strategies for lessons: `naive`, and `locked`, the same under a lock.
 *
 * It reads how many units are left, compares, and writes the result. Two that read the same number overwrite
 * each other: two units are sold, one is taken. The work delay makes the gap as wide as a payment call would.
 * Under a lock that holds for all sellers this is right. If the lock gave a fence, fenced.lua reads and
 * writes, and a holder that a newer one has overtaken writes nothing. If the lock gave only an epoch,
 * fenced.lua reads. */
#include <string.h>

#include "inventory/store/shared.h"
#include "inventory/strategies/client_side.h"
#include "inventory/strategies/strategies.h"

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
        work_delay_begin(purchase->strategies->work_delay, &read->delayed, naive_on_worked, purchase);
}

static void naive_start(struct inventory_purchase *purchase) {
    client_read_begin(purchase, INVENTORY_NAIVE, naive_on_read);
}

static void naive_start_locked(struct inventory_purchase *purchase) {
    if (purchase->locked)
        client_read_begin(purchase, INVENTORY_LOCKED, naive_on_read);
    else
        purchase_finish(purchase, INVENTORY_WANTS_LOCK);
}

const struct strategy strategy_naive = {.start = naive_start};
const struct strategy strategy_locked = {.start = naive_start_locked};
