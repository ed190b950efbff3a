#include "loadtest/lab/judge/waits.h"

#include <string.h>

/* A client that is struck by a fault, perhaps killed, does not wait any more. */
static bool strikes(const struct event *event, const char *who) {
    return event->kind == EVENT_FAULT_START && strcmp(event->target, who) == 0;
}

/* How long the client of this request waited, and for how long of that nobody was granted the lock. */
static void measure_wait(const struct event_log *log, const struct event *sent, struct waits *waits) {
    const struct event *end = log->events + log->count, *event = sent + 1;
    int64_t since_ns = sent->t_ns, starved_ns = 0;
    for (; event < end; event++) {
        bool answered =
            event->op == sent->op && event->kind >= EVENT_ACQUIRE_OK && event->kind <= EVENT_ACQUIRE_UNKNOWN;
        bool granted = event->kind == EVENT_ACQUIRE_OK && strcmp(event->key, sent->key) == 0;
        bool ends = answered || strikes(event, sent->who);
        if ((ends || granted || event + 1 == end) && event->t_ns - since_ns > starved_ns)
            starved_ns = event->t_ns - since_ns;
        if (ends)
            break;
        if (granted)
            since_ns = event->t_ns;
    }
    int64_t waited_ns = (event < end ? event : end - 1)->t_ns - sent->t_ns;
    if (waited_ns > waits->longest_ns)
        waits->longest_ns = waited_ns;
    if (starved_ns > waits->starved_ns || waits->starved == NULL) {
        waits->starved_ns = starved_ns;
        waits->starved = sent;
    }
}

/* Every holder of the key has released it, or holds it at the end. */
static bool is_orderly(const struct event_log *log, const struct holds *holds, const char *key) {
    int64_t end_ns = log->count > 0 ? log->events[log->count - 1].t_ns : 0;
    for (size_t i = 0; i < holds->count; i++) {
        const struct hold *hold = &holds->holds[i];
        if (strcmp(hold->key, key) == 0 && hold->ended_n == 0 && hold->to_ns < end_ns)
            return false;
    }
    return true;
}

void waits_measure(const struct event_log *log, const struct holds *holds, struct waits *waits) {
    *waits = (struct waits){.starved = NULL};
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (event->kind == EVENT_ACQUIRE_SENT)
            measure_wait(log, event, waits);
        if (event->kind < EVENT_ACQUIRE_OK || event->kind > EVENT_ACQUIRE_UNKNOWN ||
            !is_orderly(log, holds, event->key))
            continue;
        waits->requests += event->requests;
        waits->hand_overs += event->kind == EVENT_ACQUIRE_OK;
    }
    waits->hand_overs -= waits->hand_overs > 0; /* the first one is none */
}
