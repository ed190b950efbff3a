/* Redis servers that know nothing of each other, for the tests of Redlock. */
#ifndef LOCK_TEST_NODES_H
#define LOCK_TEST_NODES_H

#include "lock/test/tools.h"

enum { NODES_MAX = 5 };

extern struct nodes {
    int count;
    struct redis_server redis[NODES_MAX];
    struct proxy *proxy[NODES_MAX]; /* NULL: none */
} nodes;

/* `proxies`: locks reach them through proxies. */
void nodes_start(int count, bool proxies);
/* redlock://… with all of them. */
const char *nodes_url(int64_t ttl_ms);
/* Closed when the test ends. */
struct lock *nodes_open(int64_t ttl_ms);
/* Starts three, and opens a lock. */
struct lock *nodes_begin(int64_t ttl_ms, bool proxies);

/* The node's value of the key; "(nil)": none. */
const char *nodes_value(int node, const char *key);
/* It has it for this grant. */
bool nodes_has(int node, const struct lock_grant *grant);
/* How many scripts it ran, and how many keys ran out. */
long nodes_scripts(int node);
long nodes_expired(int node);
/* Waits until it has run at least `scripts` scripts and does not have the key, which did not run out. */
void nodes_wait_gone(int node, const char *key, long scripts);

/* One attempt, of which only the status is wanted. */
enum lock_status nodes_try(struct lock *lock, const char *key);

#endif
