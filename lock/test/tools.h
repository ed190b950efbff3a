/* Helpers for tests of locks. A check that fails in them ends the test. */
#ifndef LOCK_TEST_TOOLS_H
#define LOCK_TEST_TOOLS_H

#include <pthread.h>

#include "lock/lock.h"
#include "test/harness.h"

enum { PATIENCE_MS = 20000 };

/* `config` may be NULL; the lock is closed when the test ends. */
struct lock *tools_open(const struct lock_config *config, const char *url);
/* The lock is not opened: LOCK_CONFIG, with `says` in the error, which does not have "s3cret" in it. */
void tools_refuse(const char *url, const struct lock_config *config, const char *says);
/* redis://127.0.0.1:PORT?OPTIONS */
const char *tools_redis_url(int port, const char *options);

int64_t tools_in_ms(const struct lock *lock, int64_t ms);
void tools_check_status(enum lock_status got, enum lock_status want);
struct lock_grant tools_acquire(struct lock *lock, const char *key);
/* By another thread: so also a reentrant lock is busy for this one. */
struct lock_grant tools_acquire_elsewhere(struct lock *lock, const char *key);
void tools_release(struct lock *lock, const struct lock_grant *grant);
/* Acquires and releases; returns the grant that was. */
struct lock_grant tools_use(struct lock *lock, const char *key);
/* The same with a store that may be away: tries until it works. */
void tools_use_at_last(struct lock *lock, const char *key);
void tools_check_free(struct lock *lock, const char *key);
/* Tried by another thread. */
void tools_check_held(struct lock *lock, const char *key);

/* Freed when the test ends. */
struct lock_cancel *tools_new_cancel(void);

/* A thread that waits for a key, and keeps what it got. If the test ends before it was joined, its wait is
 * cancelled: the lock can be closed. */
struct tools_waiter {
    pthread_t thread;
    bool joined;
    struct lock *lock;
    const char *key;
    int64_t deadline_ns;
    struct lock_cancel *cancel;
    enum lock_status status;
    struct lock_grant grant;
    _Atomic bool done;
};

/* `cancel` may be NULL. The test owns the waiter. */
struct tools_waiter *tools_wait(struct lock *lock, const char *key, int64_t ms, struct lock_cancel *cancel);
/* The same with a thread of the caller's own, which gets the waiter and waits with its `cancel`. */
struct tools_waiter *tools_wait_by(void *(*thread)(void *waiter), struct lock *lock, const char *key,
                                   int64_t ms, struct lock_cancel *cancel);
enum lock_status tools_join(struct tools_waiter *waiter);
/* It gets the lock, which is then released. Returns the fence that it had. */
uint64_t tools_serve(struct tools_waiter *waiter);

struct lock_metrics tools_metrics(const struct lock *lock);
/* Waits until so many threads wait within the lock, for whichever keys. */
void tools_wait_for_waiters(const struct lock *lock, uint64_t count);

/* What on_lost() was told since tools_open_told(): of one lock at a time. */
extern struct tools_told {
    _Atomic int times;
    struct lock_grant grant; /* the last, and when it was told */
    _Atomic int64_t at_ns;
} told;

void tools_on_lost(void *ctx, const struct lock_grant *grant);
/* A lock that tells its losses there. */
struct lock *tools_open_told(const char *url);
void tools_wait_told(int times);

/* Threads of this process by their ids. */
struct tools_threads {
    int ids[256], count;
};
/* How many threads that are not `known` take signals, and how many block all that a program may want. They
 * become known. (A new thread blocks all until it runs for the first time.) */
void tools_count_new_threads(struct tools_threads *known, int *taking, int *blocking);

/* Waits until so many owners wait for `key` in the Redis. */
void tools_wait_for_queue(const struct redis_server *redis, const char *key, int count);

/* The children of a node in a ZooKeeper, as below /lock/KEY; 0 where there is no such node. */
int tools_count_nodes(const struct zookeeper_server *server, const char *path);
void tools_wait_for_nodes(const struct zookeeper_server *server, const char *path, int count);

/* Nothing of the lock is left there but its fence. */
void tools_check_no_trace(const struct redis_server *redis, const char *key);

#endif
