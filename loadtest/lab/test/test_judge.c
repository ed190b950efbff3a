/* The judge: plays that are written by hand, right ones, and the same with one event changed. */
#include <stdarg.h>
#include <string.h>

#include "loadtest/lab/judge/judge.h"
#include "test/harness.h"

enum { MS = 1000000, TTL_MS = 1000, EVENTS = 128 };

static const int64_t starved_ms = INT64_C(1) * JUDGE_STARVED_TTLS * TTL_MS + 1;

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

static void stock(int64_t t_ms, int64_t initial, int64_t available, int64_t sold) {
    struct event *event = add(t_ms, "lab", EVENT_SALE_STOCK);
    event->key = NULL;
    event->item = "lamp";
    event->initial = initial;
    event->available = available;
    event->sold = sold;
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
    stock(0, 2, 2, 0);                         /* 1 */
    uint64_t a = acquires(10, "a");            /* 2, 3 */
    uint64_t b = acquires(second_ms, "b");     /* 4, 5 */
    writes(90, "a", a, EVENT_WRITE_ACCEPTED);  /* 6 */
    of_grant(100, "a", a, EVENT_RELEASE_SENT); /* 7 */
    of_grant(101, "a", a, EVENT_RELEASE_OK);   /* 8 */
    writes(300, "b", b, EVENT_WRITE_ACCEPTED); /* 9 */
    stock(310, 2, 0, 2);                       /* 10 */
    of_grant(320, "b", b, EVENT_RELEASE_SENT); /* 11 */
    of_grant(321, "b", b, EVENT_RELEASE_OK);   /* 12 */
}

static void test_right(void) {
    two_buyers("fixed", 98); /* granted at 100, when a sends its release */
    judge_it("held");
    CHECK_INT(verdict.overlap_ms + verdict.oversold + verdict.double_writes + verdict.refused_stale, 0);
    check_evidence("");
    CHECK_STR(sentence, "Never two holders at once, and the books are right.");
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
    stock(2000, 1, 1, 0);
    judge_it("reproduced");
    CHECK_INT(verdict.overlap_ms, 98); /* from 902 to 1000 */
    begin("broken");
    uint64_t a = acquires(0, "a");
    of_grant(500, "a", a, EVENT_RENEW_OK); /* until 1500 */
    acquires(900, "b");
    stock(2000, 1, 1, 0);
    judge_it("reproduced");
    CHECK_INT(verdict.overlap_ms, 598);
    begin("fixed");
    a = acquires(0, "a");
    of_grant(800, "a", a, EVENT_RENEW_LOST);
    acquires(900, "b");
    judge_it("violated"); /* no overlap, but another got it before the time of the first was over */
    CHECK_INT(verdict.overlap_ms, 0);
    CHECK_HAS(sentence, "a lost lamp before its deadline.");
    check_evidence("3");
    events[3].t_ns = events[4].t_ns =
        1001 * (int64_t)MS; /* given up early, and nobody got it before its time */
    judge_it("held");
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
    stock(1500, 1, 1, 0);
    CHECK(judgement_make(&play, &judged));
    CHECK_INT(judged.holds.overlap_ns, 0);
    CHECK(!judged.fault);
    judgement_free(&judged);
}

static void test_stock(void) {
    begin("broken");
    stock(0, 1, 1, 0);
    writes(10, "a", 0, EVENT_WRITE_ACCEPTED);
    writes(20, "b", 0, EVENT_WRITE_ACCEPTED);
    stock(30, 1, 0, 2); /* both wrote 0: one unit was sold twice */
    judge_it("reproduced");
    CHECK_INT(verdict.oversold, 1);
    CHECK_STR(sentence, "Sold beyond the stock: 1.");
    check_evidence("3");
    begin("fixed");
    stock(0, 2, 2, 0);
    writes(10, "a", 0, EVENT_WRITE_ACCEPTED);
    writes(20, "b", 0, EVENT_WRITE_REFUSED);
    stock(30, 2, 1, 1);
    judge_it("held");
    CHECK_INT(verdict.refused_stale, 1);
    check_evidence("3");
    begin("fixed");
    stock(0, 2, 2, 0);
    writes(10, "a", 0, EVENT_WRITE_ACCEPTED);
    stock(30, 2, 2, 1); /* an update was lost */
    judge_it("violated");
    CHECK_INT(verdict.oversold, 0);
    CHECK_STR(sentence, "Sold and still on the shelf: 1.");
    check_evidence("3");
}

/* A store that has forgotten a sale: neither sold nor left has changed. */
static void test_vanished(void) {
    begin("broken");
    stock(0, 2, 2, 0);
    writes(10, "a", 0, EVENT_WRITE_ACCEPTED);
    stock(20, 2, 1, 1);
    stock(30, 2, 2, 0);
    judge_it("reproduced");
    CHECK_HAS(sentence, "Acknowledged, and not in the books: 1.");
    check_evidence("4");
    events[3].available = 1;
    events[3].sold = 1;
    judge_it("not-reproduced");
}

