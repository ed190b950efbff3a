#include "loadtest/sale_report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- counts ---- */

static enum request_kind report_kind_of(const struct report *r, const struct log_line *line) {
    struct planned_request planned;
    plan_of_key(r->plan, line->key, &planned);
    return planned.kind;
}

static void summary_time_kind(struct summary_kind *kind, const struct log_line *line) {
    uint64_t latency = line->answered_ns - line->intended_ns;
    if (line->outcome == OUTCOME_ACCEPTED)
        histogram_record(&kind->latency_accepted, latency);
    else if (line->outcome == OUTCOME_REJECTED)
        histogram_record(&kind->latency_rejected, latency);
    histogram_record(&kind->latency_all, latency);
}

void report_time(struct report *r, uint64_t started_ns, uint64_t ended_ns) {
    const struct request_log *log = r->log;
    struct summary *summary = &r->summary;
    summary->seconds = (double)(ended_ns - started_ns) / 1e9;
    for (size_t i = 0; i < log->line_count; i++) {
        const struct log_line *line = &log->lines[i];
        if (line->outcome != OUTCOME_OPEN && line->outcome != OUTCOME_NOT_SENT) {
            summary_time_kind(&summary->all, line);
            summary_time_kind(&summary->kinds[report_kind_of(r, line)], line);
        }
    }
}

static void summary_count_kind(struct summary_kind *kind, const struct log_line *line) {
    kind->attempts++;
    kind->accepted += line->outcome == OUTCOME_ACCEPTED;
    kind->unknown += line->cause != 0;
    if (line->outcome == OUTCOME_REJECTED) {
        kind->rejected++;
        kind->rejections[line->reason]++;
    }
}

static void summary_count_line(struct summary *summary, const struct log_line *line) {
    summary->not_sent += line->outcome == OUTCOME_NOT_SENT;
    summary->unresolved += line->outcome == OUTCOME_UNKNOWN;
    summary->duplicates += line->duplicate;
    summary->replayed += line->outcome == OUTCOME_ACCEPTED && line->replayed;
    summary->retries += line->tries > 1 ? line->tries - 1u : 0;
    if (line->cause != 0) {
        summary->causes[line->cause]++;
        summary->resolved_accepted += line->outcome == OUTCOME_ACCEPTED;
        summary->resolved_rejected += line->outcome == OUTCOME_REJECTED;
    }
}

void report_count(struct report *r) {
    const struct request_log *log = r->log;
    struct summary *summary = &r->summary;
    for (size_t i = 0; i < log->line_count; i++) {
        const struct log_line *line = &log->lines[i];
        summary_count_line(summary, line);
        summary_count_kind(&summary->all, line);
        summary_count_kind(&summary->kinds[report_kind_of(r, line)], line);
    }
    for (size_t i = 0; i < log->order_count; i++) {
        const struct log_order *order = &log->orders[i];
        bool is_order = report_kind_of(r, &log->lines[order->line]) != REQUEST_TRANSFER;
        summary->orders += is_order && !order->extra && !order->absent;
    }
}

/* ---- text ---- */

/* True: this kind of request is reported separately, since the load is not purchases alone. */
static bool report_has_kind(const struct report *r, enum request_kind kind) {
    const struct options *o = r->plan->options;
    return (o->basket_lines > 0 || o->transfers > 0) && plan_has(r->plan, kind);
}

static void print_rate(FILE *out, const char *name, unsigned long long count, uint64_t in_load,
                       double seconds) {
    fprintf(out, "  %-12s %10llu %10.0f/s", name, count, seconds > 0 ? (double)in_load / seconds : 0.0);
}

static void print_reasons(FILE *out, const struct request_log *log,
                          const unsigned long long counts[REQUEST_LOG_REASONS]) {
    const char *separator = "   ";
    for (unsigned i = 1; i < log->reason_count; i++) {
        if (counts[i] > 0) {
            fprintf(out, "%s%s %llu", separator, log->reasons[i], counts[i]);
            separator = ", ";
        }
    }
    fputc('\n', out);
}

static void print_kinds(FILE *out, const struct report *r) {
    for (int i = 0; i < REQUEST_KINDS; i++) {
        const struct summary_kind *kind = &r->summary.kinds[i];
        if (!report_has_kind(r, (enum request_kind)i))
            continue;
        fprintf(out, "  %-12s %10llu attempts: %llu accepted, %llu unknown, %llu rejected",
                request_kind_names[i], kind->attempts, kind->accepted, kind->unknown, kind->rejected);
        print_reasons(out, r->log, kind->rejections);
    }
}

