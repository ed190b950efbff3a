#include "lock/test/etcd_tools.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *etcd_tools_url(const struct etcd_server *members, int count, const char *options) {
    const char *url = "etcd://";
    for (int i = 0; i < count; i++)
        url = harness_format("%s%s%s:%d", url, i ? "," : "", members[i].host, members[i].port);
    return harness_format("%s%s%s", url, options[0] ? "?" : "", options);
}

struct lock *etcd_tools_open(const struct etcd_server *etcd, const char *options) {
    return tools_open(NULL, etcd_tools_url(etcd, 1, options));
}

struct lock *etcd_tools_open_by(const struct proxy *proxy, const char *options) {
    return tools_open(
        NULL, harness_format("etcd://127.0.0.1:%d%s%s", proxy_port(proxy), options[0] ? "?" : "", options));
}

/* ---- what is in the store ---- */

static const char *base64(const char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = strlen(text), n = 0;
    char *out = harness_alloc(length * 2 + 8);
    for (size_t i = 0; i < length; i += 3) {
        unsigned bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < length ? (unsigned char)text[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            out[n++] = i + k > length ? '=' : digits[bits >> (18 - 6 * k) & 63];
    }
    return out;
}

int etcd_tools_count(const struct etcd_server *etcd, const char *prefix) {
    struct web_conn conn;
    struct web_response response;
    char *end = harness_format("%s", prefix);
    end[strlen(end) - 1]++;
    const char *body = harness_format("{\"key\":\"%s\",\"range_end\":\"%s\",\"count_only\":true}",
                                      base64(prefix), base64(end));
    if (!web_open_at(&conn, etcd->host, etcd->port, 5000))
        return -1;
    enum web_result result = web_request(&conn, "POST", "/v3/kv/range", NULL, body, &response);
    web_close(&conn);
    if (result != WEB_OK || response.status != 200)
        return -1;
    const char *at = strstr(response.body, "\"count\":\"");
    return at ? (int)strtol(at + strlen("\"count\":\""), NULL, 10) : 0;
}

struct wanted {
    const struct etcd_server *etcd;
    const char *prefix;
    int count, found;
};

static bool is_found(void *arg) {
    struct wanted *wanted = arg;
    wanted->found = etcd_tools_count(wanted->etcd, wanted->prefix);
    return wanted->found == wanted->count;
}

void etcd_tools_wait_for(const struct etcd_server *etcd, const char *prefix, int count) {
    struct wanted wanted = {etcd, prefix, count, -1};
    if (!harness_wait(is_found, &wanted, PATIENCE_MS))
        FAIL("there are %d keys \"%s…\", not %d", wanted.found, prefix, count);
}

void etcd_tools_wait_for_queue(const struct etcd_server *etcd, const char *key, int count) {
    etcd_tools_wait_for(etcd, harness_format("lock/%s ", key), count);
}

void etcd_tools_check_no_trace(const struct etcd_server *etcd) {
    CHECK_INT(etcd_tools_count(etcd, "lock/"), 0);
}

const char *etcd_tools_field(const struct etcd_server *etcd, const char *prefix, int nth, const char *field) {
    const char *said = etcd_command(etcd, "get", "--prefix", prefix, "--sort-by", "CREATE", "--order",
                                    "ASCEND", "-w", "fields", NULL);
    const char *line = harness_format("\n\"%s\" : ", field), *at = said;
    for (int i = 0; at && i <= nth; i++)
        at = (at = strstr(at, line)) ? at + strlen(line) : NULL;
    if (!at)
        FAIL("no %s of key %d in: %s", field, nth, said);
    at += *at == '"';
    return harness_format("%.*s", (int)strcspn(at, "\"\n"), at);
}

const char *etcd_tools_lease(const struct etcd_server *etcd, const char *key, int nth) {
    const char *lease = etcd_tools_field(etcd, harness_format("lock/%s ", key), nth, "Lease");
    return harness_format("%llx", strtoull(lease, NULL, 10));
}

void etcd_tools_revoke(const struct etcd_server *etcd, const char *lease) {
    CHECK_HAS(etcd_command(etcd, "lease", "revoke", lease, NULL), "revoked");
}

/* By hand: it answers HTTP/1.1 in chunks. */
static const char *read_metrics(const struct etcd_server *etcd) {
    enum { METRICS_MAX = 1 << 20 };
    struct web_conn conn;
    char *text = harness_alloc(METRICS_MAX);
    size_t length = 0;
    CHECK(web_open_at(&conn, etcd->host, etcd->port, PATIENCE_MS));
    web_send_text(&conn, "GET /metrics HTTP/1.0\r\n\r\n");
    for (ssize_t got; (got = read(conn.fd, text + length, METRICS_MAX - 1 - length)) > 0;)
        length += (size_t)got;
    web_close(&conn);
    CHECK_HAS(text, " 200 OK");
    return text;
}

long long etcd_tools_requests(const struct etcd_server *etcd) {
    static const char *const methods[] = {"Txn", "DeleteRange"};
    const char *text = read_metrics(etcd);
    long long sum = 0;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const char *at =
            strstr(text, harness_format("handled_total{grpc_code=\"OK\",grpc_method=\"%s\"", methods[i]));
        at = at ? strchr(at, '}') : NULL;
        sum += at ? (long long)strtod(at + 1, NULL) : 0;
    }
    return sum;
}

int etcd_tools_watches(const struct etcd_server *etcd) {
    static const char name[] = "\netcd_debugging_mvcc_watcher_total ";
    const char *at = strstr(read_metrics(etcd), name);
    return at ? (int)strtol(at + sizeof name - 1, NULL, 10) : -1;
}
