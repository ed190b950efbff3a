/* What the tests of locks share. */
#ifndef LOCK_TEST_TOOLS_H
#define LOCK_TEST_TOOLS_H

#include <pthread.h>

#include "lock/lock.h"
#include "test/harness.h"

enum { PATIENCE_MS = 20000 };

/* Fails the test where it cannot. `config` may be NULL; the lock is closed when the test ends. */
struct lock *tools_open(const struct lock_config *config, const char *url);
/* redis://127.0.0.1:PORT?OPTIONS */
const char *tools_redis_url(int port, const char *options);

int64_t tools_in_ms(const struct lock *lock, int64_t ms);
void tools_check_status(enum lock_status got, enum lock_status want);
struct lock_grant tools_take(struct lock *lock, const char *key);
/* By another thread: also a lock that is reentrant is busy for this one then. */
struct lock_grant tools_take_elsewhere(struct lock *lock, const char *key);
void tools_give(struct lock *lock, const struct lock_grant *grant);
void tools_check_free(struct lock *lock, const char *key);
/* Looked at from another thread. */
void tools_check_held(struct lock *lock, const char *key);

/* A thread that waits for a key, and keeps what it got. */
struct tools_waiter {
    pthread_t thread;
    struct lock *lock;
    const char *key;
    int64_t deadline_ns;
    struct lock_cancel *cancel;
    enum lock_status status;
    struct lock_grant grant;
    _Atomic bool done;
};

void tools_wait(struct tools_waiter *waiter, struct lock *lock, const char *key, int64_t ms,
                struct lock_cancel *cancel);
enum lock_status tools_join(struct tools_waiter *waiter);

/* Waits until a list in the store has that many elements; what `lock` waits for among them. */
void tools_wait_for_line(const struct redis_server *redis, const char *key, int count);

/* The children of a node in a ZooKeeper, as below /lock/KEY; 0 where there is no such node. */
int tools_count_nodes(const struct zookeeper_server *server, const char *path);
void tools_wait_for_nodes(const struct zookeeper_server *server, const char *path, int count);

/* Of a lock nothing is left there but its fence. */
void tools_check_no_trace(const struct redis_server *redis, const char *key);

#endif
