/* lock-bench measures locks. The command line asks for cases; each case is measured by processes of
 * contenders that work in shared memory; its result is a row; main.c reports all rows. One section for each
 * file. */
#ifndef LOCK_BENCH_BENCH_H
#define LOCK_BENCH_BENCH_H

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/flags.h"
#include "base/histogram.h"
#include "lock/lock.h"

/* ---- bench_options.c: the command line, and the cases that it asks for ---- */

enum {
    BENCH_LIST = 16,
    BENCH_CASES = 2 * BENCH_LIST * BENCH_LIST,
    BENCH_CONTENDERS_MAX = 1024,
    BENCH_PROCESSES_MAX = 64,
    BENCH_NAME_SIZE = 256
};

/* Numbers, in the order given. */
struct bench_list {
    unsigned numbers[BENCH_LIST];
    unsigned count;
};

/* Texts point into argv. */
struct bench_options {
    struct flag_texts urls;
    double seconds; /* of each row */
    struct bench_list contenders, processes;
    bool own, shared; /* at least one of them */
    unsigned hold_us;
    const char *json; /* file, "-" for standard output, NULL: none */
    bool teaching;
};

/* What one row of the table measures. */
struct bench_case {
    const char *url;
    bool shared; /* one key for all; otherwise each contender has its own */
    unsigned processes, contenders;
    double seconds;
    unsigned hold_us;
    bool teaching;
};

extern const char bench_help[];

enum flags_status bench_options_read(char *const *argv, struct bench_options *options, char *error,
                                     size_t error_size);

/* Writes the cases of one lock: first each contender on its own key, then all on one key. Returns how many.
 * `one_process`: the lock holds only within a process, so cases with several processes on one key are left
 * out; `*left_out`: there were such cases. */
unsigned bench_plan(const struct bench_options *options, const char *url, bool one_process,
                    struct bench_case cases[BENCH_CASES], bool *left_out);

/* The URL without user and password. */
void bench_name(const char *url, char name[BENCH_NAME_SIZE]);

/* ---- contenders.c: the child processes ---- */

enum { BENCH_WHY_SIZE = 200 };

/* In this order, but IDLE follows MEASURE again; only the parent changes the phase. */
enum bench_phase {
    BENCH_GATHER, /* the threads start and wait */
    BENCH_IDLE,   /* they work, and nothing is counted */
    BENCH_MEASURE,
    BENCH_STOP,
};

/* What the holder of a key works on. No step is atomic with the next one: the lock has to keep two holders
 * apart. */
struct bench_key {
    _Alignas(64) _Atomic uint32_t holder; /* the number of a contender + 1; 0: none */
    _Atomic uint32_t last;                /* the holder before */
    _Atomic uint64_t count;               /* grants; two holders at once lose an update */
    _Atomic uint64_t fence;               /* the newest */
};

/* What a contender counts. Only the contender writes it. The parent reads what is not atomic after the
 * contender's process has ended. */
struct bench_counts {
    _Alignas(64) _Atomic int64_t waiting_since_ns; /* 0: it does not wait */
    uint64_t entered;                              /* in all phases */
    uint64_t pairs, handovers;                     /* in BENCH_MEASURE */
    uint64_t two_holders;                          /* it entered while another holder was there */
    uint64_t old_fences;                           /* its fence was not larger than the one before */
    uint64_t lost;                                 /* its grant was lost before its deadline */
    uint64_t errors;
    enum lock_status error;   /* the first; LOCK_OK: none */
    char why[BENCH_WHY_SIZE]; /* lock_last_error() of the first */
    struct histogram waits;
};

/* The memory that the processes of one row share. It is mapped before the fork, so it has one address in all
 * of them, and is zero. */
struct bench_shared_memory {
    _Atomic int phase;
    _Atomic unsigned ready;      /* threads */
    _Atomic unsigned begun;      /* threads that had the lock, or an error */
    _Atomic uint64_t requests;   /* that the locks of all processes sent in BENCH_MEASURE */
    char error[LOCK_ERROR_SIZE]; /* why a process ended early, if it could say */
    struct bench_key keys[BENCH_CONTENDERS_MAX];
    struct bench_counts contenders[BENCH_CONTENDERS_MAX];
};

/* Opens the lock and acquires it once, in a child process, so that this process has no threads when it forks
 * others. LOCK_OK, with the lock's `caps`; LOCK_CONFIG (no such lock) or another status, with `error`. */
enum lock_status bench_probe(const char *url, bool teaching, unsigned *caps, char *error, size_t error_size);

/* The number of the first contender of a process. The next process begins where this one ends. */
unsigned bench_first_contender(const struct bench_case *what, unsigned process);

/* Runs process `number` of a case: it opens the lock, and its threads, the contenders, acquire and release it
 * until BENCH_STOP. Call it right after fork(), without threads. Ends the process. */
_Noreturn void bench_work(struct bench_shared_memory *memory, const struct bench_case *what, unsigned number,
                          pid_t parent);

/* ---- measure_row.c: the parent of these processes ---- */

/* The smallest and the largest share of the pairs; 1 is a fair share. */
struct bench_share {
    double least, most;
};

/* The result of a case. */
struct bench_row {
    struct bench_case what;
    double seconds;
    uint64_t pairs, handovers;
    double wait_p50_us, wait_p99_us, wait_max_us;
    uint64_t requests; /* sent to the store; 0: the lock has none */
    struct bench_share of_contender, of_process;
    uint64_t two_holders, lost_updates, old_fences, lost_grants; /* 0 for every right lock */
    uint64_t errors;
    enum lock_status error;   /* the first … */
    char why[BENCH_WHY_SIZE]; /* … and its reason; "": not known */
};

static inline uint64_t bench_wrong(const struct bench_row *row) {
    return row->two_holders + row->lost_updates + row->old_fences + row->lost_grants;
}

enum bench_run_status {
    BENCH_DONE,
    BENCH_INTERRUPTED,
    BENCH_FAILED, /* `error` says why */
};

/* Measures one case. Stops as soon as `*stop` is not 0. */
enum bench_run_status bench_run(const struct bench_case *what, const volatile sig_atomic_t *stop,
                                struct bench_row *row, char *error, size_t error_size);

#endif
