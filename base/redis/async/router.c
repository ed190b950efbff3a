#include "base/redis/async/driver.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/decimal.h"
#include "base/metric.h"
#include "base/redis/redirect.h"

enum { TICK_MS = 10 };

/* A call that may have to be sent again: of a script, or of a cluster. */
struct router_call {
    STAILQ_ENTRY(router_call) next; /* of those that pause */
    struct router *router;
    redis_reply_fn *fn;
    void *ctx;
    const struct redis_script *script; /* NULL: it is none, or its text was sent */
    struct server *server;             /* to which it was sent */
    bool asking;                       /* after ASK */
    int slot;
    int redirects, pause_ms;
    int64_t until_ms, again_ms;
    int argc;      /* of a script, */
    size_t tail;   /* and where its number of keys begins in the command */
    size_t length; /* of the command */
    char command[];
};

struct router {
    struct servers servers;
    _Atomic uint64_t *scripts_loaded;               /* may be NULL */
    const struct server *replying;                  /* to the call whose callback runs; NULL: none does */
    STAILQ_HEAD(router_calls, router_call) pausing; /* wait to be sent again */
    uv_timer_t tick;
};

static int64_t now_ms(const struct router *router) {
    return clock_mono_ms(router->servers.config.clock);
}

/* ---- a call from its sending to its reply ---- */

static void call_on_reply(void *ctx, const struct redis_value *value);

static void call_end(struct router_call *call, const struct redis_value *value) {
    struct router *router = call->router;
    redis_reply_fn *fn = call->fn;
    void *ctx = call->ctx;
    router->replying = call->server;
    free(call);
    if (fn)
        fn(ctx, value);
    router->replying = NULL;
}

/* Sends it again after a pause, or ends it with `value` if its time is up by then. */
static void call_pause(struct router_call *call, const struct redis_value *value) {
    struct router *router = call->router;
    call->server = NULL; /* it may be closed meanwhile */
    call->asking = false;
    call->redirects = 0;
    call->pause_ms = redis_backoff_next(&redis_backoff_call, call->pause_ms);
    call->again_ms = now_ms(router) + redis_backoff_jitter(call->pause_ms, randombytes_random());
    if (call->again_ms >= call->until_ms)
        call_end(call, value);
    else
        STAILQ_INSERT_TAIL(&router->pausing, call, next);
}

/* Sends it to this server, or, if `to` is NULL, to the slot's current owner. Waits for a server that is not
 * connected yet, but not for one that was lost. */
static void call_send(struct router_call *call, struct server *to) {
    struct servers *servers = &call->router->servers;
    if (!to) {
        bool cluster = servers_are_cluster(servers);
        to = cluster ? servers_of_slot(servers, call->slot) : servers->server[0];
        bool up = to && redis_is_up(to->redis);
        if (!up && cluster)
            servers_want_map(servers);
        if (!to || (!up && !to->was_up && cluster)) {
            call_pause(call, redis_unsent);
            return;
        }
    }
    call->server = to;
    if (call->asking) /* the two are adjacent: nothing else is sent in between */
        redis_call(to->redis, NULL, NULL, 1, (const char *[]){"ASKING"});
    redis_send(to->redis, call_on_reply, call, call->command, call->length);
}

/* Sends the script's text within the call (EVAL), not before it (SCRIPT LOAD): nobody can flush it in
 * between, and no other permission is needed. */
static void call_send_text(struct router_call *call) {
    const char *head[] = {"EVAL", call->script->text};
    size_t tail_length = call->length - call->tail;
    struct router_call *eval = malloc(sizeof *eval + redis_command_size(2, head) + tail_length);
    if (!eval) {
        call_end(call, redis_unsent);
        return;
    }
    *eval = *call;
    eval->script = NULL;
    eval->length = redis_command_begin(eval->command, call->argc);
    eval->length += redis_command_add(eval->command + eval->length, 2, head);
    memcpy(eval->command + eval->length, call->command + call->tail, tail_length);
    eval->length += tail_length;
    free(call);
    if (eval->router->scripts_loaded)
        metric_add(eval->router->scripts_loaded, 1);
    call_send(eval, eval->server);
}

static struct server *router_follow(struct servers *servers, const struct redis_redirect *redirect,
                                    bool moved) {
    struct server *to = servers_at(servers, &redirect->to);
    if (to && moved)
        servers_note_moved(servers, redirect->slot, to);
    return to;
}

