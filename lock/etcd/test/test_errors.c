/* What libetcd says when it cannot: each status, made to happen by a server, or by what is none. */
#include <grpc/status.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/etcd/client.h"
#include "lock/etcd/test/rogue.h"
#include "lock/etcd/test/tools.h"

enum { SOON_MS = 200 };

static const struct etcd_put put_a = {.key = {"a", 1}, .value = {"1", 1}};
static const struct etcd_range range_a = {.key = {"a", 1}};

/* One client of an endpoint that is no etcd_server. */
static struct etcd *open_at(const char *endpoints) {
    const struct etcd_config config = {.endpoints = endpoints, .timeout_ms = PATIENCE_MS};
    return tools_open_config(&config);
}

/* The client, its writes, its reads: within `ms`, or as the client is configured. */
static void check_put(struct etcd *etcd, int64_t ms, enum etcd_status want) {
    const struct etcd_call call = {.deadline_ns = ms ? tools_in_ms(ms) : 0};
    CHECK_STATUS(etcd_put(etcd, &put_a, &call, NULL), want);
}

static void check_range(struct etcd *etcd, int64_t ms, enum etcd_status want) {
    const struct etcd_call call = {.deadline_ns = ms ? tools_in_ms(ms) : 0};
    CHECK_STATUS(etcd_range(etcd, &range_a, &call, NULL), want);
}

static int64_t version_of(struct etcd *etcd, const char *key) {
    const struct etcd_range range = {.key = etcd_text(key)};
    struct etcd_reply *reply;
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    int64_t version = reply->kv_count ? reply->kvs[0].version : 0;
    etcd_reply_free(reply);
    return version;
}

/* ---- what a server refuses ---- */

