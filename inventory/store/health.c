/* What the store can promise: INFO, and CONFIG GET if that is allowed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/context.h"
#include "inventory/store/info.h"
#include "inventory/store/status.h"

enum { REASON_SIZE = sizeof(((struct inventory_health *)0)->reason) };

struct request {
    struct inventory *inventory;
    inventory_health_fn *fn;
    void *ctx;
    int pending; /* servers that have not answered, and 1 until all are asked */
    struct inventory_health health;
};

/* One server's part in it. */
struct part {
    struct request *request;
    const struct redis *redis;
    char address[sizeof(((struct inventory_server *)0)->address)];
};

static void address_print(char out[sizeof(((struct part *)0)->address)], const struct redis_target *target) {
    if (target->port)
        snprintf(out, sizeof(((struct part *)0)->address), "%.80s:%d", target->host, target->port);
    else
        snprintf(out, sizeof(((struct part *)0)->address), "%.90s", target->host);
}

/* What one server says; where several differ, it is "mixed". */
static void note(char *out, size_t out_size, const char *value) {
    bool first = strcmp(out, "unknown") == 0 || strcmp(out, value) == 0;
    snprintf(out, out_size, "%s", first ? value : "mixed");
}

static void refuse(struct inventory_health *health, const char *reason) {
    if (!health->reason[0])
        snprintf(health->reason, sizeof health->reason, "%s", reason);
}

/* Before Redis 6.2. */
static bool is_old(const char *version) {
    char *end;
    long major = strtol(version, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return end != version && (major < 6 || (major == 6 && minor < 2));
}

/* The connection broke before the reply. */
static void refuse_broken(struct request *request) {
    const char *error = inventory_last_error(request->inventory);
    char reason[200];
    snprintf(reason, sizeof reason, "no connection to the store: %.150s", *error ? error : "it broke");
    refuse(&request->health, reason);
}

/* A store that is full refuses orders; one that may evict keys loses orders. */
static void judge_memory(struct inventory_health *health, const char *info) {
    char used[32] = "0", most[32] = "0";
    char policy[32];
    if (!info_find(info, "maxmemory_policy", policy, sizeof policy))
        return;
    note(health->eviction, sizeof health->eviction, policy);
    info_find(info, "used_memory", used, sizeof used);
    info_find(info, "maxmemory", most, sizeof most);
    long long limit = strtoll(most, NULL, 10);
    if (limit > 0 && strcmp(policy, "noeviction") != 0)
        refuse(health, "the store may evict orders: its maxmemory-policy must be noeviction");
    else if (limit > 0 && strtoll(used, NULL, 10) >= limit)
        refuse(health, "the store is out of memory (maxmemory)");
}

/* With --replicas this reply too was held until the replicas had all that is older. */
static void note_server(struct inventory_health *health, const struct part *part, const char *info) {
    struct replication replication;
    if (health->server_count == INVENTORY_SERVERS_TOLD || !replication_read(&replication, info))
        return;
    struct inventory_server *server = &health->servers[health->server_count++];
    snprintf(server->address, sizeof server->address, "%s", part->address);
    server->replicas = replication.replicas;
    server->proven = redis_replicas(part->redis);
}

static void on_info(void *ctx, const struct redis_value *value) {
    const struct part *part = ctx;
    struct request *request = part->request;
    struct inventory_health *health = &request->health;
    if (store_status(request->inventory, value) != INVENTORY_OK) {
        if (value)
            refuse(health, redis_value_text(value));
        else
            refuse_broken(request);
        return;
    }
    const char *info = redis_value_text(value);
    char text[64];
    if (!info)
        return;
    note_server(health, part, info);
    char version[32] = "unknown", role[16] = "unknown";
    info_find(info, "redis_version", version, sizeof version); /* of Valkey: what it is compatible with */
    info_find(info, "role", role, sizeof role);
    note(health->version, sizeof health->version, version);
    note(health->role, sizeof health->role, role);
    if (info_find(info, "aof_enabled", text, sizeof text))
        note(health->appendonly, sizeof health->appendonly, strcmp(text, "0") == 0 ? "no" : "yes");
    if (is_old(version))
        refuse(health, "the store is older than Redis 6.2");
    if (info_find(info, "loading", text, sizeof text) && strcmp(text, "1") == 0)
        refuse(health, "the store is loading its data");
    if (strcmp(role, "slave") == 0)
        refuse(health, "the store is a replica, and read-only");
    if (info_find(info, "aof_last_write_status", text, sizeof text) && strcmp(text, "ok") != 0)
        refuse(health, "the store cannot write its append-only file");
    judge_memory(health, info);
}

/* ---- replicas: a master with fewer than an order must be on sells nothing, see barrier.h ---- */

static bool lacks(const struct request *request, const char *address, int replicas,
                  char reason[REASON_SIZE]) {
    int wanted = request->health.replicas;
    if (replicas < wanted)
        snprintf(reason, REASON_SIZE, "%s has %d of the %d replicas that --replicas %d needs", address,
                 replicas, wanted, wanted);
    return replicas < wanted;
}

/* One that sells no more is not up, but it was there, and has told how many it has. */
static bool find_lack(const struct request *request, char reason[REASON_SIZE]) {
    const struct inventory_health *health = &request->health;
    const struct store *store = request->inventory->store;
    char address[sizeof(((struct part *)0)->address)];
    for (int i = 0; i < health->server_count; i++)
        if (lacks(request, health->servers[i].address, health->servers[i].replicas, reason))
            return true;
    for (int i = 0; i < store_servers(store); i++) {
        const struct redis *redis = store_server(store, i);
        if (!redis || redis_is_up(redis) || !redis_was_reached(redis) || !redis_history(redis)->is_master)
            continue;
        address_print(address, redis_address_now(redis));
        if (lacks(request, address, redis_history(redis)->replicas, reason))
            return true;
    }
    return false;
}

/* Whether there is a master with enough. */
static bool sells(const struct inventory_health *health) {
    for (int i = 0; i < health->server_count; i++)
        if (health->servers[i].replicas >= health->replicas)
            return true;
    return health->server_count == 0;
}

static void print_unreachable(const struct request *request, const char *what, char reason[REASON_SIZE]) {
    const char *error = inventory_last_error(request->inventory);
    snprintf(reason, REASON_SIZE, "%s%s%.200s", what, *error ? ": " : "", error);
}

/* One reply to each server's two calls is there, or none can come. */
static void count_down(struct request *request) {
    struct inventory_health *health = &request->health;
    char reason[REASON_SIZE];
    if (--request->pending > 0)
        return;
    bool lack = find_lack(request, reason);
    if (lack && !sells(health))
        refuse(health, reason);
    health->ready = !health->reason[0];
    if (health->ready && lack)
        snprintf(health->reason, sizeof health->reason, "%s", reason);
    else if (health->ready && !store_is_whole(request->inventory->store))
        print_unreachable(request, "a part of the store cannot be reached", health->reason);
    request->fn(request->ctx, health);
    free(request);
}

static void on_appendfsync(void *ctx, const struct redis_value *value) {
    struct request *request = ((struct part *)ctx)->request;
    struct inventory_health *health = &request->health;
    free(ctx);
    const char *text =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 1)) : NULL;
    if (text)
        note(health->appendfsync, sizeof health->appendfsync, text);
    if (!value)
        refuse_broken(request);
    count_down(request);
}

