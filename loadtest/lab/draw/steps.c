#include "loadtest/lab/draw/steps.h"

#include <inttypes.h>
#include <string.h>

static bool is_client(const struct event_log *log, const char *who) {
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (event->kind <= EVENT_WRITE_UNKNOWN && strcmp(event->who, who) == 0)
            return true;
    }
    return false;
}

static bool is_write(const struct event *event) {
    return event->kind == EVENT_WRITE_ACCEPTED || event->kind == EVENT_WRITE_REFUSED;
}

static bool is_step(const struct event_log *log, const struct event *event) {
    return is_write(event) || (event->kind == EVENT_NOTE && is_client(log, event->who));
}

/* What the stock said after a write: caused by it, or right behind it. NULL: nothing. */
static const struct event *stock_after(const struct event_log *log, const struct event *write) {
    const struct event *end = log->events + log->count;
    for (const struct event *event = write + 1; event < end; event++) {
        if (event->kind == EVENT_SALE_STOCK && event->cause == write->n)
            return event;
    }
    const struct event *next = write + 1;
    bool behind = next < end && next->kind == EVENT_SALE_STOCK && next->cause == 0 &&
                  strcmp(next->item, write->item) == 0;
    return behind ? next : NULL;
}

/* The item is named if the play has several. */
static bool has_items(const struct event_log *log) {
    const char *first = NULL;
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (event->item != NULL && first != NULL && strcmp(event->item, first) != 0)
            return true;
        first = event->item != NULL ? event->item : first;
    }
    return false;
}

static void describe_step(const struct event_log *log, const struct event *event, char text[STEPS_TEXT]) {
    if (event->kind == EVENT_NOTE) {
        snprintf(text, STEPS_TEXT, "%.40s %.140s", event->who, event->text);
        return;
    }
    bool accepted = event->kind == EVENT_WRITE_ACCEPTED;
    const struct event *stock = accepted ? stock_after(log, event) : NULL;
    int length = snprintf(text, STEPS_TEXT, accepted ? "%.40s sells %" PRId64 : "%.40s is refused %" PRId64,
                          event->who, event->quantity);
    if (has_items(log))
        length += snprintf(text + length, STEPS_TEXT - (size_t)length, " of %.40s", event->item);
    if (!accepted)
        snprintf(text + length, STEPS_TEXT - (size_t)length, " (%.40s)", event->reason);
    else if (stock != NULL)
        snprintf(text + length, STEPS_TEXT - (size_t)length, " (%" PRId64 " left)", stock->available);
}

static bool is_before(const struct event *a, const struct event *b) {
    return a->t_ns != b->t_ns ? a->t_ns < b->t_ns : a->n < b->n;
}

void steps_find(const struct event_log *log, struct steps *steps) {
    const struct event *first[STEPS_MAX] = {NULL}; /* in order of time */
    bool noted = false;
    *steps = (struct steps){.count = 0};
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (!is_step(log, event))
            continue;
        noted = noted || event->kind == EVENT_NOTE;
        int at = steps->count;
        while (at > 0 && is_before(event, first[at - 1]))
            at--;
        if (steps->count == STEPS_MAX)
            steps->more++;
        else
            steps->count++;
        if (at == STEPS_MAX)
            continue;
        memmove(&first[at + 1], &first[at], (size_t)(steps->count - 1 - at) * sizeof(const struct event *));
        first[at] = event;
    }
    if (!noted)
        *steps = (struct steps){.count = 0};
    for (int i = 0; i < steps->count && first[i] != NULL; i++) {
        steps->n[i] = first[i]->n;
        describe_step(log, first[i], steps->texts[i]);
    }
}

bool steps_print(FILE *out, const struct event_log *log) {
    struct steps steps;
    steps_find(log, &steps);
    for (int i = 0; i < steps.count; i++)
        fprintf(out, "%s%s", i > 0 ? "; " : "", steps.texts[i]);
    if (steps.more > 0)
        fprintf(out, "; and %zu more", steps.more);
    if (steps.count > 0)
        fputc('\n', out);
    return steps.count > 0;
}
