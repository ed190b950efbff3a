/* Whether a lock can be reached: the thread that probes the lock in force, and one to switch to. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/waiter.h"
#include "service/background/lock_switch_internal.h"
#include "service/log.h"

/* All instances use the same keys, so that a lock server that keeps a counter of fences for each key keeps
 * few. No item's lock has one of these names. */
static const char *const probe_keys[] = {"seckilld:probe", "seckilld:probe:1", "seckilld:probe:2",
                                         "seckilld:probe:4"};
/* In a Redis Cluster each of them is in another quarter of the slots. */
enum { CLUSTER_KEYS = sizeof probe_keys / sizeof *probe_keys };

/* Times between two probes. */
static const int64_t idle_ns = INT64_C(10000000000), /* of a lock that is not used */
    gone_ns = 2000000000,                            /* of a lock that cannot be reached */
    gap_ns = 1000000000;                             /* at least */

/* How long a probe tries. A lock with a short time to live gives each call only some 50 ms, but a store that
 * is slow once counts as reachable. */
enum { PROBE_MS = 500 };

enum lock_status lock_probe_open(const char *url, const struct lock_config *config, struct lock **lock,
                                 char *error, size_t error_size) {
    const char *options = strchr(url, '?');
    if (!options || !strstr(options, "renew="))
        return lock_open(url, config, lock, error, error_size);
    snprintf(error, error_size, "renew is not for a service: a lock switch relies on grants that end");
    return LOCK_CONFIG;
}

/* Opens a lock and acquires it once. In a cluster one reachable master is enough: calls for the keys of a
 * master that is gone fail by themselves. On failure `error` says why. The lock stays open; the caller closes
 * it. */
static enum lock_status probe_lock(const struct lock_switch *lock_switch, const char *url, struct lock **lock,
                                   char *error, size_t error_size) {
    struct lock_config config = lock_switch->lock_config;
    config.at_point = NULL; /* a probe is not a failpoint */
    enum lock_status status = lock_probe_open(url, &config, lock, error, error_size);
    if (status != LOCK_OK)
        return status;
    bool cluster = strncmp(url, "redis-cluster:", strlen("redis-cluster:")) == 0;
    for (int i = 0; i < (cluster ? CLUSTER_KEYS : 1); i++) {
        struct lock_grant grant;
        status = lock_acquire_for(*lock, probe_keys[i], PROBE_MS, &grant);
        if (status == LOCK_OK)
            lock_release(*lock, &grant);
        if (status == LOCK_OK || status == LOCK_TIMEOUT)
            return LOCK_OK; /* another holder proves, too, that the lock can be reached */
    }
    lock_last_error(*lock, error, error_size);
    if (!*error)
        snprintf(error, error_size, "%s", lock_status_text(status));
    return status;
}

static void probe_check(const struct lock_switch *lock_switch, struct lock_switch_check *check) {
    struct lock *lock = NULL;
    check->status = probe_lock(lock_switch, check->url, &lock, check->error, sizeof check->error);
    check->done(check);
    lock_close(lock); /* may take seconds if its server is gone */
}

/* ---- the lock in force ---- */

/* Takes in the outcome of a probe. With the mutex held. */
static void probe_note(struct lock_switch *lock_switch, enum lock_status status, const char *why) {
    bool lost = status != LOCK_OK && lock_switch->reach != LOCK_SWITCH_UNREACHABLE;
    bool regained = status == LOCK_OK && lock_switch->reach == LOCK_SWITCH_UNREACHABLE;
    char name[LOG_LOCK_SIZE];
    log_print_lock(name, lock_switch->told_url);
    lock_switch->reach = status == LOCK_OK ? LOCK_SWITCH_REACHABLE : LOCK_SWITCH_UNREACHABLE;
    log_print_plain(lock_switch->why, sizeof lock_switch->why, status == LOCK_OK ? "" : why);
    lock_switch->probe_ns = clock_now_ns() + (status == LOCK_OK ? idle_ns : gone_ns);
    if (lost)
        log_warning(
            "the lock %s cannot be reached: %s; baskets, transfers and strategy locked are refused until "
            "it can be, or PUT /v1/lock chooses another",
            name, lock_switch->why);
    if (regained)
        log_info("the lock %s can be reached again", name);
}

/* Probes the lock in force. Called, and returns, with the mutex held. */
static void probe_lock_in_force(struct lock_switch *lock_switch) {
    char url[CONFIG_TEXT], why[LOCK_ERROR_SIZE] = "";
    uint64_t epoch = lock_switch->lock_epoch;
    struct lock *lock = NULL;
    memcpy(url, lock_switch->told_url, sizeof url);
    pthread_mutex_unlock(&lock_switch->mutex);
    enum lock_status status = probe_lock(lock_switch, url, &lock, why, sizeof why);
    pthread_mutex_lock(&lock_switch->mutex);
    lock_switch->probed_ns = clock_now_ns();
    if (epoch == lock_switch->lock_epoch && epoch == lock_switch->told_epoch && status != LOCK_NOMEM)
        probe_note(lock_switch, status, why);
    pthread_mutex_unlock(&lock_switch->mutex);
    lock_close(lock);
    pthread_mutex_lock(&lock_switch->mutex);
}

/* Returns when the next probe is due; with the mutex held. */
static int64_t probe_due_ns(const struct lock_switch *lock_switch) {
    if (!lock_switch->lock || lock_switch->lock_epoch != lock_switch->told_epoch)
        return INT64_MAX;
    int64_t earliest_ns = lock_switch->probed_ns + gap_ns;
    return lock_switch->probe_ns > earliest_ns ? lock_switch->probe_ns : earliest_ns;
}

void lock_probe_now(struct lock_switch *lock_switch) {
    lock_switch->probe_ns = clock_now_ns();
    pthread_cond_signal(&lock_switch->probe_wanted);
}

void lock_probe_note_answer(struct lock_switch *lock_switch, bool answered) {
    if (answered && lock_switch->reach == LOCK_SWITCH_REACHABLE)
        lock_switch->probe_ns = clock_now_ns() + idle_ns; /* an answer proves as much as a probe */
    else if (answered == (lock_switch->reach == LOCK_SWITCH_UNREACHABLE) &&
             lock_switch->probe_ns > clock_now_ns())
        lock_probe_now(lock_switch);
}

void *lock_probe_run(void *arg) {
    struct lock_switch *lock_switch = arg;
    pthread_mutex_lock(&lock_switch->mutex);
    while (!lock_switch->stop || lock_switch->checks) {
        struct lock_switch_check *first = lock_switch->checks;
        int64_t at_ns = probe_due_ns(lock_switch);
        if (first) {
            lock_switch->checks = first->next;
            pthread_mutex_unlock(&lock_switch->mutex);
            probe_check(lock_switch, first);
            pthread_mutex_lock(&lock_switch->mutex);
        } else if (clock_now_ns() >= at_ns) {
            probe_lock_in_force(lock_switch);
        } else if (at_ns == INT64_MAX) {
            pthread_cond_wait(&lock_switch->probe_wanted, &lock_switch->mutex);
        } else {
            cond_wait_until(&lock_switch->probe_wanted, &lock_switch->mutex, at_ns);
        }
    }
    pthread_mutex_unlock(&lock_switch->mutex);
    return NULL;
}

void lock_switch_check(struct lock_switch *lock_switch, struct lock_switch_check *check) {
    pthread_mutex_lock(&lock_switch->mutex);
    check->next = lock_switch->checks;
    lock_switch->checks = check;
    pthread_cond_signal(&lock_switch->probe_wanted);
    pthread_mutex_unlock(&lock_switch->mutex);
}
