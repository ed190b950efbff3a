#include "loadtest/lab/events/event.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT     "seckill-events/1"
#define NUMBER_MAX 1000000000000000
#define COUNT_MAX  1000000000000

/* ---- the members of each kind ---- */

_Static_assert(offsetof(struct event, sentence) == offsetof(struct event, texts[EVENT_TEXTS - 1]),
               "texts has all of them");

enum type { NUMBER, TEXT, NUMBERS };

enum member_bit {
    OP = 1 << 0,
    KEY = 1 << 1,
    GRANT = 1 << 2,
    FENCE = 1 << 3,
    UNTIL = 1 << 4,
    ITEM = 1 << 5,
    QUANTITY = 1 << 6,
    REASON = 1 << 7,
    WHAT = 1 << 8,
    TARGET = 1 << 9,
    SERVER = 1 << 10,
    OWNER = 1 << 11,
    ROLE = 1 << 12,
    JUMP = 1 << 13,
    STOCK = 1 << 14,
    SAYS = 1 << 15,
    VERDICT = 1 << 16,
    REQUESTS = 1 << 17,
    CROWD = 1 << 18,
    OPTIONAL = REQUESTS,                          /* not written where it is 0 */
    COUNTS = QUANTITY | STOCK | REQUESTS | CROWD, /* numbers that the judge adds up */
};

static const struct member {
    const char *name;
    size_t offset;
    enum type type;
    int bit;
} members[] = {
    {"op", offsetof(struct event, op), NUMBER, OP},
    {"key", offsetof(struct event, key), TEXT, KEY},
    {"grant", offsetof(struct event, grant), NUMBER, GRANT},
    {"fence", offsetof(struct event, fence), NUMBER, FENCE},
    {"until", offsetof(struct event, until_ns), NUMBER, UNTIL},
    {"requests", offsetof(struct event, requests), NUMBER, REQUESTS},
    {"item", offsetof(struct event, item), TEXT, ITEM},
    {"quantity", offsetof(struct event, quantity), NUMBER, QUANTITY},
    {"reason", offsetof(struct event, reason), TEXT, REASON},
    {"what", offsetof(struct event, what), TEXT, WHAT},
    {"target", offsetof(struct event, target), TEXT, TARGET},
    {"server", offsetof(struct event, server), TEXT, SERVER},
    {"owner", offsetof(struct event, owner), TEXT, OWNER},
    {"role", offsetof(struct event, role), TEXT, ROLE},
    {"jump_ms", offsetof(struct event, jump_ms), NUMBER, JUMP},
    {"initial", offsetof(struct event, initial), NUMBER, STOCK},
    {"available", offsetof(struct event, available), NUMBER, STOCK},
    {"sold", offsetof(struct event, sold), NUMBER, STOCK},
    {"accepted", offsetof(struct event, accepted), NUMBER, CROWD},
    {"rejected", offsetof(struct event, rejected), NUMBER, CROWD},
    {"unknown", offsetof(struct event, unknown), NUMBER, CROWD},
    {"per_second", offsetof(struct event, per_second), NUMBER, CROWD},
    {"p50_us", offsetof(struct event, p50_us), NUMBER, CROWD},
    {"p99_us", offsetof(struct event, p99_us), NUMBER, CROWD},
    {"text", offsetof(struct event, text), TEXT, SAYS},
    {"outcome", offsetof(struct event, outcome), TEXT, VERDICT},
    {"overlap_ms", offsetof(struct event, overlap_ms), NUMBER, VERDICT},
    {"oversold", offsetof(struct event, oversold), NUMBER, VERDICT},
    {"double_writes", offsetof(struct event, double_writes), NUMBER, VERDICT},
    {"refused_stale", offsetof(struct event, refused_stale), NUMBER, VERDICT},
    {"evidence", offsetof(struct event, evidence), NUMBERS, VERDICT},
    {"sentence", offsetof(struct event, sentence), TEXT, VERDICT},
};
enum { MEMBERS = sizeof members / sizeof members[0] };

