/* The verdicts of the judge, counted again by another program: of plays that are written by hand, and of
 * random ones. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/judge/judge.h"
#include "test/harness.h"

#define RECOUNT "loadtest/lab/test/recount.py"

enum { PLAYS = 400, EVENTS = 120, TIME_MS = 120000 };

static const char *said;

/* Runs a line of the shell, in which DIR is this test's directory; returns its status. */
static int run(const char *line) {
    static int number;
    struct proc proc;
    int status = -1;
    const char *const argv[] = {"bash", "-c", line, NULL};
    const char *const env[] = {harness_format("DIR=%s", harness_dir()), NULL};
    proc_spawn(&proc, argv, env, harness_format("%s/said-%d", harness_dir(), number++));
    CHECK(proc_wait(&proc, TIME_MS, &status));
    said = proc_output(&proc);
    return status >> 8;
}

static void test_by_hand(void) {
    CHECK_INT(run("python3 -IS " RECOUNT " loadtest/lab/test/plays/*"), 0);
    CHECK_HAS(said, "maotai.broken.jsonl: the same: oversold 1, the verdict 1; two holders for 290.000 ms");
}

/* Of a verdict that is wrong it says so, and without one that there is none. */
static void test_changed(void) {
    static const struct {
        const char *change;
        int status;
        const char *says;
    } cases[] = {
        {"s/\"oversold\":1/\"oversold\":2/", 1, "NOT the same: oversold 1, the verdict 2;"},
        {"s/\"overlap_ms\":290/\"overlap_ms\":292/", 1, "two holders for 290.000 ms, the verdict 292"},
        {"s/\"overlap_ms\":290/\"overlap_ms\":291/", 0, "the same"},
        {"$d", 2, "there is no verdict in the last line"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_INT(run(harness_format("sed '%s' loadtest/lab/test/plays/maotai.broken.jsonl >$DIR/changed; "
                                     "python3 -IS " RECOUNT " $DIR/changed",
                                     cases[i].change)),
                  cases[i].status);
        CHECK_HAS(said, cases[i].says);
    }
}

/* ---- random plays ---- */

static uint64_t position;

static int64_t below(int64_t bound) {
    return (int64_t)(harness_random(&position) % (uint64_t)bound);
}

/* Clients that do whatever they like under grants that are theirs, or were, or never were. */
static void fill(struct event *event, uint64_t n, int64_t t_ns) {
    static const enum event_kind kinds[] = {EVENT_ACQUIRE_SENT, EVENT_ACQUIRE_OK,     EVENT_ACQUIRE_OK,
                                            EVENT_ACQUIRE_OK,   EVENT_ACQUIRE_BUSY,   EVENT_RENEW_OK,
                                            EVENT_RENEW_LOST,   EVENT_RELEASE_SENT,   EVENT_RELEASE_SENT,
                                            EVENT_RENEW_SENT,   EVENT_WRITE_ACCEPTED, EVENT_WRITE_ACCEPTED,
                                            EVENT_WRITE_SENT,   EVENT_WRITE_REFUSED,  EVENT_WRITE_UNKNOWN,
                                            EVENT_SALE_STOCK,   EVENT_ACQUIRE_UNKNOWN};
    static const char *const names[] = {"client-a", "client-b", "client-c", "client-d"};
    static const char *const things[] = {"lamp", "chair", "a \"table\""};
    const char *who = names[below(4)], *key = things[below(2)], *item = things[below(3)];
    *event = (struct event){.n = n, .t_ns = t_ns, .who = who, .key = key, .item = item, .reason = "stale"};
    event->kind = kinds[below(sizeof kinds / sizeof kinds[0])];
    event->op = (uint64_t)below(30);
    event->grant = (uint64_t)(event->kind == EVENT_ACQUIRE_OK ? below(EVENTS) : below((int64_t)n + 1));
    if (event->kind == EVENT_ACQUIRE_OK && below(10) > 0)
        event->grant = n;
    event->until_ns = t_ns + below(900000000) - 50000000;
    event->quantity = below(4) - (below(8) == 0);
    event->initial = below(4);
    event->available = below(6) - 1;
    event->sold = below(6);
    event->requests = below(20);
}

static void write_play(const char *file, const struct event_log *play) {
    struct judgement judgement;
    struct event verdict;
    char sentence[JUDGE_SENTENCE_SIZE];
    CHECK(judgement_make(play, &judgement));
    judgement_verdict(&judgement, play, &verdict, sentence);
    verdict.n = play->count + 1;
    verdict.t_ns = play->count > 0 ? play->events[play->count - 1].t_ns : 0;
    verdict.who = "lab";
    CHECK(strlen(sentence) > 10 && sentence[strlen(sentence) - 1] == '.');
    FILE *out = fopen(file, "we");
    CHECK(out != NULL && event_play_write(out, &play->play));
    for (size_t i = 0; i < play->count; i++)
        CHECK(event_write(out, &play->events[i]));
    CHECK(event_write(out, &verdict));
    fclose(out);
    judgement_free(&judgement);
}

static void test_random(void) {
    position = harness_seed();
    json_t *servers = json_object();
    for (int i = 0; i < PLAYS; i++) {
        static struct event events[EVENTS];
        struct event_log play = {.play = {"random", i % 2 ? "fixed" : "broken", i, below(1000), servers},
                                 .events = events};
        size_t count = (size_t)below(i < 20 ? 4 : EVENTS);
        for (int64_t t_ns = 0; play.count < count; t_ns += below(3) * below(40000000)) {
            fill(&events[play.count], play.count + 1, t_ns);
            play.count++;
        }
        write_play(harness_format("%s/random-%d.jsonl", harness_dir(), i), &play);
    }
    json_decref(servers);
    CHECK_INT(run("python3 -IS " RECOUNT " $DIR/random-*.jsonl >$DIR/recounts; status=$?; "
                  "grep -v ': the same:' $DIR/recounts; wc -l <$DIR/recounts; exit $status"),
              0);
    CHECK_STR(said, harness_format("%d\n", PLAYS));
    CHECK_INT(run("grep -c 'oversold [1-9]' $DIR/recounts"), 0); /* some are faults */
    CHECK(strtol(said, NULL, 10) > PLAYS / 10);
    CHECK_INT(run("grep -c 'holders for [1-9]' $DIR/recounts"), 0);
    CHECK(strtol(said, NULL, 10) > PLAYS / 10);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("recount: plays that are written by hand", test_by_hand);
    harness_run("recount: a verdict that is wrong", test_changed);
    harness_run("recount: random plays", test_random);
    return harness_finish();
}
