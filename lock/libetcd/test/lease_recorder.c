#include "lock/libetcd/test/lease_recorder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct lease_recorder *lease_recorder_new(void) {
    enum { MOST = 100 };
    static struct lease_recorder leases[MOST];
    static int count;
    CHECK(count < MOST);
    return &leases[count++];
}

static void on_lost(void *ctx, int64_t id) {
    struct lease_recorder *lease = ctx;
    atomic_store(&lease->lost_ns, tools_in_ms(0));
    if (id != lease->id || atomic_fetch_add(&lease->lost, 1) > 0 || atomic_load(&lease->dropped)) {
        fprintf(stderr, "lease %lld is lost %d times\n", (long long)id, atomic_load(&lease->lost));
        abort();
    }
    while (atomic_load(&lease->held))
        harness_pause_ms(1);
    if (lease->then)
        lease->then(lease);
}

void lease_recorder_keep(struct etcd *etcd, struct lease_recorder *lease, int64_t id, int64_t ttl_s,
                         int64_t granted_ns, int64_t every_ms) {
    lease->id = id;
    CHECK_STATUS(etcd_keep(etcd, id, ttl_s, granted_ns, every_ms, on_lost, lease, &lease->keep), ETCD_OK);
}

void lease_recorder_grant(struct etcd *etcd, struct lease_recorder *lease, int64_t ttl_s, int64_t every_ms) {
    int64_t granted_ns = tools_in_ms(0);
    lease_recorder_keep(etcd, lease, tools_grant(etcd, ttl_s), ttl_s, granted_ns, every_ms);
}

void lease_recorder_drop(struct lease_recorder *lease) {
    if (!lease->keep)
        abort(); /* lost before etcd_keep() returned */
    etcd_keep_drop(lease->keep);
    atomic_store(&lease->dropped, true);
}

static bool is_lost(void *arg) {
    return atomic_load(&((struct lease_recorder *)arg)->lost) > 0;
}

void lease_recorder_wait_lost(struct lease_recorder *lease) {
    CHECK(harness_wait(is_lost, lease, PATIENCE_MS));
}

enum etcd_status lease_recorder_ttl(struct etcd *etcd, int64_t id, int64_t *ttl_s) {
    struct etcd_lease_info *info = NULL;
    enum etcd_status status = etcd_lease_time_to_live(etcd, id, false, NULL, &info);
    if (status == ETCD_OK && ttl_s)
        *ttl_s = info->ttl_s;
    etcd_lease_info_free(info);
    return status;
}

void lease_recorder_check(struct etcd *etcd, const struct lease_recorder *lease) {
    int64_t deadline_ns = etcd_keep_deadline_ns(lease->keep), ttl_s = 0;
    CHECK(deadline_ns > 0);
    CHECK_STATUS(lease_recorder_ttl(etcd, lease->id, &ttl_s), ETCD_OK);
    int64_t now_ns = tools_in_ms(0);
    if (deadline_ns > now_ns + (ttl_s + 1) * second_ns)
        FAIL("the deadline is %lld ms away, the lease has at most %lld s",
             (long long)((deadline_ns - now_ns) / 1000000), (long long)ttl_s + 1);
}