static const struct {
    const char *name;
    int members; /* bits */
} kinds[EVENT_KINDS] = {
    [EVENT_ACQUIRE_SENT] = {"acquire.sent", OP | KEY},
    [EVENT_ACQUIRE_OK] = {"acquire.ok", OP | KEY | GRANT | FENCE | UNTIL | REQUESTS},
    [EVENT_ACQUIRE_BUSY] = {"acquire.busy", OP | KEY | REQUESTS},
    [EVENT_ACQUIRE_TIMEOUT] = {"acquire.timeout", OP | KEY | REQUESTS},
    [EVENT_ACQUIRE_UNKNOWN] = {"acquire.unknown", OP | KEY | REQUESTS},
    [EVENT_RENEW_SENT] = {"renew.sent", OP | KEY | GRANT},
    [EVENT_RENEW_OK] = {"renew.ok", OP | KEY | GRANT | UNTIL},
    [EVENT_RENEW_LOST] = {"renew.lost", OP | KEY | GRANT},
    [EVENT_RENEW_UNKNOWN] = {"renew.unknown", OP | KEY | GRANT},
    [EVENT_RELEASE_SENT] = {"release.sent", OP | KEY | GRANT},
    [EVENT_RELEASE_OK] = {"release.ok", OP | KEY | GRANT},
    [EVENT_RELEASE_NOT_OWNER] = {"release.not-owner", OP | KEY | GRANT},
    [EVENT_RELEASE_UNKNOWN] = {"release.unknown", OP | KEY | GRANT},
    [EVENT_WRITE_SENT] = {"write.sent", OP | ITEM | QUANTITY | GRANT},
    [EVENT_WRITE_ACCEPTED] = {"write.accepted", OP | ITEM | QUANTITY | GRANT},
    [EVENT_WRITE_REFUSED] = {"write.refused", OP | ITEM | QUANTITY | GRANT | REASON},
    [EVENT_WRITE_UNKNOWN] = {"write.unknown", OP | ITEM | QUANTITY | GRANT},
    [EVENT_HOLDER_PAUSED] = {"holder.paused", WHAT | TARGET},
    [EVENT_HOLDER_RESUMED] = {"holder.resumed", WHAT | TARGET},
    [EVENT_FAULT_START] = {"fault.start", WHAT | TARGET},
    [EVENT_FAULT_END] = {"fault.end", WHAT | TARGET},
    [EVENT_STORE_KEY] = {"store.key", SERVER | KEY | OWNER},
    [EVENT_SERVER_ROLE] = {"server.role", SERVER | ROLE},
    [EVENT_SERVER_CLOCK] = {"server.clock", SERVER | JUMP},
    [EVENT_SERVER_DOWN] = {"server.down", SERVER},
    [EVENT_SERVER_UP] = {"server.up", SERVER},
    [EVENT_SALE_STOCK] = {"sale.stock", ITEM | STOCK},
    [EVENT_SALE_CROWD] = {"sale.crowd", ITEM | CROWD},
    [EVENT_NOTE] = {"note", SAYS},
    [EVENT_VERDICT] = {"verdict", VERDICT},
};

const char *event_kind_name(enum event_kind kind) {
    return kinds[kind].name;
}

/* ---- writing ---- */

/* Consumes `line`; NULL: out of memory. */
static bool event_write_line(FILE *out, json_t *line) {
    bool good =
        line && json_dumpf(line, out, JSON_COMPACT) == 0 && fputc('\n', out) != EOF && fflush(out) == 0;
    json_decref(line);
    return good;
}

bool event_play_write(FILE *out, const struct event_play *play) {
    return event_write_line(out,
                            json_pack("{s:s, s:s, s:s, s:I, s:s, s:O, s:I}", "format", FORMAT, "scenario",
                                      play->scenario, "play", play->play, "seed", play->seed, "clock",
                                      "monotonic", "servers", play->servers, "ttl_ms", play->ttl_ms));
}

