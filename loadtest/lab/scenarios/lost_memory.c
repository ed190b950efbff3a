/* redlock: a node restarts without its data, and votes a second time. */
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/scenarios/votes.h"

static struct server *start_forgetful(struct stage *stage, const char *name) {
    return stage_start_redis(stage, name, NULL);
}

static struct server *start_durable(struct stage *stage, const char *name) {
    return stage_start_redis(stage, name, "--appendonly", "yes", "--appendfsync", "always", NULL);
}

static void crash(struct server *node) {
    static const char restarted[] = "killed, and started again";
    stage_fault(node->stage, node->name, restarted);
    server_kill(node);
    server_restart(node);
    stage_fault_over(node->stage, node->name, restarted);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    struct votes votes;
    cast_open(&cast, stage, "shop", !broken);
    votes_start(&votes, &cast, broken ? start_forgetful : start_durable);
    votes_start_clients(&votes);
    cast_begin(&cast, 1);
    votes_play(&votes, crash);
}

const struct scenario scenario_lost_memory = {
    .name = "lost-memory",
    .ttl_ms = 3000,
    .text =
        {
            .title = "Redlock trusts memory: a node that restarts without its data votes a second time.",
            .question = "Redlock asks three Redis servers that keep everything in memory. A holder has two "
                        "votes. One of the two servers crashes, and is started again at once. What does it "
                        "remember?",
            .answers = {"Its vote: the other nodes tell it when it joins them again.",
                        "Nothing: so it votes a second time, for another client.",
                        "Its vote: Redis writes each key to disk before it answers."},
            .right = 1,
            .story = "A lock lives for seconds: why should it be written to a disk?\n\n"
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
            .broken_code = "# redis.conf of each node\n"
                           "save \"\"\n"
                           "appendonly no            # a restart forgets the vote",
            .fixed_code = "# redis.conf of each node\n"
                          "appendonly yes\n"
                          "appendfsync always       # the vote is on disk before the answer",
            .broken_lines = {3},
            .fixed_lines = {2, 3},
        },
    .play = play,
};
