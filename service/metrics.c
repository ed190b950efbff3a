/* The text of /metrics: the names of all metrics, and what each one means. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "service/service.h"

/* Upper bounds of the buckets in seconds; the last one is infinite. */
static const double metrics_bounds[METRICS_BUCKETS - 1] = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

void metrics_time(struct metrics_histogram *histogram, int64_t ns) {
    int i = 0;
    while (i < METRICS_BUCKETS - 1 && (double)ns > metrics_bounds[i] * 1e9)
        i++;
    metric_add(&histogram->buckets[i], 1);
    metric_add(&histogram->sum_ns, (uint64_t)ns);
}

void metrics_count(_Atomic uint64_t counters[METRICS_OUTCOMES], struct metrics_histogram *good,
                   struct metrics_histogram *bad, enum inventory_status status, enum lock_status locked,
                   int64_t arrived_ns) {
    /* A lock that was not free in time counts as overload. Any other failure of the lock has a label of its
     * own. */
    bool of_lock = locked != LOCK_OK && locked != LOCK_TIMEOUT;
    metric_add(&counters[of_lock ? METRICS_LOCK_UNAVAILABLE : (int)status], 1);
    metrics_time(status == INVENTORY_OK || status == INVENTORY_REPLAYED ? good : bad,
                 clock_now_ns() - arrived_ns);
}

/* The label value of each outcome; a status that never ends a call has none. */
static const char *const outcomes[METRICS_OUTCOMES] = {
    [INVENTORY_OK] = "sold",
    [INVENTORY_REPLAYED] = "replayed",
    [INVENTORY_SOLD_OUT] = "sold_out",
    [INVENTORY_LIMIT] = "purchase_limit",
    [INVENTORY_NOT_STARTED] = "not_started",
    [INVENTORY_ENDED] = "ended",
    [INVENTORY_UNKNOWN_ITEM] = "unknown_item",
    [INVENTORY_CROSS_SLOT] = "cross_slot",
    [INVENTORY_KEY_REUSED] = "key_reused",
    [INVENTORY_TOO_MANY] = "too_many",
    [INVENTORY_REFUSED] = "refused",
    [INVENTORY_STALE] = "stale",
    [INVENTORY_OVERLOADED] = "overloaded",
    [INVENTORY_UNAVAILABLE] = "unavailable",
    [INVENTORY_UNKNOWN] = "unknown",
    [METRICS_LOCK_UNAVAILABLE] = "lock_unavailable",
};

static const struct {
    const char *name, *help;
    size_t offset; /* in struct loop_thread */
} store_metrics[] = {
    {"seckill_batches_total", "Calls of the script that sells batches of purchases.",
     offsetof(struct loop_thread, stock_metrics.batches)},
    {"seckill_batched_purchases_total", "Purchases in the script calls of seckill_batches_total.",
     offsetof(struct loop_thread, stock_metrics.batched)},
    {"seckill_checks_total",
     "Script calls that only asked whether a purchase had an order: its item was sold out, or its reply was "
     "lost.",
     offsetof(struct loop_thread, stock_metrics.checks)},
    {"seckill_purchases_waiting", "Purchases, baskets and transfers in flight.",
     offsetof(struct loop_thread, stock_metrics.waiting)},
    {"seckill_unknown_total", "Purchases whose reply from the store was lost.",
     offsetof(struct loop_thread, stock_metrics.unknown)},
    {"seckill_unknown_resolved_total", "Lost replies whose order was found.",
     offsetof(struct loop_thread, stock_metrics.unknown_resolved)},
    {"seckill_store_connects_total", "Connections made to the store.",
     offsetof(struct loop_thread, stock_metrics.reconnects)},
    {"seckill_put_back_total",
     "Orders, restocks, transfers and baskets that a failover of the store lost and that were put back.",
     offsetof(struct loop_thread, stock_metrics.put_back)},
    {"seckill_shortage_total",
     "Orders, restocks, transfers and baskets that a failover of the store lost and that could not be put "
     "back; the log names them.",
     offsetof(struct loop_thread, stock_metrics.shortage)},
    {"seckill_unkept_total",
     "Failovers and lost masters that may have lost more than this process had kept to put back.",
     offsetof(struct loop_thread, stock_metrics.unkept)},
    {"seckill_store_errors_total", "Error replies of the store.",
     offsetof(struct loop_thread, stock_metrics.store_errors)},
    {"seckill_scripts_loaded_total", "Scripts sent again because the store no longer had them.",
     offsetof(struct loop_thread, stock_metrics.scripts_loaded)},
    {"seckill_holds_expired_total", "Holds that this process has expired.",
     offsetof(struct loop_thread, stock_metrics.expired)},
    {"seckill_conflicts_total",
     "Transactions of strategy optimistic that were repeated because the item had changed.",
     offsetof(struct loop_thread, stock_metrics.conflicts)},
};

