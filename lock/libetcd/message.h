/* Between what users see and what is on the wire: operations and answers. Not for users. */
#ifndef LOCK_LIBETCD_MESSAGE_H
#define LOCK_LIBETCD_MESSAGE_H

#include "etcd.pb-c.h"
#include "lock/libetcd/arena.h"
#include "lock/libetcd/etcd.h"

/* How many transactions a transaction may be in. */
enum { ETCD_DEPTH_MAX = 100 };

ProtobufCBinaryData etcd_message_bytes(struct etcd_bytes bytes);
struct etcd_bytes etcd_message_from_bytes(ProtobufCBinaryData bytes);
/* The key and end that mean `key`, `end`, `prefix`; in the arena if need be. False: out of memory. */
bool etcd_message_range(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                        ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end);
/* The request for `op`, a Pb__RangeRequest or the like; NULL when out of memory. */
const ProtobufCMessage *etcd_message_request(struct etcd_arena *arena, const struct etcd_op *op);
/* What a Pb__RangeResponse or the like says; NULL when out of memory, or it makes no sense. */
struct etcd_reply *etcd_message_reply(struct etcd_arena *arena, enum etcd_kind kind, const void *response);
void etcd_message_kv(struct etcd_kv *kv, const Pb__KeyValue *from);

#endif
