/* What an inventory keeps between calls, for the files of this module. Each group of members belongs to the
 * file named above it: others do not change them. Everything belongs to the inventory's thread. */
#ifndef INVENTORY_CONTEXT_H
#define INVENTORY_CONTEXT_H

#include "base/decimal.h"
#include "base/metric.h"
#include "base/redis/async/router.h"
#include "base/redis/url.h"
#include "inventory/inventory.h"
#include "inventory/model/keys.h"
#include "inventory/purchases/audit.h"
#include "inventory/purchases/item_queue.h"
#include "inventory/purchases/putback.h"

struct inventory {
    struct inventory_config config;
    struct redis_url url;
    uv_loop_t *loop;
    struct router *store;
    struct inventory_metrics *metrics; /* the caller's, or own_metrics */
    struct inventory_metrics own_metrics;
    uv_timer_t tick;
    int64_t tick_ms; /* when it was */
    int closing;     /* handles that are not closed yet */

    /* store/status.c */
    char error[256]; /* the last error of the store */

    /* purchases/item_queue.c, purchases/purchase.c, purchases/lost.c */
    struct items items;
    STAILQ_HEAD(dirty_items, item) dirty; /* have purchases to send; the first goes first */
    struct purchases again;               /* are to start anew */
    struct purchases lost;                /* their reply was lost */

    /* purchases/holds.c */
    bool sweeping;
    int64_t rest_until_ms; /* no hold expires by itself before that */

    /* purchases/putback.c */
    struct putback putback;

    /* purchases/rest.c */
    char id[INVENTORY_DIGEST_SIZE]; /* random */
    int64_t beat_ms;                /* when the next heartbeat is due; INT64_MAX: it leaves */
    int64_t beaten_ms;              /* the last one that the store must have, by its clock; 0: none */
    bool left;                      /* that was told, or the store is gone */

    /* purchases/audit.c */
    struct audits audits;

    /* strategies/batch.c, strategies/optimistic.c, strategies/lessons/work_delay.c */
    struct batch *spare_batches;
    struct lane lane; /* of all items, but in a cluster */
    /* Of the call that is being sent. It has 3 arguments, an item 5 keys and 1 argument, a purchase 3; the
     * numbers are until when the item is in the index, how many purchases each has, and their quantities. */
    const char *argv[SCRIPT_ARGV + 3 + (5 + 1 + 3) * INVENTORY_BATCH_MAX];
    char numbers[DECIMAL_SIZE + (4 + 5) * INVENTORY_BATCH_MAX];
    struct optimistic *optimistic;
    struct delayed *delayed, *delayed_last; /* the next to go first */
    uv_timer_t delay;

    /* transactions/transaction.c */
    struct transaction_run *lost_transactions; /* their reply was lost */

    /* transactions/reconcile.c */
    bool torn;                  /* items may lack what the journal says */
    int64_t reconcile_again_ms; /* not before, if a part of the store could not be asked */
    struct reconciling *reconciling;
    bool untold; /* a shortage that is noted may not have been told */

    /* transactions/audit_all.c */
    struct audit_all *audit_all;

    /* transactions/journal.c */
    unsigned claim_part; /* where the next claim begins */

    /* transactions/epoch.c */
    struct journal_part {
        uint64_t epoch;   /* it refuses older ones, as far as it has told; 0: it has not */
        bool asked, lost; /* it is being told; the last time had no reply, or an error */
    } journal_parts[KEY_PARTS];
    unsigned journal_turn; /* the part that is told again next */
};

/* For scripts: whether they write the event stream. */
static inline const char *inventory_events(const struct inventory *inventory) {
    return inventory->config.events ? "on" : "off";
}

static inline int64_t inventory_now_ms(const struct inventory *inventory) {
    return clock_mono_ms(inventory->config.clock);
}

#endif
