#include "service/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/version.h"

const double metrics_bounds[METRICS_BUCKETS - 1] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                    0.25,   0.5,   1,      2.5,   5,    10,    30};

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

/* Label values by outcome; statuses that never end a call have none. */
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
    {"seckill_batches_total", "counter", "Script calls that sold.",
     offsetof(struct inventory_metrics, batches)},
    {"seckill_batched_purchases_total", "counter", "Purchases in those calls.",
     offsetof(struct inventory_metrics, batched)},
    {"seckill_checks_total", "counter", "Calls that only asked, of items sold out.",
     offsetof(struct inventory_metrics, checks)},
    {"seckill_purchases_waiting", "gauge", "Purchases in flight.",
     offsetof(struct inventory_metrics, waiting)},
    {"seckill_unknown_total", "counter", "Purchases whose reply was lost.",
     offsetof(struct inventory_metrics, unknown)},
    {"seckill_unknown_resolved_total", "counter", "Of which the order was found.",
     offsetof(struct inventory_metrics, unknown_resolved)},
    {"seckill_store_connects_total", "counter", "Connections made to the store.",
     offsetof(struct inventory_metrics, reconnects)},
    {"seckill_put_back_total", "counter",
     "Orders, restocks and the like that a failover of the store lost, put back.",
     offsetof(struct inventory_metrics, put_back)},
    {"seckill_shortage_total", "counter",
     "The same, but it does not fit any more, or something else was acknowledged: see the log.",
     offsetof(struct inventory_metrics, shortage)},
    {"seckill_unkept_total", "counter",
     "Failovers, or lost masters, with which more may be lost than could be kept.",
     offsetof(struct inventory_metrics, unkept)},
    {"seckill_store_errors_total", "counter", "Error replies of the store.",
     offsetof(struct inventory_metrics, store_errors)},
    {"seckill_scripts_loaded_total", "counter", "Scripts sent because the store had lost them.",
     offsetof(struct inventory_metrics, scripts_loaded)},
    {"seckill_holds_expired_total", "counter", "Holds that this process expired.",
     offsetof(struct inventory_metrics, expired)},
    {"seckill_conflicts_total", "counter", "Transactions of strategy optimistic that had to be repeated.",
     offsetof(struct inventory_metrics, conflicts)},
};

