/* An answer: a message as it was received, and the memory of everything that is made from it. Not for users.
 */
#ifndef LOCK_LIBETCD_WIRE_ANSWER_H
#define LOCK_LIBETCD_WIRE_ANSWER_H

#include <grpc/grpc.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock/libetcd/wire/arena.h"

/* It must not move once it has been read: its arena must not. */
struct etcd_answer {
    const uint8_t *data;
    size_t size;
    grpc_slice slice;
    struct etcd_arena arena;
    /* Of an answer of etcd_rpc(): the unpacked message, and a zeroed struct for the user that may point into
     * it. Freeing the result frees the answer too. */
    const void *message;
    alignas(max_align_t) char result[];
};

/* False: `buffer` is empty, and there is nothing to free. */
bool etcd_answer_read(struct etcd_answer *answer, grpc_byte_buffer *buffer);
/* The message in it, which lives as long as the answer; NULL: it is no such message, or out of memory. */
void *etcd_answer_unpack(struct etcd_answer *answer, const ProtobufCMessageDescriptor *descriptor);
void etcd_answer_clear(struct etcd_answer *answer);
/* The same for an answer that comes from malloc(). */
void etcd_answer_free(struct etcd_answer *answer);

/* `result` may be NULL. */
void etcd_answer_free_result(void *result);

/* The packed message; the caller unrefs it. */
grpc_slice etcd_message_pack(const ProtobufCMessage *message);

#endif
