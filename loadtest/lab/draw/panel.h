/* One play as a picture: its lanes, what each client believed, what the stores said, what reached the stock.
 */
#ifndef LOADTEST_LAB_DRAW_PANEL_H
#define LOADTEST_LAB_DRAW_PANEL_H

#include "loadtest/lab/draw/scale.h"

/* Its height is at most `most_px`, unless there are more lanes than fit. */
struct panel_place {
    double top_px, width_px, most_px;
    bool own_axis; /* it says so: the other play is drawn on another */
};

/* Draws it; returns where it ends. False in `*good`: out of memory. */
double panel_draw(FILE *out, const struct judged_play *play, const struct view *view,
                  const struct view_play *shown, const struct scale *scale, const struct panel_place *place,
                  bool *good);

#endif