/* ---- printing ---- */

/* Sums a counter over all loop threads. `offset` is its place in struct loop_thread. */
static uint64_t metrics_sum(struct service *service, size_t offset) {
    uint64_t sum = 0;
    for (int i = 0; i <= service->config.workers; i++)
        sum += metric_read((const void *)((const char *)service_thread(service, i) + offset));
    return sum;
}

static void metrics_print_head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The name of a counter ends in _total; all others are gauges. */
static void metrics_print_value(FILE *out, const char *name, const char *help, uint64_t value) {
    bool counter = strcmp(name + strlen(name) - strlen("_total"), "_total") == 0;
    metrics_print_head(out, name, counter ? "counter" : "gauge", help);
    fprintf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void metrics_print_seconds(FILE *out, const char *name, const char *help, uint64_t ns) {
    metrics_print_head(out, name, "counter", help);
    fprintf(out, "%s %.9f\n", name, (double)ns / 1e9);
}

/* Prints the array of counters at `offset` in struct metrics, one for each value of a label. A counter
 * whose value is NULL is left out. */
static void metrics_print_labelled(FILE *out, struct service *service, const char *name, const char *help,
                                   size_t offset, const char *label, const char *const values[], int count) {
    metrics_print_head(out, name, "counter", help);
    for (int i = 0; i < count; i++, offset += sizeof(uint64_t))
        if (values[i])
            fprintf(out, "%s{%s=\"%s\"} %llu\n", name, label, values[i],
                    (unsigned long long)metrics_sum(service, offsetof(struct loop_thread, metrics) + offset));
}

static void metrics_print_outcomes(FILE *out, struct service *service, const char *name, const char *help,
                                   size_t offset) {
    metrics_print_labelled(out, service, name, help, offset, "outcome", outcomes, METRICS_OUTCOMES);
}

static void metrics_print_histogram(FILE *out, struct service *service, const char *name, const char *outcome,
                                    size_t offset) {
    offset += offsetof(struct loop_thread, metrics);
    uint64_t running = 0, sum_ns = metrics_sum(service, offset + offsetof(struct metrics_histogram, sum_ns));
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        running += metrics_sum(service, offset + offsetof(struct metrics_histogram, buckets[i]));
        char bound[32] = "+Inf";
        if (i < METRICS_BUCKETS - 1)
            snprintf(bound, sizeof bound, "%g", metrics_bounds[i]);
        fprintf(out, "%s_bucket{outcome=\"%s\",le=\"%s\"} %llu\n", name, outcome, bound,
                (unsigned long long)running);
    }
    fprintf(out, "%s_sum{outcome=\"%s\"} %.9f\n%s_count{outcome=\"%s\"} %llu\n", name, outcome,
            (double)sum_ns / 1e9, name, outcome, (unsigned long long)running);
}

/* Prints the histograms of what was sold and of what was rejected; `sold` and `rejected` are their offsets.
 */
static void metrics_print_times(FILE *out, struct service *service, const char *name, const char *help,
                                size_t sold, size_t rejected) {
    metrics_print_head(out, name, "histogram", help);
    metrics_print_histogram(out, service, name, "sold", sold);
    metrics_print_histogram(out, service, name, "rejected", rejected);
}

static void metrics_print_pool(FILE *out, const struct pool_metrics *pool) {
    metrics_print_value(out, "seckill_pool_waiting", "Jobs that wait for a thread of the blocking pool.",
                        (uint64_t)pool->waiting);
    metrics_print_value(out, "seckill_pool_jobs_total", "Jobs begun in the blocking pool.", pool->begun);
    metrics_print_value(out, "seckill_pool_refused_total",
                        "Jobs refused because the queue of the blocking pool was full.", pool->refused);
    metrics_print_seconds(out, "seckill_pool_wait_seconds_total",
                          "Time that jobs have waited for a thread of the blocking pool.",
                          (uint64_t)pool->wait_ns);
}

