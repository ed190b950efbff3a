/* Which server of a Redis Cluster has a key, as the cluster tells it: hash slots, CLUSTER SLOTS, and the
 * redirections MOVED and ASK. Pure: it reads replies and sends nothing. What it reads may be garbage. */
#ifndef BASE_REDIS_SLOTS_H
#define BASE_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REDIS_SLOTS = 16384, REDIS_HOST_SIZE = 256, REDIS_MASTERS_MAX = 256, REDIS_SLOT_NOBODY = -1 };

/* The slot of a key: CRC16 of what stands between the first { and the next }, if that is something, else of
 * the whole key, modulo 16384 (redis.io, "Redis cluster specification"). */
int redis_slot(const char *key, size_t length);

struct redis_address {
    char host[REDIS_HOST_SIZE];
    int port;
};

bool redis_address_is_same(const struct redis_address *a, const struct redis_address *b);

/* Who has the slots. */
struct redis_slots {
    int masters;
    struct redis_address master[REDIS_MASTERS_MAX];
    int16_t of_slot[REDIS_SLOTS]; /* a master, or REDIS_SLOT_NOBODY */
};

struct redisReply;
/* Reads the reply of CLUSTER SLOTS. A host that is empty or null is the one that was asked. An entry whose
 * host is `?` or that makes no sense is left out: its slots are nobody's. False, and `slots` is untouched:
 * nobody has a slot by this reply. */
bool redis_slots_read(struct redis_slots *slots, const struct redisReply *reply, const char *asked);

enum redis_redirect { REDIS_NO_REDIRECT, REDIS_MOVED, REDIS_ASK };

/* Reads the text of an error: "MOVED 3999 127.0.0.1:6381", "ASK …". An empty host is the one that was asked.
 * A redirection that makes no sense is none. */
enum redis_redirect redis_redirect_read(const char *error, const char *asked, int *slot,
                                        struct redis_address *address);

/* Whether the cluster asks to come again later with this error: the slot is being moved and its keys are
 * split (TRYAGAIN), a master is being replaced (CLUSTERDOWN, MASTERDOWN), or it reads its data (LOADING). */
bool redis_error_is_passing(const char *error);

#endif
