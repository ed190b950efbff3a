#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loadtest/report/report.h"

bool report_has_kind(const struct report *r, enum demand_kind kind) {
    const struct options *o = r->demand->options;
    return (o->basket_lines > 0 || o->transfers > 0) && demand_has(r->demand, kind);
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
    for (int i = 0; i < DEMAND_KINDS; i++) {
        const struct summary_kind *kind = &r->summary.kinds[i];
        if (!report_has_kind(r, (enum demand_kind)i))
            continue;
        fprintf(out, "  %-12s %10llu attempts: %llu accepted, %llu unknown, %llu rejected",
                demand_kind_names[i], kind->attempts, kind->accepted, kind->unknown, kind->rejected);
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
    for (int i = 0; i < DEMAND_KINDS; i++) {
        if (report_has_kind(r, (enum demand_kind)i))
            print_latency(out, demand_kind_names[i], &s->kinds[i].latency_all);
    }
}

static void print_books(FILE *out, const char *name, const struct books *books) {
    fprintf(out, "  %-12s stock %lld, available %lld, held %lld, sold %lld, orders %lld%s\n", name,
            books->stock, books->available, books->held, books->sold, books->orders,
            books->conserved ? "" : ", NOT CONSERVED");
}

/* Rejections other than those of a sale: probably not the intended load. */
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

static void print_violation(FILE *out, const char *name, long long count, const char *what) {
    if (count > 0)
        fprintf(out, "  %-12s %10lld   %s\n", name, count, what);
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
    print_violation(out, "oversold", v->oversold, "units sold beyond the stock");
    print_violation(out, "lost", v->lost,
                    "acknowledged orders that are missing or different, in the books or in the answer");
    print_violation(out, "duplicated", v->duplicated,
                    "answers to a repeated key that differ from the first, or surplus orders of a key");
    print_violation(out, "phantom", v->phantom, "orders in the books that no answer acknowledged");
    print_violation(out, "undersold", v->undersold, "units left, though buyers were told sold-out");
    print_violation(out, "torn", v->torn, "acknowledged baskets of which some lines are missing");
    print_violation(out, "unbalanced", v->unbalanced, "units that are not where the transfers put them");
    print_violation(out, "unresolved", v->unresolved, "requests whose outcome is still unknown");
    print_violation(out, "unchecked", v->unchecked, "acknowledged orders that could not be read");
    print_violation(out, "not sent", v->unsent,
                    r->demand->options->retries
                        ? "requests: no connection to any seller"
                        : "requests: no connection, so the load was not the intended one; "
                          "--retries tries again");
    if (v->audited && !v->conserved)
        print_wrong_books(out, r);
    if (!v->audited)
        fprintf(out, "  no audit: %s\n", r->audit_error);
    if (v->settled == 0)
        fputs("  no request was answered\n", out);
}

void report_print(FILE *out, const struct report *r) {
    bool colour = isatty(fileno(out)) == 1 && getenv("NO_COLOR") == NULL;
    const struct options *o = r->demand->options;
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