static void print_counts(FILE *out, const struct report *r) {
    const struct summary *s = &r->summary;
    fprintf(out, "  %llu attempts in %.2f s%s (%llu of them duplicates, %llu retries)\n", s->all.attempts,
            s->seconds, r->interrupted ? ", interrupted" : "", s->duplicates, s->retries);
    print_rate(out, "accepted", s->all.accepted, s->all.latency_accepted.total, s->seconds);
    fprintf(out, "   %llu orders, %llu answers replayed\n", s->orders, s->replayed);
    print_rate(out, "rejected", s->all.rejected, s->all.latency_rejected.total, s->seconds);
    print_reasons(out, r->log, s->all.rejections);
    if (s->all.unknown > 0) {
        fprintf(out, "  %-12s %10llu %12s", "unknown", s->all.unknown, "");
        print_reasons(out, r->log, s->causes);
        fprintf(out, "  %-12s %10s %12s   %llu accepted, %llu rejected, %llu unresolved\n", "", "", "",
                s->resolved_accepted, s->resolved_rejected, s->unresolved);
    }
    if (s->not_sent > 0)
        fprintf(out, "  %-12s %10llu %12s   no connection\n", "not sent", s->not_sent, "");
    print_kinds(out, r);
}

static void print_latency(FILE *out, const char *name, const struct histogram *h) {
    static const double fractions[] = {0.5, 0.9, 0.99, 0.999};
    if (h->total == 0)
        return;
    fprintf(out, "  %-12s", name);
    for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; i++)
        fprintf(out, " %9.3f", (double)histogram_quantile(h, fractions[i]) / 1e6);
    fprintf(out, " %9.3f\n", (double)h->max / 1e6);
}

static void print_latencies(FILE *out, const struct report *r) {
    const struct summary *s = &r->summary;
    if (s->all.latency_all.total == 0)
        return;
    fprintf(out, "\n  %-12s %9s %9s %9s %9s %9s\n", "latency, ms", "p50", "p90", "p99", "p99.9", "max");
    print_latency(out, "accepted", &s->all.latency_accepted);
    print_latency(out, "rejected", &s->all.latency_rejected);
    print_latency(out, "all", &s->all.latency_all);
    for (int i = 0; i < REQUEST_KINDS; i++) {
        if (report_has_kind(r, (enum request_kind)i))
            print_latency(out, request_kind_names[i], &s->kinds[i].latency_all);
    }
}

static void print_books(FILE *out, const char *name, const struct books *books) {
    fprintf(out, "  %-12s stock %lld, available %lld, held %lld, sold %lld, orders %lld%s\n", name,
            books->stock, books->available, books->held, books->sold, books->orders,
            books->conserved ? "" : ", NOT CONSERVED");
}

/* Warns of rejections that a sale does not give: this is probably not the intended load. */
static void print_warnings(FILE *out, const struct report *r) {
    static const char *const expected[] = {"sold-out", "purchase-limit", "not-started", "ended"};
    for (unsigned i = 1; i < r->log->reason_count; i++) {
        bool usual = r->summary.all.rejections[i] == 0;
        for (size_t j = 0; j < sizeof expected / sizeof expected[0]; j++)
            usual = usual || strcmp(r->log->reasons[i], expected[j]) == 0;
        if (!usual)
            fprintf(out,
                    "  WARNING: %llu requests were rejected as '%s': is this the load that you intended?\n",
                    r->summary.all.rejections[i], r->log->reasons[i]);
    }
    if (!r->before.conserved || r->before.oversold > 0)
        fprintf(out, "  WARNING: the books were wrong before the first request (oversold %lld%s)\n",
                r->before.oversold, r->before.conserved ? "" : ", not conserved");
}

static void print_number(FILE *out, long long number, const char *what) {
    fprintf(out, "  %-12s %10lld   %s\n", "", number, what);
}

