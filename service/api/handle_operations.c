/* GET /livez, /metrics and /openapi.json. */
#include <stdio.h>
#include <stdlib.h>

#include "openapi.json.h"
#include "service/api/api.h"
#include "service/api/codec.h"

void operations_live(struct worker *worker, struct http_request *request, const char *name) {
    (void)worker;
    (void)name;
    static const char body[] = "{\"status\":\"ok\"}";
    http_answer(request, 200, "application/json", body, sizeof body - 1, NULL);
}

void operations_metrics(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    struct service *service = worker->thread.service;
    int count = service->worker_count;
    struct metrics_source *sources = calloc((size_t)count + 1, sizeof *sources);
    for (int i = 0; sources && i < count; i++) {
        const struct worker *each = &service->workers[i];
        sources[i].metrics = &each->thread.metrics;
        sources[i].inventory = &each->thread.stock_metrics;
        sources[i].connections = atomic_load_explicit(&each->connections, memory_order_relaxed);
    }
    if (sources)
        sources[count] = (struct metrics_source){.metrics = &service->background.thread.metrics,
                                                 .inventory = &service->background.thread.stock_metrics};
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
