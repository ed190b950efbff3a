#include "loadtest/lab/draw/lanes.h"

#include <stdlib.h>
#include <string.h>

enum { CLIENT_PX = 52, THINNEST_PX = 4, SERVER_PX = 36, NEWS_PX = 14, STOCK_PX = 64 };

static bool is_same(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

const struct lane *lanes_of(const struct lanes *lanes, enum lane_kind kind, const char *name) {
    for (int i = 0; name != NULL && i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (lane->kind == kind && (kind == LANE_FAULT || strcmp(lane->name, name) == 0))
            return lane;
    }
    return NULL;
}

const struct lane *lanes_of_key(const struct lanes *lanes, const char *server, const char *key) {
    for (int i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (lane->kind == LANE_SERVER && is_same(lane->name, server) && is_same(lane->key, key))
            return lane;
    }
    return NULL;
}

static bool is_news(const struct event *event) {
    return event->kind >= EVENT_SERVER_ROLE && event->kind <= EVENT_SERVER_UP;
}

/* The lane that an event opens, if it is of this kind; NULL: none. */
static const char *name_in(enum lane_kind kind, const struct event *event) {
    switch (kind) {
    case LANE_FAULT:
        return event->kind == EVENT_FAULT_START || event->kind == EVENT_HOLDER_PAUSED ? "faults" : NULL;
    case LANE_CLIENT: return event->kind <= EVENT_WRITE_UNKNOWN ? event->who : NULL;
    case LANE_SERVER: return event->kind == EVENT_STORE_KEY || is_news(event) ? event->server : NULL;
    default: return event->kind == EVENT_SALE_STOCK ? event->item : NULL;
    }
}

/* The lane of an event that a server has said; NULL: it has none yet. */
static struct lane *server_lane(struct lanes *lanes, const struct event *event) {
    for (int i = 0; i < lanes->count; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (lane->kind != LANE_SERVER || strcmp(lane->name, event->server) != 0)
            continue;
        if (event->kind == EVENT_STORE_KEY && lane->key == NULL) /* known by its news only, so far */
            lane->key = event->key;
        if (event->kind != EVENT_STORE_KEY || strcmp(lane->key, event->key) == 0)
            return lane;
    }
    return NULL;
}

static void add_lanes(struct lanes *lanes, const struct event_log *log, enum lane_kind kind) {
    int number = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct event *event = &log->events[i];
        const char *name = name_in(kind, event);
        if (name == NULL)
            continue;
        struct lane *lane = kind == LANE_SERVER ? server_lane(lanes, event) : NULL;
        if (lane == NULL && (kind == LANE_SERVER || lanes_of(lanes, kind, name) == NULL)) {
            if (lanes->count == LANES_MAX) {
                lanes->left_out++;
                continue;
            }
            lane = &lanes->lanes[lanes->count++];
            *lane = (struct lane){.kind = kind,
                                  .name = name,
                                  .key = event->kind == EVENT_STORE_KEY ? event->key : NULL,
                                  .number = number};
            number++;
            lanes->clients += kind == LANE_CLIENT;
        }
        if (lane != NULL && is_news(event))
            lane->has_news = true;
    }
}

/* "buyer-12" is one of a crowd, and its stem is "buyer-". */
static size_t stem_length(const char *name) {
    const char *dash = strrchr(name, '-');
    return dash != NULL ? (size_t)(dash + 1 - name) : strlen(name);
}

static bool is_numbered(const char *name) {
    size_t length = strlen(name);
    return length > 0 && name[length - 1] >= '0' && name[length - 1] <= '9';
}

/* Those who have a name of their own come before a crowd that is numbered. */
static int by_name(const void *a, const void *b) {
    const struct lane *x = a, *y = b;
    size_t stem = stem_length(x->name);
    bool are_kin = stem == stem_length(y->name) && strncmp(x->name, y->name, stem) == 0;
    if (!are_kin && is_numbered(x->name) != is_numbered(y->name))
        return is_numbered(x->name) ? 1 : -1;
    int names = strverscmp(x->name, y->name);
    return names != 0 ? names : x->number - y->number;
}

/* client-2 before client-10: so one finds them, and in both plays at the same place. */
static void sort(struct lanes *lanes, enum lane_kind kind) {
    int from = 0, to;
    while (from < lanes->count && lanes->lanes[from].kind != kind)
        from++;
    for (to = from; to < lanes->count && lanes->lanes[to].kind == kind; to++)
        ;
    qsort(&lanes->lanes[from], (size_t)(to - from), sizeof lanes->lanes[0], by_name);
    for (int i = from; i < to; i++)
        lanes->lanes[i].number = i - from;
}

static void add_keys(struct lanes *lanes, const struct event_log *log) {
    for (size_t i = 0; i < log->count && lanes->key_count < LANES_KEYS; i++) {
        const struct event *event = &log->events[i];
        int known = 0;
        if (event->kind != EVENT_ACQUIRE_OK)
            continue;
        while (known < lanes->key_count && strcmp(lanes->keys[known], event->key) != 0)
            known++;
        if (known == lanes->key_count)
            lanes->keys[lanes->key_count++] = event->key;
    }
}

void lanes_find(struct lanes *lanes, const struct event_log *log) {
    *lanes = (struct lanes){.count = 0};
    for (int kind = LANE_FAULT; kind <= LANE_STOCK; kind++)
        add_lanes(lanes, log, (enum lane_kind)kind);
    sort(lanes, LANE_CLIENT);
    sort(lanes, LANE_SERVER);
    add_keys(lanes, log);
}

static double height_px(const struct lane *lane, double client_px, int fault_rows) {
    switch (lane->kind) {
    case LANE_FAULT: return 6 + LANES_FAULT_ROW_PX * fault_rows;
    case LANE_CLIENT: return client_px;
    case LANE_SERVER: return SERVER_PX + (lane->has_news ? NEWS_PX : 0);
    default: return STOCK_PX;
    }
}

void lanes_place(struct lanes *lanes, double top_px, double most_px, int fault_rows) {
    double others_px = 0, client_px = CLIENT_PX;
    for (int i = 0; i < lanes->count; i++)
        others_px += height_px(&lanes->lanes[i], 0, fault_rows);
    if (lanes->clients > 0 && lanes->clients * client_px > most_px - others_px)
        client_px = (double)(int)((most_px - others_px) / lanes->clients);
    client_px = client_px < THINNEST_PX ? THINNEST_PX : client_px;
    for (int i = 0; i < lanes->count; i++) {
        struct lane *lane = &lanes->lanes[i];
        lane->top_px = top_px;
        lane->height_px = height_px(lane, client_px, fault_rows);
        top_px += lane->height_px;
    }
    lanes->bottom_px = top_px;
}
