/* The other calls of libetcd, against one server; and properties of all calls. */
#include <string.h>

#include "lock/libetcd/test/requests.h"
#include "lock/libetcd/v3lock.h"

/* ---- leases ---- */

static struct etcd_lease_info *look(int64_t id, bool with_keys) {
    struct etcd_lease_info *info = NULL;
    CHECK_STATUS(etcd_lease_time_to_live(requests.etcd, id, with_keys, NULL, &info), ETCD_OK);
    return info;
}

static void leases(void) {
    request_clear();
    int64_t id = 0, ttl_s = 0, own = 0x123456789abcdef;
    CHECK_STATUS(etcd_lease_grant(requests.etcd, 100, own, NULL, &id, &ttl_s), ETCD_OK);
    CHECK_INT(id, own);
    CHECK_INT(ttl_s, 100);
    id = ttl_s = -7;
    CHECK_STATUS(etcd_lease_grant(requests.etcd, 100, own, NULL, &id, &ttl_s), ETCD_EXISTS);
    CHECK(id == -7 && ttl_s == -7);
    CHECK_STATUS(etcd_lease_grant(requests.etcd, 50, 0, NULL, &id, NULL), ETCD_OK);
    CHECK(id != 0 && id != own);
    PUT(.key = T("b"), .lease = own);
    PUT(.key = request_bytes("a\0", 2), .lease = own);
    PUT(.key = T("c"), .lease = id);
    struct etcd_lease_info *info = look(own, true);
    CHECK_INT(info->granted_ttl_s, 100);
    CHECK(info->ttl_s > 60 && info->ttl_s <= 100);
    CHECK_INT(info->key_count, 2);
    bool a_first = info->keys[0].size == 2;
    CHECK(request_same(info->keys[a_first ? 0 : 1], request_bytes("a\0", 2)) &&
          request_same(info->keys[a_first ? 1 : 0], T("b")));
    etcd_lease_info_free(info);
    info = look(own, false);
    CHECK_INT(info->key_count, 0);
    etcd_lease_info_free(info);
    CHECK_STATUS(etcd_lease_revoke(requests.etcd, own, NULL), ETCD_OK);
    CHECK_STR(request_keys(RANGE(.prefix = true)), "c");
    CHECK_STATUS(etcd_lease_revoke(requests.etcd, own, NULL), ETCD_NOT_FOUND);
    struct etcd_lease_info *untouched = NULL;
    CHECK_STATUS(etcd_lease_time_to_live(requests.etcd, own, true, NULL, &untouched), ETCD_NOT_FOUND);
    CHECK(!untouched);
    etcd_lease_info_free(NULL);
    CHECK_STATUS(etcd_lease_grant(requests.etcd, 100, -5, NULL, &id, NULL), ETCD_OK);
    CHECK_INT(id, -5);
    CHECK_STATUS(etcd_lease_revoke(requests.etcd, -5, NULL), ETCD_OK);
}

/* In its last second a lease has 0 seconds left, and lives. */
static void lease_in_last_second(void) {
    int64_t id, ttl_s;
    CHECK_STATUS(etcd_lease_grant(requests.etcd, 1, 0, NULL, &id, &ttl_s), ETCD_OK);
    CHECK_INT(ttl_s, 1);
    struct etcd_lease_info *info = look(id, false);
    CHECK_INT(info->ttl_s, 0);
    CHECK_INT(info->granted_ttl_s, 1);
    etcd_lease_info_free(info);
}

static void longer_lease_granted(void) {
    struct etcd_server slow;
    etcd_start(&slow, "--election-timeout", "2000", "--heartbeat-interval", "200", NULL);
    struct etcd *client = tools_open(&slow, 1);
    int64_t id, ttl_s;
    CHECK_STATUS(etcd_lease_grant(client, 1, 0, NULL, &id, &ttl_s), ETCD_OK);
    CHECK_INT(ttl_s, 3);
}

static bool lease_is_gone(void *id) {
    struct etcd_lease_info *info;
    enum etcd_status status = etcd_lease_time_to_live(requests.etcd, *(int64_t *)id, false, NULL, &info);
    if (status == ETCD_OK)
        etcd_lease_info_free(info);
    return status == ETCD_NOT_FOUND;
}

static void lease_expires(void) {
    request_clear();
    int64_t id = tools_grant(requests.etcd, 1);
    PUT(.key = T("a"), .lease = id);
    CHECK(harness_wait(lease_is_gone, &id, PATIENCE_MS));
    CHECK_STATUS(etcd_lease_revoke(requests.etcd, id, NULL), ETCD_NOT_FOUND);
    CHECK_STR(request_keys(RANGE(.prefix = true)), "");
}

/* ---- the cluster, and its lock service ---- */

