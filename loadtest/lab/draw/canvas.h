/* The canvas of a play: its lanes, the places of its labels, and what all marks have in common. */
#ifndef LOADTEST_LAB_DRAW_CANVAS_H
#define LOADTEST_LAB_DRAW_CANVAS_H

#include <stdbool.h>
#include <stdio.h>

#include "loadtest/lab/draw/view.h"
#include "loadtest/lab/events/event.h"

/* ---- lanes, from top to bottom: faults, clients, lock servers, stock ---- */

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

/* ---- labels: none lies on another, and none is cut at the edge ----
 * Marks take their areas first. Labels are asked for meanwhile, and placed when all marks are there. */

enum { LABELS_BOXES = 8192, LABELS_ASKED = 4096, LABELS_TEXT = 240 };

enum labels_place {
    LABELS_AT,      /* begins at x, on the base line y, on bars and lines too */
    LABELS_BESIDE,  /* beside the mark at (x, y), or above or below it, on no mark */
    LABELS_IN_LINE, /* only right or left of it */
};

struct label {
    const char *class;
    bool bold;
    enum labels_place place;
    int rank; /* the lower finds its place earlier */
    double x, y;
    double away_px;         /* from the middle of its mark: half of the mark's width */
    char text[LABELS_TEXT]; /* or several, a line each: the first that finds a place is written */
};

/* What is taken and asked for. All zero but the edges is an empty one. */
struct labels {
    double left_px, right_px;
    struct labels_box {
        double left, top, right, bottom;
        bool solid; /* a text, or a small mark: nothing lies on it */
    } boxes[LABELS_BOXES];
    int count;
    struct label asked[LABELS_ASKED];
    int asked_count;
};

/* Takes an area for a bar or a line. */
void labels_take(struct labels *labels, double left, double top, double right, double bottom);

/* Takes an area for a small mark, as wide as high. */
void labels_take_mark(struct labels *labels, double x, double y, double radius);

/* Asks for a place. A label that finds none is left out; the title of its mark says the same. */
void labels_ask(struct labels *labels, const struct label *label);

/* Writes the labels that find a place, those that were asked first before the others of their rank. */
void labels_write(struct labels *labels, FILE *out);

/* ---- the canvas ---- */

enum { CANVAS_CLASS = 40 };

/* Ranks of labels: which are to find a place when there is not enough for all. */
enum { CANVAS_FAULT, CANVAS_BAR, CANVAS_PLAIN, CANVAS_EXTRA };

struct canvas {
    FILE *out;
    const struct event_log *log;
    const struct judgement *judgement;
    const struct scale *scale;
    const struct view *view;
    const struct view_play *shown; /* of this play */
    struct lanes lanes;
    struct labels labels;
    double lanes_top_px;
};

/* Not beyond the ends of the axis. */
double canvas_x(const struct canvas *canvas, int64_t t_ns);

/* Where the span of an event ends. */
double canvas_end_x(const struct canvas *canvas, const struct event *event);

bool canvas_shows(const struct canvas *canvas, const struct event *event);

/* The part of a client's lane in which the marks of a key lie. A client that locks several keys has a row for
 * each; no key: the middle of the lane. */
struct canvas_row {
    double top, height;
};
struct canvas_row canvas_row(const struct canvas *canvas, const struct lane *lane, const char *key);

/* The group of an event's mark: it can be focused, linked and read aloud. */
void canvas_begin_mark(const struct canvas *canvas, const struct event *event);
void canvas_end_mark(const struct canvas *canvas);

/* A bar: at least a pixel wide, in the client's colour (-1: none). Labels keep away from it. */
void canvas_bar(struct canvas *canvas, const char *class, int client, double left, double top, double right,
                double height);

/* The lane of a client that is called by its whole name ("client-a"), or by the rest of it ("a"). */
const struct lane *canvas_client(const struct canvas *canvas, const char *name);

#endif
