/* redis, variant timestamp (V3.0): two clients with one timestamp are one owner. */
#include "base/clock.h"
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_TTLS = 20 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage), wait_ms = WAIT_TTLS * ttl_ms;
    static const char slow[] = "its work takes longer than the lock lives";
    cast_open(&cast, stage, "redis", !broken);
    cast_set_redis_lock(&cast, broken ? "variant=timestamp" : "", stage_ttl_ms(stage));
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b"),
                  *c = cast_client(&cast, "client-c");
    cast_begin(&cast, 1);
    observer_watch_redis(cast.clients, cast.shop, CAST_ITEM);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    int64_t shown_ms = clock_now_ns() / 1000000;
    client_set_clock(a, shown_ms);
    client_set_clock(b, shown_ms);
    stage_note(stage, "B's clock is behind: when B gets the lock, it shows what A's showed");
    client_acquire(a, CAST_ITEM, wait_ms);
    client_read_stock(a, CAST_ITEM);
    stage_fault(stage, "client-a", slow);
    client_begin_acquire(b, CAST_ITEM, wait_ms);
    client_wait(b);
    client_read_stock(b, CAST_ITEM);
    stage_pause(stage, ttl_ms / 4);
    stage_fault_over(stage, "client-a", slow);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a); /* its timestamp is B's */
    client_begin_acquire(c, CAST_ITEM, wait_ms);
    client_done_within(c, ttl_ms / 5);
    bool both = client_holds(c);
    if (both)
        client_read_stock(c, CAST_ITEM);
    stage_pause(stage, ttl_ms / 10);
    client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(b);
    if (both)
        client_release(c);
    else
        cast_sell(c);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_equal_timestamps = {
    .name = "equal-timestamps",
    .ttl_ms = 600,
    .text =
        {
            .title = "A timestamp is no owner: two clients with the same one release each other's lock.",
            .question =
                "The release compares before it deletes, in one script. The value that it compares is "
                "the time at which the lock was taken, in milliseconds. When does it delete another's "
                "lock?",
            .answers = {"Never: it compares before it deletes, and both are done in one script.",
                        "When the other's clock showed the same millisecond: both values are equal.",
                        "Whenever the release comes later than the time to live."},
            .right = 1,
            .story = "This is version 3.0. The release reads the value, compares it with its own, and "
                     "deletes, all in one script. Only the value is wrong: it is the time of the "
                     "acquisition.\n\n"
                     "Client A takes the lock, and works for longer than the lock lives. The lock expires, "
                     "and client B takes it. B runs on another machine, whose clock is behind: it shows "
                     "the same millisecond as A's did.\n\n"
                     "A is late, and releases. The script compares: the value is equal. It deletes B's "
                     "lock.\n\n"
                     "Client C takes the lock beside B. Two clients in one millisecond are not rare in a "
                     "crowd, and clocks of two machines differ by more than that.\n\n"
                     "The fix is a value that nobody else has: random bits for the process, and a counter.",
            .broken_code = "owner = now_ms()           # A and B: the same\n"
                           "SET lock owner NX PX ttl\n"
                           "...\n"
                           "if GET lock == owner: DEL lock   # B's",
            .fixed_code = "owner = random_64_bits() + counter()\n"
                          "SET lock owner NX PX ttl\n"
                          "...\n"
                          "if GET lock == owner: DEL lock   # one script",
            .broken_lines = {1},
            .fixed_lines = {1},
        },
    .play = play,
};
