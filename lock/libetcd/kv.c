/* Operations on keys: range, put, delete, txn and compact. */
#include "lock/libetcd/etcd_client.h"

static const struct {
    struct etcd_method method;
    const ProtobufCMessageDescriptor *request;
    Pb__RequestOp__RequestCase request_case; /* inside a transaction */
} kv_methods[] = {
    [ETCD_RANGE] = {{.path = "/etcdserverpb.KV/Range", .response = &pb__range_response__descriptor},
                    &pb__range_request__descriptor,
                    PB__REQUEST_OP__REQUEST_RANGE},
    [ETCD_PUT] = {{.path = "/etcdserverpb.KV/Put", .response = &pb__put_response__descriptor},
                  &pb__put_request__descriptor,
                  PB__REQUEST_OP__REQUEST_PUT},
    [ETCD_DELETE] = {{.path = "/etcdserverpb.KV/DeleteRange", .response = &pb__delete_response__descriptor},
                     &pb__delete_request__descriptor,
                     PB__REQUEST_OP__REQUEST_DELETE_RANGE},
    [ETCD_TXN] = {{.path = "/etcdserverpb.KV/Txn", .response = &pb__txn_response__descriptor},
                  &pb__txn_request__descriptor,
                  PB__REQUEST_OP__REQUEST_TXN},
};

/* ---- requests; NULL or false: out of memory ---- */

static void *kv_new_message(struct etcd_arena *arena, const ProtobufCMessageDescriptor *descriptor) {
    void *message = etcd_arena_alloc(arena, descriptor->sizeof_message);
    if (message)
        protobuf_c_message_init(descriptor, message);
    return message;
}

static bool kv_fill_range(struct etcd_arena *arena, const struct etcd_range *range,
                          Pb__RangeRequest *request) {
    request->limit = range->limit;
    request->revision = range->revision;
    request->sort_order = (int32_t)range->order;
    request->sort_target = (int32_t)range->sort_by;
    request->serializable = range->serializable;
    request->keys_only = range->keys_only;
    request->count_only = range->count_only;
    request->min_mod_revision = range->min_mod_revision;
    request->max_mod_revision = range->max_mod_revision;
    request->min_create_revision = range->min_create_revision;
    request->max_create_revision = range->max_create_revision;
    return etcd_key_range_pack(arena, range->key, range->end, range->prefix, &request->key,
                               &request->range_end);
}

static bool kv_fill_put(const struct etcd_put *put, Pb__PutRequest *request) {
    request->key = etcd_bytes_pack(put->key);
    request->value = etcd_bytes_pack(put->value);
    request->lease = put->lease;
    request->prev_kv = put->prev;
    request->ignore_value = put->ignore_value;
    request->ignore_lease = put->ignore_lease;
    return true;
}

static bool kv_fill_delete(struct etcd_arena *arena, const struct etcd_delete *del,
                           Pb__DeleteRequest *request) {
    request->prev_kv = del->prev;
    return etcd_key_range_pack(arena, del->key, del->end, del->prefix, &request->key, &request->range_end);
}

/* Version, revisions and lease are numbers, and one union in protobuf-c's struct. */
static bool kv_fill_compare(struct etcd_arena *arena, const struct etcd_compare *compare,
                            Pb__Compare *packed) {
    static const Pb__Compare__TargetUnionCase cases[] = {
        [ETCD_VERSION] = PB__COMPARE__TARGET_UNION_VERSION,
        [ETCD_CREATE_REVISION] = PB__COMPARE__TARGET_UNION_CREATE_REVISION,
        [ETCD_MOD_REVISION] = PB__COMPARE__TARGET_UNION_MOD_REVISION,
        [ETCD_VALUE] = PB__COMPARE__TARGET_UNION_VALUE,
        [ETCD_LEASE] = PB__COMPARE__TARGET_UNION_LEASE,
    };
    packed->result = (int32_t)compare->relation;
    packed->target = (int32_t)compare->target - 1;
    packed->target_union_case = cases[compare->target];
    if (compare->target == ETCD_VALUE)
        packed->value = etcd_bytes_pack(compare->value);
    else
        packed->version = compare->number;
    return etcd_key_range_pack(arena, compare->key, compare->end, compare->prefix, &packed->key,
                               &packed->range_end);
}

static const ProtobufCMessage *kv_pack_request(struct etcd_arena *arena, const struct etcd_op *op);

static bool kv_pack_ops(struct etcd_arena *arena, const struct etcd_op *ops, size_t count, size_t *n,
                        Pb__RequestOp ***packed) {
    *packed = etcd_arena_array(arena, count, sizeof(void *));
    for (*n = 0; *packed && *n < count; (*n)++) {
        Pb__RequestOp *op = (*packed)[*n] = kv_new_message(arena, &pb__request_op__descriptor);
        const ProtobufCMessage *request = kv_pack_request(arena, &ops[*n]);
        if (!op || !request)
            return false;
        op->request_case = kv_methods[ops[*n].kind].request_case;
        op->range = (Pb__RangeRequest *)(uintptr_t)request; /* a union of pointers */
    }
    return *packed != NULL;
}

