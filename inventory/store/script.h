/* Calls of Lua scripts. */
#ifndef INVENTORY_STORE_SCRIPT_H
#define INVENTORY_STORE_SCRIPT_H

#include "inventory/store/store.h"

/* The caller's keys and arguments begin at argv[SCRIPT_ARGV]; what stands before is not read. */
enum { SCRIPT_ARGV = 3 };

/* Calls a script by its digest. If the server does not know it (NOSCRIPT), calls it once more by its text.
 * `fn` is called exactly once, as by redis_call(). `argv` may be reused when this returns. */
void script_call(struct store *store, const struct script *script, int keys, int argc, const char **argv,
                 redis_reply_fn *fn, void *ctx);
/* The same with a format as of redis_callf(): the number of keys, the keys and the arguments. */
void script_callf(struct store *store, const struct script *script, redis_reply_fn *fn, void *ctx,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
