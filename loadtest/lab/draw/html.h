/* The report of a scenario: one HTML file that needs no other. */
#ifndef LOADTEST_LAB_DRAW_HTML_H
#define LOADTEST_LAB_DRAW_HTML_H

#include "loadtest/lab/judge/judge.h"

/* False when out of memory. */
bool html_draw(FILE *out, const struct judged_play plays[], int count);

#endif
