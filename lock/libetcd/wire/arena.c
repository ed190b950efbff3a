#include "lock/libetcd/wire/arena.h"

#include <stdalign.h>
#include <stdlib.h>

struct etcd_arena_block {
    struct etcd_arena_block *next;
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
    struct etcd_arena_block *block = size < SIZE_MAX / 2 ? calloc(1, sizeof *block + size) : NULL;
    if (!block)
        return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    return block->data;
}

void *etcd_arena_array(struct etcd_arena *arena, size_t count, size_t size) {
    return count > SIZE_MAX / 2 / size ? NULL : etcd_arena_alloc(arena, count * size);
}

void etcd_arena_free(struct etcd_arena *arena) {
    while (arena->blocks) {
        struct etcd_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