static json_t *write_member(const struct event *event, const struct member *member) {
    const void *value = (const char *)event + member->offset;
    if (member->type == TEXT)
        return json_string(*(const char *const *)value);
    if (member->type == NUMBER)
        return json_integer(*(const json_int_t *)value);
    const uint64_t *numbers = value;
    json_t *list = json_array();
    for (int i = 0; i < EVENT_EVIDENCE && numbers[i] != 0; i++)
        json_array_append_new(list, json_integer((json_int_t)numbers[i]));
    return list;
}

bool event_write(FILE *out, const struct event *event) {
    json_t *line = json_pack("{s:I, s:I, s:s, s:s}", "n", (json_int_t)event->n, "t", event->t_ns, "who",
                             event->who, "ev", kinds[event->kind].name);
    for (const struct member *member = members; member < members + MEMBERS; member++) {
        bool left_out =
            (member->bit & OPTIONAL) && *(const int64_t *)((const char *)event + member->offset) == 0;
        if ((kinds[event->kind].members & member->bit) && !left_out)
            json_object_set_new(line, member->name, write_member(event, member));
    }
    if (event->cause != 0)
        json_object_set_new(line, "cause", json_integer((json_int_t)event->cause));
    return event_write_line(out, line);
}

/* ---- reading ---- */

struct reader {
    struct event_log *log;
    size_t number; /* of the line, from 1 */
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool event_fail(const struct reader *r, const char *format,
                                                             ...) {
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(r->error, r->error_size, "line %zu: %s", r->number, what);
    return false;
}

/* Accepts only numbers whose differences fit into 64 bits. */
static bool event_read_number(json_t *json, int64_t *number) {
    *number = json_integer_value(json);
    return json_is_integer(json) && *number >= -NUMBER_MAX && *number <= NUMBER_MAX;
}

static bool event_read_number_of(const struct member *member, json_t *json, int64_t *number) {
    bool good = event_read_number(json, number);
    if (member->bit == FENCE) /* may have any size */
        return json_is_integer(json);
    if (member->bit == REQUESTS && *number < 0)
        return false;
    return good && (!(member->bit & COUNTS) || (*number >= -COUNT_MAX && *number <= COUNT_MAX));
}

static bool event_read_play(const struct reader *r, json_t *line) {
    struct event_play *play = &r->log->play;
    const char *format = json_string_value(json_object_get(line, "format"));
    if (!format || strcmp(format, FORMAT) != 0)
        return event_fail(r, "it does not begin with \"format\":\"" FORMAT "\": this is no file of events");
    json_error_t error;
    if (!event_read_number(json_object_get(line, "ttl_ms"), &play->ttl_ms) || play->ttl_ms < 0 ||
        play->ttl_ms > 86400000)
        return event_fail(r, "\"ttl_ms\" is not a number of milliseconds, at most a day");
    if (json_unpack_ex(line, &error, 0, "{s:s, s:s, s:I, s:o}", "scenario", &play->scenario, "play",
                       &play->play, "seed", &play->seed, "servers", &play->servers) != 0)
        return event_fail(r, "%s", error.text);
    if (strcmp(play->play, "broken") != 0 && strcmp(play->play, "fixed") != 0)
        return event_fail(r, "\"play\" is neither broken nor fixed");
    return true;
}

static bool read_evidence(json_t *json, uint64_t *evidence) {
    size_t count = json_array_size(json);
    for (size_t i = 0; i < count && i < EVENT_EVIDENCE; i++)
        evidence[i] = (uint64_t)json_integer_value(json_array_get(json, i));
    return json_is_array(json) && count <= EVENT_EVIDENCE;
}

static bool event_read_member(const struct reader *r, json_t *line, const struct member *member,
                              struct event *event) {
    json_t *json = json_object_get(line, member->name);
    void *value = (char *)event + member->offset;
    bool good = false;
    if (!json && (member->bit & OPTIONAL))
        return true;
    switch (member->type) {
    case NUMBER: good = event_read_number_of(member, json, value); break;
    case TEXT: good = (*(const char **)value = json_string_value(json)); break;
    case NUMBERS: good = read_evidence(json, value); break;
    }
    return good ||
           event_fail(r, "\"%s\" is missing, or is not what a %s has", member->name, kinds[event->kind].name);
}

static bool read_kind(const char *name, enum event_kind *kind) {
    for (int i = 0; name && i < EVENT_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = (enum event_kind)i;
            return true;
        }
    }
    return false;
}

