/* Memory that is freed all at once: what an answer is made of. Not for users. */
#ifndef LOCK_LIBETCD_ARENA_H
#define LOCK_LIBETCD_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct etcd_arena {
    struct etcd_arena_chunk *chunks;
    char *at, *end;
    ProtobufCAllocator allocator; /* what protobuf-c unpacks into it with */
};

void etcd_arena_init(struct etcd_arena *arena);
/* Of zeros, aligned for anything; NULL when out of memory. */
void *etcd_arena_alloc(struct etcd_arena *arena, size_t size);
/* `count` of them; NULL also where that is more than can be counted. */
void *etcd_arena_array(struct etcd_arena *arena, size_t count, size_t size);
void etcd_arena_free(struct etcd_arena *arena);

#endif
