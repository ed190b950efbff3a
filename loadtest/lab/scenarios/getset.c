/* redis, variant getset (V1.1): a loser's GETSET replaces the winner's time. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_MS = 10000, WORK_MS = 100 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage);
    cast_open(&cast, stage, "redis", !broken);
    cast_set_redis_lock(&cast, broken ? "variant=getset" : "", stage_ttl_ms(stage));
    struct client *dead = cast_client(&cast, "client-0"), *a = cast_client(&cast, "client-a"),
                  *b = cast_client(&cast, "client-b"), *c = cast_client(&cast, "client-c");
    cast_begin(&cast, 2);
    observer_watch_redis(cast.clients, cast.shop, CAST_ITEM);
    client_acquire(dead, CAST_ITEM, WAIT_MS);
    client_kill(dead);
    client_set_gate(a, "between GET and GETSET");
    stage_pause(stage, ttl_ms + 20 + stage_random(stage, 0, 30)); /* the dead client's time is over */
    stage_fault(stage, "client-a", "slow between GET and GETSET");
    client_begin_acquire(a, CAST_ITEM, 0);
    bool between = client_wait_for_gate(a);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    stage_pause(stage, 60);
    if (between)
        client_wait(b);
    client_open_gate(a);
    client_wait(a);
    stage_fault_over(stage, "client-a", "slow between GET and GETSET");
    stage_pause(stage, WORK_MS);
    cast_sell(a);
    cast_sell(b);
    client_begin_acquire(c, CAST_ITEM, WAIT_MS);
    cast_sell(c);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_getset = {
    .name = "getset",
    .ttl_ms = 800,
    .text =
        {
            .title = "GETSET also writes when it loses: a loser moves the winner's time, and nobody can "
                     "release.",
            .question =
                "The value of the key is the time at which the lock ends. A client that reads a time "
                "in the past writes its own by GETSET, and has won if GETSET returns the time that it "
                "read. What does a client do that has lost?",
            .answers = {"It has written all the same: its GETSET moved the winner's time.",
                        "Nothing: GETSET writes only if the value is the one that it expects.",
                        "It deletes the winner's lock, and so lets in a third client."},
            .right = 0,
            .story = "This is version 1.1. There is no EXPIRE that can be missed: the value is the time at "
                     "which the lock ends, and the manual of SETNX once recommended it.\n\n"
                     "A first client takes the lock and dies. After its time client A GETs the value, sees "
                     "that it is over, and is slow.\n\n"
                     "Meanwhile client B GETs the same value, writes its own time by GETSET, gets the old "
                     "one back, and has won. Now A goes on. Its GETSET returns B's time, so A has lost; "
                     "but it has written its own time over B's.\n\n"
                     "B sells, and wants to release. The value is not B's any more: its release is "
                     "refused, long before its deadline. The key names a time that belongs to nobody.\n\n"
                     "Client C has to wait until that time is over, and every loser moves it on. In the "
                     "end nobody has the lock, and nobody gets it.\n\n"
                     "The fix: Redis keeps the time, and the value is an owner: SET with NX and PX.",
            .broken_code = "end = GET lock             # in the past\n"
                           "# B wins the lock here\n"
                           "was = GETSET lock (now + ttl)\n"
                           "if was == end: return OK\n"
                           "return BUSY   # but B's time is gone",
            .fixed_code = "if SET lock owner NX PX ttl:\n"
                          "    return OK\n"
                          "return BUSY   # and nothing was written",
            .broken_lines = {3},
            .fixed_lines = {1},
        },
    .play = play,
};