static void metrics_print_lock(FILE *out, const struct lock_switch_state *lock_switch) {
    const struct lock_metrics *lock = &lock_switch->metrics;
    metrics_print_value(out, "seckill_lock_acquired_total", "Locks acquired.", lock->acquired);
    metrics_print_value(
        out, "seckill_lock_passed_total",
        "Locks acquired that another thread of this process handed over, without a request to the "
        "lock's store.",
        lock->passed);
    metrics_print_value(out, "seckill_lock_timeouts_total",
                        "Locks not acquired because they were not free in time.", lock->timeouts);
    metrics_print_value(out, "seckill_lock_failed_total", "Locks not acquired because their store failed.",
                        lock->failed);
    metrics_print_value(out, "seckill_lock_lost_total", "Locks lost before they were released or expired.",
                        lock->lost);
    metrics_print_value(out, "seckill_lock_waiting", "Purchases, baskets and transfers that wait for a lock.",
                        lock->waiting);
    metrics_print_seconds(out, "seckill_lock_wait_seconds_total",
                          "Time spent waiting for locks that were acquired.", lock->wait_ns);
    metrics_print_seconds(out, "seckill_lock_hold_seconds_total", "Time that locks were held.",
                          lock->hold_ns);
    metrics_print_value(out, "seckill_lock_epoch", "Epoch of the lock in force; 0: no lock is in force.",
                        lock_switch->phase == LOCK_SWITCH_IN_FORCE ? lock_switch->epoch : 0);
    metrics_print_value(out, "seckill_lock_switches_total",
                        "Lock switches: times that another lock came into force.", lock_switch->switches);
    if (lock_switch->reach == LOCK_SWITCH_UNTRIED)
        return;
    metrics_print_value(
        out, "seckill_lock_reachable",
        "1: the lock of the newest epoch could be reached when it was last probed; 0: it could not. Left out "
        "until the first probe.",
        lock_switch->reach == LOCK_SWITCH_REACHABLE);
}

char *metrics_print(struct service *service, const struct pool_metrics *pool,
                    const struct lock_switch_state *lock_switch, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        return NULL;
    uint64_t connections = 0;
    for (int i = 0; i < service->config.workers; i++)
        connections += (uint64_t)atomic_load_explicit(&service->workers[i].connections, memory_order_relaxed);
    metrics_print_head(out, "seckill_build_info", "gauge", "The version of the running program.");
    fprintf(out, "seckill_build_info{version=\"%s\"} 1\n", SECKILL_VERSION);
    metrics_print_outcomes(out, service, "seckill_purchases_total", "Purchases by outcome.",
                           offsetof(struct metrics, purchases));
    metrics_print_times(out, service, "seckill_purchase_seconds",
                        "Time from the arrival of a purchase to its answer.", offsetof(struct metrics, sold),
                        offsetof(struct metrics, rejected));
    metrics_print_outcomes(out, service, "seckill_baskets_total", "Baskets by outcome.",
                           offsetof(struct metrics, baskets));
    metrics_print_outcomes(out, service, "seckill_transfers_total",
                           "Transfers by outcome; sold: the transfer was done.",
                           offsetof(struct metrics, transfers));
    metrics_print_times(out, service, "seckill_basket_seconds",
                        "Time from the arrival of a basket or transfer to its answer.",
                        offsetof(struct metrics, transactions_made),
                        offsetof(struct metrics, transactions_rejected));
    metrics_print_head(
        out, "seckill_basket_phantom_seconds", "histogram",
        "Time for which a basket or transfer that failed held units before it gave them back.");
    metrics_print_histogram(out, service, "seckill_basket_phantom_seconds", "aborted",
                            offsetof(struct metrics, transactions_aborted));
    static const char *const recovered[] = {"tried", "finished"};
    static const char *const classes[] = {NULL, NULL, "2xx", "3xx", "4xx", "5xx"};
    metrics_print_labelled(
        out, service, "seckill_recovered_total",
        "Attempts to finish baskets and transfers that were left unfinished, or were held and "
        "due, by outcome.",
        offsetof(struct metrics, recovered), "outcome", recovered, 2);
    metrics_print_labelled(out, service, "seckill_http_responses_total",
                           "HTTP answers by class of their status.", offsetof(struct metrics, responses),
                           "class", classes, 6);
    metrics_print_value(out, "seckill_http_connections", "Connections of clients.", connections);
    metrics_print_pool(out, pool);
    metrics_print_lock(out, lock_switch);
    for (size_t i = 0; i < sizeof store_metrics / sizeof *store_metrics; i++)
        metrics_print_value(out, store_metrics[i].name, store_metrics[i].help,
                            metrics_sum(service, store_metrics[i].offset));
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
