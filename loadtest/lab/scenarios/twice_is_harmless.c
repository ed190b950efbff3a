/* redis: a lock for efficiency only, and the same lock on an order. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_TTLS = 20 };
#define ORDER "order-77"

/* Two workers do the same two tasks, since the first is stopped beyond its lease: they refresh a cache, and
 * deliver an order, of which one unit is due. */
static void play(struct stage *stage, bool broken) {
    struct cast cast;
    const char *once = broken ? NULL : "delivery-of-order-77";
    int64_t ttl_ms = stage_ttl_ms(stage), wait_ms = WAIT_TTLS * ttl_ms;
    cast_open(&cast, stage, "redis", false);
    cast_set_redis_lock(&cast, "", stage_ttl_ms(stage));
    struct client *a = cast_client(&cast, "worker-a"), *b = cast_client(&cast, "worker-b");
    stage_begin(stage);
    observer_fill_stock(cast.shop, ORDER, 1);
    observer_fill_stock(cast.shop, "cache", 0);
    observer_watch_redis(cast.clients, cast.shop, ORDER);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_acquire(a, ORDER, wait_ms);
    client_read_stock(a, ORDER);
    client_pause(a, "stopped beyond its lease");
    client_begin_acquire(b, ORDER, wait_ms);
    client_wait(b);
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
    .text =
        {
            .title = "A lock for efficiency may fail, if work done twice is harmless; an order is not.",
            .question = "Two workers refresh a cache, and deliver an order, under a lock that one of them "
                        "loses by a pause. Both tasks are done twice. Which of them costs money?",
            .answers = {"Neither: the lock makes sure that each of them is done once.",
                        "The delivery: a cache may be filled twice, an order may not be delivered twice.",
                        "Both: each of them is a write, and no write may be done twice."},
            .right = 1,
            .story = "There are two reasons to take a lock. One is efficiency: the same work should not be "
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
            .broken_code = "acquire(lock)\n"
                           "refresh(cache)           # twice: harmless\n"
                           "deliver(order)           # twice: costs money\n"
                           "release(lock)",
            .fixed_code = "acquire(lock)\n"
                          "refresh(cache)           # twice: still harmless\n"
                          "deliver(order, key = order.id)\n"
                          "release(lock)\n"
                          "\n"
                          "-- in the store, with the write:\n"
                          "if redis.call('SADD', once, key) == 0 then return 'repeated' end",
            .broken_lines = {3},
            .fixed_lines = {3, 7},
        },
    .play = play,
};
