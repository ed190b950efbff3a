#include "lock/libetcd/message.h"

#include <string.h>

ProtobufCBinaryData etcd_message_bytes(struct etcd_bytes bytes) {
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.data};
}

struct etcd_bytes etcd_message_from_bytes(ProtobufCBinaryData bytes) {
    return (struct etcd_bytes){bytes.data, bytes.len};
}

/* ---- requests ---- */

/* The first key after all that begin with `key`: its last byte that can grow grows, and ends it. Without such
 * a byte there is no end, which is written as a zero byte. */
static bool after_prefix(struct etcd_arena *arena, struct etcd_bytes key, ProtobufCBinaryData *end) {
    uint8_t *copy = etcd_arena_alloc(arena, key.size + 1);
    size_t size = key.size;
    if (!copy)
        return false;
    if (size > 0)
        memcpy(copy, key.data, size);
    while (size > 0 && copy[size - 1] == 0xff)
        size--;
    if (size > 0)
        copy[size - 1]++;
    else
        copy[size++] = 0;
    *end = (ProtobufCBinaryData){size, copy};
    return true;
}

bool etcd_message_range(struct etcd_arena *arena, struct etcd_bytes key, struct etcd_bytes end, bool prefix,
                        ProtobufCBinaryData *range_key, ProtobufCBinaryData *range_end) {
    static uint8_t first[1]; /* no key is before it */
    *range_key = prefix && key.size == 0 ? (ProtobufCBinaryData){1, first} : etcd_message_bytes(key);
    if (prefix)
        return after_prefix(arena, key, range_end);
    *range_end = etcd_message_bytes(end);
    return true;
}

static const ProtobufCMessage *make_range(struct etcd_arena *arena, const struct etcd_range *range) {
    Pb__RangeRequest *request = etcd_arena_alloc(arena, sizeof *request);
    if (!request)
        return NULL;
    pb__range_request__init(request);
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
    return etcd_message_range(arena, range->key, range->end, range->prefix, &request->key,
                              &request->range_end)
               ? &request->base
               : NULL;
}

static const ProtobufCMessage *make_put(struct etcd_arena *arena, const struct etcd_put *put) {
    Pb__PutRequest *request = etcd_arena_alloc(arena, sizeof *request);
    if (!request)
        return NULL;
    pb__put_request__init(request);
    request->key = etcd_message_bytes(put->key);
    request->value = etcd_message_bytes(put->value);
    request->lease = put->lease;
    request->prev_kv = put->prev;
    request->ignore_value = put->ignore_value;
    request->ignore_lease = put->ignore_lease;
    return &request->base;
}

static const ProtobufCMessage *make_delete(struct etcd_arena *arena, const struct etcd_delete *del) {
    Pb__DeleteRequest *request = etcd_arena_alloc(arena, sizeof *request);
    if (!request)
        return NULL;
    pb__delete_request__init(request);
    request->prev_kv = del->prev;
    return etcd_message_range(arena, del->key, del->end, del->prefix, &request->key, &request->range_end)
               ? &request->base
               : NULL;
}

static Pb__Compare *make_compare(struct etcd_arena *arena, const struct etcd_compare *compare) {
    Pb__Compare *made = etcd_arena_alloc(arena, sizeof *made);
    if (!made)
        return NULL;
    pb__compare__init(made);
    made->result = (int32_t)compare->relation;
    made->target = (int32_t)compare->target - 1;
    switch (compare->target) {
    case ETCD_VERSION:
        made->target_union_case = PB__COMPARE__TARGET_UNION_VERSION;
        made->version = compare->number;
        break;
    case ETCD_CREATE_REVISION:
        made->target_union_case = PB__COMPARE__TARGET_UNION_CREATE_REVISION;
        made->create_revision = compare->number;
        break;
    case ETCD_MOD_REVISION:
        made->target_union_case = PB__COMPARE__TARGET_UNION_MOD_REVISION;
        made->mod_revision = compare->number;
        break;
    case ETCD_LEASE:
        made->target_union_case = PB__COMPARE__TARGET_UNION_LEASE;
        made->lease = compare->number;
        break;
    default:
        made->target_union_case = PB__COMPARE__TARGET_UNION_VALUE;
        made->value = etcd_message_bytes(compare->value);
    }
    return etcd_message_range(arena, compare->key, compare->end, compare->prefix, &made->key,
                              &made->range_end)
               ? made
               : NULL;
}

static Pb__RequestOp *make_op(struct etcd_arena *arena, const struct etcd_op *op) {
    static const Pb__RequestOp__RequestCase cases[] = {
        [ETCD_RANGE] = PB__REQUEST_OP__REQUEST_RANGE,
        [ETCD_PUT] = PB__REQUEST_OP__REQUEST_PUT,
        [ETCD_DELETE] = PB__REQUEST_OP__REQUEST_DELETE_RANGE,
        [ETCD_TXN] = PB__REQUEST_OP__REQUEST_TXN,
    };
    Pb__RequestOp *made = etcd_arena_alloc(arena, sizeof *made);
    const ProtobufCMessage *request = etcd_message_request(arena, op);
    if (!made || !request)
        return NULL;
    pb__request_op__init(made);
    made->request_case = cases[op->kind];
    made->range = (Pb__RangeRequest *)(uintptr_t)request; /* of a union of pointers */
    return made;
}

