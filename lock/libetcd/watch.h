/* All watches of a client. Not for users. */
#ifndef LOCK_LIBETCD_WATCH_H
#define LOCK_LIBETCD_WATCH_H

#include "lock/libetcd/client.h"

struct etcd_watches;

/* NULL when out of memory. Adds its ticker to the client's loop. */
struct etcd_watches *etcd_watches_new(struct etcd *etcd);
/* Ends the stream; no callback follows. */
void etcd_watches_stop(struct etcd_watches *watches);
/* After the loop has ended. `watches` may be NULL. */
void etcd_watches_free(struct etcd_watches *watches);

#endif
