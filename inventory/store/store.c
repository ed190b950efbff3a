#include "inventory/store/store.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/metric.h"
#include "inventory/store/servers.h"

enum { TICK_MS = 10, REDIRECTS_AT_ONCE = 5, FIRST_PAUSE_MS = 10, LAST_PAUSE_MS = 320 };

/* A call that may have to be sent again: of a script, or of a cluster. */
struct call {
    STAILQ_ENTRY(call) next; /* of those that rest */
    struct store *store;
    redis_reply_fn *fn;
    void *ctx;
    struct redis_command command;
    const struct script *script; /* NULL: it is none, or its text was sent */
    struct server *server;       /* it was sent to */
    bool asking;                 /* after ASK */
    int slot;
    int redirects, pause_ms;
    int64_t until_ms, again_ms;
};

struct store {
    struct servers servers;
    _Atomic uint64_t *scripts_loaded; /* may be NULL */
    const struct server *replying;    /* to the call whose callback runs; NULL: none does */
    STAILQ_HEAD(calls, call) resting; /* are sent again after a pause */
    uv_timer_t tick;
};

/* ---- a call from its sending to its reply ---- */

static void finish(struct call *call, const struct redis_value *value) {
    struct store *store = call->store;
    redis_reply_fn *fn = call->fn;
    void *ctx = call->ctx;
    store->replying = call->server;
    redis_command_free(&call->command);
    free(call);
    if (fn)
        fn(ctx, value);
    store->replying = NULL;
}

static int64_t now_ms(const struct store *store) {
    return clock_mono_ms(store->servers.config.clock);
}

/* Sends it again after a pause; with the last pause its time is up, and it ends with `value`. */
static void rest(struct call *call, const struct redis_value *value) {
    struct store *store = call->store;
    int64_t now = now_ms(store);
    call->server = NULL; /* it may be closed meanwhile */
    call->asking = false;
    call->redirects = 0;
    call->pause_ms = call->pause_ms == 0              ? FIRST_PAUSE_MS
                     : call->pause_ms < LAST_PAUSE_MS ? 2 * call->pause_ms
                                                      : LAST_PAUSE_MS;
    call->again_ms = now + call->pause_ms / 2 + (int64_t)randombytes_uniform((uint32_t)call->pause_ms);
    if (call->again_ms >= call->until_ms)
        finish(call, value);
    else
        STAILQ_INSERT_TAIL(&store->resting, call, next);
}

static void on_reply(void *ctx, const struct redis_value *value);

static void send_to(struct call *call, struct server *server) {
    call->server = server;
    if (call->asking) /* the two are adjacent: nothing else is sent in between */
        redis_callf(server->redis, NULL, NULL, "ASKING");
    redis_send(server->redis, on_reply, call, &call->command);
}

/* To who has its slot by now. A server that is not connected yet is waited for, one that was lost is not. */
static void send_call(struct call *call) {
    struct servers *servers = &call->store->servers;
    struct server *server =
        servers_are_cluster(servers) ? servers_of_slot(servers, call->slot) : servers->server[0];
    if (!server || (!redis_is_up(server->redis) && servers_are_cluster(servers)))
        servers_want_map(servers);
    if (server && (redis_is_up(server->redis) || server->was_up || !servers_are_cluster(servers)))
        send_to(call, server);
    else
        rest(call, redis_unsent);
}

static void send_text(struct call *call) {
    struct redis_command evalsha = call->command;
    _Atomic uint64_t *counter = call->store->scripts_loaded;
    call->command = redis_command_eval(&evalsha, call->script->text);
    call->script = NULL;
    redis_command_free(&evalsha);
    if (counter)
        metric_add(counter, 1);
    send_to(call, call->server);
}

/* The server that a redirection names, and whether it was one. */
static bool is_redirected(struct servers *servers, const struct server *from, const char *error,
                          struct server **to, bool *ask, int *slot) {
    struct redis_address address;
    enum redis_redirect redirect = redis_redirect_read(error, from->address.host, slot, &address);
    if (redirect == REDIS_NO_REDIRECT)
        return false;
    *ask = redirect == REDIS_ASK;
    *to = servers_at(servers, &address);
    if (*to && !*ask)
        servers_note_moved(servers, *slot, *to);
    return true;
}

