#include "loadtest/lab/judge/books.h"

#include <string.h>

#include "loadtest/lab/judge/evidence.h"

static bool is_of_item(const struct event *event, const char *item) {
    return event->item != NULL && item != NULL && strcmp(event->item, item) == 0;
}

/* Audits an item once, at its first event of the stock. */
static void audit_item(const struct event_log *log, const struct event *first, struct books *books,
                       uint64_t *evidence) {
    const struct event *last = first;
    int64_t accepted = 0;
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (!is_of_item(event, first->item))
            continue;
        if (event->kind == EVENT_SALE_STOCK && event < first)
            return; /* audited before */
        if (event->kind == EVENT_SALE_STOCK)
            last = event;
        if (event->kind != EVENT_WRITE_ACCEPTED)
            continue;
        accepted += event->quantity;
        if (accepted > last->initial)
            evidence_add(evidence, event->n);
    }
    int64_t left = last->initial > accepted ? last->initial - accepted : 0;
    if (accepted > last->initial)
        books->oversold += accepted - last->initial;
    if (accepted > last->sold)
        books->vanished += accepted - last->sold;
    if (last->available > left)
        books->lost_updates += last->available - left;
    if (accepted > last->sold || last->available > left)
        evidence_add(evidence, last->n);
}

/* The answer to a line of a request: which of its writes was accepted. */
static const struct event *accepted(const struct event_log *log, const struct event *sent) {
    for (const struct event *event = sent + 1; event < log->events + log->count; event++) {
        if (event->kind == EVENT_WRITE_ACCEPTED && event->op == sent->op && is_of_item(event, sent->item))
            return event;
    }
    return NULL;
}

/* Lines of one request have one `op`, and are sent together. Audits a line against the one before it. */
static void audit_lines(const struct event_log *log, const struct event *sent, struct books *books,
                        uint64_t *evidence) {
    const struct event *before = sent > log->events ? sent - 1 : NULL;
    if (before == NULL || before->kind != EVENT_WRITE_SENT || before->op != sent->op)
        return;
    const struct event *one = accepted(log, before), *other = accepted(log, sent);
    if ((one == NULL) == (other == NULL))
        return;
    books->torn++;
    evidence_add(evidence, one != NULL ? one->n : other->n);
    evidence_add(evidence, one != NULL ? sent->n : before->n);
}

void books_audit(const struct event_log *log, struct books *books, uint64_t evidence[EVENT_EVIDENCE]) {
    *books = (struct books){.oversold = 0};
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (event->kind == EVENT_SALE_STOCK)
            audit_item(log, event, books, evidence);
        else if (event->kind == EVENT_WRITE_SENT)
            audit_lines(log, event, books, evidence);
    }
}
