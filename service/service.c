#include "service/service.h"

#include <string.h>

#include "service/failpoint.h"
#include "service/log.h"

enum { RESOLVE_MS = 3000, QUEUE_MAX = 50000 };

/* What was put back needs nobody's attention; how much it was is logged by worker.c. */
static void service_on_loss(void *ctx, const struct inventory_loss *loss) {
    static const char *const what[] = {[INVENTORY_LOST_ITEM] = "the item ",
                                       [INVENTORY_LOST_MOVE] = "the restock or transfer ",
                                       [INVENTORY_LOST_ORDER] = "the order ",
                                       [INVENTORY_LOST_TRANSACTION] = "the basket or transfer "};
    static const char *const became[] = {
        [INVENTORY_LOSS_SHORT] = ", and its units were sold again, or its user has others now (shortage)",
        [INVENTORY_LOSS_UNKNOWN_ITEM] = " and its item",
        [INVENTORY_LOSS_DIFFERS] = ", and something else was acknowledged since",
        [INVENTORY_LOSS_TWICE] = ", and it was made again: both stand, since its units were sold"};
    struct service *service = ctx;
    if (loss->kind == INVENTORY_LOST_TRANSACTION && loss->outcome == INVENTORY_LOSS_BACK)
        atomic_store(&service->put_back, true);
    if (loss->outcome == INVENTORY_LOSS_UNKNOWN_TRANSACTION)
        log_error("%s%s:%s has units, and the journal does not have its basket or transfer", what[loss->kind],
                  loss->item, loss->name);
    else if (loss->outcome > INVENTORY_LOSS_BACK)
        log_error("a failover of the store lost %s%s%s%s%s", what[loss->kind], loss->item,
                  *loss->item && *loss->name ? ":" : "", loss->name, became[loss->outcome]);
}

void service_log_unkept(uint64_t unkept, uint64_t *logged) {
    if (unkept > *logged)
        log_error("a failover of the store may have lost more of what was acknowledged than was kept");
    *logged = unkept;
}

struct inventory_config service_inventory_config(struct service *service, struct inventory_metrics *metrics) {
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
        .on_loss = service_on_loss,
        .on_loss_ctx = service,
        .metrics = metrics,
        .at_failpoint = service_at_failpoint,
    };
}
