/* Heartbeats: by them each instance tells the others, through the store, which lock it uses; and the callers
 * that wait for a lock switch. All on the background thread, except lock_switch_wait(). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "inventory/transactions.h"
#include "service/background/background.h"
#include "service/background/lock_switch_internal.h"
#include "service/log.h"

enum {
    HEARTBEAT_MS = 100,
    REWRITE_MS = 500, /* part of the slack in lock_switch_quiet_ms() */
    LIVE_MS = LOCK_SWITCH_FRESH_NS / 1000000 + REWRITE_MS,
};

/* ---- heartbeats ---- */

/* Takes in what the store told. With the mutex held. */
static void heartbeat_note_record(struct lock_switch *lock_switch, const struct inventory_lock_epoch *told) {
    if (lock_switch->told_epoch != told->epoch) {
        lock_switch->told_epoch = told->epoch;
        snprintf(lock_switch->told_url, sizeof lock_switch->told_url, "%s", told->lock);
    }
    if (lock_switch->clear_epoch == 0) { /* this instance has just joined, without any grant */
        lock_switch->clear_epoch = lock_switch->told_epoch;
        memcpy(lock_switch->clear_url, lock_switch->told_url, sizeof lock_switch->clear_url);
    }
    lock_switch->live = told->live;
    lock_switch->behind = told->behind;
    snprintf(lock_switch->behind_id, sizeof lock_switch->behind_id, "%s", told->laggard);
    if (lock_switch->sent_epoch == told->epoch && told->in_force)
        lock_switch->settled_epoch = told->epoch;
    lock_switch->fresh_until_ns = lock_switch->sent_ns + LOCK_SWITCH_FRESH_NS;
}

static void heartbeat_log(const struct lock_switch *lock_switch, uint64_t before, bool comes,
                          const struct inventory_lock_epoch *told) {
    char name[LOG_LOCK_SIZE];
    log_print_lock(name, told->lock);
    if (before == 0 && strcmp(told->lock, lock_switch->first_url) != 0)
        log_info("--lock is not used: other instances go by %s; PUT /v1/lock switches all of them", name);
    if (before != told->epoch && (before || told->behind))
        log_info("switching to the lock %s, epoch %llu; old grants may be with %d others%s%s", name,
                 (unsigned long long)told->epoch, told->behind, told->behind ? ", as " : "", told->laggard);
    if (comes)
        log_info("the lock %s is in force, epoch %llu", name, (unsigned long long)told->epoch);
}

static void heartbeat_on_reply(void *ctx, enum inventory_status status,
                               const struct inventory_lock_epoch *told) {
    struct lock_switch *lock_switch = ctx;
    lock_switch->heartbeat_in_flight = false;
    /* A lock with a longer URL than this service can have was written by another program. */
    if (status != INVENTORY_OK || strlen(told->lock) >= sizeof lock_switch->told_url)
        return;
    store_clock_measure(lock_switch->clock, clock_now_ns() - lock_switch->sent_ns, told->store_ms);
    pthread_mutex_lock(&lock_switch->mutex);
    uint64_t before = lock_switch->told_epoch;
    heartbeat_note_record(lock_switch, told);
    bool comes = lock_switch_grants(lock_switch, clock_now_ns()) &&
                 lock_switch->announced_epoch != lock_switch->told_epoch;
    if (comes) {
        lock_switch->switches += lock_switch->announced_epoch != 0;
        lock_switch->announced_epoch = lock_switch->told_epoch;
    }
    pthread_cond_broadcast(&lock_switch->changed);
    pthread_mutex_unlock(&lock_switch->mutex);
    heartbeat_log(lock_switch, before, comes, told);
}

