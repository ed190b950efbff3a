#include "loadtest/lab/scenarios/cast.h"

#include <stdarg.h>
#include <string.h>

#include "loadtest/lab/stage/stage_servers.h"

/* How long a holder works between its read and its write: long enough that a picture shows the order. */
enum { WORK_MS = 60, BESIDE_MS = 150 };

void cast_open(struct cast *cast, struct stage *stage, const char *name, bool fencing) {
    *cast = (struct cast){.stage = stage, .fencing = fencing};
    cast->shop = stage_start_redis(stage, name, NULL);
    cast->clients = clients_open(stage);
}

void cast_set_lock(struct cast *cast, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cast->url, sizeof cast->url, format, arguments);
    va_end(arguments);
    size_t length = strlen(cast->url);
    snprintf(cast->url + length, sizeof cast->url - length, "%cttl=%lld", strchr(cast->url, '?') ? '&' : '?',
             (long long)stage_ttl_ms(cast->stage));
}

void cast_set_redis_lock(struct cast *cast, const char *variant, int64_t ttl_ms) {
    snprintf(cast->url, sizeof cast->url, "redis://127.0.0.1:%d?ttl=%lld%s%s", cast->shop->port,
             (long long)ttl_ms, *variant != '\0' ? "&" : "", variant);
}

struct server *cast_start_etcd(struct cast *cast, const char *options) {
    struct server *etcd;
    char url[ETCD_URL_SIZE];
    stage_start_etcd(cast->stage, "etcd", 1, &etcd);
    server_etcd_url(url, &etcd, 1);
    cast_set_lock(cast, "%s%s", url, options);
    return etcd;
}

struct client *cast_client(struct cast *cast, const char *name) {
    const struct client_options options = {
        .name = name, .url = cast->url, .stock = cast->shop, .fencing = cast->fencing};
    return client_start(cast->clients, &options);
}

void cast_begin(struct cast *cast, int64_t units) {
    stage_begin(cast->stage);
    observer_fill_stock(cast->shop, CAST_ITEM, units);
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
