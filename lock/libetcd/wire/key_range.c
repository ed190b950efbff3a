#include "lock/libetcd/wire/key_range.h"

#include <string.h>

ProtobufCBinaryData etcd_bytes_pack(struct etcd_bytes bytes) {
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.data};
}

struct etcd_bytes etcd_bytes_unpack(ProtobufCBinaryData bytes) {
    return (struct etcd_bytes){bytes.data, bytes.len};
}

/* The first key after all keys that begin with `key`: drop the trailing 0xff bytes, add 1 to the last byte.
 * If no byte is left, the range has no end, which is written as a zero byte. */
static bool pack_prefix_end(struct etcd_arena *arena, struct etcd_bytes key, ProtobufCBinaryData *end) {
    uint8_t *copy = etcd_arena_alloc(arena, key.size + 1);
    size_t size = key.size;
    if (!copy)
        return false;
    if (size > 0)
        memcpy(copy, key.data, size);
    while (size > 0 && copy[size - 1] == 0xff)
        size--;
    if (size > 0)
        copy[size - 1]++;
    else
        copy[size++] = 0;
    *end = (ProtobufCBinaryData){size, copy};
    return true;
}

bool etcd_key_range_pack(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                         ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end) {
    static uint8_t first_key[1];
    *range_key = prefix && key.size == 0 ? (ProtobufCBinaryData){1, first_key} : etcd_bytes_pack(key);
    if (prefix)
        return pack_prefix_end(arena, key, range_end);
    *range_end = etcd_bytes_pack(end);
    return true;
}
