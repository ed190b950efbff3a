/* The contract of lock.h, for every lock that is safe, while its store works. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "lock/test/every_lock.h"

/* ---- one thread ---- */

static void one_holder(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant first = tools_acquire(lock, "a");
    CHECK(first.deadline_ns == INT64_MAX || first.deadline_ns <= lock_now_ns(lock) + lock_ttl_ns(lock));
    tools_check_held(lock, "a");
    tools_check_free(lock, "b");
    tools_release(lock, &first);
    struct lock_grant second = tools_acquire(lock, "a");
    CHECK_INT(strlen(first.owner), LOCK_OWNER_SIZE - 1);
    CHECK(strcmp(first.owner, second.owner) != 0);
    if (lock_caps(lock) & LOCK_CAN_FENCE)
        CHECK(second.fence > first.fence);
    else
        CHECK_INT(first.fence + second.fence, 0);
    tools_release(lock, &second);
}

static void only_the_owner_releases(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant first = tools_acquire(lock, "a"), foreign = first;
    foreign.owner[0] ^= 1;
    tools_check_status(lock_release(lock, &foreign), LOCK_NOT_OWNER);
    tools_check_held(lock, "a");
    tools_release(lock, &first);
    tools_check_status(lock_release(lock, &first), LOCK_NOT_OWNER);
    struct lock_grant second = tools_acquire(lock, "a");
    tools_check_status(lock_release(lock, &first), LOCK_NOT_OWNER);
    tools_check_held(lock, "a");
    tools_release(lock, &second);
    tools_check_free(lock, "a");
}

static void keys(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    char longest[LOCK_KEY_MAX + 2];
    memset(longest, 'k', sizeof longest);
    longest[LOCK_KEY_MAX] = '\0';
    tools_check_free(lock, longest);
    tools_check_free(lock, "!\"$%&/{}~");
    longest[LOCK_KEY_MAX] = 'k';
    longest[LOCK_KEY_MAX + 1] = '\0';
    const char *const bad[] = {"", " ", "a b", "a\n", "\x7f", "\xc3\xa4", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lock_grant grant = {.fence = 77};
        tools_check_status(lock_try(lock, bad[i], &grant), LOCK_CONFIG);
        CHECK_INT(grant.fence, 77);
    }
}

static void time_out(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant held = tools_acquire_elsewhere(lock, "a"), grant = {.fence = 77};
    int64_t began_ns = lock_now_ns(lock);
    tools_check_status(lock_acquire(lock, "a", began_ns + 30000000, NULL, &grant), LOCK_TIMEOUT);
    CHECK(lock_now_ns(lock) - began_ns >= 30000000);
    tools_check_status(lock_acquire(lock, "a", began_ns, NULL, &grant), LOCK_TIMEOUT);
    tools_check_status(lock_acquire(lock, "a", INT64_MIN, NULL, &grant), LOCK_TIMEOUT);
    began_ns = lock_now_ns(lock);
    tools_check_status(lock_acquire_for(lock, "a", 30, &grant), LOCK_TIMEOUT);
    CHECK(lock_now_ns(lock) - began_ns >= 30000000);
    tools_check_status(lock_acquire_for(lock, "a", 0, &grant), LOCK_TIMEOUT);
    tools_check_status(lock_acquire_for(lock, "a", INT64_MIN, &grant), LOCK_TIMEOUT);
    CHECK_INT(grant.fence, 77);
    tools_release(lock, &held);
    tools_check_status(lock_acquire_for(lock, "a", INT64_MAX, &grant), LOCK_OK);
    tools_release(lock, &grant);
    tools_check_free(lock, "a");
}

static void cancelled_before(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_cancel *cancel = tools_new_cancel();
    struct lock_grant held = tools_acquire_elsewhere(lock, "a"), grant;
    lock_cancel(cancel);
    lock_cancel(cancel);
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 20000), cancel, &grant), LOCK_CANCELLED);
    tools_release(lock, &held);
    tools_check_free(lock, "a");
    lock_cancel_free(NULL);
    lock_close(NULL);
}

