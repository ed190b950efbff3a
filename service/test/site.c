#include "service/test/site.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/http/http_server.h"
#include "test/harness.h"

enum { TICK_MS = 2, WAIT_MS = 20000 };

struct site {
    uv_loop_t loop;
    struct http_server *http;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t tick;
    pthread_t thread;
    int port;
    bool ended;
    atomic_bool draining, stopping;
    struct site_metrics metrics;
};

struct later {
    uv_timer_t timer;
    struct site *site;
    struct http_request *request;
};

static void answer(struct site *site, struct http_request *request) {
    char body[HTTP_BODY_MAX + 64];
    size_t size = request->length, id_size = 0;
    const char *id = memcpy(body, request->context, 16);
    id_size = strlen(id);
    memcpy(body + id_size, request->body, size);
    atomic_fetch_add(&site->metrics.answered, 1);
    http_answer(request, 200, "text/plain", body, id_size + size, NULL);
}

static void on_later_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void on_later(uv_timer_t *timer) {
    struct later *later = timer->data;
    answer(later->site, later->request);
    uv_close((uv_handle_t *)timer, on_later_closed);
}

static void on_request(void *ctx, struct http_request *request) {
    struct site *site = ctx;
    size_t length;
    const char *id;
    http_request_header(request, "X-Id", &id, &length);
    atomic_fetch_add(&site->metrics.requests, 1);
    snprintf(request->context, 16, "%.*s", (int)length, id ? id : "");
    if (request->too_large) {
        http_answer(request, 413, "text/plain", "", 0, NULL);
        return;
    }
    int delay_ms = (int)strtol(request->path + 1, NULL, 10);
    if (delay_ms < 0) { /* the whole server stands still */
        harness_pause_ms(-delay_ms);
        delay_ms = 0;
    }
    if (delay_ms == 0) {
        answer(site, request);
        return;
    }
    struct later *later = malloc(sizeof *later);
    if (!later)
        abort();
    *later = (struct later){.site = site, .request = request};
    later->timer.data = later;
    uv_timer_init(&site->loop, &later->timer);
    uv_update_time(&site->loop);
    uv_timer_start(&later->timer, on_later, (uint64_t)delay_ms, 0);
}

static void on_answer(void *ctx, int status) {
    (void)ctx;
    (void)status;
}

static void turn(struct site *site) {
    http_server_turn(site->http);
    atomic_store(&site->metrics.pending, http_server_pending(site->http));
    atomic_store(&site->metrics.connections, http_server_connections(site->http));
}

static void on_prepare(uv_prepare_t *handle) {
    turn(handle->data);
}

static void on_check(uv_check_t *handle) {
    turn(handle->data);
}

static void on_tick(uv_timer_t *timer) {
    struct site *site = timer->data;
    if (atomic_load(&site->draining))
        http_server_drain(site->http);
    if (!atomic_load(&site->stopping) || http_server_pending(site->http) > 0)
        return;
    uv_close((uv_handle_t *)&site->prepare, NULL);
    uv_close((uv_handle_t *)&site->check, NULL);
    uv_close((uv_handle_t *)&site->tick, NULL);
    http_server_close(site->http);
}

static void *run(void *arg) {
    struct site *site = arg;
    uv_run(&site->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&site->loop) != 0)
        abort();
    return NULL;
}

static void stop(void *arg) {
    struct site *site = arg;
    atomic_store(&site->stopping, true);
    pthread_join(site->thread, NULL);
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(fd, 1024), 0);
    return fd;
}

struct site *site_start(int connections_max, int idle_ms) {
    struct site *site = harness_alloc(sizeof *site);
    site->port = harness_free_port();
    uv_loop_init(&site->loop);
    struct http_config config = {.listen_fd = listen_on(site->port),
                                 .connections_max = connections_max,
                                 .idle_ms = idle_ms,
                                 .on_request = on_request,
                                 .on_answer = on_answer,
                                 .ctx = site};
    site->http = http_server_open(&site->loop, &config);
    CHECK(site->http != NULL);
    site->prepare.data = site->check.data = site->tick.data = site;
    uv_prepare_init(&site->loop, &site->prepare);
    uv_check_init(&site->loop, &site->check);
    uv_timer_init(&site->loop, &site->tick);
    uv_prepare_start(&site->prepare, on_prepare);
    uv_check_start(&site->check, on_check);
    uv_timer_start(&site->tick, on_tick, TICK_MS, TICK_MS);
    CHECK_INT(pthread_create(&site->thread, NULL, run, site), 0);
    harness_defer(stop, site);
    return site;
}

int site_port(const struct site *site) {
    return site->port;
}

const struct site_metrics *site_metrics(const struct site *site) {
    return &site->metrics;
}

void site_drain(struct site *site) {
    atomic_store(&site->draining, true);
}

struct wanted {
    struct site *site;
    int connections, pending;
};

static bool is_as_wanted(void *arg) {
    const struct wanted *wanted = arg;
    return atomic_load(&wanted->site->metrics.connections) == wanted->connections &&
           atomic_load(&wanted->site->metrics.pending) == wanted->pending;
}

void site_wait(struct site *site, int connections, int pending) {
    struct wanted wanted = {site, connections, pending};
    if (!harness_wait(is_as_wanted, &wanted, WAIT_MS))
        FAIL("%d connections and %d requests, not %d and %d", atomic_load(&site->metrics.connections),
             atomic_load(&site->metrics.pending), connections, pending);
}