static void refuse_unreachable(struct request *request) {
    char reason[REASON_SIZE];
    if (!find_lack(request, reason))
        print_unreachable(request, "no connection to the store", reason);
    refuse(&request->health, reason);
}

void inventory_health_read(struct inventory *inventory, inventory_health_fn *fn, void *ctx) {
    struct store *store = inventory->store;
    struct request *request = malloc(sizeof *request);
    struct inventory_health unknown = {.version = "unknown",
                                       .role = "unknown",
                                       .appendonly = "unknown",
                                       .appendfsync = "unknown",
                                       .eviction = "unknown"};
    if (!request) {
        snprintf(unknown.reason, sizeof unknown.reason, "out of memory");
        fn(ctx, &unknown);
        return;
    }
    *request =
        (struct request){.inventory = inventory, .fn = fn, .ctx = ctx, .pending = 1, .health = unknown};
    request->health.replicas = inventory->config.replicas;
    if (!store_is_up(store, NULL))
        refuse_unreachable(request);
    for (int i = 0; i < store_servers(store); i++) {
        struct redis *redis = store_server(store, i);
        if (!redis || !redis_is_up(redis))
            continue;
        struct part *part = malloc(sizeof *part);
        if (!part) {
            refuse(&request->health, "out of memory");
            continue;
        }
        part->request = request;
        part->redis = redis;
        address_print(part->address, redis_address_now(redis));
        request->pending++;
        redis_callf(redis, on_info, part, "INFO");
        redis_callf(redis, on_appendfsync, part, "CONFIG GET appendfsync");
    }
    count_down(request);
}
