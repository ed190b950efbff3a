#include "loadtest/test/torture_plan.h"

#include <stdio.h>
#include <string.h>

#include "test/harness.h"

const char *const torture_kind_names[TORTURE_KINDS] = {
    [TORTURE_REDIS_KILLED] = "redis killed",
    [TORTURE_REDIS_AWAY] = "redis killed and away",
    [TORTURE_REDIS_KILLED_REWRITING] = "redis killed while rewriting",
    [TORTURE_REDIS_FROZEN] = "redis frozen",
    [TORTURE_SCRIPTS_FLUSHED] = "scripts flushed",
    [TORTURE_CLIENTS_KILLED] = "connections killed",
    [TORTURE_SERVICE_KILLED] = "service killed",
    [TORTURE_SERVICE_ENDED] = "service restarted",
    [TORTURE_SERVICE_FROZEN] = "service frozen",
    [TORTURE_ALL_KILLED] = "all killed",
    [TORTURE_REPLY_CUT] = "reply cut",
    [TORTURE_REPLIES_LATE] = "replies late",
    [TORTURE_LINK_DOWN] = "link down",
};

static int pick(uint64_t *position, int least, int most) {
    return least + (int)(harness_random(position) % (uint64_t)(most - least + 1));
}

static void pick_strategy(struct torture_plan *plan, uint64_t *position) {
    /* Enough for the load to outlast the fault, since other services sell meanwhile. */
    static const struct {
        const char *name;
        int least_requests, most_requests;
    } strategies[] = {
        {"batch", 7000, 12000}, {"batch", 7000, 12000},     {"batch", 7000, 12000}, {"lua", 7000, 12000},
        {"lua", 7000, 12000},   {"optimistic", 1000, 1800}, {"decr", 3000, 6000},   {"decr", 3000, 6000},
    };
    int i = pick(position, 0, (int)(sizeof strategies / sizeof *strategies) - 1);
    plan->strategy = strategies[i].name;
    plan->whole = strcmp(plan->strategy, "decr") != 0;
    plan->services = pick(position, 1, TORTURE_SERVICES);
    plan->requests =
        pick(position, strategies[i].least_requests, strategies[i].most_requests) * plan->services;
}

static void pick_sale(struct torture_plan *plan, uint64_t *position) {
    plan->quantity = pick(position, 0, 2) ? 1 : pick(position, 2, 3);
    plan->stock = plan->requests * plan->quantity / 100 * pick(position, 2, 70);
    plan->users = plan->requests;
    plan->connections = pick(position, 0, 3) ? pick(position, 16, 64) : pick(position, 64, 600);
    int limited = pick(position, 0, 5);
    if (limited == 0) { /* many buyers with a low limit */
        plan->limit = plan->quantity * pick(position, 1, 3);
        plan->users = plan->requests / pick(position, 1, 6);
    } else if (limited ==
               1) { /* few buyers with a high limit, so that a batch has several requests of one buyer */
        plan->connections = pick(position, 64, 600);
        plan->users = pick(position, 5, plan->connections / 4);
        plan->limit = plan->quantity * (plan->requests / plan->users / pick(position, 1, 4));
    }
    if (pick(position, 0, 2) == 0)
        plan->hold_s = pick(position, 0, 1) ? 1 : 3600;
    /* A short time-out makes buyers retry while the first request is still in flight. Not if units return
     * meanwhile: then the first may rightly win after the second was told sold-out. Nor with many
     * connections, which on a slow machine would all time out. */
    bool patient = plan->hold_s == 1 || plan->connections > 64 || pick(position, 0, 2);
    plan->timeout_ms = patient ? 5000 : 250;
    plan->seed = (int64_t)(harness_random(position) >> 1);
}

static struct torture_fault pick_fault(const struct torture_plan *plan, uint64_t *position) {
    struct torture_fault fault = {.kind = (enum torture_kind)pick(position, 0, TORTURE_KINDS - 1)};
    if (fault.kind == TORTURE_REDIS_AWAY && pick(position, 0, 3))
        fault.kind = TORTURE_REDIS_KILLED; /* takes seconds, so it is rare */
    fault.percent = pick(position, 2, 55);
    fault.service = TORTURE_SERVICES - pick(position, 1, plan->services);
    if (pick(position, 0, 1))
        fault.pause_ms = pick(position, 0, 200);
    if (pick(position, 0, 1))
        fault.bytes = pick(position, 1, 60);
    return fault;
}

static void add_fault(struct torture_plan *plan, struct torture_fault fault) {
    int i = plan->fault_count++;
    for (; i > 0 && plan->faults[i - 1].percent > fault.percent; i--)
        plan->faults[i] = plan->faults[i - 1];
    plan->faults[i] = fault;
}

static void put_in_words(struct torture_plan *plan) {
    size_t size = sizeof plan->name;
    size_t used = (size_t)snprintf(
        plan->name, size,
        "%s: %s by %d, %d units, limit %d, hold %d s, %d x %d by %d, time-out %d ms:", plan->item,
        plan->strategy, plan->services, plan->stock, plan->limit, plan->hold_s, plan->requests,
        plan->quantity, plan->connections, plan->timeout_ms);
    for (int i = 0; i < plan->fault_count && used < size; i++)
        used += (size_t)snprintf(plan->name + used, size - used, "%s %s at %d %%", i ? "," : "",
                                 torture_kind_names[plan->faults[i].kind], plan->faults[i].percent);
}

struct torture_plan torture_plan_make(uint64_t seed, int round) {
    uint64_t position = seed + (uint64_t)round;
    position = harness_random(
        &position); /* otherwise the numbers of a round were those of the one before, shifted by one */
    struct torture_plan plan = {.fault_count = 0};
    snprintf(plan.item, sizeof plan.item, "round-%d", round);
    pick_strategy(&plan, &position);
    pick_sale(&plan, &position);
    for (int left = pick(&position, 1, TORTURE_FAULTS); left > 0; left--)
        add_fault(&plan, pick_fault(&plan, &position));
    put_in_words(&plan);
    return plan;
}
