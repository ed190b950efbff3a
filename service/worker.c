#include "service/worker.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/redis/url.h"
#include "service/api/handlers.h"
#include "service/api/problem.h"
#include "service/failpoint.h"
#include "service/log.h"

enum { HOUSEKEEPING_MS = 250, CLIENT_IDLE_MS = 60000, DOOR_MS = 1000 };

/* See busy_poll(). */
enum { BUSY_POLL_CROWD = 32, BUSY_POLL_NS = 100000, PAUSES = 10 };

/* What was put back is told once, when it does not grow any more. In a cluster it grows while the store is
 * up: one master was replaced. */
static void log_put_back(struct worker *worker) {
    uint64_t back = worker->stock_metrics.put_back;
    if (back != worker->put_back) {
        worker->put_back = back;
    } else if (back > worker->put_back_logged) {
        log_info(
            "worker %d put back %llu orders, restocks or transfers that a failover of the store had lost",
            worker->index, (unsigned long long)(back - worker->put_back_logged));
        worker->put_back_logged = back;
    }
    service_log_unkept(worker->stock_metrics.unkept, &worker->unkept_logged);
}

static void watch_store(struct worker *worker) {
    bool up = inventory_is_up(worker->inventory);
    enum worker_store seen = up ? WORKER_STORE_UP : WORKER_STORE_DOWN;
    enum worker_store before = atomic_load_explicit(&worker->store, memory_order_relaxed);
    if (seen == before)
        return;
    const char *error = inventory_last_error(worker->inventory);
    /* The first attempt to connect is still in flight, or succeeded. */
    if (!up && before == WORKER_STORE_UNTRIED && (!*error || inventory_is_mending(worker->inventory)))
        return;
    atomic_store(&worker->store, seen);
    if (worker->index != 0)
        return;
    struct redis_url url;
    char address[512] = "", ignored[256];
    if (redis_url_parse(&url, worker->service->config.redis, ignored, sizeof ignored))
        redis_url_print(&url, address, sizeof address);
    if (up)
        log_info("the store %s is there", address);
    else
        log_error("the store %s is %s: %s", address, before == WORKER_STORE_UP ? "gone" : "not there", error);
}

/* Where several instances sell, one that is started gets purchases at once. It takes them when it knows
 * whether the store is there, or after DOOR_MS, so that /livez is answered meanwhile. Until then they wait in
 * the backlog. */
static bool is_open(const struct worker *worker) {
    return atomic_load_explicit(&worker->store, memory_order_relaxed) != WORKER_STORE_UNTRIED ||
           (int64_t)uv_now(&worker->loop) >= worker->opens_ms || worker->drain_until_ms;
}

static void turn(struct worker *worker) {
    if (worker->inventory)
        watch_store(worker);
    if (is_open(worker))
        http_server_turn(worker->http);
    if (worker->inventory)
        inventory_flush(worker->inventory);
}

/* Gives the core to its other hardware thread for a moment. */
static void pause_core(void) {
#if defined __x86_64__
    for (int i = 0; i < PAUSES; i++)
        __builtin_ia32_pause();
#endif
}

/* A worker that sleeps until the store replies halts its processor. To wake it takes long, above all on a
 * virtual machine, where this cost a tenth of a crowd's orders. So the worker busy-polls for a moment before
 * it sleeps, and yields to any other thread. */
static void busy_poll(struct worker *worker) {
    if (worker->stock_metrics.waiting < BUSY_POLL_CROWD || uv_backend_timeout(&worker->loop) == 0)
        return;
    struct pollfd any = {.fd = uv_backend_fd(&worker->loop), .events = POLLIN};
    uint64_t until_ns = uv_hrtime() + BUSY_POLL_NS;
    while (poll(&any, 1, 0) == 0 && uv_hrtime() < until_ns) {
        sched_yield();
        pause_core();
    }
}

static void on_prepare(uv_prepare_t *handle) {
    struct worker *worker = handle->data;
    turn(worker);
    busy_poll(worker);
}

static void on_check(uv_check_t *handle) {
    turn(handle->data);
}

