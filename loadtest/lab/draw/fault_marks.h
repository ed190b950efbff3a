/* Marks in the lane of faults: what was broken on purpose, and for how long. */
#ifndef LOADTEST_LAB_DRAW_FAULT_MARKS_H
#define LOADTEST_LAB_DRAW_FAULT_MARKS_H

#include "loadtest/lab/draw/canvas.h"

/* How many rows the faults need, so that none lies on another: 1 to FAULT_MARKS_ROWS. */
enum { FAULT_MARKS_ROWS = 5 };
int fault_marks_rows(const struct canvas *canvas);

/* fault.start and holder.paused: a bar until the end. */
void fault_marks_draw(struct canvas *canvas);

#endif
