/* An arena: memory that is freed all at once. Not for users. */
#ifndef LOCK_LIBETCD_WIRE_ARENA_H
#define LOCK_LIBETCD_WIRE_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct etcd_arena {
    struct etcd_arena_chunk *chunks;
    char *at; /* in the newest chunk */
    size_t left;
    ProtobufCAllocator allocator; /* lets protobuf-c unpack into the arena, which must not move then */
};

void etcd_arena_init(struct etcd_arena *arena);
/* Zeroed and aligned for any type; NULL when out of memory. */
void *etcd_arena_alloc(struct etcd_arena *arena, size_t size);
/* `count` elements of `size` bytes; NULL also if the product overflows. */
void *etcd_arena_array(struct etcd_arena *arena, size_t count, size_t size);
void etcd_arena_free(struct etcd_arena *arena);

#endif