static void on_wake(uv_async_t *handle) {
    struct worker *worker = handle->data;
    mailbox_run(&worker->mailbox);
    if (atomic_load(&worker->service->draining) && worker->drain_until_ms == 0) {
        worker->drain_until_ms = (int64_t)uv_now(&worker->loop) + worker->service->config.drain_ms;
        http_server_drain(worker->http);
        uv_timer_start(&worker->housekeeping, worker->housekeeping.timer_cb, 0, 10);
    }
}

static void on_answer(void *ctx, int status) {
    struct worker *worker = ctx;
    metric_add(&worker->metrics.responses[status / 100], 1);
}

static void end(struct worker *worker) {
    uv_close((uv_handle_t *)&worker->prepare, NULL);
    uv_close((uv_handle_t *)&worker->check, NULL);
    uv_close((uv_handle_t *)&worker->housekeeping, NULL);
    mailbox_close(&worker->mailbox);
    http_server_close(worker->http);
}

/* First the clients end. When all have, replicas get what was acknowledged. Then, or when the time is up, the
 * inventory answers what is still in flight (UNKNOWN or UNAVAILABLE). */
static void drain(struct worker *worker) {
    bool done = http_server_pending(worker->http) == 0 && http_server_connections(worker->http) == 0;
    if (worker->inventory) {
        bool time_is_up = (int64_t)uv_now(&worker->loop) >= worker->drain_until_ms;
        int open = 0;
        bool drained = (done || time_is_up) && inventory_drain(worker->inventory, &open);
        if (!time_is_up && !drained)
            return;
        if (open > 0)
            log_error(
                "worker %d ends, and not all replicas have the last %d orders, restocks or transfers that it "
                "acknowledged",
                worker->index, open);
        inventory_close(worker->inventory);
        worker->inventory = NULL;
    }
    if (http_server_pending(worker->http) == 0)
        end(worker);
}

static void on_housekeeping(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    atomic_store_explicit(&worker->connections, http_server_connections(worker->http), memory_order_relaxed);
    if (worker->inventory)
        log_put_back(worker);
    if (worker->drain_until_ms)
        drain(worker);
}

static void *run(void *arg) {
    struct worker *worker = arg;
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    atomic_fetch_sub(&worker->service->running, 1);
    return NULL;
}

bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, char *error,
                 size_t error_size) {
    const struct config *config = &service->config;
    struct inventory_config stock = service_inventory_config(service, &worker->stock_metrics);
    worker->service = service;
    worker->index = index;
    uv_loop_init(&worker->loop);
    worker->opens_ms = (int64_t)uv_now(&worker->loop) + DOOR_MS;
    worker->inventory = inventory_open(&worker->loop, &stock, error, error_size);
    if (!worker->inventory) {
        close(listen_fd);
        return false;
    }
    struct http_config http = {
        .listen_fd = listen_fd,
        .connections_max = (config->connections_max + config->workers - 1) / config->workers,
        .idle_ms = CLIENT_IDLE_MS,
        .on_request = routes_handle,
        .on_answer = on_answer,
        .write_refusal = problem_write_refusal,
        .ctx = worker,
    };
    worker->http = http_server_open(&worker->loop, &http);
    if (!worker->http) {
        snprintf(error, error_size, "cannot start the HTTP server");
        return false;
    }
    worker->prepare.data = worker->check.data = worker->housekeeping.data = worker;
    uv_prepare_init(&worker->loop, &worker->prepare);
    uv_check_init(&worker->loop, &worker->check);
    mailbox_open(&worker->mailbox, &worker->loop, on_wake, worker);
    uv_timer_init(&worker->loop, &worker->housekeeping);
    uv_prepare_start(&worker->prepare, on_prepare);
    uv_check_start(&worker->check, on_check);
    uv_timer_start(&worker->housekeeping, on_housekeeping, 0, HOUSEKEEPING_MS);
    return true;
}

bool worker_start(struct worker *worker) {
    atomic_fetch_add(&worker->service->running, 1);
    return pthread_create(&worker->thread, NULL, run, worker) == 0;
}

void worker_drain(struct worker *worker) {
    mailbox_wake(&worker->mailbox);
}

void worker_join(struct worker *worker) {
    pthread_join(worker->thread, NULL);
    uv_loop_close(&worker->loop);
    mailbox_free(&worker->mailbox);
}
