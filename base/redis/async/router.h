/* Sends calls to the Redis servers behind one URL: one server, the master that Sentinels name, or a Redis
 * Cluster.
 *
 * A call goes to the server that has its key. redirect.h says what an error means for it: in a cluster a
 * call is sent again, to another server or after a pause, until it is timeout_ms old. Then it gets the
 * error that it met last. A call is never sent twice unless a server said that it did not carry it out:
 * one whose reply was lost stays unknown.
 *
 * Order: one server carries out the calls of one key in the order in which they were made. In a cluster
 * that holds only while no slot moves. A caller that needs order in a move sends one script, waits for
 * the reply, or takes a connection by router_connection(), which redirects nothing.
 *
 * The map of slots is read (CLUSTER SLOTS) upon MOVED, a broken connection, a call that no server could
 * be sent, and on request: one reading at a time, with a least age (redirect.h) and jitter. A MOVED is
 * believed at once, for its slot.
 *
 * Everything here belongs to the loop's thread. */
#ifndef BASE_REDIS_ASYNC_ROUTER_H
#define BASE_REDIS_ASYNC_ROUTER_H

#include "base/redis/async/connection.h"

/* ---- opening and closing ---- */

struct router;
struct server;
struct servers;

struct servers_config {
    uv_loop_t *loop;
    const struct redis_url *url; /* must outlive the servers, as the clock must */
    const struct clock *clock;
    int timeout_ms;         /* of a call */
    int replicas;           /* must have what a call wrote, or read, before its reply; see barrier.c */
    const char *key_prefix; /* of the keys of barriers, which no call uses; must outlive the servers */
    /* A master was reached, and is not up yet. Called every few milliseconds until server_admit(). NULL: it
     * needs no preparation. */
    void (*prepare)(void *ctx, struct server *server);
    /* A master was away, and then lost its slots to others. Called before it is dropped. May be NULL. */
    void (*lost)(void *ctx, const struct server *server);
    void *prepare_ctx; /* of both */
    /* Not NULL: more connections to the same servers. The leader finds and prepares the servers, has the map,
     * and must outlive these. A server is connected to only while its connection there is up. */
    struct servers *leader;
    redis_state_fn *on_state; /* a server came up, or went down; may be NULL */
    void *ctx;
};

/* Starts to connect; NULL when out of memory. `scripts_loaded`, which may be NULL, counts the calls that had
 * to send the text of their script. */
struct router *router_open(const struct servers_config *config, _Atomic uint64_t *scripts_loaded);
/* Another one for the same servers, with connections of its own. It looks for nothing by itself: `router`
 * finds the servers and prepares them, and must outlive it. */
struct router *router_open_another(struct router *router, redis_state_fn *on_state, void *ctx);
/* Pending calls get NULL, those that were to be sent again `redis_unsent`, before this returns. The memory
 * goes when the loop has run once more. NULL does nothing. */
void router_close(struct router *router);

/* ---- calls ---- */

/* As redis_call(), to the server that has argv[1]. */
void router_call(struct router *router, redis_reply_fn *fn, void *ctx, int argc, const char *const argv[]);
/* As redis_callf(), to the server that has `key`, or any key with the same hash tag. */
void router_callf(struct router *router, const char *key, redis_reply_fn *fn, void *ctx, const char *format,
                  ...) __attribute__((format(printf, 5, 6)));
void router_vcallf(struct router *router, const char *key, redis_reply_fn *fn, void *ctx, const char *format,
                   va_list list) __attribute__((format(printf, 5, 0)));

/* The caller's keys and arguments begin at argv[SCRIPT_ARGV]; router_run() writes what stands before. */
enum { SCRIPT_ARGV = 3 };

/* Runs a script (EVALSHA) at the server that has its first key. If the server does not know the script, sends
 * its text first. `fn` as of redis_call(). `argv` may be reused when this returns. */
void router_run(struct router *router, const struct redis_script *script, int keys, int argc,
                const char *argv[], redis_reply_fn *fn, void *ctx);
/* Writes what is queued now, as redis_flush() and redis_push() do. */
void router_flush(struct router *router);
void router_push(struct router *router);

/* ---- state ---- */

/* Whether the server that has the key can be sent calls; `key` NULL: whether any that has keys can. */
bool router_is_up(struct router *router, const char *key);
/* Whether the server that has the key was tried in vain. */
bool router_is_gone(struct router *router, const char *key);
/* Whether all keys can be reached: of a cluster a part can be gone. */
bool router_is_whole(const struct router *router);
/* Whether one server has all keys, and carries out all calls in the order in which they were made. */
bool router_is_one(const struct router *router);
/* The last error of a server that is down, "" where there is none. */
const char *router_error(const struct router *router);

/* How often a slot was given to another server, as far as is known, or a server got another number. A caller
 * that goes through the servers, and finds another number at the end, may have missed keys. */
unsigned router_moves(const struct router *router);
/* Has the map of a cluster read again. A caller that sends no calls hears of no move otherwise. */
void router_want_map(struct router *router);
/* Whether it was read since, and all servers that it names can be sent calls. Always, if there is no map. */
bool router_has_map(const struct router *router);

/* ---- servers and their connections ---- */

struct server {
    struct servers *of;
    struct redis *redis;
    struct barrier *barrier;      /* NULL: replies wait for no replicas */
    struct redis_address address; /* as the cluster names it */
    bool is_master;               /* by the map */
    bool was_away;                /* it could not be reached while the map named it a master */
    bool was_up;
    unsigned history;      /* the number that `prepare` gave to its history; 0: none yet */
    bool finding;          /* the connection asks where the server is, and waits for the leader's */
    int64_t led_by_ms;     /* when the leader's connection was reached that this one was compared to last */
    int64_t down_since_ms; /* when it went down last, or was added */
    int64_t idle_since_ms; /* since when a server that is no master has been idle; 0: it is not */
};

/* The master is prepared: admits it, once enough replicas have everything. */
void server_admit(struct server *server);

/* The connection to the server that has the key, for calls that must stay together on it; NULL: no server has
 * it, as far as is known. The caller gives errors to router_note(). The pointer is good until the callback,
 * or the turn of the loop, ends. */
struct redis *router_connection(struct router *router, const char *key);
/* The connection to a server that can be sent calls; NULL: there is none. */
struct redis *router_any(const struct router *router);

/* Why a call over a connection of a cluster met this error. */
enum router_moved {
    ROUTER_STAYS, /* for another reason */
    ROUTER_MOVES, /* its slot is on its way, or nobody serves it now: again later */
    ROUTER_MOVED, /* its slot has moved: again at once, over the connection that it has then */
};
enum router_moved router_note(struct router *router, const struct redis *from,
                              const struct redis_value *error);

/* The servers that have keys. The i-th may be NULL: it is no master of the cluster. */
int router_servers(const struct router *router);
struct redis *router_server(const struct router *router, int i);

/* The number of the history (struct server) in which a call of this key was carried out. Within the callback
 * of a call it is that of the server which replied, otherwise of the one that has the key now. 0: none. */
unsigned router_history(struct router *router, const char *key);
/* The connection to the server that has the history of this number, or had it when it was up last; NULL:
 * there is none by now. */
const struct redis *router_of_history(const struct router *router, unsigned number);

#endif
