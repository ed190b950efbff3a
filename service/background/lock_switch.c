/* The lock in force: its grants, its state, and the thread that changes it. */
#include "service/background/lock_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/waiter.h"
#include "service/background/lock_switch_internal.h"
#include "service/log.h"
#include "service/service.h"

enum {
    SLACK_MS = 1000, /* added to the quiet time for heartbeats that the store does not rewrite, and for clocks
                        of different speed */
    RENEWED_TTLS = 4, /* a lock that renews can hold a grant for so many times to live, see lock.h */
};

bool lock_switch_grants(const struct lock_switch *lock_switch, int64_t at_ns) {
    return lock_switch->lock && lock_switch->lock_epoch == lock_switch->told_epoch &&
           lock_switch->settled_epoch == lock_switch->told_epoch && at_ns < lock_switch->fresh_until_ns &&
           !lock_switch->ended;
}

bool lock_switch_failed(const struct lock_switch *lock_switch) {
    return lock_switch->told_epoch && lock_switch->lock_epoch == lock_switch->told_epoch &&
           !lock_switch->lock;
}

int64_t lock_switch_quiet_ms(const struct lock_switch *lock_switch) {
    int64_t ms = LOCK_SWITCH_FRESH_NS / 1000000 + SLACK_MS;
    if (lock_switch->lock)
        ms += lock_ttl_ns(lock_switch->lock) / 1000000 *
              (lock_caps(lock_switch->lock) & LOCK_RENEWS ? RENEWED_TTLS : 1);
    return ms;
}

/* ---- grants: their holders are the users of the lock ---- */

/* Waits for a lock to be in force. LOCK_OK: the caller is a user of it. Otherwise as lock_switch_acquire().
 */
static enum lock_status lock_switch_enter(struct lock_switch *lock_switch, int64_t deadline_ns,
                                          struct lock_switch_use *use) {
    bool over = false;
    pthread_mutex_lock(&lock_switch->mutex);
    while (!lock_switch_grants(lock_switch, clock_now_ns()) && !lock_switch->ended &&
           !lock_switch_failed(lock_switch) && !over)
        over = !cond_wait_until(&lock_switch->changed, &lock_switch->mutex, deadline_ns);
    enum lock_status status = LOCK_OK;
    if (!lock_switch_grants(lock_switch, clock_now_ns()))
        status = LOCK_CANCELLED;
    else if (lock_switch->reach == LOCK_SWITCH_UNREACHABLE)
        status = LOCK_UNAVAILABLE;
    else if (clock_now_ns() >= deadline_ns)
        status = LOCK_TIMEOUT;
    if (status == LOCK_OK) {
        lock_switch->users++;
        *use = (struct lock_switch_use){.lock = lock_switch->lock, .epoch = lock_switch->lock_epoch};
    }
    pthread_mutex_unlock(&lock_switch->mutex);
    return status;
}

static void lock_switch_leave(struct lock_switch *lock_switch, enum lock_status status) {
    pthread_mutex_lock(&lock_switch->mutex);
    if (status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN)
        lock_probe_note_answer(lock_switch, false);
    if (--lock_switch->users == 0)
        pthread_cond_broadcast(&lock_switch->changed);
    pthread_mutex_unlock(&lock_switch->mutex);
}

/* Whether a grant that was just acquired counts. It does only if the other instances have heard of this one
 * since: they wait for no more than its time to live from then on. (The lock may be about to be switched: the
 * switch waits for its users.) */
static bool lock_switch_is_fresh(struct lock_switch *lock_switch) {
    pthread_mutex_lock(&lock_switch->mutex);
    bool fresh = clock_now_ns() < lock_switch->fresh_until_ns;
    lock_probe_note_answer(lock_switch, true);
    pthread_mutex_unlock(&lock_switch->mutex);
    return fresh;
}

enum lock_status lock_switch_acquire(struct lock_switch *lock_switch, const char *const keys[], size_t count,
                                     int64_t deadline_ns, struct lock_switch_use *use,
                                     struct lock_grant grants[]) {
    for (;;) {
        enum lock_status status = lock_switch_enter(lock_switch, deadline_ns, use);
        if (status != LOCK_OK)
            return status;
        /* The lock stays, and `cancel` with it, as long as there are users. */
        status = lock_acquire_all(use->lock, keys, count, deadline_ns, lock_switch->cancel, grants);
        if (status == LOCK_OK && lock_switch_is_fresh(lock_switch))
            return LOCK_OK;
        if (status == LOCK_OK)
            lock_release_all(use->lock, grants, count);
        lock_switch_leave(lock_switch, status);
        if (status != LOCK_OK && status != LOCK_CANCELLED)
            return status;
    }
}