static void members(void) {
    struct etcd_members *list = NULL;
    CHECK_STATUS(etcd_member_list(requests.etcd, NULL, &list), ETCD_OK);
    CHECK_INT(list->count, 1);
    const struct etcd_member *member = &list->members[0];
    CHECK_STR(member->name, requests.server.name);
    CHECK_INT(member->client_url_count, 1);
    CHECK_STR(member->client_urls[0],
              harness_format("http://%s:%d", requests.server.host, requests.server.port));
    CHECK_INT(member->peer_url_count, 1);
    CHECK_STR(member->peer_urls[0],
              harness_format("http://%s:%d", requests.server.peer_host, requests.server.peer_port));
    CHECK(!member->is_learner);
    CHECK_INT(etcd_endpoint_count(requests.etcd), 1);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_status(requests.etcd, 0, NULL, &status), ETCD_OK);
    CHECK(status.member_id == member->id && status.leader_id == member->id && !status.is_learner);
    CHECK(status.raft_term > 0 && status.raft_index >= status.raft_applied_index && status.db_size > 0);
    CHECK(status.raft_applied_index > 0 && status.db_size_in_use > 0);
    CHECK(strncmp(status.version, "3.", 2) == 0);
    CHECK_INT(request_put("a", ""), status.revision + 1);
    CHECK_INT(RANGE(.key = T("a"))->member_id, member->id);
    etcd_members_free(list);
    etcd_members_free(NULL);
    status.revision = -7;
    CHECK_STATUS(etcd_member_status(requests.etcd, 1, NULL, &status), ETCD_INVALID);
    CHECK_INT(status.revision, -7);
}

static void locks(void) {
    request_clear();
    int64_t ours = tools_grant(requests.etcd, 1000), other = tools_grant(requests.etcd, 1000), revision = 0;
    struct etcd_bytes *key = NULL, *its = NULL;
    CHECK_STATUS(etcd_lock(requests.etcd, request_bytes("l\0k", 3), ours, NULL, &key, &revision), ETCD_OK);
    CHECK(key->size > 3 && memcmp(key->data, "l\0k/", 4) == 0);
    struct etcd_reply *reply = RANGE(.key = *key);
    CHECK_INT(reply->kv_count, 1);
    CHECK_INT(reply->kvs[0].lease, ours);
    CHECK(revision >= reply->kvs[0].create_revision);
    const struct etcd_call soon = {.deadline_ns = tools_in_ms(200)};
    int64_t untouched = -7;
    CHECK_STATUS(etcd_lock(requests.etcd, request_bytes("l\0k", 3), other, &soon, &its, &untouched),
                 ETCD_UNKNOWN);
    CHECK(!its && untouched == -7);
    CHECK_STATUS(etcd_unlock(requests.etcd, *key, NULL), ETCD_OK);
    CHECK_INT(RANGE(.key = *key)->count, 0);
    CHECK_STATUS(etcd_lock(requests.etcd, request_bytes("l\0k", 3), other, NULL, &its, &revision), ETCD_OK);
    CHECK_STATUS(etcd_unlock(requests.etcd, *its, NULL), ETCD_OK);
    etcd_lock_key_free(its);
    etcd_lock_key_free(key);
    etcd_lock_key_free(NULL);
    CHECK_STATUS(etcd_lease_revoke(requests.etcd, other, NULL), ETCD_OK);
    CHECK_STATUS(etcd_lock(requests.etcd, T("l"), other, NULL, &key, &revision), ETCD_NOT_FOUND);
}

/* ---- outputs that are NULL, and failures ---- */

