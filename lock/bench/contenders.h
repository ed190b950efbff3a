/* One process of a case: it opens the lock, and its threads, the contenders, acquire and release it. */
#ifndef LOCK_BENCH_CONTENDERS_H
#define LOCK_BENCH_CONTENDERS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/histogram.h"
#include "lock/bench/plan.h"
#include "lock/lock.h"

enum { BENCH_WHY_SIZE = 200 };

/* In this order; only the parent changes the phase. */
enum bench_phase {
    BENCH_GATHER, /* the threads start and wait */
    BENCH_IDLE,   /* they work, and nothing is counted */
    BENCH_MEASURE,
    BENCH_STOP,
};

/* What the holder of a key works on. No step is atomic with the next one: keeping two holders apart is the
 * task of the lock. */
struct bench_key {
    _Alignas(64) _Atomic uint32_t holder; /* the number of a contender + 1; 0: none */
    _Atomic uint32_t last;                /* the holder before */
    _Atomic uint64_t count;               /* grants; two holders at once lose an update */
    _Atomic uint64_t fence;               /* the newest */
};

/* What a contender counts. Only it writes; the parent reads what is not atomic after that process ended. */
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
    _Atomic bool begun;          /* a contender had the lock, or an error */
    _Atomic uint64_t requests;   /* that the locks of all processes sent in BENCH_MEASURE */
    char error[LOCK_ERROR_SIZE]; /* why a process ended early, if it could say */
    struct bench_key keys[BENCH_CONTENDERS_MAX];
    struct bench_counts contenders[BENCH_CONTENDERS_MAX];
};

/* The number of the first contender of a process; they end before the first one of the next process. */
unsigned bench_first_contender(const struct bench_case *what, unsigned process);

/* Call it right after fork(), without threads. Ends the process. */
_Noreturn void bench_work(struct bench_shared_memory *memory, const struct bench_case *what, unsigned number,
                          pid_t parent);

/* For every forked process: it ends with its parent, and leaves Ctrl-C to it. */
void bench_follow_parent(pid_t parent);

#endif
