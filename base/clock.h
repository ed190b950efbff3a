/* Time, as a value that is handed in: a test hands in a clock of its own, and turns it. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

struct clock {
    /* Monotonic; for durations and deadlines. */
    int64_t (*mono_ns)(void *ctx);
    /* Wall clock: milliseconds since 1970, UTC. */
    int64_t (*wall_ms)(void *ctx);
    void *ctx;
};

/* The machine's own clocks. */
extern const struct clock clock_system;

static inline int64_t clock_mono_ns(const struct clock *clock) {
    return clock->mono_ns(clock->ctx);
}

/* The machine's monotonic time. */
static inline int64_t clock_now_ns(void) {
    return clock_mono_ns(&clock_system);
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
