/* What the files of this room share. Not for others. */
#ifndef INVENTORY_INTERNAL_H
#define INVENTORY_INTERNAL_H

#include "inventory/inventory.h"
#include "inventory/store/redis.h"

/* ---- keys: all of an item share a hash tag, so that one script reaches them on Redis Cluster ---- */

enum { SALE_KEY_SIZE = INVENTORY_NAME_MAX + 24 };

struct sale_keys {
    char item[SALE_KEY_SIZE];     /* hash: the counters and the terms of the sale */
    char orders[SALE_KEY_SIZE];   /* hash: digest -> record */
    char users[SALE_KEY_SIZE];    /* hash: user -> units, where the item has a limit */
    char holds[SALE_KEY_SIZE];    /* sorted set: digest by expiry */
    char events[SALE_KEY_SIZE];   /* stream: every change of an order, and every restock */
    char restocks[SALE_KEY_SIZE]; /* hash: digest -> what was answered */
    char token[SALE_KEY_SIZE];    /* the newest token seen */
};

void sale_keys_make(struct sale_keys *keys, const char *item);

/* ---- items this process has purchases for, or looks at ---- */

struct item_reader;

struct item {
    struct item *chain; /* in its bucket */
    struct item *next_dirty;
    struct inventory_purchase *head, *tail; /* wait for a call */
    int gathered;                           /* so many */
    int users;                              /* purchases and looks that point here */
    int in_flight, in_flight_purchases;     /* calls of `batch`, and purchases in them */
    struct item_reader *asking, *waiting;   /* looks: share the reply under way; come too late for it */
    bool dirty;                             /* in inventory->dirty */
    bool unknown;  /* the store does not have it: forgotten when the last purchase leaves */
    bool sold_out; /* it was; so ask before selling */
    enum inventory_strategy strategy; /* a guess until the store said so */
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
/* Finds or makes it, and counts the caller among its users; NULL when out of memory. */
struct item *items_take(struct items *items, const char *name);
/* The opposite; forgets the item where it need not be kept. */
void items_drop(struct items *items, struct item *item);

/* ---- scripts ---- */

struct script {
    const char *text;
    const char *sha;
};

enum script_id {
    SCRIPT_PURCHASE,
    SCRIPT_SETTLE,
    SCRIPT_CREATE,
    SCRIPT_RESTOCK,
    SCRIPT_FENCED,
    SCRIPT_LINE,
    SCRIPT_JOURNAL,
    SCRIPT_BASKET,
    SCRIPT_EPOCH,
    SCRIPT_DUE,
    SCRIPTS
};

/* Calls a script by its digest, and once more by its text where the store does not know it. The
 * caller's keys and arguments begin at argv[SCRIPT_ARGV]; what stands before is not read. `argv` may be
 * reused when this returns. False: nothing was sent. */
enum { SCRIPT_ARGV = 3 };
bool script_call(struct inventory *inventory, enum script_id id, int keys, int argc, const char **argv,
                 redis_reply_fn *fn, void *ctx);

/* ---- the inventory ---- */

enum { RECORD_SIZE = 160 };

struct batch;
struct transaction_run;
struct delayed;
struct audit_run;

/* audit.c: one page at a time, on a connection of their own. */
struct audits {
    struct audit_run *head,
        *tail; /* the first one's page is asked for, or will be after a pause, if `running` */
    bool running;
    int waiting;         /* callers */
    struct redis *redis; /* NULL while there is no audit */
    uv_timer_t pause;
    int64_t pause_ns; /* that is still to be made */
};

struct inventory {
    struct inventory_config config;
    struct redis_target target;
    uv_loop_t *loop;
    struct redis *redis;
    struct items items;
    struct item *dirty;
    struct inventory_purchase *lost;           /* their reply was lost; see resolve.c */
    struct transaction_run *lost_transactions; /* likewise; see transaction.c */
    uv_timer_t tick;
    struct batch *spare_batches;
    struct optimistic *optimistic;
    struct delayed *delayed, *delayed_last; /* in their work delay, the next to go first */
    uv_timer_t delay;
    struct audits audits;
    const struct script *scripts;
    bool sweeping;
    bool taken_over;       /* what a store of before the index had; see holds.c */
    int64_t rest_until_ms; /* no hold expires by itself before that; see expiry_note_call() */
    int closing;           /* handles not yet closed */
    char error[256];
    struct inventory_metrics *metrics;
    struct inventory_metrics own_metrics;                        /* where the caller has none */
    const char *argv[SCRIPT_ARGV + 7 + 3 * INVENTORY_BATCH_MAX]; /* scratch */
    char quantities[INVENTORY_BATCH_MAX][8];                     /* scratch */
};

static inline void metric_add(_Atomic uint64_t *metric, uint64_t n) {
    /* One writer: no need for a locked instruction. */
    __atomic_store_n((uint64_t *)metric, __atomic_load_n((uint64_t *)metric, __ATOMIC_RELAXED) + n,
                     __ATOMIC_RELAXED);
}

/* What a reply that is no result means: UNKNOWN where it was lost (NULL), UNAVAILABLE where the store
 * refused; OK otherwise. Notes the error's text. A store that turned read-only is left, so that a name that
 * moved is looked up anew. */
enum inventory_status store_status(struct inventory *inventory, const struct redis_value *value);

/* For tests that end the process there. */
static inline void failpoint(const struct inventory *inventory, const char *step) {
    if (inventory->config.at_failpoint)
        inventory->config.at_failpoint(inventory->config.at_failpoint_ctx, step);
}

/* The reply to TIME; 0 where it is none. */
int64_t store_time_ms(const struct redis_value *value);

/* Ends a purchase. */
void purchase_finish(struct inventory_purchase *purchase, enum inventory_status status);
/* Its reply was lost: ask for the order when the store is back, then finish it (resolve.c). */
void purchase_lost(struct inventory_purchase *purchase);
/* Lets it begin (again) by its item's strategy. */
void purchase_start(struct inventory_purchase *purchase);
/* So far the clock of an instance may be from that of the store, by which orders are dated. */
enum { CLOCKS_APART_MS = 50 };

/* The order stands already: finishes with REPLAYED, or KEY_REUSED; or OK where it was written since `sent_ms`
 * by this instance's clock (0: by another): then it is the one whose reply was lost. An earlier one with the
 * same key is taken for it where it was written just before; it is the buyer's order all the same. */
void purchase_found(struct inventory_purchase *purchase, const char *record, int64_t sent_ms);
/* Finishes with OK and the order as just written. */
void purchase_sold(struct inventory_purchase *purchase, int64_t now_ms, int64_t expires_ms);

void item_mark_dirty(struct inventory *inventory, struct item *item);

/* ---- strategies: one file each, a table at its end ---- */

struct strategy {
    const char *name;
    bool teaches;
    void (*start)(struct inventory_purchase *purchase);
};

extern const struct strategy strategy_batch, strategy_lua, strategy_decr, strategy_optimistic, strategy_naive,
    strategy_locked;

const struct strategy *strategy_of(enum inventory_strategy strategy);

/* ---- naive.c: the work delay, between a look and the write that follows from it ---- */

struct delayed {
    struct delayed *next;
    int64_t due_ms;
    void (*fn)(void *ctx, bool closing);
    void *ctx;
};

/* Calls `fn` when the work delay is over, at once where there is none; `closing`: when the inventory is
 * closed before. */
void naive_delay(struct inventory *inventory, struct delayed *delayed, void (*fn)(void *ctx, bool closing),
                 void *ctx);
/* What is in its work delay is given up. */
void naive_close(struct inventory *inventory);

/* ---- look.c: what the strategies without a script share. They read and write step by step, and that is what
 * is wrong with them. */

struct client_read {
    struct redis *redis;
    void (*next)(struct inventory_purchase *purchase, enum inventory_status status);
    bool moved;                   /* the item is sold otherwise now */
    bool fenced;                  /* its fence is checked, so it is written by fenced.c */
    int pending;                  /* replies to come */
    enum inventory_status status; /* of those that came */
    struct delayed delayed;
    int64_t now_ms; /* by the store's clock */
    int64_t available, limit, starts_ms, ends_ms, hold_ms, had;
    enum inventory_strategy strategy, begun_as; /* the item's; the one whose steps these are */
    int64_t indexed_ms;                         /* fenced: see holds.c */
    char order[RECORD_SIZE];                    /* the key's order, or "" */
    char record[RECORD_SIZE];                   /* the order to write */
};

/* Reads the item, the key's order and the user's units over `redis`, then calls `next`: OK, REPLAYED (there
 * is an order), or why not. Of `decr` OK may also mean that too few units are left: that it sees by taking
 * them.
 */
void client_read_begin(struct inventory_purchase *purchase, struct redis *redis,
                       enum inventory_strategy strategy,
                       void (*next)(struct inventory_purchase *purchase, enum inventory_status status));
/* Ends the purchase with what `next` was told. */
void client_read_finish(struct inventory_purchase *purchase, enum inventory_status status);
/* Queues the writes of a sale that leaves `available` units; returns how many of them will be answered to
 * `fn`. */
int client_write(struct inventory_purchase *purchase, redis_reply_fn *fn, int64_t available);
/* Queues, before the hold's entry, that of its item in the index of due times, on the same connection; see
 * holds.c. */
int client_touch_index(struct inventory_purchase *purchase, redis_reply_fn *fn);
/* Queues the entries that follow from an order: the ledger's and the hold's. */
int client_write_entries(struct inventory_purchase *purchase, redis_reply_fn *fn);
/* Prints the order that is to be written into look->record. */
void client_print_record(struct inventory_purchase *purchase);
/* When the hold of the order would end; 0: it has none. */
int64_t client_expires_ms(const struct client_read *read);

/* ---- fenced.c: the same look and write, each in one step that refuses a stale fence ---- */

/* False: nothing was sent. The reply is for fenced_decode(), and where that says OK it is {word, what
 * item_read() reads, the user's units, the store's time}. */
bool fenced_read(struct inventory_purchase *purchase, redis_reply_fn *fn);
/* OK; REPLAYED (look->order is filled in), SOLD_OUT (look->available is), LIMIT, STALE, UNKNOWN_ITEM; or as
 * store_status(). */
enum inventory_status fenced_decode(struct inventory_purchase *purchase, const struct redis_value *value);
/* Writes the sale and finishes the purchase. */
void fenced_write(struct inventory_purchase *purchase);

/* holds.c: enters the item in the index of due times, as redis_call() does. The first: for then or later, to
 * be done, and answered, before the item gets a hold where it had none. The second: to be sent right before a
 * hold that ends then. */
bool due_enter_first(struct redis *redis, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx);
bool due_touch(struct redis *redis, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx);

/* holds.c: a call that what expires begins with was sent then, and its reply is there. If that took long, the
 * store stood still, and confirms that came in time may only reach it now: for INVENTORY_HOLD_GRACE_MS
 * nothing expires by itself. */
void expiry_note_call(struct inventory *inventory, int64_t sent_ms);
bool expiry_rests(const struct inventory *inventory);

/* batch.c: sends the calls that the item's queue allows. */
void batch_flush(struct inventory *inventory, struct item *item);
void batch_free_spares(struct inventory *inventory);

/* optimistic.c: gives up purchases that waited too long for a connection, or all. */
void optimistic_tick(struct inventory *inventory, bool all);
void optimistic_close(struct inventory *inventory);

/* transaction.c: begins the transactions again whose reply was lost, where the store is there, and gives up
 * those that waited too long, or all. */
void transaction_tick(struct inventory *inventory, bool all);

/* audit.c: gives up audits that cannot be had, or all. */
void audit_tick(struct inventory *inventory);
void audit_close(struct inventory *inventory);

/* resolve.c */
void resolve_all(struct inventory *inventory);
void resolve_expire(struct inventory *inventory, bool all);

/* The record of the lock that numbers tokens; in one slot with the journal of transactions. */
#define LOCK_EPOCH_KEY "seckill:{baskets}:domain"

/* A token as the scripts take it, EPOCH:FENCE, each with leading zeros, so that it is compared as a text. */
enum { FENCING_TOKEN_SIZE = 42 };
void fencing_token_print(char out[FENCING_TOKEN_SIZE], const struct inventory_fencing_token *token);

/* ---- records (orders.c): STATE QUANTITY USER CREATED_MS [EXPIRES_MS], or of a basket's order STATE
 * QUANTITY USER CREATED_MS EXPIRES_MS BASKET; STATE is one of h c x e, and of a basket's b (held or
 * unfinished) u c x e ---- */

void record_print(char out[RECORD_SIZE], const struct inventory_order *order);
/* Reads a record of `item` and `digest` into `order`; false where it is none. */
bool record_read(struct inventory_order *order, const char *item, const char *digest, const char *record);

/* What is read of an item, in this order. */
enum { ITEM_FIELDS = 10 };
extern const char *const item_fields[ITEM_FIELDS];
/* hash (HMGET by item_fields) -> item; false where there is no such item. */
bool item_read(struct inventory_item *item, const char *name, const struct redis_value *value);
/* OK, NOT_STARTED or ENDED; a bound of 0 is none. */
enum inventory_status item_judge_time(int64_t now_ms, int64_t starts_ms, int64_t ends_ms);
/* Asks for what item_read() reads. */
bool item_ask(struct redis *redis, const char *key, redis_reply_fn *fn, void *ctx);

/* ---- the audit's metrics (audit_judge.c) ---- */

/* What is read at one moment. */
struct audit_moment {
    struct inventory_item item;
    int64_t returned; /* units of orders that hold none any more; -1: the item is older than this counter */
    int64_t records;  /* in the hash of orders */
    int64_t holds;    /* in the expiry list */
};

struct audit_count {
    struct audit_moment first, last; /* before the pages, and after them */
    struct inventory_audit audit;
    int64_t records, units; /* of all states */
    /* Sums over users that agree only if every user's units do (but for one chance in 2^64): each unit counts
     * as its user's hash, under a key that nobody can choose users by. */
    unsigned char key[16];
    uint64_t by_orders, by_counters;
};

void audit_count_init(struct audit_count *count);
/* A page of HSCAN: field, value, field, value ... */
void audit_count_orders(struct audit_count *count, const struct redis_value *page);
void audit_count_users(struct audit_count *count, const struct redis_value *page);
/* Fills in the rest of count->audit. False: what was read does not belong together, since the item was made
 * anew meanwhile, or records were removed. */
bool audit_judge(struct audit_count *count);

#endif
