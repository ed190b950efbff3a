/* The machine's clocks, and one that is handed in. */
#include <time.h>

#include "base/clock.h"
#include "test/harness.h"

static void test_clock(void) {
    int64_t from_ns = clock_mono_ns(&clock_system), from_ms = clock_mono_ms(&clock_system);
    CHECK(from_ms - from_ns / 1000000 >= 0 && from_ms - from_ns / 1000000 < 60000);
    harness_pause_ms(20);
    CHECK(clock_mono_ns(&clock_system) - from_ns >= 20000000);
    CHECK(clock_mono_ms(&clock_system) - from_ms >= 19);
    for (int i = 0; i < 10000; i++) {
        int64_t now_ns = clock_mono_ns(&clock_system);
        CHECK(now_ns >= from_ns);
        from_ns = now_ns;
    }
    time_t before = time(NULL);
    int64_t wall_ms = clock_wall_ms(&clock_system);
    CHECK(wall_ms / 1000 >= before && wall_ms / 1000 <= before + 60);
}

static int64_t fixed(void *ctx) {
    return *(int64_t *)ctx;
}

static void test_handed_in(void) {
    int64_t now = 1234567890;
    const struct clock clock = {.mono_ns = fixed, .wall_ms = fixed, .ctx = &now};
    CHECK_INT(clock_mono_ns(&clock), 1234567890);
    CHECK_INT(clock_mono_ms(&clock), 1234);
    CHECK_INT(clock_wall_ms(&clock), 1234567890);
    CHECK_INT(clock_wall_at_ms(&clock, 0), 1234567890);
    CHECK_INT(clock_wall_at_ms(&clock, now - 5000000), 1234567890 - 5);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the machine's clocks", test_clock);
    harness_run("a clock that is handed in", test_handed_in);
    return harness_finish();
}
