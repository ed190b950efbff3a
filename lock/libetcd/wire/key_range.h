/* Bytes and key ranges, as protobuf-c has them. Not for users. */
#ifndef LOCK_LIBETCD_WIRE_KEY_RANGE_H
#define LOCK_LIBETCD_WIRE_KEY_RANGE_H

#include "lock/libetcd/etcd.h"
#include "lock/libetcd/wire/arena.h"

ProtobufCBinaryData etcd_bytes_pack(struct etcd_bytes bytes);
struct etcd_bytes etcd_bytes_unpack(ProtobufCBinaryData bytes);
/* Writes the request's `key` and `range_end` for a key, an end and a prefix; in the arena if need be. False:
 * out of memory. */
bool etcd_key_range_pack(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                         ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end);

#endif
