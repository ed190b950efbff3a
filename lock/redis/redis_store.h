/* What all locks in Redis share: servers, names of keys, scripts, deadlines. Not for users. */
#ifndef LOCK_REDIS_REDIS_STORE_H
#define LOCK_REDIS_REDIS_STORE_H

#include "base/redis/blocking/servers.h"
#include "base/redis/resp.h"
#include "lock/core/backend.h"

enum { REDIS_KEY_SIZE = LOCK_KEY_MAX + 32, REDIS_NUMBER_SIZE = 24 };

struct redis_store {
    const struct lock_env *env;
    struct redis_servers *servers;
    struct redis_hooks hooks;
    char channel[40]; /* of this process, for wake-ups */
    int64_t ttl_ms;
    char ttl_text[REDIS_NUMBER_SIZE];
};

extern const struct redis_script redis_script_owner, redis_script_extend;

/* Writes lock:{KEY}SUFFIX, or lock:{ KEY}SUFFIX if KEY begins with }. The braces keep all keys of a lock in
 * one slot of a cluster. */
void redis_store_key(char out[REDIS_KEY_SIZE], const char *key, const char *suffix);
/* A grant's deadline: its time to live after `sent_ns`, less what two clocks may drift apart meanwhile. */
int64_t redis_store_deadline_ns(int64_t sent_ns, int64_t ttl_ms);

/* The driver reports to the lock, and counts its requests. No wake-ups. */
struct redis_hooks redis_store_hooks(const struct lock_env *env);

/* lock_backend's open and close; the store is a struct redis_store. */
enum lock_status redis_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                  char *error, size_t error_size);
void redis_store_close(void *store);

/* lock_backend's members that the locks for lessons have in common. */
#define REDIS_STORE_LESSON                                                                                   \
    .scheme = "redis", .caps = LOCK_IS_SHARED, .is_lesson = true, .open = redis_store_open,                  \
    .close = redis_store_close

/* Sends a command to the server that has argv[1]. LOCK_OK, LOCK_UNKNOWN, LOCK_UNAVAILABLE (also if the answer
 * is an error), LOCK_NOMEM. */
enum lock_status redis_store_call(struct redis_store *store, struct redis_answer *answer, int argc,
                                  const char *const argv[]);
/* Runs a script by its digest, and by its text if the server does not have it. `argv`: two places that this
 * function fills, the number of keys, the keys, the arguments. Statuses as of redis_store_call(). */
enum lock_status redis_store_run(struct redis_store *store, const struct redis_script *script,
                                 struct redis_answer *answer, int argc, const char *argv[],
                                 struct cancel *cancel);

/* Whether this process is subscribed to the wake-ups that the key's server publishes to it. `subscribe`:
 * starts the subscriber. */
bool redis_store_is_subscribed(struct redis_store *store, const char *key, bool subscribe);

/* lock_backend's release for a key whose value is the owner: compare and delete. */
enum lock_status redis_store_release(void *store, const char *key, const char *owner);
/* SET NX PX. LOCK_OK, with the deadline, also if an earlier call did it and its reply was lost; LOCK_BUSY. */
enum lock_status redis_store_set_nx(struct redis_store *store, struct lock_attempt *attempt,
                                    const char *value);
/* LOCK_BUSY for a lock that polls: it asks again after a short random time, so that two waiters do not meet
 * again. */
enum lock_status redis_store_busy(const struct redis_store *store, struct lock_attempt *attempt);

#endif
