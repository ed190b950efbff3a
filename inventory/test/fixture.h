/* A shop under test: a loop and a clock, and sellers on them, each with an inventory of one store. The
 * store's clock is turned by redis_clock(), and turned back when a shop closes.
 *
 * What is asked here runs the loop until the answer is there. Every answer must come exactly once: a second
 * one, and one that has not come when the shop closes, at the test's end, fails the test. */
#ifndef INVENTORY_TEST_FIXTURE_H
#define INVENTORY_TEST_FIXTURE_H

#include "inventory/store/shared.h"
#include "test/harness.h"

/* The strategy under test. run_each() runs `test` with each in turn, up to `last`; after `locked` comes
 * run_fenced(), which runs it with `locked` and sellers that have the lock, and a fence. */
extern enum inventory_strategy strategy;
extern bool fenced;
void run_each(const char *what, void (*test)(void), enum inventory_strategy last);
void run_fenced(const char *what, void (*test)(void));
/* run_each(), and run_fenced() behind it. */
void run_each_and_fenced(const char *what, void (*test)(void), enum inventory_strategy last);
/* Runs `test` with the argument. */
void run_case(const char *what, void (*test)(int argument), int argument);

/* A hold that nobody confirmed is there for so long after its end (settle.lua). */
struct shop {
    uv_loop_t loop;
    struct clock clock;
    int64_t ahead_ms;   /* its wall clock is so much ahead of the store's: see redis_clock() */
    int64_t hurried_ms; /* the monotonic clock is so much ahead of the machine's */
    const char *fault;  /* what went wrong within a callback; fails the test at the end of the turn */
    int open;           /* answers to come */
    struct seller *sellers;
    struct buy *buys;
    struct answer *answers;
};

struct seller {
    struct shop *shop;
    struct inventory *inventory;
    uv_prepare_t prepare; /* calls inventory_flush() */
    int call_timeout_ms;
    bool locked;    /* buy as the holder of the item's lock */
    uint64_t fence; /* with this fence, */
    uint64_t epoch; /* and this epoch */
    struct seller *next;
};

/* 0 and NULL: as most tests want it. */
struct seller_options {
    int port;
    const char *url;       /* instead of `port` */
    int call_timeout_ms;   /* 20000 */
    int resolve_ms;        /* 10000 */
    int queue_max;         /* 100000 */
    int work_delay_ms;     /* none */
    int replicas;          /* none */
    bool without_teaching; /* refuse what teaches */
    bool without_fencing;  /* whatever the fence */
    bool without_events;   /* no event stream: by default there is one, since ledger_audit() replays it */
    void (*at_failpoint)(void *ctx, const char *step);
    void *at_failpoint_ctx;
    void (*on_loss)(void *ctx, const struct inventory_loss *loss);
    void *on_loss_ctx;
    struct inventory_metrics *metrics; /* the inventory's own */
};

struct shop *shop_open(void);
/* Closes the sellers with whatever is in flight, and checks that all was answered, once. A shop that is not
 * closed when the test ends is closed then. */
void shop_close(struct shop *shop);
/* One turn of the loop; it waits for something to happen, but no longer than the inventory's own timers. */
void shop_turn(struct shop *shop);
/* Turns until the condition holds; fails the test after half a minute. */
void shop_wait(struct shop *shop, bool (*condition)(void *arg), void *arg, const char *what);
/* The same of an expression, which is read anew at each turn. */
#define SHOP_UNTIL(shop, condition, what)                                                                    \
    for (int64_t until_ms_ = shop_deadline_ms(); !(condition);)                                              \
    shop_turn_before((shop), until_ms_, (what))
int64_t shop_deadline_ms(void);
void shop_turn_before(struct shop *shop, int64_t deadline_ms, const char *what);
/* Turns until nothing is in flight. */
void shop_settle(struct shop *shop);
/* Turns for so long. */
void shop_idle(struct shop *shop, int ms);

/* A seller with a connection. */
struct seller *seller_open(struct shop *shop, const struct redis_server *redis);
/* One that may have none yet. */
struct seller *seller_open_with(struct shop *shop, const struct seller_options *options);
void seller_wait_up(struct seller *seller);
/* Both. */
struct seller *seller_open_up(struct shop *shop, const struct seller_options *options);
/* The same, of one that may have to wait for others: so long the shop's clock is put forward. */
void seller_hurry_up(struct seller *seller);
void seller_wait_down(struct seller *seller);
/* The connection is gone, and there again. */
void seller_wait_again(struct seller *seller);
/* All masters of a cluster are there. */
bool seller_is_whole(const struct seller *seller);
void seller_wait_whole(struct seller *seller);
void seller_wait_not_whole(struct seller *seller);
/* A master is gone, and its successor is there. */
void seller_wait_replaced(struct seller *seller);
void seller_close(struct seller *seller);

/* ---- purchases ---- */

struct buy {
    struct inventory_purchase purchase; /* garbage once it is answered */
    struct seller *seller;
    struct buy *next;
    char item[INVENTORY_NAME_MAX + 1];
    char id[INVENTORY_ORDER_SIZE]; /* that the order has if there is one */
    int answers;
    enum inventory_status status;
    struct inventory_order order;  /* with OK and REPLAYED */
    int64_t available;             /* with SOLD_OUT */
    void (*then)(struct buy *buy); /* called with the answer */
    void *ctx;
};