static void metrics(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant grant = tools_acquire_elsewhere(lock, "a");
    tools_check_held(lock, "a");
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 1), NULL, &grant), LOCK_TIMEOUT);
    tools_check_status(lock_try(lock, "", &grant), LOCK_CONFIG);
    tools_release(lock, &grant);
    struct lock_metrics metrics = tools_metrics(lock);
    CHECK_INT(metrics.acquired, 1);
    CHECK_INT(metrics.busy, 1);
    CHECK_INT(metrics.timeouts, 1);
    CHECK_INT(metrics.cancelled, 0);
    CHECK_INT(metrics.failed, 1);
    CHECK_INT(metrics.released, 1);
    CHECK_INT(metrics.waiting, 0);
    CHECK(metrics.hold_ns >= 1000000); /* the timed-out attempt waited so long for it */
    CHECK(metrics.hold_ns < PATIENCE_MS * 1000000ULL);
}

static uint64_t requests_before;

static bool are_requested(void *lock) {
    uint64_t count = tools_metrics(lock).requests - requests_before;
    return count >= (uint64_t)every_lock.requests_least && count <= (uint64_t)every_lock.requests_most;
}

static void requests(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    for (int i = 0; i < 3; i++) { /* the first may create a lease, load scripts, and so on */
        tools_use(lock, "a");
        if (i > 0)
            CHECK(harness_wait(are_requested, lock, PATIENCE_MS)); /* redlock's threads send them later */
        harness_pause_ms(i == 0 ? 200 : 0);
        requests_before = tools_metrics(lock).requests;
    }
}

static void extend(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant grant = tools_acquire(lock, "a"), foreign = grant;
    int64_t before_ns = grant.deadline_ns;
    harness_pause_ms(2);
    if (!(lock_caps(lock) & LOCK_CAN_EXTEND)) {
        tools_check_status(lock_extend(lock, &grant), LOCK_CONFIG);
        return;
    }
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    CHECK(grant.deadline_ns > before_ns);
    CHECK(lock_remaining_ns(lock, &grant) > 0);
    tools_check_status(lock_progress(lock, &grant), LOCK_OK);
    foreign.owner[0] ^= 1;
    before_ns = foreign.deadline_ns;
    tools_check_status(lock_extend(lock, &foreign), LOCK_LOST);
    CHECK_INT(foreign.deadline_ns, before_ns);
    tools_release(lock, &grant);
    tools_check_status(lock_extend(lock, &grant), LOCK_LOST);
    tools_check_status(lock_progress(lock, &grant), LOCK_LOST);
}

/* ---- several keys ---- */

static void all_or_nothing(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    const char *const names[] = {"c", "a", "b", "a"};
    struct lock_grant grants[4], held;
    tools_check_status(lock_acquire_all(lock, names, 4, tools_in_ms(lock, 20000), NULL, grants), LOCK_OK);
    for (int i = 0; i < 4; i++) {
        CHECK_STR(grants[i].key, names[i]);
        tools_check_held(lock, names[i]);
    }
    CHECK_STR(grants[1].owner, grants[3].owner);
    tools_check_status(lock_release_all(lock, grants, 4), LOCK_OK);
    tools_check_status(lock_release_all(lock, grants, 4), LOCK_NOT_OWNER);
    for (int i = 0; i < 4; i++) {
        held = tools_acquire_elsewhere(lock, names[i]);
        grants[0].fence = 77;
        tools_check_status(lock_acquire_all(lock, names, 4, tools_in_ms(lock, 2), NULL, grants),
                           LOCK_TIMEOUT);
        CHECK_INT(grants[0].fence, 77);
        tools_release(lock, &held);
        for (int k = 0; k < 4; k++)
            tools_check_free(lock, names[k]);
    }
    const char *const bad[] = {"a", "", "b"};
    tools_check_status(lock_acquire_all(lock, bad, 3, tools_in_ms(lock, 20000), NULL, grants), LOCK_CONFIG);
    tools_check_free(lock, "a");
    tools_check_free(lock, "b");
    tools_check_status(lock_acquire_all(lock, names, 0, tools_in_ms(lock, 20000), NULL, grants), LOCK_OK);
    tools_check_status(lock_release_all(lock, grants, 0), LOCK_OK);
}

