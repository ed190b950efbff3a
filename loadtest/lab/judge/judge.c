#include "loadtest/lab/judge/judge.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void add_evidence(struct judgement *j, uint64_t n) {
    int at = 0;
    while (at < EVENT_EVIDENCE && j->evidence[at] != 0) {
        if (n == 0 || j->evidence[at++] == n)
            return;
    }
    if (at < EVENT_EVIDENCE)
        j->evidence[at] = n;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ---- locks ---- */

static void judge_holds(struct judgement *j) {
    for (size_t i = 0; i < j->holds.overlap_count; i++) {
        add_evidence(j, j->holds.overlaps[i].one->begun_n);
        add_evidence(j, j->holds.overlaps[i].other->begun_n);
    }
}

static bool is_within_overlap(const struct judgement *j, const struct event *write) {
    const struct hold *hold = holds_of_grant(&j->holds, write->grant);
    for (size_t i = 0; hold != NULL && i < j->holds.overlap_count; i++) {
        const struct overlap *overlap = &j->holds.overlaps[i];
        if ((overlap->one == hold || overlap->other == hold) && overlap->from_ns <= write->t_ns &&
            write->t_ns <= overlap->to_ns)
            return true;
    }
    return false;
}

/* How long the client of this request waited, and for how long of that nobody was granted the lock. */
static void judge_wait(struct judgement *j, const struct event_log *log, const struct event *sent) {
    const struct event *end = log->events + log->count, *event = sent + 1;
    int64_t since_ns = sent->t_ns, starved_ns = 0;
    for (; event < end; event++) {
        bool answered =
            event->op == sent->op && event->kind >= EVENT_ACQUIRE_OK && event->kind <= EVENT_ACQUIRE_UNKNOWN;
        bool granted = event->kind == EVENT_ACQUIRE_OK && strcmp(event->key, sent->key) == 0;
        if ((answered || granted || event + 1 == end) && event->t_ns - since_ns > starved_ns)
            starved_ns = event->t_ns - since_ns;
        if (answered)
            break;
        if (granted)
            since_ns = event->t_ns;
    }
    int64_t waited_ns = (event < end ? event : end - 1)->t_ns - sent->t_ns;
    if (waited_ns > j->longest_wait_ns)
        j->longest_wait_ns = waited_ns;
    if (starved_ns > j->starved_ns || j->starved == NULL) {
        j->starved_ns = starved_ns;
        j->starved = sent;
    }
}

/* A grant that its client did not have any more, though its deadline had not passed. */
static void judge_loss(struct judgement *j, const struct event *answer) {
    const struct hold *hold = holds_of_grant(&j->holds, answer->grant);
    if (hold != NULL && answer->t_ns < hold->until_ns) {
        j->lost_grants++;
        add_evidence(j, answer->n);
    }
}

/* ---- the stock ---- */

static bool is_of_item(const struct event *event, const char *item) {
    return event->item != NULL && item != NULL && strcmp(event->item, item) == 0;
}

/* Judges an item once, at its first event of the stock. */
static void judge_stock(struct judgement *j, const struct event_log *log, const struct event *first) {
    const struct event *last = first;
    int64_t accepted = 0;
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        if (!is_of_item(event, first->item))
            continue;
        if (event->kind == EVENT_SALE_STOCK && event < first)
            return; /* judged before */
        if (event->kind == EVENT_SALE_STOCK)
            last = event;
        if (event->kind != EVENT_WRITE_ACCEPTED)
            continue;
        accepted += event->quantity;
        if (accepted > last->initial)
            add_evidence(j, event->n);
    }
    int64_t left = last->initial - accepted;
    if (left < 0)
        j->oversold -= left;
    if (last->available > left) {
        j->lost_updates += last->available - left;
        add_evidence(j, last->n);
    }
}