static bool read_event(const struct reader *r, json_t *line, struct event *event) {
    const struct event_log *log = r->log;
    json_t *cause = json_object_get(line, "cause");
    int64_t n, cause_n = 0;
    if (log->count > 0 && log->events[log->count - 1].kind == EVENT_VERDICT)
        return event_fail(r, "it is behind the verdict, which is the last line");
    if (!event_read_number(json_object_get(line, "n"), &n) || n != (int64_t)log->count + 1)
        return event_fail(r, "\"n\" is not %zu: the lines are counted from 1", log->count + 1);
    if (!event_read_number(json_object_get(line, "t"), &event->t_ns) || event->t_ns < 0)
        return event_fail(r, "\"t\" is no number of nanoseconds");
    if (!(event->who = json_string_value(json_object_get(line, "who"))))
        return event_fail(r, "\"who\" is missing");
    if (!read_kind(json_string_value(json_object_get(line, "ev")), &event->kind))
        return event_fail(r, "\"ev\" is missing, or there is no such event");
    if (cause && (!event_read_number(cause, &cause_n) || cause_n < 1 || cause_n >= n))
        return event_fail(r, "\"cause\" is not an earlier event");
    event->n = (uint64_t)n;
    event->cause = (uint64_t)cause_n;
    for (const struct member *member = members; member < members + MEMBERS; member++) {
        if ((kinds[event->kind].members & member->bit) && !event_read_member(r, line, member, event))
            return false;
    }
    return true;
}

/* Consumes `line`. */
static bool add_line(const struct reader *r, json_t *line) {
    struct event_log *log = r->log;
    if (json_array_append_new(log->lines, line) != 0)
        return event_fail(r, "no memory");
    if (r->number == 1)
        return event_read_play(r, line);
    struct event *events = log->events;
    if ((log->count & (log->count - 1)) == 0) /* full: it grows by doubling */
        events = reallocarray(events, log->count > 0 ? 2 * log->count : 1, sizeof *events);
    if (!events)
        return event_fail(r, "no memory");
    log->events = events;
    memset(&events[log->count], 0, sizeof *events);
    if (!read_event(r, line, &events[log->count]))
        return false;
    log->count++;
    return true;
}

bool event_log_read(FILE *in, struct event_log *log, char *error, size_t error_size) {
    struct reader r = {.log = log, .error = error, .error_size = error_size};
    char *text = NULL;
    size_t size = 0;
    bool good = true;
    error[0] = '\0';
    *log = (struct event_log){.lines = json_array()};
    for (ssize_t length; good && (length = getline(&text, &size, in)) > 0;) {
        json_error_t wrong;
        r.number++;
        json_t *line = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &wrong);
        good = line ? add_line(&r, line) : event_fail(&r, "%s", wrong.text);
    }
    free(text);
    if (good && r.number == 0) {
        r.number = 1;
        good = event_fail(&r, "the file is empty");
    }
    if (!good)
        event_log_free(log);
    return good;
}

void event_log_free(struct event_log *log) {
    free(log->events);
    json_decref(log->lines);
    memset(log, 0, sizeof *log);
}
