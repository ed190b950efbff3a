/* redlock: the clock of a node jumps, and its vote expires before its time. */
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/scenarios/votes.h"
#include "loadtest/lab/stage/stage_servers.h"

enum { WAIT_MS = 20000, TRY_MS = 400, JUMP_TTLS = 20 };

static void jump(struct server *node) {
    int64_t jump_ms = JUMP_TTLS * stage_ttl_ms(node->stage);
    stage_fault(node->stage, node->name, "its clock jumps forward");
    server_move_clock(node, jump_ms);
}

/* The clock of etcd's machine is that of all: so it jumps for a Redis beside it, and etcd, which counts the
 * life of a lease by a monotonic clock, has nothing that could jump. */
static void play_etcd(struct cast *cast) {
    struct stage *stage = cast->stage;
    struct server *etcd, *node = stage_start_redis_with_clock(stage, "node-2");
    char url[ETCD_URL_SIZE];
    stage_start_etcd(stage, "etcd", 1, &etcd);
    server_etcd_url(url, &etcd, 1);
    cast_set_lock(cast, "%s", url);
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    observer_watch_etcd(cast->clients, &etcd, 1, "lock/", CAST_ITEM);
    stage_until(stage, 40 + stage_random(stage, 0, 40));
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    jump(node);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    client_done_within(b, TRY_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    cast_sell(b);
    observer_read_stock(cast->shop, CAST_ITEM);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    struct votes votes;
    cast_open(&cast, stage, "shop", !broken);
    if (!broken) {
        play_etcd(&cast);
        return;
    }
    votes_start(&votes, &cast, stage_start_redis_with_clock);
    votes_start_clients(&votes);
    cast_begin(&cast, 1);
    votes_play(&votes, jump);
}

const struct scenario scenario_clock_jump = {
    .name = "clock-jump",
    .ttl_ms = 3000,
    .text =
        {
            .title = "Redlock trusts clocks: one that jumps votes twice, and two clients have a majority.",
            .question = "Redlock asks three Redis servers, and two votes are enough. A holder has two. The "
                        "clock of one of them is set forward. Can a second client get two votes?",
            .answers = {"Yes: on that node the first vote has expired, and the third never voted.",
                        "No: the first holder still has two votes until it releases them.",
                        "No: Redis counts a time to live by a clock that never jumps."},
            .right = 0,
            .story = "Redis expires a key by the wall clock of its machine. That clock can be set: by a "
                     "person, by NTP after a long drift, by a virtual machine that moves.\n\n"
                     "Client A cannot reach node 3, and gets the votes of nodes 1 and 2: a majority. It "
                     "holds the lock.\n\n"
                     "The clock of node 2 jumps forward by a minute. For node 2 A's vote has expired, and "
                     "it is gone.\n\n"
                     "Client B asks all three. Node 1 says no; node 2, which has forgotten, and node 3, "
                     "which was never asked, say yes. That is a majority, too. Both hold the lock, and "
                     "both sell the lamp.\n\n"
                     "There is no fence, since three counters that know nothing of each other are not one "
                     "number that grows.\n\n"
                     "The fix is a lock that needs no wall clock for its safety. etcd counts the life of a "
                     "lease by a monotonic clock, which never jumps, and hands out one number for each "
                     "grant. (The lab moves a clock by a preload library. etcd does not read the clock "
                     "through the C library, so here the jump hits only a Redis beside it. The play starts "
                     "one member of etcd.)",
            .broken_code = "# node 2, by its wall clock:\n"
                           "SET lock A NX PX 3000      # yes\n"
                           "# the clock jumps by a minute: the key has expired\n"
                           "SET lock B NX PX 3000      # yes, to B as well",
            .fixed_code = "lock_open(\"etcd://h1,h2,h3\")\n"
                          "# the lease ends by a monotonic clock,\n"
                          "# and the fence is the revision of the key",
            .broken_lines = {4},
            .fixed_lines = {1},
        },
    .play = play,
};