/* Explains the numbers that should be equal and are not. */
static void print_wrong_books(FILE *out, const struct report *r) {
    const struct books *after = &r->after;
    fputs(
        "  not conserved: the audit says that the books themselves are wrong. These numbers should agree:\n",
        out);
    print_number(out, (long long)r->summary.all.accepted,
                 "answers acknowledged an order; some repeated an earlier answer:");
    print_number(out, (long long)r->summary.orders, "orders of this run were acknowledged");
    print_number(out, after->orders, "orders are in the books; the audit adds them up to");
    print_number(out, after->held + after->sold, "units held or sold");
    if (after->has_counters)
        print_number(out, after->counted,
                     "units held or sold, by the counters of the item (GET /v1/items/{item})");
    print_number(out, after->stock - after->available, "units gone: the stock less what is available");
}

static void print_verdict(FILE *out, const struct report *r, bool colour) {
    static const char *const words[] = {"CLEAN", "NOT CLEAN", "NO VERDICT"};
    static const char *const colours[] = {"\033[1;32m", "\033[1;31m", "\033[1;33m"};
    const struct verdict *v = &r->verdict;
    fprintf(out,
            "\n%s%s%s  %llu attempts: %llu acknowledged, %lld lost, %lld duplicated, %lld oversold, %llu "
            "unknown, ",
            colour ? colours[v->kind] : "", words[v->kind], colour ? "\033[0m" : "", r->summary.all.attempts,
            r->summary.all.accepted, v->lost, v->duplicated, v->oversold, r->summary.all.unknown);
    if (v->unresolved == 0)
        fputs("all resolved\n", out);
    else
        fprintf(out, "%lld unresolved\n", v->unresolved);
    const struct {
        const char *name, *what;
        long long count;
    } faults[] = {
        {"oversold", "units sold beyond the stock", v->oversold},
        {"lost", "acknowledged orders that are missing or different, in the books or in the answer", v->lost},
        {"duplicated", "answers to a repeated key that tell of another order, or surplus orders of a key",
         v->duplicated},
        {"phantom", "orders in the books that no answer acknowledged", v->phantom},
        {"undersold", "units left, though buyers were told sold-out", v->undersold},
        {"torn", "acknowledged baskets of which some lines are missing", v->torn},
        {"unbalanced", "units that are not where the transfers put them", v->unbalanced},
        {"unresolved", "requests whose outcome is still unknown", v->unresolved},
        {"unchecked", "acknowledged orders that could not be read", v->unchecked},
        {"not sent",
         r->plan->options->retries
             ? "requests: no connection to any seller"
             : "requests: no connection, so the load was not the intended one; --retries tries again",
         v->unsent},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (faults[i].count > 0)
            fprintf(out, "  %-12s %10lld   %s\n", faults[i].name, faults[i].count, faults[i].what);
    }
    if (v->audited && !v->conserved)
        print_wrong_books(out, r);
    if (!v->audited)
        fprintf(out, "  no audit: %s\n", r->audit_error);
    if (v->settled == 0)
        fputs("  no request was answered\n", out);
}

void report_print(FILE *out, const struct report *r) {
    bool colour = isatty(fileno(out)) == 1 && getenv("NO_COLOR") == NULL;
    const struct options *o = r->plan->options;
    if (o->items > 0)
        fprintf(out, "items %s-0 to %s-%u", o->item, o->item, o->items - 1);
    else
        fprintf(out, "item %s", o->item);
    if (o->basket_lines > 0)
        fprintf(out, ", baskets of %u", o->basket_lines);
    if (o->purchases > 0)
        fprintf(out, ", %u %% purchases", o->purchases);
    if (o->transfers > 0)
        fprintf(out, ", %u %% transfers", o->transfers);
    if (o->zipf > 0)
        fprintf(out, ", zipf %g", o->zipf);
    fprintf(out, " at %s%s, %u connections, %u users, quantity %u, seed %llu, keys sl-%s-...\n",
            o->urls.texts[0], o->urls.count > 1 ? " and others" : "", o->connections, o->users, o->quantity,
            (unsigned long long)o->seed, r->run);
    print_counts(out, r);
    print_latencies(out, r);
    fputc('\n', out);
    print_books(out, "books before", &r->before);
    if (r->verdict.audited)
        print_books(out, "books after", &r->after);
    print_warnings(out, r);
    print_verdict(out, r, colour);
}

/* ---- JSON ---- */

static json_t *pack_latency(const struct histogram *h) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "p50", (double)histogram_quantile(h, 0.5) / 1e6, "p90",
                     (double)histogram_quantile(h, 0.9) / 1e6, "p99",
                     (double)histogram_quantile(h, 0.99) / 1e6, "p99_9",
                     (double)histogram_quantile(h, 0.999) / 1e6, "max", (double)h->max / 1e6);
}

