#include "loadtest/lab/judge/judge.h"

#include <jansson.h>
#include <string.h>

#include "loadtest/lab/judge/evidence.h"
#include "loadtest/lab/judge/verdict.h"

static void judge_holds(struct judgement *j) {
    for (size_t i = 0; i < j->holds.overlap_count; i++) {
        evidence_add(j->evidence, j->holds.overlaps[i].one->begun_n);
        evidence_add(j->evidence, j->holds.overlaps[i].other->begun_n);
    }
}

static bool covers(const struct hold *hold, int64_t t_ns) {
    return !hold->possible && hold->from_ns <= t_ns && t_ns <= hold->to_ns;
}

/* While it was written, its client believed, and another one did. */
static bool is_within_overlap(const struct judgement *j, const struct hold *hold, const struct event *write) {
    for (size_t i = 0; i < j->holds.count && covers(hold, write->t_ns); i++) {
        const struct hold *other = &j->holds.holds[i];
        if (covers(other, write->t_ns) && strcmp(other->key, hold->key) == 0 &&
            strcmp(other->who, hold->who) != 0)
            return true;
    }
    return false;
}

/* The grant of the same key to another client, after this one's and before `until_ns`; NULL: there is none.
 */
static const struct hold *next_holder(const struct judgement *j, const struct hold *hold, int64_t until_ns) {
    for (const struct hold *next = hold + 1; next < j->holds.holds + j->holds.count; next++) {
        if (!next->possible && next->from_ns < until_ns && strcmp(next->key, hold->key) == 0 &&
            strcmp(next->who, hold->who) != 0)
            return next;
    }
    return NULL;
}

static void judge_loss(struct judgement *j, const struct event *answer) {
    const struct hold *hold = holds_of_grant(&j->holds, answer->grant);
    if (hold == NULL || answer->t_ns >= hold->until_ns ||
        (answer->kind == EVENT_RENEW_LOST && next_holder(j, hold, hold->until_ns) == NULL))
        return;
    j->first_loss = j->lost_grants++ == 0 ? answer : j->first_loss;
    evidence_add(j->evidence, answer->n);
}

static void judge_write(struct judgement *j, const struct event *write) {
    const struct hold *hold = holds_of_grant(&j->holds, write->grant);
    if (write->quantity == 0 || hold == NULL)
        return; /* it changes nothing, or no lock was meant to protect it */
    if (is_within_overlap(j, hold, write)) {
        j->double_writes++;
        evidence_add(j->evidence, write->n);
    }
    const struct hold *next = write->t_ns > hold->to_ns ? next_holder(j, hold, write->t_ns) : NULL;
    bool wrong = j->books.oversold > 0 || j->books.lost_updates > 0 || j->books.vanished > 0;
    if (wrong && next != NULL && j->late_write == NULL) {
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

bool judgement_make(const struct event_log *log, struct judgement *judgement) {
    struct judgement j = {.fault = false};
    if (!holds_find(log, &j.holds))
        return false;
    judge_holds(&j);
    books_audit(log, &j.books, j.evidence);
    waits_measure(log, &j.holds, &j.waits);
    for (const struct event *event = log->events; event < log->events + log->count; event++)
        judge_event(&j, event);
    j.starved = j.waits.starved_ns > JUDGE_STARVED_TTLS * log->play.ttl_ms * 1000000;
    if (j.starved)
        evidence_add(j.evidence, j.waits.starved->n);
    j.herd = j.waits.hand_overs >= JUDGE_HERD_HAND_OVERS &&
             j.waits.requests > JUDGE_HERD_REQUESTS * j.waits.hand_overs;
    j.fault = j.holds.overlap_count > 0 || j.books.oversold > 0 || j.books.lost_updates > 0 ||
              j.books.vanished > 0 || j.books.torn > 0 || j.lost_grants > 0 || j.starved || j.herd;
    evidence_sort(j.evidence);
    *judgement = j;
    return true;
}

void judgement_free(struct judgement *judgement) {
    holds_free(&judgement->holds);
}

/* ---- the verdict ---- */

void judgement_verdict(const struct judgement *judgement, const struct event_log *log, struct event *verdict,
                       char sentence[JUDGE_SENTENCE_SIZE]) {
    static const char *const outcomes[2][2] = {{"held", "violated"}, {"not-reproduced", "reproduced"}};
    verdict_explain(judgement, sentence);
    *verdict = (struct event){
        .kind = EVENT_VERDICT,
        .outcome = outcomes[strcmp(log->play.play, "broken") == 0][judgement->fault],
        .sentence = sentence,
        .overlap_ms = (judgement->holds.overlap_ns + 500000) / 1000000,
        .oversold = judgement->books.oversold,
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
