/* Opening and closing clients. */
#include <grpc/status.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lock/libetcd/test/fake_server.h"
#include "lock/libetcd/test/tools.h"
#include "lock/libetcd/v3lock.h"

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
    case 0: caller->status = etcd_range(caller->etcd, &tools_range_a, &call, NULL); break;
    case 1: caller->status = etcd_put(caller->etcd, &tools_put_a, &call, NULL); break;
    case 2: caller->status = etcd_lock(caller->etcd, etcd_text("l"), 7, &call, &key, &revision); break;
    default: caller->status = etcd_compact(caller->etcd, 1, true, &call);
    }
    return NULL;
}

enum { CALLERS = 16 };

static bool all_are_blocked(void *etcd) {
    return tools_blocked(etcd) >= CALLERS; /* more threads: those that log in */
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
    static const struct fake_server_answer waits = {.how = FAKE_WAIT},
                                           no_leader = {.code = GRPC_STATUS_UNAVAILABLE,
                                                        .message = "etcdserver: no leader"};
    /* No server; then a server that does not answer, has no leader, or does not answer a login. */
    struct etcd_config config = {.endpoints = harness_format("127.0.0.1:%d", harness_free_port())};
    check_closing(&config);
    config.endpoints = fake_server_endpoint(fake_server_start(FAKE_SILENT, NULL, 0));
    check_closing(&config);
    config.endpoints = fake_server_endpoint(fake_server_start(FAKE_GRPC, &no_leader, 1));
    check_closing(&config);
    struct fake_server *server = fake_server_start(FAKE_GRPC, &waits, 1);
    config.endpoints = fake_server_endpoint(server);
    check_closing(&config);
    config.user = config.password = "somebody";
    check_closing(&config);
    etcd_close(NULL);
}

/* A client that was never used, and one whose calls have all been answered. */
static void closing_idle_client(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
    for (int i = 0; i < 20; i++) {
        struct etcd *etcd, *other;
        CHECK_STATUS(etcd_open(&config, &etcd, error, sizeof error), ETCD_OK);
        CHECK_STATUS(etcd_open(&config, &other, error, sizeof error), ETCD_OK);
        if (i % 2)
            tools_check_put(etcd, 0, ETCD_OK);
        etcd_close(etcd);
        tools_check_put(other, 0, ETCD_OK); /* gRPC is still initialized */
        etcd_close(other);
    }
}

/* Each thread opens and closes its own clients, which share only gRPC. */
static void *come_and_go(void *server) {
    for (int i = 0; i < 10; i++) {
        const struct etcd_config config = {.endpoints = tools_endpoints(server, 1),
                                           .timeout_ms = PATIENCE_MS};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        tools_check_put(etcd, 0, ETCD_OK);
        etcd_close(etcd);
    }
    return NULL;
}

static void open_and_close_in_threads(void) {
    struct etcd_server server;
    pthread_t threads[8];
    etcd_start(&server, NULL);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, come_and_go, &server), 0);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        CHECK_INT(pthread_join(threads[i], NULL), 0);
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
    const struct {
        const char *user, *password, *ca_file, *cert_file, *key_file, *says; /* NULL: it is opened */
    } configs[] = {
        {"u", NULL, NULL, NULL, NULL, "a user needs a password"},
        {NULL, "secret-word", NULL, NULL, NULL, "a password a user"},
        {NULL, NULL, NULL, pem, pem, "ca_file"},
        {NULL, NULL, pem, pem, NULL, "both or none"},
        {NULL, NULL, pem, NULL, pem, "both or none"},
        {NULL, NULL, NULL, NULL, pem, "ca_file"},
        {NULL, NULL, "/nowhere/x.pem", NULL, NULL, "/nowhere/x.pem: No such file"},
        {NULL, NULL, harness_dir(), NULL, NULL, "Is a directory"},
        {NULL, NULL, text, NULL, NULL, "text: is not a PEM file"},
        {NULL, NULL, empty, NULL, NULL, "empty: is not a PEM file"},
        {NULL, NULL, pem, pem, text, "text: is not a PEM file"},
        {NULL, NULL, pem, "/nowhere", pem, "/nowhere: No such file"},
        {NULL, NULL, pem, pem, pem, NULL},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        const struct etcd_config config = {.endpoints = "a",
                                           .user = configs[i].user,
                                           .password = configs[i].password,
                                           .ca_file = configs[i].ca_file,
                                           .cert_file = configs[i].cert_file,
                                           .key_file = configs[i].key_file};
        check_config(&config, configs[i].says);
    }
    check_config(&(struct etcd_config){.endpoints = "a:x", .user = "u", .password = "secret-word"},
                 "endpoint 1 ");
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
    harness_run("closing ends calls", closing);
    harness_run("closing an idle client", closing_idle_client);
    harness_run("threads open and close clients", open_and_close_in_threads);
    harness_run("endpoints as text", endpoint_texts);
    harness_run("a user without a password, files that are not PEM", users_and_files);
    harness_run("texts of statuses", texts);
    return harness_finish();
}
