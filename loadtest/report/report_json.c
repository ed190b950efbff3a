#include <jansson.h>

#include "loadtest/report/report_json.h"

static json_t *write_latency(const struct histogram *h) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "p50", (double)histogram_quantile(h, 0.5) / 1e6, "p90",
                     (double)histogram_quantile(h, 0.9) / 1e6, "p99",
                     (double)histogram_quantile(h, 0.99) / 1e6, "p99_9",
                     (double)histogram_quantile(h, 0.999) / 1e6, "max", (double)h->max / 1e6);
}

static json_t *write_reasons(const struct request_log *log,
                             const unsigned long long counts[REQUEST_LOG_REASONS]) {
    json_t *object = json_object();
    for (unsigned i = 1; i < log->reason_count; i++) {
        if (counts[i] > 0)
            json_object_set_new(object, log->reasons[i], json_integer((json_int_t)counts[i]));
    }
    return object;
}

static json_t *write_books(const struct books *books) {
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "conserved", books->conserved, "stock",
                     books->stock, "available", books->available, "held", books->held, "sold", books->sold,
                     "orders", books->orders, "oversold", books->oversold, "counted",
                     books->has_counters ? json_integer(books->counted) : json_null());
}

static json_t *write_verdict(const struct verdict *v) {
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "clean",
                     v->kind == VERDICT_CLEAN, "oversold", v->oversold, "lost", v->lost, "duplicated",
                     v->duplicated, "phantom", v->phantom, "undersold", v->undersold, "torn", v->torn,
                     "unbalanced", v->unbalanced, "unresolved", v->unresolved, "unchecked", v->unchecked,
                     "unsent", v->unsent, "audited", v->audited);
}

static json_t *write_counts(const struct summary *s) {
    double seconds = s->seconds > 0 ? s->seconds : 1;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "attempts",
                     s->all.attempts, "accepted", s->all.accepted, "rejected", s->all.rejected, "unknown",
                     s->all.unknown, "not_sent", s->not_sent, "orders", s->orders, "replayed", s->replayed,
                     "duplicates", s->duplicates, "retries", s->retries, "seconds", s->seconds,
                     "accepted_per_second", (double)s->all.latency_accepted.total / seconds,
                     "rejected_per_second", (double)s->all.latency_rejected.total / seconds);
}

/* Adds the counts and latencies of each kind of request. */
static void write_kinds(json_t *root, const struct report *r) {
    for (int i = 0; i < DEMAND_KINDS; i++) {
        const struct summary_kind *kind = &r->summary.kinds[i];
        if (!report_has_kind(r, (enum demand_kind)i))
            continue;
        json_object_set_new(root, demand_kind_names[i],
                            json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "attempts", kind->attempts,
                                      "accepted", kind->accepted, "rejected", kind->rejected, "unknown",
                                      kind->unknown, "rejections", write_reasons(r->log, kind->rejections),
                                      "latency_ms", write_latency(&kind->latency_all), "accepted_latency_ms",
                                      write_latency(&kind->latency_accepted)));
    }
}

bool report_write_json(FILE *out, const struct report *r) {
    const struct options *o = r->demand->options;
    const struct summary_kind *all = &r->summary.all;
    json_t *root = write_counts(&r->summary);
    json_t *rest = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:i, s:I, s:i, s:i, s:I, s:b, s:b}", "latency_ms",
        write_latency(&all->latency_all), "accepted_latency_ms", write_latency(&all->latency_accepted),
        "rejected_latency_ms", write_latency(&all->latency_rejected), "rejections",
        write_reasons(r->log, all->rejections), "unknowns", write_reasons(r->log, r->summary.causes),
        "books_before", write_books(&r->before), "books_after",
        r->verdict.audited ? write_books(&r->after) : json_null(), "verdict", write_verdict(&r->verdict),
        "item", o->item, "run", r->run, "connections", (int)o->connections, "connected",
        (json_int_t)r->connected, "users", (int)o->users, "quantity", (int)o->quantity, "seed",
        (json_int_t)o->seed, "conserved", r->verdict.conserved, "interrupted", r->interrupted);
    bool good = json_object_update_new(root, rest) == 0;
    if (o->items > 0) {
        json_object_update_new(root,
                               json_pack("{s:i, s:f, s:i, s:i, s:i}", "items", (int)o->items, "zipf", o->zipf,
                                         "basket_lines", (int)o->basket_lines, "purchases_percent",
                                         (int)o->purchases, "transfers_percent", (int)o->transfers));
        write_kinds(root, r);
    }
    good = good && json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
           fputc('\n', out) != EOF && fflush(out) == 0;
    json_decref(root);
    return good;
}
