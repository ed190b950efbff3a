/* local: a mutex protects the threads of one process. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_MS = 10000, TRY_MS = 150 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "redis", !broken);
    if (broken)
        snprintf(cast.url, sizeof cast.url, "local:");
    else
        cast_set_redis_lock(&cast, "", stage_ttl_ms(stage));
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    observer_watch_redis(cast.clients, cast.shop, CAST_ITEM);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    client_done_within(b, TRY_MS);
    cast_sell_beside(a, b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_two_processes = {
    .name = "two-processes",
    .ttl_ms = 2000,
    .text =
        {
            .title = "A mutex protects the threads of one process; the second process has its own.",
            .question = "The service protects its stock by a mutex, and all tests pass. Then it is started "
                        "twice, behind a load balancer. What does the mutex protect now?",
            .answers = {"The whole service: the two processes share it, as they share the store.",
                        "The threads of one process; the other process has a mutex of its own.",
                        "Nothing any more, not even the threads within one process."},
            .right = 1,
            .story = "A mutex is right, and fast, as long as there is one process.\n\n"
                     "For a sale the service is scaled out: two processes, each with a mutex in its own "
                     "memory. Client A locks its mutex; client B locks its own. Neither waits.\n\n"
                     "Both read that one lamp is left, and both sell it. Nothing in the code has changed, "
                     "no test was red, and the log of each process is as it should be.\n\n"
                     "The fix: the lock is where both processes can see it, in a store. B waits until A "
                     "has released.",
            .broken_code = "static pthread_mutex_t lock;   // one a process\n"
                           "pthread_mutex_lock(&lock);\n"
                           "sell();\n"
                           "pthread_mutex_unlock(&lock);",
            .fixed_code = "lock_open(\"redis://127.0.0.1\", …, &lock, …);   // one for all\n"
                          "lock_acquire(lock, \"lamp\", …, &grant);\n"
                          "sell(grant.fence);\n"
                          "lock_release(lock, &grant);",
            .broken_lines = {1},
            .fixed_lines = {1},
        },
    .play = play,
};
