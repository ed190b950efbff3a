/* One process of a row: it opens the lock, and its threads contend. */
#ifndef LOCK_BENCH_WORKER_H
#define LOCK_BENCH_WORKER_H

#include <sys/types.h>

#include "lock/bench/arena.h"
#include "lock/bench/plan.h"

/* The contenders of process `process` are those from first to, but not, the next process's first. */
unsigned bench_first_contender(const struct bench_case *what, unsigned process);

/* To be called right after fork(), before anything had a thread; ends the process. */
_Noreturn void bench_work(struct bench_arena *arena, const struct bench_case *what, unsigned process,
                          pid_t parent);

/* For every process that is forked: it does not outlive its parent, and leaves Ctrl-C to it. */
void bench_follow_parent(pid_t parent);

#endif
