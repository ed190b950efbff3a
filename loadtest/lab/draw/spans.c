#include "loadtest/lab/draw/spans.h"

#include <stdlib.h>
#include <string.h>

/* What is open and waits for its end. It is small, since it is compared with every later event. */
struct open {
    size_t at;           /* of the event that began it */
    enum event_kind end; /* the kind that ends it; of a request: any with its operation */
    uint64_t op;
    const char *one, *two; /* texts that the end must have too; NULL: none */
};

static bool same(const char *a, const char *b) {
    return a == NULL || (b != NULL && strcmp(a, b) == 0);
}

/* False: the event is over at once. */
static bool opens(const struct event *event, struct open *open) {
    *open = (struct open){.end = event->kind};
    switch (event->kind) {
    case EVENT_ACQUIRE_SENT: open->op = event->op; return true;
    case EVENT_HOLDER_PAUSED: open->end = EVENT_HOLDER_RESUMED; break;
    case EVENT_FAULT_START: open->end = EVENT_FAULT_END; break;
    case EVENT_SERVER_DOWN: open->end = EVENT_SERVER_UP; break;
    case EVENT_STORE_KEY:
    case EVENT_SERVER_ROLE:
    case EVENT_SALE_STOCK: break;
    default: return false;
    }
    bool stock = event->kind == EVENT_SALE_STOCK, store = event->kind == EVENT_STORE_KEY;
    open->one = stock ? event->item : event->server != NULL ? event->server : event->target;
    open->two = store ? event->key : NULL;
    return true;
}

static bool ends(const struct open *open, const struct event *event) {
    if (open->end == EVENT_ACQUIRE_SENT)
        return open->op != 0 && event->op == open->op;
    if (event->kind != open->end)
        return false;
    const char *one = event->kind == EVENT_SALE_STOCK ? event->item
                      : event->server != NULL         ? event->server
                                                      : event->target;
    return same(open->one, one) && same(open->two, event->key);
}

static void follow(const struct event_log *log, struct open *all, int64_t *to_ns) {
    size_t count = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct event *event = &log->events[i];
        for (size_t k = 0; k < count;) {
            if (ends(&all[k], event)) {
                to_ns[all[k].at] = event->t_ns;
                all[k] = all[--count];
            } else {
                k++;
            }
        }
        to_ns[i] = event->t_ns;
        if (opens(event, &all[count])) {
            to_ns[i] = INT64_MAX;
            all[count++].at = i;
        }
    }
}

/* A client may use a grant after its deadline. */
static void follow_grants(const struct judged_play *play, int64_t *to_ns) {
    const struct holds *holds = &play->judgement.holds;
    for (size_t i = 0; i < holds->count; i++)
        to_ns[holds->holds[i].begun_n - 1] = holds->holds[i].until_ns;
    for (size_t i = 0; i < play->log.count; i++) {
        const struct event *event = &play->log.events[i];
        const struct hold *hold = event->grant != 0 ? holds_of_grant(holds, event->grant) : NULL;
        if (hold != NULL && strcmp(event->who, hold->who) == 0 && event->t_ns > to_ns[hold->begun_n - 1])
            to_ns[hold->begun_n - 1] = event->t_ns;
    }
}

int64_t *spans_find(const struct judged_play *play) {
    int64_t *to_ns = calloc(play->log.count + 1, sizeof *to_ns);
    struct open *all = calloc(play->log.count + 1, sizeof *all);
    if (to_ns == NULL || all == NULL) {
        free(to_ns);
        free(all);
        return NULL;
    }
    follow(&play->log, all, to_ns);
    free(all);
    follow_grants(play, to_ns);
    return to_ns;
}
