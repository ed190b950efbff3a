/* redis, variant get-set: both GET before either SETs. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_MS = 10000 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "redis", !broken);
    cast_set_redis_lock(&cast, broken ? "variant=get-set" : "", stage_ttl_ms(stage));
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    observer_watch_redis(cast.clients, cast.shop, CAST_ITEM);
    client_set_gate(a, "between GET and SET");
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    stage_fault(stage, "client-a", "slow between GET and SET");
    client_begin_acquire(a, CAST_ITEM, WAIT_MS);
    bool between = client_wait_for_gate(a);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    stage_pause(stage, 100);
    if (between)
        client_wait(b);
    client_open_gate(a);
    client_wait(a);
    stage_fault_over(stage, "client-a", "slow between GET and SET");
    cast_sell_beside(a, b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_get_then_set = {
    .name = "get-then-set",
    .ttl_ms = 2000,
    .text =
        {
            .title = "A lock that reads and then writes needs a lock itself: both read that it is free.",
            .question = "The lock is a key in Redis. A client reads whether it is there; if not, it writes "
                        "it, with an owner and a time to live. Can two clients hold it at once?",
            .answers = {"Yes: both can read that it is free before either writes.",
                        "No: Redis runs one command after the other, so one of them comes first.",
                        "No: the second SET fails, since the key is there by then."},
            .right = 0,
            .story = "Each command of Redis is atomic, and the key has an owner and a time to live, as it "
                     "should.\n\n"
                     "Client A GETs the key: it is not there. Before A SETs it, client B GETs it too: it "
                     "is still not there. B SETs it, and holds the lock. Now A SETs it, over B's value, "
                     "and holds the lock as well.\n\n"
                     "Redis names one owner, the last that wrote. B does not notice: it was told OK.\n\n"
                     "Both read that one lamp is left, both sell it. It is the fault of the stock without "
                     "a lock, one level up.\n\n"
                     "The fix is one command that checks and writes: SET with NX. While A holds the lock, "
                     "B waits; when B gets it, nothing is left to sell.",
            .broken_code = "if GET lock is nil:        # A and B both see nil\n"
                           "    SET lock owner PX ttl  # B writes, then A over it\n"
                           "    return OK              # both",
            .fixed_code = "if SET lock owner NX PX ttl:   # checks and writes\n"
                          "    return OK                  # one of them\n"
                          "wait, and try again",
            .broken_lines = {2},
            .fixed_lines = {1},
        },
    .play = play,
};
