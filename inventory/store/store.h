/* The Redis servers behind one URL: one server, the master that Sentinels name, or a Redis Cluster.
 *
 * A call goes to the server that has its key. In a cluster a call that meets MOVED or ASK is sent to the
 * server that has the slot now; one that meets TRYAGAIN, CLUSTERDOWN, MASTERDOWN or LOADING is sent again
 * after a pause that grows. Both end when the call is timeout_ms old: then it gets the error that it met
 * last. A call is never sent twice unless a server said that it did not carry it out: one whose reply was
 * lost stays unknown.
 *
 * Order: one server carries out the calls of one key in the order in which they were made. In a cluster that
 * holds only while no slot moves. Who needs more sends a script, waits for the reply, or takes a connection
 * by store_connection(), which redirects nothing.
 *
 * Which server has which slot is read (CLUSTER SLOTS) upon MOVED, a broken connection and a call that no
 * server could be sent, and for who asks for it: one reading at a time, at least a second after the last
 * (half a second while a master is gone), with jitter. A MOVED is believed at once, for its slot.
 *
 * Everything here belongs to the loop's thread. */
#ifndef INVENTORY_STORE_STORE_H
#define INVENTORY_STORE_STORE_H

#include "inventory/store/servers.h"

struct store;

struct script {
    const char *text;
    const char *sha; /* its SHA-1, by which the servers know it */
};

/* Starts to connect; NULL when out of memory. `scripts_loaded`, which may be NULL, counts the calls that had
 * to send the text of their script. */
struct store *store_open(const struct servers_config *config, _Atomic uint64_t *scripts_loaded);
/* Another one for the same servers, with connections of its own. It looks for nothing by itself: `store`
 * finds the servers and prepares them, and must outlive it. */
struct store *store_open_another(struct store *store, redis_state_fn *on_state, void *ctx);
/* Pending calls are answered NULL, those that were to be sent again `redis_unsent`, before this returns. The
 * memory goes when the loop has run once more. NULL does nothing. */
void store_close(struct store *store);

/* Whether the server that has the key can be sent calls; `key` NULL: whether any that has keys can. */
bool store_is_up(struct store *store, const char *key);

/* Whether the server that has the key was tried in vain. */
bool store_is_gone(struct store *store, const char *key);

/* Whether all keys can be reached: of a cluster a part can be gone. */
bool store_is_whole(const struct store *store);

/* Whether one server has all keys, and carries out all calls in the order in which they were made. */
bool store_is_one(const struct store *store);

/* The last error of a server that is down, "" where there is none. */
const char *store_error(const struct store *store);

/* As redis_call() and its like, to the server that has the command's key: its first argument. */
void store_call(struct store *store, redis_reply_fn *fn, void *ctx, int argc, const char **argv);
void store_callf(struct store *store, redis_reply_fn *fn, void *ctx, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void store_vcallf(struct store *store, redis_reply_fn *fn, void *ctx, const char *format, va_list list)
    __attribute__((format(printf, 4, 0)));

/* Sends an EVALSHA to the server that has its first key. If the server does not know the script (NOSCRIPT),
 * sends it its text. Takes the command over. */
void store_run(struct store *store, const struct script *script, struct redis_command *evalsha,
               redis_reply_fn *fn, void *ctx);

/* The connection to the server that has the key, for calls that must stay together on it; NULL: no server has
 * it, as far as is known. An error is the caller's to read, by store_note(). The pointer is good until the
 * callback, or the turn of the loop, ends. */
struct redis *store_connection(struct store *store, const char *key);

/* How often a slot was given to another server, as far as is known, or a server got another number. Who goes
 * through the servers, and finds another number at the end, may have missed keys. */
unsigned store_moves(const struct store *store);
/* Has the map of a cluster read again. Who sends no calls hears of no move otherwise. */
void store_want_map(struct store *store);
/* Whether it was read since, and all servers that it names can be sent calls. Always, if there is no map. */
bool store_has_map(const struct store *store);
/* The connection to a server that can be sent calls; NULL: there is none. */
struct redis *store_any(const struct store *store);

/* Why a call over a connection of a cluster met this error. */
enum store_moved {
    STORE_STAYS, /* for another reason */
    STORE_MOVES, /* its slot is on its way, or nobody serves it now: again later */
    STORE_MOVED, /* its slot has moved: again at once, over the connection that it has then */
};
enum store_moved store_note(struct store *store, const struct redis *from, const struct redis_value *error);

/* The servers that have keys. The i-th may be NULL: it is no master of the cluster. */
int store_servers(const struct store *store);
struct redis *store_server(const struct store *store, int i);

/* The number of the history (struct server) in which a call of this key was carried out. Within the callback
 * of a call it is that of the server which replied, otherwise of the one that has the key now. 0: none. */
unsigned store_history(struct store *store, const char *key);
/* The connection to the server that has the history of this number, or had it when it was up last; NULL:
 * there is none by now. */
const struct redis *store_of_history(const struct store *store, unsigned number);

void store_flush(struct store *store);
void store_push(struct store *store);

#endif
