/* The marks of a play, in the order in which they may lie on each other. */
#ifndef LOADTEST_LAB_DRAW_MARKS_H
#define LOADTEST_LAB_DRAW_MARKS_H

#include "loadtest/lab/draw/canvas.h"

/* Draws the marks of all events that are shown, each in a group that can be linked. */
void marks_draw(struct canvas *canvas);

#endif
