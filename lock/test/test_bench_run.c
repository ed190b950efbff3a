/* How lock-bench measures one row, with a lock made here: in order, or out of order in every way that must be
 * noticed. (So this program has its own lock_open() and the like, and not those of liblock.) */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/bench/probe.h"
#include "lock/bench/run.h"
#include "lock/core/waiter.h"
#include "lock/lock.h"
#include "lock/redis/connection.h"
#include "test/harness.h"

/* ---- the lock: a mutex, and Redis where its URL says so ---- */

struct lock {
    const char *does; /* what it does wrong: the URL */
    pthread_mutex_t mutex;
    _Atomic uint64_t fence;
    _Atomic int arrivals;
    struct redis_connection *connection;
};

static const char acquires[] = "redis.call('SET', KEYS[1], 1) return redis.call('INCR', KEYS[1])";
static const char releases[] = "return redis.call('DEL', KEYS[1])";

enum lock_status lock_open(const char *url, const struct lock_config *config, struct lock **lock, char *error,
                           size_t error_size) {
    (void)config;
    if (strcmp(url, "fake:config") == 0)
        return snprintf(error, error_size, "no such lock"), LOCK_CONFIG;
    struct lock *opened = calloc(1, sizeof *opened);
    opened->does = url;
    pthread_mutex_init(&opened->mutex, NULL);
    struct redis_target target;
    if (strncmp(url, "redis:", 6) == 0 && redis_target_parse(&target, url, error, error_size))
        opened->connection = redis_connection_open(&target, 5000, NULL);
    *lock = opened;
    return LOCK_OK;
}

void lock_close(struct lock *lock) {
    if (!lock)
        return;
    redis_connection_close(lock->connection);
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

static void eval(struct lock *lock, const char *script) {
    const char *argv[] = {"EVAL", script, "1", "key"};
    struct redis_answer answer;
    if (lock->connection && redis_connection_call(lock->connection, 4, argv, &answer, NULL) != LOCK_OK)
        abort();
}

static bool does(const struct lock *lock, const char *what) {
    return strcmp(lock->does, what) == 0;
}

/* The first who comes here waits for ever; of the others one has the lock at a time. */
static enum lock_status wait_for_ever(const struct lock_cancel *cancel) {
    while (!lock_cancel_called(cancel))
        usleep(1000);
    return LOCK_CANCELLED;
}

enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant) {
    (void)key;
    (void)deadline_ns;
    if (does(lock, "fake:unavailable"))
        return LOCK_UNAVAILABLE;
    if (does(lock, "fake:dies"))
        abort();
    if (does(lock, "fake:starves") && lock->arrivals++ == 20)
        return wait_for_ever(cancel);
    if (!does(lock, "fake:lets-in"))
        pthread_mutex_lock(&lock->mutex);
    eval(lock, acquires);
    *grant = (struct lock_grant){.deadline_ns = INT64_MAX};
    grant->fence = does(lock, "fake:old-fence") ? 1 : ++lock->fence;
    return LOCK_OK;
}

enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant) {
    (void)grant;
    eval(lock, releases);
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

static struct bench_row measure(const char *url, unsigned contenders, struct bench_store *store,
                                enum bench_run_status want) {
    struct bench_case what = {
        .url = url, .shared = true, .processes = 1, .contenders = contenders, .seconds = 0.2};
    struct bench_row row;
    enum bench_run_status got = bench_run(&what, store, &stop, &row, error, sizeof error);
    if (got != want)
        FAIL("%s: %d, %s", url, (int)got, error);
    return row;
}

static void in_order(void) {
    static const char *const urls[] = {"fake:", "fake:no-fence"};
    for (size_t i = 0; i < 2; i++) {
        struct bench_row row = measure(urls[i], 3, NULL, BENCH_DONE);
        CHECK_INT(bench_wrong(&row), 0);
        CHECK_INT(row.errors, 0);
        CHECK(row.pairs > 100 && row.handovers > 0);
        CHECK(row.commands.per_pair < 0 && row.calls.per_handover < 0);
    }
}

static void old_fences(void) {
    struct bench_row row = measure("fake:old-fence", 2, NULL, BENCH_DONE);
    CHECK_INT(row.met + row.lost_updates, 0);
    CHECK(row.old_fences >= row.pairs);
}

static void two_at_once(void) {
    struct bench_case what = {.url = "fake:lets-in",
                              .shared = true,
                              .processes = 1,
                              .contenders = 2,
                              .seconds = 0.2,
                              .hold_us = 100};
    struct bench_row row;
    CHECK_INT(bench_run(&what, NULL, &stop, &row, error, sizeof error), BENCH_DONE);
    CHECK(row.met > 0 && row.lost_updates > 0);
}

static void lost_grants(void) {
    struct bench_row row = measure("fake:loses", 2, NULL, BENCH_DONE);
    CHECK_INT(row.pairs, 0);
    CHECK(row.lost_grants > 100);
    CHECK_INT(row.errors, 0);
    CHECK_INT(bench_wrong(&row), row.lost_grants);
}

static void unavailable(void) {
    struct bench_row row = measure("fake:unavailable", 2, NULL, BENCH_DONE);
    CHECK_INT(row.pairs, 0);
    CHECK(row.errors > 10);
    CHECK_INT(row.error, LOCK_UNAVAILABLE);
    CHECK_STR(row.why, "h:1: is away");
    CHECK(row.of_contender.most == 0 && row.wait_p99_us == 0);
}

/* It gets nothing, and how long it has waited is told though it never ends. */
static void starved(void) {
    struct bench_row row = measure("fake:starves", 2, NULL, BENCH_DONE);
    CHECK(row.of_contender.least == 0);
    CHECK(row.of_contender.most == 2);
    CHECK(row.of_process.least == 1);
    CHECK(row.wait_max_us > 200000);
    CHECK(row.wait_p99_us < 100000);
    CHECK_INT(row.handovers, 0);
}

static void broken(void) {
    measure("fake:dies", 2, NULL, BENCH_FAILED);
    CHECK_HAS(error, "a process was ended by signal 6");
    measure("fake:config", 2, NULL, BENCH_FAILED);
    CHECK_HAS(error, "a process ended with status 1: no such lock");
}

static void stopped(void) {
    stop = 1;
    measure("fake:", 2, NULL, BENCH_INTERRUPTED);
    stop = 0;
}

/* Two scripts a pair, that call three commands. */
static void commands(void) {
    struct redis_server redis;
    redis_start(&redis, "--appendfsync", "no", NULL); /* a busy disk would leave few pairs */
    const char *url = harness_format("redis://127.0.0.1:%d", redis.port);
    struct bench_store *store = bench_store_open(url, error, sizeof error);
    CHECK(store != NULL);
    struct bench_row row = measure(url, 2, store, BENCH_DONE);
    /* The sample of calls is short. Where the machine is busy it hears but a pair or two, and half of one. */
    for (int i = 0; i < 5 && (row.calls.per_pair < 1.8 || row.calls.per_pair > 2.2); i++)
        row = measure(url, 2, store, BENCH_DONE);
    bench_store_close(store);
    CHECK_INT(bench_wrong(&row), 0);
    CHECK(row.pairs > 20);
    if (row.commands.per_pair < 4.6 || row.commands.per_pair > 5.4)
        FAIL("%f commands a pair", row.commands.per_pair);
    if (row.calls.per_pair < 1.8 || row.calls.per_pair > 2.2)
        FAIL("%f calls a pair", row.calls.per_pair);
    /* There may be no hand-over: one had all the turns. */
    CHECK(row.handovers == 0 || row.commands.per_handover >= row.commands.per_pair);
    CHECK(row.calls.per_handover < 0 || row.calls.per_handover >= row.calls.per_pair);
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
    probe("fake:unavailable", LOCK_UNAVAILABLE, "is it there, and is this its URL? h:1: is away");
    probe("fake:loses", LOCK_NOT_OWNER, "the lock cannot be had: status 5");
    probe("fake:dies", LOCK_UNKNOWN, "broke down");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a lock in order", in_order);
    harness_run("a fence that does not grow", old_fences);
    harness_run("two holders at once", two_at_once);
    harness_run("grants that are lost", lost_grants);
    harness_run("a store that is gone", unavailable);
    harness_run("a contender that starves", starved);
    harness_run("a row that breaks down", broken);
    harness_run("a row that is stopped", stopped);
    harness_run("commands and calls", commands);
    harness_run("probes", probes);
    return harness_finish();
}