static void invalid_requests(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    struct etcd *etcd = tools_open(&server, 1);
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_put no_key = {.value = {"1", 1}};
    CHECK_STATUS(etcd_put(etcd, &no_key, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "key is not provided");
    struct etcd_op ops[129] = {{ETCD_PUT, .put = put_a}, {ETCD_PUT, .put = put_a}};
    struct etcd_txn txn = {.then = ops, .then_count = 2};
    CHECK_STATUS(etcd_txn(etcd, &txn, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "duplicate key");
    for (int i = 0; i < 129; i++)
        ops[i] = (struct etcd_op){ETCD_RANGE, .range = range_a};
    txn.then_count = 129;
    CHECK_STATUS(etcd_txn(etcd, &txn, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "too many operations");
    txn.then_count = 128;
    CHECK_STATUS(etcd_txn(etcd, &txn, NULL, NULL), ETCD_OK);
    struct etcd_put large = {.key = {"a", 1}, .value = {harness_alloc(3 << 20), 3 << 19}};
    CHECK_STATUS(etcd_put(etcd, &large, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "request is too large");
    large.value.size = 3 << 20; /* which the server's gRPC refuses already */
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
    for (int i = 0; i < 100 && status == ETCD_OK; i++)
        status = etcd_put(etcd, &large, &call, NULL);
    CHECK_STATUS(status, ETCD_EXHAUSTED);
    CHECK_HAS(error, "database space exceeded");
    check_put(etcd, 0, ETCD_EXHAUSTED);
    check_range(etcd, 0, ETCD_OK);
    const struct etcd_delete del = {.key = {"a", 1}};
    CHECK_STATUS(etcd_delete(etcd, &del, NULL, NULL), ETCD_OK);
}

/* ---- who is not there ---- */

static void nobody_listens(void) {
    struct etcd *etcd = open_at(harness_format("127.0.0.1:%d", harness_free_port()));
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {
        .deadline_ns = tools_in_ms(SOON_MS), .error = error, .error_size = sizeof error};
    CHECK_STATUS(etcd_put(etcd, &put_a, &call, NULL), ETCD_UNAVAILABLE);
    CHECK_HAS(error, "no member can be reached: ");
    CHECK_HAS(error, "Connection refused");
    check_range(etcd, SOON_MS, ETCD_UNAVAILABLE);
    check_range(etcd, -1000, ETCD_UNAVAILABLE);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_look(etcd, 0, &call, &status), ETCD_UNAVAILABLE);
    /* A name that nobody has, and a socket's name, which is not one here. */
    check_range(open_at("nobody.invalid"), SOON_MS, ETCD_UNAVAILABLE);
    check_range(open_at("unix:1,dns:1,ipv4:1"), SOON_MS, ETCD_UNAVAILABLE);
}

static bool knows_no_leader(void *etcd) {
    struct etcd_member_status status;
    return etcd_member_look(etcd, 0, NULL, &status) == ETCD_OK && status.leader_id == 0;
}

static void *put_patiently(void *arg) {
    check_put(arg, 0, ETCD_OK);
    return NULL;
}

static size_t blocked(struct etcd *etcd) {
    pthread_mutex_lock(&etcd->mutex);
    size_t count = etcd->blocked;
    pthread_mutex_unlock(&etcd->mutex);
    return count;
}

static bool one_is_blocked(void *etcd) {
    return blocked(etcd) == 1;
}

static void nobody_leads(void) {
    struct etcd_server members[3];
    pthread_t thread;
    etcd_start_cluster(members, 3, NULL);
    etcd_kill(&members[1]);
    etcd_kill(&members[2]);
    struct etcd *etcd = tools_open(members, 1);
    CHECK(harness_wait(knows_no_leader, etcd, PATIENCE_MS));
    char error[ETCD_ERROR_SIZE] = "";
    struct etcd_call call = {.deadline_ns = tools_in_ms(SOON_MS), .error = error, .error_size = sizeof error};
    CHECK_STATUS(etcd_put(etcd, &put_a, &call, NULL), ETCD_UNAVAILABLE);
    CHECK_HAS(error, "no leader");
    check_range(etcd, SOON_MS, ETCD_UNAVAILABLE);
    const struct etcd_range old = {.key = {"a", 1}, .serializable = true};
    CHECK_STATUS(etcd_range(etcd, &old, NULL, NULL), ETCD_OK);
    struct etcd_members *list;
    CHECK_STATUS(etcd_member_list(etcd, NULL, &list), ETCD_OK);
    CHECK_INT(list->count, 3);
    etcd_members_free(list);
    /* Nothing was done so far, and what waits now is done once there is a leader; once. */
    CHECK_INT(pthread_create(&thread, NULL, put_patiently, etcd), 0);
    CHECK(harness_wait(one_is_blocked, etcd, PATIENCE_MS));
    etcd_restart_all(members, 3);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK_INT(version_of(etcd, "a"), 1);
}

/* ---- who does not answer ---- */

static void a_paused_server(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    struct etcd *etcd = tools_open(&server, 1);
    check_put(etcd, 0, ETCD_OK);
    etcd_pause(&server);
    struct etcd_call call = {.deadline_ns = tools_in_ms(SOON_MS)};
    struct etcd_reply *reply = NULL;
    CHECK_STATUS(etcd_range(etcd, &range_a, &call, &reply), ETCD_TIMEOUT);
    const struct etcd_op read = {ETCD_RANGE, .range = range_a};
    const struct etcd_txn reads = {.then = &read, .then_count = 1};
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_txn(etcd, &reads, &call, &reply), ETCD_TIMEOUT);
    struct etcd_lease_info *info = NULL;
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_lease_look(etcd, 7, true, &call, &info), ETCD_TIMEOUT);
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_put(etcd, &put_a, &call, &reply), ETCD_UNKNOWN);
    const struct etcd_op write = {ETCD_PUT, .put = put_a};
    const struct etcd_op inner = {ETCD_TXN, .txn = {.otherwise = &write, .otherwise_count = 1}};
    const struct etcd_txn writes = {.then = &inner, .then_count = 1};
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_txn(etcd, &writes, &call, &reply), ETCD_UNKNOWN);
    int64_t id = -7;
    call.deadline_ns = tools_in_ms(SOON_MS);
    CHECK_STATUS(etcd_lease_grant(etcd, 5, 0, &call, &id, NULL), ETCD_UNKNOWN);
    call.deadline_ns = tools_in_ms(SOON_MS);
    call.idempotent = true; /* still nobody knows */
    CHECK_STATUS(etcd_put(etcd, &put_a, &call, &reply), ETCD_UNKNOWN);
    CHECK(!reply && !info && id == -7);
    etcd_resume(&server);
    check_put(etcd, 0, ETCD_OK);
}

