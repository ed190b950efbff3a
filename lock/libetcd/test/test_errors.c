/* Errors: with real servers that refuse, do not run, or do not answer; with peers that are none; and with
 * each answer that a server could give. */
#include <grpc/status.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "lock/libetcd/test/fake_server.h"
#include "lock/libetcd/test/tools.h"
#include "lock/libetcd/v3lock.h"

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

/* ---- peers that are no etcd servers, and each answer that a server could give ---- */

enum { TRIES = 20 };

static void not_a_server(void) {
    static const enum fake_server_kind kinds[] = {FAKE_SILENT, FAKE_CLOSES, FAKE_RUBBISH};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct etcd *etcd = tools_open_at(fake_server_endpoint(fake_server_start(kinds[i], NULL, 0)));
        tools_check_put(etcd, SOON_MS, ETCD_UNAVAILABLE);
        tools_check_range(etcd, SOON_MS, ETCD_UNAVAILABLE);
    }
}

/* Makes a write; returns the number of requests that the server received. */
static int call_server(struct etcd *etcd, struct fake_server *server, bool idempotent, int ms,
                       enum etcd_status want, const char *text) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {
        .deadline_ns = tools_in_ms(ms), .idempotent = idempotent, .error = error, .error_size = sizeof error};
    CHECK_STATUS(etcd_put(etcd, &tools_put_a, &call, NULL), want);
    CHECK_HAS(error, text);
    return fake_server_requests(server);
}

/* Where the server never does it: more requests come than there are answers here, until the time is up. If it
 * is up while an attempt is in flight, nobody knows whether that one was done: that is another course. */
static void call_until_time_is_up(const struct fake_server_answer answers[], size_t count, bool idempotent,
                                  enum etcd_status want, const char *text) {
    for (int tries = 0; tries < TRIES; tries++) {
        struct fake_server *server = fake_server_start(FAKE_GRPC, answers, count);
        char error[ETCD_ERROR_SIZE] = "";
        const struct etcd_call call = {.deadline_ns = tools_in_ms((int64_t)SOON_MS * (tries + 1)),
                                       .idempotent = idempotent,
                                       .error = error,
                                       .error_size = sizeof error};
        enum etcd_status status =
            etcd_put(tools_open_at(fake_server_endpoint(server)), &tools_put_a, &call, NULL);
        if (status == want && strstr(error, text) != NULL && fake_server_requests(server) > (int)count)
            return;
        CHECK(status == want || status == ETCD_UNKNOWN);
    }
    FAIL("%d times the time was up too early, or while an attempt was in flight", TRIES);
}

