/* The state of an inventory's purchases, orders and items, and the calls on them. Each group of members
 * belongs to the file named above it: other files do not change them. */
#ifndef INVENTORY_PURCHASES_PURCHASES_H
#define INVENTORY_PURCHASES_PURCHASES_H

#include "inventory/store/shared.h"

/* ---- items.c: the items that this process sells or reads, each with the queue of its purchases ---- */

struct item_reader;

STAILQ_HEAD(purchase_queue, inventory_purchase);

/* Removes the first purchase; NULL: the queue is empty. */
static inline struct inventory_purchase *purchase_queue_take(struct purchase_queue *queue) {
    struct inventory_purchase *first = STAILQ_FIRST(queue);
    if (first)
        STAILQ_REMOVE_HEAD(queue, next);
    return first;
}

struct item {
    struct item *chain; /* in its bucket */
    STAILQ_ENTRY(item) next_dirty;
    struct purchase_queue waiting; /* purchases that wait for a call */
    int refs;                      /* purchases, batches and readers that point here */
    struct item_reader *asking;    /* readers that share the reply in flight */
    struct item_reader *late;      /* readers that came too late for it, and share the next one */
    bool dirty;                    /* in its lane */
    bool unknown;                  /* the store does not have it: forgotten with the last reference */
    bool sold_out;                 /* it was sold out: the next call only reads the stock */
    /* Guesses until the store's first reply. */
    enum inventory_strategy strategy;
    bool has_limit, has_holds;
    struct sale_keys keys;
    char name[INVENTORY_NAME_MAX + 1];
};

enum { ITEM_BUCKETS = 16384, ITEMS_KEPT = 65536 };

struct items {
    struct item *buckets[ITEM_BUCKETS];
    int count;
    unsigned char hash_key[16]; /* random: nobody can choose names that collide */
};

void items_init(struct items *items);
void items_free(struct items *items);
/* Finds or makes the item, and counts a reference of the caller; NULL when out of memory. */
struct item *items_take(struct items *items, const char *name);
/* Drops one reference. An item without references is forgotten if it is unknown, or if more than ITEMS_KEPT
 * are kept. */
void items_drop(struct items *items, struct item *item);

/* ---- the state ---- */

/* A lane gathers the purchases whose calls leave together: those for one part of the items, all of which one
 * server has. */
struct lane {
    STAILQ_HEAD(dirty_items, item) dirty; /* items with purchases to send; the first is sent first */
    int gathered;                         /* purchases that wait */
    int in_flight, in_flight_purchases;   /* flights (see batch.c), and purchases in them */
    int64_t alone_until_ms;               /* until then each call has one item */
};

struct audit_run;
struct putback;

/* Audits take turns, one page at a time, on connections of their own. */
struct audits {
    STAILQ_HEAD(audit_runs, audit_run) runs;
    bool running;         /* the first one's page is in flight, or the pause before it runs */
    int waiting;          /* callers */
    struct router *store; /* NULL while there is no audit */
    int64_t asked_ms;     /* when a page was last asked for, or the store was opened */
    uv_timer_t pause;
    int64_t pause_ns; /* the pause still to be made */
};

struct purchases {
    struct shared *shared;

    /* items.c, purchase.c */
    struct items items;
    struct lane lanes[ITEM_PARTS]; /* without a cluster the first lane has all items */
    struct purchase_queue again;   /* purchases to start anew */
    struct purchase_queue lost;    /* purchases whose reply was lost */

    /* holds.c */
    bool sweeping;
    int64_t expiry_paused_until_ms; /* until then no hold expires by itself */

    /* putback.c */
    struct putback *putback;

    /* membership.c */
    char id[INVENTORY_DIGEST_SIZE]; /* random */
    int64_t heartbeat_due_ms;       /* when the next heartbeat is due; INT64_MAX: this inventory leaves */
    int64_t heartbeat_ms;           /* the last heartbeat that the store must have, by its clock; 0: none */
    bool left;                      /* the store was told that it leaves, or is gone */

    /* audit.c */
    struct audits audits;
};

/* False when out of memory. */
bool purchases_open(struct purchases *purchases, struct shared *shared);
/* Ends the purchases that wait for a call: UNAVAILABLE. */
void purchases_end_waiting(struct purchases *purchases);
/* Frees what is left, once nothing is in flight. The caller closes the timer of `audits`. */
void purchases_close(struct purchases *purchases);

/* ---- purchase.c: how a purchase waits, starts again and ends, whatever its strategy ---- */

