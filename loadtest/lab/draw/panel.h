/* One play as a picture: its lanes, what each client believed, what the stores said, what reached the stock.
 */
#ifndef LOADTEST_LAB_DRAW_PANEL_H
#define LOADTEST_LAB_DRAW_PANEL_H

#include "loadtest/lab/draw/scale.h"
#include "loadtest/lab/judge/judge.h"

struct panel_input {
    const struct event_log *log;
    const struct judgement *judgement;
    const struct event *verdict;
    const struct scale *scale;
};

/* Draws it from `top_px` on; returns where it ends. False in `*good`: out of memory. */
double panel_draw(FILE *out, const struct panel_input *input, double top_px, double width_px, bool *good);

#endif
