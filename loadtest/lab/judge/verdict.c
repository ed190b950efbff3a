#include "loadtest/lab/judge/verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { NAME_SIZE = 41 };

struct sentence {
    char *text;
    size_t length;
};

/* Says it whole, or not at all. */
__attribute__((format(printf, 2, 3))) static void say(struct sentence *sentence, const char *format, ...) {
    size_t left = JUDGE_SENTENCE_SIZE - sentence->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sentence->text + sentence->length, left, format, arguments);
    va_end(arguments);
    sentence->length += (size_t)length < left ? (size_t)length : 0;
    sentence->text[sentence->length] = '\0';
}

/* A name of the events, cut short, and in ASCII. */
static const char *name(const char *from, char to[NAME_SIZE]) {
    int length = 0;
    for (; length < NAME_SIZE - 1 && from[length] != '\0'; length++)
        to[length] = from[length] >= ' ' && from[length] <= '~' ? from[length] : '?';
    to[length] = '\0';
    return to;
}

static void explain_locks(const struct judgement *j, struct sentence *sentence) {
    char a[NAME_SIZE], b[NAME_SIZE], c[NAME_SIZE];
    if (j->holds.overlap_count > 0) {
        const struct overlap *first = j->holds.overlaps;
        say(sentence, "%s and %s both believed that they held %s, for %.0f ms%s. ", name(first->one->who, a),
            name(first->other->who, b), name(first->one->key, c), (double)j->holds.overlap_ns / 1e6,
            j->holds.overlap_count > 1 ? " in all" : "");
    }
    if (j->late_write != NULL) {
        const struct hold *hold = holds_of_grant(&j->holds, j->late_write->grant);
        say(sentence, "%s wrote %.0f ms after its grant had ended, and another had been granted the lock. ",
            name(j->late_write->who, a), (double)(j->late_write->t_ns - hold->to_ns) / 1e6);
    }
    if (j->lost_grants > 0)
        say(sentence, "%s lost %s before its deadline%s. ", name(j->first_loss->who, a),
            name(j->first_loss->key, b), j->lost_grants > 1 ? ", and others did" : "");
    if (j->starved)
        say(sentence, "%s waited for %s for %.0f ms, and nobody got it. ", name(j->waits.starved->who, a),
            name(j->waits.starved->key, b), (double)j->waits.starved_ns / 1e6);
    if (j->waits.hand_overs >= JUDGE_HERD_HAND_OVERS && j->waits.requests > 0)
        say(sentence, "%.1f requests a hand-over. ", (double)j->waits.requests / (double)j->waits.hand_overs);
}

static void explain_books(const struct books *books, struct sentence *sentence) {
    if (books->oversold > 0)
        say(sentence, "Sold beyond the stock: %" PRId64 ". ", books->oversold);
    if (books->vanished > 0)
        say(sentence, "Acknowledged, and not in the books: %" PRId64 ". ", books->vanished);
    if (books->lost_updates > 0)
        say(sentence, "Sold and still on the shelf: %" PRId64 ". ", books->lost_updates);
    if (books->torn > 0)
        say(sentence, "Of one request for several items only a part was sold. ");
}

void verdict_explain(const struct judgement *judgement, char sentence[JUDGE_SENTENCE_SIZE]) {
    struct sentence said = {.text = sentence};
    sentence[0] = '\0';
    explain_locks(judgement, &said);
    explain_books(&judgement->books, &said);
    if (judgement->refused_stale > 0)
        say(&said, "Late writes refused by their fence: %" PRId64 ". ", judgement->refused_stale);
    if (!judgement->fault)
        say(&said, "Never two holders at once, and the books are right. ");
    sentence[said.length > 0 ? said.length - 1 : 0] = '\0'; /* the last space */
}
