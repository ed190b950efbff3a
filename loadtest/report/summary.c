#include "loadtest/report/summary.h"

static enum demand_kind kind_of(const struct log_line *line, const struct demand *demand) {
    struct wish wish;
    demand_of_key(demand, line->key, &wish);
    return wish.kind;
}

static void time_kind(struct summary_kind *kind, const struct log_line *line) {
    uint64_t latency = line->answered_ns - line->intended_ns;
    if (line->outcome == OUTCOME_ACCEPTED)
        histogram_record(&kind->latency_accepted, latency);
    else if (line->outcome == OUTCOME_REJECTED)
        histogram_record(&kind->latency_rejected, latency);
    histogram_record(&kind->latency_all, latency);
}

void summary_time(struct summary *summary, const struct request_log *log, const struct demand *demand,
                  uint64_t started_ns, uint64_t ended_ns) {
    summary->seconds = (double)(ended_ns - started_ns) / 1e9;
    for (size_t i = 0; i < log->line_count; i++) {
        const struct log_line *line = &log->lines[i];
        if (line->outcome != OUTCOME_OPEN && line->outcome != OUTCOME_NOT_SENT) {
            time_kind(&summary->all, line);
            time_kind(&summary->kinds[kind_of(line, demand)], line);
        }
    }
}

static void count_kind(struct summary_kind *kind, const struct log_line *line) {
    kind->attempts++;
    kind->accepted += line->outcome == OUTCOME_ACCEPTED;
    kind->unknown += line->cause != 0;
    if (line->outcome == OUTCOME_REJECTED) {
        kind->rejected++;
        kind->rejections[line->reason]++;
    }
}

static void count_line(struct summary *summary, const struct log_line *line) {
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

void summary_count(struct summary *summary, const struct request_log *log, const struct demand *demand) {
    for (size_t i = 0; i < log->line_count; i++) {
        const struct log_line *line = &log->lines[i];
        count_line(summary, line);
        count_kind(&summary->all, line);
        count_kind(&summary->kinds[kind_of(line, demand)], line);
    }
    for (size_t i = 0; i < log->order_count; i++) {
        const struct log_order *order = &log->orders[i];
        bool is_order = kind_of(&log->lines[order->line], demand) != DEMAND_TRANSFER;
        summary->orders += is_order && !order->extra && !order->absent;
    }
}
