/* What the store can promise: INFO, and CONFIG GET if that is allowed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/store/shared.h"

enum { REASON_SIZE = sizeof(((struct inventory_health *)0)->reason), TICK_MS = 125, TICKS = 2 };

/* A server that is asked. */
struct asked {
    struct request *request;
    const struct redis *redis; /* NULL: it is not asked */
    char address[sizeof(((struct inventory_server *)0)->address)];
    bool answered, faulty;
};

/* The caller does not wait for a server that hangs, as long as another one sells. The request lives until its
 * timer is closed and all late replies have come. */
struct request {
    struct inventory *inventory;
    inventory_health_fn *fn; /* NULL: it was answered */
    void *ctx;
    uv_timer_t timer;
    int ticks;               /* of the timer; by the last one all that came was read, even after a pause */
    bool closed;             /* the timer is */
    int pending;             /* servers that have not answered, and 1 until all are asked */
    int good;                /* servers that have answered, and sell */
    char fault[REASON_SIZE]; /* the first fault of a server: what that server has is not sold */
    struct inventory_health health;
    int asked_count;
    struct asked asked[]; /* as router_servers() counts them */
};

static void health_print_address(char out[sizeof(((struct asked *)0)->address)],
                                 const struct redis_target *target) {
    if (target->port)
        snprintf(out, sizeof(((struct asked *)0)->address), "%.80s:%d", target->host, target->port);
    else
        snprintf(out, sizeof(((struct asked *)0)->address), "%.90s", target->host);
}

/* Notes what one server says; where several differ, the text is "mixed". */
static void health_note(char *out, size_t out_size, const char *value) {
    bool first = strcmp(out, "unknown") == 0 || strcmp(out, value) == 0;
    snprintf(out, out_size, "%s", first ? value : "mixed");
}

/* The store is not ready, whatever the other servers say. */
static void health_refuse(struct inventory_health *health, const char *reason) {
    if (!health->reason[0])
        snprintf(health->reason, sizeof health->reason, "%s", reason);
}

/* `asked`: the server that is faulty; NULL: it is none of those asked. */
__attribute__((format(printf, 3, 4))) static void
health_note_fault(struct request *request, struct asked *asked, const char *format, ...) {
    va_list list;
    if (asked)
        asked->faulty = true;
    if (request->fault[0])
        return;
    va_start(list, format);
    vsnprintf(request->fault, sizeof request->fault, format, list);
    va_end(list);
}

/* How its faults name the server. */
static const char *health_name(const struct asked *asked) {
    return router_is_one(asked->request->inventory->shared.store) ? "the store" : asked->address;
}

static void health_note_fault_of(struct asked *asked, const char *what) {
    health_note_fault(asked->request, asked, "%s %s", health_name(asked), what);
}

