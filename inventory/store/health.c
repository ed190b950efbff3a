/* What the store can promise: INFO, and CONFIG GET if that is allowed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/context.h"
#include "inventory/store/status.h"

struct request {
    struct inventory *inventory;
    inventory_health_fn *fn;
    void *ctx;
    struct inventory_health health;
};

/* Copies the value of "name:" in the text of INFO; false if there is none. */
static bool info_find(const char *info, const char *name, char *out, size_t out_size) {
    size_t length = strlen(name);
    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            snprintf(out, out_size, "%.*s", (int)strcspn(value, "\r\n"), value);
            return true;
        }
    }
    return false;
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
    if (!info_find(info, "maxmemory_policy", health->eviction, sizeof health->eviction))
        return;
    info_find(info, "used_memory", used, sizeof used);
    info_find(info, "maxmemory", most, sizeof most);
    long long limit = strtoll(most, NULL, 10);
    if (limit > 0 && strcmp(health->eviction, "noeviction") != 0)
        refuse(health, "the store may evict orders: its maxmemory-policy must be noeviction");
    else if (limit > 0 && strtoll(used, NULL, 10) >= limit)
        refuse(health, "the store is out of memory (maxmemory)");
}

static void on_info(void *ctx, const struct redis_value *value) {
    struct request *request = ctx;
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
    info_find(info, "redis_version", health->version, sizeof health->version);
    info_find(info, "role", health->role, sizeof health->role);
    if (info_find(info, "aof_enabled", text, sizeof text))
        snprintf(health->appendonly, sizeof health->appendonly, "%s", strcmp(text, "0") == 0 ? "no" : "yes");
    if (is_old(health->version))
        refuse(health, "the store is older than Redis 6.2");
    if (info_find(info, "loading", text, sizeof text) && strcmp(text, "1") == 0)
        refuse(health, "the store is loading its data");
    if (strcmp(health->role, "slave") == 0)
        refuse(health, "the store is a replica, and read-only");
    if (info_find(info, "aof_last_write_status", text, sizeof text) && strcmp(text, "ok") != 0)
        refuse(health, "the store cannot write its append-only file");
    judge_memory(health, info);
}

static void on_appendfsync(void *ctx, const struct redis_value *value) {
    struct request *request = ctx;
    struct inventory_health *health = &request->health;
    const char *text =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 1)) : NULL;
    if (text)
        snprintf(health->appendfsync, sizeof health->appendfsync, "%s", text);
    if (!value)
        refuse_broken(request);
    health->ready = !health->reason[0];
    request->fn(request->ctx, health);
    free(request);
}

void inventory_health_read(struct inventory *inventory, inventory_health_fn *fn, void *ctx) {
    struct inventory_health down = {.version = "unknown",
                                    .role = "unknown",
                                    .appendonly = "unknown",
                                    .appendfsync = "unknown",
                                    .eviction = "unknown"};
    struct request *request = redis_is_up(inventory->redis) ? malloc(sizeof *request) : NULL;
    if (request) {
        *request = (struct request){.inventory = inventory, .fn = fn, .ctx = ctx, .health = down};
        redis_callf(inventory->redis, on_info, request, "INFO");
        redis_callf(inventory->redis, on_appendfsync, request, "CONFIG GET appendfsync");
        return;
    }
    const char *error = inventory_last_error(inventory);
    snprintf(down.reason, sizeof down.reason, "no connection to the store%s%.200s", *error ? ": " : "",
             error);
    fn(ctx, &down);
}
