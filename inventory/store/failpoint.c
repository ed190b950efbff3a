#include "inventory/store/failpoint.h"

#include <stdio.h>

void failpoint_write(struct inventory *inventory, const char *when, const char *name, int n) {
    const struct inventory_config *config = &inventory->config;
    char text[48];
    if (!config->at_failpoint)
        return;
    router_push(inventory->store);
    snprintf(text, sizeof text, n < 0 ? "%s %s" : "%s %s %d", when, name, n);
    config->at_failpoint(config->at_failpoint_ctx, text);
}

void failpoint(const struct inventory *inventory, const char *name) {
    if (inventory->config.at_failpoint)
        inventory->config.at_failpoint(inventory->config.at_failpoint_ctx, name);
}
