/* The clock of the store, which all instances use: when a sale starts, and when a hold is over, must not
 * depend on the instance.
 *
 * Scripts that sell or settle ask their server for its time. This estimate serves for what no script can
 * know: when a request arrived, and at which time a basket is judged whose items are on several servers.
 *
 * The heartbeat measures how far that clock is ahead of this machine's monotonic clock, so setting the
 * machine's time changes nothing. This is Cristian's algorithm (F. Cristian, "Probabilistic clock
 * synchronization", 1989): the reply tells the store's time at some moment between sending and reply, which
 * bounds the difference from both sides. An estimate within the bounds stays; one outside is moved to the
 * nearer bound. So a slow reply, which tells little, changes little. */
#include "inventory/inventory.h"
#include "service/background/background.h"

static int64_t store_clock_mono_ns(void *ctx) {
    return clock_mono_ns(((struct store_clock *)ctx)->machine);
}

static int64_t store_clock_wall_ms(void *ctx) {
    struct store_clock *clock = ctx;
    return clock_mono_ms(clock->machine) + atomic_load_explicit(&clock->ahead_ms, memory_order_relaxed);
}

void store_clock_init(struct store_clock *clock, const struct clock *machine) {
    *clock = (struct store_clock){
        .clock = {.mono_ns = store_clock_mono_ns, .wall_ms = store_clock_wall_ms, .ctx = clock},
        .machine = machine,
        .ahead_ms = clock_wall_ms(machine) - clock_mono_ms(machine)};
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

static void store_clock_on_reply(void *ctx, enum inventory_status status, int64_t store_ms) {
    struct store_clock *clock = ctx;
    if (status == INVENTORY_OK)
        store_clock_measure(clock, clock_now_ns() - clock->asked_ns, store_ms);
    clock->asked_ns = 0;
}

/* The heartbeat is not enough: in a cluster the master that takes heartbeats may be gone while the others
 * sell. */
void store_clock_find(struct store_clock *clock, struct inventory *inventory) {
    if (store_clock_is_known(clock) || clock->asked_ns)
        return;
    clock->asked_ns = clock_now_ns();
    inventory_time_read(inventory, store_clock_on_reply, clock);
}
