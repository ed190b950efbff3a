#include "loadtest/lab/draw/describe.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/* ---- one event ---- */

static int of_grant(const struct event *e, char *text, const char *what) {
    return snprintf(text, DESCRIBE_SIZE, "%s %.100s (grant %" PRIu64 ")", what, e->key, e->grant);
}

static int of_write(const struct event *e, char *text, const char *what) {
    int length = snprintf(text, DESCRIBE_SIZE, "%s %" PRId64 " of %.100s", what, e->quantity, e->item);
    if (e->grant != 0)
        length += snprintf(text + length, DESCRIBE_SIZE - (size_t)length, " under grant %" PRIu64, e->grant);
    return length;
}

/* Leaves out the name of the server if the server itself is the actor. Uses at most half of the text. */
static int of_server(const struct event *e, char *text, const char *what) {
    if (strcmp(e->who, e->server) == 0)
        return snprintf(text, DESCRIBE_SIZE, "%s", what);
    return snprintf(text, DESCRIBE_SIZE, "%.100s %s", e->server, what);
}

static void describe_server(const struct event *e, char text[DESCRIBE_SIZE]) {
    const size_t size = DESCRIBE_SIZE;
    int length;
    switch (e->kind) {
    case EVENT_STORE_KEY:
        length = of_server(e, text, "says");
        snprintf(text + length, size - (size_t)length,
                 *e->owner ? " that %s belongs to %s" : " that %s is free", e->key, e->owner);
        break;
    case EVENT_SERVER_ROLE:
        length = of_server(e, text, "is now");
        snprintf(text + length, size - (size_t)length, " %s", e->role);
        break;
    case EVENT_SERVER_CLOCK:
        snprintf(text, size, "the clock of %s jumps by %+" PRId64 " ms", e->server, e->jump_ms);
        break;
    case EVENT_SERVER_DOWN: of_server(e, text, "is down"); break;
    default: of_server(e, text, "is up"); break;
    }
}

void describe_event(const struct event *e, char text[DESCRIBE_SIZE]) {
    const size_t size = DESCRIBE_SIZE;
    int length;
    switch (e->kind) {
    case EVENT_ACQUIRE_SENT: snprintf(text, size, "asks for %s", e->key); break;
    case EVENT_ACQUIRE_OK:
        length = snprintf(text, size, "gets %.100s as grant %" PRIu64 " until %.0f ms", e->key, e->grant,
                          (double)e->until_ns / 1e6);
        if (e->fence != 0)
            snprintf(text + length, size - (size_t)length, ", fence %" PRIu64, e->fence);
        break;
    case EVENT_ACQUIRE_BUSY: snprintf(text, size, "is told that another has %s", e->key); break;
    case EVENT_ACQUIRE_TIMEOUT: snprintf(text, size, "gives up waiting for %s", e->key); break;
    case EVENT_ACQUIRE_UNKNOWN: snprintf(text, size, "hears nothing: perhaps it has %s", e->key); break;
    case EVENT_RENEW_SENT: of_grant(e, text, "asks to renew"); break;
    case EVENT_RENEW_OK:
        length = of_grant(e, text, "has renewed");
        snprintf(text + length, size - (size_t)length, " until %.0f ms", (double)e->until_ns / 1e6);
        break;
    case EVENT_RENEW_LOST: of_grant(e, text, "hears that it has lost"); break;
    case EVENT_RENEW_UNKNOWN: of_grant(e, text, "hears nothing of its renewal of"); break;
    case EVENT_RELEASE_SENT: of_grant(e, text, "releases"); break;
    case EVENT_RELEASE_OK: of_grant(e, text, "has released"); break;
    case EVENT_RELEASE_NOT_OWNER: of_grant(e, text, "is told that it did not have"); break;
    case EVENT_RELEASE_UNKNOWN: of_grant(e, text, "hears nothing of its release of"); break;
    case EVENT_WRITE_SENT: of_write(e, text, "sends the sale of"); break;
    case EVENT_WRITE_ACCEPTED: of_write(e, text, e->quantity != 0 ? "sells" : "writes, and changes"); break;
    case EVENT_WRITE_REFUSED:
        length = of_write(e, text, "is refused the sale of");
        snprintf(text + length, size - (size_t)length, ": %s", e->reason);
        break;
    case EVENT_WRITE_UNKNOWN: of_write(e, text, "hears nothing of the sale of"); break;
    case EVENT_HOLDER_PAUSED: snprintf(text, size, "%s is paused: %s", e->target, e->what); break;
    case EVENT_HOLDER_RESUMED: snprintf(text, size, "%s goes on: %s", e->target, e->what); break;
    case EVENT_FAULT_START: snprintf(text, size, "%s: %s", e->target, e->what); break;
    case EVENT_FAULT_END: snprintf(text, size, "%s: %s (over)", e->target, e->what); break;
    case EVENT_STORE_KEY:
    case EVENT_SERVER_ROLE:
    case EVENT_SERVER_CLOCK:
    case EVENT_SERVER_DOWN:
    case EVENT_SERVER_UP: describe_server(e, text); break;
    case EVENT_SALE_STOCK:
        snprintf(text, size, "%s: %" PRId64 " of %" PRId64 " left, %" PRId64 " sold", e->item, e->available,
                 e->initial, e->sold);
        break;
    case EVENT_SALE_CROWD:
        snprintf(text, size, "%s: %" PRId64 " accepted, %" PRId64 " rejected, %" PRId64 " unknown", e->item,
                 e->accepted, e->rejected, e->unknown);
        break;
    case EVENT_NOTE: snprintf(text, size, "%s", e->text); break;
    default: snprintf(text, size, "%s: %s", e->outcome, e->sentence); break;
    }
}

