/* A proxy before a server, as a network that can be cut: what is cut off loses nothing and hears nothing. */
#ifndef LOADTEST_LAB_STAGE_PROXY_H
#define LOADTEST_LAB_STAGE_PROXY_H

#include "loadtest/lab/stage/stage.h"

struct proxy;

/* One that passes connections on to `port` of 127.0.0.1. It ends with the play. Never NULL. */
struct proxy *proxy_start(struct stage *stage, int port);
int proxy_port(const struct proxy *proxy);

/* From the return of this call on it passes nothing on, in neither direction, and keeps connections open. */
void proxy_cut(struct proxy *proxy);
/* Cuts within the requests of a connection: behind one that has the text `after` in it, right before the next
 * that has the text `before`. */
void proxy_cut_between(struct proxy *proxy, const char *after, const char *before);
/* It is cut, perhaps by proxy_cut_between(). */
bool proxy_is_cut(struct proxy *proxy);
/* The network is whole again. Connections from before are closed, as those that timed out meanwhile. */
void proxy_heal(struct proxy *proxy);

#endif
