/* HOST[:PORT],HOST[:PORT]...[/CHROOT], as in URLs of zookeeper locks. Not for users. */
#ifndef LOCK_ZOOKEEPER_ADDRESS_H
#define LOCK_ZOOKEEPER_ADDRESS_H

#include "lock/core/url.h"

enum {
    ZOOKEEPER_ROOT_SIZE = 264,
    ZOOKEEPER_LEVELS_MAX = 9,                                           /* of the root */
    ZOOKEEPER_SERVERS_SIZE = 4 * sizeof((struct lock_url *)0)->address, /* each may get a port */
};

/* `servers` is with all ports, `root` is CHROOT/lock. False: `what` says what is not valid, and where. */
bool zookeeper_address_read(const char *address, char servers[ZOOKEEPER_SERVERS_SIZE],
                            char root[ZOOKEEPER_ROOT_SIZE], char *what, size_t size);

#endif
