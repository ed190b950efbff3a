/* The lock in force: who uses it, and the thread that changes it. */
#include "service/background/lock_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/background/lock_switch_internal.h"
#include "service/failpoint.h"
#include "service/log.h"

enum {
    SLACK_MS =
        1000, /* of the quiet time: for what a beat need not rewrite, and for clocks that differ in speed */
    RENEWED_TTLS = 4, /* of a lock that renews, see lock.h */
};

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

bool domain_grants(const struct domain *domain, int64_t at_ns) {
    return domain->lock && domain->lock_epoch == domain->told_epoch &&
           domain->settled_epoch == domain->told_epoch && at_ns < domain->fresh_until_ns && !domain->ended;
}

bool domain_failed(const struct domain *domain) {
    return domain->told_epoch && domain->lock_epoch == domain->told_epoch && !domain->lock;
}

int64_t domain_quiet_ms(const struct domain *domain) {
    int64_t ms = DOMAIN_FRESH_NS / 1000000 + SLACK_MS;
    if (domain->lock)
        ms +=
            lock_ttl_ns(domain->lock) / 1000000 * (lock_caps(domain->lock) & LOCK_RENEWS ? RENEWED_TTLS : 1);
    return ms;
}

/* ---- those who use it ---- */

/* LOCK_OK: it has become a user of the lock in force. Otherwise as domain_acquire(). */
static enum lock_status enter(struct domain *domain, int64_t deadline_ns, struct domain_use *use) {
    struct timespec until = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    int over = 0;
    pthread_mutex_lock(&domain->mutex);
    while (!domain_grants(domain, now_ns()) && !domain->ended && !domain_failed(domain) && !over)
        over = pthread_cond_clockwait(&domain->changed, &domain->mutex, CLOCK_MONOTONIC, &until);
    enum lock_status status = LOCK_OK;
    if (!domain_grants(domain, now_ns()))
        status = LOCK_CANCELLED;
    else if (domain->reach == DOMAIN_UNREACHABLE)
        status = LOCK_UNAVAILABLE;
    else if (now_ns() >= deadline_ns)
        status = LOCK_TIMEOUT;
    if (status == LOCK_OK) {
        domain->users++;
        *use = (struct domain_use){.lock = domain->lock, .epoch = domain->lock_epoch};
    }
    pthread_mutex_unlock(&domain->mutex);
    return status;
}

static void leave(struct domain *domain, enum lock_status status) {
    pthread_mutex_lock(&domain->mutex);
    if (status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN)
        domain_note_answer(domain, false);
    if (--domain->users == 0)
        pthread_cond_broadcast(&domain->changed);
    pthread_mutex_unlock(&domain->mutex);
}

/* A grant that was had late counts only if the others have heard of this instance since: they wait for no
 * more than its time to live from then on. (It may be had while the lock is about to be switched: that waits
 * for its users.) */
static bool is_fresh(struct domain *domain) {
    pthread_mutex_lock(&domain->mutex);
    bool fresh = now_ns() < domain->fresh_until_ns;
    domain_note_answer(domain, true);
    pthread_mutex_unlock(&domain->mutex);
    return fresh;
}

enum lock_status domain_acquire(struct domain *domain, const char *const keys[], size_t count,
                                int64_t deadline_ns, struct domain_use *use, struct lock_grant grants[]) {
    for (;;) {
        enum lock_status status = enter(domain, deadline_ns, use);
        if (status != LOCK_OK)
            return status;
        /* As long as it has users the lock stays, and `cancel` with it. */
        status = lock_acquire_all(use->lock, keys, count, deadline_ns, domain->cancel, grants);
        if (status == LOCK_OK && is_fresh(domain))
            return LOCK_OK;
        if (status == LOCK_OK)
            lock_release_all(use->lock, grants, count);
        leave(domain, status);
        if (status != LOCK_OK && status != LOCK_CANCELLED)
            return status;
    }
}

void domain_release(struct domain *domain, const struct domain_use *use, const struct lock_grant grants[],
                    size_t count) {
    leave(domain, lock_release_all(use->lock, grants, count));
}

/* ---- how it stands ---- */

/* Nobody has tried the lock of a newer epoch before it is open here. */
static enum domain_reach newest_reach(const struct domain *domain) {
    return domain->lock_epoch == domain->told_epoch ? domain->reach : DOMAIN_UNTRIED;
}

void domain_read_state(struct domain *domain, struct domain_state *state) {
    pthread_mutex_lock(&domain->mutex);
    enum domain_phase phase = DOMAIN_SWITCHING;
    if (domain_grants(domain, now_ns()))
        phase = DOMAIN_IN_FORCE;
    else if (now_ns() >= domain->fresh_until_ns || domain_failed(domain) || domain->ended)
        phase = DOMAIN_NONE;
    *state = (struct domain_state){.phase = phase,
                                   .epoch = domain->told_epoch,
                                   .instances = domain->live,
                                   .behind = domain->behind,
                                   .patience_ms = domain_quiet_ms(domain),
                                   .reach = newest_reach(domain)};
    if (state->reach == DOMAIN_UNREACHABLE)
        memcpy(state->why, domain->why, sizeof state->why);
    memcpy(state->behind_id, domain->behind_id, sizeof state->behind_id);
    domain_print_lock(state->lock, domain->told_epoch ? domain->told_url : domain->first_url);
    pthread_mutex_unlock(&domain->mutex);
}

