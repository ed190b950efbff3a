#include "lock/libetcd/wire/key_range.h"

#include <string.h>

/* The copy is followed by a zero byte. */
static bool copy_bytes(struct etcd_arena *arena, struct etcd_bytes bytes, ProtobufCBinaryData *copy) {
    *copy = (ProtobufCBinaryData){bytes.size, etcd_arena_alloc(arena, bytes.size + 1)};
    if (copy->data && bytes.size > 0)
        memcpy(copy->data, bytes.data, bytes.size);
    return copy->data;
}

bool etcd_key_range_pack(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                         ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end) {
    if (!copy_bytes(arena, key, range_key) || !copy_bytes(arena, prefix ? key : end, range_end))
        return false;
    if (!prefix)
        return true;
    if (key.size == 0)
        range_key->len = 1; /* the first key of all */
    /* The first key after all keys that begin with `key`: drop the trailing 0xff bytes, add 1 to the last
     * byte. If no byte is left, the range has no end, which is written as a zero byte. */
    while (range_end->len > 0 && range_end->data[range_end->len - 1] == 0xff)
        range_end->len--;
    if (range_end->len > 0)
        range_end->data[range_end->len - 1]++;
    else
        range_end->data[range_end->len++] = 0;
    return true;
}
