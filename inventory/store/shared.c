#include "inventory/store/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- replies ---- */

enum inventory_status store_status(struct shared *shared, const struct redis_value *value) {
    if (!value)
        return INVENTORY_UNKNOWN;
    if (redis_value_type(value) != REDIS_ERROR)
        return INVENTORY_OK;
    if (value == redis_unsent)
        return INVENTORY_UNAVAILABLE;
    const char *text = redis_value_text(value);
    metric_add(&shared->metrics->store_errors, 1);
    snprintf(shared->error, sizeof shared->error, "%s", text);
    return INVENTORY_UNAVAILABLE;
}

int64_t store_time_ms(const struct redis_value *value) {
    if (redis_value_count(value) != 2)
        return 0;
    return redis_value_integer(redis_value_at(value, 0), 0) * 1000 +
           redis_value_integer(redis_value_at(value, 1), 0) / 1000;
}

const char *store_last_error(const struct shared *shared) {
    const char *error = router_error(shared->store);
    return *error ? error : shared->error;
}

struct time_asked {
    struct shared *shared;
    inventory_time_fn *fn;
    void *ctx;
};

static void time_on_reply(void *ctx, const struct redis_value *value) {
    struct time_asked asked = *(struct time_asked *)ctx;
    enum inventory_status status = store_status(asked.shared, value);
    free(ctx);
    asked.fn(asked.ctx, status, status == INVENTORY_OK ? store_time_ms(value) : 0);
}

void store_time_read(struct shared *shared, inventory_time_fn *fn, void *ctx) {
    struct redis *redis = router_any(shared->store);
    struct time_asked *asked = redis ? malloc(sizeof *asked) : NULL;
    if (!asked) {
        fn(ctx, INVENTORY_UNAVAILABLE, 0);
        return;
    }
    *asked = (struct time_asked){shared, fn, ctx};
    redis_call(redis, time_on_reply, asked, 1, (const char *[]){"TIME"});
}

/* ---- failpoints ---- */

void failpoint_write(struct shared *shared, const char *when, const char *name, int n) {
    const struct inventory_config *config = &shared->config;
    char text[48];
    if (!config->at_failpoint)
        return;
    router_push(shared->store);
    snprintf(text, sizeof text, n < 0 ? "%s %s" : "%s %s %d", when, name, n);
    config->at_failpoint(config->at_failpoint_ctx, text);
}

void failpoint(const struct shared *shared, const char *name) {
    if (shared->config.at_failpoint)
        shared->config.at_failpoint(shared->config.at_failpoint_ctx, name);
}
