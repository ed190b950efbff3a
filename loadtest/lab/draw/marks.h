/* The marks of a panel: waits, leases, beliefs, pauses, writes, owners, stock. */
#ifndef LOADTEST_LAB_DRAW_MARKS_H
#define LOADTEST_LAB_DRAW_MARKS_H

#include "loadtest/lab/draw/labels.h"
#include "loadtest/lab/draw/lanes.h"
#include "loadtest/lab/draw/scale.h"

/* What is drawn, and where. */
struct panel {
    FILE *out;
    const struct event_log *log;
    const struct judgement *judgement;
    const struct scale *scale;
    struct lanes lanes;
    struct labels labels;
    double lanes_top;
};

static inline double marks_x(const struct panel *p, int64_t t_ns) {
    return scale_x(p->scale, t_ns < p->scale->end_ns ? t_ns : p->scale->end_ns);
}

/* Draws the marks of all events, each in a group that can be linked. */
void marks_draw(struct panel *p);

#endif
