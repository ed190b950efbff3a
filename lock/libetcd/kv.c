/* Keys and values. */
#include <stdlib.h>

#include "lock/libetcd/client.h"
#include "lock/libetcd/message.h"

/* A reply and the memory it points into. */
struct held {
    struct etcd_reply reply; /* first */
    struct etcd_answer answer;
};

static const struct {
    struct etcd_method method;
    const ProtobufCMessageDescriptor *response;
} kinds[] = {
    [ETCD_RANGE] = {{.path = "/etcdserverpb.KV/Range", .reads = true}, &pb__range_response__descriptor},
    [ETCD_PUT] = {{.path = "/etcdserverpb.KV/Put"}, &pb__put_response__descriptor},
    [ETCD_DELETE] = {{.path = "/etcdserverpb.KV/DeleteRange"}, &pb__delete_response__descriptor},
    [ETCD_TXN] = {{.path = "/etcdserverpb.KV/Txn"}, &pb__txn_response__descriptor},
};

static bool only_reads(const struct etcd_op *ops, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct etcd_txn *txn = &ops[i].txn;
        if (ops[i].kind == ETCD_TXN
                ? !only_reads(txn->then, txn->then_count) || !only_reads(txn->otherwise, txn->otherwise_count)
                : ops[i].kind != ETCD_RANGE)
            return false;
    }
    return true;
}

/* A server of 3.4 dies of an order that it does not know, and takes a compare that it does not know for true.
 */
static bool is_sane(const struct etcd_op *op, int depth) {
    if (op->kind == ETCD_RANGE)
        return op->range.sort_by <= ETCD_VALUE && op->range.order <= ETCD_DESCENDING;
    if (op->kind != ETCD_TXN)
        return true;
    const struct etcd_txn *txn = &op->txn;
    bool sane = depth <= ETCD_DEPTH_MAX;
    for (size_t i = 0; i < txn->compare_count && sane; i++)
        sane = txn->compares[i].target >= ETCD_VERSION && txn->compares[i].target <= ETCD_LEASE &&
               txn->compares[i].relation <= ETCD_NOT_EQUAL;
    for (size_t i = 0; i < txn->then_count && sane; i++)
        sane = is_sane(&txn->then[i], depth + 1);
    for (size_t i = 0; i < txn->otherwise_count && sane; i++)
        sane = is_sane(&txn->otherwise[i], depth + 1);
    return sane;
}

static bool read_reply(struct held *held, enum etcd_kind kind, struct etcd_reply **reply) {
    void *response = etcd_answer_unpack(&held->answer, kinds[kind].response);
    struct etcd_reply *read = response ? etcd_message_reply(&held->answer.arena, kind, response) : NULL;
    if (!read)
        return false;
    held->reply = *read;
    *reply = &held->reply;
    return true;
}

enum etcd_status etcd_do(struct etcd *etcd, const struct etcd_op *op, const struct etcd_call *call,
                         struct etcd_reply **reply) {
    if (!is_sane(op, 0)) {
        etcd_call_explain(call, "no such order or compare, or too many transactions in each other");
        return ETCD_INVALID;
    }
    const enum etcd_kind kind = op->kind; /* once it has been read, see on_read, it may be gone */
    struct etcd_method method = kinds[kind].method;
    struct etcd_arena arena;
    etcd_arena_init(&arena);
    struct held *held = calloc(1, sizeof *held);
    const ProtobufCMessage *request = etcd_message_request(&arena, op);
    enum etcd_status status = ETCD_NOMEM;
    method.reads = only_reads(op, 1);
    method.leaderless = kind == ETCD_RANGE && op->range.serializable;
    if (held && request)
        status = etcd_rpc(etcd, &method, -1, request, call, &held->answer);
    etcd_arena_free(&arena);
    if (status != ETCD_OK) {
        free(held);
        return status;
    }
    if (reply && !read_reply(held, kind, reply))
        status = etcd_call_no_sense(&method, call);
    if (!reply || status != ETCD_OK)
        etcd_reply_free(&held->reply);
    return status;
}

void etcd_reply_free(struct etcd_reply *reply) {
    struct held *held = (struct held *)reply;
    if (!held)
        return;
    etcd_answer_free(&held->answer);
    free(held);
}

enum etcd_status etcd_range(struct etcd *etcd, const struct etcd_range *range, const struct etcd_call *call,
                            struct etcd_reply **reply) {
    const struct etcd_op op = {ETCD_RANGE, .range = *range};
    return etcd_do(etcd, &op, call, reply);
}

enum etcd_status etcd_put(struct etcd *etcd, const struct etcd_put *put, const struct etcd_call *call,
                          struct etcd_reply **reply) {
    const struct etcd_op op = {ETCD_PUT, .put = *put};
    return etcd_do(etcd, &op, call, reply);
}

enum etcd_status etcd_delete(struct etcd *etcd, const struct etcd_delete *del, const struct etcd_call *call,
                             struct etcd_reply **reply) {
    const struct etcd_op op = {ETCD_DELETE, .del = *del};
    return etcd_do(etcd, &op, call, reply);
}

enum etcd_status etcd_txn(struct etcd *etcd, const struct etcd_txn *txn, const struct etcd_call *call,
                          struct etcd_reply **reply) {
    const struct etcd_op op = {ETCD_TXN, .txn = *txn};
    return etcd_do(etcd, &op, call, reply);
}

enum etcd_status etcd_compact(struct etcd *etcd, int64_t revision, bool physical,
                              const struct etcd_call *call) {
    static const struct etcd_method compact = {.path = "/etcdserverpb.KV/Compact"};
    Pb__CompactRequest request = PB__COMPACT_REQUEST__INIT;
    request.revision = revision;
    request.physical = physical;
    return etcd_rpc_unpack(etcd, &compact, -1, &request.base, call, NULL, NULL, NULL);
}