static bool make_ops(struct etcd_arena *arena, const struct etcd_op *ops, size_t count, size_t *n,
                     Pb__RequestOp ***made) {
    *made = etcd_arena_array(arena, count, sizeof(void *));
    for (*n = 0; *made && *n < count; (*n)++) {
        if (!((*made)[*n] = make_op(arena, &ops[*n])))
            return false;
    }
    return *made != NULL;
}

static const ProtobufCMessage *make_txn(struct etcd_arena *arena, const struct etcd_txn *txn) {
    Pb__TxnRequest *request = etcd_arena_alloc(arena, sizeof *request);
    if (!request)
        return NULL;
    pb__txn_request__init(request);
    request->compare = etcd_arena_array(arena, txn->compare_count, sizeof(void *));
    for (; request->compare && request->n_compare < txn->compare_count; request->n_compare++) {
        Pb__Compare *compare = make_compare(arena, &txn->compares[request->n_compare]);
        if (!compare)
            return NULL;
        request->compare[request->n_compare] = compare;
    }
    return request->compare &&
                   make_ops(arena, txn->then, txn->then_count, &request->n_success, &request->success) &&
                   make_ops(arena, txn->otherwise, txn->otherwise_count, &request->n_failure,
                            &request->failure)
               ? &request->base
               : NULL;
}

const ProtobufCMessage *etcd_message_request(struct etcd_arena *arena, const struct etcd_op *op) {
    switch (op->kind) {
    case ETCD_RANGE: return make_range(arena, &op->range);
    case ETCD_PUT: return make_put(arena, &op->put);
    case ETCD_DELETE: return make_delete(arena, &op->del);
    default: return make_txn(arena, &op->txn);
    }
}

/* ---- replies ---- */

void etcd_message_kv(struct etcd_kv *kv, const Pb__KeyValue *from) {
    *kv = (struct etcd_kv){.key = etcd_message_from_bytes(from->key),
                           .value = etcd_message_from_bytes(from->value),
                           .create_revision = from->create_revision,
                           .mod_revision = from->mod_revision,
                           .version = from->version,
                           .lease = from->lease};
}

static bool fill_kvs(struct etcd_arena *arena, struct etcd_reply *reply, Pb__KeyValue *const kvs[],
                     size_t count) {
    reply->kvs = etcd_arena_array(arena, count, sizeof *reply->kvs);
    reply->kv_count = reply->kvs ? count : 0;
    for (size_t i = 0; i < reply->kv_count; i++)
        etcd_message_kv(&reply->kvs[i], kvs[i]);
    return reply->kvs != NULL;
}

static void fill_header(struct etcd_reply *reply, const Pb__Header *header) {
    if (!header)
        return;
    reply->revision = header->revision;
    reply->cluster_id = header->cluster_id;
    reply->member_id = header->member_id;
    reply->raft_term = header->raft_term;
}

static bool fill_reply(struct etcd_arena *arena, struct etcd_reply *reply, enum etcd_kind kind,
                       const void *response, int depth);

/* `depth`: how many it is in. */
static bool fill_txn(struct etcd_arena *arena, struct etcd_reply *reply, const Pb__TxnResponse *txn,
                     int depth) {
    if (!txn || depth > ETCD_DEPTH_MAX)
        return false;
    fill_header(reply, txn->header);
    reply->succeeded = txn->succeeded;
    reply->replies = etcd_arena_array(arena, txn->n_responses, sizeof *reply->replies);
    if (!reply->replies)
        return false;
    reply->reply_count = txn->n_responses;
    for (size_t i = 0; i < txn->n_responses; i++) {
        const Pb__ResponseOp *op = txn->responses[i];
        struct etcd_reply *inner = &reply->replies[i];
        const void *response = op->range; /* of a union of pointers, but for `txn` */
        if (op->response_case == PB__RESPONSE_OP__RESPONSE_TXN)
            response = pb__txn_response__unpack(&arena->allocator, op->txn.len, op->txn.data);
        /* The cases count from 1 in the order of enum etcd_kind. */
        if (op->response_case == PB__RESPONSE_OP__RESPONSE__NOT_SET ||
            !fill_reply(arena, inner, (enum etcd_kind)(op->response_case - 1), response, depth + 1))
            return false;
        inner->revision = 0;
        inner->cluster_id = inner->member_id = inner->raft_term = 0;
    }
    return true;
}

static bool fill_reply(struct etcd_arena *arena, struct etcd_reply *reply, enum etcd_kind kind,
                       const void *response, int depth) {
    reply->kind = kind;
    if (kind == ETCD_RANGE) {
        const Pb__RangeResponse *range = response;
        fill_header(reply, range->header);
        reply->count = range->count;
        reply->more = range->more;
        return fill_kvs(arena, reply, range->kvs, range->n_kvs);
    }
    if (kind == ETCD_PUT) {
        const Pb__PutResponse *put = response;
        fill_header(reply, put->header);
        return fill_kvs(arena, reply, &put->prev_kv, put->prev_kv ? 1 : 0);
    }
    if (kind == ETCD_DELETE) {
        const Pb__DeleteResponse *del = response;
        fill_header(reply, del->header);
        reply->count = del->deleted;
        return fill_kvs(arena, reply, del->prev_kvs, del->n_prev_kvs);
    }
    return fill_txn(arena, reply, response, depth);
}

struct etcd_reply *etcd_message_reply(struct etcd_arena *arena, enum etcd_kind kind, const void *response) {
    struct etcd_reply *reply = etcd_arena_alloc(arena, sizeof *reply);
    return reply && fill_reply(arena, reply, kind, response, 0) ? reply : NULL;
}
