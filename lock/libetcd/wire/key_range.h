/* Bytes and key ranges, as protobuf-c has them. Not for users. */
#ifndef LOCK_LIBETCD_WIRE_KEY_RANGE_H
#define LOCK_LIBETCD_WIRE_KEY_RANGE_H

#include "lock/libetcd/etcd.h"
#include "lock/libetcd/wire/arena.h"

static inline ProtobufCBinaryData etcd_bytes_pack(struct etcd_bytes bytes) {
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.data};
}

static inline struct etcd_bytes etcd_bytes_unpack(ProtobufCBinaryData bytes) {
    return (struct etcd_bytes){bytes.data, bytes.len};
}

/* Writes the request's `key` and `range_end` for a key, an end and a prefix; their bytes are in the arena.
 * False: out of memory. */
bool etcd_key_range_pack(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                         ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end);

#endif
