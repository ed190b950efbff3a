/* A link of the network, made by a proxy before a server: it can be cut. What is cut off hears nothing, and
 * its connections stay open. */
#ifndef LOADTEST_LAB_STAGE_LINK_H
#define LOADTEST_LAB_STAGE_LINK_H

#include "loadtest/lab/stage/stage.h"

struct link;

/* One that passes connections on to `port` of 127.0.0.1. It ends with the play. Never NULL. */
struct link *link_start(struct stage *stage, int port);
int link_port(const struct link *link);

/* From the return of this call on it passes nothing on, in neither direction, and keeps connections open. */
void link_cut(struct link *link);
/* Cuts within the requests of a connection: behind one that has the text `after` in it, right before the next
 * that has the text `before`. */
void link_cut_between(struct link *link, const char *after, const char *before);
/* It is cut, perhaps by link_cut_between(). */
bool link_is_cut(struct link *link);
/* From now on it passes connections on to another port; those that there are, are closed: an address that
 * moves to another machine. */
void link_move(struct link *link, int port);
/* The network is whole again. Connections from before are closed, as those that timed out meanwhile. */
void link_heal(struct link *link);

#endif
