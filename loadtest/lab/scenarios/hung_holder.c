/* redis, renew=on: a live process renews for a holder that hangs. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_TTLS = 6 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage);
    cast_open(&cast, stage, "redis", !broken);
    cast_set_redis_lock(&cast, broken ? "renew=on" : "variant=watchdog", stage_ttl_ms(stage));
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    observer_watch_redis(cast.clients, cast.shop, CAST_ITEM);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_acquire(a, CAST_ITEM, ttl_ms);
    client_read_stock(a, CAST_ITEM);
    client_hang(a, "its worker hangs in a call; its process lives");
    client_begin_acquire(b, CAST_ITEM, WAIT_TTLS * ttl_ms);
    cast_sell(b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_hung_holder = {
    .name = "hung-holder",
    .ttl_ms = 1500, /* a renewal has a third of it, and a machine may stall for almost half a second */
    .text =
        {
            .title = "A watchdog that renews for as long as the process lives keeps the lock of a holder "
                     "that hangs.",
            .question = "A background thread renews the lock every third of its time to live, so work may "
                        "take as long as it takes. The worker hangs in a call that never returns. When does "
                        "the next client get the lock?",
            .answers = {"When the time to live has passed, since a worker that hangs renews nothing.",
                        "When the call has timed out: no call can hang for ever.",
                        "Never while the process lives: the thread goes on renewing."},
            .right = 2,
            .story = "Renewal solves one problem: nobody has to guess how long the work takes.\n\n"
                     "Client A takes the lock. Its worker hangs: a deadlock, a call to a service that does "
                     "not answer. But its process lives, and so does the thread that renews.\n\n"
                     "The lock is renewed again and again. Client B waits, and nobody will ever sell this "
                     "item again until somebody restarts A. A crash would have been better: then the lock "
                     "would have expired.\n\n"
                     "The fix binds renewal to progress. The worker reports that it is alive, by "
                     "lock_progress() at each step; the watchdog renews only for a holder that has "
                     "reported within three times to live. The hung holder loses its lock, is told so, and "
                     "B sells the lamp. If A ever wakes up, its fence is old.",
            .broken_code = "lock_open(\"redis://…?renew=on\")\n"
                           "acquire(lock)\n"
                           "call_that_never_returns()   # the thread renews on",
            .fixed_code = "lock_open(\"redis://…?variant=watchdog\")\n"
                          "acquire(lock)\n"
                          "for each step:\n"
                          "    work(step)\n"
                          "    if lock_progress(lock) == LOST: stop",
            .broken_lines = {1},
            .fixed_lines = {1, 5},
        },
    .play = play,
};
