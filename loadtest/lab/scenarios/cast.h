/* What most scenarios stand on: a Redis that keeps the stock of one item, and clients that want to sell it
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
    bool fencing;            /* clients send their fence */
    char url[CAST_URL_SIZE]; /* of the clients' lock */
};

/* The item that most scenarios sell, and the key of its lock. */
#define CAST_ITEM "lamp"

/* Starts the shop's Redis under `name`. Clients send their fence if `fencing`. */
void cast_open(struct cast *cast, struct stage *stage, const char *name, bool fencing);

/* The lock of clients that come from now on: `format` makes its URL, to which the play's time to live is
 * added. */
__attribute__((format(printf, 2, 3))) void cast_set_lock(struct cast *cast, const char *format, ...);
/* One in the shop's Redis; `variant` is "", or an option of its URL. */
void cast_set_redis_lock(struct cast *cast, const char *variant, int64_t ttl_ms);

struct client *cast_client(struct cast *cast, const char *name);

/* The play begins: `units` of the item are on the shelf. */
void cast_begin(struct cast *cast, int64_t units);

/* Waits until the client has done its command. If it holds the lock, it reads, sells what it computed from
 * that, and releases. */
void cast_sell(struct client *client);

/* `a` holds the lock. If `b` holds it as well, both read, and then both sell; else one sells after the
 * other. */
void cast_sell_beside(struct client *a, struct client *b);

/* The play begins. Two buyers without a lock, step by step: both read that one unit is left, both sell it in
 * this way. */
void cast_two_buyers(struct cast *cast, enum stock_way way);

#endif
