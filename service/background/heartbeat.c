/* How instances tell each other, by the store, which lock they go by. All of it on the back
 * office's thread. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/background/lock_switch_internal.h"
#include "service/log.h"

enum {
    BEAT_MS = 100,
    REWRITE_MS = 500, /* part of the slack in domain_quiet_ms() */
    LIVE_MS = DOMAIN_FRESH_NS / 1000000 + REWRITE_MS,
};

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

/* ---- beats ---- */

/* With the mutex held. */
static void note_record(struct domain *domain, const struct inventory_domain *told) {
    if (domain->told_epoch != told->epoch) {
        domain->told_epoch = told->epoch;
        snprintf(domain->told_url, sizeof domain->told_url, "%s", told->lock);
    }
    if (domain->clear_epoch == 0) { /* it has joined, and never had a grant */
        domain->clear_epoch = domain->told_epoch;
        memcpy(domain->clear_url, domain->told_url, sizeof domain->clear_url);
    }
    domain->live = told->live;
    domain->behind = told->behind;
    snprintf(domain->behind_id, sizeof domain->behind_id, "%s", told->laggard);
    if (domain->sent_epoch == told->epoch && told->behind == 0)
        domain->settled_epoch = told->epoch;
    domain->fresh_until_ns = domain->sent_ns + DOMAIN_FRESH_NS;
}

static void say_told(const struct domain *domain, uint64_t before, const struct inventory_domain *told) {
    char name[DOMAIN_NAME_SIZE];
    domain_print_lock(name, told->lock);
    if (before == 0 && strcmp(told->lock, domain->first_url) != 0)
        log_info("--lock is not used: other instances go by %s; PUT /v1/lock switches all of them", name);
    if (before != told->epoch && (before || told->behind))
        log_info("switching to the lock %s, epoch %llu; old grants may be with %d others%s%s", name,
                 (unsigned long long)told->epoch, told->behind, told->behind ? ", as " : "", told->laggard);
}

static void on_beat(void *ctx, enum inventory_status status, const struct inventory_domain *told) {
    struct domain *domain = ctx;
    char name[DOMAIN_NAME_SIZE];
    domain->beating = false;
    /* No URL of ours is longer: somebody else wrote it. */
    if (status != INVENTORY_OK || strlen(told->lock) >= sizeof domain->told_url)
        return;
    store_clock_measure(domain->clock, now_ns() - domain->sent_ns, told->store_ms);
    pthread_mutex_lock(&domain->mutex);
    uint64_t before = domain->told_epoch;
    note_record(domain, told);
    bool comes = domain_grants(domain, now_ns()) && domain->announced_epoch != domain->told_epoch;
    if (comes) {
        domain->switches += domain->announced_epoch != 0;
        domain->announced_epoch = domain->told_epoch;
    }
    pthread_cond_broadcast(&domain->changed);
    pthread_mutex_unlock(&domain->mutex);
    say_told(domain, before, told);
    domain_print_lock(name, told->lock);
    if (comes)
        log_info("the lock %s is in force, epoch %llu", name, (unsigned long long)told->epoch);
}

static void beat(struct domain *domain, struct inventory *inventory) {
    char lock[CONFIG_TEXT];
    struct inventory_beat beat = {
        .instance = domain->instance, .lock = lock, .fresh_ms = LIVE_MS, .rewrite_ms = REWRITE_MS};
    pthread_mutex_lock(&domain->mutex);
    snprintf(lock, sizeof lock, "%s", domain->clear_epoch ? domain->clear_url : domain->first_url);
    beat.epoch = domain->clear_epoch;
    beat.quiet_ms = domain_quiet_ms(domain);
    domain->sent_epoch = domain->lock ? domain->lock_epoch : 0;
    pthread_mutex_unlock(&domain->mutex);
    domain->beating = true;
    domain->sent_ns = now_ns();
    domain->next_ns = domain->sent_ns + BEAT_MS * INT64_C(1000000);
    inventory_domain_beat(inventory, &beat, on_beat, domain);
}

/* ---- those who wait for a switch ---- */

/* With the mutex held: takes one who need not wait any longer out of the list. */
static struct domain_wait *take_wait(struct domain *domain) {
    for (struct domain_wait **at = &domain->waits; *at; at = &(*at)->next) {
        struct domain_wait *wait = *at;
        if (domain->ended)
            wait->outcome = DOMAIN_ENDED;
        else if (domain->told_epoch > wait->epoch)
            wait->outcome = DOMAIN_OVERTAKEN;
        else if (domain->told_epoch == wait->epoch && domain_grants(domain, now_ns()))
            wait->outcome = DOMAIN_DONE;
        else if (now_ns() >= wait->deadline_ns)
            wait->outcome = DOMAIN_LATE;
        else
            continue;
        *at = wait->next;
        return wait;
    }
    return NULL;
}

static void tell_waits(struct domain *domain) {
    for (;;) {
        pthread_mutex_lock(&domain->mutex);
        struct domain_wait *wait = take_wait(domain);
        pthread_mutex_unlock(&domain->mutex);
        if (!wait)
            return;
        wait->done(wait);
    }
}

void domain_wait(struct domain *domain, struct domain_wait *wait) {
    pthread_mutex_lock(&domain->mutex);
    bool ended = domain->ended; /* nobody looks at the list any more */
    if (!ended) {
        wait->next = domain->waits;
        domain->waits = wait;
    }
    pthread_mutex_unlock(&domain->mutex);
    if (ended) {
        wait->outcome = DOMAIN_ENDED;
        wait->done(wait);
    }
}

void domain_tick(struct domain *domain, struct inventory *inventory) {
    pthread_mutex_lock(&domain->mutex);
    bool hurry = domain->waits || (!domain_grants(domain, now_ns()) && !domain_failed(domain));
    pthread_mutex_unlock(&domain->mutex);
    /* What beats after it has left comes back. */
    if (!domain->beating && !domain->leaving && (hurry || now_ns() >= domain->next_ns))
        beat(domain, inventory);
    tell_waits(domain);
}

/* ---- the end ---- */

static void on_left(void *ctx, enum inventory_status status, const struct inventory_domain *told) {
    (void)status;
    (void)told;
    ((struct domain *)ctx)->left = true;
}

bool domain_end(struct domain *domain, struct inventory *inventory) {
    pthread_mutex_lock(&domain->mutex);
    if (!domain->ended) {
        domain->ended = true;
        if (domain->cancel)
            lock_cancel(domain->cancel);
        pthread_cond_broadcast(&domain->changed);
    }
    bool idle = domain->users == 0;
    pthread_mutex_unlock(&domain->mutex);
    tell_waits(domain);
    if (idle && !domain->beating && !domain->leaving) {
        domain->leaving = true;
        inventory_domain_leave(inventory, domain->instance, on_left, domain);
    }
    return domain->left;
}
