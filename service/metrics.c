/* The text of /metrics: the names of all metrics, and what each one means. */
#include <stdio.h>
#include <stdlib.h>

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

/* A lock that was not free in time counts as overload. Any other failure of the lock has a label of its own.
 */
int metrics_outcome(enum inventory_status status, enum lock_status locked) {
    return locked == LOCK_OK || locked == LOCK_TIMEOUT ? (int)status : METRICS_LOCK_UNAVAILABLE;
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
    const char *name, *type, *help;
    size_t offset; /* in struct inventory_metrics */
} store_metrics[] = {
    {"seckill_batches_total", "counter", "Calls of the script that sells batches of purchases.",
     offsetof(struct inventory_metrics, batches)},
    {"seckill_batched_purchases_total", "counter", "Purchases in the script calls of seckill_batches_total.",
     offsetof(struct inventory_metrics, batched)},
    {"seckill_checks_total", "counter",
     "Script calls that only asked whether a purchase had an order: its item was sold out, or its reply was "
     "lost.",
     offsetof(struct inventory_metrics, checks)},
    {"seckill_purchases_waiting", "gauge", "Purchases, baskets and transfers in flight.",
     offsetof(struct inventory_metrics, waiting)},
    {"seckill_unknown_total", "counter", "Purchases whose reply from the store was lost.",
     offsetof(struct inventory_metrics, unknown)},
    {"seckill_unknown_resolved_total", "counter", "Lost replies whose order was found.",
     offsetof(struct inventory_metrics, unknown_resolved)},
    {"seckill_store_connects_total", "counter", "Connections made to the store.",
     offsetof(struct inventory_metrics, reconnects)},
    {"seckill_put_back_total", "counter",
     "Orders, restocks, transfers and baskets that a failover of the store lost and that were put back.",
     offsetof(struct inventory_metrics, put_back)},
    {"seckill_shortage_total", "counter",
     "Orders, restocks, transfers and baskets that a failover of the store lost and that could not be put "
     "back; the log names them.",
     offsetof(struct inventory_metrics, shortage)},
    {"seckill_unkept_total", "counter",
     "Failovers and lost masters that may have lost more than this process had kept to put back.",
     offsetof(struct inventory_metrics, unkept)},
    {"seckill_store_errors_total", "counter", "Error replies of the store.",
     offsetof(struct inventory_metrics, store_errors)},
    {"seckill_scripts_loaded_total", "counter", "Scripts sent again because the store no longer had them.",
     offsetof(struct inventory_metrics, scripts_loaded)},
    {"seckill_holds_expired_total", "counter", "Holds that this process has expired.",
     offsetof(struct inventory_metrics, expired)},
    {"seckill_conflicts_total", "counter",
     "Transactions of strategy optimistic that were repeated because the item had changed.",
     offsetof(struct inventory_metrics, conflicts)},
};

/* The workers, and behind them the background thread. */
static const struct loop_thread *metrics_thread(const struct service *service, int i) {
    return i < service->worker_count ? &service->workers[i].thread : &service->background.thread;
}

