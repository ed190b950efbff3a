/* The legend: a sample of each mark that occurs, and its name. */
#ifndef LOADTEST_LAB_DRAW_LEGEND_H
#define LOADTEST_LAB_DRAW_LEGEND_H

#include "loadtest/lab/draw/view.h"

/* Draws it from `top_px` on; returns where it ends. */
double legend_draw(FILE *out, const struct judged_play plays[], int count, const struct view *view,
                   double top_px, double right_px);

#endif
