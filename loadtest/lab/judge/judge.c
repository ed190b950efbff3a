#include "loadtest/lab/judge/judge.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- evidence: the numbers of the events that show what was judged ---- */

/* Adds `n`, unless it is 0 or already listed, or the list is full. */
static void evidence_add(uint64_t evidence[EVENT_EVIDENCE], uint64_t n) {
    int at = 0;
    while (at < EVENT_EVIDENCE && evidence[at] != 0 && evidence[at] != n)
        at++;
    if (at < EVENT_EVIDENCE)
        evidence[at] = evidence[at] != 0 ? evidence[at] : n;
}

static int evidence_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void evidence_sort(uint64_t evidence[EVENT_EVIDENCE]) {
    size_t count = 0;
    while (count < EVENT_EVIDENCE && evidence[count] != 0)
        count++;
    qsort(evidence, count, sizeof evidence[0], evidence_compare);
}

/* ---- the stock ---- */

static bool is_of_item(const struct event *event, const char *item) {
    return event->item && item && strcmp(event->item, item) == 0;
}

/* Audits an item once, when `first` is its first sale.stock. */
static void audit_item(const struct event_log *log, const struct event *first, struct stock_audit *stock,
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
        stock->oversold += accepted - last->initial;
    if (accepted > last->sold)
        stock->vanished += accepted - last->sold;
    if (last->available > left)
        stock->lost_updates += last->available - left;
    if (accepted > last->sold || last->available > left)
        evidence_add(evidence, last->n);
}

/* Returns the write.accepted that answers `sent`, or NULL. */
static const struct event *find_accepted(const struct event_log *log, const struct event *sent) {
    for (const struct event *event = sent + 1; event < log->events + log->count; event++) {
        if (event->kind == EVENT_WRITE_ACCEPTED && event->op == sent->op && is_of_item(event, sent->item))
            return event;
    }
    return NULL;
}

/* The lines of a request for several items share one `op` and are sent together. Compares a line with the one
 * before it: if only one of the two was sold, the request was torn. */
static void audit_lines(const struct event_log *log, const struct event *sent, struct stock_audit *stock,
                        uint64_t *evidence) {
    const struct event *before = sent > log->events ? sent - 1 : NULL;
    if (!before || before->kind != EVENT_WRITE_SENT || before->op != sent->op)
        return;
    const struct event *one = find_accepted(log, before), *other = find_accepted(log, sent);
    if (!one == !other)
        return;
    stock->torn++;
    evidence_add(evidence, one ? one->n : other->n);
    evidence_add(evidence, one ? sent->n : before->n);
}

static void audit_stock(const struct event_log *log, struct judgement *j) {
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (event->kind == EVENT_SALE_STOCK)
            audit_item(log, event, &j->stock, j->evidence);
        else if (event->kind == EVENT_WRITE_SENT)
            audit_lines(log, event, &j->stock, j->evidence);
    }
}

/* ---- waits for the lock ---- */

static bool is_acquire_answer(const struct event *event) {
    return event->kind >= EVENT_ACQUIRE_OK && event->kind <= EVENT_ACQUIRE_UNKNOWN;
}

/* A client that a fault strikes, perhaps by killing it, does not wait any more. */
static bool is_struck(const struct event *event, const char *who) {
    return event->kind == EVENT_FAULT_START && strcmp(event->target, who) == 0;
}

/* Measures the longest time of this wait in which nobody was granted the lock. */
static void measure_wait(const struct event_log *log, const struct event *sent, struct lock_waits *waits) {
    const struct event *end = log->events + log->count;
    int64_t since_ns = sent->t_ns, starved_ns = 0;
    for (const struct event *event = sent + 1; event < end; event++) {
        bool granted = event->kind == EVENT_ACQUIRE_OK && strcmp(event->key, sent->key) == 0;
        bool ends = (event->op == sent->op && is_acquire_answer(event)) || is_struck(event, sent->who);
        if ((ends || granted || event + 1 == end) && event->t_ns - since_ns > starved_ns)
            starved_ns = event->t_ns - since_ns;
        if (ends)
            break;
        if (granted)
            since_ns = event->t_ns;
    }
    if (starved_ns > waits->starved_ns || !waits->starved) {
        waits->starved_ns = starved_ns;
        waits->starved = sent;
    }
}