static void a_reply_that_is_cut(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    struct etcd *etcd = tools_open(&server, 1);
    struct proxy *proxy = proxy_start(server.port);
    struct etcd *through = open_at(harness_format("127.0.0.1:%d", proxy_port(proxy)));
    CHECK(!tools_get(through, "none"));
    struct etcd_put put = {.key = etcd_text("first"), .value = etcd_text("1")};
    proxy_set(proxy, PROXY_CUT, 0, "first");
    CHECK_STATUS(etcd_put(through, &put, NULL, NULL), ETCD_UNKNOWN);
    CHECK_INT(proxy_faults(proxy), 1);
    proxy_set(proxy, PROXY_CUT, 0, "second");
    put.key = etcd_text("second");
    char error[ETCD_ERROR_SIZE] = "untouched";
    const struct etcd_call call = {.idempotent = true, .error = error, .error_size = sizeof error};
    CHECK_STATUS(etcd_put(through, &put, &call, NULL), ETCD_OK);
    CHECK_STR(error, "untouched");
    CHECK_INT(proxy_faults(proxy), 2);
    proxy_set(proxy, PROXY_CUT, 0, "third");
    CHECK(!tools_get(through, "third"));
    CHECK_INT(proxy_faults(proxy), 3);
    CHECK(version_of(etcd, "first") <= 1);
    int64_t version = version_of(etcd, "second");
    CHECK(version == 1 || version == 2);
}

static void a_server_that_comes_back(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < 4; i++) {
        tools_put(etcd, "a", "1");
        i % 2 ? etcd_kill(&server) : etcd_stop(&server);
        etcd_restart(&server);
        if (i < 2)
            tools_put(etcd, "a", "2");
        CHECK_STR(tools_get(etcd, "a"), i < 2 ? "2" : "1");
    }
    CHECK_INT(version_of(etcd, "a"), 6);
}

/* ---- who is none ---- */

static void no_servers(void) {
    static const enum rogue_kind kinds[] = {ROGUE_SILENT, ROGUE_CLOSES, ROGUE_RUBBISH};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct etcd *etcd = open_at(rogue_endpoint(rogue_start(kinds[i], NULL, 0)));
        check_put(etcd, SOON_MS, ETCD_UNAVAILABLE);
        check_range(etcd, SOON_MS, ETCD_UNAVAILABLE);
    }
}

/* Asked for a write; returns how often. */
static int ask_rogue(struct etcd *etcd, struct rogue *rogue, bool idempotent, enum etcd_status want,
                     const char *text) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.deadline_ns = tools_in_ms(SOON_MS),
                                   .idempotent = idempotent,
                                   .error = error,
                                   .error_size = sizeof error};
    CHECK_STATUS(etcd_put(etcd, &put_a, &call, NULL), want);
    CHECK_HAS(error, text);
    return rogue_asked(rogue);
}

/* Each code that gRPC has, as an answer to a write and to a read. */
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
        const struct rogue_answer answer = {.code = each[i].code, .message = each[i].message};
        struct rogue *rogue = rogue_start(ROGUE_ANSWERS, &answer, 1);
        struct etcd *etcd = open_at(rogue_endpoint(rogue));
        int asked = ask_rogue(etcd, rogue, false, each[i].write, each[i].message);
        CHECK(each[i].write == ETCD_UNAVAILABLE ? asked > 1 : asked == 1);
        check_range(etcd, 30, each[i].read);
    }
}