/* One request for two items. */
static void test_torn(void) {
    begin("broken");
    writes(10, "a", 0, EVENT_WRITE_SENT);
    writes(10, "a", 0, EVENT_WRITE_SENT);
    writes(20, "a", 0, EVENT_WRITE_ACCEPTED);
    writes(20, "a", 0, EVENT_WRITE_UNKNOWN);
    for (int i = 0; i < 4; i++) {
        events[i].op = 9;
        events[i].item = i % 2 == 0 ? "lamp" : "shade";
    }
    judge_it("reproduced");
    CHECK_STR(sentence, "Of one request for several items only a part was sold.");
    check_evidence("2 3");
    events[3].kind = EVENT_WRITE_ACCEPTED; /* both */
    judge_it("not-reproduced");
    events[2].kind = events[3].kind = EVENT_WRITE_UNKNOWN; /* neither */
    judge_it("not-reproduced");
    events[2].kind = EVENT_WRITE_ACCEPTED;
    events[1].op = events[3].op = 10; /* two requests */
    judge_it("not-reproduced");
}

/* A holder writes after its deadline. That another has had the lock since explains what the books show; it is
 * no fault by itself. */
static void test_late(void) {
    begin("broken");
    stock(0, 1, 1, 0);
    uint64_t a = acquires(0, "a");              /* 2, 3 */
    uint64_t b = acquires(1100, "b");           /* 4, 5 */
    writes(1150, "b", b, EVENT_WRITE_ACCEPTED); /* 6 */
    of_grant(1160, "b", b, EVENT_RELEASE_SENT); /* 7 */
    writes(1500, "a", a, EVENT_WRITE_ACCEPTED); /* 8 */
    stock(1600, 1, 0, 2);                       /* 9 */
    judge_it("reproduced");
    CHECK_HAS(sentence, "a wrote 500 ms after its grant had ended, and another had been granted the lock.");
    check_evidence("5 8");
    CHECK_INT(verdict.double_writes, 0);
    events[7].kind = EVENT_WRITE_REFUSED;
    events[7].reason = "stale";
    events[8].sold = 1;
    judge_it("not-reproduced");
    CHECK_INT(verdict.refused_stale, 1);
    events[7].kind = EVENT_WRITE_ACCEPTED;
    events[7].quantity = 0; /* it changes nothing */
    judge_it("not-reproduced");
    CHECK_STR(sentence, "Never two holders at once, and the books are right.");
}

/* `each` requests for each of the waiters, which are served one after the other. */
static void many_waiters(int64_t each) {
    begin("broken");
    for (int i = 0; i <= JUDGE_HERD_HAND_OVERS; i++) {
        uint64_t grant = acquires(INT64_C(10) * i, i % 2 == 0 ? "a" : "b");
        events[play.count - 1].requests = each;
        of_grant(INT64_C(10) * i + 5, i % 2 == 0 ? "a" : "b", grant, EVENT_RELEASE_SENT);
    }
}

static void test_herd(void) {
    many_waiters(JUDGE_HERD_REQUESTS + 1);
    judge_it("reproduced");
    CHECK_HAS(sentence, "13.8 requests a hand-over.");
    many_waiters(JUDGE_HERD_REQUESTS - 1);
    judge_it("not-reproduced");
    many_waiters(0); /* not known */
    judge_it("not-reproduced");
    many_waiters(JUDGE_HERD_REQUESTS + 1);
    events[2].kind = EVENT_NOTE; /* a holder that did not release: those who wait have to ask */
    events[2].text = "dies";
    events[1].until_ns = INT64_C(9) * MS;
    judge_it("not-reproduced");
}

static void test_starved(void) {
    begin("broken");
    uint64_t op = wants(0, "b");
    answers(starved_ms, "b", op, EVENT_ACQUIRE_TIMEOUT);
    judge_it("reproduced");
    CHECK_HAS(sentence, "b waited for lamp for 6001 ms, and nobody got it.");
    check_evidence("1");
    begin("fixed");
    op = wants(0, "b");
    acquires(3000, "a"); /* somebody got it meanwhile */
    answers(starved_ms, "b", op, EVENT_ACQUIRE_TIMEOUT);
    judge_it("held");
    begin("fixed");
    wants(0, "b");
    struct event *fault = add(100, "lab", EVENT_FAULT_START); /* it was killed, and waits no more */
    fault->target = "b";
    fault->what = "killed";
    stock(starved_ms, 1, 1, 0);
    judge_it("held");
    fault->target = "a";
    judge_it("violated");
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
    harness_run("judge: a sale that the books have forgotten", test_vanished);
    harness_run("judge: a part of a request", test_torn);
    harness_run("judge: a write after the grant", test_late);
    harness_run("judge: waiters that ask in vain", test_herd);
    return harness_finish();
}
