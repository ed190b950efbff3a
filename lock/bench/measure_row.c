/* Measures one case, a row of the table: starts the processes, leads them through the phases, ends them, and
 * adds up what they counted. */
#include "lock/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    POLL_MS = 5,
    WARM_UP_MS = 100,
    GATHER_MS = 30000, /* for the threads to start */
    BEGIN_MS = 15000,  /* for the first grant: that of a killed holder has to expire */
    END_MS = 20000,    /* for the processes to end */
};

struct run {
    const struct bench_case *what;
    const volatile sig_atomic_t *stop;
    struct bench_shared_memory *memory;
    pid_t pids[BENCH_PROCESSES_MAX]; /* 0: it has ended */
    char *error;
    size_t error_size;
};

/* Returns BENCH_FAILED. The first reason is kept. */
static enum bench_run_status row_fail(const struct run *run, const char *what, const char *why) {
    if (!run->error[0])
        snprintf(run->error, run->error_size, "%s%s%s", what, why[0] ? ": " : "", why);
    return BENCH_FAILED;
}

/* ---- processes ---- */

static enum bench_run_status start_processes(struct run *run) {
    pid_t parent = getpid();
    for (unsigned i = 0; i < run->what->processes; i++) {
        run->pids[i] = fork();
        if (run->pids[i] == 0)
            bench_work(run->memory, run->what, i, parent);
        if (run->pids[i] < 0) {
            run->pids[i] = 0;
            return row_fail(run, "fork", strerror(errno));
        }
    }
    return BENCH_DONE;
}

/* Reaps processes that have ended. BENCH_DONE: they ended without an error, and `*running` others still run.
 */
