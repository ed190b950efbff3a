/* Recovery: finds in the journal the transactions that a process left unfinished when it died, and held
 * baskets that are due, and finishes them. */
#include <stdlib.h>

#include "base/container.h"
#include "inventory/transactions.h"
#include "service/log.h"
#include "service/service.h"

/* For so long other instances leave alone what this one has claimed. */
enum { CLAIM_MS = 2000 };

struct recovery {
    struct background *background;
    struct inventory_transaction transaction;
};

static void recovery_on_settled(struct inventory_transaction *transaction, enum inventory_status status) {
    struct recovery *recovery = CONTAINER_OF(transaction, struct recovery, transaction);
    struct background *background = recovery->background;
    bool good = status == INVENTORY_OK || status == INVENTORY_REPLAYED || status == INVENTORY_UNKNOWN_BASKET;
    if (transaction->aborted_ns)
        metrics_time(&background->thread.metrics.transactions_aborted, transaction->aborted_ns);
    metric_add(&background->thread.metrics.recovered[good], 1);
    free(recovery);
    background->recovering--;
    if (background->more && background->thread.inventory &&
        !atomic_load(&background->thread.service->draining))
        recovery_tick(background); /* there is room for the next one */
}

static void recovery_on_claimed(void *ctx, enum inventory_status status,
                                const struct inventory_transaction *transactions, size_t found) {
    struct background *background = ctx;
    background->more = status == INVENTORY_OK && (int)found == background->claiming;
    for (size_t i = 0; status == INVENTORY_OK && i < found; i++) {
        struct recovery *recovery = calloc(1, sizeof *recovery);
        if (!recovery)
            break; /* a later tick claims them again */
        recovery->background = background;
        recovery->transaction = transactions[i];
        recovery->transaction.done = recovery_on_settled;
        background->recovering++;
        inventory_transaction_settle(background->thread.inventory, &recovery->transaction, INVENTORY_READ);
    }
    background->claiming = 0; /* only now the room is known */
}

static void recovery_on_reconciled(void *ctx, enum inventory_status status,
                                   const struct inventory_reconciled *told) {
    (void)ctx;
    if (told && (told->mended > 0 || (status == INVENTORY_OK && told->torn > 0)))
        log_error(
            "a failover of the store tore %lld baskets and transfers: %lld of the %lld units that their "
            "items lacked are back",
            (long long)told->torn, (long long)told->mended, (long long)told->lacking);
}

void recovery_tick(struct background *background) {
    int room = RECOVERY_MAX - background->recovering;
    if (background->claiming || room == 0 || !store_clock_is_known(&background->thread.service->clock))
        return;
    if (atomic_exchange(&background->thread.service->put_back, false))
        inventory_transactions_suspect(background->thread.inventory);
    if (inventory_transactions_are_suspect(background->thread.inventory))
        inventory_transactions_reconcile(background->thread.inventory, true, recovery_on_reconciled, NULL);
    background->claiming = room;
    inventory_transaction_claim(background->thread.inventory, room, CLAIM_MS, recovery_on_claimed,
                                background);
}
