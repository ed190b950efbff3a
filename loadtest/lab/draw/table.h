/* The events as a table of plain text: time, actor, what happened. */
#ifndef LOADTEST_LAB_DRAW_TABLE_H
#define LOADTEST_LAB_DRAW_TABLE_H

#include "loadtest/lab/judge/judge.h"

void table_draw(FILE *out, const struct judged_play plays[], int count);

#endif
