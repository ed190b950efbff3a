#include "service/worker.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/deals.h"
#include "service/log.h"
#include "service/routes.h"
#include "service/steps.h"

enum { SECOND_MS = 250, CLIENT_IDLE_MS = 60000, RESOLVE_MS = 3000, QUEUE_MAX = 50000, LEAVE_MS = 1000 };

/* See linger(). */
enum { LINGER_CROWD = 32, LINGER_NS = 100000, PAUSES = 10 };

static void watch_store(struct worker *worker) {
    bool up = inventory_is_up(worker->inventory);
    enum worker_store seen = up ? WORKER_STORE_UP : WORKER_STORE_DOWN;
    enum worker_store before = atomic_load_explicit(&worker->store, memory_order_relaxed);
    if (seen == before)
        return;
    const char *error = inventory_last_error(worker->inventory);
    if (!up && before == WORKER_STORE_UNTRIED && !*error) /* the first attempt has not ended */
        return;
    atomic_store(&worker->store, seen);
    if (worker->index != 0)
        return;
    if (up)
        log_info("the store is there");
    else
        log_error("the store is %s: %s", before == WORKER_STORE_UP ? "gone" : "not there", error);
}

static void turn(struct worker *worker) {
    http_server_turn(worker->http);
    if (!worker->inventory)
        return;
    inventory_flush(worker->inventory);
    watch_store(worker);
}

/* A moment in which the core is its other hardware thread's. */
static void pause_core(void) {
#if defined __x86_64__
    for (int i = 0; i < PAUSES; i++)
        __builtin_ia32_pause();
#endif
}

/* To sleep until the store replies halts the processor, and to wake it takes long, above all on a virtual
 * machine, where it cost a tenth of the orders of a crowd. So the worker looks out for a moment before it
 * sleeps, and whoever else wants the processor has it. */
static void linger(struct worker *worker) {
    if (worker->stock_figures.waiting < LINGER_CROWD || uv_backend_timeout(&worker->loop) == 0)
        return;
    struct pollfd any = {.fd = uv_backend_fd(&worker->loop), .events = POLLIN};
    uint64_t until_ns = uv_hrtime() + LINGER_NS;
    while (poll(&any, 1, 0) == 0 && uv_hrtime() < until_ns) {
        sched_yield();
        pause_core();
    }
}

static void on_prepare(uv_prepare_t *handle) {
    struct worker *worker = handle->data;
    turn(worker);
    linger(worker);
}

static void on_check(uv_check_t *handle) {
    turn(handle->data);
}

static void on_wake(uv_async_t *handle) {
    struct worker *worker = handle->data;
    pthread_mutex_lock(&worker->posts_mutex);
    struct worker_post *posts = worker->posts;
    worker->posts = NULL;
    pthread_mutex_unlock(&worker->posts_mutex);
    while (posts) {
        struct worker_post *post = posts;
        posts = post->next;
        post->run(post);
    }
    if (atomic_load(&worker->service->draining) && worker->drain_until_ms == 0) {
        worker->drain_until_ms = (int64_t)uv_now(&worker->loop) + worker->service->config.drain_ms;
        http_server_drain(worker->http);
        uv_timer_start(&worker->second, worker->second.timer_cb, 0, 10);
    }
}

static void on_answer(void *ctx, int status) {
    struct worker *worker = ctx;
    figures_count(&worker->figures.responses[status / 100]);
}

static void end(struct worker *worker) {
    uv_close((uv_handle_t *)&worker->prepare, NULL);
    uv_close((uv_handle_t *)&worker->check, NULL);
    uv_close((uv_handle_t *)&worker->second, NULL);
    if (worker->index == 0)
        uv_close((uv_handle_t *)&worker->heart, NULL);
    uv_close((uv_handle_t *)&worker->wake, NULL);
    http_server_close(worker->http);
}

/* Worker 0 beats for all, so it is the last to end: when the others have, or the time is up. Then it tells
 * the other instances that nothing is held here any more. True: they know, or it is not to be had in time. */
