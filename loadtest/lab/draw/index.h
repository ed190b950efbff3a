/* The index: a table of all lessons that were played, each with a link to its report. One HTML file. */
#ifndef LOADTEST_LAB_DRAW_INDEX_H
#define LOADTEST_LAB_DRAW_INDEX_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct index_row {
    const char *name;  /* of the scenario; its report is NAME/report.html */
    const char *title; /* one sentence: what it teaches */
    int64_t seed;
    const char *broken_outcome, *broken_sentence; /* NULL: not played */
    const char *fixed_outcome, *fixed_sentence;
    int64_t overlap_ms, oversold; /* of the broken play */
    bool taught;                  /* the fault showed, and the fix held */
};

void index_draw(FILE *out, const struct index_row rows[], int count);

#endif
