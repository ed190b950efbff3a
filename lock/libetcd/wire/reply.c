#include "lock/libetcd/wire/reply.h"

#include "lock/libetcd/wire/key_range.h"

struct etcd_kv etcd_kv_unpack(const Pb__KeyValue *kv) {
    return (struct etcd_kv){.key = etcd_bytes_unpack(kv->key),
                            .value = etcd_bytes_unpack(kv->value),
                            .create_revision = kv->create_revision,
                            .mod_revision = kv->mod_revision,
                            .version = kv->version,
                            .lease = kv->lease};
}

static bool fill_kvs(struct etcd_arena *arena, struct etcd_reply *reply, Pb__KeyValue *const kvs[],
                     size_t count) {
    reply->kvs = etcd_arena_array(arena, count, sizeof *reply->kvs);
    reply->kv_count = reply->kvs ? count : 0;
    for (size_t i = 0; i < reply->kv_count; i++)
        reply->kvs[i] = etcd_kv_unpack(kvs[i]);
    return reply->kvs != NULL;
}

static void fill_header(struct etcd_reply *reply, const Pb__Header *header, int depth) {
    if (!header || depth > 0)
        return;
    reply->revision = header->revision;
    reply->cluster_id = header->cluster_id;
    reply->member_id = header->member_id;
    reply->raft_term = header->raft_term;
}

static bool fill_txn(struct etcd_arena *arena, struct etcd_reply *reply, const Pb__TxnResponse *txn,
                     int depth) {
    if (!txn || depth > ETCD_DEPTH_MAX)
        return false;
    fill_header(reply, txn->header, depth);
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
        fill_header(reply, range->header, depth);
        reply->count = range->count;
        reply->more = range->more;
        return fill_kvs(arena, reply, range->kvs, range->n_kvs);
    }
    if (kind == ETCD_PUT) {
        const Pb__PutResponse *put = response;
        fill_header(reply, put->header, depth);
        return fill_kvs(arena, reply, &put->prev_kv, put->prev_kv ? 1 : 0);
    }
    if (kind == ETCD_DELETE) {
        const Pb__DeleteResponse *del = response;
        fill_header(reply, del->header, depth);
        reply->count = del->deleted;
        return fill_kvs(arena, reply, del->prev_kvs, del->n_prev_kvs);
    }
    return fill_txn(arena, reply, response, depth);
}
