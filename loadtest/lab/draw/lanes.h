/* The lanes of a play, from top to bottom: faults, clients, lock servers, stock. */
#ifndef LOADTEST_LAB_DRAW_LANES_H
#define LOADTEST_LAB_DRAW_LANES_H

#include "loadtest/lab/events/event.h"

enum lane_kind { LANE_FAULT, LANE_CLIENT, LANE_SERVER, LANE_STOCK };

enum { LANES_MAX = 160, LANES_KEYS = 4, LANES_FAULT_ROW_PX = 24 };

struct lane {
    enum lane_kind kind;
    const char *name; /* of the client, server or item */
    const char *key;  /* of a server: the key that it speaks of; NULL: it speaks of none */
    bool has_news;    /* of a server: its role, its clock or its life changes */
    double top_px, height_px;
    int number; /* among its kind, from 0 */
};

struct lanes {
    struct lane lanes[LANES_MAX];
    int count;
    int clients;
    size_t left_out;              /* events whose client, server or item has no lane */
    const char *keys[LANES_KEYS]; /* what clients lock */
    int key_count;
    double bottom_px;
};

/* Clients and servers by their names, items in the order in which they appear first. What has no room among
 * LANES_MAX is left out. */
void lanes_find(struct lanes *lanes, const struct event_log *log);

/* From `top_px` on. The more clients, the thinner their lanes: all lanes together take at most `most_px`,
 * unless not even the thinnest do. */
void lanes_place(struct lanes *lanes, double top_px, double most_px, int fault_rows);

/* The first lane of this name; NULL: it has none. */
const struct lane *lanes_of(const struct lanes *lanes, enum lane_kind kind, const char *name);

/* What a server says of a key. */
const struct lane *lanes_of_key(const struct lanes *lanes, const char *server, const char *key);

/* Lanes too thin for a text in them. */
static inline bool lanes_is_thin(const struct lane *lane) {
    return lane->height_px < 22;
}

#endif
