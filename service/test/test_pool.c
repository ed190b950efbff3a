/* The pool of threads for what blocks: how much it runs at once, and takes. */
#include <stdatomic.h>

#include "service/background/background.h"
#include "test/harness.h"

enum { THREADS = 6, JOBS = 60, PATIENCE_MS = 20000 };

static atomic_int limit, running, most, done;
static atomic_int together; /* so many jobs wait for each other */
static struct pool_job jobs[JOBS];

static int limit_now(void *ctx) {
    (void)ctx;
    return atomic_load(&limit);
}

static void work(struct pool_job *job) {
    (void)job;
    int now = atomic_fetch_add(&running, 1) + 1, seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        continue;
    for (int64_t deadline_ms = harness_now_ms() + PATIENCE_MS;
         atomic_load(&most) < atomic_load(&together) && harness_now_ms() < deadline_ms;)
        harness_pause_ms(1);
    harness_pause_ms(3);
    atomic_fetch_sub(&running, 1);
    atomic_fetch_add(&done, 1);
}

static bool all_done(void *arg) {
    return atomic_load(&done) == *(int *)arg;
}

/* A pool that runs `at_once`, which wait for each other. */
static struct pool *open_with(int threads, int most_jobs, int at_once) {
    struct pool *pool = pool_open(threads, most_jobs, limit_now, NULL);
    CHECK(pool);
    atomic_store(&limit, at_once);
    atomic_store(&together, at_once);
    atomic_store(&most, 0);
    atomic_store(&done, 0);
    return pool;
}

static void submit(struct pool *pool, int first, int count) {
    for (int i = first; i < count; i++) {
        jobs[i].run = work;
        CHECK(pool_submit(pool, &jobs[i]));
    }
}

/* The most that ran at once of so many. */
static int run_with(int at_once, int count) {
    struct pool *pool = open_with(THREADS, JOBS, at_once);
    submit(pool, 0, count);
    CHECK(harness_wait(all_done, &count, PATIENCE_MS));
    struct pool_metrics metrics;
    pool_read_metrics(pool, &metrics);
    CHECK_INT(metrics.waiting, 0);
    CHECK_INT(metrics.begun, count);
    pool_close(pool);
    return atomic_load(&most);
}

static void limited(void) {
    CHECK_INT(run_with(1, 20), 1);
    CHECK_INT(run_with(0, 5), 1); /* one in any case */
    CHECK_INT(run_with(3, JOBS), 3);
    CHECK_INT(run_with(THREADS, JOBS), THREADS);
}

static atomic_bool stuck;

static void stay(struct pool_job *job) {
    (void)job;
    while (atomic_load(&stuck))
        harness_pause_ms(1);
    atomic_fetch_add(&done, 1);
}

/* The limit is asked anew: what was held back goes on when there is room, though nobody says so, and the one
 * that runs does not end. */
static void widened(void) {
    int others = JOBS - 1;
    struct pool *pool = open_with(THREADS, JOBS, 1);
    atomic_store(&stuck, true);
    jobs[0].run = stay;
    CHECK(pool_submit(pool, &jobs[0]));
    submit(pool, 1, JOBS);
    harness_pause_ms(20);
    CHECK_INT(atomic_load(&done), 0);
    atomic_store(&limit, THREADS);
    CHECK(harness_wait(all_done, &others, PATIENCE_MS));
    atomic_store(&stuck, false);
    pool_close(pool);
}

static void full(void) {
    int taken = 0;
    struct pool *pool = open_with(1, 3, 1);
    struct pool_metrics metrics;
    for (int i = 0; i < JOBS; i++) {
        jobs[i].run = work;
        taken += pool_submit(pool, &jobs[i]);
    }
    CHECK(taken >= 3 && taken < JOBS);
    pool_read_metrics(pool, &metrics);
    CHECK_INT(metrics.refused, JOBS - taken);
    pool_close(pool); /* runs what it took */
    CHECK_INT(atomic_load(&done), taken);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("no more at once than the limit", limited);
    harness_run("a limit that goes away unseen", widened);
    harness_run("a full queue", full);
    return harness_finish();
}
