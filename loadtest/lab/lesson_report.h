/* The report of a lesson, which is the broken and the fixed play of one scenario: whether the two show what
 * they teach, how they are drawn, and what a run leaves in its directory (DIR/NAME/ with events, picture,
 * trace and report, and DIR/index.html). */
#ifndef LOADTEST_LAB_LESSON_REPORT_H
#define LOADTEST_LAB_LESSON_REPORT_H

#include "loadtest/lab/scenarios/scenarios.h"

enum { LESSON_PLAYS = 2, LESSON_PATH_SIZE = 512 };

/* Brings the broken play of two before the fixed one. Returns false if they are not the two plays of one
 * scenario. */
bool lesson_order(struct judged_play plays[], int count);

/* Draws the report of one play or two as one HTML file, with the texts of their scenario if it is known here.
 * Returns false when out of memory. */
bool lesson_draw(FILE *out, const struct judged_play plays[], int count);

/* Returns whether the broken play shows the fault, and the fixed one holds. */
bool lesson_is_taught(const struct judged_play plays[LESSON_PLAYS]);

/* Makes the path of a file of a scenario; with the name "", of a file of the directory itself. */
void lesson_path(char path[LESSON_PATH_SIZE], const char *directory, const char *name, const char *file);
/* "events.broken.jsonl" */
const char *lesson_events_file(bool broken);

/* Writes picture, trace and report of a lesson. Returns false if a file could not be written. */
bool lesson_write(const char *directory, const struct scenario *scenario,
                  const struct judged_play plays[LESSON_PLAYS]);

/* Writes the index of all lessons whose events are in the directory, from this run and earlier ones. Returns
 * false if it could not be written. */
bool lesson_write_index(const char *directory);

#endif
