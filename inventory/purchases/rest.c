#include "inventory/purchases/rest.h"

#include <stdio.h>

#include "inventory/store/servers.h"
#include "rest.lua.h"

static const struct script rest_script = {rest_lua, rest_lua_sha1};

enum { BEAT_MS = 2000 };
/* One that was silent for longer than this before the failover is not waited for. */
#define QUIET_MS "6000"

#define ALIVE  "seckill:{sellers}:alive"
#define WAITED "seckill:{sellers}:waited"
#define AGAIN  "seckill:{sellers}:again"

void rest_tick(struct inventory *inventory) {
    int64_t now_ms = inventory_now_ms(inventory);
    if (now_ms < inventory->beat_ms || !store_is_up(inventory->store, ALIVE))
        return;
    inventory->beat_ms = now_ms + BEAT_MS;
    script_callf(inventory->store, &rest_script, NULL, NULL, "2 " ALIVE " " WAITED " beat %s", inventory->id);
}

static void on_left(void *ctx, const struct redis_value *value) {
    (void)value;
    ((struct inventory *)ctx)->left = true;
}

bool rest_leave(struct inventory *inventory) {
    if (inventory->beat_ms != INT64_MAX) {
        inventory->beat_ms = INT64_MAX;
        script_callf(inventory->store, &rest_script, on_left, inventory, "2 " ALIVE " " WAITED " leave %s",
                     inventory->id);
    }
    return inventory->left;
}

void rest_shown(struct inventory *inventory, struct server *server, const char *history, bool again,
                redis_reply_fn *fn, void *ctx) {
    char waited[96], others[96];
    snprintf(waited, sizeof waited, WAITED ":%s", history);
    snprintf(others, sizeof others, AGAIN ":%s", history);
    const char *argv[] = {"EVAL", rest_lua, "3",           ALIVE,    waited,
                          others, "shown",  inventory->id, QUIET_MS, again ? "again" : "done"};
    if (store_connection(inventory->store, ALIVE) == server->redis)
        redis_greet(server->redis, fn, ctx, sizeof argv / sizeof *argv, argv);
    else
        script_call(inventory->store, &rest_script, 3, sizeof argv / sizeof *argv, argv, fn, ctx);
}
