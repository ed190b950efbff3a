/* The lock in an etcd of three members, between real processes, while members are killed and cut off: see
 * beliefs.h. SECKILL_TORTURE_ROUNDS: how many faults, instead of one of each but the last. */
#include <stdlib.h>
#include <string.h>

#include "lock/test/beliefs.h"
#include "lock/test/etcd_tools.h"

enum { PROCESSES = 4, THREADS = 2, TTL_MS = 4000, SLOW_IN = 512 };

static struct etcd_server members[3];

static void kill_it(struct etcd_server *member) {
    etcd_kill(member);
}

static void cut_it(struct etcd_server *member) {
    net_cut(&member->net);
}

static void cut_its_peers(struct etcd_server *member) {
    net_cut_peers(&member->net);
}

static void join_it(struct etcd_server *member) {
    net_join(&member->net);
}

static const struct fault {
    bool leader; /* or one of the others */
    void (*begin)(struct etcd_server *member);
    void (*end)(struct etcd_server *member);
} faults[] = {
    {true, kill_it, etcd_restart},  {true, cut_it, join_it},  {false, kill_it, etcd_restart},
    {true, cut_its_peers, join_it}, {false, cut_it, join_it},
};

enum { FAULTS = sizeof faults / sizeof *faults };

static void suffer(const struct fault *fault, uint64_t *random) {
    int leader = etcd_leader(members, 3);
    int victim = fault->leader ? leader : (leader + 1 + (int)(harness_random(random) % 2)) % 3;
    fault->begin(&members[victim]);
    harness_pause_ms((int)(harness_random(random) % 1000));
    beliefs_wait();
    fault->end(&members[victim]);
    beliefs_wait();
    etcd_leader(members, 3);
}

static int rounds_wanted(void) {
    const char *rounds = getenv("SECKILL_TORTURE_ROUNDS");
    return rounds ? (int)strtol(rounds, NULL, 10) : FAULTS - 1;
}

static void members_fail(void) {
    int rounds = rounds_wanted();
    uint64_t random = harness_seed();
    etcd_start_network(members, 3, NULL);
    const char *status = etcd_command(&members[0], "endpoint", "status", "--write-out=fields", NULL);
    const char *version = strstr(status, "\"Version\" : \"");
    CHECK(version);
    version += strlen("\"Version\" : \"");
    version = harness_format("etcd %.*s", (int)strcspn(version, "\""), version);
    beliefs_start(&(struct beliefs_plan){etcd_tools_url(members, 3, ""), TTL_MS, PROCESSES, THREADS, SLOW_IN},
                  &random);
    beliefs_wait();
    for (int i = 0; i < rounds; i++)
        suffer(&faults[i % FAULTS], &random);
    beliefs_judge("etcd of three: members are killed and cut off", rounds, version, false);
    etcd_tools_wait_for(&members[0], "lock/", 0); /* once the leases of the processes have run out */
}

int main(int argc, char **argv) {
    beliefs_work(argc, argv);
    harness_begin(argc, argv);
    harness_limit(240 + 20 * (unsigned)rounds_wanted());
    net_begin();
    harness_run("members fail", members_fail);
    return harness_finish();
}
