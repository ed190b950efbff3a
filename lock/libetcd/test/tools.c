#include "lock/libetcd/test/tools.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "lock/libetcd/etcd_client.h"

void tools_check_status(const char *file, int line, const char *what, enum etcd_status got,
                        enum etcd_status want) {
    harness_check_str(file, line, what, etcd_status_text(got), etcd_status_text(want));
}

const char *tools_endpoints(const struct etcd_server *servers, int count) {
    const char *text = "";
    for (int i = 0; i < count; i++)
        text = harness_format("%s%s%s:%d", text, i ? "," : "", servers[i].host, servers[i].port);
    return text;
}

static void close_client(void *etcd) {
    etcd_close(etcd);
}

struct etcd *tools_open_config(const struct etcd_config *config) {
    char error[ETCD_ERROR_SIZE] = "";
    struct etcd *etcd = NULL;
    if (etcd_open(config, &etcd, error, sizeof error) != ETCD_OK)
        FAIL("%s is not opened: %s", config->endpoints, error);
    harness_defer(close_client, etcd);
    return etcd;
}

struct etcd *tools_open(const struct etcd_server *servers, int count) {
    const struct etcd_config config = {.endpoints = tools_endpoints(servers, count),
                                       .timeout_ms = PATIENCE_MS};
    return tools_open_config(&config);
}

void tools_add_users(const struct etcd_server *server) {
    static const char *const commands[][6] = {
        {"user", "add", "root:rootpw"},
        {"user", "add", "alice:secret-word"},
        {"user", "add", "bob:bobpw"},
        {"role", "add", "all"},
        {"role", "add", "b"},
        {"user", "grant-role", "root", "root"},
        {"user", "grant-role", "alice", "all"},
        {"user", "grant-role", "bob", "b"},
        {"role", "grant-permission", "all", "readwrite", "", "--prefix=true"},
        {"role", "grant-permission", "b", "read", "b", "--prefix=true"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *const *c = commands[i];
        CHECK(!strstr(etcd_command(server, c[0], c[1], c[2], c[3], c[4], c[5], NULL), "Error"));
    }
}

void tools_enable_auth(const struct etcd_server *server) {
    CHECK_HAS(etcd_command(server, "auth", "enable", NULL), "Authentication Enabled");
}

struct etcd *tools_open_as(const struct etcd_server *server, const char *user, const char *password) {
    const struct etcd_config config = {.endpoints = tools_endpoints(server, 1),
                                       .user = user,
                                       .password = password,
                                       .timeout_ms = PATIENCE_MS};
    return tools_open_config(&config);
}

int64_t tools_in_ms(int64_t ms) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec + ms * 1000000;
}

/* Fails the test with the error's text. */
static void check(enum etcd_status status, const char *key, const char *error) {
    if (status != ETCD_OK)
        FAIL("%s: %s: %s", key, etcd_status_text(status), error);
}

int64_t tools_put(struct etcd *etcd, const char *key, const char *value) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_put put = {.key = etcd_text(key), .value = etcd_text(value)};
    struct etcd_reply *reply = NULL;
    check(etcd_put(etcd, &put, &call, &reply), key, error);
    int64_t revision = reply->revision;
    etcd_reply_free(reply);
    return revision;
}

const char *tools_get(struct etcd *etcd, const char *key) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_range range = {.key = etcd_text(key)};
    struct etcd_reply *reply = NULL;
    check(etcd_range(etcd, &range, &call, &reply), key, error);
    const char *value = NULL;
    if (reply->kv_count == 1)
        value = harness_format("%.*s", (int)reply->kvs[0].value.size, (const char *)reply->kvs[0].value.data);
    etcd_reply_free(reply);
    return value;
}

int64_t tools_grant(struct etcd *etcd, int64_t ttl_s) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    int64_t id = 0;
    check(etcd_lease_grant(etcd, ttl_s, 0, &call, &id, NULL), "lease", error);
    return id;
}

/* ---- a write and a read ---- */

const struct etcd_put tools_put_a = {.key = {"a", 1}, .value = {"1", 1}};
const struct etcd_range tools_range_a = {.key = {"a", 1}};

struct etcd *tools_open_at(const char *endpoints) {
    const struct etcd_config config = {.endpoints = endpoints, .timeout_ms = PATIENCE_MS};
    return tools_open_config(&config);
}

size_t tools_blocked(struct etcd *etcd) {
    pthread_mutex_lock(&etcd->loop.mutex);
    size_t count = etcd->loop.blocked;
    pthread_mutex_unlock(&etcd->loop.mutex);
    return count;
}

void tools_check_put(struct etcd *etcd, int64_t ms, enum etcd_status want) {
    const struct etcd_call call = {.deadline_ns = ms ? tools_in_ms(ms) : 0};
    CHECK_STATUS(etcd_put(etcd, &tools_put_a, &call, NULL), want);
}

void tools_check_range(struct etcd *etcd, int64_t ms, enum etcd_status want) {
    const struct etcd_call call = {.deadline_ns = ms ? tools_in_ms(ms) : 0};
    CHECK_STATUS(etcd_range(etcd, &tools_range_a, &call, NULL), want);
}

uint64_t tools_answering(struct etcd *etcd) {
    struct etcd_reply *reply = NULL;
    CHECK_STATUS(etcd_range(etcd, &tools_range_a, NULL, &reply), ETCD_OK);
    uint64_t member = reply->member_id;
    etcd_reply_free(reply);
    return member;
}
