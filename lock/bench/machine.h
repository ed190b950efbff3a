/* The machine that a result was measured on. */
#ifndef LOCK_BENCH_MACHINE_H
#define LOCK_BENCH_MACHINE_H

struct bench_machine {
    int cores;
    char cpu[128]; /* "unknown": the kernel does not say */
    char kernel[160];
};

struct bench_machine bench_machine_read(void);

#endif