/* The lane of the item. */
struct lane *lane_of(struct purchases *purchases, const struct item *item);
/* Puts the item in line: inventory_flush() sends what waits for it. */
void lane_add(struct lane *lane, struct item *item);
/* Takes the first item in line; NULL: no item waits. */
struct item *lane_take(struct lane *lane);

/* Has inventory_flush() start the purchase by its item's strategy, which may have changed. */
void purchase_again(struct inventory_purchase *purchase);

/* Says which connection carries the purchase out; NULL: purchases->shared->store. */
void purchase_set_connection(struct inventory_purchase *purchase, const struct redis *redis);

/* Ends the purchase: calls its `done` with `status`. */
void purchase_finish(struct inventory_purchase *purchase, enum inventory_status status);

/* Ends it with OK and the order as just written. */
void purchase_sold(struct inventory_purchase *purchase, int64_t now_ms, int64_t expires_ms);

/* Ends it with the order that its key has: REPLAYED, or KEY_REUSED. OK if the order was written since
 * `sent_ms` by this instance's clock (0: no such time): then it is the order whose reply was lost. An order
 * of an earlier attempt with the same key is taken for it if it is older by CLOCKS_APART_MS at most; it is
 * the buyer's order all the same. */
void purchase_found(struct inventory_purchase *purchase, const char *record, int64_t sent_ms);

/* ---- lost_replies.c ---- */

/* Asks for the order when the store is back, then ends the purchase. */
void purchase_lost(struct inventory_purchase *purchase);

/* Asks for the orders of all lost purchases whose server is up. */
void lost_resolve(struct purchases *purchases);
/* Ends lost purchases that have waited for config.resolve_ms, or all of them, with UNKNOWN. */
void lost_expire(struct purchases *purchases, bool all);

/* ---- orders.c ---- */

/* The answer to a step, by the state in which the order, or basket, is afterwards. */
extern const enum inventory_status step_answers[INVENTORY_STEPS][INVENTORY_STATES];

/* ---- holds.c ---- */

/* Prints a call of settle.lua with its arguments, of which NULL stands for ''. Returns the number of keys. */
enum { SETTLE_ARGS = 7, SETTLE_ARGV = SCRIPT_ARGV + 4 + SETTLE_ARGS };
extern const struct redis_script settle_script;
int settle_command(const char *argv[SETTLE_ARGV], const struct shared *shared, const struct sale_keys *keys,
                   const char *const args[SETTLE_ARGS]);

/* Call it with the reply to each call that precedes expiring. If the reply took long, the store stood still,
 * and confirms that came in time may reach it only now. Then nothing expires by itself for
 * INVENTORY_HOLD_GRACE_MS. */
void expiry_note_call(struct purchases *purchases, int64_t sent_ms);
/* Whether nothing expires by itself now. */
bool expiry_is_paused(const struct purchases *purchases);

/* ---- audit.c: all orders of an item, read page by page beside the sale ---- */

/* purchases->shared must be set. */
void audit_init(struct purchases *purchases);
/* Ends audits that cannot be carried out. */
void audit_tick(struct purchases *purchases);
/* Ends all audits with UNAVAILABLE. Called when their connection breaks, and when the inventory closes. The
 * next audit opens a new connection. */
void audit_abandon(struct purchases *purchases);

/* ---- audit_judge.c: the counts of an audit's pages, and the judgement whether they agree ---- */

/* The counters as read at one moment. */
struct audit_moment {
    struct inventory_item item;
    int64_t released, returned; /* see stock.lua */
    int64_t fields;             /* fields of the item: each order is one, as is each user */
    int64_t holds;              /* in the list of holds */
};

struct audit_count {
    struct audit_moment first, last; /* before the pages, and after them */
    struct inventory_audit audit;
    int64_t fields; /* that were read */
    /* Sums over the orders of what only grows: units that they ever took, sold, and gave back. */
    int64_t taken, sold, released, returned;
    /* Sums over users, by orders and by counters. They agree only if every user's units do (but for one
     * chance in 2^64): each unit counts as the hash of its user, under a random key, so that nobody can
     * choose users that collide. */
    unsigned char key[16];
    uint64_t by_orders, by_counters;
};

void audit_count_init(struct audit_count *count);
/* A page of HSCAN: field, value, field, value ... (see stock.lua for the fields) */
void audit_count_page(struct audit_count *count, const struct redis_value *page);
/* Fills in the rest of count->audit. False: the counts do not belong together, since the item was made anew
 * meanwhile, or records were removed. */
bool audit_judge(struct audit_count *count);

#endif
