#include "loadtest/lab/draw/trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"

struct trace {
    json_t *events;
    const struct event_log *log;
    int process;
};

/* An actor is a thread; its number is that of the first event that names it. */
static int thread_of(const struct trace *t, const char *who) {
    size_t i = 0;
    while (i < t->log->count && strcmp(t->log->events[i].who, who) != 0)
        i++;
    return (int)i + 1;
}

/* `rest` has the members that only this kind has; it is taken over. */
static void add(const struct trace *t, const char *phase, const char *name, const char *who, int64_t t_ns,
                json_t *rest) {
    json_t *event = json_pack("{s:s, s:s, s:s, s:i, s:i, s:f}", "ph", phase, "name", name, "cat", "lab",
                              "pid", t->process, "tid", thread_of(t, who), "ts", (double)t_ns / 1e3);
    if (rest)
        json_object_update_new(event, rest);
    json_array_append_new(t->events, event);
}

static void add_names(const struct trace *t) {
    add(t, "M", "process_name", "", 0, json_pack("{s:{s:s}}", "args", "name", t->log->play.play));
    for (size_t i = 0; i < t->log->count; i++) {
        const char *who = t->log->events[i].who;
        if (thread_of(t, who) == (int)i + 1)
            add(t, "M", "thread_name", who, 0, json_pack("{s:{s:s}}", "args", "name", who));
    }
}

/* A slice that may overlap others: async begin and end. */
static void add_slice(const struct trace *t, const char *name, const char *who, uint64_t id, int64_t from_ns,
                      int64_t to_ns) {
    char text[32];
    snprintf(text, sizeof text, "%d-%" PRIu64, t->process, id);
    add(t, "b", name, who, from_ns, json_pack("{s:s}", "id", text));
    add(t, "e", name, who, to_ns, json_pack("{s:s}", "id", text));
}

/* From the cause to its effect. */
static void add_flow(const struct trace *t, const struct event *effect) {
    const struct event *cause = &t->log->events[effect->cause - 1];
    char text[32];
    snprintf(text, sizeof text, "%d-%" PRIu64, t->process, effect->n);
    add(t, "s", "cause", cause->who, cause->t_ns, json_pack("{s:s}", "id", text));
    add(t, "f", "cause", effect->who, effect->t_ns, json_pack("{s:s, s:s}", "id", text, "bp", "e"));
}

static void add_event(const struct trace *t, const struct event *event) {
    char what[DESCRIBE_SIZE];
    describe_event(event, what);
    /* An instant has no length; a slice of a microsecond can be clicked, and carries flows. */
    add(t, "X", event_kind_name(event->kind), event->who, event->t_ns,
        json_pack("{s:i, s:{s:I, s:s}}", "dur", 1, "args", "n", (json_int_t)event->n, "what", what));
    if (event->cause != 0)
        add_flow(t, event);
    if (event->kind == EVENT_SALE_STOCK)
        add(t, "C", event->item, event->who, event->t_ns,
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
