/* The judge: plays that are written by hand, right ones, and the same with something changed. */
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/judge/judge.h"
#include "test/harness.h"

enum { MS = 1000000, TTL_MS = 1000, EVENTS = 128 };

/* ---- a play as text: steps like "60 b gets", with a ; after each but the last ---- */

static const struct verb {
    const char *name;
    enum event_kind kind;
} verbs[] = {
    /* T WHO VERB [KEY [REQUESTS]]: */
    {"asks", EVENT_ACQUIRE_SENT}, /* instead of REQUESTS: for so long, not for TTL_MS */
    {"gets", EVENT_ACQUIRE_OK},   /* what it asked for last */
    {"times-out", EVENT_ACQUIRE_TIMEOUT},
    {"hears-nothing", EVENT_ACQUIRE_UNKNOWN},
    {"renews", EVENT_RENEW_OK}, /* for TTL_MS */
    {"loses", EVENT_RENEW_LOST},
    {"releases", EVENT_RELEASE_SENT},
    {"released", EVENT_RELEASE_OK},
    {"owned-nothing", EVENT_RELEASE_NOT_OWNER},
    {"notes", EVENT_NOTE},
    {"kills", EVENT_FAULT_START}, /* KEY: whom */
    /* T WHO VERB [ITEM [OPERATION [QUANTITY]]], under the client's last grant: */
    {"orders", EVENT_WRITE_SENT},
    {"sells", EVENT_WRITE_ACCEPTED},
    {"sells-maybe", EVENT_WRITE_UNKNOWN},
    {"is-refused", EVENT_WRITE_REFUSED},
    /* T lab stock ITEM INITIAL AVAILABLE SOLD */
    {"stock", EVENT_SALE_STOCK},
};

static struct event events[EVENTS];
static struct event_log play;

/* The last event of a client, of that kind; NULL: none. */
static const struct event *last_of(const char *who, enum event_kind kind) {
    for (size_t i = play.count; i > 0; i--) {
        if (events[i - 1].kind == kind && strcmp(events[i - 1].who, who) == 0)
            return &events[i - 1];
    }
    return NULL;
}

static int number(const char *digits) {
    return (int)strtol(digits, NULL, 10);
}

static void add_step(const char *text) {
    const char *words[7] = {"", "", "", "lamp", "0", "1", "0"};
    const struct verb *verb = verbs;
    char *rest = harness_format("%s", text + strspn(text, " "));
    for (int i = 0; i < 7 && rest; i++)
        words[i] = strsep(&rest, " ");
    while (strcmp(verb->name, words[2]) != 0)
        CHECK(++verb < verbs + sizeof verbs / sizeof *verbs);
    const char *who = words[1];
    const int t_ms = number(words[0]), numbers[] = {number(words[4]), number(words[5]), number(words[6])};
    struct event *event = &events[play.count];
    const struct event *asked = last_of(who, EVENT_ACQUIRE_SENT), *got = last_of(who, EVENT_ACQUIRE_OK);
    *event = (struct event){.n = ++play.count,
                            .t_ns = (int64_t)t_ms * MS,
                            .kind = verb->kind,
                            .who = who,
                            .op = play.count,
                            .grant = got ? got->grant : 0,
                            .until_ns = INT64_C(1) * (t_ms + TTL_MS) * MS};
    if (verb->kind == EVENT_ACQUIRE_SENT && numbers[0])
        event->until_ns = INT64_C(1) * (t_ms + numbers[0]) * MS;
    CHECK(play.count < EVENTS);
    if (verb->kind > EVENT_ACQUIRE_SENT && verb->kind <= EVENT_ACQUIRE_UNKNOWN) {
        event->op = event->cause = event->grant = asked->op; /* grants are numbered as their operations */
        event->until_ns = asked->until_ns;
        event->requests = numbers[0];
    }
    bool is_sale = verb >= verbs + sizeof verbs / sizeof *verbs - 5;
    *(is_sale ? &event->item : &event->key) = words[3];
    event->target = event->what = event->text = event->key;
    event->reason = "stale";
    event->op = is_sale && numbers[0] ? (uint64_t)numbers[0] : event->op;
    event->quantity = numbers[1];
    event->initial = numbers[0];
    event->available = numbers[1];
    event->sold = numbers[2];
}

/* ---- verdicts ---- */

static char sentence[JUDGE_SENTENCE_SIZE];

