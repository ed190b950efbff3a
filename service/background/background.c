#include "service/background/background.h"

#include "service/log.h"
#include "service/worker.h"

enum { HOUSEKEEPING_MS = 250, DRAIN_TICK_MS = 10, LEAVE_MS = 1000 };

/* A crowd: so many purchases wait, and so many were sold in CROWD_NS. */
enum { CROWD = 32, CROWD_NS = 100000000 };

static void on_wake(uv_async_t *handle) {
    struct background *background = handle->data;
    mailbox_run(&background->mailbox);
    if (atomic_load(&background->service->draining) && background->drain_until_ms == 0) {
        background->drain_until_ms =
            (int64_t)uv_now(&background->loop) + background->service->config.drain_ms;
        uv_timer_start(&background->housekeeping, background->housekeeping.timer_cb, 0, DRAIN_TICK_MS);
    }
}

static void end(struct background *background) {
    uv_close((uv_handle_t *)&background->housekeeping, NULL);
    uv_close((uv_handle_t *)&background->heartbeat, NULL);
    mailbox_close(&background->mailbox);
}

/* Tells the other instances that no lock is held here any more. True: they know, or LEAVE_MS is over. */
static bool leave_lock_switch(struct background *background) {
    int64_t now_ms = (int64_t)uv_now(&background->loop);
    if (background->leave_until_ms == 0)
        background->leave_until_ms = now_ms + LEAVE_MS;
    return lock_switch_end(background->service->lock_switch, background->inventory) ||
           now_ms >= background->leave_until_ms;
}

/* First the workers end, and what is in flight here. After that, or when the time is up, no lock is given
 * out, and the inventory answers what is still in flight (UNKNOWN or UNAVAILABLE). Threads of the pool may
 * work on transactions until they notice. */
static void drain(struct background *background) {
    bool sweeping = background->inventory && inventory_is_sweeping(background->inventory);
    bool done = atomic_load(&background->service->running) == 0 && background->recovering == 0 &&
                background->claiming == 0 && !sweeping;
    bool time_is_up = (int64_t)uv_now(&background->loop) >= background->drain_until_ms;
    if (background->inventory) {
        int open = 0;
        bool drained = (done || time_is_up) && inventory_drain(background->inventory, &open);
        if ((!time_is_up && !drained) || !leave_lock_switch(background))
            return;
        if (open > 0)
            log_error(
                "ending, and not all replicas have the last %d steps of baskets and transfers that were "
                "acknowledged",
                open);
        inventory_close(background->inventory);
        background->inventory = NULL;
    }
    if (done)
        end(background);
}

static void on_time(void *ctx, enum inventory_status status, int64_t store_ms) {
    struct background *background = ctx;
    if (status == INVENTORY_OK)
        store_clock_measure(&background->service->clock, clock_now_ns() - background->time_asked_ns,
                            store_ms);
    background->time_asked_ns = 0;
}

/* The heartbeat measures the clock, but the master that takes it may be gone, and the others sell. */
static void find_clock(struct background *background) {
    if (store_clock_is_known(&background->service->clock) || background->time_asked_ns)
        return;
    background->time_asked_ns = clock_now_ns();
    inventory_time_read(background->inventory, on_time, background);
}

static void on_housekeeping(uv_timer_t *timer) {
    struct background *background = timer->data;
    if (background->drain_until_ms) {
        drain(background);
        return;
    }
    find_clock(background);
    store_health_tick(background->service);
    service_log_unkept(background->stock_metrics.unkept, &background->unkept_logged);
    if (background->ticks++ % 2 == 0)
        inventory_sweep(background->inventory);
    else
        recovery_tick(background);
}

/* Purchases go first: while a crowd of them waits for the store, or did a moment ago, blocking jobs run one
 * at a time (pool_limit() in main.c), since each step of a basket costs the store a sync of its file, and a
 * lock may cost more. Only purchases that are sold make a crowd: a refusal costs no sync, and clients that
 * ask for what is not there must not hold up baskets. */
static void watch_crowd(struct background *background) {
    struct service *service = background->service;
    int64_t now_ns = (int64_t)uv_hrtime();
    uint64_t waiting = 0, sold = 0;
    for (int i = 0; i < service->worker_count; i++) {
        waiting += service->workers[i].stock_metrics.waiting;
        sold += service->workers[i].metrics.purchases[INVENTORY_OK];
    }
    bool many = sold - background->sold >= CROWD;
    if (waiting >= CROWD && (many || background->buys))
        atomic_store(&service->crowd_until_ns, now_ns + CROWD_NS);
    if (now_ns >= background->counted_ns + CROWD_NS) {
        background->buys = many;
        background->sold = sold;
        background->counted_ns = now_ns;
    }
}

static void on_heartbeat_timer(uv_timer_t *timer) {
    struct background *background = timer->data;
    watch_crowd(background);
    if (background->inventory)
        lock_switch_tick(background->service->lock_switch, background->inventory);
}

static void *run(void *arg) {
    struct background *background = arg;
    uv_run(&background->loop, UV_RUN_DEFAULT);
    return NULL;
}

bool background_open(struct background *background, struct service *service, char *error, size_t error_size) {
    struct inventory_config stock = service_inventory_config(service, &background->stock_metrics);
    background->service = service;
    uv_loop_init(&background->loop);
    background->inventory = inventory_open(&background->loop, &stock, error, error_size);
    if (!background->inventory)
        return false;
    background->housekeeping.data = background->heartbeat.data = background;
    mailbox_open(&background->mailbox, &background->loop, on_wake, background);
    uv_timer_init(&background->loop, &background->housekeeping);
    uv_timer_init(&background->loop, &background->heartbeat);
    uv_timer_start(&background->housekeeping, on_housekeeping, 0, HOUSEKEEPING_MS);
    uv_timer_start(&background->heartbeat, on_heartbeat_timer, 0, LOCK_SWITCH_TICK_MS);
    return true;
}

bool background_start(struct background *background) {
    return pthread_create(&background->thread, NULL, run, background) == 0;
}

void background_drain(struct background *background) {
    mailbox_wake(&background->mailbox);
}

void background_join(struct background *background) {
    pthread_join(background->thread, NULL);
    uv_loop_close(&background->loop);
    mailbox_free(&background->mailbox);
}
