/* Redis servers that know nothing of each other, for the tests of Redlock. */
#ifndef LOCK_TEST_NODES_H
#define LOCK_TEST_NODES_H

#include "lock/test/tools.h"

enum { NODES_MAX = 5 };

struct nodes {
    int count;
    struct redis_server redis[NODES_MAX];
    struct proxy *proxy[NODES_MAX]; /* NULL: none */
};

/* `proxies`: locks reach them through proxies. */
void nodes_start(struct nodes *nodes, int count, bool proxies);
/* Opens redlock://… on all of them; `config` may be NULL. */
struct lock *nodes_open(const struct nodes *nodes, int64_t ttl_ms, const struct lock_config *config);

/* The node's value of the key; "(nil)": none. */
const char *nodes_value(const struct nodes *nodes, int node, const char *key);
/* It has it for this grant. */
bool nodes_has(const struct nodes *nodes, int node, const struct lock_grant *grant);
/* How many scripts it ran, and how many keys ran out. */
long nodes_scripts(const struct nodes *nodes, int node);
long nodes_expired(const struct nodes *nodes, int node);
/* Waits until it has run at least `scripts` scripts and does not have the key, which did not run out. */
void nodes_wait_gone(struct nodes *nodes, int node, const char *key, long scripts);

/* One attempt, of which only the status is wanted. */
enum lock_status nodes_try(struct lock *lock, const char *key);

#endif
