/* Messages of Protocol Buffers: the memory that they live in, and how the structs of etcd.h become messages
 * and messages become structs. Not for users. */
#ifndef LOCK_LIBETCD_MESSAGE_H
#define LOCK_LIBETCD_MESSAGE_H

#include <grpc/grpc.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etcd.pb-c.h"
#include "lock/libetcd/etcd.h"

/* ---- memory ---- */

/* An arena: memory that is freed all at once. It must not move once it is initialized. */
struct etcd_arena {
    struct etcd_arena_chunk *chunks;
    char *at; /* in the newest chunk */
    size_t left;
    ProtobufCAllocator allocator; /* lets protobuf-c unpack into the arena */
};

void etcd_arena_init(struct etcd_arena *arena);
/* Returns zeroed memory, aligned for any type; NULL: out of memory. */
void *etcd_arena_alloc(struct etcd_arena *arena, size_t size);
/* The same for `count` elements of `size` bytes; NULL also if the product overflows. */
void *etcd_arena_array(struct etcd_arena *arena, size_t count, size_t size);
void etcd_arena_free(struct etcd_arena *arena);

/* An answer: the received bytes, and an arena for everything that is made from them. It must not move once it
 * has been read, since its arena must not. */
struct etcd_answer {
    const uint8_t *data;
    size_t size;
    grpc_slice slice;
    struct etcd_arena arena;
    /* Only for an answer of etcd_rpc(): the unpacked message, and a zeroed struct for the user, which may
     * point into the message. Freeing the result frees the answer too. */
    const void *message;
    alignas(max_align_t) char result[];
};

/* False: `buffer` is empty, and there is nothing to clear. */
bool etcd_answer_read(struct etcd_answer *answer, grpc_byte_buffer *buffer);
/* Unpacks a message, which lives as long as the answer; NULL: the bytes are no such message, or out of
 * memory. */
void *etcd_answer_unpack(struct etcd_answer *answer, const ProtobufCMessageDescriptor *descriptor);
void etcd_answer_clear(struct etcd_answer *answer);
/* Clears an answer that comes from malloc(), and frees it. */
void etcd_answer_free(struct etcd_answer *answer);
/* Frees the answer that `result` is a part of; NULL does nothing. */
void etcd_answer_free_result(void *result);

/* ---- from etcd.h to messages ---- */

/* Returns the packed message; the caller unrefs it. */
grpc_slice etcd_message_pack(const ProtobufCMessage *message);

static inline ProtobufCBinaryData etcd_bytes_pack(struct etcd_bytes bytes) {
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.data};
}

/* Stores a request's `key` and `range_end`, whose bytes are in the arena. False: out of memory. */
bool etcd_key_range_pack(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                         ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end);

/* ---- from messages to etcd.h ---- */

static inline struct etcd_bytes etcd_bytes_unpack(ProtobufCBinaryData bytes) {
    return (struct etcd_bytes){bytes.data, bytes.len};
}

struct etcd_kv etcd_kv_unpack(const Pb__KeyValue *kv);

/* How deep transactions may be nested. */
enum { ETCD_DEPTH_MAX = 100 };

/* Fills `reply` from the response to an operation of this kind: a Pb__RangeResponse for ETCD_RANGE. `depth`:
 * the number of transactions around the operation. False: the response makes no sense, or out of memory. */
bool etcd_reply_unpack(struct etcd_reply *reply, struct etcd_arena *arena, enum etcd_kind kind,
                       const void *response, int depth);

#endif
