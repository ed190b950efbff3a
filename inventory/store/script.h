/* Calls of Lua scripts. */
#ifndef INVENTORY_STORE_SCRIPT_H
#define INVENTORY_STORE_SCRIPT_H

#include <stdbool.h>

#include "inventory/store/redis.h"

struct inventory;

struct script {
    const char *text;
    const char *sha; /* its SHA-1, by which the store knows it */
};

/* The caller's keys and arguments begin at argv[SCRIPT_ARGV]; what stands before is not read. */
enum { SCRIPT_ARGV = 3 };

/* Calls a script by its digest, and once more by its text if the store does not know it (NOSCRIPT). `argv`
 * may be reused when this returns. False: nothing was sent. */
bool script_call(struct inventory *inventory, const struct script *script, int keys, int argc,
                 const char **argv, redis_reply_fn *fn, void *ctx);

#endif