static void call_on_reply(void *ctx, const struct redis_value *value) {
    struct router_call *call = ctx;
    struct servers *servers = &call->router->servers;
    struct redis_redirect redirect;
    const char *error = redis_value_error(value);
    enum redis_meaning meaning =
        error ? redis_error_read(error, call->server->address.host, &redirect) : REDIS_REFUSED;
    if (meaning == REDIS_NO_SCRIPT && call->script) {
        call_send_text(call);
    } else if (!servers_are_cluster(servers) || servers->closing || meaning == REDIS_REFUSED ||
               meaning == REDIS_NO_SCRIPT) {
        call_end(call, value);
    } else if (meaning == REDIS_MOVED || meaning == REDIS_ASK) {
        struct server *to = router_follow(servers, &redirect, meaning == REDIS_MOVED);
        call->asking = meaning == REDIS_ASK;
        if (to && ++call->redirects <= REDIS_REDIRECTS_AT_ONCE && redis_is_up(to->redis))
            call_send(call, to);
        else
            call_pause(call, value);
    } else {
        call_pause(call, value);
    }
}

/* ---- making a call ---- */

/* A call with room for a command of this size. NULL when out of memory; `fn` was called then. */
static struct router_call *call_new(struct router *router, const struct redis_script *script, const char *key,
                                    redis_reply_fn *fn, void *ctx, size_t size) {
    struct router_call *call = malloc(sizeof *call + size);
    if (!call) {
        if (fn)
            fn(ctx, redis_unsent);
        return NULL;
    }
    *call = (struct router_call){.router = router, .fn = fn, .ctx = ctx, .script = script};
    if (servers_are_cluster(&router->servers)) {
        call->slot = redis_slot(key, strlen(key));
        call->until_ms = now_ms(router) + router->servers.config.timeout_ms;
    }
    return call;
}

void router_run(struct router *router, const struct redis_script *script, int keys, int argc,
                const char *argv[], redis_reply_fn *fn, void *ctx) {
    char number[DECIMAL_SIZE];
    decimal_append(number, (uint64_t)keys);
    argv[0] = "EVALSHA";
    argv[1] = script->sha1;
    argv[2] = number;
    struct router_call *call =
        call_new(router, script, argv[SCRIPT_ARGV], fn, ctx, redis_command_size(argc, argv));
    if (!call)
        return;
    call->argc = argc;
    call->tail = redis_command_begin(call->command, argc);
    call->tail += redis_command_add(call->command + call->tail, 2, argv);
    call->length = call->tail + redis_command_add(call->command + call->tail, argc - 2, argv + 2);
    call_send(call, NULL);
}

void router_call(struct router *router, redis_reply_fn *fn, void *ctx, int argc, const char *const argv[]) {
    if (router_is_one(router)) {
        redis_call(router->servers.server[0]->redis, fn, ctx, argc, argv);
        return;
    }
    struct router_call *call = call_new(router, NULL, argv[1], fn, ctx, redis_command_size(argc, argv));
    if (!call)
        return;
    call->length = redis_command_write(call->command, argc, argv);
    call_send(call, NULL);
}

void router_vcallf(struct router *router, const char *key, redis_reply_fn *fn, void *ctx, const char *format,
                   va_list list) {
    if (router_is_one(router)) {
        redis_vcallf(router->servers.server[0]->redis, fn, ctx, format, list);
        return;
    }
    size_t length;
    char *command = redis_format(&length, format, list);
    struct router_call *call = command ? call_new(router, NULL, key, fn, ctx, length) : NULL;
    if (call) {
        memcpy(call->command, command, call->length = length);
        call_send(call, NULL);
    } else if (!command && fn) {
        fn(ctx, redis_unsent);
    }
    free(command);
}

void router_callf(struct router *router, const char *key, redis_reply_fn *fn, void *ctx, const char *format,
                  ...) {
    va_list list;
    va_start(list, format);
    router_vcallf(router, key, fn, ctx, format, list);
    va_end(list);
}

void router_flush(struct router *router) {
    for (int i = 0; i < router->servers.count; i++)
        redis_flush(router->servers.server[i]->redis);
}

void router_push(struct router *router) {
    for (int i = 0; i < router->servers.count; i++)
        redis_push(router->servers.server[i]->redis);
}

/* ---- state ---- */

bool router_is_up(struct router *router, const char *key) {
    const struct server *server = key ? servers_of_key(&router->servers, key) : NULL;
    return key ? server && redis_is_up(server->redis) : router_any(router) != NULL;
}

bool router_is_gone(struct router *router, const char *key) {
    const struct server *server = servers_of_key(&router->servers, key);
    return !server || redis_is_gone(server->redis);
}

bool router_is_whole(const struct router *router) {
    const struct servers *servers = &router->servers;
    if (!servers_are_cluster(servers))
        return redis_is_up(servers->server[0]->redis);
    for (int slot = 0; slot < REDIS_SLOTS; slot++) {
        const struct server *owner = servers->owners.of_slot[slot];
        if (!owner || !redis_is_up(owner->redis))
            return false;
    }
    return true;
}

bool router_is_one(const struct router *router) {
    return !servers_are_cluster(&router->servers);
}