/* Before Redis 6.2. */
static bool health_is_old(const char *version) {
    char *end;
    long major = strtol(version, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return end != version && (major < 6 || (major == 6 && minor < 2));
}

/* The connection broke before the reply. */
static void health_note_broken(struct asked *asked) {
    const char *error = redis_error(asked->redis);
    health_note_fault(asked->request, asked, "no connection to %s: %.150s", health_name(asked),
                      *error ? error : "it broke");
}

static void health_note_error(struct asked *asked, const char *error) {
    bool one = router_is_one(asked->request->inventory->shared.store);
    health_note_fault(asked->request, asked, "%s%s%.150s", one ? "" : asked->address, one ? "" : ": ", error);
}

/* A store that is full refuses orders; one that may evict keys loses orders. */
static void health_judge_memory(struct asked *asked, const char *info) {
    struct inventory_health *health = &asked->request->health;
    char used[32] = "0", most[32] = "0";
    char policy[32];
    if (!info_find(info, "maxmemory_policy", policy, sizeof policy))
        return;
    health_note(health->eviction, sizeof health->eviction, policy);
    info_find(info, "used_memory", used, sizeof used);
    info_find(info, "maxmemory", most, sizeof most);
    long long limit = strtoll(most, NULL, 10);
    if (limit > 0 && strcmp(policy, "noeviction") != 0)
        health_refuse(health, "the store may evict orders: its maxmemory-policy must be noeviction");
    else if (limit > 0 && strtoll(used, NULL, 10) >= limit)
        health_note_fault_of(asked, "is out of memory (maxmemory)");
}

/* A master with fewer replicas than an order must be on sells nothing, see barrier.c. */
static void health_judge_count(struct request *request, struct asked *asked, const char *address,
                               int replicas) {
    int wanted = request->health.replicas;
    if (replicas < wanted)
        health_note_fault(request, asked, "%s has %d of the %d replicas that --replicas %d needs", address,
                          replicas, wanted, wanted);
}

/* Notes the server and its replicas. With --replicas this reply, too, was held until the replicas had all
 * that is older. */
static void health_judge_replicas(struct asked *asked, const char *info) {
    struct inventory_health *health = &asked->request->health;
    struct replication replication;
    if (!replication_read(&replication, info))
        return;
    health_judge_count(asked->request, asked, asked->address, replication.replicas);
    if (health->server_count == INVENTORY_SERVERS_TOLD)
        return;
    struct inventory_server *server = &health->servers[health->server_count++];
    snprintf(server->address, sizeof server->address, "%s", asked->address);
    server->replicas = replication.replicas;
    server->proven = redis_replicas(asked->redis);
}

static void health_judge(struct asked *asked, const char *info) {
    struct inventory_health *health = &asked->request->health;
    char text[64], version[32] = "unknown", role[16] = "unknown";
    info_find(info, "redis_version", version, sizeof version); /* of Valkey: what it is compatible with */
    info_find(info, "role", role, sizeof role);
    health_note(health->version, sizeof health->version, version);
    health_note(health->role, sizeof health->role, role);
    if (info_find(info, "aof_enabled", text, sizeof text))
        health_note(health->appendonly, sizeof health->appendonly, strcmp(text, "0") == 0 ? "no" : "yes");
    if (health_is_old(version))
        health_refuse(health, "the store is older than Redis 6.2");
    if (info_find(info, "loading", text, sizeof text) && strcmp(text, "1") == 0)
        health_note_fault_of(asked, "is loading its data");
    if (strcmp(role, "slave") == 0)
        health_note_fault_of(asked, "is a replica, and read-only");
    if (info_find(info, "aof_last_write_status", text, sizeof text) && strcmp(text, "ok") != 0)
        health_note_fault_of(asked, "cannot write its append-only file");
    /* INFO has this number where writes need good replicas. How many they need it does not tell. */
    if (info_find(info, "min_slaves_good_slaves", text, sizeof text) && strcmp(text, "0") == 0)
        health_note_fault_of(asked, "has no good replica, and min-replicas-to-write needs one");
    health_judge_memory(asked, info);
    health_judge_replicas(asked, info);
}

static void health_on_info(void *ctx, const struct redis_value *value) {
    struct asked *asked = ctx;
    const char *text = value ? redis_value_text(value) : NULL;
    if (!value)
        health_note_broken(asked);
    else if (store_status(&asked->request->inventory->shared, value) != INVENTORY_OK)
        health_note_error(asked, text);
    else if (text)
        health_judge(asked, text);
}

/* ---- the answer ---- */

/* A master with too few replicas is not up. But it was reached, and has told how many replicas it has. */
static void health_judge_lost(struct request *request) {
    const struct router *store = request->inventory->shared.store;
    char address[sizeof(((struct asked *)0)->address)];
    for (int i = 0; i < router_servers(store); i++) {
        const struct redis *redis = router_server(store, i);
        if (!redis || redis_is_up(redis) || !redis_was_reached(redis) || !redis_history(redis)->is_master)
            continue;
        health_print_address(address, redis_address_now(redis));
        health_judge_count(request, NULL, address, redis_history(redis)->replicas);
    }
}

static void health_note_unreachable(struct request *request, const char *what) {
    const char *error = inventory_last_error(request->inventory);
    health_note_fault(request, NULL, "%s%s%.200s", what, *error ? ": " : "", error);
}

static void health_free_if_done(struct request *request) {
    if (request->closed && request->pending == 0)
        free(request);
}

static void health_on_timer_closed(uv_handle_t *timer) {
    struct request *request = timer->data;
    request->closed = true;
    health_free_if_done(request);
}

/* The store is ready if one master sells, whatever is wrong with the others. */
static void health_answer(struct request *request) {
    struct inventory_health *health = &request->health;
    for (int i = 0; i < request->asked_count; i++) {
        if (request->asked[i].redis && !request->asked[i].answered)
            health_note_fault_of(&request->asked[i], "does not answer");
    }
    health_judge_lost(request);
    if (request->good == 0)
        health_note_unreachable(request, "no connection to the store");
    else if (!router_is_whole(request->inventory->shared.store))
        health_note_unreachable(request, "a part of the store cannot be reached");
    health->ready = request->good > 0 && !health->reason[0];
    health_refuse(health, request->fault);
    inventory_health_fn *fn = request->fn;
    request->fn = NULL;
    uv_close((uv_handle_t *)&request->timer, health_on_timer_closed);
    fn(request->ctx, health);
}

static void health_answer_if_due(struct request *request) {
    bool due = request->pending == 0 || (request->ticks == TICKS && request->good > 0);
    if (due && request->fn)
        health_answer(request);
}

static void health_on_tick(uv_timer_t *timer) {
    struct request *request = timer->data;
    if (++request->ticks == TICKS)
        uv_timer_stop(timer);
    health_answer_if_due(request);
}

/* A server has answered both calls, or cannot answer any more. */
static void health_count_down(struct request *request) {
    request->pending--;
    health_answer_if_due(request);
    health_free_if_done(request);
}

static void health_on_appendfsync(void *ctx, const struct redis_value *value) {
    struct asked *asked = ctx;
    struct request *request = asked->request;
    struct inventory_health *health = &request->health;
    const char *text =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 1)) : NULL;
    if (text)
        health_note(health->appendfsync, sizeof health->appendfsync, text);
    if (!value)
        health_note_broken(asked);
    asked->answered = true;
    request->good += !asked->faulty;
    health_count_down(request);
}

