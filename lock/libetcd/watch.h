/* All watches of a client. Not for users. */
#ifndef LOCK_LIBETCD_WATCH_H
#define LOCK_LIBETCD_WATCH_H

#include "lock/libetcd/client.h"

struct etcd_watch_stream;

/* NULL when out of memory. Adds its ticker to the client's loop. */
struct etcd_watch_stream *etcd_watch_stream_new(struct etcd *etcd);
/* Ends the stream; no callback follows. */
void etcd_watch_stream_stop(struct etcd_watch_stream *watches);
/* After the loop has ended. `watches` may be NULL. */
void etcd_watch_stream_free(struct etcd_watch_stream *watches);

#endif
