#include "lock/libetcd/test/seen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void __attribute__((format(printf, 2, 3))) write_down(struct seen *seen, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = sizeof seen->text - seen->used;
    int length = vsnprintf(seen->text + seen->used, room, format, args);
    va_end(args);
    if ((size_t)length < room)
        seen->used += (size_t)length;
}

static const char *shorten(char out[24], struct etcd_bytes bytes) {
    if (bytes.size < 16)
        snprintf(out, 24, "%.*s", (int)bytes.size, (const char *)bytes.data);
    else
        snprintf(out, 24, "#%zu", bytes.size);
    return out;
}

static void write_event(struct seen *seen, const struct etcd_event *event) {
    char key[24], value[24];
    const char *space = seen->used ? " " : "";
    seen->events++;
    if (event->deleted)
        write_down(seen, "%s-%s@%d", space, shorten(key, event->kv.key),
                   (int)(event->kv.mod_revision - seen->base));
    else
        write_down(seen, "%s%s=%s@%d", space, shorten(key, event->kv.key), shorten(value, event->kv.value),
                   (int)(event->kv.mod_revision - seen->base));
    if (event->prev)
        write_down(seen, "(%s)", shorten(value, event->prev->value));
}

static void write_call(struct seen *seen, const struct etcd_watch_event *event) {
    const char *space = seen->used ? " " : "";
    int revision = (int)(event->revision - seen->base);
    seen->calls++;
    switch (event->kind) {
    case ETCD_WATCH_CREATED: write_down(seen, "%screated@%d", space, revision); break;
    case ETCD_WATCH_EVENTS:
        for (size_t i = 0; i < event->count; i++)
            write_event(seen, &event->events[i]);
        break;
    case ETCD_WATCH_PROGRESS:
        seen->progress++;
        seen->progress_revision = event->revision;
        break;
    case ETCD_WATCH_COMPACTED: write_down(seen, "%scompacted@%d", space, revision); break;
    case ETCD_WATCH_ENDED: write_down(seen, "%sended:%s", space, etcd_status_text(event->status)); break;
    }
}

static void on_event(void *ctx, const struct etcd_watch_event *event) {
    struct seen *seen = ctx;
    pthread_mutex_lock(&seen->mutex);
    bool closed = seen->closed;
    write_call(seen, event);
    pthread_cond_broadcast(&seen->changed);
    while (seen->held) {
        seen->holds = true;
        pthread_cond_broadcast(&seen->changed);
        pthread_cond_wait(&seen->changed, &seen->mutex);
    }
    seen->holds = false;
    void (*then)(struct seen *) = seen->then;
    pthread_mutex_unlock(&seen->mutex);
    if (then)
        then(seen);
    if (closed) {
        fprintf(stderr, "a callback of a watch that was cancelled: %s\n", seen->text);
        abort();
    }
}

/* ---- kept until the program ends ---- */

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct kept {
    struct kept *next;
    struct seen seen;
} * all;

static void free_all(void) {
    while (all) {
        struct kept *next = all->next;
        free(all);
        all = next;
    }
}

static struct seen *make(void) {
    struct kept *kept = calloc(1, sizeof *kept);
    if (!kept)
        abort();
    pthread_mutex_init(&kept->seen.mutex, NULL);
    pthread_cond_init(&kept->seen.changed, NULL);
    pthread_mutex_lock(&all_mutex);
    if (!all)
        atexit(free_all);
    kept->next = all;
    all = kept;
    pthread_mutex_unlock(&all_mutex);
    return &kept->seen;
}

struct seen *seen_watch(struct etcd *etcd, const struct etcd_watch_config *config, int64_t base) {
    struct seen *seen = make();
    struct etcd_watch_config own = *config;
    seen->base = base;
    own.on_event = on_event;
    own.ctx = seen;
    CHECK_STATUS(etcd_watch(etcd, &own, &seen->watch), ETCD_OK);
    return seen;
}

/* ---- waiting ---- */

struct wanted {
    struct seen *seen;
    const char *text;
};

static bool is_same(void *arg) {
    struct wanted *wanted = arg;
    pthread_mutex_lock(&wanted->seen->mutex);
    bool same = strcmp(wanted->seen->text, wanted->text) == 0;
    pthread_mutex_unlock(&wanted->seen->mutex);
    return same;
}

static bool is_inside(void *arg) {
    struct wanted *wanted = arg;
    pthread_mutex_lock(&wanted->seen->mutex);
    bool inside = strstr(wanted->seen->text, wanted->text);
    pthread_mutex_unlock(&wanted->seen->mutex);
    return inside;
}

void seen_is(struct seen *seen, const char *text) {
    struct wanted wanted = {seen, text};
    harness_wait(is_same, &wanted, PATIENCE_MS);
    harness_pause_ms(5);
    pthread_mutex_lock(&seen->mutex);
    const char *got = harness_format("%s", seen->text);
    pthread_mutex_unlock(&seen->mutex);
    CHECK_STR(got, text);
}

