/* Leases that are kept, and whether they are lost. */
#ifndef LOCK_LIBETCD_TEST_KEPT_H
#define LOCK_LIBETCD_TEST_KEPT_H

#include <stdatomic.h>

#include "lock/libetcd/test/tools.h"

static const int64_t second_ns = 1000000000;

struct kept {
    struct etcd_keep *keep;
    int64_t id;
    _Atomic int64_t lost_ns;
    void (*then)(struct kept *); /* from on_lost */
    void *arg;
    atomic_int lost;     /* more than once ends the program */
    atomic_bool dropped; /* nothing may come any more */
    atomic_bool held;    /* on_lost waits until this is false */
};

/* Lives until the program ends, as what is kept when a test ends is still heard of. */
struct kept *kept_make(void);
void kept_granted(struct etcd *etcd, struct kept *kept, int64_t id, int64_t ttl_s, int64_t granted_ns,
                  int64_t every_ms);
void kept_new(struct etcd *etcd, struct kept *kept, int64_t ttl_s, int64_t every_ms);
void kept_drop(struct kept *kept);
void kept_wait_lost(struct kept *kept);
enum etcd_status kept_look(struct etcd *etcd, int64_t id, int64_t *ttl_s);
/* The lease lives at least as long as the client says; the server tells whole seconds, rounded down. */
void kept_check(struct etcd *etcd, const struct kept *kept);

#endif
