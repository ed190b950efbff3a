/* What every safe lock does when its store loses a grant, or hangs: holders are told before their deadline,
 * and calls return in time. */
#include <stdlib.h>
#include <string.h>

#include "lock/test/every_lock.h"

/* The store loses the grant: its holder is told before the deadline, and the next owner gets the lock. */
static void lost_grant(void) {
    struct lock *lock = tools_open_told(every_lock_url_with(every_lock.url, "ttl=3000"));
    struct lock_grant grant = tools_acquire(lock, "a");
    every_lock.forget("a");
    tools_wait_told(1);
    CHECK(told.at_ns < grant.deadline_ns);
    CHECK_STR(told.grant.owner, grant.owner);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    tools_check_status(lock_progress(lock, &grant), LOCK_LOST);
    tools_check_status(lock_extend(lock, &grant), LOCK_LOST);
    struct lock_grant next = tools_acquire_elsewhere(lock, "a");
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    tools_release(lock, &next);
    CHECK_INT(told.times, 1);
    CHECK_INT(tools_metrics(lock).lost, 1);
}

enum { RENEWED_TTL_MS = 2000 };

static const char *renewed_url(void) {
    return every_lock_url_with(every_lock.url, harness_format("renew=on&ttl=%d", RENEWED_TTL_MS));
}

/* The holder reports nothing, and holds it for longer than its time to live. */
static void renewed(void) {
    struct lock *lock = tools_open_told(renewed_url());
    CHECK(lock_caps(lock) & LOCK_RENEWS);
    struct lock_grant grant = tools_acquire(lock, "a");
    while (lock_now_ns(lock) < grant.deadline_ns + RENEWED_TTL_MS / 4 * 1000000LL) {
        CHECK(lock_remaining_ns(lock, &grant) > 0);
        harness_pause_ms(20);
    }
    tools_check_held(lock, "a");
    int64_t first_deadline_ns = grant.deadline_ns;
    tools_check_status(lock_progress(lock, &grant), LOCK_OK);
    CHECK(grant.deadline_ns > first_deadline_ns);
    CHECK(tools_metrics(lock).extended >= 2);
    CHECK_INT(told.times, 0);
    tools_release(lock, &grant);
    tools_check_free(lock, "a");
}

static void resume(void *ctx) {
    (void)ctx;
    every_lock.hang(false);
}

enum { RENEWED_KEYS = 600 };

static _Atomic int told_of[RENEWED_KEYS], told_late;

static void note_told(void *ctx, const struct lock_grant *grant) {
    told_of[strtol(grant->key, NULL, 10)]++;
    told_late += lock_now_ns(*(struct lock **)ctx) >= grant->deadline_ns;
    tools_on_lost(ctx, grant);
}

/* The store does not answer: each holder is told once, while it still has time to stop, though there are so
 * many grants that the store cannot be asked about all of them. */
static void not_renewed(void) {
    static struct lock *lock;
    struct lock_grant grants[RENEWED_KEYS];
    /* etcd is asked about many grants at once */
    int count = strncmp(every_lock.url, "etcd:", 5) == 0 ? RENEWED_KEYS : RENEWED_KEYS / 4;
    struct lock_config config = {.on_lost = note_told, .ctx = &lock};
    lock = tools_open(&config, renewed_url());
    int tries = 0;
    do { /* on a busy machine some may be lost before anything hangs */
        for (int i = 0; tries > 0 && i < count; i++)
            lock_release(lock, &grants[i]);
        told.times = told_late = 0;
        for (int i = 0; i < count; i++) {
            told_of[i] = 0;
            grants[i] = tools_acquire(lock, harness_format("%d", i));
        }
    } while (told.times > 0 && ++tries < 5);
    CHECK_INT(told.times, 0);
    harness_defer(resume, NULL);
    every_lock.hang(true);
    tools_wait_told(count);
    CHECK_INT(told_late, 0);
    for (int i = 0; i < count; i++) {
        CHECK_INT(told_of[i], 1);
        CHECK_INT(lock_remaining_ns(lock, &grants[i]), 0);
    }
    tools_check_status(lock_progress(lock, &grants[0]), LOCK_LOST);
    tools_check_status(lock_extend(lock, &grants[0]), LOCK_LOST);
    every_lock.hang(false);
    enum lock_status status = lock_release(lock, &grants[0]);
    CHECK(status == LOCK_OK || status == LOCK_NOT_OWNER || status == LOCK_UNKNOWN ||
          status == LOCK_UNAVAILABLE);
    tools_use_at_last(lock, "0");
}

/* ---- a store that hangs ---- */

/* No call is later than that; and so much may go by until a thread runs, on a machine with others on it. */
enum { HUNG_THREADS = 100, MANY_KEYS = 20, LATE_MS = 1000, CANCELLED_MS = 500, SLACK_MS = 2000 };

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
    if (strstr(every_lock.url, "variant=")) /* the calls to the store are the same */
        return;
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant held = tools_acquire(lock, "held"), many[MANY_KEYS];
    const char *names[MANY_KEYS];
    struct lock_cancel *cancel = tools_new_cancel();
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
        tools_use_at_last(lock, waiters[i]->key);
}

int main(int argc, char **argv) {
    static const struct every_lock_test tests[] = {
        {"a lost grant", lost_grant, true},
        {"renewed until it is released", renewed, true},
        {"not renewed in time", not_renewed, true},
        {"a hung store", hung_store, false},
    };
    harness_begin(argc, argv);
    every_lock_run(tests, sizeof tests / sizeof *tests, false);
    return harness_finish();
}