/* ---- many threads ---- */

enum { THREADS = 12, KEYS = 5 };

struct crowd {
    struct lock *lock;
    int rounds;
    uint64_t seed;
    /* A key's holder counts without any care: two at once would lose a step, and are seen by `inside`. */
    volatile long counts[KEYS];
    uint64_t fences[KEYS]; /* the newest */
    _Atomic int inside[KEYS];
    _Atomic long wanted[KEYS];
    _Atomic int next;
};

static const char *const key_names[KEYS] = {"k0", "k1", "k2", "k3", "k4"};

static void work(struct crowd *crowd, int key, const struct lock_grant *grant) {
    CHECK_INT(crowd->inside[key]++, 0);
    CHECK(grant->fence > crowd->fences[key] || !(lock_caps(crowd->lock) & LOCK_CAN_FENCE));
    crowd->fences[key] = grant->fence;
    long before = crowd->counts[key];
    sched_yield();
    crowd->counts[key] = before + 1;
    crowd->wanted[key]++;
    CHECK_INT(--crowd->inside[key], 0);
}

static void *take_turns(void *arg) {
    struct crowd *crowd = arg;
    for (int i = 0; i < crowd->rounds; i++) {
        struct lock_grant grant = tools_acquire(crowd->lock, "k0");
        work(crowd, 0, &grant);
        tools_release(crowd->lock, &grant);
    }
    return NULL;
}

/* Anything at random: one key or some, trying, short and long deadlines, cancelling. */
static void *do_anything(void *arg) {
    struct crowd *crowd = arg;
    uint64_t random = crowd->seed + (uint64_t)crowd->next++ * 1000003;
    for (int i = 0; i < crowd->rounds; i++) {
        uint64_t what = harness_random(&random) % 8, most = what < 4 ? 1 : KEYS;
        struct lock_grant grants[KEYS];
        const char *names[KEYS];
        int chosen[KEYS];
        size_t count = 1 + harness_random(&random) % most;
        for (size_t k = 0; k < count; k++) {
            chosen[k] = (int)(harness_random(&random) % KEYS);
            names[k] = key_names[chosen[k]];
        }
        struct lock_cancel *cancel = what == 7 ? lock_cancel_new() : NULL;
        if (cancel && harness_random(&random) % 2)
            lock_cancel(cancel);
        int64_t ms = harness_random(&random) % 3 ? 20000 : (int64_t)(harness_random(&random) % 3);
        enum lock_status status = what == 0 ? lock_try(crowd->lock, names[0], grants)
                                            : lock_acquire_all(crowd->lock, names, count,
                                                               tools_in_ms(crowd->lock, ms), cancel, grants);
        if (status == LOCK_OK) {
            for (size_t k = 0; k < count; k++) {
                bool again = false;
                for (size_t j = 0; j < k; j++)
                    again |= chosen[j] == chosen[k];
                if (!again)
                    work(crowd, chosen[k], &grants[k]);
            }
            tools_check_status(lock_release_all(crowd->lock, grants, count), LOCK_OK);
        } else {
            CHECK(status == LOCK_BUSY || status == LOCK_TIMEOUT || status == LOCK_CANCELLED);
            CHECK(status != LOCK_TIMEOUT || ms < 20000);
        }
        lock_cancel_free(cancel);
    }
    return NULL;
}

