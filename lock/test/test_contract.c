/* The contract of lock.h, for every lock that is safe. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/test/tools.h"

static const char *url;
/* Of its store: tests of a slow store make fewer calls. */
static int slowness;
/* Makes the store lose the grant of a key. NULL: the lock has no store. */
static void (*forget)(const char *key);

/* Pauses or resumes the store. NULL: the lock has no store. */
static void (*hang)(bool hangs);

static struct redis_server redis, nodes[3];
static struct redis_cluster cluster;
static struct redis_sentinel sentinel;
static struct zookeeper_server zookeeper;
static struct etcd_server etcd;

static void forget_in_redis(const char *key) {
    redis_command(&redis, "DEL", harness_format("lock:{%s}", key), NULL);
}

static void forget_in_cluster(const char *key) {
    const char *name = harness_format("lock:{%s}", key);
    redis_command(redis_cluster_of(&cluster, name), "DEL", name, NULL);
}

static void forget_at_the_master(const char *key) {
    redis_command(redis_sentinel_master(&sentinel), "DEL", harness_format("lock:{%s}", key), NULL);
}

static void forget_in_nodes(const char *key) {
    for (int i = 0; i < 3; i++)
        redis_command(&nodes[i], "DEL", harness_format("lock:{%s}", key), NULL);
}

static void forget_in_zookeeper(const char *key) {
    const char *path = harness_format("/lock/%s", key);
    zookeeper_delete(&zookeeper, harness_format("%s/%s", path, zookeeper_list(&zookeeper, path)));
}

static void forget_in_etcd(const char *key) {
    etcd_command(&etcd, "del", "--prefix", harness_format("lock/%s", key), NULL);
}

static void hang_redis(bool hangs) {
    (hangs ? redis_pause : redis_resume)(&redis);
}

static void hang_cluster(bool hangs) {
    for (int i = 0; i < cluster.count; i++)
        (hangs ? redis_pause : redis_resume)(&cluster.server[i]);
}

/* They would replace a master that hangs alone. */
static void hang_with_sentinels(bool hangs) {
    for (int i = 0; i < REDIS_SENTINELS; i++)
        (hangs ? redis_pause : redis_resume)(&sentinel.sentinel[i]);
    for (int i = 0; i < 2; i++)
        (hangs ? redis_pause : redis_resume)(&sentinel.server[i]);
}

static void hang_nodes(bool hangs) {
    for (int i = 0; i < 3; i++)
        (hangs ? redis_pause : redis_resume)(&nodes[i]);
}

static void hang_etcd(bool hangs) {
    (hangs ? etcd_pause : etcd_resume)(&etcd);
}

static void hang_zookeeper(bool hangs) {
    (hangs ? zookeeper_pause : zookeeper_resume)(&zookeeper);
}

static uint64_t waiting(const struct lock *lock) {
    struct lock_metrics metrics;
    lock_read_metrics(lock, &metrics);
    return metrics.waiting;
}

static struct lock *watched;
static uint64_t wanted;

static bool that_many_wait(void *arg) {
    (void)arg;
    return waiting(watched) == wanted;
}

static void wait_for_waiters(struct lock *lock, uint64_t count) {
    watched = lock;
    wanted = count;
    CHECK(harness_wait(that_many_wait, NULL, PATIENCE_MS));
}

/* ---- one thread ---- */

static void one_holder(void) {
    struct lock *lock = tools_open(NULL, url);
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
    struct lock *lock = tools_open(NULL, url);
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
    struct lock *lock = tools_open(NULL, url);
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
    struct lock *lock = tools_open(NULL, url);
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
    struct lock *lock = tools_open(NULL, url);
    struct lock_cancel *cancel = lock_cancel_new();
    struct lock_grant held = tools_acquire_elsewhere(lock, "a"), grant;
    lock_cancel(cancel);
    lock_cancel(cancel);
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 20000), cancel, &grant), LOCK_CANCELLED);
    tools_release(lock, &held);
    tools_check_free(lock, "a");
    lock_cancel_free(cancel);
    lock_cancel_free(NULL);
    lock_close(NULL);
}