static json_t *pack_reasons(const struct request_log *log,
                            const unsigned long long counts[REQUEST_LOG_REASONS]) {
    json_t *object = json_object();
    for (unsigned i = 1; i < log->reason_count; i++) {
        if (counts[i] > 0)
            json_object_set_new(object, log->reasons[i], json_integer((json_int_t)counts[i]));
    }
    return object;
}

static json_t *pack_books(const struct books *books) {
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "conserved", books->conserved, "stock",
                     books->stock, "available", books->available, "held", books->held, "sold", books->sold,
                     "orders", books->orders, "oversold", books->oversold, "counted",
                     books->has_counters ? json_integer(books->counted) : json_null());
}

static json_t *pack_verdict(const struct verdict *v) {
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "clean",
                     v->kind == VERDICT_CLEAN, "oversold", v->oversold, "lost", v->lost, "duplicated",
                     v->duplicated, "phantom", v->phantom, "undersold", v->undersold, "torn", v->torn,
                     "unbalanced", v->unbalanced, "unresolved", v->unresolved, "unchecked", v->unchecked,
                     "unsent", v->unsent, "audited", v->audited);
}

static json_t *pack_counts(const struct summary *s) {
    double seconds = s->seconds > 0 ? s->seconds : 1;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "attempts",
                     s->all.attempts, "accepted", s->all.accepted, "rejected", s->all.rejected, "unknown",
                     s->all.unknown, "not_sent", s->not_sent, "orders", s->orders, "replayed", s->replayed,
                     "duplicates", s->duplicates, "retries", s->retries, "seconds", s->seconds,
                     "accepted_per_second", (double)s->all.latency_accepted.total / seconds,
                     "rejected_per_second", (double)s->all.latency_rejected.total / seconds);
}

/* Adds the counts and latencies of each kind of request. */
static void pack_kinds(json_t *root, const struct report *r) {
    for (int i = 0; i < REQUEST_KINDS; i++) {
        const struct summary_kind *kind = &r->summary.kinds[i];
        if (!report_has_kind(r, (enum request_kind)i))
            continue;
        json_object_set_new(root, request_kind_names[i],
                            json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "attempts", kind->attempts,
                                      "accepted", kind->accepted, "rejected", kind->rejected, "unknown",
                                      kind->unknown, "rejections", pack_reasons(r->log, kind->rejections),
                                      "latency_ms", pack_latency(&kind->latency_all), "accepted_latency_ms",
                                      pack_latency(&kind->latency_accepted)));
    }
}

bool report_write_json(FILE *out, const struct report *r) {
    const struct options *o = r->plan->options;
    const struct summary_kind *all = &r->summary.all;
    json_t *root = pack_counts(&r->summary);
    json_t *rest = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:i, s:I, s:i, s:i, s:I, s:b, s:b}", "latency_ms",
        pack_latency(&all->latency_all), "accepted_latency_ms", pack_latency(&all->latency_accepted),
        "rejected_latency_ms", pack_latency(&all->latency_rejected), "rejections",
        pack_reasons(r->log, all->rejections), "unknowns", pack_reasons(r->log, r->summary.causes),
        "books_before", pack_books(&r->before), "books_after",
        r->verdict.audited ? pack_books(&r->after) : json_null(), "verdict", pack_verdict(&r->verdict),
        "item", o->item, "run", r->run, "connections", (int)o->connections, "connected",
        (json_int_t)r->connected, "users", (int)o->users, "quantity", (int)o->quantity, "seed",
        (json_int_t)o->seed, "conserved", r->verdict.conserved, "interrupted", r->interrupted);
    bool good = json_object_update_new(root, rest) == 0;
    if (o->items > 0) {
        json_object_update_new(root,
                               json_pack("{s:i, s:f, s:i, s:i, s:i}", "items", (int)o->items, "zipf", o->zipf,
                                         "basket_lines", (int)o->basket_lines, "purchases_percent",
                                         (int)o->purchases, "transfers_percent", (int)o->transfers));
        pack_kinds(root, r);
    }
    good = good && json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
           fputc('\n', out) != EOF && fflush(out) == 0;
    json_decref(root);
    return good;
}
