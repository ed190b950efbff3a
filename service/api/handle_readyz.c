/* GET /readyz: whether the store is there and ready, each worker is connected to it, and its clock is known;
 * how durable it is; and whether baskets and transfers can be made. */
#include <stdio.h>

#include "service/api/http_api.h"

enum { LOCKED_SIZE = 160 };

/* Whether all workers are connected: each has a connection of its own, and a client may get any worker. */
static bool readyz_all_connected(const struct service *service) {
    for (int i = 0; i < service->config.workers; i++) {
        if (atomic_load(&service->workers[i].store) != WORKER_STORE_UP)
            return false;
    }
    return true;
}

/* Prints whether baskets and transfers can be made. */
static void readyz_print_locked(const struct service *service, char out[LOCKED_SIZE]) {
    struct lock_switch_state state;
    lock_switch_read_state(service->lock_switch, &state);
    if (state.reach == LOCK_SWITCH_UNREACHABLE)
        snprintf(out, LOCKED_SIZE, "unavailable: %.120s", state.why);
    else if (state.phase == LOCK_SWITCH_NONE)
        snprintf(out, LOCKED_SIZE, "unavailable: no lock is in force");
    else if (state.reach == LOCK_SWITCH_UNTRIED)
        snprintf(out, LOCKED_SIZE, "unknown: the lock was not tried yet");
    else
        snprintf(out, LOCKED_SIZE, "ok");
}

static void readyz_on_health(void *ctx, const struct inventory_health *health) {
    struct http_request *request = ctx;
    const struct service *service = request_thread(request)->service;
    bool draining = atomic_load(&service->draining);
    const char *lacks = !readyz_all_connected(service) ? "a worker has no connection to the store yet"
                        : !store_clock_is_known(&service->clock) ? "the store's clock is not known yet"
                                                                 : NULL;
    struct inventory_health all = *health;
    if (all.ready && lacks) {
        all.ready = false;
        snprintf(all.reason, sizeof all.reason, "%s", lacks);
    }
    bool ready = all.ready && !draining;
    /* Purchases need no lock, so the service is ready without one. */
    char body[CODEC_HEALTH_SIZE], locked[LOCKED_SIZE];
    readyz_print_locked(service, locked);
    size_t length = codec_write_health(
        body, &all, draining, service->config.basket == CONFIG_BASKET_SCRIPT ? "ok" : locked, locked);
    static const char *const later[] = {"Retry-After", "1", NULL};
    http_answer(request, ready ? 200 : 503, "application/json", body, length, ready ? NULL : later);
}

_Static_assert(sizeof(struct store_health_read) <= HTTP_CONTEXT_SIZE, "it must fit into its request");

void readyz_get(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    (void)name;
    struct store_health_read *read = request->context;
    struct inventory *inventory = request_thread(request)->inventory;
    *read = (struct store_health_read){.done = readyz_on_health, .ctx = request};
    if (inventory && !inventory_is_up(inventory))
        inventory_health_read(inventory, readyz_on_health, request); /* calls back at once */
    else
        store_health_read(request_thread(request), read);
}
