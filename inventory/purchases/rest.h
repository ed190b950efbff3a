/* Which inventories live, and which of them have shown theirs to a server that was promoted: so that
 * its rest can end when all have (rest.lua). */
#ifndef INVENTORY_PURCHASES_REST_H
#define INVENTORY_PURCHASES_REST_H

#include "inventory/purchases/purchases.h"

struct server;

/* Tells the others now and then that this inventory lives. To be called when a server is up, and every few
 * milliseconds. */
void rest_tick(struct purchases *purchases);
/* It needs not be waited for any more. To be called until it is true: that was told, or the store is gone. */
bool rest_leave(struct purchases *purchases);

/* How far this inventory is with showing what it has to a server, which is not up yet. REST_AGAIN: it will
 * show what did not fit once more, when all others have shown theirs. */
enum rest_stage { REST_SHOWING, REST_AGAIN, REST_DONE };

/* Tells that to those who know the same history of the server. `follows`: this inventory sold in the history
 * before this one; then those that live are noted and waited for, unless that was done before. For the reply
 * see rest.lua; `fn` may be NULL. `server`: NULL if it is up. */
void rest_tell(struct purchases *purchases, struct server *server, const char *history, bool follows,
               enum rest_stage stage, redis_reply_fn *fn, void *ctx);

#endif
