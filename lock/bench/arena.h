/* The memory that the processes of one row share. Mapped before they are forked, so it is at one address, and
 * zero. */
#ifndef LOCK_BENCH_ARENA_H
#define LOCK_BENCH_ARENA_H

#include <stdatomic.h>

#include "lock/bench/histogram.h"
#include "lock/bench/options.h"
#include "lock/bench/row.h"
#include "lock/lock.h"

/* In this order; only the parent moves on. */
enum bench_phase {
    BENCH_GATHER, /* threads are started and wait */
    BENCH_IDLE,   /* they work, and nothing is counted */
    BENCH_MEASURE,
    BENCH_SAMPLE, /* they work, and the store's calls are listened to */
    BENCH_STOP,
};

/* What a key's holder works on. That two never meet here is the lock's business: no step is atomic with the
 * next one. */
struct bench_cell {
    _Alignas(64) _Atomic uint32_t holder; /* a contender's number + 1; 0: nobody */
    _Atomic uint32_t last;                /* who held before */
    _Atomic uint64_t count;               /* grants; two holders at once lose a step */
    _Atomic uint64_t fence;               /* the newest */
};

/* Figures of one phase. */
struct bench_tally {
    uint64_t pairs, handovers;
};

/* A contender's own. Only it writes; the parent reads what is not atomic once its process has ended. */
struct bench_seat {
    _Alignas(64) _Atomic int64_t waiting_since_ns; /* 0: it does not wait */
    uint64_t entered;                              /* in all phases */
    struct bench_tally measured, sampled;
    uint64_t met;        /* it came in, and somebody was there */
    uint64_t old_fences; /* it got a fence that was not larger than the one before */
    uint64_t lost;       /* its grant was not its own any more, before its time */
    uint64_t errors;
    enum lock_status error;   /* the first; LOCK_OK: none */
    char why[BENCH_WHY_SIZE]; /* of the first, as the lock tells it */
    struct bench_histogram waits;
};

struct bench_arena {
    _Atomic int phase;
    _Atomic unsigned ready;      /* threads */
    _Atomic bool begun;          /* somebody had the lock, or an error */
    char error[LOCK_ERROR_SIZE]; /* why a process ended early, as far as it could say */
    struct bench_cell cells[BENCH_CONTENDERS_MAX];
    struct bench_seat seats[BENCH_CONTENDERS_MAX];
};

#endif