static void metrics_print_head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metrics_print_value(FILE *out, const char *name, const char *type, const char *help,
                                uint64_t value) {
    metrics_print_head(out, name, type, help);
    fprintf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void metrics_print_seconds(FILE *out, const char *name, const char *help, uint64_t ns) {
    metrics_print_head(out, name, "counter", help);
    fprintf(out, "%s %.9f\n", name, (double)ns / 1e9);
}

/* Prints the array of counters at `offset` in struct metrics, one for each value of a label. A counter whose
 * value is NULL is left out. */
static void metrics_print_labelled(FILE *out, const struct service *service, const char *name,
                                   const char *help, size_t offset, const char *label,
                                   const char *const values[], int values_count) {
    metrics_print_head(out, name, "counter", help);
    for (int value = 0; value < values_count; value++) {
        uint64_t sum = 0;
        for (int i = 0; i <= service->worker_count; i++) {
            const _Atomic uint64_t *metrics =
                (const void *)((const char *)&metrics_thread(service, i)->metrics + offset);
            sum += metric_read(&metrics[value]);
        }
        if (values[value])
            fprintf(out, "%s{%s=\"%s\"} %llu\n", name, label, values[value], (unsigned long long)sum);
    }
}

static void metrics_print_outcomes(FILE *out, const struct service *service, const char *name,
                                   const char *help, size_t offset) {
    metrics_print_labelled(out, service, name, help, offset, "outcome", outcomes, METRICS_OUTCOMES);
}

static void metrics_print_histogram(FILE *out, const struct service *service, const char *name,
                                    const char *outcome, size_t offset) {
    uint64_t running = 0, sum_ns = 0;
    for (int bucket = 0; bucket < METRICS_BUCKETS; bucket++) {
        for (int i = 0; i <= service->worker_count; i++) {
            const struct metrics_histogram *histogram =
                (const void *)((const char *)&metrics_thread(service, i)->metrics + offset);
            running += metric_read(&histogram->buckets[bucket]);
            sum_ns += bucket == 0 ? metric_read(&histogram->sum_ns) : 0;
        }
        char bound[32] = "+Inf";
        if (bucket < METRICS_BUCKETS - 1)
            snprintf(bound, sizeof bound, "%g", metrics_bounds[bucket]);
        fprintf(out, "%s_bucket{outcome=\"%s\",le=\"%s\"} %llu\n", name, outcome, bound,
                (unsigned long long)running);
    }
    fprintf(out, "%s_sum{outcome=\"%s\"} %.9f\n%s_count{outcome=\"%s\"} %llu\n", name, outcome,
            (double)sum_ns / 1e9, name, outcome, (unsigned long long)running);
}

static void metrics_print_pool(FILE *out, const struct pool_metrics *pool) {
    metrics_print_value(out, "seckill_pool_waiting", "gauge",
                        "Jobs that wait for a thread of the blocking pool.", (uint64_t)pool->waiting);
    metrics_print_value(out, "seckill_pool_jobs_total", "counter", "Jobs begun in the blocking pool.",
                        pool->begun);
    metrics_print_value(out, "seckill_pool_refused_total", "counter",
                        "Jobs refused because the queue of the blocking pool was full.", pool->refused);
    metrics_print_seconds(out, "seckill_pool_wait_seconds_total",
                          "Time that jobs have waited for a thread of the blocking pool.",
                          (uint64_t)pool->wait_ns);
}

static void metrics_print_store(FILE *out, const struct service *service) {
    for (size_t k = 0; k < sizeof store_metrics / sizeof *store_metrics; k++) {
        uint64_t sum = 0;
        for (int i = 0; i <= service->worker_count; i++)
            sum += metric_read((const void *)((const char *)&metrics_thread(service, i)->stock_metrics +
                                              store_metrics[k].offset));
        metrics_print_value(out, store_metrics[k].name, store_metrics[k].type, store_metrics[k].help, sum);
    }
}

static void metrics_print_lock(FILE *out, const struct lock_switch_metrics *lock_switch) {
    const struct lock_metrics *lock = &lock_switch->lock;
    metrics_print_value(out, "seckill_lock_acquired_total", "counter", "Locks acquired.", lock->acquired);
    metrics_print_value(
        out, "seckill_lock_passed_total", "counter",
        "Locks acquired that another thread of this process handed over, without a request to the "
        "lock's store.",
        lock->passed);
    metrics_print_value(out, "seckill_lock_timeouts_total", "counter",
                        "Locks not acquired because they were not free in time.", lock->timeouts);
    metrics_print_value(out, "seckill_lock_failed_total", "counter",
                        "Locks not acquired because their store failed.", lock->failed);
    metrics_print_value(out, "seckill_lock_lost_total", "counter",
                        "Locks lost before they were released or expired.", lock->lost);
    metrics_print_value(out, "seckill_lock_waiting", "gauge",
                        "Purchases, baskets and transfers that wait for a lock.", lock->waiting);
    metrics_print_seconds(out, "seckill_lock_wait_seconds_total",
                          "Time spent waiting for locks that were acquired.", lock->wait_ns);
    metrics_print_seconds(out, "seckill_lock_hold_seconds_total", "Time that locks were held.",
                          lock->hold_ns);
    metrics_print_value(out, "seckill_lock_epoch", "gauge",
                        "Epoch of the lock in force; 0: no lock is in force.", lock_switch->epoch);
    metrics_print_value(out, "seckill_lock_switches_total", "counter",
                        "Lock switches: times that another lock came into force.", lock_switch->switches);
    if (lock_switch->reach == LOCK_SWITCH_UNTRIED)
        return;
    metrics_print_value(
        out, "seckill_lock_reachable", "gauge",
        "1: the lock of the newest epoch could be reached when it was last probed; 0: it could not. Left out "
        "until the first probe.",
        lock_switch->reach == LOCK_SWITCH_REACHABLE);
}

char *metrics_print(const struct service *service, const struct pool_metrics *pool,
                    const struct lock_switch_metrics *lock_switch, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        return NULL;
    uint64_t connections = 0;
    for (int i = 0; i < service->worker_count; i++)
        connections += (uint64_t)atomic_load_explicit(&service->workers[i].connections, memory_order_relaxed);
    metrics_print_head(out, "seckill_build_info", "gauge", "The version of the running program.");
    fprintf(out, "seckill_build_info{version=\"%s\"} 1\n", SECKILL_VERSION);
    metrics_print_outcomes(out, service, "seckill_purchases_total", "Purchases by outcome.",
                           offsetof(struct metrics, purchases));
    static const char purchase[] = "seckill_purchase_seconds", transaction[] = "seckill_basket_seconds",
                      undone[] = "seckill_basket_phantom_seconds";
    metrics_print_head(out, purchase, "histogram", "Time from the arrival of a purchase to its answer.");
    metrics_print_histogram(out, service, purchase, "sold", offsetof(struct metrics, sold));
    metrics_print_histogram(out, service, purchase, "rejected", offsetof(struct metrics, rejected));
    metrics_print_outcomes(out, service, "seckill_baskets_total", "Baskets by outcome.",
                           offsetof(struct metrics, baskets));
    metrics_print_outcomes(out, service, "seckill_transfers_total",
                           "Transfers by outcome; sold: the transfer was done.",
                           offsetof(struct metrics, transfers));
    metrics_print_head(out, transaction, "histogram",
                       "Time from the arrival of a basket or transfer to its answer.");
    metrics_print_histogram(out, service, transaction, "sold", offsetof(struct metrics, transactions_made));
    metrics_print_histogram(out, service, transaction, "rejected",
                            offsetof(struct metrics, transactions_rejected));
    metrics_print_head(
        out, undone, "histogram",
        "Time for which a basket or transfer that failed held units before it gave them back.");
    metrics_print_histogram(out, service, undone, "aborted", offsetof(struct metrics, transactions_aborted));
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
    metrics_print_value(out, "seckill_http_connections", "gauge", "Connections of clients.", connections);
    metrics_print_pool(out, pool);
    metrics_print_lock(out, lock_switch);
    metrics_print_store(out, service);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
