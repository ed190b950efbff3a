#include "base/clock.h"

#include <time.h>

static int64_t system_mono_ns(void *ctx) {
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t system_wall_ms(void *ctx) {
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const struct clock clock_system = {.mono_ns = system_mono_ns, .wall_ms = system_wall_ms};