static void heartbeat_send(struct lock_switch *lock_switch, struct inventory *inventory) {
    char lock[CONFIG_TEXT];
    struct inventory_heartbeat heartbeat = {
        .instance = lock_switch->instance, .lock = lock, .fresh_ms = LIVE_MS, .rewrite_ms = REWRITE_MS};
    pthread_mutex_lock(&lock_switch->mutex);
    snprintf(lock, sizeof lock, "%s",
             lock_switch->clear_epoch ? lock_switch->clear_url : lock_switch->first_url);
    heartbeat.epoch = lock_switch->clear_epoch;
    heartbeat.quiet_ms = lock_switch_quiet_ms(lock_switch);
    lock_switch->sent_epoch = lock_switch->lock ? lock_switch->lock_epoch : 0;
    pthread_mutex_unlock(&lock_switch->mutex);
    lock_switch->heartbeat_in_flight = true;
    lock_switch->sent_ns = clock_now_ns();
    lock_switch->next_ns = lock_switch->sent_ns + HEARTBEAT_MS * INT64_C(1000000);
    inventory_lock_epoch_heartbeat(inventory, &heartbeat, heartbeat_on_reply, lock_switch);
}

/* ---- callers that wait for a switch ---- */

/* With the mutex held: removes and returns one caller that need not wait any longer. NULL: there is none. */
static struct lock_switch_wait *waits_take(struct lock_switch *lock_switch) {
    for (struct lock_switch_wait **at = &lock_switch->waits; *at; at = &(*at)->next) {
        struct lock_switch_wait *wait = *at;
        if (lock_switch->ended)
            wait->outcome = LOCK_SWITCH_ENDED;
        else if (lock_switch->told_epoch > wait->epoch)
            wait->outcome = LOCK_SWITCH_OVERTAKEN;
        else if (lock_switch->told_epoch == wait->epoch && lock_switch_grants(lock_switch, clock_now_ns()))
            wait->outcome = LOCK_SWITCH_DONE;
        else if (clock_now_ns() >= wait->deadline_ns)
            wait->outcome = LOCK_SWITCH_LATE;
        else
            continue;
        *at = wait->next;
        return wait;
    }
    return NULL;
}

static void waits_end_due(struct lock_switch *lock_switch) {
    for (;;) {
        pthread_mutex_lock(&lock_switch->mutex);
        struct lock_switch_wait *wait = waits_take(lock_switch);
        pthread_mutex_unlock(&lock_switch->mutex);
        if (!wait)
            return;
        wait->done(wait);
    }
}

void lock_switch_wait(struct lock_switch *lock_switch, struct lock_switch_wait *wait) {
    pthread_mutex_lock(&lock_switch->mutex);
    bool ended = lock_switch->ended; /* the list is not used any more */
    if (!ended) {
        wait->next = lock_switch->waits;
        lock_switch->waits = wait;
    }
    pthread_mutex_unlock(&lock_switch->mutex);
    if (ended) {
        wait->outcome = LOCK_SWITCH_ENDED;
        wait->done(wait);
    }
}

void lock_switch_tick(struct lock_switch *lock_switch, struct inventory *inventory) {
    pthread_mutex_lock(&lock_switch->mutex);
    bool hurry = lock_switch->waits ||
                 (!lock_switch_grants(lock_switch, clock_now_ns()) && !lock_switch_failed(lock_switch));
    pthread_mutex_unlock(&lock_switch->mutex);
    /* A heartbeat after the leave would join this instance again. */
    if (!lock_switch->heartbeat_in_flight && !lock_switch->leaving &&
        (hurry || clock_now_ns() >= lock_switch->next_ns))
        heartbeat_send(lock_switch, inventory);
    waits_end_due(lock_switch);
}

/* ---- the end ---- */

static void heartbeat_on_left(void *ctx, enum inventory_status status,
                              const struct inventory_lock_epoch *told) {
    (void)status;
    (void)told;
    ((struct lock_switch *)ctx)->left = true;
}

bool lock_switch_end(struct lock_switch *lock_switch, struct inventory *inventory) {
    pthread_mutex_lock(&lock_switch->mutex);
    if (!lock_switch->ended) {
        lock_switch->ended = true;
        if (lock_switch->cancel)
            lock_cancel(lock_switch->cancel);
        pthread_cond_broadcast(&lock_switch->changed);
    }
    bool idle = lock_switch->users == 0;
    pthread_mutex_unlock(&lock_switch->mutex);
    waits_end_due(lock_switch);
    if (idle && !lock_switch->heartbeat_in_flight && !lock_switch->leaving) {
        lock_switch->leaving = true;
        inventory_lock_epoch_leave(inventory, lock_switch->instance, heartbeat_on_left, lock_switch);
    }
    return lock_switch->left;
}
