/* Redlock on three nodes whose votes are not kept: the clock of a node jumps, or a node restarts without its
 * data, and it votes a second time. */
#include "loadtest/lab/scenarios/cast.h"

enum { WAIT_MS = 20000, TRY_MS = 400, JUMP_TTLS = 20 };

/* Plays Redlock on three nodes, each started by `start`. Client A has the votes of nodes 1 and 2, since it
 * cannot reach node 3. Node 2 loses its vote by `lose`, and B tries for a while. Whoever holds the lock
 * sells. */
static void votes_play(struct cast *cast, struct server *(*start)(struct stage *stage, const char *name),
                       void (*lose)(struct server *node)) {
    struct stage *stage = cast->stage;
    int ports[CAST_NODES];
    cast_start_nodes(cast, start, ports);
    struct proxy *to_third = stage_start_link(stage, ports[2]); /* the only way of client A to node 3 */
    cast_set_lock(cast, "redlock", (const int[]){ports[0], ports[1], proxy_port(to_third)}, CAST_NODES, "");
    struct client *a = cast_client(cast, "client-a");
    cast_set_lock(cast, "redlock", ports, CAST_NODES, "");
    struct client *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    stage_until(stage, 40 + stage_random(stage, 0, 40));
    stage_fault(stage, "client-a", "cannot reach node-3");
    proxy_silence(to_third);
    client_acquire(a, CAST_ITEM, WAIT_MS);
    lose(cast->lock_servers[1]);
    cast_try(b, WAIT_MS, TRY_MS);
    cast_sell_beside(a, b);
    observer_read_stock(cast->shop, CAST_ITEM);
}

/* ---- clock-jump: the clock of a node jumps, and its vote expires before its time ---- */

static void clock_jump_forward(struct server *node) {
    int64_t jump_ms = JUMP_TTLS * stage_ttl_ms(node->stage);
    stage_fault(node->stage, node->name, "its clock jumps forward");
    server_move_clock(node, jump_ms);
}

/* etcd counts the life of a lease by a monotonic clock, which cannot jump. So the wall clock jumps for a
 * Redis beside it. */
static void clock_jump_play_etcd(struct cast *cast) {
    struct stage *stage = cast->stage;
    struct server *node = stage_start_redis_with_clock(stage, "node-2");
    cast_start_etcd(cast, 1, "");
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    stage_until(stage, 40 + stage_random(stage, 0, 40));
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    clock_jump_forward(node);
    cast_try(b, WAIT_MS, TRY_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    cast_sell(b);
    observer_read_stock(cast->shop, CAST_ITEM);
}

static void clock_jump_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    if (broken)
        votes_play(&cast, stage_start_redis_with_clock, clock_jump_forward);
    else
        clock_jump_play_etcd(&cast);
}

const struct scenario scenario_clock_jump = {
    .name = "clock-jump",
    .ttl_ms = 3000,
    .text.title = "Redlock trusts clocks: one that jumps votes twice, and two clients have a majority.",
    .text.question = "Redlock asks three Redis servers, and two votes are enough. A holder has two. The "
                     "clock of one of them is set forward. Can a second client get two votes?",
    .text.answers = {"Yes: on that node the first vote has expired, and the third never voted.",
                     "No: the first holder still has two votes until it releases them.",
                     "No: Redis counts a time to live by a clock that never jumps."},
    .text.right = 0,
    .text.story = "Redis expires a key by the wall clock of its machine. That clock can be set: by a "
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
    .text.broken_code = "# node 2, by its wall clock:\n"
                        "SET lock A NX PX 3000      # yes\n"
                        "# the clock jumps by a minute: the key has expired\n"
                        "SET lock B NX PX 3000      # yes, to B as well",
    .text.fixed_code = "lock_open(\"etcd://h1,h2,h3\")\n"
                       "# the lease ends by a monotonic clock,\n"
                       "# and the fence is the revision of the key",
    .text.broken_lines = {4},
    .text.fixed_lines = {1},
    .play = clock_jump_play,
};

/* ---- lost-memory: a node restarts without its data ---- */

static struct server *start_durable(struct stage *stage, const char *name) {
    static const char *const options[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    return stage_start_redis(stage, name, options);
}

static void lost_memory_restart(struct server *node) {
    static const char restarted[] = "killed, and started again";
    stage_fault(node->stage, node->name, restarted);
    server_kill(node);
    server_restart(node);
    stage_fault_over(node->stage, node->name, restarted);
}

static void lost_memory_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    votes_play(&cast, broken ? cast_start_redis : start_durable, lost_memory_restart);
}

const struct scenario scenario_lost_memory = {
    .name = "lost-memory",
    .ttl_ms = 3000,
    .text.title = "Redlock trusts memory: a node that restarts without its data votes a second time.",
    .text.question = "Redlock asks three Redis servers that keep everything in memory. A holder has two "
                     "votes. One of the two servers crashes, and is started again at once. What does it "
                     "remember?",
    .text.answers = {"Its vote: the other nodes tell it when it joins them again.",
                     "Nothing: so it votes a second time, for another client.",
                     "Its vote: Redis writes each key to disk before it answers."},
    .text.right = 1,
    .text.story = "A lock lives for seconds: why should it be written to a disk?\n\n"
                  "Client A cannot reach node 3, and gets the votes of nodes 1 and 2. It holds the "
                  "lock.\n\n"
                  "Node 2 is killed, and a supervisor starts it again within a second, empty. It does "
                  "not know that it has voted.\n\n"
                  "Client B asks all three. Node 1 says no; node 2 and node 3 say yes. Both clients "
                  "have a majority, and both sell the lamp.\n\n"
                  "The fix: nodes write each vote to disk before they answer (appendfsync always). Node "
                  "2 comes back and still knows A's vote; B waits. Or a node that has crashed is "
                  "started again only after the longest time to live has passed. Redlock without either "
                  "is not safe.",
    .text.broken_code = "# redis.conf of each node\n"
                        "save \"\"\n"
                        "appendonly no            # a restart forgets the vote",
    .text.fixed_code = "# redis.conf of each node\n"
                       "appendonly yes\n"
                       "appendfsync always       # the vote is on disk before the answer",
    .text.broken_lines = {3},
    .text.fixed_lines = {2, 3},
    .play = lost_memory_play,
};