/* Returns whether every holder of the key released it in time, or still held it at the end. */
static bool is_orderly(const struct event_log *log, const struct lock_holds *holds, const char *key) {
    int64_t end_ns = log->count > 0 ? log->events[log->count - 1].t_ns : 0;
    for (size_t i = 0; i < holds->count; i++) {
        const struct lock_hold *hold = &holds->holds[i];
        if (strcmp(hold->key, key) == 0 && hold->ended_n == 0 && hold->to_ns < end_ns)
            return false;
    }
    return true;
}

static void measure_waits(const struct event_log *log, const struct lock_holds *holds,
                          struct lock_waits *waits) {
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (event->kind == EVENT_ACQUIRE_SENT)
            measure_wait(log, event, waits);
        if (!is_acquire_answer(event) || !is_orderly(log, holds, event->key))
            continue;
        waits->requests += event->requests;
        waits->hand_overs += event->kind == EVENT_ACQUIRE_OK;
    }
    waits->hand_overs -= waits->hand_overs > 0; /* the first grant is no hand-over */
}

/* ---- the lock ---- */

static bool covers(const struct lock_hold *hold, int64_t t_ns) {
    return !hold->possible && hold->from_ns <= t_ns && t_ns <= hold->to_ns;
}

/* Returns whether both the writer and another client believed in their hold when the write was accepted. */
static bool is_double_write(const struct judgement *j, const struct lock_hold *hold,
                            const struct event *write) {
    for (size_t i = 0; i < j->holds.count && covers(hold, write->t_ns); i++) {
        const struct lock_hold *other = &j->holds.holds[i];
        if (covers(other, write->t_ns) && strcmp(other->key, hold->key) == 0 &&
            strcmp(other->who, hold->who) != 0)
            return true;
    }
    return false;
}

/* Returns the next grant of the same key to another client, before `until_ns`; NULL: there is none. */
static const struct lock_hold *next_holder(const struct judgement *j, const struct lock_hold *hold,
                                           int64_t until_ns) {
    for (const struct lock_hold *next = hold + 1; next < j->holds.holds + j->holds.count; next++) {
        if (!next->possible && next->from_ns < until_ns && strcmp(next->key, hold->key) == 0 &&
            strcmp(next->who, hold->who) != 0)
            return next;
    }
    return NULL;
}

static void judge_loss(struct judgement *j, const struct event *answer) {
    const struct lock_hold *hold = lock_holds_of_grant(&j->holds, answer->grant);
    if (!hold || answer->t_ns >= hold->until_ns ||
        (answer->kind == EVENT_RENEW_LOST && !next_holder(j, hold, hold->until_ns)))
        return;
    j->first_loss = j->lost_grants++ == 0 ? answer : j->first_loss;
    evidence_add(j->evidence, answer->n);
}

static void judge_write(struct judgement *j, const struct event *write) {
    const struct lock_hold *hold = lock_holds_of_grant(&j->holds, write->grant);
    if (write->quantity == 0 || !hold)
        return; /* it changes nothing, or no lock was meant to protect it */
    if (is_double_write(j, hold, write)) {
        j->double_writes++;
        evidence_add(j->evidence, write->n);
    }
    const struct lock_hold *next = write->t_ns > hold->to_ns ? next_holder(j, hold, write->t_ns) : NULL;
    bool wrong = j->stock.oversold > 0 || j->stock.lost_updates > 0 || j->stock.vanished > 0;
    if (wrong && next && !j->late_write) {
        j->late_write = write;
        evidence_add(j->evidence, write->n);
        evidence_add(j->evidence, next->begun_n);
    }
}

