/* The background thread: what it does on its timers, and its drain.
 *
 * It expires holds twice a second: a hold that nobody confirms lives on for INVENTORY_HOLD_GRACE_MS after it
 * is due, and until the next sweep after that (inventory/purchases/holds.c). Recovery ends held baskets. */
#include "service/log.h"
#include "service/service.h"

enum { LEAVE_MS = 1000 };

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
    for (int i = 0; i < service->config.workers; i++)
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
        inventory_close(thread->inventory);
        thread->inventory = NULL;
    }
    if (!idle)
        return;
    uv_close((uv_handle_t *)&background->heartbeat, NULL);
    loop_thread_end(thread);
}

/* ---- credentials ---- */

/* Reads the files again that have changed. If one is bad, what was in force stays. */
static void background_reload_credentials(struct auth *auth) {
    char said[600];
    for (enum auth_source source = 0; source < AUTH_SOURCES; source++) {
        switch (auth_reload(auth, source, said, sizeof said)) {
        case AUTH_RELOADED: log_info("read again: %s", said); break;
        case AUTH_REFUSED: log_error("%s; what was read before stays in force", said); break;
        case AUTH_UNCHANGED: break;
        }
    }
}

/* ---- timers ---- */

static void background_on_housekeeping(uv_timer_t *timer) {
    struct background *background = timer->data;
    struct loop_thread *thread = &background->thread;
    if (thread->drain_until_ms) {
        background_drain(background);
        return;
    }
    store_clock_find(&thread->service->clock, thread->inventory);
    store_health_tick(thread->service);
    loop_thread_log_unkept(thread);
    if (background->ticks % 4 == 0)
        background_reload_credentials(thread->service->auth);
    if (background->ticks++ % 2 == 0)
        inventory_sweep(thread->inventory);
    else
        recovery_tick(background);
}

static void background_on_heartbeat(uv_timer_t *timer) {
    struct loop_thread *thread = &((struct background *)timer->data)->thread;
    purchases_first_count(thread->service);
    if (thread->inventory)
        lock_switch_tick(thread->service->lock_switch, thread->inventory);
}

bool background_open(struct background *background, struct service *service, char *error, size_t error_size) {
    if (!loop_thread_open(&background->thread, service, background_on_housekeeping, NULL, background, error,
                          error_size))
        return false;
    pthread_mutex_init(&service->health.mutex, NULL);
    background->heartbeat.data = background;
    uv_timer_init(&background->thread.loop, &background->heartbeat);
    uv_timer_start(&background->heartbeat, background_on_heartbeat, 0, LOCK_SWITCH_TICK_MS);
    return true;
}
