/* redis, variant setnx-expire (V1.0): its holder dies between SETNX and EXPIRE. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_TTLS = 8 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage);
    cast_open(&cast, stage, "redis", !broken);
    cast_set_redis_lock(&cast, broken ? "variant=setnx-expire" : "", stage_ttl_ms(stage));
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    observer_watch_redis(cast.clients, cast.shop, CAST_ITEM);
    client_set_gate(a, "after SETNX");
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_begin_acquire(a, CAST_ITEM, ttl_ms);
    client_wait_for_gate(a);
    client_kill(a);
    stage_pause(stage, 30);
    client_begin_acquire(b, CAST_ITEM, WAIT_TTLS * ttl_ms);
    cast_sell(b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_crash_before_expire = {
    .name = "crash-before-expire",
    .ttl_ms = 400,
    .text =
        {
            .title = "SETNX, then EXPIRE: a client that dies between the two leaves a lock for ever.",
            .question = "SETNX takes the lock, EXPIRE gives it a time to live, in case its holder dies. The "
                        "holder dies right after SETNX. When does the next client get the lock?",
            .answers = {"After the time to live, since every key of a lock expires in the end.",
                        "At once: Redis notices that the connection has closed, and removes the key.",
                        "Never: nobody gave the key a time to live."},
            .right = 2,
            .story = "This is the classic version 1.0. SETNX checks and writes in one command, so there is "
                     "one holder. EXPIRE is there for holders that die.\n\n"
                     "Client A sends SETNX, and gets the lock. Then it is killed: a deployment, no memory, "
                     "a broken connection is enough. It never sends EXPIRE.\n\n"
                     "The key has no time to live. Client B asks again and again; Redis always answers "
                     "that A has it, and A is dead.\n\n"
                     "Nobody ever sells anything of this item again, until somebody deletes the key by "
                     "hand.\n\n"
                     "The fix is one command for both: SET with NX and PX. Then the lock of the dead "
                     "client is free after its time to live, and B sells the lamp.",
            .broken_code = "if SETNX lock owner == 1:\n"
                           "    # A dies here\n"
                           "    EXPIRE lock ttl\n"
                           "    return OK",
            .fixed_code = "if SET lock owner NX PX ttl:   # one command for both\n"
                          "    return OK",
            .broken_lines = {3},
            .fixed_lines = {1},
        },
    .play = play,
};
