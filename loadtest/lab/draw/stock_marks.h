/* Marks in the lanes of items: how many units are left. */
#ifndef LOADTEST_LAB_DRAW_STOCK_MARKS_H
#define LOADTEST_LAB_DRAW_STOCK_MARKS_H

#include "loadtest/lab/draw/canvas.h"

/* sale.stock, until the next one of the item. The line is the lower, the fewer units are left. */
void stock_marks_left(struct canvas *canvas, const struct event *stock);

#endif
