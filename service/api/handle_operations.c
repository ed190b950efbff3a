/* For operators: /livez /readyz /metrics /openapi.json. */
#include <stdio.h>
#include <stdlib.h>

#include "openapi.json.h"
#include "service/api/answers.h"
#include "service/api/codec.h"
#include "service/api/handlers.h"
#include "service/worker.h"

void operations_live(struct worker *worker, struct http_request *request, const char *name) {
    (void)worker;
    (void)name;
    static const char body[] = "{\"status\":\"ok\"}";
    http_answer(request, 200, "application/json", body, sizeof body - 1, NULL);
}

/* Each worker has a connection of its own, and a client may get any worker. */
static bool all_connected(const struct service *service) {
    for (int i = 0; i < service->worker_count; i++) {
        if (atomic_load(&service->workers[i].store) != WORKER_STORE_UP)
            return false;
    }
    return true;
}

enum { LOCKED_SIZE = 160 };

/* Whether baskets and transfers can be made. */
static void print_locked(const struct service *service, char out[LOCKED_SIZE]) {
    struct lock_switch_state state;
    lock_switch_read_state(service->lock_switch, &state);
    if (state.reach == LOCK_SWITCH_UNREACHABLE)
        snprintf(out, LOCKED_SIZE, "unavailable: %.120s", state.why);
    else if (state.phase == LOCK_SWITCH_NONE)
        snprintf(out, LOCKED_SIZE, "unavailable: no lock is in force");
    else if (state.reach == LOCK_SWITCH_UNTRIED)
        snprintf(out, LOCKED_SIZE, "unknown: the lock was not tried yet");
    else
        snprintf(out, LOCKED_SIZE, "ok");
}

static void answer_health(struct http_request *request, const struct inventory_health *health) {
    struct worker *worker = request->ctx;
    const struct service *service = worker->service;
    bool draining = atomic_load(&service->draining);
    struct inventory_health all = *health;
    if (all.ready && !all_connected(service)) {
        all.ready = false;
        snprintf(all.reason, sizeof all.reason, "a worker has no connection to the store yet");
    }
    if (all.ready && !store_clock_is_known(&service->clock)) {
        all.ready = false;
        snprintf(all.reason, sizeof all.reason, "the store's clock is not known yet");
    }
    bool ready = all.ready && !draining;
    /* Purchases need no lock, so the service is ready without one. */
    char body[CODEC_HEALTH_SIZE], locked[LOCKED_SIZE];
    print_locked(service, locked);
    size_t length = codec_write_health(
        body, &all, draining, service->config.basket == CONFIG_BASKET_SCRIPT ? "ok" : locked, locked);
    static const char *const later[] = {"Retry-After", "1", NULL};
    http_answer(request, ready ? 200 : 503, "application/json", body, length, ready ? NULL : later);
}

struct ready {
    struct store_health_read read;
    struct http_request *request;
};

_Static_assert(sizeof(struct ready) <= HTTP_CONTEXT_SIZE, "it must fit into its request");

static void on_health(struct store_health_read *read, const struct inventory_health *health) {
    answer_health(((struct ready *)read)->request, health);
}

static void on_down(void *ctx, const struct inventory_health *health) {
    answer_health(ctx, health);
}

void operations_ready(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    struct ready *ready = request->context;
    *ready = (struct ready){.read = {.done = on_health}, .request = request};
    if (worker->inventory && !inventory_is_up(worker->inventory))
        inventory_health_read(worker->inventory, on_down, request); /* answers at once */
    else
        store_health_read(worker, &ready->read);
}

void operations_metrics(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    struct service *service = worker->service;
    int count = service->worker_count;
    struct metrics_source *sources = calloc((size_t)count + 1, sizeof *sources);
    for (int i = 0; sources && i < count; i++) {
        const struct worker *each = &service->workers[i];
        sources[i].metrics = &each->metrics;
        sources[i].inventory = &each->stock_metrics;
        sources[i].connections = atomic_load_explicit(&each->connections, memory_order_relaxed);
    }
    if (sources)
        sources[count] = (struct metrics_source){.metrics = &service->background.metrics,
                                                 .inventory = &service->background.stock_metrics};
    size_t length = 0;
    struct lock_switch_metrics lock_switch;
    lock_switch_read_metrics(service->lock_switch, &lock_switch);
    struct pool_metrics pool;
    pool_read_metrics(service->pool, &pool);
    char *text = sources ? metrics_print(sources, count + 1, &pool, &lock_switch, &length) : NULL;
    http_answer(request, text ? 200 : 503, "text/plain; version=0.0.4; charset=utf-8", text ? text : "",
                length, NULL);
    free(text);
    free(sources);
}

void operations_openapi(struct worker *worker, struct http_request *request, const char *name) {
    (void)worker;
    (void)name;
    http_answer(request, 200, "application/json", openapi_json, sizeof openapi_json - 1, NULL);
}
