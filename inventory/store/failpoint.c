#include "inventory/store/failpoint.h"

#include <stdio.h>

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
