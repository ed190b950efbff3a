/* The record of the lock that numbers the tokens, and of the instances that go by it; see lua/domain.lua. */
#include <stdio.h>
#include <stdlib.h>

#include "inventory/internal.h"

/* In the slot of the baskets, whose script may want to read it. */
#define INSTANCES_KEY "seckill:{baskets}:instances"

struct call {
    struct inventory *inventory;
    inventory_domain_fn *fn;
    void *ctx;
};

static bool read_domain(struct inventory_domain *domain, const struct redis_value *value) {
    if (redis_value_count(value) != 6)
        return false;
    *domain = (struct inventory_domain){.epoch = (uint64_t)redis_value_integer(redis_value_at(value, 0), 0),
                                        .lock = redis_value_text(redis_value_at(value, 1)),
                                        .live = (int)redis_value_integer(redis_value_at(value, 2), 0),
                                        .behind = (int)redis_value_integer(redis_value_at(value, 3), 0),
                                        .laggard = redis_value_text(redis_value_at(value, 4)),
                                        .store_ms = redis_value_integer(redis_value_at(value, 5), 0)};
    return domain->lock && domain->laggard;
}

static void on_reply(void *ctx, const struct redis_value *value) {
    struct call call = *(struct call *)ctx;
    free(ctx);
    struct inventory_domain domain;
    enum inventory_status status = store_status(call.inventory, value);
    if (status == INVENTORY_OK && !read_domain(&domain, value))
        status = INVENTORY_UNAVAILABLE;
    call.fn(call.ctx, status, status == INVENTORY_OK ? &domain : NULL);
}

/* argv[SCRIPT_ARGV + 2] on is the caller's. */
static void call_script(struct inventory *inventory, int argc, const char **argv, inventory_domain_fn *fn,
                        void *ctx) {
    struct call *call = malloc(sizeof *call);
    argv[SCRIPT_ARGV] = DOMAIN_KEY;
    argv[SCRIPT_ARGV + 1] = INSTANCES_KEY;
    if (call)
        *call = (struct call){inventory, fn, ctx};
    if (call && script_call(inventory, SCRIPT_DOMAIN, 2, argc, argv, on_reply, call)) {
        redis_flush(inventory->redis);
        return;
    }
    free(call);
    fn(ctx, INVENTORY_UNAVAILABLE, NULL);
}

void inventory_domain_beat(struct inventory *inventory, const struct inventory_beat *beat,
                           inventory_domain_fn *fn, void *ctx) {
    char epoch[24], quiet[24], fresh[24], rewrite[24];
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)beat->epoch);
    snprintf(quiet, sizeof quiet, "%lld", (long long)beat->quiet_ms);
    snprintf(fresh, sizeof fresh, "%lld", (long long)beat->fresh_ms);
    snprintf(rewrite, sizeof rewrite, "%lld", (long long)beat->rewrite_ms);
    const char *argv[] = {NULL,           NULL,  NULL,       NULL,  NULL,  "beat",
                          beat->instance, epoch, beat->lock, quiet, fresh, rewrite};
    call_script(inventory, sizeof argv / sizeof *argv, argv, fn, ctx);
}

void inventory_domain_switch(struct inventory *inventory, const char *lock, inventory_domain_fn *fn,
                             void *ctx) {
    const char *argv[] = {NULL, NULL, NULL, NULL, NULL, "switch", lock};
    call_script(inventory, sizeof argv / sizeof *argv, argv, fn, ctx);
}

void inventory_domain_leave(struct inventory *inventory, const char *instance, inventory_domain_fn *fn,
                            void *ctx) {
    const char *argv[] = {NULL, NULL, NULL, NULL, NULL, "leave", instance};
    call_script(inventory, sizeof argv / sizeof *argv, argv, fn, ctx);
}
