#include "loadtest/lab/draw/lanes.h"

#include <string.h>

static const double heights_px[] = {
    [LANE_FAULT] = 30, [LANE_CLIENT] = 52, [LANE_SERVER] = 36, [LANE_STOCK] = 64};

const struct lane *lanes_of(const struct lanes *lanes, enum lane_kind kind, const char *name) {
    for (int i = 0; name != NULL && i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (lane->kind == kind && (kind == LANE_FAULT || strcmp(lane->name, name) == 0))
            return lane;
    }
    return NULL;
}

/* The lane that an event opens, if it is of this kind; NULL: none. */
static const char *name_in(enum lane_kind kind, const struct event *event) {
    switch (kind) {
    case LANE_FAULT:
        return event->kind == EVENT_FAULT_START || event->kind == EVENT_HOLDER_PAUSED ? "faults" : NULL;
    case LANE_CLIENT: return event->kind <= EVENT_WRITE_UNKNOWN ? event->who : NULL;
    case LANE_SERVER: return event->kind == EVENT_STORE_KEY ? event->server : NULL;
    default: return event->kind == EVENT_SALE_STOCK ? event->item : NULL;
    }
}

void lanes_find(struct lanes *lanes, const struct event_log *log, double top_px) {
    int colours = 0;
    lanes->count = 0;
    for (int kind = LANE_FAULT; kind <= LANE_STOCK; kind++) {
        for (size_t i = 0; i < log->count; i++) {
            const char *name = name_in((enum lane_kind)kind, &log->events[i]);
            if (name == NULL || lanes_of(lanes, (enum lane_kind)kind, name) != NULL ||
                lanes->count == LANES_MAX)
                continue;
            lanes->lanes[lanes->count++] = (struct lane){.kind = (enum lane_kind)kind,
                                                         .name = name,
                                                         .top_px = top_px,
                                                         .height_px = heights_px[kind],
                                                         .colour = kind == LANE_CLIENT ? colours++ % 8 : 0};
            top_px += heights_px[kind];
        }
    }
    lanes->bottom_px = top_px;
}