/* What is not 0 of the verdict, and the evidence behind a colon. */
static const char *judge_it(const char *broken_or_fixed, const char *script) {
    char *rest = harness_format("%s", script);
    struct judgement judged;
    struct event verdict;
    play = (struct event_log){.play = {.scenario = "by-hand", .play = broken_or_fixed, .ttl_ms = TTL_MS},
                              .events = events};
    for (char *step; (step = strsep(&rest, ";"));)
        add_step(step);
    CHECK(judgement_make(&play, &judged));
    judgement_verdict(&judged, &play, &verdict, sentence);
    judgement_free(&judged);
    const struct {
        const char *name;
        int64_t count;
    } counts[] = {{"ms", verdict.overlap_ms},
                  {"oversold", verdict.oversold},
                  {"double", verdict.double_writes},
                  {"stale", verdict.refused_stale}};
    const char *text = verdict.outcome;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        text =
            counts[i].count ? harness_format("%s, %d %s", text, (int)counts[i].count, counts[i].name) : text;
    for (int i = 0; i < EVENT_EVIDENCE && verdict.evidence[i] != 0; i++)
        text = harness_format("%s%s %d", text, i ? "" : ":", (int)verdict.evidence[i]);
    return text;
}

/* Two buyers, each with a unit of two; a sells at 90 and releases at 100. */
#define TWO(second)                                                                                          \
    "0 lab stock lamp 2 2 0; 10 a asks; 12 a gets;" second                                                   \
    "; 90 a sells; 100 a releases; 101 a released; 300 b sells; 310 lab stock lamp 2 0 2; 320 b releases"
#define LATE                                                                                                 \
    "0 lab stock lamp 1 1 0; 0 a asks; 2 a gets; 1100 b asks; 1102 b gets; 1150 b sells; 1160 b releases;"

static const char right[] = "Never two holders at once, and the books are right.";