static void null_outputs(void) {
    request_clear();
    const struct etcd_put put_a = {.key = T("a"), .value = T("1")};
    const struct etcd_range range = {.key = T("a")};
    const struct etcd_txn txn = {.then = NULL};
    const struct etcd_delete del = {.key = T("a")};
    CHECK_STATUS(etcd_put(requests.etcd, &put_a, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_range(requests.etcd, &range, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_txn(requests.etcd, &txn, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_delete(requests.etcd, &del, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_lease_grant(requests.etcd, 10, 0, NULL, NULL, NULL), ETCD_OK);
    etcd_reply_free(NULL);
}

/* A server of version 3.4 crashes on these, or takes them for true; the client does not send them. */
static void crashing_requests(void) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_op range = {ETCD_RANGE, .range = {.prefix = true, .sort_by = ETCD_LEASE}};
    const struct etcd_compare compare = {.key = T("a"), .target = ETCD_KEY};
    const struct etcd_op inner = {ETCD_TXN, .txn = {.otherwise = &range, .otherwise_count = 1}};
    const struct etcd_op compared = {ETCD_TXN, .txn = {.compares = &compare, .compare_count = 1}};
    const struct etcd_op outer = {ETCD_TXN, .txn = {.then = &inner, .then_count = 1}};
    CHECK_STATUS(etcd_do(requests.etcd, &range, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "sort order");
    CHECK_STATUS(etcd_do(requests.etcd, &outer, NULL, NULL), ETCD_INVALID);
    CHECK_STATUS(etcd_do(requests.etcd, &compared, NULL, NULL), ETCD_INVALID);
    CHECK(proc_running(&requests.server.proc));
    /* At the limit of nesting, and beyond it. */
    struct etcd_op deep[102] = {{ETCD_RANGE, .range = {.key = T("a")}}};
    for (int i = 1; i < 102; i++)
        deep[i] = (struct etcd_op){ETCD_TXN, .txn = {.then = &deep[i - 1], .then_count = 1}};
    request_clear();
    request_put("a", "1");
    const struct etcd_reply *reply = request_op(&deep[101]);
    while (reply->kind == ETCD_TXN)
        reply = &reply->replies[0];
    CHECK_STR(request_pairs(reply), "a=1");
    const struct etcd_txn too_deep = {.then = &deep[101], .then_count = 1};
    CHECK_STATUS(etcd_txn(requests.etcd, &too_deep, NULL, NULL), ETCD_INVALID);
}

static void outputs_of_failures(void) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    struct etcd_reply mark, *reply = &mark;
    const struct etcd_put no_key = {.value = T("1")};
    const struct etcd_range range = {.key = T("a"), .revision = INT64_MAX};
    CHECK_STATUS(etcd_put(requests.etcd, &no_key, &call, &reply), ETCD_INVALID);
    CHECK(reply == &mark);
    CHECK_HAS(error, "key is not provided");
    CHECK_STATUS(etcd_range(requests.etcd, &range, &call, &reply), ETCD_FUTURE);
    CHECK(reply == &mark);
    CHECK_HAS(error, "future revision");
    /* Error buffers of size 0 and of a small size. */
    char small[4] = "xyz";
    const struct etcd_call short_call = {.error = small, .error_size = sizeof small};
    CHECK_STATUS(etcd_range(requests.etcd, &range, &short_call, &reply), ETCD_FUTURE);
    CHECK_INT(small[3], 0);
    CHECK(strcmp(small, "xyz") != 0);
    const struct etcd_call no_room = {.error = small, .error_size = 0};
    CHECK_STATUS(etcd_range(requests.etcd, &range, &no_room, &reply), ETCD_FUTURE);
}

/* A reply belongs to the caller, also after the client was closed. */
static void replies_outlive_their_client(void) {
    request_clear();
    char error[ETCD_ERROR_SIZE];
    const struct etcd_config config = {.endpoints = tools_endpoints(&requests.server, 1)};
    struct etcd *client;
    CHECK_STATUS(etcd_open(&config, &client, error, sizeof error), ETCD_OK);
    request_put("a", harness_repeat('x', 100000));
    const struct etcd_range range = {.key = T("a")};
    struct etcd_reply *reply;
    CHECK_STATUS(etcd_range(client, &range, NULL, &reply), ETCD_OK);
    etcd_close(client);
    CHECK(request_same(reply->kvs[0].value, T(harness_repeat('x', 100000))));
    etcd_reply_free(reply);
}

static void overwrite(void *op) {
    *(struct etcd_op *)op = (struct etcd_op){.kind = ETCD_RANGE};
}

/* After on_read the operation may be freed; its reply is unpacked correctly all the same. */
static void request_freed_after_read(void) {
    request_clear();
    request_put("a", "1");
    struct etcd_op op = {ETCD_DELETE, .del = {.key = T("a")}};
    const struct etcd_call call = {.on_read = overwrite, .ctx = &op};
    struct etcd_reply *reply;
    CHECK_STATUS(etcd_do(requests.etcd, &op, &call, &reply), ETCD_OK);
    CHECK_INT(op.kind, ETCD_RANGE);
    CHECK_INT(reply->kind, ETCD_DELETE);
    CHECK_INT(reply->count, 1);
    etcd_reply_free(reply);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    etcd_start(&requests.server, NULL);
    requests.etcd = tools_open(&requests.server, 1);
    harness_run("leases", leases);
    harness_run("a lease in its last second", lease_in_last_second);
    harness_run("a server grants a longer lease than requested", longer_lease_granted);
    harness_run("a lease expires", lease_expires);
    harness_run("members", members);
    harness_run("the server's lock service", locks);
    harness_run("outputs may be NULL", null_outputs);
    harness_run("requests that crash servers are not sent", crashing_requests);
    harness_run("a failure leaves outputs untouched", outputs_of_failures);
    harness_run("on_read: the request may be freed", request_freed_after_read);
    harness_run("replies outlive their client", replies_outlive_their_client);
    return harness_finish();
}
