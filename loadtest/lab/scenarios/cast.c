#include "loadtest/lab/scenarios/cast.h"

/* How long a holder works between its read and its write: long enough that a picture shows the order. */
enum { WORK_MS = 60, BESIDE_MS = 150 };

void cast_open(struct cast *cast, struct stage *stage, const char *name, bool fencing) {
    *cast = (struct cast){.stage = stage, .ttl_ms = stage_ttl_ms(stage), .etcd_prefix = "lock/"};
    cast->shop = stage_start_redis(stage, name, NULL);
    cast->options = (struct client_options){.url = cast->url, .stock = cast->shop, .fencing = fencing};
    cast->clients = clients_open(stage);
}

void cast_open_redis(struct cast *cast, struct stage *stage, bool fencing, const char *variant) {
    cast_open(cast, stage, "redis", fencing);
    cast_add_lock_server(cast, cast->shop);
    cast_set_redis_lock(cast, variant);
}

struct server *cast_add_lock_server(struct cast *cast, struct server *server) {
    return cast->lock_servers[cast->lock_server_count++] = server;
}

struct server *cast_start_redis(struct stage *stage, const char *name) {
    return stage_start_redis(stage, name, NULL);
}

void cast_start_nodes(struct cast *cast, struct server *(*start)(struct stage *stage, const char *name),
                      int ports[CAST_NODES]) {
    for (int i = 0; i < CAST_NODES; i++) {
        char name[SERVER_NAME_SIZE];
        snprintf(name, sizeof name, "node-%d", i + 1);
        ports[i] = cast_add_lock_server(cast, start(cast->stage, name))->port;
    }
}

void cast_set_lock(struct cast *cast, const char *scheme, const int ports[], int count, const char *option) {
    int length = 0;
    for (int i = 0; i < count; i++)
        length += snprintf(cast->url + length, sizeof cast->url - (size_t)length, "%s%s127.0.0.1:%d",
                           i > 0 ? "," : scheme, i > 0 ? "" : "://", ports[i]);
    snprintf(cast->url + length, sizeof cast->url - (size_t)length, "?ttl=%lld%s%s", (long long)cast->ttl_ms,
             *option != '\0' ? "&" : "", option);
}

void cast_set_redis_lock(struct cast *cast, const char *variant) {
    cast_set_lock(cast, "redis", &cast->shop->port, 1, variant);
}

void cast_start_etcd(struct cast *cast, int count, const char *option) {
    int ports[ETCD_MEMBERS_MAX];
    stage_start_etcd(cast->stage, "etcd", count, cast->lock_servers);
    cast->lock_server_count = count;
    for (int i = 0; i < count; i++)
        ports[i] = cast->lock_servers[i]->port;
    cast_set_lock(cast, "etcd", ports, count, option);
}

/* ---- clients ---- */

struct client *cast_client(struct cast *cast, const char *name) {
    cast->options.name = name;
    return client_start(cast->clients, &cast->options);
}

void cast_crowd(struct cast *cast, const char *name, int count, struct client *crowd[]) {
    cast->options.name = name;
    client_start_many(cast->clients, &cast->options, count, crowd);
}

void cast_begin(struct cast *cast, int64_t units) {
    stage_begin(cast->stage);
    observer_fill_stock(cast->shop, CAST_ITEM, units);
    observer_watch(cast->clients, cast->lock_servers, cast->lock_server_count, cast->etcd_prefix, CAST_ITEM);
}

void cast_try(struct client *client, int64_t wait_ms, int64_t watch_ms) {
    client_begin_acquire(client, CAST_ITEM, wait_ms);
    client_done_within(client, watch_ms);
}

void cast_sell(struct client *client) {
    client_wait(client);
    if (!client_holds(client))
        return;
    client_read_stock(client, CAST_ITEM);
    stage_pause(client_stage(client), WORK_MS);
    client_sell(client, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(client);
}

void cast_sell_beside(struct client *a, struct client *b) {
    bool both = client_holds(b);
    client_read_stock(a, CAST_ITEM);
    if (both)
        client_read_stock(b, CAST_ITEM);
    stage_pause(client_stage(a), BESIDE_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    if (both)
        client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    if (both)
        client_release(b);
    else
        cast_sell(b);
}
