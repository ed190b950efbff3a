#include "service/background/store_clock.h"

static int64_t mono_ns(void *ctx) {
    return clock_mono_ns(((struct store_clock *)ctx)->machine);
}

static int64_t wall_ms(void *ctx) {
    struct store_clock *clock = ctx;
    return clock_mono_ms(clock->machine) + atomic_load_explicit(&clock->ahead_ms, memory_order_relaxed);
}

void store_clock_init(struct store_clock *clock, const struct clock *machine) {
    clock->clock = (struct clock){.mono_ns = mono_ns, .wall_ms = wall_ms, .ctx = clock};
    clock->machine = machine;
    atomic_init(&clock->ahead_ms, clock_wall_ms(machine) - clock_mono_ms(machine));
    atomic_init(&clock->known, false);
}

bool store_clock_is_known(const struct store_clock *clock) {
    return atomic_load_explicit(&clock->known, memory_order_acquire);
}

void store_clock_measure(struct store_clock *clock, int64_t took_ns, int64_t store_ms) {
    /* All times are whole milliseconds, hence one more at either end. */
    int64_t least = store_ms - clock_mono_ms(clock->machine) - 1, most = least + took_ns / 1000000 + 3;
    int64_t ahead_ms = atomic_load(&clock->ahead_ms);
    if (ahead_ms < least)
        ahead_ms = least;
    else if (ahead_ms > most)
        ahead_ms = most;
    atomic_store(&clock->ahead_ms, ahead_ms);
    atomic_store_explicit(&clock->known, true, memory_order_release);
}
