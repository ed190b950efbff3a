/* The cast of most scenarios: a Redis that keeps the stock of one item, clients that want to sell it under a
 * lock, and the servers of that lock. */
#ifndef LOADTEST_LAB_SCENARIOS_CAST_H
#define LOADTEST_LAB_SCENARIOS_CAST_H

#include "loadtest/lab/scenarios/scenarios.h"
#include "loadtest/lab/stage/lab_client.h"

enum { CAST_URL_SIZE = 200, CAST_LOCK_SERVERS = 4, CAST_NODES = 3 };

struct cast {
    struct stage *stage;
    struct server *shop; /* keeps the stock */
    struct clients *clients;
    /* Clients that start from now on have `options`, and `url` as their lock. */
    struct client_options options;
    char url[CAST_URL_SIZE];
    int64_t ttl_ms; /* of locks that are set from now on */
    /* The servers that keep the lock, all of one kind. cast_begin() observes them. */
    struct server *lock_servers[CAST_LOCK_SERVERS];
    int lock_server_count;
    const char *etcd_prefix; /* below which an etcd keeps it; "lock/" unless the scenario sets another */
};

/* The item that most scenarios sell, and the key of its lock. */
#define CAST_ITEM "lamp"

/* Starts the shop's Redis under `name`. Clients send their fence if `fencing`. */
void cast_open(struct cast *cast, struct stage *stage, const char *name, bool fencing);
/* The same with a Redis "redis" that keeps the lock, too; see cast_set_redis_lock(). */
void cast_open_redis(struct cast *cast, struct stage *stage, bool fencing, const char *variant);

/* Adds a server that keeps the lock. Returns it. */
struct server *cast_add_lock_server(struct cast *cast, struct server *server);
/* Starts the independent nodes of a Redlock, "node-1" to "node-3", each by `start`. They keep the lock. */
void cast_start_nodes(struct cast *cast, struct server *(*start)(struct stage *stage, const char *name),
                      int ports[CAST_NODES]);
/* stage_start_redis() without options. */
struct server *cast_start_redis(struct stage *stage, const char *name);
/* Sets the lock of clients that start from now on: a URL of this scheme, with these ports of 127.0.0.1, and
 * `option`, which may be "", beside the time to live. */
void cast_set_lock(struct cast *cast, const char *scheme, const int ports[], int count, const char *option);
/* Sets a lock in the shop's Redis; `variant` is "", or an option of its URL. */
void cast_set_redis_lock(struct cast *cast, const char *variant);
/* Starts an etcd of `count` members, which keep the lock, and sets it. */
void cast_start_etcd(struct cast *cast, int count, const char *option);

/* Starts a client with the lock that was set. */
struct client *cast_client(struct cast *cast, const char *name);
/* Starts `count` clients NAME-1 and so on, with the lock that was set. */
void cast_crowd(struct cast *cast, const char *name, int count, struct client *crowd[]);

/* Begins the play with `units` of the item on the shelf, and observes who holds the item's lock. */
void cast_begin(struct cast *cast, int64_t units);

/* Lets the client try for up to `wait_ms` to get the lock. Blocks until it has, or for `watch_ms`. */
void cast_try(struct client *client, int64_t wait_ms, int64_t watch_ms);

/* Waits until the client has done its command. If the client then holds the lock, it reads the stock, sells
 * what it computed from that, and releases. */
void cast_sell(struct client *client);

/* `a` holds the lock. If `b` holds it too, both read, and then both sell; otherwise `b` sells after `a`. */
void cast_sell_beside(struct client *a, struct client *b);

#endif