void describe_whole(const struct event *event, char text[DESCRIBE_SIZE]) {
    char what[DESCRIBE_SIZE];
    describe_event(event, what);
    snprintf(text, DESCRIBE_SIZE, "%.0f ms, %.40s: %.240s", (double)event->t_ns / 1e6, event->who, what);
}

void describe_count(size_t count, char text[32]) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%zu", count), filled = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[filled++] = ',';
        text[filled++] = digits[i];
    }
    text[filled] = '\0';
}

void describe_id(const struct event_log *log, uint64_t n, char id[32]) {
    snprintf(id, 32, strcmp(log->play.play, "fixed") == 0 ? "fixed-n%" PRIu64 : "n%" PRIu64, n);
}

/* ---- steps ---- */

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

/* Returns the sale.stock that a write caused, or that comes right after it; NULL: there is none. */
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

/* Returns whether the play has several items; then steps name theirs. */
static bool has_items(const struct event_log *log) {
    const char *first = NULL;
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (event->item && first && strcmp(event->item, first) != 0)
            return true;
        first = event->item ? event->item : first;
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
    else if (stock)
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
    for (int i = 0; i < steps->count && first[i]; i++) {
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

/* ---- the table ---- */

bool table_draw(FILE *out, const struct judged_play plays[], int count) {
    for (int i = 0; i < count; i++) {
        const struct event_play *play = &plays[i].log.play;
        fprintf(out, "%s%s, %s, seed %" PRId64 "\n%5s %12s  %-14s %s\n", i > 0 ? "\n" : "", play->scenario,
                play->play, play->seed, "n", "ms", "who", "what");
        for (size_t k = 0; k < plays[i].log.count; k++) {
            const struct event *event = &plays[i].log.events[k];
            char what[DESCRIBE_SIZE];
            describe_event(event, what);
            fprintf(out, "%5" PRIu64 " %12.3f  %-14s %s\n", event->n, (double)event->t_ns / 1e6, event->who,
                    what);
        }
        fprintf(out, "%5s %12s  %-14s %s: %s\n", "", "", "verdict", plays[i].verdict.outcome,
                plays[i].verdict.sentence);
    }
    return !ferror(out);
}

/* ---- the trace ---- */

struct trace {
    json_t *events;
    const struct event_log *log;
    int process;
};

/* Returns the thread of an actor: the number of the first event that names it. */
static int thread_of(const struct trace *t, const char *who) {
    size_t i = 0;
    while (i < t->log->count && strcmp(t->log->events[i].who, who) != 0)
        i++;
    return (int)i + 1;
}

/* `rest` has the members that only this phase has; it is consumed. */
static void trace_add(const struct trace *t, const char *phase, const char *name, const char *who,
                      int64_t t_ns, json_t *rest) {
    json_t *event = json_pack("{s:s, s:s, s:s, s:i, s:i, s:f}", "ph", phase, "name", name, "cat", "lab",
                              "pid", t->process, "tid", thread_of(t, who), "ts", (double)t_ns / 1e3);
    if (rest)
        json_object_update_new(event, rest);
    json_array_append_new(t->events, event);
}

static void add_names(const struct trace *t) {
    trace_add(t, "M", "process_name", "", 0, json_pack("{s:{s:s}}", "args", "name", t->log->play.play));
    for (size_t i = 0; i < t->log->count; i++) {
        const char *who = t->log->events[i].who;
        if (thread_of(t, who) == (int)i + 1)
            trace_add(t, "M", "thread_name", who, 0, json_pack("{s:{s:s}}", "args", "name", who));
    }
}

/* Adds a slice that may overlap others, as an async begin and end. */
static void add_slice(const struct trace *t, const char *name, const char *who, uint64_t id, int64_t from_ns,
                      int64_t to_ns) {
    char text[32];
    snprintf(text, sizeof text, "%d-%" PRIu64, t->process, id);
    trace_add(t, "b", name, who, from_ns, json_pack("{s:s}", "id", text));
    trace_add(t, "e", name, who, to_ns, json_pack("{s:s}", "id", text));
}

/* Adds an arrow from the cause to its effect. */
static void add_flow(const struct trace *t, const struct event *effect) {
    const struct event *cause = &t->log->events[effect->cause - 1];
    char text[32];
    snprintf(text, sizeof text, "%d-%" PRIu64, t->process, effect->n);
    trace_add(t, "s", "cause", cause->who, cause->t_ns, json_pack("{s:s}", "id", text));
    trace_add(t, "f", "cause", effect->who, effect->t_ns, json_pack("{s:s, s:s}", "id", text, "bp", "e"));
}

static void add_event(const struct trace *t, const struct event *event) {
    char what[DESCRIBE_SIZE];
    describe_event(event, what);
    /* A slice of a microsecond, since an instant cannot be clicked and carries no flows. */
    trace_add(t, "X", event_kind_name(event->kind), event->who, event->t_ns,
              json_pack("{s:i, s:{s:I, s:s}}", "dur", 1, "args", "n", (json_int_t)event->n, "what", what));
    if (event->cause != 0)
        add_flow(t, event);
    if (event->kind == EVENT_SALE_STOCK)
        trace_add(t, "C", event->item, event->who, event->t_ns,
                  json_pack("{s:{s:I, s:I}}", "args", "available", event->available, "sold", event->sold));
    if (event->kind != EVENT_FAULT_START && event->kind != EVENT_HOLDER_PAUSED)
        return;
    enum event_kind end = event->kind == EVENT_FAULT_START ? EVENT_FAULT_END : EVENT_HOLDER_RESUMED;
    for (const struct event *later = event + 1; later < t->log->events + t->log->count; later++) {
        if (later->kind == end && strcmp(later->target, event->target) == 0) {
            add_slice(t, what, event->who, event->n, event->t_ns, later->t_ns);
            return;
        }
    }
}

bool trace_draw(FILE *out, const struct judged_play plays[], int count) {
    json_t *root = json_pack("{s:s, s:[]}", "displayTimeUnit", "ms", "traceEvents");
    for (int i = 0; i < count; i++) {
        const struct trace t = {json_object_get(root, "traceEvents"), &plays[i].log, i + 1};
        add_names(&t);
        for (size_t k = 0; k < plays[i].log.count; k++)
            add_event(&t, &plays[i].log.events[k]);
        const struct lock_holds *holds = &plays[i].judgement.holds;
        for (size_t k = 0; k < holds->count; k++) {
            const struct lock_hold *hold = &holds->holds[k];
            add_slice(&t, hold->possible ? "perhaps holds" : "believes that it holds", hold->who,
                      hold->begun_n, hold->from_ns, hold->to_ns);
        }
    }
    bool good = root && json_dumpf(root, out, JSON_COMPACT) == 0 && fputc('\n', out) != EOF;
    json_decref(root);
    return good;
}
