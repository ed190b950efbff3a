/* The judge: plays that are written by hand, right ones, and the same with one event changed. */
#include <stdarg.h>
#include <string.h>

#include "loadtest/lab/judge/judge.h"
#include "test/harness.h"

enum { MS = 1000000, TTL_MS = 1000, EVENTS = 64 };

static struct event events[EVENTS];
static struct event_log play;
static struct judgement judged;
static char sentence[JUDGE_SENTENCE_SIZE];
static struct event verdict;

static void begin(const char *broken_or_fixed) {
    memset(events, 0, sizeof events);
    play = (struct event_log){.play = {.scenario = "by-hand", .play = broken_or_fixed, .ttl_ms = TTL_MS},
                              .events = events};
}

static struct event *add(int64_t t_ms, const char *who, enum event_kind kind) {
    struct event *event = &events[play.count++];
    CHECK(play.count <= EVENTS);
    *event = (struct event){.n = play.count, .t_ns = t_ms * MS, .kind = kind, .who = who, .key = "lamp"};
    return event;
}

/* The operation of a client's request has the number of its event. */
static uint64_t wants(int64_t t_ms, const char *who) {
    struct event *sent = add(t_ms, who, EVENT_ACQUIRE_SENT);
    return sent->op = sent->n;
}

static struct event *answers(int64_t t_ms, const char *who, uint64_t op, enum event_kind kind) {
    struct event *answer = add(t_ms, who, kind);
    answer->op = answer->cause = op;
    return answer;
}

/* Grants are numbered as their operations. */
static uint64_t acquires(int64_t t_ms, const char *who) {
    uint64_t op = wants(t_ms, who);
    struct event *ok = answers(t_ms + 2, who, op, EVENT_ACQUIRE_OK);
    ok->grant = op;
    ok->until_ns = (t_ms + TTL_MS) * MS;
    return op;
}

static void of_grant(int64_t t_ms, const char *who, uint64_t grant, enum event_kind kind) {
    struct event *event = add(t_ms, who, kind);
    event->op = event->n;
    event->grant = grant;
    event->until_ns = (t_ms + TTL_MS) * MS;
}

static void writes(int64_t t_ms, const char *who, uint64_t grant, enum event_kind kind) {
    struct event *event = add(t_ms, who, kind);
    event->key = NULL;
    event->item = "lamp";
    event->grant = grant;
    event->quantity = 1;
    event->reason = kind == EVENT_WRITE_REFUSED ? "stale" : NULL;
}

static void stock(int64_t t_ms, int64_t initial, int64_t available) {
    struct event *event = add(t_ms, "lab", EVENT_SALE_STOCK);
    event->key = NULL;
    event->item = "lamp";
    event->initial = initial;
    event->available = available;
}

static void judge_it(const char *outcome) {
    CHECK(judgement_make(&play, &judged));
    judgement_verdict(&judged, &play, &verdict, sentence);
    CHECK_STR(verdict.outcome, outcome);
    judgement_free(&judged);
}

static void check_evidence(const char *want) {
    const char *got = "";
    for (int i = 0; i < EVENT_EVIDENCE && verdict.evidence[i] != 0; i++)
        got = harness_format("%s%s%d", got, i ? " " : "", (int)verdict.evidence[i]);
    CHECK_STR(got, want);
}

/* One after the other, each with a unit of two. */
static void two_buyers(const char *broken_or_fixed, int64_t second_ms) {
    begin(broken_or_fixed);
    stock(0, 2, 2);                            /* 1 */
    uint64_t a = acquires(10, "a");            /* 2, 3 */
    uint64_t b = acquires(second_ms, "b");     /* 4, 5 */
    writes(90, "a", a, EVENT_WRITE_ACCEPTED);  /* 6 */
    of_grant(100, "a", a, EVENT_RELEASE_SENT); /* 7 */
    of_grant(101, "a", a, EVENT_RELEASE_OK);   /* 8 */
    writes(300, "b", b, EVENT_WRITE_ACCEPTED); /* 9 */
    stock(310, 2, 0);                          /* 10 */
    of_grant(320, "b", b, EVENT_RELEASE_SENT); /* 11 */
    of_grant(321, "b", b, EVENT_RELEASE_OK);   /* 12 */
}

static void test_right(void) {
    two_buyers("fixed", 98); /* granted at 100, when a sends its release */
    judge_it("held");
    CHECK_INT(verdict.overlap_ms + verdict.oversold + verdict.double_writes + verdict.refused_stale, 0);
    check_evidence("");
    CHECK_STR(sentence, "Never two holders at once, and every unit was sold once.");
    two_buyers("broken", 98);
    judge_it("not-reproduced");
}

static void test_overlap(void) {
    two_buyers("broken", 58); /* granted at 60: both believe from 60 to 100, and a writes at 90 */
    judge_it("reproduced");
    CHECK_INT(verdict.overlap_ms, 40);
    CHECK_INT(verdict.double_writes, 1);
    CHECK_INT(verdict.oversold, 0);
    check_evidence("3 5 6");
    CHECK_HAS(sentence, "a and b both believed that they held lamp, for 40 ms");
    two_buyers("fixed", 58);
    judge_it("violated");
    two_buyers("broken", 58);
    events[4].key = "chair"; /* another lock */
    judge_it("not-reproduced");
    two_buyers("broken", 58);
    events[3].who = events[4].who = "a"; /* one client, which acquires it twice */
    judge_it("not-reproduced");
}