static bool leave_domain(struct worker *worker, bool time_is_up) {
    int64_t now_ms = (int64_t)uv_now(&worker->loop);
    if (!time_is_up && atomic_load(&worker->service->selling) > 1)
        return false;
    if (worker->leave_until_ms == 0)
        worker->leave_until_ms = now_ms + LEAVE_MS;
    return domain_end(worker->service->domain, worker->inventory) || now_ms >= worker->leave_until_ms;
}

/* First everybody may end; when all have, or the time is up, the inventory answers what it still has
 * ("unknown" or "unavailable"); then only threads of the pool can have requests, until they notice that there
 * will be no lock. */
static void drain(struct worker *worker) {
    bool done = http_server_pending(worker->http) == 0 && http_server_connections(worker->http) == 0 &&
                worker->recovering == 0;
    bool time_is_up = (int64_t)uv_now(&worker->loop) >= worker->drain_until_ms;
    if (worker->inventory) {
        if ((!done && !time_is_up) || (worker->index == 0 && !leave_domain(worker, time_is_up)))
            return;
        inventory_close(worker->inventory);
        worker->inventory = NULL;
        atomic_fetch_sub(&worker->service->selling, 1);
    }
    if (http_server_pending(worker->http) == 0 && worker->recovering == 0)
        end(worker);
}

static void on_second(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    atomic_store_explicit(&worker->connections, http_server_connections(worker->http), memory_order_relaxed);
    if (worker->drain_until_ms) {
        drain(worker);
    } else if (worker->index == 0) {
        inventory_sweep(worker->inventory);
        deals_recover(worker);
    }
}

static void on_heart(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    if (worker->inventory)
        domain_tick(worker->service->domain, worker->inventory);
}

static void *run(void *arg) {
    struct worker *worker = arg;
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    return NULL;
}

bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, char *error,
                 size_t error_size) {
    const struct config *config = &service->config;
    worker->service = service;
    worker->index = index;
    pthread_mutex_init(&worker->posts_mutex, NULL);
    uv_loop_init(&worker->loop);
    struct inventory_config stock = {
        .redis_url = config->redis,
        .clock = &clock_system,
        .call_timeout_ms = config->store_timeout_ms,
        .resolve_ms = RESOLVE_MS,
        .queue_max = QUEUE_MAX,
        .work_delay_ms = config->work_delay_ms,
        .teaching = config->teaching,
        .fencing = config->fencing,
        .at_step = service_at_step,
        .figures = &worker->stock_figures,
    };
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
        .ctx = worker,
    };
    worker->http = http_server_open(&worker->loop, &http);
    if (!worker->http) {
        snprintf(error, error_size, "cannot start the HTTP server");
        return false;
    }
    worker->prepare.data = worker->check.data = worker->wake.data = worker->second.data = worker;
    uv_prepare_init(&worker->loop, &worker->prepare);
    uv_check_init(&worker->loop, &worker->check);
    uv_async_init(&worker->loop, &worker->wake, on_wake);
    uv_timer_init(&worker->loop, &worker->second);
    uv_prepare_start(&worker->prepare, on_prepare);
    uv_check_start(&worker->check, on_check);
    uv_timer_start(&worker->second, on_second, 0, SECOND_MS);
    if (index == 0) {
        worker->heart.data = worker;
        uv_timer_init(&worker->loop, &worker->heart);
        uv_timer_start(&worker->heart, on_heart, 0, DOMAIN_TICK_MS);
    }
    atomic_fetch_add(&service->selling, 1);
    return true;
}

bool worker_start(struct worker *worker) {
    return pthread_create(&worker->thread, NULL, run, worker) == 0;
}

void worker_post(struct worker *worker, struct worker_post *post) {
    pthread_mutex_lock(&worker->posts_mutex);
    post->next = worker->posts;
    worker->posts = post;
    /* Within the lock: once the post was seen, the worker may end, and the handle with it. */
    uv_async_send(&worker->wake);
    pthread_mutex_unlock(&worker->posts_mutex);
}

void worker_drain(struct worker *worker) {
    uv_async_send(&worker->wake);
}

void worker_join(struct worker *worker) {
    pthread_join(worker->thread, NULL);
    uv_loop_close(&worker->loop);
    pthread_mutex_destroy(&worker->posts_mutex);
}
