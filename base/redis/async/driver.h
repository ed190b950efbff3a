/* The asynchronous driver from within: what its units have of each other. connection.h and router.h are for
 * its users. */
#ifndef BASE_REDIS_ASYNC_DRIVER_H
#define BASE_REDIS_ASYNC_DRIVER_H

#include <sys/queue.h>

#include "base/redis/async/router.h"

/* ---- a connection: dial.c makes it, connection.c has its calls and its end ---- */

struct redisAsyncContext;

/* A call that waits for its reply. */
struct redis_pending {
    STAILQ_ENTRY(redis_pending) next;
    struct redis *redis;
    redis_reply_fn *fn;
    void *ctx;
    int64_t since_ms;
    bool early; /* queued before the connection was up */
};

/* A reply that is held back. */
struct redis_held {
    STAILQ_ENTRY(redis_held) next;
    redis_reply_fn *fn;
    void *ctx;
    struct redis_value *value;
    int64_t since_ms;
};

struct redis_poll;

struct redis {
    struct redis_config config;
    struct redisAsyncContext *hiredis; /* NULL between two attempts */
    struct redis_poll *poll;
    STAILQ_HEAD(redis_calls, redis_pending) pending; /* replies come in order: the first is the oldest */
    struct redis_calls spare;                        /* memory for calls */
    STAILQ_HEAD(redis_replies, redis_held) held;
    struct redis_output output;    /* where a command is formatted */
    uint64_t held_count, released; /* so far */
    int replicas;                  /* have what was released last */
    struct replication history;
    uv_timer_t tick;
    uv_prepare_t flush; /* before the loop waits */
    int64_t ticked_ms;
    int64_t connecting_since_ms, reached_ms, retry_at_ms;
    int pause_ms; /* before the next attempt to connect; 0: there was none yet */
    int handles;  /* that are not closed yet */
    bool up, closing, late;
    bool finding;   /* config.find was asked, and has not answered */
    bool preparing; /* config.prepare was called, and redis_admit() was not */
    bool greeting;  /* calls may be queued though the connection is not up */
    bool logged_in;
    bool in_vain; /* it was tried since it was up last */
    char error[256];
};

/* Ends what refers to a connection that is gone, or could not be made. */
void redis_went_down(struct redis *redis);
/* Polls the socket for hiredis until hiredis frees the connection. NULL when out of memory, or if the socket
 * cannot be polled. */
struct redis_poll *redis_poll_start(uv_loop_t *loop, struct redisAsyncContext *hiredis);

/* ---- Sentinels (sentinels.c) ---- */

struct sentinels;

/* For the Sentinels of config->url; `config` must outlive it. NULL when out of memory. */
struct sentinels *sentinels_open(const struct servers_config *config);
/* Looks the master up for a connection: `find` of struct redis_config. Always for the same one, which is
 * broken later if the Sentinels name another master. */
void sentinels_find(struct sentinels *sentinels, struct redis *redis);
/* Ends a search without an answer. The memory goes when the loop has run once more. NULL does nothing. */
void sentinels_close(struct sentinels *sentinels);

/* ---- replies that wait for replicas (barrier.c) ---- */

struct barrier;

/* Whether this server has the key, as far as is known. */
typedef bool barrier_owns_fn(const struct server *server, const char *key);

/* For the replies of server->redis, which must be closed before the barrier. NULL when out of memory. */
struct barrier *barrier_open(struct server *server, barrier_owns_fn *owns);
/* The connection is prepared (connection.h): admits it once enough replicas have everything. May be called
 * again meanwhile. */
void barrier_admit(struct barrier *barrier);
/* The memory goes when the loop has run once more. NULL does nothing. */
void barrier_close(struct barrier *barrier);

/* ---- the servers behind a URL (servers.c): a connection to each, and which of them has a key ---- */

/* There may be more than the masters: a server that a redirection names is added, and closed when idle. */
enum { SERVERS_MAX = 2 * REDIS_MASTERS_MAX };

struct servers {
    struct servers_config config;
    int count;
    struct server *server[SERVERS_MAX];
    struct sentinels *sentinels; /* NULL: the URL names none */
    bool closing;

    /* Of a cluster: */
    struct redis_slots *slots;  /* as read last */
    struct redis_owners owners; /* `moves` also counts how often a server changed its place in `server` */
    bool wanted;                /* the map is to be read, */
    int64_t read_at_ms;         /* but not before this time */
    struct server *asked;       /* the server that is asked for the map; NULL: none is */
    int64_t told_epoch;         /* of the server that is asked; 0: it did not say */
    int next;                   /* the server to be asked next */
    char error[256];            /* why the map could not be read; "": it could */
};

/* False when out of memory; then nothing is left. */
bool servers_open(struct servers *servers, const struct servers_config *config);
/* Pending calls get NULL before this returns. */
void servers_close(struct servers *servers);

bool servers_are_cluster(const struct servers *servers);

/* The current owner; NULL: nobody is known. */
struct server *servers_of_slot(struct servers *servers, int slot);
struct server *servers_of_key(struct servers *servers, const char *key);
/* The server at an address of the cluster; it is added if it is new. NULL: out of memory, or there are too
 * many. */
struct server *servers_at(struct servers *servers, const struct redis_address *address);
/* A server said who has the slot now. */
void servers_note_moved(struct servers *servers, int slot, struct server *server);
/* The map may be outdated. */
void servers_want_map(struct servers *servers);

/* Must be called every few milliseconds for a cluster, or with a leader: reads the map if it is wanted,
 * follows the leader's servers, and closes connections that are not needed any more. */
void servers_tick(struct servers *servers);

#endif
