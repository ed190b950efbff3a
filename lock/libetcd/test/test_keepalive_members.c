/* Leases that the client renews while members fail. */
#include "lock/libetcd/test/lease_recorder.h"
#include "lock/libetcd/test/recorder.h"

/* A client that uses this member as long as it can. */
static struct etcd *open_first(struct etcd_server *members, int which) {
    struct etcd *etcd = tools_open_at(
        harness_format("%s,%s", tools_endpoints(&members[which], 1), tools_endpoints(members, 3)));
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

/* A leader that resumes has counted all leases down meanwhile, and may have them revoked before it learns
 * that it is deposed, or through its successor (etcd issue 15247). The client must report that, and nothing
 * else. True: the lease lives. */
static bool kept_or_told(struct etcd *etcd, struct lease_recorder *lease, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        bool lost = atomic_load(&lease->lost);
        enum etcd_status status = lease_recorder_ttl(etcd, lease->id, NULL);
        if (status == ETCD_NOT_FOUND) {
            lease_recorder_wait_lost(lease);
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
    check_for(others, one, 3500);
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

static void renewed_while_leaders_killed(void) {
    enum { KILLS = 3 };
    struct lease_recorder *lease = lease_recorder_new();
    struct lease_recorder *shorter = lease_recorder_new();
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    struct etcd *etcd = tools_open(members, 3), *looker = tools_open(members, 3);
    lease_recorder_grant(etcd, lease, 5, 1000);
    lease_recorder_grant(etcd, shorter, 3, 300);
    for (int i = 0; i < KILLS; i++) {
        int leader = etcd_leader(members, 3);
        etcd_kill(&members[leader]);
        check_for(looker, lease, 1200);
        etcd_restart(&members[leader]);
        check_for(looker, shorter, 300);
    }
    CHECK_INT(lease->lost + shorter->lost, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the client leaves a stuck follower", leaves_stuck_follower);
    harness_run("the client leaves a stuck leader", leaves_stuck_leader);
    harness_run("renewed while leaders are killed", renewed_while_leaders_killed);
    return harness_finish();
}
