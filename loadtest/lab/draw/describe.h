/* The events of a play as text: one by one in words, as steps, as a table, and as a trace. */
#ifndef LOADTEST_LAB_DRAW_DESCRIBE_H
#define LOADTEST_LAB_DRAW_DESCRIBE_H

#include "loadtest/lab/judge/judge.h"

/* ---- one event, for titles of marks and rows of tables ---- */

enum { DESCRIBE_SIZE = 300 };

/* What happened, without time and actor: "gets lamp until 1012 ms, fence 33". */
void describe_event(const struct event *event, char text[DESCRIBE_SIZE]);

/* The same with both: "15 ms, client-a: gets lamp …". */
void describe_whole(const struct event *event, char text[DESCRIBE_SIZE]);

/* "20,000". */
void describe_count(size_t count, char text[32]);

/* The id of an event's mark in a document with both plays: "n17" or "fixed-n17". */
void describe_id(const struct event_log *log, uint64_t n, char id[32]);

/* ---- steps: how the clients came between each other ---- */

enum { STEPS_MAX = 12, STEPS_TEXT = 200 };

/* What clients note ("reads 1 left") and the writes that the stock has answered, in order of time. */
struct steps {
    char texts[STEPS_MAX][STEPS_TEXT]; /* "client-a sells 1 (0 left)" */
    int count;
    size_t more; /* steps after these */
};

/* Finds the first steps of a play; none if no client has noted anything. A client is an actor that has asked
 * for a lock or sent a write. */
void steps_find(const struct event_log *log, struct steps *steps);

/* Prints the steps as one line: "client-a reads 1 left; client-b reads 1 left; and 3 more". Returns false if
 * there are none; then it prints nothing. */
bool steps_print(FILE *out, const struct event_log *log);

/* ---- files ---- */

/* Writes the events as a table of plain text: time, actor, what happened. Returns false on an error. */
bool table_draw(FILE *out, const struct judged_play plays[], int count);

/* Writes the events as a trace that opens in Perfetto (the Trace Event Format of Chrome): a process for each
 * play, a thread for each actor; holds, waits and faults as slices, causes as flows, the stock as a counter.
 * Returns false when out of memory, or if it could not be written. */
bool trace_draw(FILE *out, const struct judged_play plays[], int count);

#endif