static bool kv_fill_txn(struct etcd_arena *arena, const struct etcd_txn *txn, Pb__TxnRequest *request) {
    request->compare = etcd_arena_array(arena, txn->compare_count, sizeof(void *));
    for (; request->compare && request->n_compare < txn->compare_count; request->n_compare++) {
        Pb__Compare *compare = kv_new_message(arena, &pb__compare__descriptor);
        if (!compare || !kv_fill_compare(arena, &txn->compares[request->n_compare], compare))
            return false;
        request->compare[request->n_compare] = compare;
    }
    return request->compare &&
           kv_pack_ops(arena, txn->then, txn->then_count, &request->n_success, &request->success) &&
           kv_pack_ops(arena, txn->otherwise, txn->otherwise_count, &request->n_failure, &request->failure);
}

static const ProtobufCMessage *kv_pack_request(struct etcd_arena *arena, const struct etcd_op *op) {
    void *request = kv_new_message(arena, kv_methods[op->kind].request);
    if (!request)
        return NULL;
    bool packed = false;
    switch (op->kind) {
    case ETCD_RANGE: packed = kv_fill_range(arena, &op->range, request); break;
    case ETCD_PUT: packed = kv_fill_put(&op->put, request); break;
    case ETCD_DELETE: packed = kv_fill_delete(arena, &op->del, request); break;
    case ETCD_TXN: packed = kv_fill_txn(arena, &op->txn, request); break;
    }
    return packed ? request : NULL;
}

/* ---- calls ---- */

static bool kv_only_reads(const struct etcd_op *ops, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct etcd_txn *txn = &ops[i].txn;
        if (ops[i].kind == ETCD_TXN ? !kv_only_reads(txn->then, txn->then_count) ||
                                          !kv_only_reads(txn->otherwise, txn->otherwise_count)
                                    : ops[i].kind != ETCD_RANGE)
            return false;
    }
    return true;
}

/* A server of version 3.4 crashes on an unknown sort order, and takes an unknown compare for true. */
static bool kv_are_valid(const struct etcd_op *ops, size_t count, int depth) {
    bool valid = true;
    for (size_t i = 0; i < count && valid; i++) {
        const struct etcd_txn *txn = &ops[i].txn;
        if (ops[i].kind == ETCD_RANGE)
            valid = ops[i].range.sort_by <= ETCD_VALUE && ops[i].range.order <= ETCD_DESCENDING;
        if (ops[i].kind != ETCD_TXN)
            continue;
        for (size_t c = 0; c < txn->compare_count && valid; c++)
            valid = txn->compares[c].target >= ETCD_VERSION && txn->compares[c].target <= ETCD_LEASE &&
                    txn->compares[c].relation <= ETCD_NOT_EQUAL;
        valid = valid && depth <= ETCD_DEPTH_MAX && kv_are_valid(txn->then, txn->then_count, depth + 1) &&
                kv_are_valid(txn->otherwise, txn->otherwise_count, depth + 1);
    }
    return valid;
}

enum etcd_status etcd_do(struct etcd *etcd, const struct etcd_op *op, const struct etcd_call *call,
                         struct etcd_reply **reply) {
    if (!kv_are_valid(op, 1, 0)) {
        etcd_call_explain(call, "unknown sort order or compare, or transactions nested too deep");
        return ETCD_INVALID;
    }
    const enum etcd_kind kind = op->kind; /* `op` may be gone after on_read() */
    struct etcd_method method = kv_methods[kind].method;
    method.result_size = sizeof(struct etcd_reply);
    method.reads = kv_only_reads(op, 1);
    method.leaderless = kind == ETCD_RANGE && op->range.serializable;
    struct etcd_arena arena;
    etcd_arena_init(&arena);
    const ProtobufCMessage *request = kv_pack_request(&arena, op);
    struct etcd_answer *answer = NULL;
    enum etcd_status status =
        request ? etcd_rpc(etcd, &method, request, call, reply ? &answer : NULL) : ETCD_NOMEM;
    etcd_arena_free(&arena);
    if (status != ETCD_OK || !reply)
        return status;
    struct etcd_reply *made = (void *)answer->result;
    if (etcd_reply_unpack(made, &answer->arena, kind, answer->message, 0)) {
        *reply = made;
        return ETCD_OK;
    }
    etcd_answer_free(answer);
    return etcd_rpc_unreadable(&method, call);
}

void etcd_reply_free(struct etcd_reply *reply) {
    etcd_answer_free_result(reply);
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
    return etcd_rpc(etcd, &compact, &request.base, call, NULL);
}
