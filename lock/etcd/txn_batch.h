/* Transactions of many threads that go as one: what comes while two are under way gathers, and leaves as one
 * request, which costs the store one entry of its log. Not for users. */
#ifndef LOCK_ETCD_TXN_BATCH_H
#define LOCK_ETCD_TXN_BATCH_H

#include "lock/etcd/session.h"

struct etcd_batch;

/* NULL when out of memory. `session` outlives it. */
struct etcd_batch *etcd_batch_new(struct etcd_session *session);
/* Nobody is in it. NULL is fine. */
void etcd_batch_free(struct etcd_batch *batch);

/* Blocks, as long as the limit lets it: then it is ETCD_UNKNOWN, or ETCD_UNAVAILABLE where it was not sent.
 * On ETCD_OK, and not otherwise, `read` was called with the transaction's reply, by whichever thread sent it.
 * It must not block. Two that are in it at a time should not touch the same key: etcd refuses them together,
 * and then each goes alone. */
enum etcd_status etcd_batch_do(struct etcd_batch *batch, const struct etcd_txn *txn,
                               const struct lock_limit *limit,
                               void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx);
/* The same, but where nobody comes along `plain` is sent, which etcd does in less time than a transaction;
 * `*was_plain` says so, whatever came of it. */
enum etcd_status etcd_batch_delete(struct etcd_batch *batch, const struct etcd_txn *txn,
                                   const struct etcd_op *plain, bool *was_plain,
                                   const struct lock_limit *limit,
                                   void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx);

#endif
