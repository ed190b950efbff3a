/* How lock-bench measures one case, with a lock of the test: a right one, and one with each fault that must
 * be reported. (So this program has its own lock_open() and the like, and not those of liblock.) */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/bench/bench.h"
#include "lock/core/backend.h"
#include "lock/lock.h"
#include "test/harness.h"

/* ---- the lock: a mutex ---- */

struct lock {
    const char *does; /* its fault: the URL */
    pthread_mutex_t mutex;
    _Atomic uint64_t fence;
    _Atomic int arrivals;
    _Atomic uint64_t requests;
};

enum lock_status lock_open(const char *url, const struct lock_config *config, struct lock **lock, char *error,
                           size_t error_size) {
    (void)config;
    if (strcmp(url, "fake:config") == 0)
        return snprintf(error, error_size, "no such lock"), LOCK_CONFIG;
    struct lock *opened = calloc(1, sizeof *opened);
    opened->does = url;
    pthread_mutex_init(&opened->mutex, NULL);
    *lock = opened;
    return LOCK_OK;
}

void lock_close(struct lock *lock) {
    if (!lock)
        return;
    pthread_mutex_destroy(&lock->mutex);
    free(lock);
}

unsigned lock_caps(const struct lock *lock) {
    return LOCK_IS_SAFE | (strcmp(lock->does, "fake:no-fence") == 0 ? 0 : LOCK_CAN_FENCE);
}

int64_t lock_now_ns(const struct lock *lock) {
    (void)lock;
    return clock_mono_ns(&clock_system);
}

const char *lock_status_text(enum lock_status status) {
    return harness_format("status %d", (int)status);
}

void lock_read_metrics(const struct lock *lock, struct lock_metrics *metrics) {
    *metrics = (struct lock_metrics){.requests = lock->requests};
}

static bool does(const struct lock *lock, const char *what) {
    return strcmp(lock->does, what) == 0;
}

/* The first caller waits for ever; one of the others holds the lock at a time. */
static enum lock_status wait_for_ever(const struct cancel *cancel) {
    while (!cancel_called(cancel))
        usleep(1000);
    return LOCK_CANCELLED;
}

enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant) {
    (void)key, (void)deadline_ns;
    if (does(lock, "fake:unavailable"))
        return LOCK_UNAVAILABLE;
    if (does(lock, "fake:dies"))
        abort();
    if (does(lock, "fake:starves") && lock->arrivals++ == 20)
        return wait_for_ever(lock_cancel_of(cancel));
    if (!does(lock, "fake:lets-in"))
        pthread_mutex_lock(&lock->mutex);
    lock->requests += does(lock, "fake:requests");
    *grant = (struct lock_grant){.deadline_ns = INT64_MAX};
    grant->fence = does(lock, "fake:old-fence") ? 1 : ++lock->fence;
    return LOCK_OK;
}

enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant) {
    (void)grant;
    lock->requests += does(lock, "fake:requests");
    if (!does(lock, "fake:lets-in"))
        pthread_mutex_unlock(&lock->mutex);
    return does(lock, "fake:loses") ? LOCK_NOT_OWNER : LOCK_OK;
}

void lock_last_error(struct lock *lock, char *error, size_t error_size) {
    (void)lock;
    snprintf(error, error_size, "h:1: is away");
}

/* ---- rows ---- */

static volatile sig_atomic_t stop;
static char error[LOCK_ERROR_SIZE + 64];

static struct bench_row measure(const char *url, unsigned contenders, unsigned hold_us,
                                enum bench_run_status want) {
    struct bench_case what = {.url = url,
                              .shared = true,
                              .processes = 1,
                              .contenders = contenders,
                              .seconds = 0.2,
                              .hold_us = hold_us};
    struct bench_row row;
    enum bench_run_status got = bench_run(&what, &stop, &row, error, sizeof error);
    if (got != want)
        FAIL("%s: %d, %s", url, (int)got, error);
    return row;
}

