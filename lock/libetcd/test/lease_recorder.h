/* Records whether a lease that the client renews is lost. */
#ifndef LOCK_LIBETCD_TEST_LEASE_RECORDER_H
#define LOCK_LIBETCD_TEST_LEASE_RECORDER_H

#include <stdatomic.h>

#include "lock/libetcd/test/tools.h"

static const int64_t second_ns = 1000000000;

struct lease_recorder {
    struct etcd_keep *keep;
    int64_t id;
    _Atomic int64_t lost_ns;
    void (*then)(struct lease_recorder *); /* from on_lost */
    void *arg;
    atomic_int lost;     /* more than once ends the program */
    atomic_bool dropped; /* no callback may follow */
    atomic_bool held;    /* on_lost waits until this is false */
};

/* Lives as long as the program: its callback may come after the end of the test. */
struct lease_recorder *lease_recorder_new(void);
void lease_recorder_keep(struct etcd *etcd, struct lease_recorder *lease, int64_t id, int64_t ttl_s,
                         int64_t granted_ns, int64_t every_ms);
void lease_recorder_grant(struct etcd *etcd, struct lease_recorder *lease, int64_t ttl_s, int64_t every_ms);
void lease_recorder_drop(struct lease_recorder *lease);
void lease_recorder_wait_lost(struct lease_recorder *lease);
enum etcd_status lease_recorder_ttl(struct etcd *etcd, int64_t id, int64_t *ttl_s);
/* Checks that the lease lives at least as long as the client says. The server answers whole seconds, rounded
 * down. */
void lease_recorder_check(struct etcd *etcd, const struct lease_recorder *lease);

#endif
