/* The events of a play as a table of HTML: for screen readers, and for who wants to read all of it. */
#ifndef LOADTEST_LAB_DRAW_ROWS_H
#define LOADTEST_LAB_DRAW_ROWS_H

#include "loadtest/lab/draw/view.h"

/* Whether the table has this event: it is drawn, or it is evidence. */
bool rows_has(const struct judged_play *play, const struct view_play *view, const struct event *event);

/* The rows are "row-n17" or "row-fixed-n17". If some are left out, the table says which file has them. */
void rows_draw(FILE *out, const struct judged_play *play, const struct view_play *view);

#endif
