#include "loadtest/summary.h"

void summary_time(struct summary *summary, const struct ledger *ledger, uint64_t started_ns,
                  uint64_t ended_ns) {
    summary->seconds = (double)(ended_ns - started_ns) / 1e9;
    for (size_t i = 0; i < ledger->line_count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        uint64_t latency = line->answered_ns - line->intended_ns;
        switch (line->outcome) {
        case LEDGER_OK:
            summary->accepted_in_load++;
            histogram_record(&summary->latency_accepted, latency);
            break;
        case LEDGER_REJECTED:
            summary->rejected_in_load++;
            histogram_record(&summary->latency_rejected, latency);
            break;
        case LEDGER_UNKNOWN: break;
        default: continue;
        }
        histogram_record(&summary->latency_all, latency);
    }
}

void summary_count(struct summary *summary, const struct ledger *ledger) {
    summary->attempts = ledger->line_count;
    for (size_t i = 0; i < ledger->line_count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        summary->accepted += line->outcome == LEDGER_OK;
        summary->rejected += line->outcome == LEDGER_REJECTED;
        summary->not_sent += line->outcome == LEDGER_NOT_SENT;
        summary->unresolved += line->outcome == LEDGER_UNKNOWN;
        summary->duplicates += line->duplicate;
        summary->replayed += line->outcome == LEDGER_OK && line->replayed;
        summary->retries += line->tries > 1 ? line->tries - 1u : 0;
        if (line->outcome == LEDGER_REJECTED) {
            summary->rejections[line->reason]++;
        }
        if (line->cause != 0) {
            summary->unknown++;
            summary->causes[line->cause]++;
            summary->settled_accepted += line->outcome == LEDGER_OK;
            summary->settled_rejected += line->outcome == LEDGER_REJECTED;
        }
    }
    for (size_t i = 0; i < ledger->order_count; i++) {
        summary->orders += !ledger->orders[i].extra;
    }
}
