#include "service/service.h"

#include <string.h>

#include "service/failpoint.h"
#include "service/log.h"

enum { RESOLVE_MS = 3000, QUEUE_MAX = 50000 };

/* An order that was put back needs nobody's attention; how many there were is logged by worker.c. */
static void service_on_mended(void *ctx, const char *item, const char *digest, const char *outcome) {
    (void)ctx;
    if (strcmp(outcome, "short") == 0)
        log_error("a failover of the store lost the order %s:%s, and its units were sold again (shortage)",
                  item, digest);
    else if (strcmp(outcome, "unknown-item") == 0)
        log_error("a failover of the store lost the order %s:%s and its item", item, digest);
}

struct inventory_config service_inventory_config(const struct service *service,
                                                 struct inventory_metrics *metrics) {
    const struct config *config = &service->config;
    return (struct inventory_config){
        .redis_url = config->redis,
        .clock = &service->clock.clock,
        .call_timeout_ms = config->store_timeout_ms,
        .resolve_ms = RESOLVE_MS,
        .queue_max = QUEUE_MAX,
        .work_delay_ms = config->work_delay_ms,
        .teaching = config->teaching,
        .fencing = config->fencing,
        .replicas = config->replicas,
        .events = config->events,
        .on_mended = service_on_mended,
        .metrics = metrics,
        .at_failpoint = service_at_failpoint,
    };
}