/* Each fault is counted, and no other. */
static void faults(void) {
    static const struct {
        const char *url;
        unsigned contenders, hold_us;
        bool works, meets, lost_updates, old_fences, lost_grants, errors;
    } rows[] = {
        {"fake:", 3, 0, .works = true},
        {"fake:no-fence", 3, 0, .works = true},
        {"fake:old-fence", 2, 0, .works = true, .old_fences = true},
        {"fake:lets-in", 2, 100, .works = true, .meets = true, .lost_updates = true},
        {"fake:loses", 2, 0, .lost_grants = true},
        {"fake:unavailable", 2, 0, .errors = true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench_row row = measure(rows[i].url, rows[i].contenders, rows[i].hold_us, BENCH_DONE);
        CHECK_INT(row.pairs > 100, rows[i].works);
        CHECK_INT(row.two_holders > 0, rows[i].meets);
        CHECK_INT(row.lost_updates > 0, rows[i].lost_updates);
        if (!rows[i].meets) /* two at once have any fences */
            CHECK_INT(row.old_fences > 0, rows[i].old_fences);
        CHECK_INT(row.lost_grants > 0, rows[i].lost_grants);
        CHECK_INT(row.errors > 0, rows[i].errors);
        CHECK_INT(bench_wrong(&row), row.two_holders + row.lost_updates + row.old_fences + row.lost_grants);
        CHECK_INT(row.requests, 0);
    }
}

static void unavailable(void) {
    struct bench_row row = measure("fake:unavailable", 2, 0, BENCH_DONE);
    CHECK_INT(row.error, LOCK_UNAVAILABLE);
    CHECK_STR(row.why, "h:1: is away");
    CHECK(row.of_contender.most == 0 && row.wait_p99_us == 0);
}

/* It gets nothing, and its wait is reported though it never ends. */
static void starved(void) {
    struct bench_row row = measure("fake:starves", 2, 0, BENCH_DONE);
    CHECK(row.of_contender.least == 0);
    CHECK(row.of_contender.most == 2);
    CHECK(row.of_process.least == 1);
    CHECK(row.wait_max_us > 200000);
    CHECK(row.wait_p99_us < 100000);
    CHECK_INT(row.handovers, 0);
}

static void broken(void) {
    measure("fake:dies", 2, 0, BENCH_FAILED);
    CHECK_HAS(error, "a process was ended by signal 6");
    measure("fake:config", 2, 0, BENCH_FAILED);
    CHECK_HAS(error, "a process ended with status 1: no such lock");
}

static void stopped(void) {
    stop = 1;
    measure("fake:", 2, 0, BENCH_INTERRUPTED);
    stop = 0;
}

/* Two requests a pair. Each process reads its metrics up to a millisecond late, and later on a busy machine:
 * then it is measured again. */
static void requests(void) {
    enum { TRIES = 20 };
    double per_pair = 0;
    for (int i = 0; i < TRIES && (per_pair < 1.8 || per_pair > 2.2); i++) {
        struct bench_row row = measure("fake:requests", 2, 0, BENCH_DONE);
        CHECK(row.pairs > 0);
        per_pair = (double)row.requests / (double)row.pairs;
    }
    if (per_pair < 1.8 || per_pair > 2.2)
        FAIL("%f requests a pair", per_pair);
}

static void probe(const char *url, enum lock_status want, const char *says) {
    unsigned caps = 0;
    CHECK_INT(bench_probe(url, false, &caps, error, sizeof error), want);
    CHECK_HAS(error, says);
    if (want == LOCK_OK)
        CHECK_INT(caps, LOCK_IS_SAFE | LOCK_CAN_FENCE);
}

static void probes(void) {
    probe("fake:", LOCK_OK, "");
    CHECK_STR(error, "");
    probe("fake:config", LOCK_CONFIG, "no such lock");
    probe("fake:unavailable", LOCK_UNAVAILABLE, "does it run at this URL? h:1: is away");
    probe("fake:loses", LOCK_NOT_OWNER, "the lock cannot be acquired: status 5");
    probe("fake:dies", LOCK_UNKNOWN, "crashed");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("each fault", faults);
    harness_run("a store that is gone", unavailable);
    harness_run("a contender that starves", starved);
    harness_run("a process that crashes", broken);
    harness_run("interrupted", stopped);
    harness_run("requests", requests);
    harness_run("probes", probes);
    return harness_finish();
}
