/* Which inventories live, and which of them have shown theirs to a server that was promoted: so that
 * its rest can end when all have (rest.lua). */
#ifndef INVENTORY_PURCHASES_REST_H
#define INVENTORY_PURCHASES_REST_H

#include "inventory/context.h"

struct server;

/* Tells the others now and then that this inventory lives. To be called when a server is up, and every few
 * milliseconds. */
void rest_tick(struct inventory *inventory);
/* It needs not be waited for any more. To be called until it is true: that was told, or the store is gone. */
bool rest_leave(struct inventory *inventory);

/* This inventory has shown what it has to the server with this history, which is not up yet; `again`: and
 * will show what did not fit once more, when all others have shown theirs. The reply is how many have not,
 * and how many will show some again (with this one); an empty list if it cannot be known. */
void rest_shown(struct inventory *inventory, struct server *server, const char *history, bool again,
                redis_reply_fn *fn, void *ctx);

#endif
