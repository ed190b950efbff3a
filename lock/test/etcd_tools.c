#include "lock/test/etcd_tools.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

static int open_socket(int port, bool listens) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool ok = listens ? bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 16) == 0
                      : connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (ok)
        return fd;
    close(fd);
    return -1;
}

/* By hand: it answers HTTP/1.1 in chunks. */
static const char *read_metrics(const struct etcd_server *etcd) {
    enum { METRICS_MAX = 1 << 20 };
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    char *text = harness_alloc(METRICS_MAX);
    size_t length = 0;
    int fd = open_socket(etcd->port, false);
    CHECK(fd >= 0);
    CHECK_INT(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    for (ssize_t got; (got = recv(fd, text + length, METRICS_MAX - 1 - length, 0)) > 0;)
        length += (size_t)got;
    close(fd);
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

/* ---- a network that delivers late ---- */

enum { PAIRS_MAX = 16, CHUNK = 65536 };

struct late {
    pthread_t thread;
    pthread_mutex_t mutex; /* for what follows */
    char text[64];         /* "": none is expected */
    bool stopping, has, deliver;
    size_t size, reply_size;
    char chunk[CHUNK], reply[CHUNK]; /* what is held back, and what is answered */
    int port, listener;              /* from here on the thread's */
    int target_port, count, held;    /* held: the pair whose request it is; -1: none */
    struct {
        int client, server;
    } pairs[PAIRS_MAX];
};

static void accept_pair(struct late *late) {
    int client = accept4(late->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = late->count < PAIRS_MAX ? open_socket(late->target_port, false) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    late->pairs[late->count].client = client;
    late->pairs[late->count++].server = server;
}

/* The server's side of the pair with the request stays open. */
static void end_client(struct late *late, int i) {
    close(late->pairs[i].client);
    late->pairs[i].client = -1;
    if (i != late->held) {
        close(late->pairs[i].server);
        late->pairs[i].server = -1;
    }
}

/* With the mutex held. */
static void pass_request(struct late *late, int i) {
    char data[CHUNK];
    ssize_t got = recv(late->pairs[i].client, data, sizeof data, 0);
    if (got <= 0) {
        end_client(late, i);
    } else if (i == late->held) {
        return; /* lost */
    } else if (*late->text && memmem(data, (size_t)got, late->text, strlen(late->text))) {
        memcpy(late->chunk, data, (size_t)got);
        late->size = (size_t)got;
        late->has = true;
        late->held = i;
        *late->text = '\0';
    } else if (send(late->pairs[i].server, data, (size_t)got, MSG_NOSIGNAL) != got) {
        end_client(late, i);
    }
}

/* With the mutex held. */
static void pass_reply(struct late *late, int i) {
    char data[CHUNK];
    ssize_t got = recv(late->pairs[i].server, data, sizeof data, 0);
    if (got <= 0) {
        close(late->pairs[i].server);
        late->pairs[i].server = -1;
        return;
    }
    if (late->deliver && i == late->held && late->reply_size + (size_t)got <= CHUNK) {
        memcpy(late->reply + late->reply_size, data, (size_t)got);
        late->reply_size += (size_t)got;
    }
    if (late->pairs[i].client >= 0)
        send(late->pairs[i].client, data, (size_t)got, MSG_NOSIGNAL);
}

static void *carry(void *arg) {
    struct late *late = arg;
    for (bool go_on = true; go_on;) {
        struct pollfd polled[1 + 2 * PAIRS_MAX];
        int count = late->count;
        polled[0] = (struct pollfd){.fd = late->listener, .events = POLLIN};
        for (int i = 0; i < count; i++) {
            polled[1 + 2 * i] = (struct pollfd){.fd = late->pairs[i].client, .events = POLLIN};
            polled[2 + 2 * i] = (struct pollfd){.fd = late->pairs[i].server, .events = POLLIN};
        }
        poll(polled, (nfds_t)(1 + 2 * count), 10);
        pthread_mutex_lock(&late->mutex);
        if (polled[0].revents)
            accept_pair(late);
        for (int i = 0; i < count; i++) {
            if (polled[1 + 2 * i].revents && late->pairs[i].client >= 0)
                pass_request(late, i);
            if (polled[2 + 2 * i].revents && late->pairs[i].server >= 0)
                pass_reply(late, i);
        }
        if (late->deliver && late->size) {
            if (send(late->pairs[late->held].server, late->chunk, late->size, MSG_NOSIGNAL) < 0)
                abort();
            late->size = 0;
        }
        go_on = !late->stopping;
        pthread_mutex_unlock(&late->mutex);
    }
    return NULL;
}

static void late_stop(void *arg) {
    struct late *late = arg;
    pthread_mutex_lock(&late->mutex);
    late->stopping = true;
    pthread_mutex_unlock(&late->mutex);
    pthread_join(late->thread, NULL);
    for (int i = 0; i < late->count; i++) {
        if (late->pairs[i].client >= 0)
            close(late->pairs[i].client);
        if (late->pairs[i].server >= 0)
            close(late->pairs[i].server);
    }
    close(late->listener);
    pthread_mutex_destroy(&late->mutex);
    free(late);
}

struct late *late_start(int target_port) {
    struct late *late = calloc(1, sizeof *late);
    CHECK(late != NULL);
    late->port = harness_free_port();
    late->target_port = target_port;
    late->held = -1;
    late->listener = open_socket(late->port, true);
    pthread_mutex_init(&late->mutex, NULL);
    CHECK(late->listener >= 0);
    CHECK_INT(pthread_create(&late->thread, NULL, carry, late), 0);
    harness_defer(late_stop, late);
    return late;
}

int late_port(const struct late *late) {
    return late->port;
}

void late_expect(struct late *late, const char *text) {
    pthread_mutex_lock(&late->mutex);
    snprintf(late->text, sizeof late->text, "%s", text);
    pthread_mutex_unlock(&late->mutex);
}

static bool has_it(void *arg) {
    struct late *late = arg;
    pthread_mutex_lock(&late->mutex);
    bool has = late->has;
    pthread_mutex_unlock(&late->mutex);
    return has;
}

void late_wait(struct late *late) {
    CHECK(harness_wait(has_it, late, PATIENCE_MS));
}

struct answer {
    struct late *late;
    const char *text;
};

static bool is_answered(void *arg) {
    struct answer *answer = arg;
    pthread_mutex_lock(&answer->late->mutex);
    bool is = memmem(answer->late->reply, answer->late->reply_size, answer->text, strlen(answer->text));
    pthread_mutex_unlock(&answer->late->mutex);
    return is;
}

void late_deliver(struct late *late, const char *reply) {
    struct answer answer = {late, reply};
    pthread_mutex_lock(&late->mutex);
    late->deliver = true;
    pthread_mutex_unlock(&late->mutex);
    CHECK(harness_wait(is_answered, &answer, PATIENCE_MS));
}
