/* Members that are cut off from everyone, or from their peers only, in a network of the program's own. */
#include <stdatomic.h>
#include <string.h>

#include "lock/libetcd/test/load.h"
#include "lock/libetcd/test/recorder.h"

static struct etcd_server members[3];

/* A client that uses this member, and is connected to all of them. */
static struct etcd *open_first(int first) {
    struct etcd *etcd = tools_open_at(
        harness_format("%s,%s", tools_endpoints(&members[first], 1), tools_endpoints(members, 3)));
    for (size_t i = 0; i < 4; i++) {
        struct etcd_member_status status;
        CHECK_STATUS(etcd_member_status(etcd, i, NULL, &status), ETCD_OK);
    }
    return etcd;
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

static bool has_heard(void *recorder) {
    return recorder_events(recorder) > 0;
}

/* The leader, which serves everything, is cut off. A client that only watches is served by another member
 * too; it is quiet for some time before. */
static void leader_is_cut(void (*cut)(struct net_host *), int quiet_ms) {
    static atomic_int lost;
    etcd_start_network(members, 3, NULL);
    int which = etcd_leader(members, 3);
    struct etcd *etcd = open_first(which), *silent = open_first(which);
    struct etcd *other = tools_open(&members[(which + 1) % 3], 1);
    struct recorder *recorder = recorder_watch_key(etcd, "told", 0),
                    *by_silent = recorder_watch_key(silent, "told", 0);
    struct etcd_keep *keep;
    recorder_created(recorder);
    recorder_created(by_silent);
    harness_pause_ms(quiet_ms);
    atomic_store(&lost, 0);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(etcd, LEASE_S);
    CHECK_STATUS(etcd_keep(etcd, id, LEASE_S, granted_ns, 300, on_lost, &lost, &keep), ETCD_OK);
    struct load *load = load_start(etcd);
    CHECK_INT(load_member(load, members, 3), which);
    cut(&members[which].net);
    load_wait(load);
    tools_put(other, "told", "1");
    CHECK(harness_wait(has_heard, recorder, PATIENCE_MS));
    CHECK(harness_wait(has_heard, by_silent, PATIENCE_MS));
    net_join(&members[which].net);
    load_wait(load);
    etcd_leader(members, 3);
    for (size_t i = 0; i < 3; i++) {
        struct etcd_member_status status;
        CHECK_STATUS(etcd_member_status(etcd, i, NULL, &status), ETCD_OK);
    }
    load_wait(load);
    load_finish(load, "the leader cut off", false);
    struct renewal renewal = {keep, etcd_keep_deadline_ns(keep)};
    CHECK(harness_wait(is_renewed, &renewal, PATIENCE_MS));
    CHECK_INT(lost, 0);
    etcd_keep_drop(keep);
    for (int i = 0; i < 3; i++) {
        const char *log = proc_output(&members[i].proc);
        if (strstr(log, "too_many_pings") || strstr(log, "ENHANCE_YOUR_CALM"))
            FAIL("a member complains of pings");
    }
}

static void leader_in_a_black_hole(void) {
    leader_is_cut(net_cut, 2000);
}

static void leader_without_peers(void) {
    leader_is_cut(net_cut_peers, 50);
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
    harness_pause_ms(2000); /* it goes on for some time, as far as it knows */
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
    tools_put(etcd, "a", "1");
    CHECK_STR(tools_get(etcd, "a"), "1");
    struct etcd *closed;
    CHECK_STATUS(etcd_open(&config, &closed, NULL, 0), ETCD_OK);
    recorder_watch_key(closed, "a", 0);
    etcd_close(closed);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    net_begin();
    harness_run("the leader in a black hole", leader_in_a_black_hole);
    harness_run("the leader without peers", leader_without_peers);
    harness_run("a deposed leader renews", a_deposed_leader_renews);
    harness_run("endpoints in a black hole", endpoints_in_a_black_hole);
    return harness_finish();
}
