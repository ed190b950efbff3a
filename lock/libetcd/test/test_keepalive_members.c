/* Leases that the client renews while members fail. */
#include <stdio.h>
#include <stdlib.h>

#include "lock/libetcd/test/lease_recorder.h"
#include "lock/libetcd/test/recorder.h"

/* A client that uses this member as long as it can. */
static struct etcd *open_first(struct etcd_server *members, int which) {
    const struct etcd_config config = {
        .endpoints =
            harness_format("%s,%s", tools_endpoints(&members[which], 1), tools_endpoints(members, 3)),
        .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_status(etcd, 0, NULL, &status), ETCD_OK); /* it is connected */
    return etcd;
}

static void check_for(struct etcd *etcd, struct lease_recorder *lease, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        if (atomic_load(&lease->lost))
            FAIL("the lease is lost");
        lease_recorder_check(etcd, lease);
    }
}

/* The shortest remaining time. */
static int least_left_ms(struct lease_recorder *lease, int64_t ms) {
    int64_t least_ns = INT64_MAX;
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(2)) {
        int64_t left_ns = etcd_keep_deadline_ns(lease->keep) - tools_in_ms(0);
        least_ns = left_ns < least_ns ? left_ns : least_ns;
    }
    if (atomic_load(&lease->lost))
        FAIL("the lease is lost");
    return (int)(least_ns / 1000000);
}

/* A leader that resumes has counted all leases down meanwhile, and may have them revoked before it learns
 * that it is deposed, or through its successor (etcd issue 15247). The client must report that, and nothing
 * else. True: the lease lives. */
static bool kept_or_told(struct etcd *etcd, struct lease_recorder *lease, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        bool lost = atomic_load(&lease->lost);
        enum etcd_status status = lease_recorder_ttl(etcd, lease->id, NULL);
        if (status == ETCD_NOT_FOUND) {
            lease_recorder_wait_lost(lease);
            printf("     the leader that came back has revoked it\n");
            return false;
        }
        CHECK_STATUS(status, ETCD_OK);
        CHECK(!lost);
    }
    return true;
}

/* Within the time to live, long before the HTTP/2 pings would notice. */
static void a_stuck_member_is_left(struct etcd_server *members, int which, bool leads) {
    struct etcd *others = tools_open(&members[(which + 1) % 3], 1);
    struct lease_recorder *one = lease_recorder_new();
    lease_recorder_grant(open_first(members, which), one, 3, 500);
    check_for(others, one, 700);
    CHECK_INT(recorder_serving(members, 3, "LeaseKeepAlive"), which);
    etcd_pause(&members[which]);
    printf("     of 3 s at least %d ms were left\n", least_left_ms(one, 3500));
    lease_recorder_check(others, one);
    etcd_resume(&members[which]);
    if (!leads)
        check_for(others, one, 600);
    else if (!kept_or_told(others, one, 600))
        return;
    CHECK(recorder_serving(members, 3, "LeaseKeepAlive") != which);
    lease_recorder_drop(one);
}

static void leaves_stuck_follower(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, (etcd_leader(members, 3) + 1) % 3, false);
}

static void leaves_stuck_leader(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, etcd_leader(members, 3), true);
}

/* For SECKILL_ETCD_MINUTES, or 12 s. */
static void renewed_while_leaders_killed(void) {
    struct lease_recorder *lease = lease_recorder_new();
    struct lease_recorder *shorter = lease_recorder_new();
    struct etcd_server members[3];
    const char *minutes = getenv("SECKILL_ETCD_MINUTES");
    int64_t ms = minutes && *minutes ? strtol(minutes, NULL, 10) * 60000 : 12000;
    int kills = 0;
    etcd_start_cluster(members, 3, NULL);
    struct etcd *etcd = tools_open(members, 3), *looker = tools_open(members, 3);
    lease_recorder_grant(etcd, lease, 5, 1000);
    lease_recorder_grant(etcd, shorter, 3, 300);
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; kills++) {
        int leader = etcd_leader(members, 3);
        etcd_kill(&members[leader]);
        check_for(looker, lease, 1200);
        etcd_restart(&members[leader]);
        check_for(looker, shorter, 300);
    }
    CHECK_INT(lease->lost + shorter->lost, 0);
    printf("     %d leaders were killed\n", kills);
}

int main(int argc, char **argv) {
    const char *minutes = getenv("SECKILL_ETCD_MINUTES");
    harness_begin(argc, argv);
    if (minutes)
        harness_limit(240 + 60 * (unsigned)strtoul(minutes, NULL, 10));
    harness_run("the client leaves a stuck follower", leaves_stuck_follower);
    harness_run("the client leaves a stuck leader", leaves_stuck_leader);
    harness_run("renewed while leaders are killed", renewed_while_leaders_killed);
    return harness_finish();
}
