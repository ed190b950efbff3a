#include "loadtest/lab/draw/lanes.h"

#include <string.h>

/* Many clients get less each. */
static double height_px(enum lane_kind kind, int clients) {
    switch (kind) {
    case LANE_FAULT: return 30;
    case LANE_CLIENT: return clients <= 10 ? 52 : clients <= 24 ? 30 : 18;
    case LANE_SERVER: return 36;
    default: return 64;
    }
}

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

/* Adds the lanes of a kind; returns how many there are. */
static int add_lanes(struct lanes *lanes, const struct event_log *log, enum lane_kind kind) {
    int count = 0;
    for (size_t i = 0; i < log->count; i++) {
        const char *name = name_in(kind, &log->events[i]);
        if (name == NULL || lanes_of(lanes, kind, name) != NULL || lanes->count == LANES_MAX)
            continue;
        lanes->lanes[lanes->count++] = (struct lane){.kind = kind, .name = name, .colour = count++ % 8};
    }
    return count;
}

void lanes_find(struct lanes *lanes, const struct event_log *log, double top_px) {
    int clients = 0;
    lanes->count = 0;
    for (int kind = LANE_FAULT; kind <= LANE_STOCK; kind++) {
        int count = add_lanes(lanes, log, (enum lane_kind)kind);
        clients = kind == LANE_CLIENT ? count : clients;
    }
    for (int i = 0; i < lanes->count; i++) {
        lanes->lanes[i].top_px = top_px;
        lanes->lanes[i].height_px = height_px(lanes->lanes[i].kind, clients);
        top_px += lanes->lanes[i].height_px;
    }
    lanes->bottom_px = top_px;
}