static void answers_of_no_sense(void) {
    static const struct rogue_answer http = {.http = "404"}, empty = {.code = 0},
                                     garbage = {.data = "\xff\xff\xff", .size = 3};
    struct rogue *rogue = rogue_start(ROGUE_ANSWERS, &http, 1);
    CHECK_INT(ask_rogue(open_at(rogue_endpoint(rogue)), rogue, false, ETCD_FAILED, "404"), 1);
    rogue = rogue_start(ROGUE_ANSWERS, &empty, 1);
    CHECK_INT(ask_rogue(open_at(rogue_endpoint(rogue)), rogue, false, ETCD_UNKNOWN, ""), 1);
    struct etcd *etcd = open_at(rogue_endpoint(rogue_start(ROGUE_ANSWERS, &garbage, 1)));
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    struct etcd_reply *reply = NULL;
    CHECK_STATUS(etcd_range(etcd, &range_a, &call, &reply), ETCD_FAILED);
    CHECK_HAS(error, "no sense");
    CHECK(!reply);
    struct etcd_lease_info *info = NULL;
    CHECK_STATUS(etcd_lease_look(etcd, 7, true, NULL, &info), ETCD_FAILED);
    struct etcd_members *members = NULL;
    CHECK_STATUS(etcd_member_list(etcd, NULL, &members), ETCD_FAILED);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_look(etcd, 0, NULL, &status), ETCD_FAILED);
    int64_t id = -7;
    struct etcd_bytes *key = NULL;
    CHECK_STATUS(etcd_lease_grant(etcd, 5, 0, NULL, &id, NULL), ETCD_FAILED);
    CHECK_STATUS(etcd_lock(etcd, etcd_text("l"), 7, NULL, &key, &id), ETCD_FAILED);
    CHECK(!info && !members && !key && id == -7);
    /* An answer to something else. */
    static const struct rogue_answer other = {.data = "\x1a\x00", .size = 2};
    const struct etcd_txn txn = {.then = NULL};
    etcd = open_at(rogue_endpoint(rogue_start(ROGUE_ANSWERS, &other, 1)));
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
    { .how = ROGUE_CUTS }

/* A write that was tried twice: what is said of the second try says nothing of the first. */
static void second_tries(void) {
    static const struct {
        struct rogue_answer answers[3];
        bool idempotent;
        enum etcd_status status;
        int asked; /* 0: again and again */
        const char *text;
    } courses[] = {
        /* Surely nothing was done by who has no leader. */
        {{NO_LEADER, NO_LEADER, DONE}, false, ETCD_OK, 3, ""},
        {{NO_LEADER, FULL, DONE}, false, ETCD_EXHAUSTED, 2, "too many"},
        {{NO_LEADER, CUT, DONE}, false, ETCD_UNKNOWN, 2, ""},
        {{NO_LEADER, NO_LEADER, NO_LEADER}, false, ETCD_UNAVAILABLE, 0, "no leader"},
        /* Who was cut off may have done it. */
        {{CUT, DONE, DONE}, false, ETCD_UNKNOWN, 1, ""},
        {{CUT, CUT, DONE}, true, ETCD_OK, 3, ""},
        {{CUT, NO_LEADER, NO_LEADER}, true, ETCD_UNKNOWN, 0, "no leader"},
        {{CUT, FULL, DONE}, true, ETCD_UNKNOWN, 2, "too many"},
        {{CUT, FAILS, DONE}, true, ETCD_UNKNOWN, 2, "anything"},
        {{CUT, DENIED, DONE}, true, ETCD_UNKNOWN, 2, "denied"},
    };
    for (size_t i = 0; i < sizeof courses / sizeof *courses; i++) {
        struct rogue *rogue = rogue_start(ROGUE_ANSWERS, courses[i].answers, 3);
        int asked = ask_rogue(open_at(rogue_endpoint(rogue)), rogue, courses[i].idempotent, courses[i].status,
                              courses[i].text);
        if (courses[i].asked)
            CHECK_INT(asked, courses[i].asked);
        else
            CHECK(asked > 3);
    }
}

