/* What the store can promise, asked by the background thread: for /readyz, and for the log. */
#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "service/log.h"
#include "service/service.h"

/* How long an answer is used, if the store is ready and if it is not; and how often the log asks. */
static const int64_t ready_ns = 1000000000, unready_ns = 100000000, tick_ns = 10000000000;

/* ---- the log ---- */

static void health_log_change(char *logged, size_t size, const char *concern, const char *relief) {
    if (strcmp(logged, concern) == 0)
        return;
    if (*concern)
        log_error("%s", concern);
    else
        log_info("%s", relief);
    snprintf(logged, size, "%s", concern);
}

static void health_log_changes(struct store_health *health, const struct inventory_health *told) {
    bool keeps = strcmp(told->appendonly, "no") != 0;
    health_log_change(health->logged[0], sizeof health->logged[0], told->reason, "the store is ready again");
    health_log_change(
        health->logged[1], sizeof health->logged[1],
        keeps ? ""
              : "the store keeps no append-only file (appendonly no): when it ends, acknowledged orders "
                "since its last snapshot are lost, and all where it takes none",
        "the store keeps an append-only file now");
}

/* ---- calls ---- */

static void health_answer_on_worker(struct loop_post *post) {
    struct store_health_read *read = CONTAINER_OF(post, struct store_health_read, post);
    struct store_health *health = &read->worker->service->health;
    pthread_mutex_lock(&health->mutex);
    struct inventory_health told = health->last;
    pthread_mutex_unlock(&health->mutex);
    read->done(read->ctx, &told);
}

static void health_on_told(void *ctx, const struct inventory_health *told) {
    struct service *service = ctx;
    struct store_health *health = &service->health;
    if (service->background.thread.inventory && inventory_is_up(service->background.thread.inventory))
        health_log_changes(health, told);
    pthread_mutex_lock(&health->mutex);
    health->last = *told;
    health->last_ns = health->asking_since_ns;
    health->asking = false;
    struct store_health_read *waiting = health->waiting;
    health->waiting = NULL;
    pthread_mutex_unlock(&health->mutex);
    while (waiting) {
        struct store_health_read *read = waiting;
        waiting = read->next;
        loop_thread_post(read->worker, &read->post, health_answer_on_worker);
    }
}

static void health_on_ask(struct loop_post *post) {
    struct service *service = CONTAINER_OF(post, struct service, health.post);
    struct inventory *inventory = service->background.thread.inventory;
    service->health.asking_since_ns = clock_now_ns();
    if (inventory)
        inventory_health_read(inventory, health_on_told, service);
    else
        health_on_told(service, &(struct inventory_health){.reason = "the service ends"});
}

/* With the mutex held: has the background thread ask, unless it does already. */
static void health_ask(struct service *service) {
    if (service->health.asking)
        return;
    service->health.asking = true;
    loop_thread_post(&service->background.thread, &service->health.post, health_on_ask);
}

static bool health_is_fresh(const struct store_health *health) {
    int64_t age_ns = clock_now_ns() - health->last_ns;
    return health->last_ns && age_ns < (health->last.ready ? ready_ns : unready_ns);
}

void store_health_read(struct loop_thread *worker, struct store_health_read *read) {
    struct service *service = worker->service;
    struct store_health *health = &service->health;
    read->worker = worker;
    pthread_mutex_lock(&health->mutex);
    bool fresh = health_is_fresh(health);
    if (!fresh) {
        read->next = health->waiting;
        health->waiting = read;
        health_ask(service);
    }
    pthread_mutex_unlock(&health->mutex);
    if (fresh)
        health_answer_on_worker(&read->post);
}

void store_health_tick(struct service *service) {
    struct store_health *health = &service->health;
    bool up = inventory_is_up(service->background.thread.inventory);
    pthread_mutex_lock(&health->mutex);
    if (up && (!health->was_up || clock_now_ns() - health->last_ns >= tick_ns))
        health_ask(service);
    pthread_mutex_unlock(&health->mutex);
    health->was_up = up;
}