void seen_has(struct seen *seen, const char *text) {
    struct wanted wanted = {seen, text};
    if (!harness_wait(is_inside, &wanted, PATIENCE_MS))
        FAIL("\"%s\" is not in \"%s\"", text, seen->text);
}

void seen_created(struct seen *seen) {
    seen_has(seen, "created@");
}

size_t seen_events(struct seen *seen) {
    pthread_mutex_lock(&seen->mutex);
    size_t events = seen->events;
    pthread_mutex_unlock(&seen->mutex);
    return events;
}

void seen_cancel(struct seen *seen) {
    etcd_watch_cancel(seen->watch);
    pthread_mutex_lock(&seen->mutex);
    seen->closed = true;
    pthread_mutex_unlock(&seen->mutex);
}

void seen_then(struct seen *seen, void (*then)(struct seen *), void *arg) {
    pthread_mutex_lock(&seen->mutex);
    seen->arg = arg;
    seen->then = then;
    pthread_mutex_unlock(&seen->mutex);
}

void seen_hold(struct seen *seen) {
    pthread_mutex_lock(&seen->mutex);
    seen->held = true;
    pthread_mutex_unlock(&seen->mutex);
}

static bool holds(void *arg) {
    struct seen *seen = arg;
    pthread_mutex_lock(&seen->mutex);
    bool held = seen->holds;
    pthread_mutex_unlock(&seen->mutex);
    return held;
}

void seen_wait_held(struct seen *seen) {
    CHECK(harness_wait(holds, seen, PATIENCE_MS));
}

void seen_release(struct seen *seen) {
    pthread_mutex_lock(&seen->mutex);
    seen->held = false;
    pthread_cond_broadcast(&seen->changed);
    pthread_mutex_unlock(&seen->mutex);
}

/* ---- for tests of watches ---- */

struct etcd_watch_config seen_key(const char *key) {
    return (struct etcd_watch_config){.key = etcd_text(key)};
}

int64_t seen_revision(struct etcd *etcd) {
    struct etcd_reply *reply = NULL;
    const struct etcd_range range = {.key = etcd_text("-"), .count_only = true};
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    int64_t revision = reply->revision;
    etcd_reply_free(reply);
    return revision;
}

void seen_delete(struct etcd *etcd, const char *key) {
    const struct etcd_delete del = {.key = etcd_text(key)};
    CHECK_STATUS(etcd_delete(etcd, &del, NULL, NULL), ETCD_OK);
}

/* ---- which member serves ---- */

/* All that the server sends until it closes; NULL: no answer. HTTP/1.0, lest it comes in chunks. */
static const char *metrics(const struct etcd_server *server) {
    enum { MOST = 1 << 20 };
    struct web_conn conn;
    if (!web_open_at(&conn, server->host, server->port, 1000))
        return NULL;
    struct timeval patience = {.tv_sec = 1};
    setsockopt(conn.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    web_send_text(&conn, "GET /metrics HTTP/1.0\r\n\r\n");
    char *text = harness_alloc(MOST);
    size_t used = 0;
    for (ssize_t n; used < MOST - 1 && (n = read(conn.fd, text + used, MOST - 1 - used)) > 0;)
        used += (size_t)n;
    web_close(&conn);
    return used ? text : NULL;
}

int64_t seen_metric(const struct etcd_server *server, const char *start) {
    const char *text = metrics(server);
    const char *at = text ? strstr(text, harness_format("\n%s", start)) : NULL;
    const char *end = at ? strchr(at + 1, '\n') : NULL;
    while (end && end > at && end[-1] != ' ')
        end--;
    return end ? (int64_t)strtod(end, NULL) : -1;
}

struct service {
    const struct etcd_server *servers;
    int count;
    const char *method;
    int found;
};

static int64_t number_after(const char *text, const char *start) {
    const char *at = strstr(text, start);
    return at ? (int64_t)strtod(strchr(at, '}') + 1, NULL) : 0;
}

static int64_t open_streams(const struct etcd_server *server, const char *method) {
    static const char *const codes[] = {"OK", "Canceled", "Unavailable", "Unknown", "DeadlineExceeded"};
    const char *text = metrics(server);
    if (!text)
        return 0;
    int64_t open = number_after(text, harness_format("grpc_server_started_total{grpc_method=\"%s\"", method));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        open -=
            number_after(text, harness_format("grpc_server_handled_total{grpc_code=\"%s\",grpc_method=\"%s\"",
                                              codes[i], method));
    return open;
}

static bool one_serves(void *arg) {
    struct service *service = arg;
    for (int i = 0; i < service->count; i++) {
        const struct etcd_server *server = &service->servers[i];
        if (server->paused || server->net.cut || server->proc.pid == 0)
            continue;
        if (open_streams(server, service->method) > 0) {
            service->found = i;
            return true;
        }
    }
    return false;
}

int seen_serving(const struct etcd_server *servers, int count, const char *method) {
    struct service service = {.servers = servers, .count = count, .method = method};
    if (!harness_wait(one_serves, &service, PATIENCE_MS))
        FAIL("no member serves %s", method);
    return service.found;
}