static enum bench_run_status check_processes(struct run *run, unsigned *running) {
    *running = 0;
    for (unsigned i = 0; i < run->what->processes; i++) {
        int status = 0;
        if (run->pids[i] == 0)
            continue;
        pid_t ended = waitpid(run->pids[i], &status, WNOHANG);
        if (ended == 0) {
            ++*running;
            continue;
        }
        run->pids[i] = 0;
        if (ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        char what[64];
        bool killed = WIFSIGNALED(status);
        snprintf(what, sizeof what, "a process %s %d", killed ? "was ended by signal" : "ended with status",
                 killed ? WTERMSIG(status) : WEXITSTATUS(status));
        return row_fail(run, what, run->memory->error);
    }
    return BENCH_DONE;
}

static enum bench_run_status end_processes(struct run *run) {
    int64_t until_ns = clock_now_ns() + (int64_t)END_MS * 1000000;
    enum bench_run_status status = BENCH_DONE;
    atomic_store(&run->memory->phase, BENCH_STOP);
    for (unsigned running = 1; running > 0 && status == BENCH_DONE;) {
        status = check_processes(run, &running);
        if (running > 0 && clock_now_ns() > until_ns)
            status = row_fail(run, "a process did not end", "its lock blocks it");
        if (running > 0)
            usleep(POLL_MS * 1000);
    }
    for (unsigned i = 0; i < run->what->processes; i++) {
        if (run->pids[i] > 0) {
            kill(run->pids[i], SIGKILL);
            waitpid(run->pids[i], NULL, 0);
        }
    }
    return status;
}

/* ---- phases ---- */

/* Waits until `*count` reaches `enough`. BENCH_FAILED without a text: it was not within `ms`. If `count` is
 * NULL, waits for `ms`. Watches the processes and Ctrl-C meanwhile. */
static enum bench_run_status wait_for(struct run *run, int64_t ms, const _Atomic unsigned *count,
                                      unsigned enough) {
    int64_t until_ns = clock_now_ns() + ms * 1000000;
    for (;;) {
        unsigned running;
        enum bench_run_status status = check_processes(run, &running);
        if (status != BENCH_DONE)
            return status;
        if (*run->stop)
            return BENCH_INTERRUPTED;
        if (count && atomic_load(count) >= enough)
            return BENCH_DONE;
        int64_t left_ns = until_ns - clock_now_ns();
        if (left_ns <= 0)
            return count ? BENCH_FAILED : BENCH_DONE;
        const int64_t step_ns = (int64_t)POLL_MS * 1000000;
        nanosleep(&(struct timespec){.tv_nsec = (long)(left_ns < step_ns ? left_ns : step_ns)}, NULL);
    }
}

static enum bench_run_status begin_row(struct run *run) {
    enum bench_run_status status = start_processes(run);
    if (status == BENCH_DONE)
        status = wait_for(run, GATHER_MS, &run->memory->ready, run->what->contenders);
    if (status == BENCH_FAILED)
        row_fail(run, "not all threads started", "");
    if (status != BENCH_DONE)
        return status;
    atomic_store(&run->memory->phase, BENCH_IDLE);
    status = wait_for(run, BEGIN_MS, &run->memory->begun, 1);
    if (status == BENCH_FAILED)
        row_fail(run, "no contender got the lock within 15 seconds", "");
    return status == BENCH_DONE ? wait_for(run, WARM_UP_MS, NULL, 0) : status;
}

/* How long the longest wait takes that has not ended yet. */
static int64_t longest_wait_ns(const struct run *run) {
    int64_t longest_ns = 0, until_ns = clock_now_ns();
    for (unsigned i = 0; i < run->what->contenders; i++) {
        int64_t since_ns = atomic_load(&run->memory->contenders[i].waiting_since_ns);
        if (since_ns > 0 && until_ns - since_ns > longest_ns)
            longest_ns = until_ns - since_ns;
    }
    return longest_ns;
}

static enum bench_run_status measure_pairs(struct run *run, struct bench_row *row) {
    int64_t since_ns = clock_now_ns();
    atomic_store(&run->memory->phase, BENCH_MEASURE);
    enum bench_run_status status = wait_for(run, (int64_t)(run->what->seconds * 1000), NULL, 0);
    atomic_store(&run->memory->phase, BENCH_IDLE);
    row->seconds = (double)(clock_now_ns() - since_ns) / 1e9;
    row->wait_max_us = (double)longest_wait_ns(run) / 1e3;
    return status;
}

/* ---- results ---- */

static void widen(struct bench_share *share, double part) {
    share->least = fmin(share->least, part);
    share->most = fmax(share->most, part);
}

static void add_shares(const struct run *run, struct bench_row *row) {
    const struct bench_case *what = run->what;
    double fair = (double)row->pairs / what->contenders;
    if (row->pairs == 0)
        return;
    row->of_contender.least = row->of_process.least = INFINITY;
    for (unsigned p = 0; p < what->processes; p++) {
        unsigned first = bench_first_contender(what, p), end = bench_first_contender(what, p + 1);
        double share = 0; /* of the process */
        for (unsigned i = first; i < end; i++) {
            double part = (double)run->memory->contenders[i].pairs / fair;
            widen(&row->of_contender, part);
            share += part / (end - first);
        }
        widen(&row->of_process, share);
    }
}

/* Each holder adds one to the count of its key; two holders at once lose an addition. */
static uint64_t lost_updates(const struct run *run) {
    uint64_t entered = 0, counted = 0;
    for (unsigned i = 0; i < run->what->contenders; i++) {
        entered += run->memory->contenders[i].entered;
        counted += atomic_load(&run->memory->keys[i].count);
    }
    return entered - counted;
}

static void add_waits(const struct run *run, struct bench_row *row) {
    static struct histogram waits; /* large */
    memset(&waits, 0, sizeof waits);
    for (unsigned i = 0; i < run->what->contenders; i++)
        histogram_add(&waits, &run->memory->contenders[i].waits);
    row->wait_p50_us = (double)histogram_quantile(&waits, 0.5) / 1e3;
    row->wait_p99_us = (double)histogram_quantile(&waits, 0.99) / 1e3;
    if ((double)waits.max / 1e3 > row->wait_max_us)
        row->wait_max_us = (double)waits.max / 1e3;
}

static void collect_counts(const struct run *run, struct bench_row *row) {
    for (unsigned i = 0; i < run->what->contenders; i++) {
        const struct bench_counts *counts = &run->memory->contenders[i];
        row->two_holders += counts->two_holders;
        row->old_fences += counts->old_fences;
        row->lost_grants += counts->lost;
        row->errors += counts->errors;
        if (row->error == LOCK_OK) {
            row->error = counts->error;
            memcpy(row->why, counts->why, sizeof row->why);
        }
        row->pairs += counts->pairs;
        row->handovers += run->what->shared ? counts->handovers : 0; /* an own key does not change hands */
    }
    row->requests = atomic_load(&run->memory->requests);
    row->lost_updates = lost_updates(run);
    add_shares(run, row);
    add_waits(run, row);
}

enum bench_run_status bench_run(const struct bench_case *what, const volatile sig_atomic_t *stop,
                                struct bench_row *row, char *error, size_t error_size) {
    struct run run = {.what = what, .stop = stop, .error = error, .error_size = error_size};
    error[0] = '\0';
    run.memory = mmap(NULL, sizeof *run.memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.memory == MAP_FAILED)
        return row_fail(&run, "shared memory", strerror(errno));
    *row = (struct bench_row){.what = *what};
    enum bench_run_status status = begin_row(&run);
    if (status == BENCH_DONE)
        status = measure_pairs(&run, row);
    enum bench_run_status ended = end_processes(&run);
    if (status == BENCH_DONE)
        status = ended;
    if (status == BENCH_DONE)
        collect_counts(&run, row);
    munmap(run.memory, sizeof *run.memory);
    return status;
}
