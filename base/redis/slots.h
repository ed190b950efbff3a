/* Which server of a Redis Cluster has a key, as the cluster tells it: hash slots and CLUSTER SLOTS. Pure: it
 * reads replies and sends nothing. What it reads may be garbage. */
#ifndef BASE_REDIS_SLOTS_H
#define BASE_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/redis/reply.h"

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

/* Who has the slots. */
struct redis_slots {
    int masters;
    struct redis_address master[REDIS_MASTERS_MAX];
    int16_t of_slot[REDIS_SLOTS]; /* a master, or REDIS_SLOT_NOBODY */
};

/* Reads the reply of CLUSTER SLOTS. A host that is empty or null is the one that was asked. An entry whose
 * host is `?` or that makes no sense is left out: its slots are nobody's. False, and `slots` is untouched:
 * nobody has a slot by this reply, or memory is out. */
bool redis_slots_read(struct redis_slots *slots, const struct redis_value *reply, const char *asked);

/* The master at this address; REDIS_SLOT_NOBODY: it is none. */
int16_t redis_slots_find(const struct redis_slots *slots, const struct redis_address *address);

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

#endif