static void add_counters(struct lock_metrics *sum, const struct lock_metrics *more) {
    sum->acquired += more->acquired;
    sum->busy += more->busy;
    sum->timeouts += more->timeouts;
    sum->cancelled += more->cancelled;
    sum->failed += more->failed;
    sum->released += more->released;
    sum->extended += more->extended;
    sum->lost += more->lost;
    sum->passed += more->passed;
    sum->wait_ns += more->wait_ns;
    sum->hold_ns += more->hold_ns;
}

void domain_read_metrics(struct domain *domain, struct domain_metrics *metrics) {
    pthread_mutex_lock(&domain->mutex);
    *metrics = (struct domain_metrics){
        .lock = domain->before, .switches = domain->switches, .reach = newest_reach(domain)};
    if (domain_grants(domain, now_ns()))
        metrics->epoch = domain->lock_epoch;
    if (domain->lock) {
        struct lock_metrics now;
        lock_read_metrics(domain->lock, &now);
        add_counters(&metrics->lock, &now);
        metrics->lock.waiting = now.waiting;
    }
    pthread_mutex_unlock(&domain->mutex);
}

/* The option NAME= of a URL, "" where it is none: what follows the ?. */
static const char *find_option(const char *options, const char *name) {
    for (const char *at = options; at; at = strchr(at, '&')) {
        at++;
        if (strncmp(at, name, strlen(name)) == 0)
            return at;
    }
    return "";
}

/* What may be shown of a URL: nothing before its last @, wherever that is. */
void domain_print_lock(char out[DOMAIN_NAME_SIZE], const char *url) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:,/_-[]?=&";
    const char *scheme_end = strchr(url, ':'), *at = strrchr(url, '@'), *options = strchr(url, '?');
    size_t length = scheme_end ? (size_t)(scheme_end - url) + 1 : 0;
    const char *address = url + length, *end = options ? options : url + strlen(url);
    if (!scheme_end)
        end = address; /* no URL at all */
    if (strncmp(address, "//", 2) == 0)
        address += 2, length += 2;
    if (at && at >= end)
        end = address; /* what is before an @ may all be a password */
    else if (at)
        address = at + 1;
    bool shows = options && !(at && at > options);
    const char *variant = shows ? find_option(options, "variant=") : "";
    const char *ttl = shows ? find_option(options, "ttl=") : "";
    int length_printed = snprintf(out, DOMAIN_NAME_SIZE, "%.*s%.*s", (int)length, url,
                                  (int)(end > address ? end - address : 0), address);
    size_t used = length_printed < DOMAIN_NAME_SIZE ? (size_t)length_printed : DOMAIN_NAME_SIZE - 1;
    snprintf(out + used, DOMAIN_NAME_SIZE - used, "%s%.*s%s%.*s", *variant ? "?" : "",
             (int)strcspn(variant, "&"), variant,
             !*ttl      ? ""
             : *variant ? "&"
                        : "?",
             (int)strcspn(ttl, "&"), ttl);
    for (char *c = out; *c; c++) {
        if (!strchr(plain, *c))
            *c = '_';
    }
}

void domain_print_plain(char *out, size_t size, const char *text) {
    size_t length = 0;
    for (const char *c = text; *c && length < size - 1; c++) {
        if (strncmp(c, "…", 3) == 0 && length < size - 3) {
            memcpy(out + length, "...", 3);
            length += 3;
            c += 2;
        } else {
            out[length++] = (char)(*c < ' ' || *c > '~' || *c == '"' || *c == '\\' ? '?' : *c);
        }
    }
    out[length] = '\0';
}

/* ---- the thread ---- */

/* Opens the lock of an epoch; NULL where that cannot be, and `error` and the log tell why. */
static struct lock *open_lock(struct domain *domain, const char *url, uint64_t epoch,
                              char error[LOCK_ERROR_SIZE]) {
    char name[DOMAIN_NAME_SIZE];
    struct lock *lock = NULL;
    if (lock_open(url, &domain->lock_config, &lock, error, LOCK_ERROR_SIZE) == LOCK_OK)
        return lock;
    domain_print_lock(name, url);
    log_error("the lock %s, epoch %llu, cannot be opened here; nothing is done under a lock until PUT "
              "/v1/lock chooses another: %s",
              name, (unsigned long long)epoch, error);
    return NULL;
}

