/* Strategies of lessons: `naive`, and the same under a lock, `locked`.
 *
 * It reads how many units are left, compares, and writes the result. Two that read the same number overwrite
 * each other: two units are sold, one is taken. The work delay makes the gap as wide as a payment call would.
 * Under a lock that holds for all sellers this is right. If the lock gave a fence, fenced.c reads and writes,
 * and a holder that a newer one has overtaken writes nothing; if it gave an epoch alone, fenced.c reads. */
#include <string.h>

#include "inventory/purchases/due.h"
#include "inventory/store/shared.h"
#include "inventory/strategies/client_side.h"
#include "inventory/strategies/fenced.h"
#include "inventory/strategies/strategies.h"

/* ---- the write under a fence ---- */

static void write_fenced(struct inventory_purchase *purchase);

static void on_indexed(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    failpoint(purchase->purchases->shared, "before first hold");
    if (store_status(purchase->purchases->shared, value) == INVENTORY_OK)
        write_fenced(purchase);
    else
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
}

/* As index_item() of batch.c does. */
static void index_item(struct inventory_purchase *purchase, int64_t until_ms) {
    struct client_read *read = purchase->read;
    if (read->indexed_ms) {
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
        return;
    }
    read->indexed_ms = until_ms;
    failpoint(purchase->purchases->shared, "before index");
    due_enter_first(read->store, purchase->item, until_ms, on_indexed, purchase);
}

static void on_fenced_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    const char *word =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    if (word && strcmp(word, "index") == 0)
        index_item(purchase, redis_value_integer(redis_value_at(value, 1), 0));
    else
        client_read_finish(purchase, fenced_decode(purchase, value));
}

static void write_fenced(struct inventory_purchase *purchase) {
    client_print_record(purchase);
    fenced_send_write(purchase, client_expires_ms(purchase->read), on_fenced_written);
}

/* ---- a purchase ---- */

static void count_down(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    if (--read->pending == 0)
        client_read_finish(purchase, read->status == INVENTORY_OK ? INVENTORY_OK : INVENTORY_UNKNOWN);
}

static void on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    enum inventory_status status = store_status(purchase->purchases->shared, value);
    if (purchase->read->status == INVENTORY_OK)
        purchase->read->status = status;
    count_down(purchase);
}

static void write_unfenced(struct inventory_purchase *purchase, enum inventory_status touched) {
    struct client_read *read = purchase->read;
    if (touched != INVENTORY_OK || !router_is_up(read->store, purchase->item)) {
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
        return;
    }
    read->pending = 1;
    client_write(purchase, on_written, read->item.available - purchase->quantity);
    count_down(purchase);
}

static void do_write(struct inventory_purchase *purchase) {
    if (purchase->read->fenced)
        write_fenced(purchase);
    else
        client_touch_index(purchase, write_unfenced);
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
        work_delay_begin(purchase->strategies->work_delay, &read->delayed, on_worked, purchase);
}

static void start_naive(struct inventory_purchase *purchase) {
    client_read_begin(purchase, INVENTORY_NAIVE, on_read);
}

static void start_locked(struct inventory_purchase *purchase) {
    if (purchase->locked)
        client_read_begin(purchase, INVENTORY_LOCKED, on_read);
    else
        purchase_finish(purchase, INVENTORY_WANTS_LOCK);
}

const struct strategy strategy_naive = {.start = start_naive};
const struct strategy strategy_locked = {.start = start_locked};