void lock_switch_release(struct lock_switch *lock_switch, const struct lock_switch_use *use,
                         const struct lock_grant grants[], size_t count) {
    lock_switch_leave(lock_switch, lock_release_all(use->lock, grants, count));
}

/* ---- state ---- */

static void lock_switch_add_metrics(struct lock_metrics *sum, const struct lock *lock) {
    struct lock_metrics more;
    lock_read_metrics(lock, &more);
    /* All members are numbers of this type. */
    uint64_t *numbers = (uint64_t *)sum;
    for (size_t i = 0; i < sizeof *sum / sizeof *numbers; i++)
        numbers[i] += ((const uint64_t *)&more)[i];
}

void lock_switch_read_state(struct lock_switch *lock_switch, struct lock_switch_state *state) {
    pthread_mutex_lock(&lock_switch->mutex);
    enum lock_switch_phase phase = LOCK_SWITCH_SWITCHING;
    if (lock_switch_grants(lock_switch, clock_now_ns()))
        phase = LOCK_SWITCH_IN_FORCE;
    else if (clock_now_ns() >= lock_switch->fresh_until_ns || lock_switch_failed(lock_switch) ||
             lock_switch->ended)
        phase = LOCK_SWITCH_NONE;
    /* A lock is not probed before it is open here. */
    bool probed = lock_switch->lock_epoch == lock_switch->told_epoch;
    *state = (struct lock_switch_state){.phase = phase,
                                        .epoch = lock_switch->told_epoch,
                                        .instances = lock_switch->live,
                                        .behind = lock_switch->behind,
                                        .patience_ms = lock_switch_quiet_ms(lock_switch),
                                        .reach = probed ? lock_switch->reach : LOCK_SWITCH_UNTRIED,
                                        .switches = lock_switch->switches,
                                        .metrics = lock_switch->before};
    if (state->reach == LOCK_SWITCH_UNREACHABLE)
        memcpy(state->why, lock_switch->why, sizeof state->why);
    memcpy(state->behind_id, lock_switch->behind_id, sizeof state->behind_id);
    log_print_lock(state->lock, lock_switch->told_epoch ? lock_switch->told_url : lock_switch->first_url);
    if (lock_switch->lock)
        lock_switch_add_metrics(&state->metrics, lock_switch->lock);
    pthread_mutex_unlock(&lock_switch->mutex);
}

/* ---- the thread that changes the lock ---- */

/* Opens the lock of an epoch. NULL on failure: `error` and the log say why. */
static struct lock *lock_switch_open_lock(struct lock_switch *lock_switch, const char *url, uint64_t epoch,
                                          char error[LOCK_ERROR_SIZE]) {
    char name[LOG_LOCK_SIZE];
    struct lock *lock = NULL;
    if (lock_probe_open(url, &lock_switch->lock_config, &lock, error, LOCK_ERROR_SIZE) == LOCK_OK)
        return lock;
    log_print_lock(name, url);
    log_error("the lock %s, epoch %llu, cannot be opened here; nothing is done under a lock until PUT "
              "/v1/lock chooses another: %s",
              name, (unsigned long long)epoch, error);
    return NULL;
}

/* Changes from the open lock to the one in the record. Called, and returns, with the mutex held. */
static void lock_switch_follow(struct lock_switch *lock_switch) {
    if (lock_switch->cancel)
        lock_cancel(lock_switch->cancel);
    while (lock_switch->users > 0)
        pthread_cond_wait(&lock_switch->changed, &lock_switch->mutex);
    struct lock *old = lock_switch->lock;
    if (old)
        lock_switch_add_metrics(&lock_switch->before, old); /* without users, nobody waits for it */
    lock_switch->lock = NULL;
    lock_cancel_free(lock_switch->cancel);
    lock_switch->cancel = NULL;
    uint64_t epoch = lock_switch->told_epoch;
    char url[CONFIG_TEXT], error[LOCK_ERROR_SIZE] = "out of memory";
    memcpy(url, lock_switch->told_url, sizeof url);
    memcpy(lock_switch->clear_url, url, sizeof url);
    lock_switch->clear_epoch = epoch; /* the other instances need not wait until the new lock is open */
    pthread_mutex_unlock(&lock_switch->mutex);
    struct lock_cancel *cancel = lock_cancel_new();
    struct lock *opened = cancel ? lock_switch_open_lock(lock_switch, url, epoch, error) : NULL;
    pthread_mutex_lock(&lock_switch->mutex);
    lock_switch->lock = opened;
    lock_switch->cancel = cancel;
    lock_switch->lock_epoch = epoch;
    lock_switch->reach = opened ? LOCK_SWITCH_UNTRIED : LOCK_SWITCH_UNREACHABLE;
    log_print_plain(lock_switch->why, sizeof lock_switch->why, opened ? "" : error);
    lock_probe_now(lock_switch);
    pthread_cond_broadcast(&lock_switch->changed);
    pthread_mutex_unlock(&lock_switch->mutex);
    lock_close(old); /* may take seconds if its server is gone */
    pthread_mutex_lock(&lock_switch->mutex);
}

