/* Membership: which inventories live, by their heartbeats, and which of them have shown their receipts to a
 * promoted server, so that its quarantine can end when all have (membership.lua). */
#include "inventory/purchases/putback.h"

#include <stdio.h>

#include "membership.lua.h"

static const struct redis_script membership_script = {membership_lua, membership_lua_sha1};

enum { HEARTBEAT_MS = 2000 };
/* Nobody waits for an inventory that was silent for longer than this before the failover. */
#define QUIET_MS "6000"

#define ALIVE "seckill:{sellers}:alive"
#define BEATS "seckill:{sellers}:beats"
/* The keys of a history, in the order of membership.lua. */
static const char *const names[] = {"waited", "again", "showing", "early"};
enum { NAMES = sizeof names / sizeof *names };

/* A restarted store without this inventory's last heartbeat lacks more than a crash may cost it. */
static void membership_on_heartbeat(void *ctx, const struct redis_value *value) {
    struct purchases *purchases = ctx;
    if (!value || redis_value_count(value) != 2)
        return;
    if (purchases->heartbeat_ms >
        redis_value_integer(redis_value_at(value, 1), 0) + RECEIPTS_REPLICATED_SHORT_MS)
        metric_add(&purchases->shared->metrics->unkept, 1);
    purchases->heartbeat_ms = redis_value_integer(redis_value_at(value, 0), 0);
}

void membership_tick(struct purchases *purchases) {
    int64_t now_ms = shared_now_ms(purchases->shared);
    if (now_ms < purchases->heartbeat_due_ms || !router_is_up(purchases->shared->store, ALIVE))
        return;
    purchases->heartbeat_due_ms = now_ms + HEARTBEAT_MS;
    const char *argv[] = {NULL, NULL, NULL, ALIVE, BEATS, "beat", purchases->id, QUIET_MS};
    router_run(purchases->shared->store, &membership_script, 2, sizeof argv / sizeof *argv, argv,
               membership_on_heartbeat, purchases);
}

static void membership_on_left(void *ctx, const struct redis_value *value) {
    (void)value;
    ((struct purchases *)ctx)->left = true;
}

bool membership_leave(struct purchases *purchases) {
    if (purchases->heartbeat_due_ms != INT64_MAX) {
        purchases->heartbeat_due_ms = INT64_MAX;
        const char *argv[] = {NULL, NULL, NULL, ALIVE, BEATS, "leave", purchases->id};
        router_run(purchases->shared->store, &membership_script, 2, sizeof argv / sizeof *argv, argv,
                   membership_on_left, purchases);
    }
    return purchases->left;
}

void membership_tell(struct purchases *purchases, struct server *server, const char *history, bool follows,
                     enum member_stage stage, redis_reply_fn *fn, void *ctx) {
    static const char *const stages[] = {
        [MEMBER_SHOWING] = "showing", [MEMBER_AGAIN] = "again", [MEMBER_DONE] = "done"};
    char keys[NAMES][96];
    for (int i = 0; i < NAMES; i++)
        snprintf(keys[i], sizeof keys[i], "seckill:{sellers}:%s:%s", names[i], history);
    const char *quiet = follows ? QUIET_MS : "0";
    const char *argv[] = {"EVAL",  membership_lua, "5",     ALIVE,         keys[0], keys[1],
                          keys[2], keys[3],        "shown", purchases->id, quiet,   stages[stage]};
    if (server && router_connection(purchases->shared->store, ALIVE) == server->redis)
        redis_greet(server->redis, fn, ctx, sizeof argv / sizeof *argv, argv);
    else
        router_run(purchases->shared->store, &membership_script, 5, sizeof argv / sizeof *argv, argv, fn,
                   ctx);
}
