#include "lock/libetcd/wire/arena.h"

#include <stdalign.h>
#include <stdlib.h>

enum { CHUNK = 2048 };

struct etcd_arena_chunk {
    struct etcd_arena_chunk *next;
    alignas(max_align_t) char data[];
};

static void *allocate(void *arena, size_t size) {
    return etcd_arena_alloc(arena, size);
}

static void release(void *arena, void *data) {
    (void)arena;
    (void)data; /* etcd_arena_free() frees it */
}

void etcd_arena_init(struct etcd_arena *arena) {
    *arena = (struct etcd_arena){.allocator = {.alloc = allocate, .free = release, .allocator_data = arena}};
}

void *etcd_arena_alloc(struct etcd_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    if (size > arena->left || !arena->chunks) {
        size_t capacity = size > CHUNK ? size : CHUNK;
        struct etcd_arena_chunk *chunk = calloc(1, sizeof *chunk + capacity);
        if (!chunk)
            return NULL;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->at = chunk->data;
        arena->left = capacity;
    }
    void *data = arena->at;
    arena->at += size;
    arena->left -= size;
    return data;
}

void *etcd_arena_array(struct etcd_arena *arena, size_t count, size_t size) {
    return count > SIZE_MAX / 2 / size ? NULL : etcd_arena_alloc(arena, count * size);
}

void etcd_arena_free(struct etcd_arena *arena) {
    while (arena->chunks) {
        struct etcd_arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}