/* Who refuses the login itself, whatever it says, is not asked again for ever. */
static void refused_logins(void) {
    static const struct rogue_answer answers[] = {
        {.http = "401"},
        {.code = 16, .message = "etcdserver: invalid auth token"},
        {.code = 3, .message = "etcdserver: user name is empty"},
        {.code = 3, .message = "etcdserver: authentication failed, invalid user ID or password"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct rogue *rogue = rogue_start(ROGUE_ANSWERS, &answers[i], 1);
        const struct etcd_config config = {.endpoints = rogue_endpoint(rogue),
                                           .user = "somebody",
                                           .password = "secret-word",
                                           .timeout_ms = PATIENCE_MS};
        struct etcd *etcd = tools_open_config(&config);
        char error[ETCD_ERROR_SIZE] = "";
        const struct etcd_call call = {.error = error, .error_size = sizeof error};
        CHECK_STATUS(etcd_put(etcd, &put_a, &call, NULL), ETCD_DENIED);
        CHECK(*error && !strstr(error, "secret-word"));
        CHECK_INT(rogue_asked(rogue), 1);
    }
}

/* ---- closing ---- */

struct caller {
    pthread_t thread;
    struct etcd *etcd;
    int kind;
    enum etcd_status status;
    char error[ETCD_ERROR_SIZE];
};

static void *call_for_ever(void *arg) {
    struct caller *caller = arg;
    const struct etcd_call call = {
        .deadline_ns = INT64_MAX, .error = caller->error, .error_size = sizeof caller->error};
    struct etcd_bytes *key;
    int64_t revision;
    switch (caller->kind % 4) {
    case 0: caller->status = etcd_range(caller->etcd, &range_a, &call, NULL); break;
    case 1: caller->status = etcd_put(caller->etcd, &put_a, &call, NULL); break;
    case 2: caller->status = etcd_lock(caller->etcd, etcd_text("l"), 7, &call, &key, &revision); break;
    default: caller->status = etcd_compact(caller->etcd, 1, true, &call);
    }
    return NULL;
}

enum { CALLERS = 16 };

static bool all_are_blocked(void *etcd) {
    return blocked(etcd) >= CALLERS; /* more: those that get a token */
}

static void check_closing(const struct etcd_config *config) {
    struct caller callers[CALLERS] = {0};
    char error[ETCD_ERROR_SIZE] = "";
    struct etcd *etcd;
    CHECK_STATUS(etcd_open(config, &etcd, error, sizeof error), ETCD_OK);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.etcd = etcd, .kind = i};
        CHECK_INT(pthread_create(&callers[i].thread, NULL, call_for_ever, &callers[i]), 0);
    }
    CHECK(harness_wait(all_are_blocked, etcd, PATIENCE_MS));
    etcd_close(etcd);
    for (int i = 0; i < CALLERS; i++) {
        CHECK_INT(pthread_join(callers[i].thread, NULL), 0);
        CHECK_STATUS(callers[i].status, ETCD_CANCELLED);
        CHECK_STR(callers[i].error, "the client is being closed");
    }
}

static void closing(void) {
    static const struct rogue_answer waits = {.how = ROGUE_WAITS}, no_leader = NO_LEADER;
    /* Nobody is there; somebody is there but does not answer, or has no leader, or gives no token. */
    struct etcd_config config = {.endpoints = harness_format("127.0.0.1:%d", harness_free_port())};
    check_closing(&config);
    config.endpoints = rogue_endpoint(rogue_start(ROGUE_SILENT, NULL, 0));
    check_closing(&config);
    config.endpoints = rogue_endpoint(rogue_start(ROGUE_ANSWERS, &no_leader, 1));
    check_closing(&config);
    struct rogue *rogue = rogue_start(ROGUE_ANSWERS, &waits, 1);
    config.endpoints = rogue_endpoint(rogue);
    check_closing(&config);
    config.user = config.password = "somebody";
    check_closing(&config);
    etcd_close(NULL);
}

/* A client that was never used, and one whose calls have all been answered. */
static void closing_in_peace(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
    for (int i = 0; i < 20; i++) {
        struct etcd *etcd, *other;
        CHECK_STATUS(etcd_open(&config, &etcd, error, sizeof error), ETCD_OK);
        CHECK_STATUS(etcd_open(&config, &other, error, sizeof error), ETCD_OK);
        if (i % 2)
            check_put(etcd, 0, ETCD_OK);
        etcd_close(etcd);
        check_put(other, 0, ETCD_OK); /* gRPC is still there for it */
        etcd_close(other);
    }
}

/* ---- configurations ---- */

static void check_config(const struct etcd_config *config, const char *text) {
    struct etcd *etcd = NULL;
    char error[ETCD_ERROR_SIZE] = "";
    if (!text) {
        CHECK_STATUS(etcd_open(config, &etcd, error, sizeof error), ETCD_OK);
        etcd_close(etcd);
        return;
    }
    if (etcd_open(config, &etcd, error, sizeof error) != ETCD_CONFIG)
        FAIL("%s is opened, or fails in another way", config->endpoints ? config->endpoints : "NULL");
    CHECK(!etcd);
    CHECK_HAS(error, text);
    CHECK(!strstr(error, "secret-word"));
}

