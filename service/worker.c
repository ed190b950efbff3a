/* A worker: its turns of the loop, what it logs of the store, and its drain. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/container.h"
#include "service/api/http_api.h"
#include "service/log.h"
#include "service/service.h"

enum { DOOR_MS = 1000 };

/* See worker_busy_poll(). */
enum { BUSY_POLL_CROWD = 32, BUSY_POLL_NS = 100000, PAUSES = 10 };

/* Logs what was put back once, when it does not grow any more. In a cluster it grows while the store is up:
 * one master was replaced. */
static void worker_log_put_back(struct worker *worker) {
    uint64_t back = worker->thread.stock_metrics.put_back;
    if (back != worker->put_back) {
        worker->put_back = back;
    } else if (back > worker->put_back_logged) {
        log_info(
            "worker %d put back %llu orders, restocks or transfers that a failover of the store had lost",
            worker->index, (unsigned long long)(back - worker->put_back_logged));
        worker->put_back_logged = back;
    }
}

static void worker_watch_store(struct worker *worker) {
    bool up = inventory_is_up(worker->thread.inventory);
    enum worker_store seen = up ? WORKER_STORE_UP : WORKER_STORE_DOWN;
    enum worker_store before = atomic_load_explicit(&worker->store, memory_order_relaxed);
    if (seen == before)
        return;
    const char *error = inventory_last_error(worker->thread.inventory);
    /* The first attempt to connect is still in flight, or succeeded. */
    if (!up && before == WORKER_STORE_UNTRIED && (!*error || inventory_is_mending(worker->thread.inventory)))
        return;
    atomic_store(&worker->store, seen);
    if (worker->index != 0)
        return;
    const char *address = worker->thread.service->config.store;
    if (up)
        log_info("the store %s is there", address);
    else
        log_error("the store %s is %s: %s", address, before == WORKER_STORE_UP ? "gone" : "not there", error);
}

/* Whether the worker takes requests. Where several instances sell, a new one gets purchases at once, and
 * cannot serve them yet. So they wait in the backlog until the worker knows whether the store is there, or
 * until DOOR_MS is over, so that /livez is answered at last. */
static bool worker_is_open(const struct worker *worker) {
    return atomic_load_explicit(&worker->store, memory_order_relaxed) != WORKER_STORE_UNTRIED ||
           (int64_t)uv_now(&worker->thread.loop) >= worker->opens_ms || worker->thread.drain_until_ms;
}

/* A worker that sleeps until the store replies halts its processor. Waking that takes long, above all on a
 * virtual machine, where it cost a tenth of a crowd's orders. So the worker busy-polls for a moment before it
 * sleeps, and yields to any other thread. */
static void worker_busy_poll(struct worker *worker) {
    if (worker->thread.stock_metrics.waiting < BUSY_POLL_CROWD ||
        uv_backend_timeout(&worker->thread.loop) == 0)
        return;
    struct pollfd any = {.fd = uv_backend_fd(&worker->thread.loop), .events = POLLIN};
    uint64_t until_ns = uv_hrtime() + BUSY_POLL_NS;
    while (poll(&any, 1, 0) == 0 && uv_hrtime() < until_ns) {
        sched_yield();
#if defined __x86_64__
        for (int i = 0; i < PAUSES; i++)
            __builtin_ia32_pause(); /* gives the core to its other hardware thread */
#endif
    }
}

static void worker_on_check(uv_check_t *handle) {
    struct worker *worker = handle->data;
    if (worker->thread.inventory)
        worker_watch_store(worker);
    for (int i = 0; i < WORKER_DOORS && worker->doors[i] && worker_is_open(worker); i++)
        http_server_turn(worker->doors[i]);
    if (worker->thread.inventory)
        inventory_flush(worker->thread.inventory);
}

static void worker_on_prepare(uv_prepare_t *handle) {
    struct worker *worker = handle->data;
    worker_on_check(&worker->check);
    worker_busy_poll(worker);
}

static void worker_on_answer(void *ctx, const struct http_request *request, int status) {
    struct worker *worker = ctx;
    char trace_id[HTTP_TRACE_ID_LENGTH + 1];
    metric_add(&worker->thread.metrics.responses[status / 100], 1);
    if (!request || !request->recorded)
        return;
    snprintf(trace_id, sizeof trace_id, "%s", request->ids.traceparent + HTTP_TRACE_ID_AT);
    log_call(&(struct log_call){.who = request->who,
                                .method = request->method,
                                .path = request->path,
                                .problem = request->problem,
                                .request_id = request->ids.request_id,
                                .trace_id = trace_id,
                                .status = status,
                                .took_ns = (int64_t)uv_hrtime() - request->arrived_ns});
}

