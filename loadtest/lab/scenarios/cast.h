/* The cast of most scenarios: a Redis that keeps the stock of one item, and clients that want to sell it
 * under a lock. */
#ifndef LOADTEST_LAB_SCENARIOS_CAST_H
#define LOADTEST_LAB_SCENARIOS_CAST_H

#include "loadtest/lab/stage/lab_client.h"
#include "loadtest/lab/stage/observer.h"
#include "loadtest/lab/stage/stage_servers.h"

enum { CAST_URL_SIZE = 200 };

struct cast {
    struct stage *stage;
    struct server *shop; /* keeps the stock */
    struct clients *clients;
    bool fencing;            /* clients send their fence with each write */
    char url[CAST_URL_SIZE]; /* the lock of clients that start from now on */
};

/* The item that most scenarios sell, and the key of its lock. */
#define CAST_ITEM "lamp"

/* Starts the shop's Redis under `name`. Clients send their fence if `fencing`. */
void cast_open(struct cast *cast, struct stage *stage, const char *name, bool fencing);

/* Sets the lock of clients that start from now on: `format` makes its URL, plus the play's time to live. */
__attribute__((format(printf, 2, 3))) void cast_set_lock(struct cast *cast, const char *format, ...);
/* Sets a lock in the shop's Redis; `variant` is "", or an option of its URL. */
void cast_set_redis_lock(struct cast *cast, const char *variant, int64_t ttl_ms);

/* Starts an etcd of one member, "etcd", and sets a lock in it; `options` is "", or begins with "?". */
struct server *cast_start_etcd(struct cast *cast, const char *options);

/* Starts a client with the lock that was set. */
struct client *cast_client(struct cast *cast, const char *name);

/* Begins the play with `units` of the item on the shelf. */
void cast_begin(struct cast *cast, int64_t units);

/* Waits until the client has done its command. If the client then holds the lock, it reads the stock, sells
 * what it computed from that, and releases. */
void cast_sell(struct client *client);

/* `a` holds the lock. If `b` holds it too, both read, and then both sell; otherwise `b` sells after `a`. */
void cast_sell_beside(struct client *a, struct client *b);

#endif
