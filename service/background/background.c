/* The background thread: what it does on its timers, and its drain. */
#include "base/clock.h"
#include "service/log.h"
#include "service/service.h"

enum { LEAVE_MS = 1000 };

/* A crowd: so many purchases wait, and so many were sold within CROWD_NS. */
enum { CROWD = 32, CROWD_NS = 100000000 };

/* ---- the crowd ---- */

/* Purchases go first: while a crowd of them waits for the store, or did a moment ago, locked jobs run one at
 * a time (background_pool_limit()), since each step of a basket costs the store a sync of its file, and a
 * lock may cost more. Only purchases that are sold make a crowd: a refusal costs no sync, and clients that
 * ask for what is not there must not hold up baskets. */
static void background_watch_crowd(struct background *background) {
    struct service *service = background->thread.service;
    int64_t now_ns = (int64_t)uv_hrtime();
    uint64_t waiting = 0, sold = 0;
    for (int i = 0; i < service->worker_count; i++) {
        waiting += service->workers[i].thread.stock_metrics.waiting;
        sold += service->workers[i].thread.metrics.purchases[INVENTORY_OK];
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

int background_pool_limit(void *ctx) {
    struct service *service = ctx;
    return clock_mono_ns(&clock_system) < atomic_load(&service->crowd_until_ns) ? 1 : BACKGROUND_POOL_THREADS;
}

/* ---- the store's clock ---- */

static void background_on_time(void *ctx, enum inventory_status status, int64_t store_ms) {
    struct background *background = ctx;
    if (status == INVENTORY_OK)
        store_clock_measure(&background->thread.service->clock, clock_now_ns() - background->time_asked_ns,
                            store_ms);
    background->time_asked_ns = 0;
}

/* The heartbeat measures the clock, too. But in a cluster the master that takes heartbeats may be gone while
 * the others sell. */
static void background_find_clock(struct background *background) {
    if (store_clock_is_known(&background->thread.service->clock) || background->time_asked_ns)
        return;
    background->time_asked_ns = clock_now_ns();
    inventory_time_read(background->thread.inventory, background_on_time, background);
}

/* ---- the drain ---- */

/* Tells the other instances that this one holds no lock any more. True: they know, or LEAVE_MS is over. */
static bool background_leave_lock_switch(struct background *background) {
    int64_t now_ms = (int64_t)uv_now(&background->thread.loop);
    if (background->leave_until_ms == 0)
        background->leave_until_ms = now_ms + LEAVE_MS;
    return lock_switch_end(background->thread.service->lock_switch, background->thread.inventory) ||
           now_ms >= background->leave_until_ms;
}

static bool background_workers_have_ended(const struct service *service) {
    for (int i = 0; i < service->worker_count; i++)
        if (!atomic_load(&service->workers[i].thread.ended))
            return false;
    return true;
}

/* First the workers end, and what is in flight here. After that, or when the time is up, the lock switch
 * gives out no grant, and the inventory is closed. Threads of the pool may work on transactions until they
 * notice. */
static void background_drain(struct background *background) {
    struct loop_thread *thread = &background->thread;
    bool sweeping = thread->inventory && inventory_is_sweeping(thread->inventory);
    bool idle = background_workers_have_ended(thread->service) && background->recovering == 0 &&
                background->claiming == 0 && !sweeping;
    int open = 0;
    if (thread->inventory) {
        if (!loop_thread_is_drained(thread, idle, &open) || !background_leave_lock_switch(background))
            return;
        if (open > 0)
            log_error(
                "ending, and not all replicas have the last %d steps of baskets and transfers that were "
                "acknowledged",
                open);
        loop_thread_close_inventory(thread);
    }
    if (!idle)
        return;
    uv_close((uv_handle_t *)&background->heartbeat, NULL);
    loop_thread_end(thread);
}

/* ---- timers ---- */

static void background_on_housekeeping(uv_timer_t *timer) {
    struct background *background = timer->data;
    if (background->thread.drain_until_ms) {
        background_drain(background);
        return;
    }
    background_find_clock(background);
    store_health_tick(background->thread.service);
    loop_thread_log_unkept(&background->thread);
    if (background->ticks++ % 2 == 0)
        inventory_sweep(background->thread.inventory);
    else
        recovery_tick(background);
}

static void background_on_heartbeat(uv_timer_t *timer) {
    struct background *background = timer->data;
    background_watch_crowd(background);
    if (background->thread.inventory)
        lock_switch_tick(background->thread.service->lock_switch, background->thread.inventory);
}

bool background_open(struct background *background, struct service *service, char *error, size_t error_size) {
    if (!loop_thread_open(&background->thread, service, background_on_housekeeping, NULL, background, error,
                          error_size))
        return false;
    background->heartbeat.data = background;
    uv_timer_init(&background->thread.loop, &background->heartbeat);
    uv_timer_start(&background->heartbeat, background_on_heartbeat, 0, LOCK_SWITCH_TICK_MS);
    return true;
}
