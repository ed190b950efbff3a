#include "loadtest/lab/scenarios/cast.h"

#include <stdarg.h>
#include <string.h>

/* Between the steps of two buyers, and of a holder that sells: so one sees which comes first. */
enum { STEP_MS = 10, WORK_MS = 60, BESIDE_MS = 150 };

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
    snprintf(cast->url + length, sizeof cast->url - length, "%cttl=%lld",
             strchr(cast->url, '?') != NULL ? '&' : '?', (long long)stage_ttl_ms(cast->stage));
}

void cast_set_redis_lock(struct cast *cast, const char *variant, int64_t ttl_ms) {
    snprintf(cast->url, sizeof cast->url, "redis://127.0.0.1:%d?ttl=%lld%s%s", cast->shop->port,
             (long long)ttl_ms, *variant != '\0' ? "&" : "", variant);
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

void cast_two_buyers(struct cast *cast, enum stock_way way) {
    snprintf(cast->url, sizeof cast->url, "none:");
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    stage_until(cast->stage, STEP_MS + stage_random(cast->stage, 0, STEP_MS));
    client_read_stock(a, CAST_ITEM);
    stage_pause(cast->stage, STEP_MS);
    client_read_stock(b, CAST_ITEM);
    stage_pause(cast->stage, STEP_MS);
    client_sell(a, CAST_ITEM, way, NULL);
    stage_pause(cast->stage, STEP_MS);
    client_sell(b, CAST_ITEM, way, NULL);
    stage_pause(cast->stage, STEP_MS);
}
