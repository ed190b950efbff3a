/* Redis, alone, with replicas, and with a clock that can be moved. */
#ifndef LOADTEST_LAB_STAGE_REDIS_SERVER_H
#define LOADTEST_LAB_STAGE_REDIS_SERVER_H

#include "loadtest/lab/stage/server.h"

/* With these options of its command line; NULL at the end. It writes no data to disk, unless they say so. */
struct server *redis_server_start(struct stage *stage, const char *name, ...) __attribute__((sentinel));

/* One whose wall clock can be moved. */
struct server *redis_server_start_with_clock(struct stage *stage, const char *name);
void redis_server_move_clock(struct server *server, int64_t jump_ms);

/* A replica that copies from `master_port`; Sentinel reaches it at `announced_port`, 0: its own. Both may be
 * a link's. It is in sync when this returns. */
struct server *redis_server_start_replica(struct stage *stage, const char *name, int master_port,
                                          int announced_port);

/* One command, NULL at the end. The reply as text: integers in digits, elements with spaces between; ""
 * if there is none. It is valid until the next call. A reply that is an error fails the stage. */
const char *redis_server_do(const struct server *server, ...) __attribute__((sentinel));
/* A line of INFO: "master_link_status"; "" if there is no answer, or no such line. */
const char *redis_server_info(const struct server *server, const char *name);

#endif
