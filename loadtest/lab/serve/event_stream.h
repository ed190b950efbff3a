/* An event stream: one connection that receives the events of a run as they happen, as Server-Sent Events. It
 * reads the file that the run writes, so all connections get the same events, whenever they begin. A stream
 * belongs to one thread. */
#ifndef LOADTEST_LAB_SERVE_EVENT_STREAM_H
#define LOADTEST_LAB_SERVE_EVENT_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "loadtest/lab/serve/run_control.h"

struct event_stream;

/* `after` is the number of the last line that the receiver has, as in `id:`; -1: none. The first line has the
 * number 0, an event has its `n`. Returns NULL when out of memory, or if there are too many streams. */
struct event_stream *event_stream_open(struct run_control *control, const struct lab_run *run, int64_t after);

/* Blocks until there is something to send, and writes at most `size` bytes of it to `out`. When nothing
 * happens, it sends a comment every few seconds, so that a closed connection is noticed. Returns 0 at the end
 * of the stream. */
size_t event_stream_read(struct event_stream *stream, char *out, size_t size);

void event_stream_close(struct event_stream *stream);

#endif
