#include "lock/libetcd/test/recorder.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void __attribute__((format(printf, 2, 3)))
write_down(struct recorder *recorder, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = sizeof recorder->text - recorder->used;
    int length = vsnprintf(recorder->text + recorder->used, room, format, args);
    va_end(args);
    if ((size_t)length < room)
        recorder->used += (size_t)length;
}

static const char *shorten(char out[24], struct etcd_bytes bytes) {
    if (bytes.size < 16)
        snprintf(out, 24, "%.*s", (int)bytes.size, (const char *)bytes.data);
    else
        snprintf(out, 24, "#%zu", bytes.size);
    return out;
}

static void write_event(struct recorder *recorder, const struct etcd_event *event) {
    char key[24], value[24];
    const char *space = recorder->used ? " " : "";
    recorder->events++;
    if (event->deleted)
        write_down(recorder, "%s-%s@%d", space, shorten(key, event->kv.key),
                   (int)(event->kv.mod_revision - recorder->base));
    else
        write_down(recorder, "%s%s=%s@%d", space, shorten(key, event->kv.key),
                   shorten(value, event->kv.value), (int)(event->kv.mod_revision - recorder->base));
    if (event->prev)
        write_down(recorder, "(%s)", shorten(value, event->prev->value));
}

static void write_call(struct recorder *recorder, const struct etcd_watch_event *event) {
    const char *space = recorder->used ? " " : "";
    int revision = (int)(event->revision - recorder->base);
    recorder->calls++;
    switch (event->kind) {
    case ETCD_WATCH_CREATED: write_down(recorder, "%screated@%d", space, revision); break;
    case ETCD_WATCH_EVENTS:
        for (size_t i = 0; i < event->count; i++)
            write_event(recorder, &event->events[i]);
        break;
    case ETCD_WATCH_PROGRESS:
        recorder->progress++;
        recorder->progress_revision = event->revision;
        break;
    case ETCD_WATCH_COMPACTED: write_down(recorder, "%scompacted@%d", space, revision); break;
    case ETCD_WATCH_ENDED: write_down(recorder, "%sended:%s", space, etcd_status_text(event->status)); break;
    }
}

static void on_event(void *ctx, const struct etcd_watch_event *event) {
    struct recorder *recorder = ctx;
    pthread_mutex_lock(&recorder->mutex);
    bool closed = recorder->closed;
    write_call(recorder, event);
    pthread_cond_broadcast(&recorder->changed);
    while (recorder->held) {
        recorder->holds = true;
        pthread_cond_broadcast(&recorder->changed);
        pthread_cond_wait(&recorder->changed, &recorder->mutex);
    }
    recorder->holds = false;
    void (*then)(struct recorder *) = recorder->then;
    pthread_mutex_unlock(&recorder->mutex);
    if (then)
        then(recorder);
    if (closed) {
        fprintf(stderr, "a callback of a watch that was cancelled: %s\n", recorder->text);
        abort();
    }
}

struct recorder *recorder_watch(struct etcd *etcd, const struct etcd_watch_config *config, int64_t base) {
    enum { MOST = 3000 };
    static struct recorder recorders[MOST];
    static atomic_int count;
    int number = atomic_fetch_add(&count, 1);
    CHECK(number < MOST);
    struct recorder *recorder = &recorders[number];
    struct etcd_watch_config own = *config;
    pthread_mutex_init(&recorder->mutex, NULL);
    pthread_cond_init(&recorder->changed, NULL);
    recorder->base = base;
    own.on_event = on_event;
    own.ctx = recorder;
    CHECK_STATUS(etcd_watch(etcd, &own, &recorder->watch), ETCD_OK);
    return recorder;
}

struct recorder *recorder_watch_key(struct etcd *etcd, const char *key, int64_t base) {
    const struct etcd_watch_config config = recorder_key(key);
    return recorder_watch(etcd, &config, base);
}

struct recorder_start recorder_begin(const struct etcd_server *server) {
    struct recorder_start start = {.etcd = tools_open(server, 1)};
    start.base = recorder_revision(start.etcd);
    return start;
}