const char *router_error(const struct router *router) {
    const struct servers *servers = &router->servers;
    const char *error = servers->error;
    for (int i = 0; i < servers->count && !*error; i++) {
        if (!redis_is_up(servers->server[i]->redis))
            error = redis_error(servers->server[i]->redis);
    }
    return error;
}

unsigned router_moves(const struct router *router) {
    return router->servers.owners.moves;
}

void router_want_map(struct router *router) {
    servers_want_map(&router->servers);
}

bool router_has_map(const struct router *router) {
    const struct servers *servers = &router->servers;
    return router_is_one(router) || (!servers->wanted && !servers->asked && router_is_whole(router));
}

/* ---- servers and their connections ---- */

struct redis *router_connection(struct router *router, const char *key) {
    struct server *server = servers_of_key(&router->servers, key);
    if (!server || !redis_is_up(server->redis))
        servers_want_map(&router->servers);
    return server ? server->redis : NULL;
}

struct redis *router_any(const struct router *router) {
    for (int i = 0; i < router_servers(router); i++) {
        struct redis *redis = router_server(router, i);
        if (redis && redis_is_up(redis))
            return redis;
    }
    return NULL;
}

enum router_moved router_note(struct router *router, const struct redis *from,
                              const struct redis_value *error) {
    struct servers *servers = &router->servers;
    const struct server *server = NULL;
    struct redis_redirect redirect;
    for (int i = 0; i < servers->count && !server; i++)
        server = servers->server[i]->redis == from ? servers->server[i] : NULL;
    if (!servers_are_cluster(servers) || !redis_value_error(error))
        return ROUTER_STAYS;
    switch (redis_error_read(redis_value_error(error), server ? server->address.host : "", &redirect)) {
    case REDIS_REFUSED:
    case REDIS_NO_SCRIPT: return ROUTER_STAYS;
    case REDIS_IS_REPLICA:
    case REDIS_LATER: return ROUTER_MOVES;
    case REDIS_MOVED: router_follow(servers, &redirect, true); return ROUTER_MOVED;
    case REDIS_ASK: router_follow(servers, &redirect, false); break;
    }
    return ROUTER_MOVES;
}

int router_servers(const struct router *router) {
    return router->servers.count;
}

struct redis *router_server(const struct router *router, int i) {
    const struct server *server = i < router->servers.count ? router->servers.server[i] : NULL;
    return server && (server->is_master || router_is_one(router)) ? server->redis : NULL;
}

unsigned router_history(struct router *router, const char *key) {
    const struct server *server = router->replying ? router->replying : servers_of_key(&router->servers, key);
    return server ? server->history : 0;
}

/* Prefers a connection that is up: a server that has changed its address has two. */
const struct redis *router_of_history(const struct router *router, unsigned number) {
    const struct redis *redis = NULL;
    for (int i = 0; i < router->servers.count && !(redis && redis_is_up(redis)); i++) {
        if (router->servers.server[i]->history == number)
            redis = router->servers.server[i]->redis;
    }
    return redis;
}

/* ---- opening and closing ---- */

static void router_on_tick(uv_timer_t *tick) {
    struct router *router = tick->data;
    struct router_calls pausing = STAILQ_HEAD_INITIALIZER(pausing);
    int64_t now = now_ms(router);
    STAILQ_CONCAT(&pausing, &router->pausing);
    for (struct router_call *call; (call = STAILQ_FIRST(&pausing));) {
        STAILQ_REMOVE_HEAD(&pausing, next);
        if (now >= call->again_ms)
            call_send(call, NULL);
        else
            STAILQ_INSERT_TAIL(&router->pausing, call, next);
    }
    servers_tick(&router->servers);
}

static void router_on_closed(uv_handle_t *tick) {
    free(tick->data);
}

struct router *router_open(const struct servers_config *config, _Atomic uint64_t *scripts_loaded) {
    struct router *router = calloc(1, sizeof *router);
    if (!router || !servers_open(&router->servers, config)) {
        free(router);
        return NULL;
    }
    router->scripts_loaded = scripts_loaded;
    STAILQ_INIT(&router->pausing);
    router->tick.data = router;
    uv_timer_init(config->loop, &router->tick);
    if (config->leader || servers_are_cluster(&router->servers))
        uv_timer_start(&router->tick, router_on_tick, TICK_MS, TICK_MS);
    return router;
}

struct router *router_open_another(struct router *router, redis_state_fn *on_state, void *ctx) {
    struct servers_config config = router->servers.config;
    config.leader = &router->servers;
    config.on_state = on_state;
    config.ctx = ctx;
    return router_open(&config, router->scripts_loaded);
}

void router_close(struct router *router) {
    if (!router)
        return;
    servers_close(&router->servers);
    for (struct router_call *call; (call = STAILQ_FIRST(&router->pausing));) {
        STAILQ_REMOVE_HEAD(&router->pausing, next);
        call_end(call, redis_unsent);
    }
    uv_close((uv_handle_t *)&router->tick, router_on_closed);
}
