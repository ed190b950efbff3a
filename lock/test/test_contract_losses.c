/* What every safe lock does when its store loses a grant, or hangs: holders are told before their deadline,
 * and calls return in time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/test/every_lock.h"

static _Atomic int lost_times;
static struct lock_grant lost;
static int64_t lost_ns; /* when on_lost() was called */

static void on_lost(void *ctx, const struct lock_grant *grant) {
    (void)ctx;
    lost = *grant;
    lost_ns = clock_mono_ns(&clock_system);
    lost_times++;
}

static bool is_lost(void *arg) {
    (void)arg;
    return lost_times > 0;
}

/* The store loses the grant: its holder is told before the deadline, and the next owner gets the lock. */
static void lost_grant(void) {
    if (!every_lock.forget)
        return;
    lost_times = 0;
    struct lock_config config = {.on_lost = on_lost, .ttl_ms = 3000};
    struct lock *lock = tools_open(&config, every_lock.url);
    struct lock_grant grant = tools_acquire(lock, "a");
    every_lock.forget("a");
    CHECK(harness_wait(is_lost, NULL, PATIENCE_MS));
    CHECK(lost_ns < grant.deadline_ns);
    CHECK_STR(lost.owner, grant.owner);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    struct lock_grant next = tools_acquire_elsewhere(lock, "a");
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    tools_release(lock, &next);
    CHECK_INT(lost_times, 1);
}

static const char *url_with(const char *option) {
    return harness_format("%s%c%s", every_lock.url, strchr(every_lock.url, '?') ? '&' : '?', option);
}

enum { RENEWED_TTL_MS = 2000 };

static struct lock *open_renewed(void) {
    lost_times = 0;
    struct lock_config config = {.on_lost = on_lost, .ttl_ms = RENEWED_TTL_MS};
    return tools_open(&config, url_with("renew=on"));
}

/* The holder reports nothing, and holds it for longer than its time to live. */
static void renewed(void) {
    if (!every_lock.hang) /* local: */
        return;
    struct lock *lock = open_renewed();
    CHECK(lock_caps(lock) & LOCK_RENEWS);
    struct lock_grant grant = tools_acquire(lock, "a");
    while (lock_now_ns(lock) < grant.deadline_ns + RENEWED_TTL_MS / 2 * 1000000LL) {
        CHECK(lock_remaining_ns(lock, &grant) > 0);
        harness_pause_ms(20);
    }
    tools_check_held(lock, "a");
    int64_t first_deadline_ns = grant.deadline_ns;
    tools_check_status(lock_progress(lock, &grant), LOCK_OK);
    CHECK(grant.deadline_ns > first_deadline_ns);
    struct lock_metrics metrics;
    lock_read_metrics(lock, &metrics);
    CHECK(metrics.extended >= 2);
    CHECK_INT(lost_times, 0);
    tools_release(lock, &grant);
    tools_check_free(lock, "a");
}

static void resume(void *ctx) {
    (void)ctx;
    every_lock.hang(false);
}

/* The store does not answer: the holder is told while it still has time to stop. */
static void not_renewed(void) {
    if (!every_lock.hang)
        return;
    struct lock *lock = open_renewed();
    struct lock_grant grant = tools_acquire(lock, "a");
    harness_defer(resume, NULL);
    every_lock.hang(true);
    for (int64_t began_ms = harness_now_ms(); lost_times == 0; harness_pause_ms(1)) {
        CHECK(harness_now_ms() - began_ms < PATIENCE_MS);
        lock_progress(lock, &grant); /* the deadline as its holder knows it */
    }
    CHECK(lost_ns < grant.deadline_ns);
    CHECK(lost.deadline_ns >= grant.deadline_ns);
    CHECK_STR(lost.owner, grant.owner);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    tools_check_status(lock_progress(lock, &grant), LOCK_LOST);
    tools_check_status(lock_extend(lock, &grant), LOCK_LOST);
    every_lock.hang(false);
    enum lock_status status = lock_release(lock, &grant);
    CHECK(status == LOCK_OK || status == LOCK_NOT_OWNER || status == LOCK_UNKNOWN ||
          status == LOCK_UNAVAILABLE);
    tools_check_status(lock_acquire_for(lock, "a", PATIENCE_MS, &grant), LOCK_OK);
    CHECK_INT(lost_times, 1);
    tools_release(lock, &grant);
}

enum { RENEWED_KEYS = 600 };

static _Atomic int told[RENEWED_KEYS], told_late;

static void note_told(void *ctx, const struct lock_grant *grant) {
    told[strtol(grant->key, NULL, 10)]++;
    told_late += lock_now_ns(*(struct lock **)ctx) >= grant->deadline_ns;
    lost_times++;
}

static bool all_are_told(void *count) {
    return lost_times >= *(int *)count;
}

static bool can_be_had(void *lock) {
    struct lock_grant grant;
    return lock_acquire_for(lock, "a", PATIENCE_MS, &grant) == LOCK_OK &&
           lock_release(lock, &grant) == LOCK_OK;
}