static void judge_event(struct judgement *j, const struct event *event) {
    switch (event->kind) {
    case EVENT_RENEW_LOST:
    case EVENT_RELEASE_NOT_OWNER: judge_loss(j, event); break;
    case EVENT_WRITE_ACCEPTED: judge_write(j, event); break;
    case EVENT_WRITE_REFUSED:
        if (strcmp(event->reason, "stale") == 0) {
            j->refused_stale++;
            evidence_add(j->evidence, event->n);
        }
        break;
    default: break;
    }
}

/* ---- the judgement ---- */

/* The list of evidence may fill up, so the order of what follows decides what it has. */
bool judgement_make(const struct event_log *log, struct judgement *judgement) {
    struct judgement j = {.fault = false};
    if (!lock_holds_find(log, &j.holds))
        return false;
    for (size_t i = 0; i < j.holds.overlap_count; i++) {
        evidence_add(j.evidence, j.holds.overlaps[i].one->begun_n);
        evidence_add(j.evidence, j.holds.overlaps[i].other->begun_n);
    }
    audit_stock(log, &j);
    measure_waits(log, &j.holds, &j.waits);
    for (const struct event *event = log->events; event < log->events + log->count; event++)
        judge_event(&j, event);
    j.starved = j.waits.starved_ns > JUDGE_STARVED_TTLS * log->play.ttl_ms * 1000000;
    if (j.starved)
        evidence_add(j.evidence, j.waits.starved->n);
    j.herd = j.waits.hand_overs >= JUDGE_HERD_HAND_OVERS &&
             j.waits.requests > JUDGE_HERD_REQUESTS * j.waits.hand_overs;
    j.fault = j.holds.overlap_count > 0 || j.stock.oversold > 0 || j.stock.lost_updates > 0 ||
              j.stock.vanished > 0 || j.stock.torn > 0 || j.lost_grants > 0 || j.starved || j.herd;
    evidence_sort(j.evidence);
    *judgement = j;
    return true;
}

void judgement_free(struct judgement *judgement) {
    lock_holds_free(&judgement->holds);
}

/* ---- the verdict in words ---- */

enum { NAME_SIZE = 41 };

struct sentence {
    char *text;
    size_t length;
};

/* Appends the text as a whole, or nothing if it does not fit. */
__attribute__((format(printf, 2, 3))) static void say(struct sentence *sentence, const char *format, ...) {
    size_t left = JUDGE_SENTENCE_SIZE - sentence->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sentence->text + sentence->length, left, format, arguments);
    va_end(arguments);
    sentence->length += (size_t)length < left ? (size_t)length : 0;
    sentence->text[sentence->length] = '\0';
}

/* Copies a name of the events, cut short and in ASCII. */
static const char *ascii_name(const char *from, char to[NAME_SIZE]) {
    int length = 0;
    for (; length < NAME_SIZE - 1 && from[length] != '\0'; length++)
        to[length] = from[length] >= ' ' && from[length] <= '~' ? from[length] : '?';
    to[length] = '\0';
    return to;
}

static void say_locks(const struct judgement *j, struct sentence *sentence) {
    char a[NAME_SIZE], b[NAME_SIZE], c[NAME_SIZE];
    if (j->holds.overlap_count > 0) {
        const struct lock_overlap *first = j->holds.overlaps;
        say(sentence, "%s and %s both believed that they held %s, for %.0f ms%s. ",
            ascii_name(first->one->who, a), ascii_name(first->other->who, b), ascii_name(first->one->key, c),
            (double)j->holds.overlap_ns / 1e6, j->holds.overlap_count > 1 ? " in all" : "");
    }
    if (j->late_write) {
        const struct lock_hold *hold = lock_holds_of_grant(&j->holds, j->late_write->grant);
        say(sentence, "%s wrote %.0f ms after its grant had ended, and another had been granted the lock. ",
            ascii_name(j->late_write->who, a), (double)(j->late_write->t_ns - hold->to_ns) / 1e6);
    }
    if (j->lost_grants > 0)
        say(sentence, "%s lost %s before its deadline%s. ", ascii_name(j->first_loss->who, a),
            ascii_name(j->first_loss->key, b), j->lost_grants > 1 ? ", and others did" : "");
    if (j->starved)
        say(sentence, "%s waited for %s for %.0f ms, and nobody got it. ",
            ascii_name(j->waits.starved->who, a), ascii_name(j->waits.starved->key, b),
            (double)j->waits.starved_ns / 1e6);
    if (j->waits.hand_overs >= JUDGE_HERD_HAND_OVERS && j->waits.requests > 0)
        say(sentence, "%.1f requests a hand-over. ", (double)j->waits.requests / (double)j->waits.hand_overs);
}

