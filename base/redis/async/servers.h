/* The servers behind one URL, a connection to each, and which of them has a key.
 *
 * - The servers of a cluster are its masters, as the cluster names them.
 * - The map of slots (CLUSTER SLOTS) is read from one server after the other, until one knows it.
 * - A server that stood still may tell an old map, with itself as master. So a map is not believed if its
 *   epoch is lower than that of the last one.
 * - Calls in flight at a master that has lost its slots count as lost: it may have been replaced.
 * - A server that has left the cluster is dropped once it is idle.
 *
 * Everything belongs to the loop's thread. */
#ifndef BASE_REDIS_ASYNC_SERVERS_H
#define BASE_REDIS_ASYNC_SERVERS_H

#include "base/redis/async/connection.h"
#include "base/redis/slots.h"

struct barrier;
struct sentinels;
struct server;

struct servers_config {
    uv_loop_t *loop;
    const struct redis_url *url; /* must outlive the servers, as the clock must */
    const struct clock *clock;
    int timeout_ms;         /* of a call */
    int replicas;           /* must have what a call wrote, or read, before its reply; see barrier.h */
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

/* There may be more than the masters: a server that a redirection names is added, and closed when idle. */
enum { SERVERS_MAX = 2 * REDIS_MASTERS_MAX };

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
    int64_t epoch;              /* of the map */
    int64_t told_epoch;         /* of the server that is asked; 0: it did not say */
    int64_t old_since_ms;       /* since when maps are not believed; 0: the last one was */
    int next;                   /* the server to be asked next */
    char error[256];            /* why the map could not be read; "": it could */
};

/* False when out of memory; then nothing is left. */
bool servers_open(struct servers *servers, const struct servers_config *config);
/* Pending calls get NULL before this returns. */
void servers_close(struct servers *servers);

bool servers_are_cluster(const struct servers *servers);

/* The master is prepared: admits it, once enough replicas have everything. */
void server_admit(struct server *server);

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