static void metrics(void) {
    struct lock *lock = tools_open(NULL, url);
    struct lock_grant grant = tools_acquire_elsewhere(lock, "a");
    tools_check_held(lock, "a");
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 1), NULL, &grant), LOCK_TIMEOUT);
    tools_check_status(lock_try(lock, "", &grant), LOCK_CONFIG);
    tools_release(lock, &grant);
    struct lock_metrics metrics;
    lock_read_metrics(lock, &metrics);
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

/* An acquisition and its release that nothing disturbs. */
static int requests_least, requests_most;
static struct lock *requests_lock;
static uint64_t requests_before;

static uint64_t count_requests(const struct lock *lock) {
    struct lock_metrics metrics;
    lock_read_metrics(lock, &metrics);
    return metrics.requests;
}

static bool are_requested(void *arg) {
    (void)arg;
    uint64_t count = count_requests(requests_lock) - requests_before;
    return count >= (uint64_t)requests_least && count <= (uint64_t)requests_most;
}

static void requests(void) {
    struct lock *lock = requests_lock = tools_open(NULL, url);
    for (int i = 0; i < 3; i++) { /* the first may create a lease, load scripts, and so on */
        struct lock_grant grant = tools_acquire(lock, "a");
        tools_release(lock, &grant);
        if (i > 0)
            CHECK(harness_wait(are_requested, NULL, PATIENCE_MS)); /* redlock's threads send them later */
        harness_pause_ms(i == 0 ? 200 : 0);
        requests_before = count_requests(lock);
    }
}

