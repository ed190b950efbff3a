/* Sends the transactions of many threads as one request: what comes while two requests are in flight gathers,
 * and is sent together, which costs the store one entry of its log. Not for users. */
#ifndef LOCK_ETCD_TXN_BATCH_H
#define LOCK_ETCD_TXN_BATCH_H

#include "lock/etcd/session.h"

struct etcd_batch;

/* NULL when out of memory. `session` outlives it. */
struct etcd_batch *etcd_batch_new(struct etcd_session *session);
/* No thread may be inside a call. NULL does nothing. */
void etcd_batch_free(struct etcd_batch *batch);

/* Blocks until there is a reply, or the limit is over: ETCD_UNKNOWN, or ETCD_UNAVAILABLE if it was not sent.
 * On ETCD_OK, and not otherwise, `read` was called with the transaction's reply, by the thread that sent it;
 * it must not block. Two transactions at a time should not write the same key: etcd refuses them together,
 * and then each is sent alone. */
enum etcd_status etcd_batch_do(struct etcd_batch *batch, const struct etcd_txn *txn,
                               const struct lock_limit *limit,
                               void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx);

#endif
