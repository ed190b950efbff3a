/* HOST[:PORT],HOST[:PORT]...[/CHROOT], as in URLs of zookeeper locks, and paths below that. Not for users. */
#ifndef LOCK_ZOOKEEPER_ADDRESS_H
#define LOCK_ZOOKEEPER_ADDRESS_H

#include "lock/core/backend.h"

enum {
    ZOOKEEPER_ROOT_SIZE = 264,
    ZOOKEEPER_LEVELS_MAX = 9,                                           /* of the root */
    ZOOKEEPER_SERVERS_SIZE = 4 * sizeof((struct lock_url *)0)->address, /* each may get a port */
};

/* `servers` is with all ports, `root` is CHROOT/lock. False: `what` says what is not valid, and where. */
bool zookeeper_address_read(const char *address, char servers[ZOOKEEPER_SERVERS_SIZE],
                            char root[ZOOKEEPER_ROOT_SIZE], char *what, size_t size);

/* `path` is ROOT/KEY, or ROOT/KEY/NAME. A key may contain characters that a node's name may not: '/', and a
 * dot if it is "." or ".."; each of them takes three. */
void zookeeper_address_node(const char *root, char *path, const char *key, const char *name);

#endif