/* ---- the drain ---- */

static void worker_on_drain(struct loop_thread *thread) {
    struct worker *worker = CONTAINER_OF(thread, struct worker, thread);
    for (int i = 0; i < WORKER_DOORS && worker->doors[i]; i++)
        http_server_drain(worker->doors[i]);
}

static int worker_connections(const struct worker *worker) {
    int connections = 0;
    for (int i = 0; i < WORKER_DOORS && worker->doors[i]; i++)
        connections += http_server_connections(worker->doors[i]);
    return connections;
}

static int worker_pending(const struct worker *worker) {
    int pending = 0;
    for (int i = 0; i < WORKER_DOORS && worker->doors[i]; i++)
        pending += http_server_pending(worker->doors[i]);
    return pending;
}

/* First the clients end. When all have, replicas get what was acknowledged. Then, or when the time is up, the
 * inventory is closed. */
static void worker_drain(struct worker *worker) {
    struct loop_thread *thread = &worker->thread;
    bool idle = worker_pending(worker) == 0 && worker_connections(worker) == 0;
    int open = 0;
    if (thread->inventory) {
        if (!loop_thread_is_drained(thread, idle, &open))
            return;
        if (open > 0)
            log_error(
                "worker %d ends, and not all replicas have the last %d orders, restocks or transfers that it "
                "acknowledged",
                worker->index, open);
        inventory_close(thread->inventory);
        thread->inventory = NULL;
    }
    if (worker_pending(worker) > 0)
        return;
    uv_close((uv_handle_t *)&worker->prepare, NULL);
    uv_close((uv_handle_t *)&worker->check, NULL);
    loop_thread_end(thread);
    for (int i = 0; i < WORKER_DOORS; i++)
        http_server_close(worker->doors[i]);
}

static void worker_on_housekeeping(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    atomic_store_explicit(&worker->connections, worker_connections(worker), memory_order_relaxed);
    if (worker->thread.inventory) {
        worker_log_put_back(worker);
        loop_thread_log_unkept(&worker->thread);
    }
    if (worker->thread.drain_until_ms)
        worker_drain(worker);
}

static struct http_server *worker_open_door(struct worker *worker, int listen_fd, int connections_max,
                                            void (*on_request)(void *ctx, struct http_request *request)) {
    struct http_config http = {
        .listen_fd = listen_fd,
        .connections_max = connections_max,
        .idle_ms = HTTP_IDLE_MS,
        .on_request = on_request,
        .on_answer = worker_on_answer,
        .write_refusal = problem_write_refusal,
        .ctx = worker,
    };
    return http_server_open(&worker->thread.loop, &http);
}

bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, int operator_fd,
                 char *error, size_t error_size) {
    bool two = operator_fd >= 0;
    worker->index = index;
    if (!loop_thread_open(&worker->thread, service, worker_on_housekeeping, worker_on_drain, worker, error,
                          error_size)) {
        close(listen_fd);
        if (two)
            close(operator_fd);
        return false;
    }
    worker->auth = auth_view_open(service->auth);
    worker->opens_ms = (int64_t)uv_now(&worker->thread.loop) + DOOR_MS;
    int connections_max =
        (service->config.connections_max + service->config.workers - 1) / service->config.workers;
    worker->doors[0] =
        worker_open_door(worker, listen_fd, connections_max, two ? routes_handle_buyers : routes_handle);
    worker->doors[1] =
        two ? worker_open_door(worker, operator_fd, WORKER_OPERATORS_MAX, routes_handle) : NULL;
    if (!worker->auth || !worker->doors[0] || (two && !worker->doors[1])) {
        snprintf(error, error_size, "cannot start the HTTP server");
        return false;
    }
    worker->prepare.data = worker->check.data = worker;
    uv_prepare_init(&worker->thread.loop, &worker->prepare);
    uv_check_init(&worker->thread.loop, &worker->check);
    uv_prepare_start(&worker->prepare, worker_on_prepare);
    uv_check_start(&worker->check, worker_on_check);
    return true;
}
