/* The report of a scenario: one HTML file that needs no other. */
#ifndef LOADTEST_LAB_DRAW_HTML_H
#define LOADTEST_LAB_DRAW_HTML_H

#include "loadtest/lab/judge/judge.h"

enum { REPORT_ANSWERS = 3, REPORT_LINES = 4 };

/* What a report says beside what its events show. Plain text: a blank line begins a paragraph. */
struct report_text {
    const char *title;    /* one sentence: what the scenario teaches */
    const char *question; /* what the reader should guess first */
    const char *answers[REPORT_ANSWERS];
    int right; /* which of them the broken play shows */
    const char *story;
    const char *broken_code, *fixed_code; /* a dozen lines each */
    /* The lines at fault, and those that mend it, from 1; a 0 ends them: at most three. */
    int broken_lines[REPORT_LINES], fixed_lines[REPORT_LINES];
};

/* One play or two. `text` may be NULL, and so may each of its members: the part is left out. False when out
 * of memory. */
bool html_draw(FILE *out, const struct judged_play plays[], int count, const struct report_text *text);

#endif
