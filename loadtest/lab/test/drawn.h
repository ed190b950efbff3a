/* Plays that are drawn for tests. */
#ifndef LOADTEST_LAB_TEST_DRAWN_H
#define LOADTEST_LAB_TEST_DRAWN_H

#include "loadtest/lab/draw/html.h"

/* The two plays that were written by hand. */
extern struct judged_play drawn_plays[2];
void drawn_plays_read(void);
void drawn_plays_free(void);

/* What a drawing of plays writes. */
const char *drawn_text(bool (*draw)(FILE *, const struct judged_play[], int), const struct judged_play of[],
                       int count);

/* A report without the texts of its scenario, to be drawn. */
bool drawn_report(FILE *out, const struct judged_play of[], int count);

/* How often `what` is there. */
int drawn_count(const char *text, const char *what);

#endif
