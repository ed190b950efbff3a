/* Members that are cut off from everyone, or from their peers only, in a network of the program's own. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/test/load.h"
#include "lock/libetcd/test/recorder.h"

static struct etcd_server members[3];

/* A client that uses this member, and is connected to all of them. */
static struct etcd *open_first(int first) {
    const char *endpoints = tools_endpoints(&members[first], 1);
    for (int i = 1; i < 3; i++)
        endpoints = harness_format("%s,%s", endpoints, tools_endpoints(&members[(first + i) % 3], 1));
    const struct etcd_config config = {.endpoints = endpoints, .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    for (size_t i = 0; i < 3; i++) {
        struct etcd_member_status status;
        CHECK_STATUS(etcd_member_status(etcd, i, NULL, &status), ETCD_OK);
    }
    return etcd;
}

/* The time until a watch reports a write that is made now through another member. */
static int heard_after_ms(struct recorder *recorder, struct etcd *other) {
    size_t before = recorder_events(recorder);
    int64_t began_ms = harness_now_ms();
    tools_put(other, "told", "1");
    while (recorder_events(recorder) == before) {
        if (harness_now_ms() > began_ms + PATIENCE_MS)
            FAIL("the watch hears nothing");
        harness_pause_ms(2);
    }
    return (int)(harness_now_ms() - began_ms);
}

static void on_lost(void *ctx, int64_t id) {
    (void)id;
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* Longer than the members need to elect another leader on a busy machine. */
enum { LEASE_S = 10 };

struct renewal {
    const struct etcd_keep *keep;
    int64_t than_ns;
};

static bool is_renewed(void *arg) {
    const struct renewal *renewal = arg;
    return etcd_keep_deadline_ns(renewal->keep) > renewal->than_ns;
}

/* The member that serves everything is cut off. A client that only watches is served by another member too;
 * it is quiet for some time before. */
static void serving_member(const char *what, bool leads, void (*cut)(struct net_host *), int quiet_ms) {
    static atomic_int lost;
    etcd_start_network(members, 3, NULL);
    int which = (etcd_leader(members, 3) + (leads ? 0 : 1)) % 3;
    struct etcd *etcd = open_first(which), *silent = open_first(which);
    struct etcd *other = tools_open(&members[(which + 1) % 3], 1);
    const struct etcd_watch_config config = {.key = etcd_text("told")};
    struct recorder *recorder = recorder_watch(etcd, &config, 0),
                    *by_silent = recorder_watch(silent, &config, 0);
    struct etcd_keep *keep;
    recorder_created(recorder);
    recorder_created(by_silent);
    harness_pause_ms(quiet_ms);
    atomic_store(&lost, 0);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(etcd, LEASE_S);
    CHECK_STATUS(etcd_keep(etcd, id, LEASE_S, granted_ns, 300, on_lost, &lost, &keep), ETCD_OK);
    struct load *load = load_start(etcd);
    CHECK_INT(load_member(load, members, 3), which);
    CHECK_INT(recorder_serving(members, 3, "Watch"), which);
    cut(&members[which].net);
    int64_t cut_ms = harness_now_ms();
    load_wait(load);
    int again_ms = (int)(harness_now_ms() - cut_ms);
    int heard_ms = heard_after_ms(recorder, other);
    int silent_ms = (int)(harness_now_ms() - cut_ms);
    while (quiet_ms && recorder_events(by_silent) == 0) {
        CHECK(harness_now_ms() < cut_ms + PATIENCE_MS);
        harness_pause_ms(2);
        silent_ms = (int)(harness_now_ms() - cut_ms);
    }
    printf("     %s: all go on after %d ms, a watch hears %d ms later\n", what, again_ms, heard_ms);
    if (quiet_ms)
        printf("     that of a silent client hears %d ms after the cut\n", silent_ms);
    net_join(&members[which].net);
    load_wait(load);
    CHECK_INT(etcd_leader(members, 3) < 3, 1);
    for (size_t i = 0; i < 3; i++) {
        struct etcd_member_status status;
        CHECK_STATUS(etcd_member_status(etcd, i, NULL, &status), ETCD_OK);
    }
    load_wait(load);
    load_finish(load, what, false);
    struct renewal renewal = {keep, etcd_keep_deadline_ns(keep)};
    CHECK(harness_wait(is_renewed, &renewal, PATIENCE_MS));
    CHECK_INT(lost, 0);
    etcd_keep_drop(keep);
    CHECK_STATUS(etcd_lease_revoke(etcd, id, NULL), ETCD_OK);
    for (int i = 0; i < 3; i++) {
        const char *log = proc_output(&members[i].proc);
        if (strstr(log, "too_many_pings") || strstr(log, "ENHANCE_YOUR_CALM"))
            FAIL("a member complains of pings");
    }
}

static void leader_in_a_black_hole(void) {
    serving_member("leader cut off", true, net_cut, 2000);
}

static void follower_in_a_black_hole(void) {
    serving_member("follower cut off", false, net_cut, 0);
}

static void leader_without_peers(void) {
    serving_member("leader without peers", true, net_cut_peers, 50);
}

static void follower_without_peers(void) {
    serving_member("follower without peers", false, net_cut_peers, 50);
}

/* The answers of a leader that cannot reach its peers, to a client that renews a lease. */
static void a_deposed_leader_renews(void) {
    static atomic_int lost;
    etcd_start_network(members, 3, NULL);
    int leader = etcd_leader(members, 3);
    struct etcd *etcd = tools_open(&members[leader], 1); /* and nobody else */
    struct etcd *other = tools_open(&members[(leader + 1) % 3], 1);
    struct etcd_keep *keep;
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(etcd, 4);
    atomic_store(&lost, 0);
    CHECK_STATUS(etcd_keep(etcd, id, 4, granted_ns, 10, on_lost, &lost, &keep), ETCD_OK);
    harness_pause_ms(200);
    net_cut_peers(&members[leader].net);
    int64_t cut_ns = tools_in_ms(0), last_ns = 0, elected_ns = 0;
    for (int64_t deadline_ns = 0; tools_in_ms(0) < cut_ns + 2000000000;) {
        if (etcd_keep_deadline_ns(keep) != deadline_ns)
            last_ns = tools_in_ms(0);
        deadline_ns = etcd_keep_deadline_ns(keep);
        struct etcd_member_status status;
        const struct etcd_call call = {.deadline_ns = tools_in_ms(1000)};
        if (!elected_ns && etcd_member_status(other, 0, &call, &status) == ETCD_OK && status.leader_id &&
            status.raft_term > 2)
            elected_ns = tools_in_ms(0);
        harness_pause_ms(1);
    }
    printf("     renews for %d ms after it was cut off (a new leader after %d ms); it has %d ms left\n",
           (int)((last_ns - cut_ns) / 1000000), (int)((elected_ns - cut_ns) / 1000000),
           (int)((etcd_keep_deadline_ns(keep) - tools_in_ms(0)) / 1000000));
    /* No client renews it at the other members; they let it live at least as long as this one promised. */
    int64_t deadline_ns = etcd_keep_deadline_ns(keep);
    while (tools_in_ms(0) < deadline_ns) {
        struct etcd_lease_info *info = NULL;
        enum etcd_status status = etcd_lease_time_to_live(other, id, false, NULL, &info);
        etcd_lease_info_free(info);
        if (tools_in_ms(0) < deadline_ns)
            CHECK_STATUS(status, ETCD_OK);
        harness_pause_ms(20);
    }
    net_join(&members[leader].net);
}

/* An address that never answers. */
static void endpoints_in_a_black_hole(void) {
    etcd_start_network(members, 3, NULL);
    const char *a = tools_endpoints(&members[0], 1);
    net_cut(&members[1].net);
    etcd_leader(members, 3); /* a write at another member before that may be unknown */
    const struct etcd_config config = {
        .endpoints = harness_format("%s,10.77.1.201:2379,%s", tools_endpoints(&members[1], 1), a),
        .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    int64_t began_ms = harness_now_ms();
    tools_put(etcd, "a", "1");
    printf("     first write after %d ms\n", (int)(harness_now_ms() - began_ms));
    CHECK_STR(tools_get(etcd, "a"), "1");
    began_ms = harness_now_ms();
    struct etcd *closed;
    CHECK_STATUS(etcd_open(&config, &closed, NULL, 0), ETCD_OK);
    struct etcd_watch_config watch = {.key = etcd_text("a")};
    recorder_watch(closed, &watch, 0);
    etcd_close(closed);
    printf("     closed after %d ms\n", (int)(harness_now_ms() - began_ms));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    net_begin();
    harness_run("the leader in a black hole", leader_in_a_black_hole);
    harness_run("a follower in a black hole", follower_in_a_black_hole);
    harness_run("the leader without peers", leader_without_peers);
    harness_run("a follower without peers", follower_without_peers);
    harness_run("a deposed leader renews", a_deposed_leader_renews);
    harness_run("endpoints in a black hole", endpoints_in_a_black_hole);
    return harness_finish();
}