/* The same with so many grants that the store cannot be asked about all of them: each holder is told once,
 * and before its deadline. */
static void many_not_renewed(void) {
    static struct lock *lock;
    struct lock_grant grants[RENEWED_KEYS];
    /* etcd is asked about many grants at once */
    int count = strncmp(every_lock.url, "etcd:", 5) == 0 ? RENEWED_KEYS : RENEWED_KEYS / 4;
    if (!every_lock.hang)
        return;
    struct lock_config config = {.on_lost = note_told, .ctx = &lock, .ttl_ms = RENEWED_TTL_MS};
    lock = tools_open(&config, url_with("renew=on"));
    int tries = 0;
    do { /* on a busy machine some may be lost before anything hangs */
        for (int i = 0; tries > 0 && i < count; i++)
            lock_release(lock, &grants[i]);
        lost_times = told_late = 0;
        for (int i = 0; i < count; i++) {
            told[i] = 0;
            grants[i] = tools_acquire(lock, harness_format("%d", i));
        }
    } while (lost_times > 0 && ++tries < 5);
    CHECK_INT(lost_times, 0);
    harness_defer(resume, NULL);
    every_lock.hang(true);
    CHECK(harness_wait(all_are_told, &count, PATIENCE_MS));
    CHECK_INT(told_late, 0);
    for (int i = 0; i < count; i++)
        CHECK_INT(told[i], 1);
    every_lock.hang(false);
    CHECK(harness_wait(can_be_had, lock, PATIENCE_MS));
}

/* ---- a store that hangs ---- */

/* No call is later than that; and so much may go by until a thread runs, on a machine with others on it. */
enum { HUNG_THREADS = 100, MANY_KEYS = 20, LATE_MS = 1000, CANCELLED_MS = 500, SLACK_MS = 2000 };

static bool is_free(void *arg) {
    struct tools_waiter *waiter = arg;
    waiter->status = lock_try(waiter->lock, waiter->key, &waiter->grant);
    return waiter->status == LOCK_OK && lock_release(waiter->lock, &waiter->grant) == LOCK_OK;
}

/* All that wait when the store stands still return in time, each with a key of its own. */
static void wait_in_vain(struct lock *lock, struct tools_waiter **waiters, int64_t ms,
                         struct lock_cancel *cancel) {
    for (int i = 0; i < HUNG_THREADS; i++)
        waiters[i] = tools_wait(lock, harness_format("hung-%d", i), ms, cancel);
    harness_pause_ms(200);
    int64_t began_ms = harness_now_ms();
    if (cancel)
        lock_cancel(cancel);
    for (int i = 0; i < HUNG_THREADS; i++) {
        enum lock_status status = tools_join(waiters[i]);
        CHECK(status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN || status == LOCK_TIMEOUT ||
              (cancel && status == LOCK_CANCELLED));
    }
    int64_t took_ms = harness_now_ms() - began_ms;
    if (took_ms > (cancel ? CANCELLED_MS : ms + LATE_MS) + SLACK_MS)
        FAIL("it took %lld ms", (long long)took_ms);
}

static void hung_store(void) {
    struct tools_waiter *waiters[HUNG_THREADS];
    if (!every_lock.hang)
        return;
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant held = tools_acquire(lock, "held"), many[MANY_KEYS];
    const char *names[MANY_KEYS];
    struct lock_cancel *cancel = lock_cancel_new();
    for (int i = 0; i < MANY_KEYS; i++)
        names[i] = harness_format("many-%d", i);
    tools_check_status(lock_acquire_all(lock, names, MANY_KEYS, tools_in_ms(lock, PATIENCE_MS), NULL, many),
                       LOCK_OK);
    harness_defer(resume, NULL); /* before it is closed */
    every_lock.hang(true);
    wait_in_vain(lock, waiters, 300, NULL);
    wait_in_vain(lock, waiters, PATIENCE_MS, cancel);
    int64_t began_ms = harness_now_ms();
    enum lock_status status = lock_release(lock, &held);
    CHECK(status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN);
    CHECK(harness_now_ms() - began_ms < LATE_MS + SLACK_MS);
    began_ms = harness_now_ms();
    status = lock_release_all(lock, many, MANY_KEYS);
    CHECK(status != LOCK_OK);
    CHECK(harness_now_ms() - began_ms < 2 * LATE_MS + SLACK_MS);
    every_lock.hang(false);
    for (int i = 0; i < HUNG_THREADS; i++)
        CHECK(harness_wait(is_free, waiters[i], PATIENCE_MS));
    lock_cancel_free(cancel);
}

int main(int argc, char **argv) {
    static const struct every_lock_test tests[] = {
        {"a lost grant", lost_grant},         {"renewed until it is released", renewed},
        {"not renewed in time", not_renewed}, {"many are not renewed in time", many_not_renewed},
        {"a hung store", hung_store},
    };
    harness_begin(argc, argv);
    every_lock_run(tests, sizeof tests / sizeof *tests);
    return harness_finish();
}
