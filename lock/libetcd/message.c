#include "lock/libetcd/message.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

enum { CHUNK = 2048 };

struct etcd_arena_chunk {
    struct etcd_arena_chunk *next;
    alignas(max_align_t) char data[];
};

static void *arena_allocate(void *arena, size_t size) {
    return etcd_arena_alloc(arena, size);
}

static void arena_release(void *arena, void *data) {
    (void)arena;
    (void)data; /* etcd_arena_free() frees it */
}

void etcd_arena_init(struct etcd_arena *arena) {
    *arena = (struct etcd_arena){
        .allocator = {.alloc = arena_allocate, .free = arena_release, .allocator_data = arena}};
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

/* ---- from etcd.h to messages ---- */

grpc_slice etcd_message_pack(const ProtobufCMessage *message) {
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    return slice;
}

/* The copy is followed by a zero byte. */
static bool bytes_copy(struct etcd_arena *arena, struct etcd_bytes bytes, ProtobufCBinaryData *copy) {
    *copy = (ProtobufCBinaryData){bytes.size, etcd_arena_alloc(arena, bytes.size + 1)};
    if (copy->data && bytes.size > 0)
        memcpy(copy->data, bytes.data, bytes.size);
    return copy->data;
}

bool etcd_key_range_pack(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                         ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end) {
    if (!bytes_copy(arena, key, range_key) || !bytes_copy(arena, prefix ? key : end, range_end))
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

/* ---- from messages to etcd.h ---- */

struct etcd_kv etcd_kv_unpack(const Pb__KeyValue *kv) {
    return (struct etcd_kv){.key = etcd_bytes_unpack(kv->key),
                            .value = etcd_bytes_unpack(kv->value),
                            .create_revision = kv->create_revision,
                            .mod_revision = kv->mod_revision,
                            .version = kv->version,
                            .lease = kv->lease};
}

static bool reply_fill_kvs(struct etcd_arena *arena, struct etcd_reply *reply, Pb__KeyValue *const kvs[],
                           size_t count) {
    reply->kvs = etcd_arena_array(arena, count, sizeof *reply->kvs);
    reply->kv_count = reply->kvs ? count : 0;
    for (size_t i = 0; i < reply->kv_count; i++)
        reply->kvs[i] = etcd_kv_unpack(kvs[i]);
    return reply->kvs != NULL;
}

static void reply_fill_header(struct etcd_reply *reply, const Pb__Header *header, int depth) {
    if (!header || depth > 0)
        return;
    reply->revision = header->revision;
    reply->cluster_id = header->cluster_id;
    reply->member_id = header->member_id;
    reply->raft_term = header->raft_term;
}

static bool reply_fill_txn(struct etcd_arena *arena, struct etcd_reply *reply, const Pb__TxnResponse *txn,
                           int depth) {
    if (!txn || depth > ETCD_DEPTH_MAX)
        return false;
    reply_fill_header(reply, txn->header, depth);
    reply->succeeded = txn->succeeded;
    reply->replies = etcd_arena_array(arena, txn->n_responses, sizeof *reply->replies);
    if (!reply->replies)
        return false;
    reply->reply_count = txn->n_responses;
    for (size_t i = 0; i < txn->n_responses; i++) {
        const Pb__ResponseOp *op = txn->responses[i];
        const void *response = op->range; /* a union of pointers, except `txn` */
        if (op->response_case == PB__RESPONSE_OP__RESPONSE_TXN)
            response = pb__txn_response__unpack(&arena->allocator, op->txn.len, op->txn.data);
        /* The cases count from 1 in the order of enum etcd_kind. */
        if (op->response_case == PB__RESPONSE_OP__RESPONSE__NOT_SET ||
            !etcd_reply_unpack(&reply->replies[i], arena, (enum etcd_kind)(op->response_case - 1), response,
                               depth + 1))
            return false;
    }
    return true;
}

bool etcd_reply_unpack(struct etcd_reply *reply, struct etcd_arena *arena, enum etcd_kind kind,
                       const void *response, int depth) {
    reply->kind = kind;
    if (kind == ETCD_RANGE) {
        const Pb__RangeResponse *range = response;
        reply_fill_header(reply, range->header, depth);
        reply->count = range->count;
        reply->more = range->more;
        return reply_fill_kvs(arena, reply, range->kvs, range->n_kvs);
    }
    if (kind == ETCD_PUT) {
        const Pb__PutResponse *put = response;
        reply_fill_header(reply, put->header, depth);
        return reply_fill_kvs(arena, reply, &put->prev_kv, put->prev_kv ? 1 : 0);
    }
    if (kind == ETCD_DELETE) {
        const Pb__DeleteResponse *del = response;
        reply_fill_header(reply, del->header, depth);
        reply->count = del->deleted;
        return reply_fill_kvs(arena, reply, del->prev_kvs, del->n_prev_kvs);
    }
    return reply_fill_txn(arena, reply, response, depth);
}