static void on_reply(void *ctx, const struct redis_value *value) {
    struct call *call = ctx;
    struct servers *servers = &call->store->servers;
    const char *error = value && redis_value_type(value) == REDIS_ERROR ? redis_value_text(value) : NULL;
    struct server *to = NULL;
    bool ask = false;
    int slot;
    if (error && call->script && strncmp(error, "NOSCRIPT", 8) == 0) {
        send_text(call);
    } else if (!error || !servers_are_cluster(servers) || servers->closing) {
        finish(call, value);
    } else if (redis_error_is_passing(error)) {
        rest(call, value);
    } else if (is_redirected(servers, call->server, error, &to, &ask, &slot)) {
        call->asking = ask;
        if (!to || ++call->redirects > REDIRECTS_AT_ONCE || !redis_is_up(to->redis))
            rest(call, value);
        else
            send_to(call, to);
    } else {
        finish(call, value);
    }
}

/* Takes the command over. */
static void dispatch(struct store *store, const struct script *script, struct redis_command *command,
                     redis_reply_fn *fn, void *ctx) {
    struct servers *servers = &store->servers;
    bool plain = !script && !servers_are_cluster(servers);
    struct call *call = plain || !command->text ? NULL : malloc(sizeof *call);
    if (plain)
        redis_send(servers->server[0]->redis, fn, ctx, command);
    if (!call) {
        redis_command_free(command);
        if (!plain && fn)
            fn(ctx, redis_unsent);
        return;
    }
    *call = (struct call){.store = store, .fn = fn, .ctx = ctx, .command = *command, .script = script};
    if (servers_are_cluster(servers)) {
        size_t length;
        const char *key = redis_command_key(command, &length);
        call->slot = redis_slot(key, length);
        call->until_ms = now_ms(store) + servers->config.timeout_ms;
    }
    send_call(call);
}

void store_call(struct store *store, redis_reply_fn *fn, void *ctx, int argc, const char **argv) {
    struct redis_command command = redis_command_make(argc, argv);
    dispatch(store, NULL, &command, fn, ctx);
}

void store_vcallf(struct store *store, redis_reply_fn *fn, void *ctx, const char *format, va_list list) {
    struct redis_command command = redis_command_print("", format, list);
    dispatch(store, NULL, &command, fn, ctx);
}

void store_callf(struct store *store, redis_reply_fn *fn, void *ctx, const char *format, ...) {
    va_list list;
    va_start(list, format);
    store_vcallf(store, fn, ctx, format, list);
    va_end(list);
}

void store_run(struct store *store, const struct script *script, struct redis_command *evalsha,
               redis_reply_fn *fn, void *ctx) {
    dispatch(store, script, evalsha, fn, ctx);
}

/* ---- connections ---- */

struct redis *store_connection(struct store *store, const char *key) {
    struct server *server = servers_of_key(&store->servers, key);
    if (!server || !redis_is_up(server->redis))
        servers_want_map(&store->servers);
    return server ? server->redis : NULL;
}

unsigned store_moves(const struct store *store) {
    return store->servers.moves;
}

void store_want_map(struct store *store) {
    servers_want_map(&store->servers);
}

bool store_has_map(const struct store *store) {
    const struct servers *servers = &store->servers;
    return store_is_one(store) || (!servers->wanted && !servers->asked && store_is_whole(store));
}

struct redis *store_any(const struct store *store) {
    for (int i = 0; i < store_servers(store); i++) {
        struct redis *redis = store_server(store, i);
        if (redis && redis_is_up(redis))
            return redis;
    }
    return NULL;
}

enum store_moved store_note(struct store *store, const struct redis *from, const struct redis_value *error) {
    struct servers *servers = &store->servers;
    const struct server *server = NULL;
    struct server *to;
    bool ask = false;
    int slot;
    for (int i = 0; i < servers->count && !server; i++)
        server = servers->server[i]->redis == from ? servers->server[i] : NULL;
    if (!servers_are_cluster(servers) || redis_value_type(error) != REDIS_ERROR)
        return STORE_STAYS;
    const char *text = redis_value_text(error);
    if (redis_error_is_passing(text))
        return STORE_MOVES;
    if (!server || !is_redirected(servers, server, text, &to, &ask, &slot))
        return STORE_STAYS;
    return ask ? STORE_MOVES : STORE_MOVED;
}

