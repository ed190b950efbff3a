#include "service/background/background.h"

#include "service/api/handle_baskets.h"
#include "service/worker.h"

enum { SECOND_MS = 250, SWEEP_TICKS = 2, DRAIN_TICK_MS = 10, LEAVE_MS = 1000 };

/* So many purchases that wait, and were sold in this time, are a crowd. */
enum { CROWD = 32, CROWD_NS = 100000000 };

static void on_wake(uv_async_t *handle) {
    struct back *back = handle->data;
    mailbox_run(&back->mailbox);
    if (atomic_load(&back->service->draining) && back->drain_until_ms == 0) {
        back->drain_until_ms = (int64_t)uv_now(&back->loop) + back->service->config.drain_ms;
        uv_timer_start(&back->second, back->second.timer_cb, 0, DRAIN_TICK_MS);
    }
}

static void end(struct back *back) {
    uv_close((uv_handle_t *)&back->second, NULL);
    uv_close((uv_handle_t *)&back->heart, NULL);
    mailbox_close(&back->mailbox);
}

/* Tells the other instances that nothing is held here any more. True: they know, or it is not to be had in
 * time.
 */
static bool leave_domain(struct back *back) {
    int64_t now_ms = (int64_t)uv_now(&back->loop);
    if (back->leave_until_ms == 0)
        back->leave_until_ms = now_ms + LEAVE_MS;
    return domain_end(back->service->domain, back->inventory) || now_ms >= back->leave_until_ms;
}

/* First the workers may end, and what is under way here; when they have, or the time is up, nobody gets a
 * lock any more, and the inventory answers what it still has ("unknown" or "unavailable"). Threads of the
 * pool may still have deals, until they notice. */
static void drain(struct back *back) {
    bool done = atomic_load(&back->service->running) == 0 && back->recovering == 0 && back->claiming == 0;
    bool time_is_up = (int64_t)uv_now(&back->loop) >= back->drain_until_ms;
    if (back->inventory) {
        if ((!done && !time_is_up) || !leave_domain(back))
            return;
        inventory_close(back->inventory);
        back->inventory = NULL;
    }
    if (done)
        end(back);
}

static void on_second(uv_timer_t *timer) {
    struct back *back = timer->data;
    if (back->drain_until_ms) {
        drain(back);
        return;
    }
    health_tick(back->service);
    if (back->ticks++ % SWEEP_TICKS == 0)
        inventory_sweep(back->inventory);
    deals_recover(back);
}

/* Purchases go first: while a crowd of them waits for the store, or did a moment ago, blocking jobs run one
 * at a time (pool_limit() in main.c), since each step of a basket costs the store a sync of its file, and a
 * lock may cost more. It counts as a crowd only while it buys: a purchase that is refused costs no sync, and
 * whoever asks for what is not there must not hold up baskets. */
static void watch_crowd(struct back *back) {
    struct service *service = back->service;
    int64_t now_ns = (int64_t)uv_hrtime();
    uint64_t waiting = 0, sold = 0;
    for (int i = 0; i < service->worker_count; i++) {
        waiting += service->workers[i].stock_figures.waiting;
        sold += service->workers[i].figures.purchases[INVENTORY_OK];
    }
    bool many = sold - back->sold >= CROWD;
    if (waiting >= CROWD && (many || back->buys))
        atomic_store(&service->crowd_until_ns, now_ns + CROWD_NS);
    if (now_ns >= back->counted_ns + CROWD_NS) {
        back->buys = many;
        back->sold = sold;
        back->counted_ns = now_ns;
    }
}

static void on_heart(uv_timer_t *timer) {
    struct back *back = timer->data;
    watch_crowd(back);
    if (back->inventory)
        domain_tick(back->service->domain, back->inventory);
}

static void *run(void *arg) {
    struct back *back = arg;
    uv_run(&back->loop, UV_RUN_DEFAULT);
    return NULL;
}

bool back_open(struct back *back, struct service *service, char *error, size_t error_size) {
    struct inventory_config stock = worker_stock_config(service, &back->stock_figures);
    back->service = service;
    uv_loop_init(&back->loop);
    back->inventory = inventory_open(&back->loop, &stock, error, error_size);
    if (!back->inventory)
        return false;
    back->second.data = back->heart.data = back;
    mailbox_open(&back->mailbox, &back->loop, on_wake, back);
    uv_timer_init(&back->loop, &back->second);
    uv_timer_init(&back->loop, &back->heart);
    uv_timer_start(&back->second, on_second, 0, SECOND_MS);
    uv_timer_start(&back->heart, on_heart, 0, DOMAIN_TICK_MS);
    return true;
}

bool back_start(struct back *back) {
    return pthread_create(&back->thread, NULL, run, back) == 0;
}

void back_drain(struct back *back) {
    mailbox_wake(&back->mailbox);
}

void back_join(struct back *back) {
    pthread_join(back->thread, NULL);
    uv_loop_close(&back->loop);
    mailbox_free(&back->mailbox);
}
