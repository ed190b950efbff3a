/* What the locks in one Redis share: the connection, the names of keys, scripts. Not for users. */
#ifndef LOCK_REDIS_STORE_H
#define LOCK_REDIS_STORE_H

#include <pthread.h>

#include "lock/core/backend.h"
#include "lock/redis/connection.h"

enum { REDIS_KEY_SIZE = LOCK_KEY_MAX + 32, REDIS_NUMBER_SIZE = 24 };

struct redis_listener;

struct redis_store {
    const struct lock_env *env;
    struct redis_target target;
    struct redis_link *link;
    pthread_mutex_t mutex;           /* for the pointer */
    struct redis_listener *listener; /* of locks that wake; from the first that waits on */
    _Atomic bool moves;              /* the server was a replica when it was last asked */
    int64_t ttl_ms;
    char ttl_text[REDIS_NUMBER_SIZE];
};

struct redis_script {
    const char *text, *sha1;
};

extern const struct redis_script redis_script_turn, redis_script_extend, redis_script_delete_if;

/* The text of a key: lock:{KEY}SUFFIX. The braces keep all of a lock's keys in one slot of a cluster. */
void redis_store_key(char out[REDIS_KEY_SIZE], const char *key, const char *suffix);
/* A grant's deadline: its time to live from `sent_ns`, less what two clocks may drift apart meanwhile. */
int64_t redis_store_deadline_ns(int64_t sent_ns, int64_t ttl_ms);

/* lock_backend's open and close, for stores that are a struct redis_store. */
enum lock_status redis_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                  char *error, size_t error_size);
void redis_store_close(void *store);

/* As redis_link_call(); a reply that is an error is LOCK_UNAVAILABLE: the store cannot do its work. */
enum lock_status redis_store_call(struct redis_store *store, struct redis_answer *answer, int argc,
                                  const char *const argv[]);
/* Runs a script by its digest, and sends its text where the store does not have it. `argv`: two places for
 * the layer, the number of keys, keys, arguments. */
enum lock_status redis_store_script(struct redis_store *store, const struct redis_script *script,
                                    struct redis_answer *answer, int argc, const char *argv[]);
/* As redis_link_call(). */
enum lock_status redis_store_script_until(struct redis_store *store, const struct redis_script *script,
                                          struct redis_answer *answer, int argc, const char *argv[],
                                          const struct lock_cancel *cancel);
/* Does this process hear what is published to it? `listen`: it shall. */
bool redis_store_hears(struct redis_store *store, bool listen);
/* Compare-and-delete. LOCK_OK; LOCK_NOT_OWNER: it has another value, or is not there. */
enum lock_status redis_store_delete_if(struct redis_store *store, const char *key, const char *value);
/* SET NX PX. LOCK_OK, with the deadline, also where an earlier call whose reply was lost did it; LOCK_BUSY,
 * and when to look again. */
enum lock_status redis_store_set_nx(struct redis_store *store, struct lock_attempt *attempt,
                                    const char *value);
/* LOCK_BUSY, for those who poll: a short time from now, by chance so that they do not meet again. */
enum lock_status redis_store_busy(const struct redis_store *store, struct lock_attempt *attempt);

#endif
