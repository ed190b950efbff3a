/* The keepalives of a client: the leases that it renews. Not for users. */
#ifndef LOCK_LIBETCD_KEEPALIVE_H
#define LOCK_LIBETCD_KEEPALIVE_H

#include "lock/libetcd/client.h"

struct etcd_keepalive_stream;

/* NULL when out of memory. Adds its ticker to the client's loop. */
struct etcd_keepalive_stream *etcd_keepalive_stream_new(struct etcd *etcd);
/* Ends the stream; no callback follows. */
void etcd_keepalive_stream_stop(struct etcd_keepalive_stream *keepalives);
/* After the loop has ended. `keepalives` may be NULL. */
void etcd_keepalive_stream_free(struct etcd_keepalive_stream *keepalives);

#endif