/* Three at once: the time with two or more counts once. */
static void test_three(void) {
    begin("broken");
    uint64_t a = acquires(0, "a"), b = acquires(100, "b"), c = acquires(200, "c");
    of_grant(302, "a", a, EVENT_RELEASE_SENT);
    of_grant(402, "b", b, EVENT_RELEASE_SENT);
    of_grant(502, "c", c, EVENT_RELEASE_SENT);
    judge_it("reproduced");
    CHECK_INT(verdict.overlap_ms, 300); /* from 102 to 402 */
}

/* A belief ends with the deadline, which renewals move; and when the client hears that it is lost. */
static void test_ends(void) {
    begin("broken");
    acquires(0, "a");
    acquires(900, "b");
    stock(2000, 1, 1);
    judge_it("reproduced");
    CHECK_INT(verdict.overlap_ms, 98); /* from 902 to 1000 */
    begin("broken");
    uint64_t a = acquires(0, "a");
    of_grant(500, "a", a, EVENT_RENEW_OK); /* until 1500 */
    acquires(900, "b");
    stock(2000, 1, 1);
    judge_it("reproduced");
    CHECK_INT(verdict.overlap_ms, 598);
    begin("fixed");
    a = acquires(0, "a");
    of_grant(800, "a", a, EVENT_RENEW_LOST);
    acquires(900, "b");
    judge_it("violated"); /* no overlap, but a grant that was lost before its time */
    CHECK_INT(verdict.overlap_ms, 0);
    CHECK_HAS(sentence, "Grants lost before their deadline: 1.");
    check_evidence("3");
    begin("fixed");
    a = acquires(0, "a");
    of_grant(1100, "a", a, EVENT_RELEASE_NOT_OWNER); /* after its time: nothing wrong */
    judge_it("held");
}

/* A request whose answer is unknown may have been granted: that is possible, not certain. */
static void test_unknown(void) {
    begin("fixed");
    uint64_t op = wants(0, "a");
    answers(400, "a", op, EVENT_ACQUIRE_UNKNOWN);
    acquires(500, "b");
    stock(1500, 1, 1);
    CHECK(judgement_make(&play, &judged));
    CHECK_INT(judged.holds.overlap_ns, 0);
    CHECK_INT(judged.holds.possible_overlap_ns, 498 * (int64_t)MS); /* from 502 to 1000 */
    CHECK(!judged.fault);
    judgement_free(&judged);
}

static void test_stock(void) {
    begin("broken");
    stock(0, 1, 1);
    writes(10, "a", 0, EVENT_WRITE_ACCEPTED);
    writes(20, "b", 0, EVENT_WRITE_ACCEPTED);
    stock(30, 1, 0); /* both wrote 0: one unit was sold twice */
    judge_it("reproduced");
    CHECK_INT(verdict.oversold, 1);
    CHECK_HAS(sentence, "Sold beyond the stock: 1.");
    CHECK_HAS(sentence, "Sold and still on the shelf: 1.");
    check_evidence("3 4");
    begin("fixed");
    stock(0, 2, 2);
    writes(10, "a", 0, EVENT_WRITE_ACCEPTED);
    writes(20, "b", 0, EVENT_WRITE_REFUSED);
    stock(30, 2, 1);
    judge_it("held");
    CHECK_INT(verdict.refused_stale, 1);
    check_evidence("3");
    begin("fixed");
    stock(0, 2, 2);
    writes(10, "a", 0, EVENT_WRITE_ACCEPTED);
    stock(30, 2, 2); /* an update was lost */
    judge_it("violated");
    CHECK_INT(verdict.oversold, 0);
}

static void test_starved(void) {
    begin("broken");
    uint64_t op = wants(0, "b");
    answers(JUDGE_STARVED_TTLS * TTL_MS + 1, "b", op, EVENT_ACQUIRE_TIMEOUT);
    judge_it("reproduced");
    CHECK_HAS(sentence, "b waited for lamp for 6001 ms, and nobody got it.");
    check_evidence("1");
    begin("fixed");
    op = wants(0, "b");
    acquires(3000, "a"); /* somebody got it meanwhile */
    answers(JUDGE_STARVED_TTLS * TTL_MS + 1, "b", op, EVENT_ACQUIRE_TIMEOUT);
    judge_it("held");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("judge: one after the other is right", test_right);
    harness_run("judge: two holders at once", test_overlap);
    harness_run("judge: three at once count once", test_three);
    harness_run("judge: how a belief ends", test_ends);
    harness_run("judge: what is unknown is possible, not certain", test_unknown);
    harness_run("judge: the stock", test_stock);
    harness_run("judge: nobody gets it", test_starved);
    return harness_finish();
}
