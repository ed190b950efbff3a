/* The canvas of a play: what is drawn, where it lies, and what all marks have in common. */
#ifndef LOADTEST_LAB_DRAW_CANVAS_H
#define LOADTEST_LAB_DRAW_CANVAS_H

#include "loadtest/lab/draw/labels.h"
#include "loadtest/lab/draw/lanes.h"
#include "loadtest/lab/draw/scale.h"

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