bool store_is_up(struct store *store, const char *key) {
    const struct server *server = key ? servers_of_key(&store->servers, key) : NULL;
    return key ? server && redis_is_up(server->redis) : store_any(store) != NULL;
}

bool store_is_gone(struct store *store, const char *key) {
    const struct server *server = servers_of_key(&store->servers, key);
    return !server || redis_is_gone(server->redis);
}

bool store_is_whole(const struct store *store) {
    const struct servers *servers = &store->servers;
    if (!servers_are_cluster(servers))
        return redis_is_up(servers->server[0]->redis);
    for (int slot = 0; slot < REDIS_SLOTS; slot++) {
        if (!servers->of_slot[slot] || !redis_is_up(servers->of_slot[slot]->redis))
            return false;
    }
    return true;
}

bool store_is_one(const struct store *store) {
    return !servers_are_cluster(&store->servers);
}

const char *store_error(const struct store *store) {
    const struct servers *servers = &store->servers;
    const char *error = servers->error;
    for (int i = 0; i < servers->count && !*error; i++) {
        if (!redis_is_up(servers->server[i]->redis))
            error = redis_error(servers->server[i]->redis);
    }
    return error;
}

int store_servers(const struct store *store) {
    return store->servers.count;
}

struct redis *store_server(const struct store *store, int i) {
    const struct server *server = i < store->servers.count ? store->servers.server[i] : NULL;
    return server && (server->is_master || store_is_one(store)) ? server->redis : NULL;
}

unsigned store_history(struct store *store, const char *key) {
    const struct server *server = store->replying ? store->replying : servers_of_key(&store->servers, key);
    return server ? server->history : 0;
}

/* One that is up first: a server may have changed its address. */
const struct redis *store_of_history(const struct store *store, unsigned number) {
    const struct redis *redis = NULL;
    for (int i = 0; i < store->servers.count && !(redis && redis_is_up(redis)); i++) {
        if (store->servers.server[i]->history == number)
            redis = store->servers.server[i]->redis;
    }
    return redis;
}

void store_flush(struct store *store) {
    for (int i = 0; i < store->servers.count; i++)
        redis_flush(store->servers.server[i]->redis);
}

void store_push(struct store *store) {
    for (int i = 0; i < store->servers.count; i++)
        redis_push(store->servers.server[i]->redis);
}

/* ---- opening and closing ---- */

static void on_tick(uv_timer_t *tick) {
    struct store *store = tick->data;
    struct calls resting = STAILQ_HEAD_INITIALIZER(resting);
    int64_t now = now_ms(store);
    STAILQ_CONCAT(&resting, &store->resting);
    for (struct call *call; (call = STAILQ_FIRST(&resting));) {
        STAILQ_REMOVE_HEAD(&resting, next);
        if (now >= call->again_ms)
            send_call(call);
        else
            STAILQ_INSERT_TAIL(&store->resting, call, next);
    }
    servers_tick(&store->servers);
}

static void on_closed(uv_handle_t *tick) {
    free(tick->data);
}

struct store *store_open(const struct servers_config *config, _Atomic uint64_t *scripts_loaded) {
    struct store *store = calloc(1, sizeof *store);
    if (!store || !servers_open(&store->servers, config)) {
        free(store);
        return NULL;
    }
    store->scripts_loaded = scripts_loaded;
    STAILQ_INIT(&store->resting);
    store->tick.data = store;
    uv_timer_init(config->loop, &store->tick);
    if (config->leader || servers_are_cluster(&store->servers))
        uv_timer_start(&store->tick, on_tick, TICK_MS, TICK_MS);
    return store;
}

struct store *store_open_another(struct store *store, redis_state_fn *on_state, void *ctx) {
    struct servers_config config = store->servers.config;
    config.leader = &store->servers;
    config.on_state = on_state;
    config.ctx = ctx;
    return store_open(&config, store->scripts_loaded);
}

void store_close(struct store *store) {
    if (!store)
        return;
    servers_close(&store->servers);
    for (struct call *call; (call = STAILQ_FIRST(&store->resting));) {
        STAILQ_REMOVE_HEAD(&store->resting, next);
        finish(call, redis_unsent);
    }
    uv_close((uv_handle_t *)&store->tick, on_closed);
}
