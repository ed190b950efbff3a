/* One play as a picture: its lanes, what each client believed, what the stores said, what reached the stock.
 */
#ifndef LOADTEST_LAB_DRAW_PANEL_H
#define LOADTEST_LAB_DRAW_PANEL_H

#include "loadtest/lab/draw/scale.h"

/* Draws it from `top_px` on; returns where it ends. False in `*good`: out of memory. */
double panel_draw(FILE *out, const struct judged_play *play, const struct scale *scale, double top_px,
                  double width_px, bool *good);

#endif
