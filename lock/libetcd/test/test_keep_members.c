/* Leases that are kept alive while members fail. */
#include <stdio.h>
#include <stdlib.h>

#include "lock/libetcd/test/kept.h"
#include "lock/libetcd/test/seen.h"

/* A client that talks to this one as long as it can. */
static struct etcd *open_first(struct etcd_server *members, int which) {
    const struct etcd_config config = {
        .endpoints =
            harness_format("%s,%s", tools_endpoints(&members[which], 1), tools_endpoints(members, 3)),
        .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_look(etcd, 0, NULL, &status), ETCD_OK); /* it is connected */
    return etcd;
}

static void check_for(struct etcd *etcd, struct kept *kept, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        if (atomic_load(&kept->lost))
            FAIL("the lease is lost");
        kept_check(etcd, kept);
    }
}

/* The least that was left of it. */
static int least_left_ms(struct kept *kept, int64_t ms) {
    int64_t least_ns = INT64_MAX;
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(2)) {
        int64_t left_ns = etcd_keep_deadline_ns(kept->keep) - tools_in_ms(0);
        least_ns = left_ns < least_ns ? left_ns : least_ns;
    }
    if (atomic_load(&kept->lost))
        FAIL("the lease is lost");
    return (int)(least_ns / 1000000);
}

/* A leader that comes back has seen all leases run out meanwhile, and may have them revoked before it learns
 * that it leads no more, or by way of its successor (etcd issue 15247). The client must hear of that, and of
 * nothing else. True: the lease is kept. */
static bool kept_or_told(struct etcd *etcd, struct kept *kept, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        bool lost = atomic_load(&kept->lost);
        enum etcd_status status = kept_look(etcd, kept->id, NULL);
        if (status == ETCD_NOT_FOUND) {
            kept_wait_lost(kept);
            printf("     the leader that came back has revoked it\n");
            return false;
        }
        CHECK_STATUS(status, ETCD_OK);
        CHECK(!lost);
    }
    return true;
}

/* Before the time to live is over, long before the pings of HTTP/2 would tell. */
static void a_stuck_member_is_left(struct etcd_server *members, int which, bool leads) {
    struct etcd *others = tools_open(&members[(which + 1) % 3], 1);
    struct kept *one = kept_make();
    kept_new(open_first(members, which), one, 3, 500);
    check_for(others, one, 700);
    CHECK_INT(seen_serving(members, 3, "LeaseKeepAlive"), which);
    etcd_pause(&members[which]);
    printf("     of 3 s at least %d ms were left\n", least_left_ms(one, 3500));
    kept_check(others, one);
    etcd_resume(&members[which]);
    if (!leads)
        check_for(others, one, 600);
    else if (!kept_or_told(others, one, 600))
        return;
    CHECK(seen_serving(members, 3, "LeaseKeepAlive") != which);
    kept_drop(one);
}

static void a_stuck_follower_is_left(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, (etcd_leader(members, 3) + 1) % 3, false);
}

static void a_stuck_leader_is_left(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, etcd_leader(members, 3), true);
}

/* For SECKILL_ETCD_MINUTES, or 12 s. */
static void kept_while_leaders_are_killed(void) {
    struct kept *kept = kept_make();
    struct kept *shorter = kept_make();
    struct etcd_server members[3];
    const char *minutes = getenv("SECKILL_ETCD_MINUTES");
    int64_t ms = minutes && *minutes ? strtol(minutes, NULL, 10) * 60000 : 12000;
    int kills = 0;
    etcd_start_cluster(members, 3, NULL);
    struct etcd *etcd = tools_open(members, 3), *looker = tools_open(members, 3);
    kept_new(etcd, kept, 5, 1000);
    kept_new(etcd, shorter, 3, 300);
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; kills++) {
        int leader = etcd_leader(members, 3);
        etcd_kill(&members[leader]);
        check_for(looker, kept, 1200);
        etcd_restart(&members[leader]);
        check_for(looker, shorter, 300);
    }
    CHECK_INT(kept->lost + shorter->lost, 0);
    printf("     %d leaders were killed\n", kills);
}

int main(int argc, char **argv) {
    const char *minutes = getenv("SECKILL_ETCD_MINUTES");
    harness_begin(argc, argv);
    if (minutes)
        harness_limit(240 + 60 * (unsigned)strtoul(minutes, NULL, 10));
    harness_run("a stuck follower is left", a_stuck_follower_is_left);
    harness_run("a stuck leader is left", a_stuck_leader_is_left);
    harness_run("kept while leaders are killed", kept_while_leaders_are_killed);
    return harness_finish();
}