static void extend(void) {
    struct lock *lock = tools_open(NULL, url);
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

static _Atomic int lost_times;
static struct lock_grant lost;

static void on_lost(void *ctx, const struct lock_grant *grant) {
    (void)ctx;
    lost = *grant;
    lost_times++;
}

static bool is_lost(void *arg) {
    (void)arg;
    return lost_times > 0;
}

/* The store loses the grant: its holder is told before the deadline, and the next owner gets the lock. */
static void lost_grant(void) {
    if (!forget)
        return;
    lost_times = 0;
    struct lock_config config = {.on_lost = on_lost, .ttl_ms = 3000};
    struct lock *lock = tools_open(&config, url);
    struct lock_grant grant = tools_acquire(lock, "a");
    forget("a");
    CHECK(harness_wait(is_lost, NULL, PATIENCE_MS));
    CHECK(lock_now_ns(lock) < grant.deadline_ns);
    CHECK_STR(lost.owner, grant.owner);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    struct lock_grant next = tools_acquire_elsewhere(lock, "a");
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    tools_release(lock, &next);
    CHECK_INT(lost_times, 1);
}

static const char *url_with(const char *option) {
    return harness_format("%s%c%s", url, strchr(url, '?') ? '&' : '?', option);
}

enum { RENEWED_TTL_MS = 2000 };

static struct lock *open_renewed(void) {
    lost_times = 0;
    struct lock_config config = {.on_lost = on_lost, .ttl_ms = RENEWED_TTL_MS};
    return tools_open(&config, url_with("renew=on"));
}

/* The holder reports nothing, and holds it for longer than its time to live. */
static void renewed(void) {
    if (!hang) /* local: */
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
    hang(false);
}

/* A deadline as its holder sees it, and how long it was when it was new. */
struct deadline {
    int64_t until_ns, long_ns;
};

static void see(struct deadline *deadline, const struct lock *lock, const struct lock_grant *grant) {
    int64_t left_ns = lock_remaining_ns(lock, grant), until_ns = lock_now_ns(lock) + left_ns;
    if (left_ns > 0 && until_ns > deadline->until_ns + RENEWED_TTL_MS * 1000000LL / 10)
        *deadline = (struct deadline){.until_ns = until_ns, .long_ns = left_ns};
}

/* A third of it is promised. Half of that may go by until a thread runs, on a machine with others on it. */
static void check_in_time(const struct deadline *deadline, int64_t told_ns) {
    if (told_ns > deadline->until_ns - deadline->long_ns / 6)
        FAIL("%lld ms before the deadline, which was %lld ms away",
             (long long)(deadline->until_ns - told_ns) / 1000000, (long long)deadline->long_ns / 1000000);
}

/* The store does not answer: the holder is told while it still has time to stop. */
static void not_renewed(void) {
    if (!hang)
        return;
    struct lock *lock = open_renewed();
    struct lock_grant grant = tools_acquire(lock, "a");
    struct deadline deadline = {.until_ns = 0};
    see(&deadline, lock, &grant);
    harness_defer(resume, NULL);
    hang(true);
    for (int64_t began_ms = harness_now_ms(); lost_times == 0; harness_pause_ms(1)) {
        CHECK(harness_now_ms() - began_ms < PATIENCE_MS);
        see(&deadline, lock, &grant);
    }
    check_in_time(&deadline, lock_now_ns(lock));
    CHECK_STR(lost.owner, grant.owner);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    tools_check_status(lock_progress(lock, &grant), LOCK_LOST);
    tools_check_status(lock_extend(lock, &grant), LOCK_LOST);
    hang(false);
    enum lock_status status = lock_release(lock, &grant);
    CHECK(status == LOCK_OK || status == LOCK_NOT_OWNER || status == LOCK_UNKNOWN ||
          status == LOCK_UNAVAILABLE);
    tools_check_status(lock_acquire_for(lock, "a", PATIENCE_MS, &grant), LOCK_OK);
    CHECK_INT(lost_times, 1);
    tools_release(lock, &grant);
}

enum { RENEWED_KEYS = 600 };

static _Atomic int64_t told_ns[RENEWED_KEYS];

static void note_told(void *ctx, const struct lock_grant *grant) {
    told_ns[strtol(grant->key, NULL, 10)] = lock_now_ns(*(struct lock **)ctx);
    lost_times++;
}

static bool can_be_had(void *lock) {
    struct lock_grant grant;
    return lock_acquire_for(lock, "a", PATIENCE_MS, &grant) == LOCK_OK &&
           lock_release(lock, &grant) == LOCK_OK;
}

/* The same with so many grants that the store cannot be asked about all of them: each holder is told in
 * time before the deadline that its grant had last. */
static void many_not_renewed(void) {
    static struct lock *lock;
    struct lock_grant grants[RENEWED_KEYS];
    struct deadline deadlines[RENEWED_KEYS] = {{.until_ns = 0}};
    int count = hang == hang_etcd ? RENEWED_KEYS : RENEWED_KEYS / 4; /* etcd is asked about many at once */
    if (!hang)
        return;
    struct lock_config config = {.on_lost = note_told, .ctx = &lock, .ttl_ms = RENEWED_TTL_MS};
    lock = tools_open(&config, url_with("renew=on"));
    int tries = 0;
    do { /* on a busy machine some may be lost before anything hangs */
        for (int i = 0; tries > 0 && i < count; i++)
            lock_release(lock, &grants[i]);
        lost_times = 0;
        for (int i = 0; i < count; i++) {
            told_ns[i] = 0;
            grants[i] = tools_acquire(lock, harness_format("%d", i));
        }
    } while (lost_times > 0 && ++tries < 5);
    CHECK_INT(lost_times, 0);
    for (int i = 0; i < count; i++)
        see(&deadlines[i], lock, &grants[i]);
    harness_defer(resume, NULL);
    hang(true);
    for (int64_t began_ms = harness_now_ms(); lost_times < count; harness_pause_ms(1)) {
        CHECK(harness_now_ms() - began_ms < PATIENCE_MS);
        for (int i = 0; i < count; i++)
            see(&deadlines[i], lock, &grants[i]);
    }
    for (int i = 0; i < count; i++)
        check_in_time(&deadlines[i], told_ns[i]);
    hang(false);
    CHECK(harness_wait(can_be_had, lock, PATIENCE_MS));
}

/* ---- several keys ---- */

static void all_or_nothing(void) {
    struct lock *lock = tools_open(NULL, url);
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
    struct crowd crowd = {.lock = tools_open(NULL, url), .rounds = rounds, .seed = harness_seed()};
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
    run_crowd(take_turns, 300 / slowness);
}

static void anything(void) {
    run_crowd(do_anything, 500 / slowness);
}

struct queuer {
    pthread_t thread;
    struct lock *lock;
    struct lock_cancel *cancel;
    enum lock_status status;
    int place;
    _Atomic int *places;
};

static void *queue_up(void *arg) {
    struct queuer *queuer = arg;
    struct lock_grant grant;
    queuer->status =
        lock_acquire(queuer->lock, "a", tools_in_ms(queuer->lock, PATIENCE_MS), queuer->cancel, &grant);
    if (queuer->status != LOCK_OK)
        return NULL;
    queuer->place = (*queuer->places)++;
    tools_release(queuer->lock, &grant);
    return NULL;
}

/* They queue one after the other. Two in the middle give up; the others still get it in order. */
static void in_order(void) {
    struct lock *lock = tools_open(NULL, url);
    struct lock_grant held = tools_acquire(lock, "a");
    struct lock_cancel *cancel = lock_cancel_new();
    struct queuer queuers[THREADS];
    _Atomic int places = 0;
    for (int i = 0; i < THREADS; i++) {
        queuers[i] = (struct queuer){.lock = lock, .place = -1, .places = &places};
        queuers[i].cancel = i == 0 || i == 5 ? cancel : NULL;
        CHECK_INT(pthread_create(&queuers[i].thread, NULL, queue_up, &queuers[i]), 0);
        wait_for_waiters(lock, (uint64_t)i + 1);
    }
    lock_cancel(cancel);
    pthread_join(queuers[0].thread, NULL);
    pthread_join(queuers[5].thread, NULL);
    tools_check_status(queuers[0].status, LOCK_CANCELLED);
    tools_check_status(queuers[5].status, LOCK_CANCELLED);
    CHECK_INT(places, 0);
    tools_release(lock, &held);
    for (int i = 1, place = 0; i < THREADS; i++) {
        if (i == 5)
            continue;
        pthread_join(queuers[i].thread, NULL);
        tools_check_status(queuers[i].status, LOCK_OK);
        if (lock_caps(lock) & LOCK_IS_FAIR)
            CHECK_INT(queuers[i].place, place++);
    }
    tools_check_free(lock, "a");
    lock_cancel_free(cancel);
}

/* A thread that releases and acquires again at once comes after those that wait. */
static void no_queue_jumping(void) {
    struct lock *lock = tools_open(NULL, url);
    if (!(lock_caps(lock) & LOCK_IS_FAIR))
        return;
    for (int i = 0; i < 200; i++) {
        struct lock_grant held = tools_acquire(lock, "a"), again;
        _Atomic int places = 0;
        struct queuer queuer = {.lock = lock, .places = &places};
        CHECK_INT(pthread_create(&queuer.thread, NULL, queue_up, &queuer), 0);
        watched = lock;
        wanted = 1;
        while (!that_many_wait(NULL))
            sched_yield();
        tools_release(lock, &held);
        enum lock_status status = lock_try(lock, "a", &again);
        bool was_first = places == 1;
        if (status == LOCK_OK)
            tools_release(lock, &again);
        pthread_join(queuer.thread, NULL);
        CHECK(status == LOCK_BUSY || was_first);
        tools_check_status(queuer.status, LOCK_OK);
    }
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
    if (!hang)
        return;
    struct lock *lock = tools_open(NULL, url);
    struct lock_grant held = tools_acquire(lock, "held"), many[MANY_KEYS];
    const char *names[MANY_KEYS];
    struct lock_cancel *cancel = lock_cancel_new();
    for (int i = 0; i < MANY_KEYS; i++)
        names[i] = harness_format("many-%d", i);
    tools_check_status(lock_acquire_all(lock, names, MANY_KEYS, tools_in_ms(lock, PATIENCE_MS), NULL, many),
                       LOCK_OK);
    harness_defer(resume, NULL); /* before it is closed */
    hang(true);
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
    hang(false);
    for (int i = 0; i < HUNG_THREADS; i++)
        CHECK(harness_wait(is_free, waiters[i], PATIENCE_MS));
    lock_cancel_free(cancel);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {
        {"one holder", one_holder},
        {"only the owner releases", only_the_owner_releases},
        {"keys", keys},
        {"time-out", time_out},
        {"cancelled before", cancelled_before},
        {"metrics", metrics},
        {"requests", requests},
        {"extend", extend},
        {"a lost grant", lost_grant},
        {"renewed until it is released", renewed},
        {"not renewed in time", not_renewed},
        {"many are not renewed in time", many_not_renewed},
        {"several keys, all or nothing", all_or_nothing},
        {"exclusion", exclusion},
        {"in order, and some give up", in_order},
        {"no thread jumps the queue", no_queue_jumping},
        {"a hung store", hung_store},
        {"anything at random", anything},
    };
    harness_begin(argc, argv);
    redis_start(&redis, NULL);
    for (int i = 0; i < 3; i++)
        redis_start(&nodes[i], "--appendonly", "no", NULL); /* three that wait for one disk would be slow */
    zookeeper_start(&zookeeper);
    etcd_start(&etcd, NULL);
    redis_cluster_start(&cluster, 3, 0);
    redis_sentinel_start(&sentinel);
    const char *one = harness_format("redis://127.0.0.1:%d", redis.port);
    const struct {
        const char *url;
        void (*forget)(const char *key);
        void (*hang)(bool hangs);
        int slowness, requests_least, requests_most;
    } locks[] = {
        {"local:", NULL, NULL, 1, 0, 0},
        {one, forget_in_redis, hang_redis, 1, 2, 2},
        {harness_format("%s?variant=watchdog", one), forget_in_redis, hang_redis, 1, 2, 2},
        {redis_cluster_url(&cluster), forget_in_cluster, hang_cluster, 1, 2, 2},
        {harness_format("%s?variant=watchdog", redis_cluster_url(&cluster)), forget_in_cluster, hang_cluster,
         1, 2, 2},
        {redis_sentinel_url(&sentinel), forget_at_the_master, hang_with_sentinels, 1, 2, 2},
        {harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0].port, nodes[1].port,
                        nodes[2].port),
         forget_in_nodes, hang_nodes, 1, 6, 6},
        {harness_format("etcd://127.0.0.1:%d", etcd.port), forget_in_etcd, hang_etcd, 3, 2, 2},
        {harness_format("etcd://127.0.0.1:%d?variant=fixed-key", etcd.port), forget_in_etcd, hang_etcd, 3, 2,
         2},
        /* The most: its server has removed the empty container. */
        {harness_format("zookeeper://127.0.0.1:%d", zookeeper.port), forget_in_zookeeper, hang_zookeeper, 5,
         3, 8},
    };
    for (size_t u = 0; u < sizeof locks / sizeof *locks; u++) {
        url = locks[u].url;
        forget = locks[u].forget;
        hang = locks[u].hang;
        slowness = locks[u].slowness;
        requests_least = locks[u].requests_least;
        requests_most = locks[u].requests_most;
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
            harness_run(harness_format("%s %s", url, tests[i].name), tests[i].test);
    }
    return harness_finish();
}
