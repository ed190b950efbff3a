/* A link of the network that fails: a TCP proxy before a server on 127.0.0.1, which one thread serves. A link
 * that is cut is silent: it passes nothing and closes nothing. Other faults lose, delay or hold back what
 * passes. Calls come from any thread. All but proxy_open() accept NULL, a link that could not be started, and
 * then do nothing. */
#ifndef BASE_SERVERS_PROXY_H
#define BASE_SERVERS_PROXY_H

#include <stdbool.h>

enum proxy_mode {
    PROXY_PASS,
    PROXY_DELAY, /* replies arrive n milliseconds late */
    PROXY_CUT,   /* n more bytes of replies (0: the reply is lost whole), then that connection is closed; then
                    PASS */
    PROXY_LATE, /* requests are kept back, and arrive once the mode changes, also where the client has left */
    PROXY_REFUSE, /* all connections are closed, new ones refused */
    PROXY_SILENT, /* nothing passes in either direction; new connections wait to be accepted */
};

enum { PROXY_TEXT_SIZE = 64 };

struct proxy;

/* Passes connections to its own port on to `target_port`. NULL: it cannot be started. The caller frees it. */
struct proxy *proxy_open(int target_port);
/* Ends it and closes all connections. */
void proxy_free(struct proxy *proxy);
int proxy_port(const struct proxy *proxy);

/* Holds from when this returns. With `after` (not NULL, shorter than PROXY_TEXT_SIZE) DELAY, CUT and LATE
 * wait for a request with that text in it, and meet the replies that come to its connection once it has
 * passed, or that request. */
void proxy_set(struct proxy *proxy, enum proxy_mode mode, int n, const char *after);
/* PROXY_REFUSE, and PROXY_SILENT, from now on. */
void proxy_stop(struct proxy *proxy);
void proxy_silence(struct proxy *proxy);
/* Becomes SILENT within the requests of a connection: behind one that has the text `after` in it, right
 * before the next that has the text `before`. */
void proxy_silence_between(struct proxy *proxy, const char *after, const char *before);
bool proxy_is_silent(struct proxy *proxy);
/* Passes again. Connections from before are closed, as those are that timed out meanwhile. */
void proxy_heal(struct proxy *proxy);

/* New connections go to that port from now on; those that stand stay. */
void proxy_point(struct proxy *proxy, int target_port);
/* How many connections CUT has closed. */
int proxy_faults(struct proxy *proxy);

#endif
