/* Which server of a Redis Cluster has a key, as the cluster tells it: hash slots and CLUSTER SLOTS; which
 * news of the cluster is believed, and for how long a server is kept. Pure: it reads replies and sends
 * nothing. What it reads may be garbage. */
#ifndef BASE_REDIS_SLOTS_H
#define BASE_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/redis/resp.h"

enum { REDIS_SLOTS = 16384, REDIS_HOST_SIZE = 256, REDIS_MASTERS_MAX = 256, REDIS_SLOT_NOBODY = -1 };

/* The slot of a key: CRC16 of what stands between the first { and the next }, if that is something, else of
 * the whole key, modulo 16384 (redis.io, "Redis cluster specification"). */
int redis_slot(const char *key, size_t length);

struct redis_address {
    char host[REDIS_HOST_SIZE];
    int port;
};

bool redis_address_is_same(const struct redis_address *a, const struct redis_address *b);

/* An empty host is the one that was asked. False, and `address` is untouched: this is no address, or nobody
 * knows the host (`?`). */
bool redis_address_read(struct redis_address *address, const char *host, size_t length, int64_t port,
                        const char *asked);

/* ---- which news is believed ---- */

/* Redis counts failovers by epochs. A server that stood still, or was cut off, tells of older ones: with
 * itself as master, perhaps. So older news is not believed, unless it stays older for so long: then the
 * servers were made anew, and count from the beginning. */
enum { REDIS_OLDER_MS = 10000 };

/* Whether news of the epoch `told` is too old to be believed, where `known` was believed before.
 * `*older_since_ms` becomes the time of the first news that was too old. Set it to 0 whenever you believe
 * news. */
bool redis_epoch_is_older(int64_t told, int64_t known, int64_t *older_since_ms, int64_t now_ms);

/* ---- the map ---- */

/* Who has the slots. All 0 before a map was read. */
struct redis_slots {
    int64_t epoch;          /* of the server that told it; 0: it did not say */
    int64_t older_since_ms; /* since when maps are too old to be believed; 0: the last one was not */
    int masters;
    struct redis_address master[REDIS_MASTERS_MAX];
    int16_t of_slot[REDIS_SLOTS]; /* a master, or REDIS_SLOT_NOBODY */
};

/* The epoch of the server, by its reply to CLUSTER INFO: ask for it before the map. 0: it does not say.
 * `reply` may be NULL. */
int64_t redis_slots_epoch(const struct redis_value *reply);

/* Reads the reply of CLUSTER SLOTS of a server of this epoch; of epoch 0 it is always believed. A host that
 * is empty or null is the one that was asked. An entry whose host is `?` or that makes no sense is left out:
 * its slots are nobody's. False, and the owners stay: the map is too old, nobody has a slot by this reply, or
 * memory is out. */
bool redis_slots_read(struct redis_slots *slots, const struct redis_value *reply, const char *asked,
                      int64_t epoch, int64_t now_ms);

/* ---- the servers ---- */

/* The slots' owners, by the map that was read last and by the redirections since. An owner is a driver's
 * server; NULL: nobody is known. All 0 at first. */
struct redis_owners {
    void *of_slot[REDIS_SLOTS];
    unsigned moves; /* how often a slot got another owner */
};

void redis_owners_set(struct redis_owners *owners, int slot, void *owner);
/* Sets the owners of all slots by a map. `masters` has the driver's server for each of slots->master. */
void redis_owners_install(struct redis_owners *owners, const struct redis_slots *slots,
                          void *const masters[]);
/* Nobody is known any more for the slots of this owner. */
void redis_owners_forget(struct redis_owners *owners, const void *owner);

/* A server that has no slot is forgotten once it was idle for so long. It is kept until then, since slots
 * that move to a server send calls there (ASK) while the map still names another one. */
enum { REDIS_SERVER_IDLE_MS = 10000 };

/* Whether a server is to be forgotten. `is_idle`: it has no slot by the map, and no call is in flight. The
 * driver asks again and again; *idle_since_ms is 0 at first. */
bool redis_server_is_over(int64_t *idle_since_ms, bool is_idle, int64_t now_ms);

#endif
