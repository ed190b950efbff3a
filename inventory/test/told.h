/* Sellers that count what they tell of losses, and a failover that they go through. */
#ifndef INVENTORY_TEST_TOLD_H
#define INVENTORY_TEST_TOLD_H

#include "inventory/test/fixture.h"
#include "test/harness.h"

struct told {
    struct inventory_metrics metrics;
    int outcomes[INVENTORY_LOSS_OUTCOMES];
};

/* One that counts in `told`, has the lock and a fence, and is up. If it has to wait for others, time passes
 * quickly. */
struct seller *told_seller_open(struct shop *shop, const char *url, struct told *told);
/* The same with another time-out of its calls. */
struct seller *told_seller_within(struct shop *shop, const char *url, int call_timeout_ms, struct told *told);
/* The same at this server. */
struct seller *told_seller_on(struct shop *shop, const struct redis_server *redis, struct told *told);
/* The same with other options. */
struct seller *told_seller_open_with(struct shop *shop, const struct seller_options *options,
                                     struct told *told);
/* One at a Redis of its own without replicas. */
struct seller *told_seller_at(struct redis_server *redis, struct told *told);
/* It has sold ann a phone of ten, by key `k`. */
struct seller *told_seller_sold_at(struct redis_server *redis, struct told *told);
/* So many were put back, so many did not fit, and nothing else was told. */
void told_check(const struct told *told, int back, int is_short);

/* A master with a replica, and two sellers in a shop. */
void told_open_two(struct pair *pair, struct seller **seller, struct told *told, struct seller **other,
                   struct told *others);

/* The server is of another history from now on, as if it had been replaced. */
void told_begin_history(const struct redis_server *redis);

/* How much of what it acknowledged is on no replica yet; it begins to end. */
int told_open(struct seller *seller);

/* The master dies; both sellers notice, and are up again at its replica, as seller_hurry_up() has it. `other`
 * may be NULL. */
void told_fail_over(struct pair *pair, struct seller *seller, struct seller *other);

/* The heartbeats (membership.lua). */
#define TOLD_ALIVE "seckill:{sellers}:alive"
/* A key of membership.lua for the history of this server. */
const char *told_key_of(const struct redis_server *server, const char *key);

/* It has shown what it has to the new master, and does not sell there yet, nor a moment later. */
void told_check_quarantine(struct seller *seller);

#endif
