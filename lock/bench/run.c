#include "lock/bench/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/bench/worker.h"

enum {
    POLL_MS = 5,
    WARM_UP_MS = 100,
    SAMPLE_MS = 200,
    GATHER_MS = 30000, /* for threads to start */
    BEGIN_MS = 15000,  /* for the first to have the lock: a killed holder's has to run out */
    END_MS = 20000,    /* for processes to end */
};

struct run {
    const struct bench_case *what;
    struct bench_store *store;
    const volatile sig_atomic_t *stop;
    struct bench_arena *arena;
    pid_t pids[BENCH_PROCESSES_MAX]; /* 0: waited for */
    char *error;
    size_t error_size;
};

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

/* The first reason is the one that is told. */
static enum bench_run_status fail(const struct run *run, const char *what, const char *why) {
    if (!run->error[0])
        snprintf(run->error, run->error_size, "%s%s%s", what, why[0] ? ": " : "", why);
    return BENCH_FAILED;
}

/* ---- processes ---- */

static enum bench_run_status describe_end(const struct run *run, int status) {
    char what[64];
    if (WIFSIGNALED(status))
        snprintf(what, sizeof what, "a process was ended by signal %d", WTERMSIG(status));
    else
        snprintf(what, sizeof what, "a process ended with status %d", WEXITSTATUS(status));
    return fail(run, what, run->arena->error);
}

static enum bench_run_status start(struct run *run) {
    pid_t parent = getpid();
    for (unsigned i = 0; i < run->what->processes; i++) {
        run->pids[i] = fork();
        if (run->pids[i] == 0)
            bench_work(run->arena, run->what, i, parent);
        if (run->pids[i] < 0) {
            run->pids[i] = 0;
            return fail(run, "fork", strerror(errno));
        }
    }
    return BENCH_DONE;
}

/* DONE: all that were still there run, or have ended well (`*running` is how many run). */
static enum bench_run_status look_after(struct run *run, unsigned *running) {
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
        if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return describe_end(run, status);
    }
    return BENCH_DONE;
}