/* Called, and returns, with the mutex held: from the lock that is open to the record's. */
static void follow(struct domain *domain) {
    if (domain->cancel)
        lock_cancel(domain->cancel);
    while (domain->users > 0)
        pthread_cond_wait(&domain->changed, &domain->mutex);
    struct lock *old = domain->lock;
    struct lock_metrics counted;
    if (old) {
        lock_read_metrics(old, &counted);
        add_counters(&domain->before, &counted);
    }
    domain->lock = NULL;
    lock_cancel_free(domain->cancel);
    domain->cancel = NULL;
    uint64_t epoch = domain->told_epoch;
    char url[CONFIG_TEXT], error[LOCK_ERROR_SIZE] = "out of memory";
    memcpy(url, domain->told_url, sizeof url);
    memcpy(domain->clear_url, url, sizeof url);
    domain->clear_epoch = epoch; /* the others need not wait until the new one is open */
    pthread_mutex_unlock(&domain->mutex);
    struct lock_cancel *cancel = lock_cancel_new();
    struct lock *opened = cancel ? open_lock(domain, url, epoch, error) : NULL;
    pthread_mutex_lock(&domain->mutex);
    domain->lock = opened;
    domain->cancel = cancel;
    domain->lock_epoch = epoch;
    domain->reach = opened ? DOMAIN_UNTRIED : DOMAIN_UNREACHABLE;
    domain_print_plain(domain->why, sizeof domain->why, opened ? "" : error);
    domain_probe_now(domain);
    pthread_cond_broadcast(&domain->changed);
    pthread_mutex_unlock(&domain->mutex);
    lock_close(old); /* may take seconds where its store is gone */
    pthread_mutex_lock(&domain->mutex);
}

static void *run(void *arg) {
    struct domain *domain = arg;
    pthread_mutex_lock(&domain->mutex);
    while (!domain->stop) {
        if (domain->told_epoch != domain->lock_epoch)
            follow(domain);
        else
            pthread_cond_wait(&domain->changed, &domain->mutex);
    }
    pthread_mutex_unlock(&domain->mutex);
    return NULL;
}

/* ---- opening and closing ---- */

/* Known to people by its host and port, to machines by chance. Of characters that JSON needs no escapes for.
 */
static void make_instance(struct domain *domain, const char *listen) {
    char host[48] = "";
    uint64_t chance = 0;
    gethostname(host, sizeof host - 1);
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
        chance = (uint64_t)now_ns();
    const char *port = strrchr(listen, ':');
    snprintf(domain->instance, sizeof domain->instance, "%s%.8s-%016llx", host, port ? port : "",
             (unsigned long long)chance);
    for (char *c = domain->instance; *c; c++) {
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '_';
    }
}

static void at_point(void *ctx, const char *point, const char *key) {
    char step[64 + LOCK_KEY_MAX];
    snprintf(step, sizeof step, "%s %s", point, key);
    service_at_step(ctx, step);
}

static void end_thread(struct domain *domain, pthread_t thread) {
    pthread_mutex_lock(&domain->mutex);
    domain->stop = true;
    pthread_cond_broadcast(&domain->changed);
    pthread_cond_broadcast(&domain->probe_wanted);
    pthread_mutex_unlock(&domain->mutex);
    pthread_join(thread, NULL);
}

struct domain *domain_open(const struct config *config, struct store_clock *clock, char *error,
                           size_t error_size) {
    struct lock *tried = NULL;
    struct domain *domain = calloc(1, sizeof *domain);
    snprintf(error, error_size, "out of memory or threads");
    if (!domain)
        return NULL;
    domain->lock_config = (struct lock_config){.ttl_ms = config->lock_ttl_ms,
                                               .teaching = config->teaching,
                                               .at_point = service_at_step ? at_point : NULL};
    if (lock_open(config->lock, &domain->lock_config, &tried, error, error_size) != LOCK_OK)
        goto fail;
    lock_close(tried);
    make_instance(domain, config->listen);
    pthread_mutex_init(&domain->mutex, NULL);
    pthread_cond_init(&domain->changed, NULL);
    pthread_cond_init(&domain->probe_wanted, NULL);
    domain->first_url = config->lock;
    domain->clock = clock;
    if (pthread_create(&domain->thread, NULL, run, domain) != 0)
        goto fail_threads;
    if (pthread_create(&domain->prober, NULL, domain_probe_run, domain) == 0)
        return domain;
    end_thread(domain, domain->thread);
fail_threads:
    pthread_cond_destroy(&domain->probe_wanted);
    pthread_cond_destroy(&domain->changed);
    pthread_mutex_destroy(&domain->mutex);
fail:
    free(domain);
    return NULL;
}

void domain_close(struct domain *domain) {
    if (!domain)
        return;
    end_thread(domain, domain->thread);
    end_thread(domain, domain->prober);
    lock_close(domain->lock);
    lock_cancel_free(domain->cancel);
    pthread_cond_destroy(&domain->probe_wanted);
    pthread_cond_destroy(&domain->changed);
    pthread_mutex_destroy(&domain->mutex);
    free(domain);
}
