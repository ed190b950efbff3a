/* The servers of a store, a connection to each, and which of them has a key.
 *
 * Of a cluster the servers are its masters, as the cluster names them; the map of slots is read (CLUSTER
 * SLOTS) from one server after the other, until one knows. A server that stood still may tell an old map,
 * with itself as master: a map of an epoch before that of the last one is not believed. What is in flight at
 * a master that has no slots any more counts as lost: it may have been replaced. Everything belongs to the
 * loop's thread. */
#ifndef INVENTORY_STORE_SERVERS_H
#define INVENTORY_STORE_SERVERS_H

#include "base/redis_slots.h"
#include "base/redis_url.h"
#include "inventory/store/redis.h"

struct barrier;
struct sentinel;
struct server;

struct servers_config {
    uv_loop_t *loop;
    const struct redis_url *url; /* must outlive the servers, as the clock must */
    const struct clock *clock;
    int timeout_ms; /* of a call */
    int replicas;   /* that must have what a call wrote, or read, before its reply; see barrier.h */
    /* A master was reached, and is not up yet. Called every few milliseconds until server_admit(). NULL: it
     * needs no preparation. */
    void (*prepare)(void *ctx, struct server *server);
    /* A master was away, and then lost its slots to others. Called before it is dropped. May be NULL. */
    void (*lost)(void *ctx, const struct server *server);
    void *prepare_ctx; /* of both */
    /* Not NULL: these are connections of their own to the servers of that store, which must outlive them. It
     * finds the servers, prepares them, and has the map: one is connected to while it is up there. */
    struct servers *leader;
    redis_state_fn *on_state; /* a server came up, or went down; may be NULL */
    void *ctx;
};

/* More than its masters: those that a redirection names are added, and closed when they are idle. */
enum { SERVERS_MAX = 2 * REDIS_MASTERS_MAX };

struct server {
    struct servers *of;
    struct redis *redis;
    struct barrier *barrier;      /* NULL: replies wait for no replicas */
    struct redis_address address; /* as the cluster names it */
    bool is_master;               /* by the map */
    bool was_away;                /* while the map still named it a master */
    bool was_up;
    unsigned history;      /* the number that `prepare` gave to its history; 0: none yet */
    bool finding;          /* until the leader's is up; `find` of struct redis_config */
    int64_t led_by_ms;     /* the leader's connection that was up when this one was compared to it last */
    int64_t down_since_ms; /* the last time that it went down, or was added */
    int64_t idle_since_ms; /* of one that is no master; 0: it is not idle */
};

struct servers {
    struct servers_config config;
    int count;
    struct server *server[SERVERS_MAX];
    struct sentinel *sentinel; /* NULL: the URL names none */
    bool closing;

    /* Of a cluster: */
    struct redis_slots *slots; /* as read last */
    struct server
        *of_slot[REDIS_SLOTS]; /* and as redirections told since; NULL: nobody, as far as is known */
    unsigned moves;            /* how often another server got a slot, or none, or a place here */
    bool wanted;               /* the map is to be read */
    int64_t read_at_ms;        /* but not before */
    struct server *asked;      /* for the map; NULL: none is */
    int64_t epoch, told_epoch; /* of the map; and of the server that is asked, 0: it did not say */
    int64_t old_since_ms;      /* when a map was not believed first, since the last that was; 0: all were */
    int next;                  /* to be asked */
    char error[256];           /* why the map could not be read; "": it could */
};

/* False when out of memory; then nothing is left. */
bool servers_open(struct servers *servers, const struct servers_config *config);
/* Pending calls are answered NULL before this returns. */
void servers_close(struct servers *servers);

bool servers_are_cluster(const struct servers *servers);

/* A master is prepared. */
void server_admit(struct server *server);

/* NULL: nobody has it, as far as is known. */
struct server *servers_of_slot(struct servers *servers, int slot);
struct server *servers_of_key(struct servers *servers, const char *key);
/* The server at an address of the cluster, which may be new. NULL: out of memory, or there are too many. */
struct server *servers_at(struct servers *servers, const struct redis_address *address);
/* A server said who has the slot now. */
void servers_note_moved(struct servers *servers, int slot, struct server *server);
/* The map may be outdated. */
void servers_want_map(struct servers *servers);

/* To be called every few milliseconds, of a cluster or with a leader: reads the map if it is wanted, or looks
 * what has become of the leader's servers; closes what is not needed any more. */
void servers_tick(struct servers *servers);

#endif
