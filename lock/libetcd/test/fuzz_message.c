/* Unpacks bytes as a reply; the first byte chooses the kind. Whatever the bytes are, the reply can be read
 * completely. */
#include <stdlib.h>

#include "lock/libetcd/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds)
        abort();
}

/* So that a sanitizer checks every byte. */
static unsigned read_bytes(struct etcd_bytes bytes) {
    unsigned sum = 0;
    for (size_t i = 0; i < bytes.size; i++)
        sum += ((const uint8_t *)bytes.data)[i];
    return sum;
}

static unsigned read_reply(const struct etcd_reply *reply, int depth) {
    unsigned sum = 0;
    must(reply->kind >= ETCD_RANGE && reply->kind <= ETCD_TXN);
    must(reply->kv_count == 0 || reply->kind != ETCD_TXN);
    must(reply->kv_count <= 1 || reply->kind != ETCD_PUT);
    must(reply->reply_count == 0 || reply->kind == ETCD_TXN);
    must(depth == 0 || (!reply->revision && !reply->cluster_id && !reply->member_id && !reply->raft_term));
    for (size_t i = 0; i < reply->kv_count; i++)
        sum += read_bytes(reply->kvs[i].key) + read_bytes(reply->kvs[i].value);
    for (size_t i = 0; i < reply->reply_count; i++)
        sum += read_reply(&reply->replies[i], depth + 1);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ProtobufCMessageDescriptor *const responses[] = {
        [ETCD_RANGE] = &pb__range_response__descriptor,
        [ETCD_PUT] = &pb__put_response__descriptor,
        [ETCD_DELETE] = &pb__delete_response__descriptor,
        [ETCD_TXN] = &pb__txn_response__descriptor,
    };
    static volatile unsigned sum;
    if (size == 0)
        return 0;
    enum etcd_kind kind = (enum etcd_kind)((uint8_t)(data[0] - '0') % 4);
    struct etcd_answer answer = {.data = data + 1, .size = size - 1};
    etcd_arena_init(&answer.arena);
    void *response = etcd_answer_unpack(&answer, responses[kind]);
    struct etcd_reply reply = {0};
    if (response && etcd_reply_unpack(&reply, &answer.arena, kind, response, 0)) {
        must(reply.kind == kind);
        sum += read_reply(&reply, 0);
    }
    etcd_arena_free(&answer.arena);
    return 0;
}
