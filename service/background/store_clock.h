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
#ifndef SERVICE_BACKGROUND_STORE_CLOCK_H
#define SERVICE_BACKGROUND_STORE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct store_clock {
    struct clock clock; /* for any thread: monotonic time is this machine's, wall time the store's */
    const struct clock *machine;
    _Atomic int64_t ahead_ms; /* of the machine's monotonic time */
    _Atomic bool known;
};

void store_clock_init(struct store_clock *clock, const struct clock *machine);

/* False before the first measurement: until then the wall time is the machine's. */
bool store_clock_is_known(const struct store_clock *clock);

/* Takes in a reply that took `took_ns` and tells the store's time. One thread only. */
void store_clock_measure(struct store_clock *clock, int64_t took_ns, int64_t store_ms);

#endif