static void say_stock(const struct stock_audit *stock, struct sentence *sentence) {
    if (stock->oversold > 0)
        say(sentence, "Sold beyond the stock: %" PRId64 ". ", stock->oversold);
    if (stock->vanished > 0)
        say(sentence, "Acknowledged, and not in the books: %" PRId64 ". ", stock->vanished);
    if (stock->lost_updates > 0)
        say(sentence, "Sold and still on the shelf: %" PRId64 ". ", stock->lost_updates);
    if (stock->torn > 0)
        say(sentence, "Of one request for several items only a part was sold. ");
}

void judgement_verdict(const struct judgement *judgement, const struct event_log *log, struct event *verdict,
                       char sentence[JUDGE_SENTENCE_SIZE]) {
    static const char *const outcomes[2][2] = {{"held", "violated"}, {"not-reproduced", "reproduced"}};
    struct sentence said = {.text = sentence};
    say_locks(judgement, &said);
    say_stock(&judgement->stock, &said);
    if (judgement->refused_stale > 0)
        say(&said, "Late writes refused by their fence: %" PRId64 ". ", judgement->refused_stale);
    if (!judgement->fault)
        say(&said, "Never two holders at once, and the books are right. ");
    sentence[said.length > 0 ? said.length - 1 : 0] = '\0'; /* cuts off the last space */
    *verdict = (struct event){
        .kind = EVENT_VERDICT,
        .outcome = outcomes[strcmp(log->play.play, "broken") == 0][judgement->fault],
        .sentence = sentence,
        .overlap_ms = (judgement->holds.overlap_ns + 500000) / 1000000,
        .oversold = judgement->stock.oversold,
        .double_writes = judgement->double_writes,
        .refused_stale = judgement->refused_stale,
    };
    memcpy(verdict->evidence, judgement->evidence, sizeof verdict->evidence);
}

/* ---- a recorded play ---- */

bool judged_play_read(FILE *in, struct judged_play *play, char *error, size_t error_size) {
    char sentence[JUDGE_SENTENCE_SIZE];
    if (!event_log_read(in, &play->log, error, error_size))
        return false;
    const struct event *last = play->log.count > 0 ? &play->log.events[play->log.count - 1] : NULL;
    bool recorded = last && last->kind == EVENT_VERDICT;
    play->log.count -= recorded;
    if (!judgement_make(&play->log, &play->judgement)) {
        snprintf(error, error_size, "no memory");
        event_log_free(&play->log);
        return false;
    }
    if (recorded) {
        play->verdict = *last;
        return true;
    }
    judgement_verdict(&play->judgement, &play->log, &play->verdict, sentence);
    json_t *kept = json_string(sentence); /* the log owns it, as it owns all other texts */
    json_array_append_new(play->log.lines, kept);
    play->verdict.sentence = json_string_value(kept);
    return true;
}

bool judged_play_read_file(const char *path, struct judged_play *play, char *error, size_t error_size) {
    FILE *in = fopen(path, "re");
    if (!in) {
        snprintf(error, error_size, "%s", strerror(errno));
        return false;
    }
    bool good = judged_play_read(in, play, error, error_size);
    fclose(in);
    return good;
}

void judged_play_free(struct judged_play *play) {
    judgement_free(&play->judgement);
    event_log_free(&play->log);
}
