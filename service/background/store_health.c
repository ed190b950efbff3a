#include "service/background/store_health.h"

#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "service/log.h"
#include "service/worker.h"

/* A store that is not ready is asked more often. */
static const int64_t ready_ns = 1000000000, unready_ns = 100000000, tick_ns = 10000000000;

void store_health_open(struct health *health) {
    pthread_mutex_init(&health->mutex, NULL);
    snprintf(health->last.told.reason, sizeof health->last.told.reason, "the store was not asked yet");
}

void store_health_close(struct health *health) {
    pthread_mutex_destroy(&health->mutex);
}

/* ---- the log ---- */

static void log_change(char *logged, size_t size, const char *concern, const char *relief) {
    if (strcmp(logged, concern) == 0)
        return;
    if (*concern)
        log_error("%s", concern);
    else
        log_info("%s", relief);
    snprintf(logged, size, "%s", concern);
}

static void log_changes(struct health *health, const struct inventory_health *told) {
    bool keeps = strcmp(told->appendonly, "no") != 0;
    log_change(health->logged[0], sizeof health->logged[0], told->reason, "the store is ready again");
    log_change(health->logged[1], sizeof health->logged[1],
               keeps
                   ? ""
                   : "the store keeps no append-only file (appendonly no): when it ends, acknowledged orders "
                     "since its last snapshot are lost, and all where it takes none",
               "the store keeps an append-only file now");
}

/* ---- calls ---- */

static void answer_there(struct mailbox_post *post) {
    struct store_health_read *read = CONTAINER_OF(post, struct store_health_read, post);
    struct health *health = &read->worker->service->health;
    pthread_mutex_lock(&health->mutex);
    struct inventory_health told = health->last.told;
    pthread_mutex_unlock(&health->mutex);
    read->done(read, &told);
}

static void on_told(void *ctx, const struct inventory_health *told) {
    struct service *service = ctx;
    struct health *health = &service->health;
    if (service->background.inventory && inventory_is_up(service->background.inventory))
        log_changes(health, told);
    pthread_mutex_lock(&health->mutex);
    health->last = (struct store_health_seen){.told = *told, .asked_ns = health->asking_since_ns};
    health->asking = false;
    struct store_health_read *waiting = health->waiting;
    health->waiting = NULL;
    pthread_mutex_unlock(&health->mutex);
    while (waiting) {
        struct store_health_read *read = waiting;
        waiting = read->next;
        read->post.run = answer_there;
        mailbox_put(&read->worker->mailbox, &read->post);
    }
}

static void ask(struct service *service) {
    struct inventory *inventory = service->background.inventory;
    service->health.asking_since_ns = (int64_t)uv_hrtime();
    if (inventory)
        inventory_health_read(inventory, on_told, service);
    else
        on_told(service, &(struct inventory_health){.reason = "the service ends"});
}

static void ask_there(struct mailbox_post *post) {
    struct health *health = CONTAINER_OF(post, struct health, post);
    ask(CONTAINER_OF(health, struct service, health));
}

static bool is_fresh(const struct store_health_seen *seen) {
    int64_t age_ns = (int64_t)uv_hrtime() - seen->asked_ns;
    return seen->asked_ns && age_ns < (seen->told.ready ? ready_ns : unready_ns);
}

void store_health_read(struct worker *worker, struct store_health_read *read) {
    struct health *health = &worker->service->health;
    read->worker = worker;
    pthread_mutex_lock(&health->mutex);
    bool fresh = is_fresh(&health->last), first = !fresh && !health->asking;
    if (!fresh) {
        read->next = health->waiting;
        health->waiting = read;
    }
    if (first) {
        health->asking = true;
        health->post.run = ask_there;
        mailbox_put(&worker->service->background.mailbox, &health->post);
    }
    pthread_mutex_unlock(&health->mutex);
    if (fresh)
        answer_there(&read->post);
}

void store_health_tick(struct service *service) {
    struct health *health = &service->health;
    bool up = inventory_is_up(service->background.inventory);
    bool due = up && (!health->was_up || (int64_t)uv_hrtime() - health->last.asked_ns >= tick_ns);
    health->was_up = up;
    if (!due)
        return;
    pthread_mutex_lock(&health->mutex);
    bool first = !health->asking;
    health->asking = true;
    pthread_mutex_unlock(&health->mutex);
    if (first)
        ask(service);
}
