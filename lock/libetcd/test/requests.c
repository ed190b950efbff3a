#include "lock/libetcd/test/requests.h"

#include <string.h>

struct requests requests;

static void free_reply(void *reply) {
    etcd_reply_free(reply);
}

struct etcd_reply *request_op(const struct etcd_op *op) {
    char error[ETCD_ERROR_SIZE] = "";
    struct etcd_call call = {.error = error, .error_size = sizeof error};
    struct etcd_reply *reply = NULL;
    enum etcd_status status = etcd_do(requests.etcd, op, &call, &reply);
    if (status != ETCD_OK)
        FAIL("%s: %s", etcd_status_text(status), error);
    CHECK_STR(error, "");
    harness_defer(free_reply, reply);
    CHECK_INT(reply->kind, op->kind);
    CHECK(reply->revision > 0 && reply->cluster_id && reply->member_id && reply->raft_term);
    return reply;
}

struct etcd_bytes request_bytes(const void *data, size_t size) {
    return (struct etcd_bytes){data, size};
}

bool request_same(struct etcd_bytes a, struct etcd_bytes b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

char *request_text(struct etcd_bytes some) {
    return harness_format("%.*s", (int)some.size, some.size ? (const char *)some.data : "");
}

const char *request_pairs(const struct etcd_reply *reply) {
    const char *text = "";
    for (size_t i = 0; i < reply->kv_count; i++)
        text = harness_format("%s%s%s=%s", text, i ? " " : "", request_text(reply->kvs[i].key),
                              request_text(reply->kvs[i].value));
    return text;
}

const char *request_keys(const struct etcd_reply *reply) {
    const char *text = "";
    for (size_t i = 0; i < reply->kv_count; i++)
        text = harness_format("%s%s%s", text, i ? " " : "", request_text(reply->kvs[i].key));
    return text;
}

void request_clear(void) {
    DELETE(.prefix = true);
    CHECK_INT(RANGE(.prefix = true, .count_only = true)->count, 0);
}

int64_t request_put(const char *key, const char *value) {
    return PUT(.key = T(key), .value = T(value))->revision;
}

bool request_holds(const struct etcd_compare *compares, size_t count) {
    struct etcd_reply *reply = TXN(.compares = compares, .compare_count = count);
    CHECK_INT(reply->reply_count, 0);
    return reply->succeeded;
}
