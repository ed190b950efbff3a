/* The picture of a scenario: its plays one above the other, on one time axis, unless one of them is many
 * times as long as the other. */
#ifndef LOADTEST_LAB_DRAW_TIMELINE_H
#define LOADTEST_LAB_DRAW_TIMELINE_H

#include "loadtest/lab/draw/view.h"

/* Writes the SVG of one play, or of two: 1200 px wide and not higher than an A4 page is for its width, the
 * same bytes for the same events. False when out of memory. */
bool timeline_draw(FILE *out, const struct judged_play plays[], int count);

#endif
