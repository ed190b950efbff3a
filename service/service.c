#include "service/service.h"

#include "service/failpoint.h"

enum { RESOLVE_MS = 3000, QUEUE_MAX = 50000 };

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
        .events = config->events,
        .metrics = metrics,
        .at_failpoint = service_at_failpoint,
    };
}