static void *lock_switch_run(void *arg) {
    struct lock_switch *lock_switch = arg;
    pthread_mutex_lock(&lock_switch->mutex);
    while (!lock_switch->stop) {
        if (lock_switch->told_epoch != lock_switch->lock_epoch)
            lock_switch_follow(lock_switch);
        else
            pthread_cond_wait(&lock_switch->changed, &lock_switch->mutex);
    }
    pthread_mutex_unlock(&lock_switch->mutex);
    return NULL;
}

/* ---- opening and closing ---- */

/* Makes the name of this instance: people know it by its host and port, machines by a random number. It has
 * only characters that need no escaping in JSON. */
static void lock_switch_make_instance(struct lock_switch *lock_switch, const char *listen) {
    char host[48] = "";
    uint64_t chance = 0;
    gethostname(host, sizeof host - 1);
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
        chance = (uint64_t)clock_now_ns();
    const char *port = strrchr(listen, ':');
    snprintf(lock_switch->instance, sizeof lock_switch->instance, "%s%.8s-%016llx", host, port ? port : "",
             (unsigned long long)chance);
    for (char *c = lock_switch->instance; *c; c++) {
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '_';
    }
}

static void lock_switch_at_point(void *ctx, const char *point, const char *key) {
    char step[64 + LOCK_KEY_MAX];
    snprintf(step, sizeof step, "%s %s", point, key);
    service_at_failpoint(ctx, step);
}

static void lock_switch_end_thread(struct lock_switch *lock_switch, pthread_t thread) {
    pthread_mutex_lock(&lock_switch->mutex);
    lock_switch->stop = true;
    pthread_cond_broadcast(&lock_switch->changed);
    pthread_cond_broadcast(&lock_switch->probe_wanted);
    pthread_mutex_unlock(&lock_switch->mutex);
    pthread_join(thread, NULL);
}

static void lock_switch_free(struct lock_switch *lock_switch) {
    pthread_cond_destroy(&lock_switch->probe_wanted);
    pthread_cond_destroy(&lock_switch->changed);
    pthread_mutex_destroy(&lock_switch->mutex);
    free(lock_switch);
}

struct lock_switch *lock_switch_open(const struct config *config, struct store_clock *clock, char *error,
                                     size_t error_size) {
    struct lock *tried = NULL;
    struct lock_switch *lock_switch = calloc(1, sizeof *lock_switch);
    snprintf(error, error_size, "out of memory or threads");
    if (!lock_switch)
        return NULL;
    pthread_mutex_init(&lock_switch->mutex, NULL);
    pthread_cond_init(&lock_switch->changed, NULL);
    pthread_cond_init(&lock_switch->probe_wanted, NULL);
    lock_switch->lock_config =
        (struct lock_config){.ttl_ms = config->lock_ttl_ms,
                             .teaching = config->teaching,
                             .at_point = service_at_failpoint ? lock_switch_at_point : NULL};
    if (lock_probe_open(config->lock, &lock_switch->lock_config, &tried, error, error_size) != LOCK_OK)
        goto fail;
    lock_close(tried);
    lock_switch_make_instance(lock_switch, config->listen);
    lock_switch->first_url = config->lock;
    lock_switch->clock = clock;
    if (pthread_create(&lock_switch->thread, NULL, lock_switch_run, lock_switch) == 0) {
        if (pthread_create(&lock_switch->prober, NULL, lock_probe_run, lock_switch) == 0)
            return lock_switch;
        lock_switch_end_thread(lock_switch, lock_switch->thread);
    }
fail:
    lock_switch_free(lock_switch);
    return NULL;
}

void lock_switch_close(struct lock_switch *lock_switch) {
    if (!lock_switch)
        return;
    lock_switch_end_thread(lock_switch, lock_switch->thread);
    lock_switch_end_thread(lock_switch, lock_switch->prober);
    lock_close(lock_switch->lock);
    lock_cancel_free(lock_switch->cancel);
    lock_switch_free(lock_switch);
}
