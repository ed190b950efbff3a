/* Whether the lock can be had: that of the one in force, and of those that it is to be switched to. A thread
 * of its own, since a store that does not answer holds it up for seconds. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "service/background/lock_switch_internal.h"
#include "service/log.h"

/* All instances use one key, so that a store that keeps something of each (a counter of fences) keeps one. No
 * item's lock has this name. */
#define PROBE_KEY "seckilld:probe"

static const int64_t idle_ns = INT64_C(10000000000), /* nobody asks for the lock: so often it is tried */
    gone_ns = 2000000000,                            /* it cannot be had: so often */
    gap_ns = 1000000000;                             /* never more often than this */

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

/* Opens a lock and has it once, whoever else has it: that it is busy says the same. On failure `error` says
 * why. The lock is left open. */
static enum lock_status try_lock(const struct domain *domain, const char *url, struct lock **lock,
                                 char *error, size_t error_size) {
    struct lock_config config = domain->lock_config;
    struct lock_grant grant;
    config.at_point = NULL; /* it is none of the steps that tests stop at */
    enum lock_status status = lock_open(url, &config, lock, error, error_size);
    if (status != LOCK_OK)
        return status;
    status = lock_try(*lock, PROBE_KEY, &grant);
    if (status == LOCK_OK)
        lock_release(*lock, &grant);
    if (status == LOCK_OK || status == LOCK_BUSY)
        return LOCK_OK;
    lock_last_error(*lock, error, error_size);
    if (!*error)
        snprintf(error, error_size, "%s", lock_status_text(status));
    return status;
}

static void check(const struct domain *domain, struct domain_check *check) {
    struct lock *lock = NULL;
    check->status = try_lock(domain, check->url, &lock, check->error, sizeof check->error);
    check->done(check);
    lock_close(lock); /* may take seconds where its store is gone */
}

/* ---- the lock in force ---- */

/* With the mutex held. */
static void note_probe(struct domain *domain, enum lock_status status, const char *why) {
    bool lost = status != LOCK_OK && domain->reach != DOMAIN_UNREACHABLE;
    bool back = status == LOCK_OK && domain->reach == DOMAIN_UNREACHABLE;
    char name[DOMAIN_NAME_SIZE];
    domain_print_lock(name, domain->told_url);
    domain->reach = status == LOCK_OK ? DOMAIN_REACHABLE : DOMAIN_UNREACHABLE;
    domain_print_plain(domain->why, sizeof domain->why, status == LOCK_OK ? "" : why);
    domain->probe_ns = now_ns() + (status == LOCK_OK ? idle_ns : gone_ns);
    if (lost)
        log_warning(
            "the lock %s cannot be reached: %s; baskets, transfers and strategy locked are refused until "
            "it can be, or PUT /v1/lock chooses another",
            name, domain->why);
    if (back)
        log_info("the lock %s can be reached again", name);
}

/* Called, and returns, with the mutex held. */
static void probe(struct domain *domain) {
    char url[CONFIG_TEXT], why[LOCK_ERROR_SIZE] = "";
    uint64_t epoch = domain->lock_epoch;
    struct lock *lock = NULL;
    memcpy(url, domain->told_url, sizeof url);
    pthread_mutex_unlock(&domain->mutex);
    enum lock_status status = try_lock(domain, url, &lock, why, sizeof why);
    pthread_mutex_lock(&domain->mutex);
    domain->probed_ns = now_ns();
    if (epoch == domain->lock_epoch && epoch == domain->told_epoch && status != LOCK_NOMEM)
        note_probe(domain, status, why);
    pthread_mutex_unlock(&domain->mutex);
    lock_close(lock);
    pthread_mutex_lock(&domain->mutex);
}

/* When the lock is to be tried again; with the mutex held. */
static int64_t due_ns(const struct domain *domain) {
    if (!domain->lock || domain->lock_epoch != domain->told_epoch)
        return INT64_MAX;
    int64_t earliest_ns = domain->probed_ns + gap_ns;
    return domain->probe_ns > earliest_ns ? domain->probe_ns : earliest_ns;
}

void domain_probe_now(struct domain *domain) {
    domain->probe_ns = now_ns();
    pthread_cond_signal(&domain->probe_wanted);
}

void domain_note_answer(struct domain *domain, bool answered) {
    if (answered && domain->reach == DOMAIN_REACHABLE)
        domain->probe_ns = now_ns() + idle_ns; /* which tells as much as a probe */
    else if (answered == (domain->reach == DOMAIN_UNREACHABLE) && domain->probe_ns > now_ns())
        domain_probe_now(domain);
}

void *domain_probe_run(void *arg) {
    struct domain *domain = arg;
    pthread_mutex_lock(&domain->mutex);
    while (!domain->stop || domain->checks) {
        struct domain_check *first = domain->checks;
        int64_t at_ns = due_ns(domain);
        if (first) {
            domain->checks = first->next;
            pthread_mutex_unlock(&domain->mutex);
            check(domain, first);
            pthread_mutex_lock(&domain->mutex);
        } else if (now_ns() >= at_ns) {
            probe(domain);
        } else if (at_ns == INT64_MAX) {
            pthread_cond_wait(&domain->probe_wanted, &domain->mutex);
        } else {
            struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
            pthread_cond_clockwait(&domain->probe_wanted, &domain->mutex, CLOCK_MONOTONIC, &at);
        }
    }
    pthread_mutex_unlock(&domain->mutex);
    return NULL;
}

void domain_check(struct domain *domain, struct domain_check *check) {
    pthread_mutex_lock(&domain->mutex);
    check->next = domain->checks;
    domain->checks = check;
    pthread_cond_signal(&domain->probe_wanted);
    pthread_mutex_unlock(&domain->mutex);
}
