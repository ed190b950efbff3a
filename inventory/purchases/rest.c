#include "inventory/purchases/rest.h"

#include <stdio.h>

#include "base/redis/async/router.h"
#include "rest.lua.h"

static const struct redis_script rest_script = {rest_lua, rest_lua_sha1};

enum { BEAT_MS = 2000 };
/* One that was silent for longer than this before the failover is not waited for. */
#define QUIET_MS "6000"

#define ALIVE "seckill:{sellers}:alive"
#define BEATS "seckill:{sellers}:beats"
/* Of a history. */
static const char *const names[] = {"waited", "again", "showing", "early"};
enum { NAMES = sizeof names / sizeof *names };

/* A store that was restarted, and has not got the last heartbeat, lacks more than a crash may cost it. */
static void on_beat(void *ctx, const struct redis_value *value) {
    struct inventory *inventory = ctx;
    if (!value || redis_value_count(value) != 2)
        return;
    if (inventory->beaten_ms > redis_value_integer(redis_value_at(value, 1), 0) + RECEIPTS_COVERED_SHORT_MS)
        metric_add(&inventory->metrics->unkept, 1);
    inventory->beaten_ms = redis_value_integer(redis_value_at(value, 0), 0);
}

void rest_tick(struct inventory *inventory) {
    int64_t now_ms = inventory_now_ms(inventory);
    if (now_ms < inventory->beat_ms || !router_is_up(inventory->store, ALIVE))
        return;
    inventory->beat_ms = now_ms + BEAT_MS;
    const char *argv[] = {NULL, NULL, NULL, ALIVE, BEATS, "beat", inventory->id, QUIET_MS};
    router_run(inventory->store, &rest_script, 2, sizeof argv / sizeof *argv, argv, on_beat, inventory);
}

static void on_left(void *ctx, const struct redis_value *value) {
    (void)value;
    ((struct inventory *)ctx)->left = true;
}

bool rest_leave(struct inventory *inventory) {
    if (inventory->beat_ms != INT64_MAX) {
        inventory->beat_ms = INT64_MAX;
        const char *argv[] = {NULL, NULL, NULL, ALIVE, BEATS, "leave", inventory->id};
        router_run(inventory->store, &rest_script, 2, sizeof argv / sizeof *argv, argv, on_left, inventory);
    }
    return inventory->left;
}

void rest_tell(struct inventory *inventory, struct server *server, const char *history, bool follows,
               enum rest_stage stage, redis_reply_fn *fn, void *ctx) {
    static const char *const stages[] = {
        [REST_SHOWING] = "showing", [REST_AGAIN] = "again", [REST_DONE] = "done"};
    char keys[NAMES][96];
    for (int i = 0; i < NAMES; i++)
        snprintf(keys[i], sizeof keys[i], "seckill:{sellers}:%s:%s", names[i], history);
    const char *argv[] = {"EVAL",
                          rest_lua,
                          "5",
                          ALIVE,
                          keys[0],
                          keys[1],
                          keys[2],
                          keys[3],
                          "shown",
                          inventory->id,
                          follows ? QUIET_MS : "0",
                          stages[stage]};
    if (server && router_connection(inventory->store, ALIVE) == server->redis)
        redis_greet(server->redis, fn, ctx, sizeof argv / sizeof *argv, argv);
    else
        router_run(inventory->store, &rest_script, 5, sizeof argv / sizeof *argv, argv, fn, ctx);
}
