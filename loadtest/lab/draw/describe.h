/* An event in words: for titles of marks, and for the table of the report. */
#ifndef LOADTEST_LAB_DRAW_DESCRIBE_H
#define LOADTEST_LAB_DRAW_DESCRIBE_H

#include "loadtest/lab/events/event.h"

enum { DESCRIBE_SIZE = 300 };

/* What happened, without time and actor: "gets lamp until 1012 ms, fence 33". */
void describe_event(const struct event *event, char text[DESCRIBE_SIZE]);

/* The same with both: "15 ms, client-a: gets lamp …". */
void describe_whole(const struct event *event, char text[DESCRIBE_SIZE]);

/* "20,000". */
void describe_count(size_t count, char text[32]);

/* "n17" or "fixed-n17": what identifies the mark of an event in a document with both plays. */
void describe_id(const struct event_log *log, uint64_t n, char id[32]);

#endif