/* ---- waiting ---- */

struct wanted {
    struct recorder *recorder;
    const char *text;
    bool whole;
};

static bool is_there(void *arg) {
    const struct wanted *wanted = arg;
    pthread_mutex_lock(&wanted->recorder->mutex);
    bool is = wanted->whole ? strcmp(wanted->recorder->text, wanted->text) == 0
                            : strstr(wanted->recorder->text, wanted->text) != NULL;
    pthread_mutex_unlock(&wanted->recorder->mutex);
    return is;
}

void recorder_is(struct recorder *recorder, const char *text) {
    harness_wait(is_there, &(struct wanted){recorder, text, true}, PATIENCE_MS);
    harness_pause_ms(5);
    pthread_mutex_lock(&recorder->mutex);
    const char *got = harness_format("%s", recorder->text);
    pthread_mutex_unlock(&recorder->mutex);
    CHECK_STR(got, text);
}

void recorder_has(struct recorder *recorder, const char *text) {
    if (!harness_wait(is_there, &(struct wanted){recorder, text, false}, PATIENCE_MS))
        FAIL("\"%s\" is not in \"%s\"", text, recorder->text);
}

void recorder_created(struct recorder *recorder) {
    recorder_has(recorder, "created@");
}

size_t recorder_events(struct recorder *recorder) {
    pthread_mutex_lock(&recorder->mutex);
    size_t events = recorder->events;
    pthread_mutex_unlock(&recorder->mutex);
    return events;
}

void recorder_cancel(struct recorder *recorder) {
    etcd_watch_cancel(recorder->watch);
    pthread_mutex_lock(&recorder->mutex);
    recorder->closed = true;
    pthread_mutex_unlock(&recorder->mutex);
}

void recorder_then(struct recorder *recorder, void (*then)(struct recorder *), void *arg) {
    pthread_mutex_lock(&recorder->mutex);
    recorder->arg = arg;
    recorder->then = then;
    pthread_mutex_unlock(&recorder->mutex);
}

void recorder_hold(struct recorder *recorder) {
    pthread_mutex_lock(&recorder->mutex);
    recorder->held = true;
    pthread_mutex_unlock(&recorder->mutex);
}

static bool holds(void *arg) {
    struct recorder *recorder = arg;
    pthread_mutex_lock(&recorder->mutex);
    bool held = recorder->holds;
    pthread_mutex_unlock(&recorder->mutex);
    return held;
}

void recorder_wait_held(struct recorder *recorder) {
    CHECK(harness_wait(holds, recorder, PATIENCE_MS));
}

void recorder_release(struct recorder *recorder) {
    pthread_mutex_lock(&recorder->mutex);
    recorder->held = false;
    pthread_cond_broadcast(&recorder->changed);
    pthread_mutex_unlock(&recorder->mutex);
}

/* ---- for tests of watches ---- */

struct etcd_watch_config recorder_key(const char *key) {
    return (struct etcd_watch_config){.key = etcd_text(key)};
}

int64_t recorder_revision(struct etcd *etcd) {
    struct etcd_reply *reply = NULL;
    const struct etcd_range range = {.key = etcd_text("-"), .count_only = true};
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    int64_t revision = reply->revision;
    etcd_reply_free(reply);
    return revision;
}

void recorder_delete(struct etcd *etcd, const char *key) {
    const struct etcd_delete del = {.key = etcd_text(key)};
    CHECK_STATUS(etcd_delete(etcd, &del, NULL, NULL), ETCD_OK);
}

/* ---- what a server counts ---- */

/* The whole response; NULL: none. HTTP/1.0 prevents chunks. */
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

int64_t recorder_metric(const struct etcd_server *server, const char *start) {
    const char *text = metrics(server);
    const char *at = text ? strstr(text, harness_format("\n%s", start)) : NULL;
    const char *end = at ? strchr(at + 1, '\n') : NULL;
    while (end && end > at && end[-1] != ' ')
        end--;
    return end ? (int64_t)strtod(end, NULL) : -1;
}