static void endpoint_texts(void) {
    static const char *const good[] = {"a",
                                       "a:1",
                                       "a:65535",
                                       "A-b.c_d:00080",
                                       "127.0.0.1",
                                       "127.0.0.1:1,b",
                                       "[::1]:1",
                                       "[::1],a,b:80",
                                       "[fe80::1%lo]:7",
                                       "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"};
    static const char *const bad[] = {NULL,       "",       ",",          "a,",      ",a",     "a,,b",
                                      ":1",       "a:",     "a:0",        "a:65536", "a:1:2",  "a:+1",
                                      "a: 1",     "a:1x",   "a:000001",   " a",      "a b",    "a ,b",
                                      "http://a", "a:1/x",  "/x",         "[",       "[]",     "[]:1",
                                      "[::1",     "[::1]1", "[::1]:",     "[::1]:0", "[::1]x", "[a/b]:1",
                                      "u:p@a:1",  "a\t",    "\xc3\xa4:1", "::1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        check_config(&(struct etcd_config){.endpoints = good[i]}, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_config(&(struct etcd_config){.endpoints = bad[i]}, "is not HOST[:PORT] or [ADDRESS]:PORT");
    check_config(&(struct etcd_config){.endpoints = "a,b,c:x"}, "endpoint 3 ");
    check_config(&(struct etcd_config){.endpoints = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"},
                 "more than 16 endpoints");
    check_config(&(struct etcd_config){.endpoints = harness_repeat('a', 253)}, NULL);
    check_config(&(struct etcd_config){.endpoints = harness_repeat('a', 1000)}, "endpoint 1 ");
}

static const char *file_of(const char *name, const char *text) {
    const char *path = harness_format("%s/%s", harness_dir(), name);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

static void users_and_files(void) {
    const char *pem = file_of("some.pem", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
    const char *text = file_of("text", "no PEM\n"), *empty = file_of("empty", "");
    check_config(&(struct etcd_config){.endpoints = "a", .user = "u"}, "a user wants a password");
    check_config(&(struct etcd_config){.endpoints = "a", .password = "secret-word"}, "a password a user");
    check_config(&(struct etcd_config){.endpoints = "a:x", .user = "u", .password = "secret-word"},
                 "endpoint 1 ");
    check_config(&(struct etcd_config){.endpoints = "a", .cert_file = pem, .key_file = pem}, "ca_file");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = pem, .cert_file = pem}, "both or none");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = pem, .key_file = pem}, "both or none");
    check_config(&(struct etcd_config){.endpoints = "a", .key_file = pem}, "ca_file");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = "/nowhere/x.pem"},
                 "/nowhere/x.pem: No such file");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = harness_dir()}, "Is a directory");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = text}, "text: is not a PEM file");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = empty}, "empty: is not a PEM file");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = pem, .cert_file = pem, .key_file = text},
                 "text: is not a PEM file");
    check_config(
        &(struct etcd_config){.endpoints = "a", .ca_file = pem, .cert_file = "/nowhere", .key_file = pem},
        "/nowhere: No such file");
    check_config(&(struct etcd_config){.endpoints = "a", .ca_file = pem, .cert_file = pem, .key_file = pem},
                 NULL);
    check_config(&(struct etcd_config){.endpoints = "a", .timeout_ms = INT64_MAX}, NULL);
}

static void texts(void) {
    for (int i = 0; i < ETCD_STATUSES; i++) {
        for (int j = 0; j < i; j++)
            CHECK(strcmp(etcd_status_text((enum etcd_status)i), etcd_status_text((enum etcd_status)j)) != 0);
    }
    CHECK_STR(etcd_status_text(ETCD_STATUSES), "no status");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("requests that are refused", invalid_requests);
    harness_run("no space left", no_space);
    harness_run("nobody listens", nobody_listens);
    harness_run("nobody leads, until somebody does", nobody_leads);
    harness_run("a server that is paused", a_paused_server);
    harness_run("a reply that is cut", a_reply_that_is_cut);
    harness_run("a server that comes back between two calls", a_server_that_comes_back);
    harness_run("what listens is no server", no_servers);
    harness_run("each code of gRPC", codes);
    harness_run("answers that make no sense", answers_of_no_sense);
    harness_run("what is tried twice", second_tries);
    harness_run("logins that are refused", refused_logins);
    harness_run("closing ends calls", closing);
    harness_run("closing in peace", closing_in_peace);
    harness_run("endpoints as text", endpoint_texts);
    harness_run("users without passwords, files that are none", users_and_files);
    harness_run("texts of statuses", texts);
    return harness_finish();
}