void inventory_health_read(struct inventory *inventory, inventory_health_fn *fn, void *ctx) {
    struct shared *shared = &inventory->shared;
    const struct router *store = shared->store;
    int count = router_servers(store);
    struct request *request = calloc(1, sizeof *request + (size_t)count * sizeof *request->asked);
    struct inventory_health unknown = {.version = "unknown",
                                       .role = "unknown",
                                       .appendonly = "unknown",
                                       .appendfsync = "unknown",
                                       .eviction = "unknown",
                                       .replicas = shared->config.replicas};
    if (!request) {
        snprintf(unknown.reason, sizeof unknown.reason, "out of memory");
        fn(ctx, &unknown);
        return;
    }
    *request = (struct request){
        .inventory = inventory, .fn = fn, .ctx = ctx, .pending = 1, .health = unknown, .asked_count = count};
    request->timer.data = request;
    uv_timer_init(shared->loop, &request->timer);
    uv_timer_start(&request->timer, health_on_tick, TICK_MS, TICK_MS);
    for (int i = 0; i < count; i++) {
        struct redis *redis = router_server(store, i);
        struct asked *asked = &request->asked[i];
        asked->request = request;
        if (!redis || !redis_is_up(redis))
            continue;
        asked->redis = redis;
        health_print_address(asked->address, redis_address_now(redis));
        request->pending++;
        redis_callf(redis, health_on_info, asked, "INFO");
        redis_callf(redis, health_on_appendfsync, asked, "CONFIG GET appendfsync");
    }
    health_count_down(request);
}