static void run_crowd(void *(*fn)(void *arg), int rounds) {
    struct crowd crowd = {.lock = tools_open(NULL, every_lock.url), .rounds = rounds, .seed = harness_seed()};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, fn, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(!harness_failed());
    long all = 0;
    for (int i = 0; i < KEYS; i++) {
        CHECK_INT(crowd.counts[i], crowd.wanted[i]);
        all += crowd.counts[i];
        tools_check_free(crowd.lock, key_names[i]);
    }
    CHECK(all > rounds);
}

static void exclusion(void) {
    run_crowd(take_turns, 300 / every_lock.slowness);
}

static void anything(void) {
    run_crowd(do_anything, 500 / every_lock.slowness);
}

static _Atomic int places;

/* Releases at once; what it has in the end is its place. */
static void *queue_up(void *arg) {
    struct tools_waiter *waiter = arg;
    waiter->status = lock_acquire(waiter->lock, "a", waiter->deadline_ns, waiter->cancel, &waiter->grant);
    if (waiter->status == LOCK_OK) {
        int place = places++;
        tools_release(waiter->lock, &waiter->grant);
        waiter->grant.fence = (uint64_t)place;
    }
    return NULL;
}

static struct tools_waiter *start_queuer(struct lock *lock, struct lock_cancel *cancel) {
    return tools_wait_by(queue_up, lock, "a", PATIENCE_MS, cancel);
}

/* They queue one after the other. Two in the middle give up; the others still get it in order. */
static void in_order(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    struct lock_grant held = tools_acquire(lock, "a");
    struct lock_cancel *cancel = tools_new_cancel();
    struct tools_waiter *queuers[THREADS];
    places = 0;
    for (int i = 0; i < THREADS; i++) {
        queuers[i] = start_queuer(lock, i == 0 || i == 5 ? cancel : NULL);
        tools_wait_for_waiters(lock, (uint64_t)i + 1);
    }
    lock_cancel(cancel);
    tools_check_status(tools_join(queuers[0]), LOCK_CANCELLED);
    tools_check_status(tools_join(queuers[5]), LOCK_CANCELLED);
    CHECK_INT(places, 0);
    tools_release(lock, &held);
    for (int i = 1, place = 0; i < THREADS; i++) {
        if (i == 5)
            continue;
        tools_check_status(tools_join(queuers[i]), LOCK_OK);
        if (lock_caps(lock) & LOCK_IS_FAIR)
            CHECK_INT(queuers[i]->grant.fence, place++);
    }
    tools_check_free(lock, "a");
}

/* A thread that releases and acquires again at once comes after those that wait. */
static void no_queue_jumping(void) {
    struct lock *lock = tools_open(NULL, every_lock.url);
    if (!(lock_caps(lock) & LOCK_IS_FAIR))
        return;
    for (int i = 0; i < 100; i++) {
        struct lock_grant held = tools_acquire(lock, "a"), again;
        places = 0;
        struct tools_waiter *queuer = start_queuer(lock, NULL);
        while (tools_metrics(lock).waiting == 0)
            sched_yield();
        tools_release(lock, &held);
        enum lock_status status = lock_try(lock, "a", &again);
        bool was_first = places == 1;
        if (status == LOCK_OK)
            tools_release(lock, &again);
        tools_check_status(tools_join(queuer), LOCK_OK);
        CHECK(status == LOCK_BUSY || was_first);
    }
}

int main(int argc, char **argv) {
    static const struct every_lock_test tests[] = {
        {"one holder", one_holder, false},
        {"only the owner releases", only_the_owner_releases, false},
        {"keys", keys, true},
        {"time-out", time_out, true},
        {"cancelled before", cancelled_before, true},
        {"metrics", metrics, true},
        {"requests", requests, false},
        {"extend", extend, false},
        {"several keys, all or nothing", all_or_nothing, true},
        {"exclusion", exclusion, false},
        {"in order, and some give up", in_order, false},
        {"no thread jumps the queue", no_queue_jumping, true},
        {"anything at random", anything, false},
    };
    harness_begin(argc, argv);
    every_lock_run(tests, sizeof tests / sizeof *tests, true);
    return harness_finish();
}
