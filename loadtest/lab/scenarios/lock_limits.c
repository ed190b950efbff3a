/* What a right lock does not do: protect one process from another (a mutex), do a task only once (two
 * workers), or finish what a dead holder began (half a basket). */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/stage/stage_sale.h"

enum { TWO_WAIT_MS = 10000, TWO_TRY_MS = 150, TWICE_WAIT_TTLS = 20 };
enum { LINES = 2, STOCK = 10, SETTLE_MS = 4000, BASKET_OP = 1 };

/* ---- two-processes (local): a mutex protects the threads of one process ---- */

static void two_processes_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open_redis(&cast, stage, !broken, "");
    if (broken)
        snprintf(cast.url, sizeof cast.url, "local:");
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_acquire(a, CAST_ITEM, TWO_WAIT_MS);
    cast_try(b, TWO_WAIT_MS, broken ? TWO_WAIT_MS : TWO_TRY_MS); /* broken: at once, on any machine */
    cast_sell_beside(a, b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_two_processes = {
    .name = "two-processes",
    .ttl_ms = 2000,
    .text.title = "A mutex protects the threads of one process; the second process has its own.",
    .text.question = "The service protects its stock by a mutex, and all tests pass. Then it is started "
                     "twice, behind a load balancer. What does the mutex protect now?",
    .text.answers = {"The whole service: the two processes share it, as they share the store.",
                     "The threads of one process; the other process has a mutex of its own.",
                     "Nothing any more, not even the threads within one process."},
    .text.right = 1,
    .text.story = "A mutex is right, and fast, as long as there is one process.\n\n"
                  "For a sale the service is scaled out: two processes, each with a mutex in its own "
                  "memory. Client A locks its mutex; client B locks its own. Neither waits.\n\n"
                  "Both read that one lamp is left, and both sell it. Nothing in the code has changed, "
                  "no test was red, and the log of each process is as it should be.\n\n"
                  "The fix: the lock is where both processes can see it, in a store. B waits until A "
                  "has released.",
    .text.broken_code = "static pthread_mutex_t lock;   // one a process\n"
                        "pthread_mutex_lock(&lock);\n"
                        "sell();\n"
                        "pthread_mutex_unlock(&lock);",
    .text.fixed_code = "lock_open(\"redis://127.0.0.1\", …, &lock, …);   // one for all\n"
                       "lock_acquire(lock, \"lamp\", …, &grant);\n"
                       "sell(grant.fence);\n"
                       "lock_release(lock, &grant);",
    .text.broken_lines = {1},
    .text.fixed_lines = {1},
    .play = two_processes_play,
};

/* ---- half-a-basket: seckilld dies between the two writes of a basket ---- */

static const char basket_killed[] = "killed between the two writes of a basket";
static const char *const basket_items[LINES] = {"lamp", "shade"};

static void basket_record_write(struct stage *stage, enum event_kind kind, const char *item) {
    if (!stage_failed(stage))
        stage_record(stage, &(struct event){
                                .kind = kind, .who = "buyer", .op = BASKET_OP, .item = item, .quantity = 1});
}

static bool basket_audit(const struct server *service, struct seckilld_audit audits[LINES]) {
    bool good = true;
    for (int i = 0; i < LINES; i++)
        good = server_read_audit(service, basket_items[i], &audits[i]) && good;
    return good;
}

/* Returns whether no unit is held back any more, and either both lines were sold or neither. */
static bool basket_is_whole(const struct server *service, struct seckilld_audit audits[LINES]) {
    return basket_audit(service, audits) && audits[0].available + audits[0].sold == STOCK &&
           audits[1].available + audits[1].sold == STOCK && audits[0].sold == audits[1].sold;
}

/* Records the stock of both items. A write counts as accepted once the stock shows the line as sold. */
static void basket_record_stock(struct stage *stage, const struct seckilld_audit audits[LINES],
                                bool known[LINES]) {
    for (int i = 0; i < LINES; i++) {
        if (audits[i].sold > 0 && !known[i]) {
            basket_record_write(stage, EVENT_WRITE_ACCEPTED, basket_items[i]);
            known[i] = true;
        }
        stage_record_stock(stage, basket_items[i], audits[i].stock, audits[i].available, audits[i].sold);
    }
}

/* Records the stock twice: right after the restart, and when the basket is whole or SETTLE_MS have passed. */
static void basket_record_outcome(struct stage *stage, const struct server *service) {
    struct seckilld_audit audits[LINES] = {{.stock = 0}};
    bool known[LINES] = {false};
    int64_t deadline_ns = stage_in_ms(SETTLE_MS);
    while (!basket_audit(service, audits) && stage_patience(stage, deadline_ns)) {
    }
    basket_record_stock(stage, audits, known);
    while (!basket_is_whole(service, audits) && stage_patience(stage, deadline_ns)) {
    }
    basket_record_stock(stage, audits, known);
    for (int i = 0; i < LINES; i++) {
        if (!known[i])
            basket_record_write(stage, EVENT_WRITE_UNKNOWN, basket_items[i]);
    }
}

/* The service talks to its Redis through a link, which is cut after the write of the first line. The lock is
 * perfect: there is one process and one lock, and nobody else asks for it. */
static void half_a_basket_play(struct stage *stage, bool broken) {
    static const char body[] = "{\"user\":\"ann\",\"lines\":[{\"item\":\"lamp\",\"quantity\":1},{\"item\":"
                               "\"shade\",\"quantity\":1}]}";
    struct server *redis = stage_start_redis(stage, "redis", NULL);
    struct proxy *link = stage_start_link(stage, redis->port);
    char lock[64];
    snprintf(lock, sizeof lock, "redis://127.0.0.1:%d?ttl=%lld", redis->port, (long long)stage_ttl_ms(stage));
    const char *const options[] = {
        "--teaching",          "--lock", lock, "--basket", broken ? "naive" : "locked", "--fencing",
        broken ? "off" : "on", NULL};
    struct server *service = stage_start_seckilld(stage, "seckilld", proxy_port(link), options);
    for (int i = 0; i < LINES; i++)
        server_put_item(service, basket_items[i], "{\"stock\":10}");
    stage_begin(stage);
    for (int i = 0; i < LINES; i++)
        stage_record_stock(stage, basket_items[i], STOCK, STOCK, 0);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    for (int i = 0; i < LINES; i++)
        basket_record_write(stage, EVENT_WRITE_SENT, basket_items[i]);
    /* the first text is the command of the first write, as a whole word of the protocol */
    proxy_silence_between(link, broken ? "\r\nHINCRBY\r\n" : "\r\ndebit\r\n", "}:shade");
    server_call(service, "POST", "/v1/baskets", "basket-1", body, NULL, 0);
    if (!stage_failed(stage) && !proxy_is_silent(link))
        stage_fail(stage, "the service did not come to the second write");
    stage_fault(stage, "seckilld", basket_killed);
    server_kill(service);
    proxy_heal(link);
    server_restart(service);
    stage_fault_over(stage, "seckilld", basket_killed);
    basket_record_outcome(stage, service);
}

const struct scenario scenario_half_a_basket = {
    .name = "half-a-basket",
    .ttl_ms = 1000,
    .text.title = "A lock keeps others out, but does not finish what a dead holder began: half a basket "
                  "is sold.",
    .text.question = "A basket has a lamp and a shade, all or nothing. The lock is perfect: nobody else "
                     "touches the two. The service dies after the first write. What is sold?",
    .text.answers = {"Nothing: the lock undoes the first write when its holder dies.",
                     "Both: whoever gets the lock next finishes the basket.",
                     "The lamp alone: the lock keeps others out, and finishes nothing."},
    .text.right = 2,
    .text.story = "The two items are in different slots, so no script can write both. A lock makes sure "
                  "that nobody else writes in between.\n\n"
                  "The service takes the lock, reads both items, and writes the lamp. Then it is "
                  "killed.\n\n"
                  "The lock expires, as it should. But the lamp is sold and the shade is not. Nobody "
                  "knows that the two belonged together, so nobody ever puts it right.\n\n"
                  "A lock gives isolation: others are kept out. It does not give atomicity: all or "
                  "nothing.\n\n"
                  "The fix is a journal. Before the first write the service writes down what it is "
                  "about to do; each write is idempotent, by the basket's id; when all is written, it "
                  "notes that. After a restart, or on another instance, recovery reads the journal, "
                  "takes the same locks, and finishes what was begun: forward if it was decided, back "
                  "if it was not.",
    .text.broken_code = "acquire(lamp), acquire(shade)\n"
                        "write(lamp, sold)\n"
                        "# dies here\n"
                        "write(shade, sold)\n"
                        "release both",
    .text.fixed_code = "journal: basket-1 intends lamp 1, shade 1\n"
                       "acquire(lamp), acquire(shade)\n"
                       "write(lamp, sold, by basket-1)\n"
                       "# dies here; whoever reads the journal goes on\n"
                       "write(shade, sold, by basket-1)\n"
                       "journal: basket-1 is decided\n"
                       "release both",
    .text.broken_lines = {2, 4},
    .text.fixed_lines = {1},
    .play = half_a_basket_play,
};

/* ---- twice-is-harmless: a lock for efficiency only, and the same lock on an order ---- */

#define ORDER "order-77"

/* Two workers do the same two tasks, since the first one is stopped beyond its lease: they refresh a cache,
 * and they deliver an order, which is due once. */
static void twice_is_harmless_play(struct stage *stage, bool broken) {
    struct cast cast;
    const char *once = broken ? NULL : "delivery-of-order-77";
    int64_t ttl_ms = stage_ttl_ms(stage), wait_ms = TWICE_WAIT_TTLS * ttl_ms;
    cast_open_redis(&cast, stage, false, "");
    struct client *a = cast_client(&cast, "worker-a"), *b = cast_client(&cast, "worker-b");
    stage_begin(stage);
    observer_fill_stock(cast.shop, ORDER, 1);
    observer_fill_stock(cast.shop, "cache", 0);
    observer_watch(cast.clients, cast.lock_servers, cast.lock_server_count, "", ORDER);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_acquire(a, ORDER, wait_ms);
    client_read_stock(a, ORDER);
    client_pause(a, "stopped beyond its lease");
    client_acquire(b, ORDER, wait_ms);
    client_read_stock(b, ORDER);
    client_refresh(b, "cache");
    client_sell(b, ORDER, STOCK_COMPUTED, once);
    client_release(b);
    stage_pause(stage, ttl_ms / 10);
    client_resume(a);
    client_refresh(a, "cache");
    stage_note(stage, "the cache was refreshed twice: that costs time, nothing else");
    client_sell(a, ORDER, STOCK_COMPUTED, once);
    client_release(a);
    observer_read_stock(cast.shop, ORDER);
}

const struct scenario scenario_twice_is_harmless = {
    .name = "twice-is-harmless",
    .ttl_ms = 800,
    .text.title = "A lock for efficiency may fail, if work done twice is harmless; an order is not.",
    .text.question = "Two workers refresh a cache, and deliver an order, under a lock that one of them "
                     "loses by a pause. Both tasks are done twice. Which of them costs money?",
    .text.answers = {"Neither: the lock makes sure that each of them is done once.",
                     "The delivery: a cache may be filled twice, an order may not be delivered twice.",
                     "Both: each of them is a write, and no write may be done twice."},
    .text.right = 1,
    .text.story = "There are two reasons to take a lock. One is efficiency: the same work should not be "
                  "done twice. The other is correctness: if it is done twice, something is wrong.\n\n"
                  "Worker A takes the lock, and is stopped beyond its lease. Worker B takes it, "
                  "refreshes the cache, and delivers order 77.\n\n"
                  "A wakes up and does the same. The cache is refreshed a second time: the same value "
                  "is written again. That costs a little time, and nothing else. For this any lock is "
                  "good enough.\n\n"
                  "The order is delivered a second time, and that costs money.\n\n"
                  "The fix is not a better lock. It is an idempotency key: each delivery carries the "
                  "key of its order, and the store does what has a key once. A's second delivery is "
                  "refused as repeated; the cache is still refreshed twice, and nobody minds. seckilld "
                  "treats every purchase this way.",
    .text.broken_code = "acquire(lock)\n"
                        "refresh(cache)           # twice: harmless\n"
                        "deliver(order)           # twice: costs money\n"
                        "release(lock)",
    .text.fixed_code = "acquire(lock)\n"
                       "refresh(cache)           # twice: still harmless\n"
                       "deliver(order, key = order.id)\n"
                       "release(lock)\n"
                       "\n"
                       "-- in the store, with the write:\n"
                       "if redis.call('SADD', once, key) == 0 then return 'repeated' end",
    .text.broken_lines = {3},
    .text.fixed_lines = {3, 7},
    .play = twice_is_harmless_play,
};
