/* Time, as a value that is handed in: a test hands in a clock of its own, and turns it. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct clock {
    /* Monotonic; for durations and deadlines. */
    int64_t (*mono_ns)(void *ctx);
    /* Wall clock: milliseconds since 1970, UTC. */
    int64_t (*wall_ms)(void *ctx);
    void *ctx;
};

static inline int64_t clock_system_mono_ns(void *ctx) {
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t clock_system_wall_ms(void *ctx) {
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The machine's own clocks. */
static const struct clock clock_system = {.mono_ns = clock_system_mono_ns, .wall_ms = clock_system_wall_ms};

static inline int64_t clock_mono_ns(const struct clock *clock) {
    return clock->mono_ns(clock->ctx);
}

/* The machine's monotonic time. */
static inline int64_t clock_now_ns(void) {
    return clock_system_mono_ns(NULL);
}

static inline int64_t clock_now_ms(void) {
    return clock_now_ns() / 1000000;
}

static inline int64_t clock_mono_ms(const struct clock *clock) {
    return clock->mono_ns(clock->ctx) / 1000000;
}

static inline int64_t clock_wall_ms(const struct clock *clock) {
    return clock->wall_ms(clock->ctx);
}

/* Converts a monotonic time to wall-clock time. 0 stands for now. */
static inline int64_t clock_wall_at_ms(const struct clock *clock, int64_t at_ns) {
    return clock_wall_ms(clock) - (at_ns ? (clock_mono_ns(clock) - at_ns) / 1000000 : 0);
}

#endif
