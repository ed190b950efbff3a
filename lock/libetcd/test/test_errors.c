/* Errors with real servers: servers that refuse, do not run, or do not answer. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/libetcd/test/tools.h"

enum { SOON_MS = 200 };

static int64_t version_of(struct etcd *etcd, const char *key) {
    const struct etcd_range range = {.key = etcd_text(key)};
    struct etcd_reply *reply;
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    int64_t version = reply->kv_count ? reply->kvs[0].version : 0;
    etcd_reply_free(reply);
    return version;
}

/* ---- refusals ---- */

static void invalid_requests(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    struct etcd *etcd = tools_open(&server, 1);
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_put no_key = {.value = {"1", 1}};
    CHECK_STATUS(etcd_put(etcd, &no_key, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "key is not provided");
    struct etcd_op ops[129] = {{ETCD_PUT, .put = tools_put_a}, {ETCD_PUT, .put = tools_put_a}};
    struct etcd_txn txn = {.then = ops, .then_count = 2};
    CHECK_STATUS(etcd_txn(etcd, &txn, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "duplicate key");
    for (int i = 0; i < 129; i++)
        ops[i] = (struct etcd_op){ETCD_RANGE, .range = tools_range_a};
    txn.then_count = 129;
    CHECK_STATUS(etcd_txn(etcd, &txn, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "too many operations");
    txn.then_count = 128;
    CHECK_STATUS(etcd_txn(etcd, &txn, NULL, NULL), ETCD_OK);
    struct etcd_put large = {.key = {"a", 1}, .value = {harness_alloc(3 << 20), 3 << 19}};
    CHECK_STATUS(etcd_put(etcd, &large, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "request is too large");
    large.value.size = 3 << 20; /* refused by the server's gRPC */
    CHECK_STATUS(etcd_put(etcd, &large, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "larger than max");
    const struct etcd_put no_lease = {.key = {"a", 1}, .lease = 7};
    CHECK_STATUS(etcd_put(etcd, &no_lease, &call, NULL), ETCD_NOT_FOUND);
    CHECK_HAS(error, "requested lease not found");
    CHECK_INT(version_of(etcd, "a"), 0);
}

static void no_space(void) {
    struct etcd_server server;
    etcd_start(&server, "--quota-backend-bytes", "2000000", NULL);
    struct etcd *etcd = tools_open(&server, 1);
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_put large = {.key = {"a", 1}, .value = {harness_alloc(300000), 300000}};
    enum etcd_status status = ETCD_OK;
    /* The server counts what it has committed, every 100 ms. */
    for (int64_t deadline_ms = harness_now_ms() + PATIENCE_MS;
         status == ETCD_OK && harness_now_ms() < deadline_ms;)
        status = etcd_put(etcd, &large, &call, NULL);
    CHECK_STATUS(status, ETCD_EXHAUSTED);
    CHECK_HAS(error, "database space exceeded");
    tools_check_put(etcd, 0, ETCD_EXHAUSTED);
    tools_check_range(etcd, 0, ETCD_OK);
    const struct etcd_delete del = {.key = {"a", 1}};
    CHECK_STATUS(etcd_delete(etcd, &del, NULL, NULL), ETCD_OK);
}

/* ---- servers that do not run ---- */

static void no_server_listens(void) {
    struct etcd *etcd = tools_open_at(harness_format("127.0.0.1:%d", harness_free_port()));
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {
        .deadline_ns = tools_in_ms(SOON_MS), .error = error, .error_size = sizeof error};
    CHECK_STATUS(etcd_put(etcd, &tools_put_a, &call, NULL), ETCD_UNAVAILABLE);
    CHECK_HAS(error, "no member can be reached: ");
    CHECK_HAS(error, "Connection refused");
    tools_check_range(etcd, SOON_MS, ETCD_UNAVAILABLE);
    tools_check_range(etcd, -1000, ETCD_UNAVAILABLE);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_status(etcd, 0, &call, &status), ETCD_UNAVAILABLE);
    /* A host name that does not exist, and "unix", which is not a scheme here. */
    tools_check_range(tools_open_at("nobody.invalid"), SOON_MS, ETCD_UNAVAILABLE);
    tools_check_range(tools_open_at("unix:1,dns:1,ipv4:1"), SOON_MS, ETCD_UNAVAILABLE);
}

static bool knows_no_leader(void *etcd) {
    struct etcd_member_status status;
    return etcd_member_status(etcd, 0, NULL, &status) == ETCD_OK && status.leader_id == 0;
}

static void *put_patiently(void *arg) {
    tools_check_put(arg, 0, ETCD_OK);
    return NULL;
}

static bool one_is_blocked(void *etcd) {
    return tools_blocked(etcd) == 1;
}

static void no_leader_yet(void) {
    struct etcd_server members[3];
    pthread_t thread;
    etcd_start_cluster(members, 3, NULL);
    etcd_kill(&members[1]);
    etcd_kill(&members[2]);
    struct etcd *etcd = tools_open(members, 1);
    CHECK(harness_wait(knows_no_leader, etcd, PATIENCE_MS));
    char error[ETCD_ERROR_SIZE] = "";
    struct etcd_call call = {.error = error, .error_size = sizeof error};
    enum etcd_status status;
    int tries = 0;
    do { /* on a slow machine the deadline may pass while it is sent once more */
        call.deadline_ns = tools_in_ms(SOON_MS);
        status = etcd_put(etcd, &tools_put_a, &call, NULL);
    } while (status == ETCD_UNKNOWN && ++tries < 5);
    CHECK_STATUS(status, ETCD_UNAVAILABLE);
    CHECK_HAS(error, "no leader");
    tools_check_range(etcd, SOON_MS, ETCD_UNAVAILABLE);
    const struct etcd_range old = {.key = {"a", 1}, .serializable = true};
    CHECK_STATUS(etcd_range(etcd, &old, NULL, NULL), ETCD_OK);
    struct etcd_members *list;
    CHECK_STATUS(etcd_member_list(etcd, NULL, &list), ETCD_OK);
    CHECK_INT(list->count, 3);
    etcd_members_free(list);
    /* Nothing was done so far. A write that waits now is done exactly once when there is a leader. */
    CHECK_INT(pthread_create(&thread, NULL, put_patiently, etcd), 0);
    CHECK(harness_wait(one_is_blocked, etcd, PATIENCE_MS));
    etcd_restart_all(members, 3);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK_INT(version_of(etcd, "a"), 1);
}

/* ---- servers that do not answer ---- */

static void paused_server(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    struct etcd *etcd = tools_open(&server, 1);
    tools_check_put(etcd, 0, ETCD_OK);
    etcd_pause(&server);
    struct etcd_call call = {.deadline_ns = tools_in_ms(SOON_MS)};
    struct etcd_reply *reply = NULL;
    CHECK_STATUS(etcd_range(etcd, &tools_range_a, &call, &reply), ETCD_TIMEOUT);
    const struct etcd_op read = {ETCD_RANGE, .range = tools_range_a};
    const struct etcd_txn reads = {.then = &read, .then_count = 1};
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_txn(etcd, &reads, &call, &reply), ETCD_TIMEOUT);
    struct etcd_lease_info *info = NULL;
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_lease_time_to_live(etcd, 7, true, &call, &info), ETCD_TIMEOUT);
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_put(etcd, &tools_put_a, &call, &reply), ETCD_UNKNOWN);
    const struct etcd_op write = {ETCD_PUT, .put = tools_put_a};
    const struct etcd_op inner = {ETCD_TXN, .txn = {.otherwise = &write, .otherwise_count = 1}};
    const struct etcd_txn writes = {.then = &inner, .then_count = 1};
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_txn(etcd, &writes, &call, &reply), ETCD_UNKNOWN);
    int64_t id = -7;
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_lease_grant(etcd, 5, 0, &call, &id, NULL), ETCD_UNKNOWN);
    call.deadline_ns = tools_in_ms(SOON_MS);
    call.idempotent = true; /* still unknown */
    CHECK_STATUS(etcd_put(etcd, &tools_put_a, &call, &reply), ETCD_UNKNOWN);
    CHECK(!reply && !info && id == -7);
    etcd_resume(&server);
    tools_check_put(etcd, 0, ETCD_OK);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("requests that are refused", invalid_requests);
    harness_run("no space left", no_space);
    harness_run("no server listens", no_server_listens);
    harness_run("no leader, then one", no_leader_yet);
    harness_run("a paused server", paused_server);
    return harness_finish();
}