static enum bench_run_status end(struct run *run) {
    int64_t until_ns = now_ns() + (int64_t)END_MS * 1000000;
    enum bench_run_status status = BENCH_DONE;
    atomic_store(&run->arena->phase, BENCH_STOP);
    for (unsigned running = 1; running > 0 && status == BENCH_DONE;) {
        status = look_after(run, &running);
        if (running > 0 && now_ns() > until_ns)
            status = fail(run, "a process did not end", "its lock does not let it go");
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

static bool all_are_ready(struct run *run) {
    return atomic_load(&run->arena->ready) == run->what->contenders;
}

static bool has_begun(struct run *run) {
    return atomic_load(&run->arena->begun);
}

/* Until `enough` says so, or if it is NULL for `ms`; FAILED without a text: it did not, for so long. Watches
 * the processes and Ctrl-C meanwhile. */
static enum bench_run_status pass(struct run *run, int64_t ms, bool (*enough)(struct run *run)) {
    int64_t until_ns = now_ns() + ms * 1000000;
    for (;;) {
        unsigned running;
        enum bench_run_status status = look_after(run, &running);
        if (status != BENCH_DONE)
            return status;
        if (*run->stop)
            return BENCH_INTERRUPTED;
        if (enough && enough(run))
            return BENCH_DONE;
        int64_t left_ns = until_ns - now_ns();
        if (left_ns <= 0)
            return enough ? BENCH_FAILED : BENCH_DONE;
        int64_t step_ns = (int64_t)POLL_MS * 1000000;
        if (left_ns < step_ns)
            step_ns = left_ns;
        nanosleep(&(struct timespec){.tv_nsec = (long)step_ns}, NULL);
    }
}

static enum bench_run_status begin(struct run *run) {
    enum bench_run_status status = start(run);
    if (status == BENCH_DONE)
        status = pass(run, GATHER_MS, all_are_ready);
    if (status == BENCH_FAILED)
        fail(run, "not all threads have started", "");
    if (status != BENCH_DONE)
        return status;
    atomic_store(&run->arena->phase, BENCH_IDLE);
    status = pass(run, BEGIN_MS, has_begun);
    if (status == BENCH_FAILED)
        fail(run, "nobody had the lock within 15 seconds", "");
    return status == BENCH_DONE ? pass(run, WARM_UP_MS, NULL) : status;
}

/* Whoever still waits has waited so long already. */
static int64_t longest_under_way_ns(const struct run *run) {
    int64_t longest_ns = 0, until_ns = now_ns();
    for (unsigned i = 0; i < run->what->contenders; i++) {
        int64_t since_ns = atomic_load(&run->arena->seats[i].waiting_since_ns);
        if (since_ns > 0 && until_ns - since_ns > longest_ns)
            longest_ns = until_ns - since_ns;
    }
    return longest_ns;
}

/* What was counted in the store while so many pairs were. */
struct counted {
    uint64_t commands, calls;
    bool has_commands, has_calls;
    bool calls_are_sampled; /* heard after the measurement, and to be held against what was done then */
};

static enum bench_run_status measure(struct run *run, struct bench_row *row, struct counted *counted) {
    uint64_t before = 0, after = 0, calls_before = 0, calls_after = 0;
    counted->has_commands = run->store && bench_store_commands(run->store, &before);
    counted->has_calls = run->store && bench_store_calls(run->store, &calls_before);
    int64_t since_ns = now_ns();
    atomic_store(&run->arena->phase, BENCH_MEASURE);
    enum bench_run_status status = pass(run, (int64_t)(run->what->seconds * 1000), NULL);
    atomic_store(&run->arena->phase, BENCH_IDLE);
    row->seconds = (double)(now_ns() - since_ns) / 1e9;
    row->wait_max_us = (double)longest_under_way_ns(run) / 1e3;
    counted->has_commands = counted->has_commands && bench_store_commands(run->store, &after);
    counted->commands = after - before;
    counted->has_calls = counted->has_calls && bench_store_calls(run->store, &calls_after);
    counted->calls = calls_after - calls_before;
    return status;
}

static enum bench_run_status sample(struct run *run, struct counted *counted) {
    if (!run->store || counted->has_calls || !bench_store_listen(run->store))
        return BENCH_DONE;
    counted->calls_are_sampled = true;
    atomic_store(&run->arena->phase, BENCH_SAMPLE);
    enum bench_run_status status = pass(run, SAMPLE_MS, NULL);
    atomic_store(&run->arena->phase, BENCH_IDLE);
    counted->has_calls = bench_store_heard(run->store, &counted->calls);
    return status;
}

/* ---- figures ---- */

static struct bench_cost cost(bool known, uint64_t count, const struct bench_tally *tally) {
    struct bench_cost cost = {.per_pair = -1, .per_handover = -1};
    if (known && tally->pairs > 0)
        cost.per_pair = (double)count / (double)tally->pairs;
    if (known && tally->handovers > 0)
        cost.per_handover = (double)count / (double)tally->handovers;
    return cost;
}

static void widen(struct bench_share *share, double part, bool is_first) {
    if (is_first || part < share->least)
        share->least = part;
    if (is_first || part > share->most)
        share->most = part;
}

static uint64_t pairs_of(const struct run *run, unsigned process) {
    uint64_t pairs = 0;
    for (unsigned i = bench_first_contender(run->what, process);
         i < bench_first_contender(run->what, process + 1); i++)
        pairs += run->arena->seats[i].measured.pairs;
    return pairs;
}

static void add_shares(const struct run *run, struct bench_row *row) {
    const struct bench_case *what = run->what;
    if (row->pairs == 0)
        return;
    double fair = (double)row->pairs / what->contenders;
    for (unsigned i = 0; i < what->contenders; i++)
        widen(&row->of_contender, (double)run->arena->seats[i].measured.pairs / fair, i == 0);
    for (unsigned p = 0; p < what->processes; p++) {
        unsigned threads = bench_first_contender(what, p + 1) - bench_first_contender(what, p);
        widen(&row->of_process, (double)pairs_of(run, p) / (fair * threads), p == 0);
    }
}

static void add_seat(struct bench_row *row, const struct bench_seat *seat) {
    row->met += seat->met;
    row->old_fences += seat->old_fences;
    row->lost_grants += seat->lost;
    row->errors += seat->errors;
    if (row->error == LOCK_OK) {
        row->error = seat->error;
        memcpy(row->why, seat->why, sizeof row->why);
    }
}

/* Each time that a holder was let in, its key's count went up by one, unless two met. */
static uint64_t lost_updates(const struct run *run) {
    uint64_t entered = 0, counted = 0;
    for (unsigned i = 0; i < run->what->contenders; i++) {
        entered += run->arena->seats[i].entered;
        counted += atomic_load(&run->arena->cells[i].count);
    }
    return entered - counted;
}

static void add_waits(const struct run *run, struct bench_row *row) {
    static struct bench_histogram waits; /* large */
    memset(&waits, 0, sizeof waits);
    for (unsigned i = 0; i < run->what->contenders; i++)
        bench_histogram_add(&waits, &run->arena->seats[i].waits);
    row->wait_p50_us = (double)bench_histogram_quantile(&waits, 0.5) / 1e3;
    row->wait_p99_us = (double)bench_histogram_quantile(&waits, 0.99) / 1e3;
    if ((double)waits.max / 1e3 > row->wait_max_us)
        row->wait_max_us = (double)waits.max / 1e3;
}

static void collect(const struct run *run, const struct counted *counted, struct bench_row *row) {
    struct bench_tally measured = {.pairs = 0}, sampled = {.pairs = 0};
    for (unsigned i = 0; i < run->what->contenders; i++) {
        const struct bench_seat *seat = &run->arena->seats[i];
        add_seat(row, seat);
        measured.pairs += seat->measured.pairs;
        sampled.pairs += seat->sampled.pairs;
        if (run->what->shared) { /* a key of one's own changes no hands */
            measured.handovers += seat->measured.handovers;
            sampled.handovers += seat->sampled.handovers;
        }
    }
    row->pairs = measured.pairs;
    row->handovers = measured.handovers;
    row->commands = cost(counted->has_commands, counted->commands, &measured);
    row->calls = cost(counted->has_calls, counted->calls, counted->calls_are_sampled ? &sampled : &measured);
    row->lost_updates = lost_updates(run);
    add_shares(run, row);
    add_waits(run, row);
}

enum bench_run_status bench_run(const struct bench_case *what, struct bench_store *store,
                                const volatile sig_atomic_t *stop, struct bench_row *row, char *error,
                                size_t error_size) {
    struct run run = {.what = what, .store = store, .stop = stop, .error = error, .error_size = error_size};
    struct counted counted = {.has_calls = false};
    error[0] = '\0';
    run.arena = mmap(NULL, sizeof *run.arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.arena == MAP_FAILED)
        return fail(&run, "memory to share", strerror(errno));
    *row = (struct bench_row){.what = *what};
    enum bench_run_status status = begin(&run);
    if (status == BENCH_DONE)
        status = measure(&run, row, &counted);
    if (status == BENCH_DONE)
        status = sample(&run, &counted);
    enum bench_run_status ended = end(&run);
    if (status == BENCH_DONE)
        status = ended;
    if (status == BENCH_DONE)
        collect(&run, &counted, row);
    munmap(run.arena, sizeof *run.arena);
    return status;
}
