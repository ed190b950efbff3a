/* What the HTML files of the lab have in common, and the index of all lessons. */
#ifndef LOADTEST_LAB_DRAW_DOCUMENT_H
#define LOADTEST_LAB_DRAW_DOCUMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What the HTML files of the lab have in common: head and style, texts for people. Each is one file that
 * needs no other: no script, and a policy that allows none. */

void document_begin(FILE *out, const char *title);
void document_end(FILE *out);

/* Paragraphs of plain text: a blank line begins another. */
void document_paragraphs(FILE *out, const char *text);

/* Preformatted text, as it is. Behind the lines of these numbers, from 1, with a 0 at the end, stands what
 * `says` says of them. */
void document_code(FILE *out, const char *text, const int *lines, const char *says);

/* An element with a text in it: <h2>TEXT</h2>. `attributes` may be "". */
void document_element(FILE *out, const char *name, const char *attributes, const char *text);

/* What the outcome of a verdict means, in a few words, and whether the lesson went as it should. */
const char *document_outcome(const char *outcome, bool *good);

/* The index: a table of all lessons that were played, each with a link to its report. One HTML file. */

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
