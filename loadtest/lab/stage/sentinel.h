/* Redis Sentinel: promotes the replica when the master does not answer. */
#ifndef LOADTEST_LAB_STAGE_SENTINEL_H
#define LOADTEST_LAB_STAGE_SENTINEL_H

#include "loadtest/lab/stage/server.h"

/* One that watches the master at `master_port`, and whose one vote is enough. When this returns it knows the
 * replica. */
struct server *sentinel_start(struct stage *stage, const char *name, int master_port);

/* Waits until it names another master than the one at `old_port`, and says so in events: `name` is what the
 * new one is called. */
void sentinel_await_promotion(struct server *sentinel, int old_port, const struct server *promoted);

#endif