bool judgement_make(const struct event_log *log, struct judgement *judgement) {
    struct judgement j = {.starved = NULL};
    if (!holds_find(log, &j.holds))
        return false;
    judge_holds(&j);
    for (const struct event *event = log->events; event < log->events + log->count; event++) {
        switch (event->kind) {
        case EVENT_ACQUIRE_SENT: judge_wait(&j, log, event); break;
        case EVENT_RENEW_LOST:
        case EVENT_RELEASE_NOT_OWNER: judge_loss(&j, event); break;
        case EVENT_SALE_STOCK: judge_stock(&j, log, event); break;
        case EVENT_WRITE_ACCEPTED:
            if (is_within_overlap(&j, event)) {
                j.double_writes++;
                add_evidence(&j, event->n);
            }
            break;
        case EVENT_WRITE_REFUSED:
            if (strcmp(event->reason, "stale") == 0) {
                j.refused_stale++;
                add_evidence(&j, event->n);
            }
            break;
        default: break;
        }
    }
    bool starved = j.starved_ns > JUDGE_STARVED_TTLS * log->play.ttl_ms * 1000000;
    if (starved)
        add_evidence(&j, j.starved->n);
    else
        j.starved = NULL;
    j.fault =
        j.holds.overlap_count > 0 || j.oversold > 0 || j.lost_updates > 0 || j.lost_grants > 0 || starved;
    size_t count = 0;
    while (count < EVENT_EVIDENCE && j.evidence[count] != 0)
        count++;
    qsort(j.evidence, count, sizeof j.evidence[0], by_number);
    *judgement = j;
    return true;
}

void judgement_free(struct judgement *judgement) {
    holds_free(&judgement->holds);
}

/* ---- the verdict ---- */

struct sentence {
    char *text;
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *sentence, const char *format, ...) {
    size_t left = JUDGE_SENTENCE_SIZE - sentence->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sentence->text + sentence->length, left, format, arguments);
    va_end(arguments);
    sentence->length += (size_t)length < left ? (size_t)length : left - 1;
}

static void explain(const struct judgement *j, struct sentence *sentence) {
    if (j->holds.overlap_count > 0) {
        const struct overlap *first = j->holds.overlaps;
        say(sentence, "%s and %s both believed that they held %s, for %.0f ms in all. ", first->one->who,
            first->other->who, first->one->key, (double)j->holds.overlap_ns / 1e6);
    }
    if (j->oversold > 0)
        say(sentence, "Sold beyond the stock: %" PRId64 ". ", j->oversold);
    if (j->lost_updates > 0)
        say(sentence, "Sold and still on the shelf: %" PRId64 ". ", j->lost_updates);
    if (j->lost_grants > 0)
        say(sentence, "Grants lost before their deadline: %" PRId64 ". ", j->lost_grants);
    if (j->starved != NULL)
        say(sentence, "%s waited for %s for %.0f ms, and nobody got it. ", j->starved->who, j->starved->key,
            (double)j->starved_ns / 1e6);
    if (j->refused_stale > 0)
        say(sentence, "Late writes refused by their fence: %" PRId64 ". ", j->refused_stale);
    if (!j->fault)
        say(sentence, "Never two holders at once, and every unit was sold once. ");
    sentence->text[sentence->length - 1] = '\0'; /* the last space */
}

void judgement_verdict(const struct judgement *judgement, const struct event_log *log, struct event *verdict,
                       char sentence[JUDGE_SENTENCE_SIZE]) {
    static const char *const outcomes[2][2] = {{"held", "violated"}, {"not-reproduced", "reproduced"}};
    struct sentence said = {.text = sentence};
    sentence[0] = '\0';
    explain(judgement, &said);
    *verdict = (struct event){
        .kind = EVENT_VERDICT,
        .outcome = outcomes[strcmp(log->play.play, "broken") == 0][judgement->fault],
        .sentence = sentence,
        .overlap_ms = (judgement->holds.overlap_ns + 500000) / 1000000,
        .oversold = judgement->oversold,
        .double_writes = judgement->double_writes,
        .refused_stale = judgement->refused_stale,
    };
    memcpy(verdict->evidence, judgement->evidence, sizeof verdict->evidence);
}

bool judged_play_read(FILE *in, struct judged_play *play, char *error, size_t error_size) {
    char sentence[JUDGE_SENTENCE_SIZE];
    if (!event_log_read(in, &play->log, error, error_size))
        return false;
    const struct event *last = play->log.count > 0 ? &play->log.events[play->log.count - 1] : NULL;
    bool recorded = last != NULL && last->kind == EVENT_VERDICT;
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
    json_t *kept = json_string(sentence); /* with the other texts, which the log owns */
    json_array_append_new(play->log.lines, kept);
    play->verdict.sentence = json_string_value(kept);
    return true;
}

void judged_play_free(struct judged_play *play) {
    judgement_free(&play->judgement);
    event_log_free(&play->log);
}