static void print_head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_value(FILE *out, const char *name, const char *type, const char *help, uint64_t value) {
    print_head(out, name, type, help);
    fprintf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void print_seconds(FILE *out, const char *name, const char *help, uint64_t ns) {
    print_head(out, name, "counter", help);
    fprintf(out, "%s %.9f\n", name, (double)ns / 1e9);
}

/* An array of counters at `offset` in struct metrics, one for each value of a label; NULL: there is none. */
static void print_labelled(FILE *out, const struct metrics_source *sources, int count, const char *name,
                           const char *help, size_t offset, const char *label, const char *const values[],
                           int values_count) {
    print_head(out, name, "counter", help);
    for (int value = 0; value < values_count; value++) {
        uint64_t sum = 0;
        for (int i = 0; i < count; i++) {
            const _Atomic uint64_t *metrics = (const void *)((const char *)sources[i].metrics + offset);
            sum += metric_read(&metrics[value]);
        }
        if (values[value])
            fprintf(out, "%s{%s=\"%s\"} %llu\n", name, label, values[value], (unsigned long long)sum);
    }
}

static void print_outcomes(FILE *out, const struct metrics_source *sources, int count, const char *name,
                           const char *help, size_t offset) {
    print_labelled(out, sources, count, name, help, offset, "outcome", outcomes, METRICS_OUTCOMES);
}

static void print_histogram(FILE *out, const struct metrics_source *sources, int count, const char *name,
                            const char *outcome, size_t offset) {
    uint64_t running = 0, sum_ns = 0;
    for (int bucket = 0; bucket < METRICS_BUCKETS; bucket++) {
        for (int i = 0; i < count; i++) {
            const struct metrics_histogram *histogram =
                (const void *)((const char *)sources[i].metrics + offset);
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

static void print_pool(FILE *out, const struct pool_metrics *pool) {
    print_value(out, "seckill_pool_waiting", "gauge", "Blocking jobs that wait for a thread.",
                (uint64_t)pool->waiting);
    print_value(out, "seckill_pool_jobs_total", "counter", "Blocking jobs begun.", pool->begun);
    print_value(out, "seckill_pool_refused_total", "counter",
                "Blocking jobs for which the queue was too full.", pool->refused);
    print_seconds(out, "seckill_pool_wait_seconds_total", "Time that jobs waited for a thread.",
                  (uint64_t)pool->wait_ns);
}

static void print_store(FILE *out, const struct metrics_source *sources, int count) {
    for (size_t k = 0; k < sizeof store_metrics / sizeof *store_metrics; k++) {
        uint64_t sum = 0;
        for (int i = 0; i < count; i++)
            sum += metric_read((const void *)((const char *)sources[i].inventory + store_metrics[k].offset));
        print_value(out, store_metrics[k].name, store_metrics[k].type, store_metrics[k].help, sum);
    }
}

static void print_lock(FILE *out, const struct lock_switch_metrics *lock_switch) {
    const struct lock_metrics *lock = &lock_switch->lock;
    print_value(out, "seckill_lock_acquired_total", "counter", "Locks had.", lock->acquired);
    print_value(out, "seckill_lock_passed_total", "counter", "Of these, handed over within this process.",
                lock->passed);
    print_value(out, "seckill_lock_timeouts_total", "counter", "Locks waited for in vain.", lock->timeouts);
    print_value(out, "seckill_lock_failed_total", "counter", "Locks not had since their store failed.",
                lock->failed);
    print_value(out, "seckill_lock_lost_total", "counter", "Locks lost before their time.", lock->lost);
    print_value(out, "seckill_lock_waiting", "gauge",
                "Purchases, baskets and transfers that wait for a lock.", lock->waiting);
    print_seconds(out, "seckill_lock_wait_seconds_total", "Time waited for locks that were had.",
                  lock->wait_ns);
    print_seconds(out, "seckill_lock_hold_seconds_total", "Time locks were held.", lock->hold_ns);
    print_value(out, "seckill_lock_epoch", "gauge", "Of the lock in force; 0: none is.", lock_switch->epoch);
    print_value(out, "seckill_lock_switches_total", "counter", "Times that another lock came in force.",
                lock_switch->switches);
    if (lock_switch->reach == LOCK_SWITCH_UNTRIED)
        return;
    print_value(
        out, "seckill_lock_reachable", "gauge",
        "1: the lock of the newest epoch could be had when it was last tried; 0: it could not. Left out "
        "until it is tried.",
        lock_switch->reach == LOCK_SWITCH_REACHABLE);
}

char *metrics_print(const struct metrics_source *sources, int count, const struct pool_metrics *pool,
                    const struct lock_switch_metrics *lock_switch, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        return NULL;
    uint64_t connections = 0;
    for (int i = 0; i < count; i++)
        connections += (uint64_t)sources[i].connections;
    print_head(out, "seckill_build_info", "gauge", "The version that runs.");
    fprintf(out, "seckill_build_info{version=\"%s\"} 1\n", SECKILL_VERSION);
    print_outcomes(out, sources, count, "seckill_purchases_total", "Purchases by how they ended.",
                   offsetof(struct metrics, purchases));
    static const char purchase[] = "seckill_purchase_seconds", transaction[] = "seckill_basket_seconds",
                      undone[] = "seckill_basket_phantom_seconds";
    print_head(out, purchase, "histogram", "From a purchase's arrival to its answer.");
    print_histogram(out, sources, count, purchase, "sold", offsetof(struct metrics, sold));
    print_histogram(out, sources, count, purchase, "rejected", offsetof(struct metrics, rejected));
    print_outcomes(out, sources, count, "seckill_baskets_total", "Baskets by how they ended.",
                   offsetof(struct metrics, baskets));
    print_outcomes(out, sources, count, "seckill_transfers_total",
                   "Transfers by how they ended (sold: they were done).",
                   offsetof(struct metrics, transfers));
    print_head(out, transaction, "histogram", "From a basket's or transfer's arrival to its answer.");
    print_histogram(out, sources, count, transaction, "sold", offsetof(struct metrics, transactions_made));
    print_histogram(out, sources, count, transaction, "rejected",
                    offsetof(struct metrics, transactions_rejected));
    print_head(out, undone, "histogram",
               "How long a basket or transfer that failed had units which it gave back.");
    print_histogram(out, sources, count, undone, "aborted", offsetof(struct metrics, transactions_aborted));
    static const char *const recovered[] = {"tried", "finished"};
    static const char *const classes[] = {NULL, NULL, "2xx", "3xx", "4xx", "5xx"};
    print_labelled(
        out, sources, count, "seckill_recovered_total",
        "Baskets and transfers that were left unfinished, or held and due, and attempts to finish them.",
        offsetof(struct metrics, recovered), "outcome", recovered, 2);
    print_labelled(out, sources, count, "seckill_http_responses_total", "HTTP answers by class of status.",
                   offsetof(struct metrics, responses), "class", classes, 6);
    print_value(out, "seckill_http_connections", "gauge", "Clients connected.", connections);
    print_pool(out, pool);
    print_lock(out, lock_switch);
    print_store(out, sources, count);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
