/* The picture of a scenario: its plays one above the other, on one time axis. */
#ifndef LOADTEST_LAB_DRAW_TIMELINE_H
#define LOADTEST_LAB_DRAW_TIMELINE_H

#include "loadtest/lab/judge/judge.h"

enum { TIMELINE_PLAYS = 2 };

/* Writes the SVG: 1200 px wide, the same bytes for the same events. False when out of memory. */
bool timeline_draw(FILE *out, const struct judged_play plays[], int count);

#endif
