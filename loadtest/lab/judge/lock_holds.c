/* Lock holds: what each client believed, from its grant to its release, and where two beliefs overlap. */
#include "loadtest/lab/judge/judge.h"

#include <stdlib.h>
#include <string.h>

struct lock_hold *lock_holds_of_grant(const struct lock_holds *holds, uint64_t grant) {
    for (size_t i = holds->count; grant != 0 && i > 0; i--) {
        if (holds->holds[i - 1].grant == grant)
            return &holds->holds[i - 1];
    }
    return NULL;
}

/* The time at which the request of this answer was sent. */
static int64_t hold_sent_ns(const struct event_log *log, const struct event *answer) {
    for (const struct event *event = answer; event-- > log->events;) {
        if (event->kind == EVENT_ACQUIRE_SENT && event->op == answer->op)
            return event->t_ns;
    }
    return answer->t_ns;
}

static void hold_begin(struct lock_holds *holds, const struct event *answer, int64_t from_ns,
                       int64_t until_ns) {
    holds->holds[holds->count++] =
        (struct lock_hold){.who = answer->who,
                           .key = answer->key,
                           .possible = answer->kind == EVENT_ACQUIRE_UNKNOWN,
                           .grant = answer->kind == EVENT_ACQUIRE_OK ? answer->grant : 0,
                           .begun_n = answer->n,
                           .from_ns = from_ns,
                           .to_ns = until_ns,
                           .until_ns = until_ns};
}

static void hold_follow(const struct event_log *log, struct lock_holds *holds, const struct event *event) {
    struct lock_hold *hold = lock_holds_of_grant(holds, event->grant);
    switch (event->kind) {
    case EVENT_ACQUIRE_OK: hold_begin(holds, event, event->t_ns, event->until_ns); break;
    case EVENT_ACQUIRE_UNKNOWN: {
        int64_t from_ns = hold_sent_ns(log, event);
        hold_begin(holds, event, from_ns, from_ns + log->play.ttl_ms * 1000000);
        break;
    }
    case EVENT_RENEW_OK:
        if (hold && hold->ended_n == 0 && event->until_ns > hold->until_ns)
            hold->until_ns = hold->to_ns = event->until_ns;
        break;
    case EVENT_RENEW_LOST:
    case EVENT_RELEASE_SENT:
        if (hold && event->t_ns < hold->to_ns) {
            hold->to_ns = event->t_ns;
            hold->ended_n = event->n;
        }
        break;
    default: break;
    }
}

static int overlap_compare(const void *a, const void *b) {
    const struct lock_overlap *x = a, *y = b;
    int keys = strcmp(x->one->key, y->one->key);
    return keys != 0 ? keys : (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* Returns whether both clients believed at the same time that they held one key. `other` began later. */
static bool overlap_make(const struct lock_hold *one, const struct lock_hold *other,
                         struct lock_overlap *overlap) {
    *overlap = (struct lock_overlap){.one = one,
                                     .other = other,
                                     .from_ns = one->from_ns > other->from_ns ? one->from_ns : other->from_ns,
                                     .to_ns = one->to_ns < other->to_ns ? one->to_ns : other->to_ns};
    return !one->possible && !other->possible && strcmp(one->key, other->key) == 0 &&
           strcmp(one->who, other->who) != 0 && overlap->from_ns < overlap->to_ns;
}

/* Returns the overlaps sorted by key and begin, or NULL when out of memory. */
static struct lock_overlap *find_overlaps(const struct lock_holds *holds, size_t *count) {
    size_t capacity = 16;
    struct lock_overlap *found = malloc(capacity * sizeof *found), overlap;
    *count = 0;
    for (size_t i = 0; i < holds->count; i++) {
        for (size_t j = 0; found && j < i; j++) {
            if (!overlap_make(&holds->holds[j], &holds->holds[i], &overlap))
                continue;
            if (*count == capacity) {
                struct lock_overlap *grown = reallocarray(found, capacity *= 2, sizeof *found);
                if (!grown)
                    free(found);
                found = grown;
            }
            if (found)
                found[(*count)++] = overlap;
        }
    }
    if (found)
        qsort(found, *count, sizeof *found, overlap_compare);
    return found;
}

/* The time covered by at least one overlap of a key, summed over the keys. */
static int64_t overlap_total_ns(const struct lock_overlap *overlaps, size_t count) {
    int64_t total = 0, reached_ns = 0; /* the time before it is counted */
    for (size_t i = 0; i < count; i++) {
        const struct lock_overlap *overlap = &overlaps[i];
        bool same_key = i > 0 && strcmp(overlap[-1].one->key, overlap->one->key) == 0;
        int64_t from_ns = same_key && reached_ns > overlap->from_ns ? reached_ns : overlap->from_ns;
        if (overlap->to_ns > from_ns) {
            total += overlap->to_ns - from_ns;
            reached_ns = overlap->to_ns;
        }
    }
    return total;
}

bool lock_holds_find(const struct event_log *log, struct lock_holds *holds) {
    size_t grants = 0;
    int64_t end_ns = log->count > 0 ? log->events[log->count - 1].t_ns : 0;
    for (size_t i = 0; i < log->count; i++)
        grants += log->events[i].kind == EVENT_ACQUIRE_OK || log->events[i].kind == EVENT_ACQUIRE_UNKNOWN;
    struct lock_holds found = {.holds = calloc(grants + 1, sizeof *found.holds)};
    if (!found.holds)
        return false;
    for (size_t i = 0; i < log->count; i++)
        hold_follow(log, &found, &log->events[i]);
    for (size_t i = 0; i < found.count; i++) { /* nothing is known of the time after the play */
        if (found.holds[i].to_ns > end_ns)
            found.holds[i].to_ns = end_ns;
    }
    found.overlaps = find_overlaps(&found, &found.overlap_count);
    if (!found.overlaps) {
        lock_holds_free(&found);
        return false;
    }
    found.overlap_ns = overlap_total_ns(found.overlaps, found.overlap_count);
    *holds = found;
    return true;
}

void lock_holds_free(struct lock_holds *holds) {
    free(holds->holds);
    free(holds->overlaps);
    memset(holds, 0, sizeof *holds);
}
