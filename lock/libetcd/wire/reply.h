/* Replies of operations on keys, from protobuf-c's structs to those of etcd.h. Not for users. */
#ifndef LOCK_LIBETCD_WIRE_REPLY_H
#define LOCK_LIBETCD_WIRE_REPLY_H

#include "etcd.pb-c.h"
#include "lock/libetcd/etcd.h"
#include "lock/libetcd/wire/arena.h"

/* How deep transactions may be nested. */
enum { ETCD_DEPTH_MAX = 100 };

/* Fills `reply` from a Pb__RangeResponse or the like. `depth`: the number of transactions around it. False:
 * it makes no sense, or out of memory. */
bool etcd_reply_unpack(struct etcd_reply *reply, struct etcd_arena *arena, enum etcd_kind kind,
                       const void *response, int depth);
struct etcd_kv etcd_kv_unpack(const Pb__KeyValue *kv);

#endif
