/* What was measured on: a figure without it says little. */
#ifndef LOCK_BENCH_MACHINE_H
#define LOCK_BENCH_MACHINE_H

struct bench_machine {
    int cores;
    char cpu[128]; /* "unknown" where the kernel does not say */
    char kernel[160];
};

struct bench_machine bench_machine_look(void);

#endif
