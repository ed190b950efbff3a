/* A watcher: one connection that hears the events of a run as they happen, as Server-Sent Events. It reads
 * the file that the run writes, so all watchers see the same, whenever they come. Of one thread. */
#ifndef LOADTEST_LAB_SERVE_WATCH_H
#define LOADTEST_LAB_SERVE_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "loadtest/lab/serve/desk.h"

struct watch;

/* `after`: the number of the last line that the watcher has, as in `id:`; -1: none. The first line has 0, an
 * event has its `n`. NULL: no memory, or there are too many watchers. */
struct watch *watch_open(struct desk *desk, const struct desk_run *run, int64_t after);

/* Blocks until there is something to send, and writes it to `out`, at most `size` bytes. When nothing happens
 * it sends a comment now and then, so that a connection that is gone is noticed. 0: there will be nothing
 * more. */
size_t watch_read(struct watch *watch, char *out, size_t size);

void watch_close(struct watch *watch);

#endif