/* Each status code of gRPC, as the answer to a write and to a read. */
static void codes(void) {
    static const struct {
        int code;
        enum etcd_status write, read;
        const char *message;
    } each[] = {
        {GRPC_STATUS_CANCELLED, ETCD_UNKNOWN, ETCD_UNAVAILABLE, "context canceled"},
        {GRPC_STATUS_UNKNOWN, ETCD_UNKNOWN, ETCD_UNAVAILABLE, "who knows"},
        {GRPC_STATUS_INVALID_ARGUMENT, ETCD_INVALID, ETCD_INVALID, "etcdserver: anything"},
        {GRPC_STATUS_DEADLINE_EXCEEDED, ETCD_UNKNOWN, ETCD_TIMEOUT, "context deadline exceeded"},
        {GRPC_STATUS_NOT_FOUND, ETCD_NOT_FOUND, ETCD_NOT_FOUND, "etcdserver: requested lease not found"},
        {GRPC_STATUS_ALREADY_EXISTS, ETCD_UNKNOWN, ETCD_UNAVAILABLE, "what exists?"},
        {GRPC_STATUS_PERMISSION_DENIED, ETCD_DENIED, ETCD_DENIED, "etcdserver: permission denied"},
        {GRPC_STATUS_RESOURCE_EXHAUSTED, ETCD_EXHAUSTED, ETCD_EXHAUSTED, "etcdserver: too many requests"},
        {GRPC_STATUS_FAILED_PRECONDITION, ETCD_EXISTS, ETCD_EXISTS, "etcdserver: lease already exists"},
        {GRPC_STATUS_FAILED_PRECONDITION, ETCD_FAILED, ETCD_FAILED, "etcdserver: anything"},
        {GRPC_STATUS_ABORTED, ETCD_UNKNOWN, ETCD_UNAVAILABLE, "a"},
        {GRPC_STATUS_OUT_OF_RANGE, ETCD_COMPACTED, ETCD_COMPACTED,
         "etcdserver: mvcc: required revision has been compacted"},
        {GRPC_STATUS_OUT_OF_RANGE, ETCD_FUTURE, ETCD_FUTURE,
         "etcdserver: mvcc: required revision is a future revision"},
        {GRPC_STATUS_OUT_OF_RANGE, ETCD_INVALID, ETCD_INVALID, "etcdserver: anything"},
        {GRPC_STATUS_UNIMPLEMENTED, ETCD_FAILED, ETCD_FAILED, "unknown service"},
        {GRPC_STATUS_INTERNAL, ETCD_UNKNOWN, ETCD_UNAVAILABLE, "a"},
        {GRPC_STATUS_UNAVAILABLE, ETCD_UNKNOWN, ETCD_UNAVAILABLE, "etcdserver: request timed out"},
        {GRPC_STATUS_UNAVAILABLE, ETCD_UNAVAILABLE, ETCD_UNAVAILABLE, "etcdserver: no leader"},
        {GRPC_STATUS_DATA_LOSS, ETCD_FAILED, ETCD_FAILED, "etcdserver: corrupt cluster"},
        {GRPC_STATUS_UNAUTHENTICATED, ETCD_DENIED, ETCD_DENIED, "etcdserver: invalid auth token"},
        {99, ETCD_UNKNOWN, ETCD_UNAVAILABLE, "no code"},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const struct fake_server_answer answer = {.code = each[i].code, .message = each[i].message};
        struct fake_server *server = fake_server_start(FAKE_GRPC, &answer, 1);
        struct etcd *etcd = tools_open_at(fake_server_endpoint(server));
        if (each[i].write == ETCD_UNAVAILABLE)
            call_until_time_is_up(&answer, 1, false, each[i].write, each[i].message);
        else
            CHECK_INT(call_server(etcd, server, false, PATIENCE_MS, each[i].write, each[i].message), 1);
        bool repeats = each[i].read == ETCD_UNAVAILABLE || each[i].read == ETCD_TIMEOUT;
        tools_check_range(etcd, repeats ? 30 : PATIENCE_MS, each[i].read);
    }
}

static void answers_of_no_sense(void) {
    static const struct fake_server_answer http = {.http = "404"}, empty = {.code = 0},
                                           garbage = {.data = "\xff\xff\xff", .size = 3};
    struct fake_server *server = fake_server_start(FAKE_GRPC, &http, 1);
    CHECK_INT(call_server(tools_open_at(fake_server_endpoint(server)), server, false, PATIENCE_MS,
                          ETCD_FAILED, "404"),
              1);
    server = fake_server_start(FAKE_GRPC, &empty, 1);
    CHECK_INT(call_server(tools_open_at(fake_server_endpoint(server)), server, false, PATIENCE_MS,
                          ETCD_UNKNOWN, ""),
              1);
    struct etcd *etcd = tools_open_at(fake_server_endpoint(fake_server_start(FAKE_GRPC, &garbage, 1)));
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    struct etcd_reply *reply = NULL;
    CHECK_STATUS(etcd_range(etcd, &tools_range_a, &call, &reply), ETCD_FAILED);
    CHECK_HAS(error, "no sense");
    CHECK(!reply);
    CHECK_STATUS(etcd_put(etcd, &tools_put_a, &call, &reply), ETCD_UNKNOWN); /* the server may have done it */
    CHECK_HAS(error, "no sense");
    CHECK(!reply);
    struct etcd_lease_info *info = NULL;
    CHECK_STATUS(etcd_lease_time_to_live(etcd, 7, true, NULL, &info), ETCD_FAILED);
    struct etcd_members *members = NULL;
    CHECK_STATUS(etcd_member_list(etcd, NULL, &members), ETCD_FAILED);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_status(etcd, 0, NULL, &status), ETCD_FAILED);
    int64_t id = -7;
    struct etcd_bytes *key = NULL;
    CHECK_STATUS(etcd_lease_grant(etcd, 5, 0, NULL, &id, NULL), ETCD_UNKNOWN);
    CHECK_STATUS(etcd_lock(etcd, etcd_text("l"), 7, NULL, &key, &id), ETCD_UNKNOWN);
    CHECK(!info && !members && !key && id == -7);
    /* An answer of another type. */
    static const struct fake_server_answer other = {.data = "\x1a\x00", .size = 2};
    const struct etcd_txn txn = {.then = NULL};
    etcd = tools_open_at(fake_server_endpoint(fake_server_start(FAKE_GRPC, &other, 1)));
    CHECK_STATUS(etcd_txn(etcd, &txn, NULL, &reply), ETCD_FAILED);
    CHECK(!reply);
}

