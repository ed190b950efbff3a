/* A loop thread: its posts, its inventory, and its way from the opening to the end. */
#include "service/log.h"
#include "service/service.h"

/* Weak: a definition in another file of the program takes its place. Not const: then the compiler would take
 * it for NULL in this file. */
__attribute__((weak)) void (*service_at_failpoint)(void *ctx, const char *step) = NULL;

enum { RESOLVE_MS = 3000, QUEUE_MAX = 50000, HOUSEKEEPING_MS = 250, DRAIN_TICK_MS = 10 };

/* ---- posts ---- */

void loop_thread_post(struct loop_thread *thread, struct loop_post *post,
                      void (*run)(struct loop_post *post)) {
    post->run = run;
    pthread_mutex_lock(&thread->mutex);
    post->next = thread->posts;
    thread->posts = post;
    /* With the mutex held: once the loop has seen the post, it may end, and the handle with it. */
    uv_async_send(&thread->wake);
    pthread_mutex_unlock(&thread->mutex);
}

static void loop_thread_on_wake(uv_async_t *handle) {
    struct loop_thread *thread = handle->data;
    pthread_mutex_lock(&thread->mutex);
    struct loop_post *posts = thread->posts;
    thread->posts = NULL;
    pthread_mutex_unlock(&thread->mutex);
    while (posts) {
        struct loop_post *post = posts;
        posts = post->next;
        post->run(post);
    }
    if (atomic_load(&thread->service->draining) && thread->drain_until_ms == 0) {
        thread->drain_until_ms = (int64_t)uv_now(&thread->loop) + thread->service->config.drain_ms;
        if (thread->on_drain)
            thread->on_drain(thread);
        uv_timer_start(&thread->housekeeping, thread->housekeeping.timer_cb, 0, DRAIN_TICK_MS);
    }
}

/* ---- what a failover of the store lost ---- */

/* What was put back needs nobody's attention; worker.c logs how much it was. */
static void loop_thread_on_loss(void *ctx, const struct inventory_loss *loss) {
    static const char *const what[] = {[INVENTORY_LOST_ITEM] = "the item ",
                                       [INVENTORY_LOST_MOVE] = "the restock, transfer or return ",
                                       [INVENTORY_LOST_ORDER] = "the order ",
                                       [INVENTORY_LOST_TRANSACTION] = "the basket or transfer "};
    static const char *const became[] = {
        [INVENTORY_LOSS_SHORT] = ", and its units were sold again, or its user has others now (shortage)",
        [INVENTORY_LOSS_UNKNOWN_ITEM] = " and its item",
        [INVENTORY_LOSS_DIFFERS] = ", and something else was acknowledged since",
        [INVENTORY_LOSS_TWICE] = ", and it was made again: both stand, since its units were sold"};
    struct service *service = ctx;
    if (loss->kind == INVENTORY_LOST_TRANSACTION && loss->outcome == INVENTORY_LOSS_BACK)
        atomic_store(&service->put_back, true);
    if (loss->outcome == INVENTORY_LOSS_UNKNOWN_TRANSACTION)
        log_error("%s%s:%s has units, and the journal does not have its basket or transfer", what[loss->kind],
                  loss->item, loss->name);
    else if (loss->outcome > INVENTORY_LOSS_BACK)
        log_error("a failover of the store lost %s%s%s%s%s", what[loss->kind], loss->item,
                  *loss->item && *loss->name ? ":" : "", loss->name, became[loss->outcome]);
}

void loop_thread_log_unkept(struct loop_thread *thread) {
    if (thread->stock_metrics.unkept > thread->unkept_logged)
        log_error("a failover of the store may have lost more of what was acknowledged than was kept");
    thread->unkept_logged = thread->stock_metrics.unkept;
}

/* ---- from the opening to the end ---- */

bool loop_thread_open(struct loop_thread *thread, struct service *service, uv_timer_cb on_housekeeping,
                      void (*on_drain)(struct loop_thread *thread), void *ctx, char *error,
                      size_t error_size) {
    const struct config *config = &service->config;
    struct inventory_config stock = {
        .redis_url = config->redis,
        .clock = &service->clock.clock,
        .call_timeout_ms = config->store_timeout_ms,
        .resolve_ms = RESOLVE_MS,
        .queue_max = QUEUE_MAX,
        .work_delay_ms = config->work_delay_ms,
        .teaching = config->teaching,
        .fencing = config->fencing,
        .replicas = config->replicas,
        .events = config->events,
        .on_loss = loop_thread_on_loss,
        .on_loss_ctx = service,
        .metrics = &thread->stock_metrics,
        .at_failpoint = service_at_failpoint,
    };
    thread->service = service;
    thread->on_drain = on_drain;
    uv_loop_init(&thread->loop);
    thread->inventory = inventory_open(&thread->loop, &stock, error, error_size);
    if (!thread->inventory)
        return false;
    pthread_mutex_init(&thread->mutex, NULL);
    thread->wake.data = thread;
    thread->housekeeping.data = ctx;
    uv_async_init(&thread->loop, &thread->wake, loop_thread_on_wake);
    uv_timer_init(&thread->loop, &thread->housekeeping);
    uv_timer_start(&thread->housekeeping, on_housekeeping, 0, HOUSEKEEPING_MS);
    return true;
}

static void *loop_thread_run(void *arg) {
    struct loop_thread *thread = arg;
    uv_run(&thread->loop, UV_RUN_DEFAULT);
    atomic_store(&thread->ended, true);
    return NULL;
}

bool loop_thread_start(struct loop_thread *thread) {
    return pthread_create(&thread->id, NULL, loop_thread_run, thread) == 0;
}

void loop_thread_drain(struct loop_thread *thread) {
    uv_async_send(&thread->wake);
}

bool loop_thread_is_drained(struct loop_thread *thread, bool idle, int *open) {
    bool time_is_up = (int64_t)uv_now(&thread->loop) >= thread->drain_until_ms;
    bool replicated = (idle || time_is_up) && inventory_drain(thread->inventory, open);
    return replicated || time_is_up;
}

void loop_thread_end(struct loop_thread *thread) {
    uv_close((uv_handle_t *)&thread->housekeeping, NULL);
    uv_close((uv_handle_t *)&thread->wake, NULL);
}

void loop_thread_join(struct loop_thread *thread) {
    pthread_join(thread->id, NULL);
    uv_loop_close(&thread->loop);
    pthread_mutex_destroy(&thread->mutex);
}
