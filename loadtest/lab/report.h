/* What a run leaves in its directory: DIR/NAME/ with events, picture, trace and report, and DIR/index.html.
 */
#ifndef LOADTEST_LAB_REPORT_H
#define LOADTEST_LAB_REPORT_H

#include "loadtest/lab/scenarios/scenario.h"

enum { REPORT_PLAYS = 2, REPORT_PATH_SIZE = 512 };

/* The path of a file of a scenario, whose `name` may be "": then it is of the directory itself. */
void report_path(char path[REPORT_PATH_SIZE], const char *directory, const char *name, const char *file);
/* "events.broken.jsonl" */
const char *report_events_file(bool broken);

/* Makes a directory, unless it is there. False: `errno` says why. */
bool report_make_directory(const char *path);

/* Draws the two plays of a scenario, broken and fixed. False: a file could not be written. */
bool report_write(const char *directory, const struct scenario *scenario,
                  const struct judged_play plays[REPORT_PLAYS]);

/* Brings the broken play of two before the fixed one. False: they are not the plays of one scenario. */
bool report_order(struct judged_play plays[], int count);
/* Draws the report of one play or two, with the texts of their scenario, if there are any. */
bool report_draw(FILE *out, const struct judged_play plays[], int count);

/* The broken play shows the fault, and the fixed one holds. */
bool report_is_taught(const struct judged_play plays[REPORT_PLAYS]);

/* Lists all scenarios whose events are in the directory, of this run and of earlier ones. */
bool report_write_index(const char *directory);

#endif