#define NO_LEADER                                                                                            \
    { .code = GRPC_STATUS_UNAVAILABLE, .message = "etcdserver: no leader" }
#define FULL                                                                                                 \
    { .code = GRPC_STATUS_RESOURCE_EXHAUSTED, .message = "etcdserver: too many requests" }
#define FAILS                                                                                                \
    { .code = GRPC_STATUS_FAILED_PRECONDITION, .message = "etcdserver: anything" }
#define DENIED                                                                                               \
    { .code = GRPC_STATUS_PERMISSION_DENIED, .message = "etcdserver: permission denied" }
#define DONE                                                                                                 \
    { .data = "", .size = 0 }
#define CUT                                                                                                  \
    { .how = FAKE_CLOSE }

/* A write with two attempts: the answer to the second one says nothing about the first. */
static void second_attempts(void) {
    static const struct {
        struct fake_server_answer answers[3];
        bool idempotent;
        enum etcd_status status;
        int asked; /* 0: more than the answers here */
        const char *text;
    } courses[] = {
        /* A member without a leader did nothing. */
        {{NO_LEADER, NO_LEADER, DONE}, false, ETCD_OK, 3, ""},
        {{NO_LEADER, FULL, DONE}, false, ETCD_EXHAUSTED, 2, "too many"},
        {{NO_LEADER, CUT, DONE}, false, ETCD_UNKNOWN, 2, ""},
        {{NO_LEADER, NO_LEADER, NO_LEADER}, false, ETCD_UNAVAILABLE, 0, "no leader"},
        /* A member whose connection was closed may have done it. */
        {{CUT, DONE, DONE}, false, ETCD_UNKNOWN, 1, ""},
        {{CUT, CUT, DONE}, true, ETCD_OK, 3, ""},
        {{CUT, NO_LEADER, NO_LEADER}, true, ETCD_UNKNOWN, 0, "no leader"},
        {{CUT, FULL, DONE}, true, ETCD_UNKNOWN, 2, "too many"},
        {{CUT, FAILS, DONE}, true, ETCD_UNKNOWN, 2, "anything"},
        {{CUT, DENIED, DONE}, true, ETCD_UNKNOWN, 2, "denied"},
    };
    for (size_t i = 0; i < sizeof courses / sizeof *courses; i++) {
        if (courses[i].asked == 0) {
            call_until_time_is_up(courses[i].answers, 3, courses[i].idempotent, courses[i].status,
                                  courses[i].text);
            continue;
        }
        struct fake_server *server = fake_server_start(FAKE_GRPC, courses[i].answers, 3);
        CHECK_INT(call_server(tools_open_at(fake_server_endpoint(server)), server, courses[i].idempotent,
                              PATIENCE_MS, courses[i].status, courses[i].text),
                  courses[i].asked);
    }
}

/* A refused login is not repeated for ever, whatever the refusal is. */
static void refused_logins(void) {
    static const struct fake_server_answer answers[] = {
        {.http = "401"},
        {.code = 16, .message = "etcdserver: invalid auth token"},
        {.code = 3, .message = "etcdserver: user name is empty"},
        {.code = 3, .message = "etcdserver: authentication failed, invalid user ID or password"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct fake_server *server = fake_server_start(FAKE_GRPC, &answers[i], 1);
        const struct etcd_config config = {.endpoints = fake_server_endpoint(server),
                                           .user = "somebody",
                                           .password = "secret-word",
                                           .timeout_ms = PATIENCE_MS};
        struct etcd *etcd = tools_open_config(&config);
        char error[ETCD_ERROR_SIZE] = "";
        const struct etcd_call call = {.error = error, .error_size = sizeof error};
        CHECK_STATUS(etcd_put(etcd, &tools_put_a, &call, NULL), ETCD_DENIED);
        CHECK(*error && !strstr(error, "secret-word"));
        CHECK_INT(fake_server_requests(server), 1);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("requests that are refused", invalid_requests);
    harness_run("no space left", no_space);
    harness_run("no server listens", no_server_listens);
    harness_run("no leader, then one", no_leader_yet);
    harness_run("a paused server", paused_server);
    harness_run("the peer is not an etcd server", not_a_server);
    harness_run("each code of gRPC", codes);
    harness_run("answers that make no sense", answers_of_no_sense);
    harness_run("second attempts", second_attempts);
    harness_run("refused logins", refused_logins);
    return harness_finish();
}
