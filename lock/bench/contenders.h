/* One process of a case: it opens the lock, and its threads, the contenders, acquire and release it. */
#ifndef LOCK_BENCH_CONTENDERS_H
#define LOCK_BENCH_CONTENDERS_H

#include <sys/types.h>

#include "lock/bench/plan.h"
#include "lock/bench/shared_memory.h"

/* The number of the first contender of a process; they end before the first one of the next process. */
unsigned bench_first_contender(const struct bench_case *what, unsigned process);

/* Call it right after fork(), without threads. Ends the process. */
_Noreturn void bench_work(struct bench_shared_memory *memory, const struct bench_case *what, unsigned number,
                          pid_t parent);

/* For every forked process: it ends with its parent, and leaves Ctrl-C to it. */
void bench_follow_parent(pid_t parent);

#endif
