/* What the HTML files of the lab have in common: head and style, texts for people. Each is one file that
 * needs no other: no script, and a policy that allows none. */
#ifndef LOADTEST_LAB_DRAW_DOCUMENT_H
#define LOADTEST_LAB_DRAW_DOCUMENT_H

#include <stdbool.h>
#include <stdio.h>

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

#endif
