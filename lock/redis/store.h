/* What all locks in Redis share: servers, names of keys, scripts. Not for users. */
#ifndef LOCK_REDIS_STORE_H
#define LOCK_REDIS_STORE_H

#include "lock/core/backend.h"
#include "lock/redis/servers.h"

enum { REDIS_KEY_SIZE = LOCK_KEY_MAX + 32, REDIS_NUMBER_SIZE = 24 };

struct redis_store {
    const struct lock_env *env;
    struct redis_servers *servers;
    int64_t ttl_ms;
    char ttl_text[REDIS_NUMBER_SIZE];
};

extern const struct redis_script redis_script_owner, redis_script_extend;

/* lock:{KEY}SUFFIX; of a KEY that begins with } lock:{ KEY}SUFFIX. The braces keep all keys of a lock in one
 * slot of a cluster. */
void redis_store_key(char out[REDIS_KEY_SIZE], const char *key, const char *suffix);
/* A grant's deadline: its time to live after `sent_ns`, less what two clocks may drift apart meanwhile. */
int64_t redis_store_deadline_ns(int64_t sent_ns, int64_t ttl_ms);

/* lock_backend's open and close; the store is a struct redis_store. */
enum lock_status redis_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                  char *error, size_t error_size);
void redis_store_close(void *store);

/* lock_backend's members that the locks for lessons have in common. */
#define REDIS_STORE_LESSON                                                                                   \
    .scheme = "redis", .caps = LOCK_IS_SHARED, .is_lesson = true, .open = redis_store_open,                  \
    .close = redis_store_close

/* As redis_servers_call() with the command's first argument as its key, but an answer that is an ERROR is
 * LOCK_UNAVAILABLE. */
enum lock_status redis_store_call(struct redis_store *store, struct redis_answer *answer, int argc,
                                  const char *const argv[], struct lock_cancel *cancel);
/* Runs a script by its digest, and by its text if the server does not have it. `argv`: two places that this
 * function fills, the number of keys, the keys, the arguments. */
enum lock_status redis_store_run(struct redis_store *store, const struct redis_script *script,
                                 struct redis_answer *answer, int argc, const char *argv[],
                                 struct lock_cancel *cancel);

/* Is this process subscribed to what is published to it about this lock? `subscribe`: starts the subscriber.
 */
bool redis_store_is_subscribed(struct redis_store *store, const char *key, bool subscribe);

/* lock_backend's release for a key whose value is the owner: compare and delete. */
enum lock_status redis_store_release(void *store, const char *key, const char *owner);
/* SET NX PX. LOCK_OK, with the deadline, also if an earlier call did it and its reply was lost; LOCK_BUSY. */
enum lock_status redis_store_set_nx(struct redis_store *store, struct lock_attempt *attempt,
                                    const char *value);
/* LOCK_BUSY for a lock that polls: again after a short random time, so that two waiters do not meet again. */
enum lock_status redis_store_busy(const struct redis_store *store, struct lock_attempt *attempt);

#endif
