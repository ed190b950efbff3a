/* redis: a holder is paused for longer than its time to live, wakes up, and writes. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/pause.h"
#include "loadtest/lab/scenarios/scenario.h"

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "redis", !broken);
    cast_set_redis_lock(&cast, "", stage_ttl_ms(stage));
    pause_holder(&cast, pause_observe_redis);
}

const struct scenario scenario_paused_holder = {
    .name = "paused-holder",
    .ttl_ms = 1000,
    .text =
        {
            .title = "No lock can stop a holder that is paused and wakes up late; the stock can, by the "
                     "fence.",
            .question = "The lock is right: a unique owner, a time to live, a release that compares. Its "
                        "holder is paused for longer than the time to live, just before it writes. Does the "
                        "lock protect the write?",
            .answers = {"No: the write comes late, and the stock knows nothing of the lock.",
                        "Yes: a holder that wakes up asks first whether it still has the lock.",
                        "Yes: Redis refuses the commands of a client whose lock has expired."},
            .right = 0,
            .story = "Client A takes the lock, and reads that one lamp is left. Then its process is "
                     "stopped: a long garbage collection, a page that must be read from disk, a virtual "
                     "machine that moves.\n\n"
                     "A does not know that it is paused. Its time to live passes, and Redis is right to "
                     "give the lock to client B. B reads that one lamp is left, sells it, and releases.\n\n"
                     "A wakes up. The last thing it remembers is that it holds the lock. It writes: the "
                     "lamp is sold a second time. To read the clock before the write would only make this "
                     "rarer, since the pause can come between that and the write.\n\n"
                     "The fix is a fencing token. Each grant has a number that grows; each write carries "
                     "it; the stock remembers the newest that it has seen, and refuses an older one. The "
                     "lock is the same, the pause is the same; A's late write is refused as stale.",
            .broken_code = "grant = acquire(lock)\n"
                           "left = read(stock)\n"
                           "# paused here, for longer than the time to live\n"
                           "write(stock, left - 1)          # accepted",
            .fixed_code = "grant = acquire(lock)\n"
                          "left = read(stock, grant.fence)\n"
                          "# paused here, for longer than the time to live\n"
                          "write(stock, left - 1, grant.fence)\n"
                          "\n"
                          "-- in the script of the stock:\n"
                          "if fence < newest_seen then return 'stale' end",
            .broken_lines = {4},
            .fixed_lines = {4, 7},
        },
    .play = play,
};
