/* The server's own lock service, v3lock. The library exports these functions for liblock's lesson on
 * it (etcd://…?variant=rpc); the header is not installed.
 *
 * A server of version 3.4 grants the lock to a waiter whose lease is gone: check that the key exists. */
#ifndef LOCK_LIBETCD_V3LOCK_H
#define LOCK_LIBETCD_V3LOCK_H

#include "lock/libetcd/etcd.h"

#pragma GCC visibility push(default)

/* Blocks until the lock `name` is acquired with `lease`. `*key` is the ownership key, which the caller frees
 * with etcd_lock_key_free(); `*revision` is the store's revision at the answer. After ETCD_TIMEOUT and
 * ETCD_UNKNOWN a key may keep waiting until the lease is gone. */
enum etcd_status etcd_lock(struct etcd *etcd, struct etcd_bytes name, int64_t lease,
                           const struct etcd_call *call, struct etcd_bytes **key, int64_t *revision);
/* NULL does nothing. */
void etcd_lock_key_free(struct etcd_bytes *key);
/* Deletes the ownership key `key`, and blocks until that is done. ETCD_OK also if there was none. */
enum etcd_status etcd_unlock(struct etcd *etcd, struct etcd_bytes key, const struct etcd_call *call);

#pragma GCC visibility pop

#endif
