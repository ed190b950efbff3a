/* The lanes of a play, from top to bottom: faults, clients, lock servers, stock. */
#ifndef LOADTEST_LAB_DRAW_LANES_H
#define LOADTEST_LAB_DRAW_LANES_H

#include "loadtest/lab/events/event.h"

enum lane_kind { LANE_FAULT, LANE_CLIENT, LANE_SERVER, LANE_STOCK };

enum { LANES_MAX = 160 };

struct lane {
    enum lane_kind kind;
    const char *name; /* of the client, server or item */
    double top_px, height_px;
    int colour; /* of a client: 0 to 7 */
};

struct lanes {
    struct lane lanes[LANES_MAX];
    int count;
    double bottom_px;
};

/* Lanes in the order in which clients, servers and items appear first, from `top_px` on. What has no room
 * among LANES_MAX is left out. */
void lanes_find(struct lanes *lanes, const struct event_log *log, double top_px);

/* NULL: it has none. */
const struct lane *lanes_of(const struct lanes *lanes, enum lane_kind kind, const char *name);

#endif
