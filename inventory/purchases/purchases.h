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
    int users;                     /* purchases, batches and readers that point here */
    struct item_reader *asking;    /* readers that share the reply in flight */
    struct item_reader *late;      /* readers that came too late for it, and share the next one */
    bool dirty;                    /* in its lane */
    bool unknown;                  /* the store does not have it: forgotten when the last user leaves */
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
/* Finds or makes the item, and counts the caller among its users; NULL when out of memory. */
struct item *items_take(struct items *items, const char *name);
/* Ends one use. An item without users is forgotten if it is unknown, or if more than ITEMS_KEPT are kept. */
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
    int64_t rest_until_ms; /* until then no hold expires by itself */

    /* putback.c */
    struct putback *putback;
    /* Called when a server that may have lost something sells again. */
    void (*on_mended)(void *ctx);
    void *on_mended_ctx;

    /* rest.c */
    char id[INVENTORY_DIGEST_SIZE]; /* random */
    int64_t beat_ms;                /* when the next heartbeat is due; INT64_MAX: this inventory leaves */
    int64_t beaten_ms;              /* the last heartbeat that the store must have, by its clock; 0: none */
    bool left;                      /* the store was told that it leaves, or is gone */

    /* audit.c */
    struct audits audits;
};

/* False when out of memory. `id` is random; `on_mended` is called as the struct says. */
bool purchases_open(struct purchases *purchases, struct shared *shared, const char *id,
                    void (*on_mended)(void *ctx), void *ctx);
/* Ends the purchases that wait for a call: UNAVAILABLE. */
void purchases_end_waiting(struct purchases *purchases);
/* Frees what is left, once nothing is in flight. The caller closes the timer of `audits`. */
void purchases_close(struct purchases *purchases);

/* The functions of these names in inventory.h. */
void purchases_step_order(struct purchases *purchases, const char *id, enum inventory_step step,
                          int64_t arrived_ns, inventory_order_fn *fn, void *ctx);
void purchases_sweep(struct purchases *purchases);
void purchases_get_item(struct purchases *purchases, const char *name, inventory_item_fn *fn, void *ctx);
void purchases_create_item(struct purchases *purchases, const struct inventory_item *item,
                           inventory_item_fn *fn, void *ctx);
void purchases_restock_item(struct purchases *purchases, const char *name, const char *digest,
                            int64_t quantity, inventory_restock_fn *fn, void *ctx);
void purchases_audit_item(struct purchases *purchases, const char *name, inventory_audit_fn *fn, void *ctx);

/* ---- scripts.c ---- */

/* Creates an item (create.lua). Its argument is what item_terms_print() prints; returns the number of keys.
 */
enum { CREATE_ARGV = SCRIPT_ARGV + 6 + 1 };
extern const struct redis_script create_script;
int create_keys(const struct purchases *purchases, const struct sale_keys *keys, const char **argv);

/* Confirms, cancels or expires (settle.lua). Returns the number of keys. */
enum { SETTLE_ARGV = SCRIPT_ARGV + 4 + 3 };
extern const struct redis_script settle_script;
int settle_keys(const struct purchases *purchases, const struct sale_keys *keys, const char **argv);

/* ---- holds.c ---- */

/* Call it with the reply to each call that precedes expiring. If the reply took long, the store stood still,
 * and confirms that came in time may reach it only now. Then nothing expires by itself for
 * INVENTORY_HOLD_GRACE_MS. */
void expiry_note_call(struct purchases *purchases, int64_t sent_ms);
/* Whether nothing expires by itself now. */
bool expiry_rests(const struct purchases *purchases);

/* ---- audit.c: all orders of an item, read page by page beside the sale ---- */

/* purchases->shared must be set. */
void audit_init(struct purchases *purchases);
/* Ends audits that cannot be carried out. */
void audit_tick(struct purchases *purchases);
/* Ends all audits. */
void audit_close(struct purchases *purchases);

#endif
