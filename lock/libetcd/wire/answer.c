#include "lock/libetcd/wire/answer.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <stdlib.h>

bool etcd_answer_read(struct etcd_answer *answer, grpc_byte_buffer *buffer) {
    grpc_byte_buffer_reader reader;
    if (!buffer || !grpc_byte_buffer_reader_init(&reader, buffer))
        return false;
    answer->slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    answer->data = GRPC_SLICE_START_PTR(answer->slice);
    answer->size = GRPC_SLICE_LENGTH(answer->slice);
    etcd_arena_init(&answer->arena);
    return true;
}

void *etcd_answer_unpack(struct etcd_answer *answer, const ProtobufCMessageDescriptor *descriptor) {
    return protobuf_c_message_unpack(descriptor, &answer->arena.allocator, answer->size, answer->data);
}

void etcd_answer_clear(struct etcd_answer *answer) {
    etcd_arena_free(&answer->arena);
    grpc_slice_unref(answer->slice);
}

void etcd_answer_free(struct etcd_answer *answer) {
    etcd_answer_clear(answer);
    free(answer);
}

void etcd_answer_free_result(void *result) {
    if (result)
        etcd_answer_free((struct etcd_answer *)((char *)result - offsetof(struct etcd_answer, result)));
}

grpc_slice etcd_message_pack(const ProtobufCMessage *message) {
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    return slice;
}
