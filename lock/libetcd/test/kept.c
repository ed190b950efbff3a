#include "lock/libetcd/test/kept.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct made {
    struct made *next;
    struct kept kept;
} * all;

static void free_all(void) {
    while (all) {
        struct made *next = all->next;
        free(all);
        all = next;
    }
}

struct kept *kept_make(void) {
    struct made *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    if (!all)
        atexit(free_all);
    made->next = all;
    all = made;
    return &made->kept;
}

static void on_lost(void *ctx, int64_t id) {
    struct kept *kept = ctx;
    atomic_store(&kept->lost_ns, tools_in_ms(0));
    if (id != kept->id || atomic_fetch_add(&kept->lost, 1) > 0 || atomic_load(&kept->dropped)) {
        fprintf(stderr, "lease %lld is lost %d times\n", (long long)id, atomic_load(&kept->lost));
        abort();
    }
    while (atomic_load(&kept->held))
        harness_pause_ms(1);
    if (kept->then)
        kept->then(kept);
}

void kept_granted(struct etcd *etcd, struct kept *kept, int64_t id, int64_t ttl_s, int64_t granted_ns,
                  int64_t every_ms) {
    kept->id = id;
    CHECK_STATUS(etcd_keep(etcd, id, ttl_s, granted_ns, every_ms, on_lost, kept, &kept->keep), ETCD_OK);
}

void kept_new(struct etcd *etcd, struct kept *kept, int64_t ttl_s, int64_t every_ms) {
    int64_t granted_ns = tools_in_ms(0);
    kept_granted(etcd, kept, tools_grant(etcd, ttl_s), ttl_s, granted_ns, every_ms);
}

void kept_drop(struct kept *kept) {
    if (!kept->keep)
        abort(); /* it is lost before it was had */
    etcd_keep_drop(kept->keep);
    atomic_store(&kept->dropped, true);
}

static bool is_lost(void *arg) {
    return atomic_load(&((struct kept *)arg)->lost) > 0;
}

void kept_wait_lost(struct kept *kept) {
    CHECK(harness_wait(is_lost, kept, PATIENCE_MS));
}

enum etcd_status kept_look(struct etcd *etcd, int64_t id, int64_t *ttl_s) {
    struct etcd_lease_info *info = NULL;
    enum etcd_status status = etcd_lease_look(etcd, id, false, NULL, &info);
    if (status == ETCD_OK && ttl_s)
        *ttl_s = info->ttl_s;
    etcd_lease_info_free(info);
    return status;
}

void kept_check(struct etcd *etcd, const struct kept *kept) {
    int64_t deadline_ns = etcd_keep_deadline_ns(kept->keep), ttl_s = 0;
    CHECK(deadline_ns > 0);
    CHECK_STATUS(kept_look(etcd, kept->id, &ttl_s), ETCD_OK);
    int64_t now_ns = tools_in_ms(0);
    if (deadline_ns > now_ns + (ttl_s + 1) * second_ns)
        FAIL("the deadline is %lld ms away, the lease has at most %lld s",
             (long long)((deadline_ns - now_ns) / 1000000), (long long)ttl_s + 1);
}