/* Submits a purchase and returns at once; it leaves with the loop's next turn. */
struct buy *buy_begin(struct seller *seller, const char *item, const char *user, const char *key,
                      int64_t quantity);
/* The same to the end. */
struct buy *buy(struct seller *seller, const char *item, const char *user, const char *key, int64_t quantity);
/* Whether ann gets one more. */
bool seller_sells(struct seller *seller, const char *item);
/* How many of all the shop's purchases had this answer. */
int buys_with(const struct shop *shop, enum inventory_status status);
/* Takes the purchases so far out of that count. They must have been answered. */
void buys_forget(struct shop *shop);

/* ---- the rest ---- */

struct inventory_item terms(const char *item, enum inventory_strategy sold_by, int64_t stock);
enum inventory_status item_put(struct seller *seller, const struct inventory_item *item);
/* item_put(terms()), which must succeed. */
void item_sell(struct seller *seller, const char *item, enum inventory_strategy sold_by, int64_t stock);
/* The same with terms: of this strategy, or of batch. */
void item_put_as(struct seller *seller, const char *item, enum inventory_strategy sold_by, int64_t stock,
                 int64_t limit, int64_t hold_ms);
void item_put_with(struct seller *seller, const char *item, int64_t stock, int64_t limit, int64_t hold_ms);
enum inventory_status item_reader(struct seller *seller, const char *item, struct inventory_item *out);
enum inventory_status item_restock(struct seller *seller, const char *item, const char *key, int64_t quantity,
                                   struct inventory_restock *out);
/* A step that was done before is OK, too; order_call_begin() tells it apart. */
enum inventory_status order_step(struct seller *seller, const char *id, enum inventory_step step,
                                 struct inventory_order *out);
enum inventory_status item_audit(struct seller *seller, const char *item, struct inventory_audit *out);
/* The item's audit, which must succeed. */
struct inventory_audit item_audited(struct seller *seller, const char *item);
void store_health(struct seller *seller, struct inventory_health *out);
/* inventory_sweep() to its end: nothing is due any more. */
void holds_sweep(struct seller *seller, const struct redis_server *redis);
/* After inventory_sweep(): begins anew if the store was so slow that nothing was to expire. */
void holds_sweep_on(struct seller *seller);
/* How many items are in the index of due times, and in it by then. */
long long holds_indexed(const struct redis_server *redis, const char *until_ms);

/* Not waited for; `count` becomes 1 with the answer. */
struct answer {
    struct shop *shop;
    struct answer *next;
    int count;
    enum inventory_status status;
    bool told; /* the callback brought more than a status */
    union {
        struct inventory_order order;
        struct inventory_item item;
        struct inventory_restock restock;
        struct inventory_audit audit;
        struct inventory_health health;
    };
};

/* Waits; `out` (NULL: not wanted) is filled where something was told. */
enum inventory_status answer_wait(struct answer *answer, void *out, size_t size);
struct answer *order_call_begin(struct seller *seller, const char *id,
                                const struct inventory_order_call *call);
struct answer *order_step_begin(struct seller *seller, const char *id, enum inventory_step step);
struct answer *item_put_begin(struct seller *seller, const struct inventory_item *item);
struct answer *item_read_begin(struct seller *seller, const char *item);
struct answer *item_restock_begin(struct seller *seller, const char *item, const char *key, int64_t quantity);
struct answer *item_audit_begin(struct seller *seller, const char *item);
struct answer *store_health_begin(struct seller *seller);

/* ---- checks ---- */

/* The status as inventory.h names it. */
const char *status_text(enum inventory_status status);
#define CHECK_STATUS(got, want) CHECK_STR(status_text(got), status_text(want))

/* The buyer's order is asked for this. */
void check_order_step(struct seller *seller, const struct buy *of, enum inventory_step step,
                      enum inventory_status status);
/* The item's books balance, by the library's audit and by the test's own, and say this. */
void check_books(struct seller *seller, const struct redis_server *redis, const char *item, int64_t available,
                 int64_t held, int64_t sold);
/* The same by the library's audit alone. */
void item_check_audit(struct seller *seller, const char *item, int64_t available, int64_t held, int64_t sold);
/* The test's own audit, which shares nothing with the library: counters, orders, users, holds and restocks
 * against each other and against what the ledger, replayed from its start, says. "balanced", or what is
 * wrong. */
const char *ledger_audit(const struct redis_server *redis, const char *item);
/* All that is in the store but the sellers' heartbeats, to be compared; `tokens`: with those that were seen.
 */
const char *store_dump(const struct redis_server *redis, bool tokens);
/* A server for all tests of a program, to be started between them; not when they are only listed (-l). */
void store_start(struct redis_server *redis, int argc, char **argv);

/* ---- a cluster ---- */

/* Kills a master, and has its replica take over at once, as an operator would: sellers see a failover. */
void master_replace(struct redis_cluster *cluster, struct redis_server *master);

/* A name that no call returned before, of an item on the server; on another one. Nobody has the slots of a
 * server that is gone. */
const char *item_at(struct redis_cluster *cluster, const struct redis_server *server);
const char *item_elsewhere(struct redis_cluster *cluster, const struct redis_server *server);

#endif