static const struct row {
    const char *name, *play, *script, *want, *sentence;
} rows[] = {
    {"one after the other is right", "fixed", TWO("98 b asks; 100 b gets"), "held", right},
    {"one after the other is not broken", "broken", TWO("98 b asks; 100 b gets"), "not-reproduced", right},
    {"two holders at once", "broken", TWO("58 b asks; 60 b gets"), "reproduced, 40 ms, 1 double: 3 5 6",
     "a and b both believed that they held lamp, for 40 ms"},
    {"two holders at once, though fixed", "fixed", TWO("58 b asks; 60 b gets"),
     "violated, 40 ms, 1 double: 3 5 6", ""},
    {"two locks", "broken", TWO("58 b asks chair; 60 b gets chair"), "not-reproduced", right},
    {"one client that acquires twice", "broken", TWO("58 a asks; 60 a gets"), "not-reproduced", right},
    {"three at once count once", "broken",
     "0 a asks; 2 a gets; 100 b asks; 102 b gets; 200 c asks; 202 c gets; 302 a releases; 402 b releases; "
     "502 c releases",
     "reproduced, 300 ms: 2 4 6", ""},
    {"a belief ends with its deadline", "broken",
     "0 a asks; 2 a gets; 900 b asks; 902 b gets; 2000 lab stock lamp 1 1 0", "reproduced, 98 ms: 2 4", ""},
    {"a renewal moves the deadline", "broken",
     "0 a asks; 2 a gets; 500 a renews; 900 b asks; 902 b gets; 2000 lab stock lamp 1 1 0",
     "reproduced, 598 ms: 2 5", ""},
    {"a grant that is lost before its deadline, to another", "fixed",
     "0 a asks; 2 a gets; 800 a loses; 900 b asks; 902 b gets", "violated: 3",
     "a lost lamp before its deadline."},
    {"a grant given up early", "fixed", "0 a asks; 2 a gets; 800 a loses; 1001 b asks; 1001 b gets", "held",
     right},
    {"a release after the deadline", "fixed", "0 a asks; 2 a gets; 1100 a owned-nothing", "held", right},
    {"what is unknown is possible, not certain", "fixed",
     "0 a asks; 400 a hears-nothing; 500 b asks; 502 b gets; 600 b sells; 1500 lab stock lamp 1 0 1", "held",
     right},
    {"one unit was sold twice", "broken",
     "0 lab stock lamp 1 1 0; 10 a sells; 20 b sells; 30 lab stock lamp 1 0 2", "reproduced, 1 oversold: 3",
     "Sold beyond the stock: 1."},
    {"a stale write is refused", "fixed",
     "0 lab stock lamp 2 2 0; 10 a sells; 20 b is-refused; 30 lab stock lamp 2 1 1", "held, 1 stale: 3", ""},
    {"an update was lost", "fixed", "0 lab stock lamp 2 2 0; 10 a sells; 30 lab stock lamp 2 2 1",
     "violated: 3", "Sold and still on the shelf: 1."},
    {"a sale that the books have forgotten", "broken",
     "0 lab stock lamp 2 2 0; 10 a sells; 20 lab stock lamp 2 1 1; 30 lab stock lamp 2 2 0", "reproduced: 4",
     "Acknowledged, and not in the books: 1."},
    {"a sale that the books have", "broken",
     "0 lab stock lamp 2 2 0; 10 a sells; 20 lab stock lamp 2 1 1; 30 lab stock lamp 2 1 1", "not-reproduced",
     right},
    {"a part of a request", "broken",
     "10 a orders lamp 9; 10 a orders shade 9; 20 a sells lamp 9; 20 a sells-maybe shade 9",
     "reproduced: 2 3", "Of one request for several items only a part was sold."},
    {"a whole request", "broken",
     "10 a orders lamp 9; 10 a orders shade 9; 20 a sells lamp 9; 20 a sells shade 9", "not-reproduced",
     right},
    {"nothing of a request", "broken",
     "10 a orders lamp 9; 10 a orders shade 9; 20 a sells-maybe lamp 9; 20 a sells-maybe shade 9",
     "not-reproduced", right},
    {"two requests", "broken",
     "10 a orders lamp 9; 10 a orders shade 10; 20 a sells lamp 9; 20 a sells-maybe shade 10",
     "not-reproduced", right},
    /* A holder writes after its deadline. That another has had the lock since explains what the books show;
     * it is no fault by itself. */
    {"a write after the grant", "broken", LATE "1500 a sells; 1600 lab stock lamp 1 0 2",
     "reproduced, 1 oversold: 5 8",
     "a wrote 500 ms after its grant had ended, and another had been granted the lock."},
    {"a write after the grant that is refused", "broken", LATE "1500 a is-refused; 1600 lab stock lamp 1 0 1",
     "not-reproduced, 1 stale: 8", right},
    {"a write after the grant that changes nothing", "broken",
     LATE "1500 a sells lamp 0 0; 1600 lab stock lamp 1 0 1", "not-reproduced", right},
    {"a write beside another holder that changes nothing", "broken",
     "0 a asks; 2 a gets; 58 b asks; 60 b gets; 90 a sells lamp 0 0; 100 a releases",
     "reproduced, 40 ms: 2 4", ""},
    {"nobody gets it", "broken", "0 b asks; 6001 b times-out", "reproduced: 1",
     "b waited for lamp for 6001 ms, and nobody got it."},
    {"somebody got it meanwhile", "fixed", "0 b asks; 3000 a asks; 3002 a gets; 6001 b times-out", "held",
     right},
    {"one that was killed waits no more", "fixed", "0 b asks; 100 lab kills b; 6001 lab stock lamp 1 1 0",
     "held", right},
    {"another was killed", "fixed", "0 b asks; 100 lab kills a; 6001 lab stock lamp 1 1 0", "violated: 1",
     ""},
};
static const struct row *row; /* of the running test */

static void test_row(void) {
    CHECK_STR(judge_it(row->play, row->script), row->want);
    CHECK_HAS(sentence, row->sentence);
}

/* After the first one, each waiter is served after the one before, and its grant has cost so many requests.
 */
static const char *judge_waiters(int requests, const char *first) {
    const char *script = first;
    for (int i = 1; i <= JUDGE_HERD_HAND_OVERS; i++) {
        const char *who = i % 2 ? "b" : "a";
        script = harness_format("%s; %d %s asks; %d %s gets lamp %d; %d %s releases", script, 10 * i, who,
                                10 * i + 2, who, requests, 10 * i + 5, who);
    }
    return judge_it("broken", script);
}

static void test_herd(void) {
    static const char first[] = "0 a asks; 2 a gets lamp 13; 5 a releases";
    CHECK_STR(judge_waiters(JUDGE_HERD_REQUESTS + 1, first), "reproduced");
    CHECK_HAS(sentence, "13.8 requests a hand-over.");
    CHECK_STR(judge_waiters(JUDGE_HERD_REQUESTS - 1, first), "not-reproduced");
    /* A holder that did not release: those who wait have to ask. */
    CHECK_STR(judge_waiters(JUDGE_HERD_REQUESTS + 1, "0 a asks lamp 9; 2 a gets lamp 13; 5 a notes dies"),
              "not-reproduced");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (row = rows; row < rows + sizeof rows / sizeof *rows; row++)
        harness_run(harness_format("judge: %s", row->name), test_row);
    harness_run("judge: waiters that ask in vain", test_herd);
    return harness_finish();
}
