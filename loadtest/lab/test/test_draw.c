/* The drawings of two plays that were written by hand, and of plays with all kinds of events and many
 * clients. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"
#include "loadtest/lab/draw/timeline.h"
#include "loadtest/lab/draw/view.h"
#include "loadtest/lab/test/drawn.h"
#include "test/harness.h"

#define MS INT64_C(1000000)

struct box {
    double left, top, right, bottom;
    char text[200];
};

static double number_after(const char *at, const char *name) {
    const char *found = strstr(at, name);
    CHECK(found);
    return strtod(found + strlen(name), NULL);
}

/* The boxes of all texts of a picture. */
static int find_texts(const char *svg, struct box *boxes, int most) {
    int count = 0;
    for (const char *at = svg; (at = strstr(at, "<text class=\"")) != NULL; at++) {
        CHECK(count < most);
        struct box *box = &boxes[count++];
        const char *begin = strchr(at, '>') + 1;
        size_t length = strcspn(begin, "<");
        snprintf(box->text, sizeof box->text, "%.*s", (int)length, begin);
        char class[40];
        snprintf(class, sizeof class, "%.*s", (int)strcspn(at + 13, "\""), at + 13);
        bool bold = strstr(class, "bad") != NULL || strstr(class, "on-") != NULL ||
                    strstr(class, "name") != NULL || strstr(class, "head") != NULL;
        bool usual = *class == '\0' || strcmp(class, "name") == 0 || strcmp(class, "on-badge") == 0;
        double size = strcmp(class, "head") == 0 ? 15 : usual ? 13 : 12;
        double x = number_after(at, " x=\""), y = number_after(at, " y=\"");
        double width = svg_text_width(box->text, size, bold);
        const char *anchor = strstr(at, "text-anchor=\"") + 13;
        box->left = x - (*anchor == 'e' ? width : *anchor == 'm' ? width / 2 : 0);
        box->right = box->left + width;
        box->top = y - size * 0.7;
        box->bottom = y + 1;
    }
    return count;
}

/* No text lies on another, none is cut. */
static void check_texts(const char *svg) {
    static struct box boxes[4000];
    int count = find_texts(svg, boxes, 4000);
    CHECK(count > 10);
    for (int i = 0; i < count; i++) {
        if (boxes[i].left < 0 || boxes[i].right > 1200)
            FAIL("cut: %s", boxes[i].text);
        for (int k = 0; k < i; k++)
            if (boxes[i].left < boxes[k].right && boxes[k].left < boxes[i].right &&
                boxes[i].top < boxes[k].bottom && boxes[k].top < boxes[i].bottom)
                FAIL("\"%s\" lies on \"%s\"", boxes[i].text, boxes[k].text);
    }
}

/* The same events are the same bytes; what the judge refers to has a mark or a row, in each play. */
static void test_by_hand(void) {
    drawn_plays_read();
    const char *once = drawn_text(timeline_draw, drawn_plays, 2);
    const char *html = drawn_text(drawn_report, drawn_plays, 2);
    check_texts(once);
    CHECK_HAS(html, "client-b and client-c both believe: 290 ms");
    for (int i = 0; i < 2; i++) {
        const uint64_t *evidence = drawn_plays[i].judgement.evidence;
        for (int k = 0; k < EVENT_EVIDENCE && evidence[k] != 0; k++) {
            char id[32];
            describe_id(&drawn_plays[i].log, evidence[k], id);
            CHECK_HAS(html, harness_format("<g id=\"%s\" tabindex=\"0\" role=\"img\"><title>", id));
        }
    }
    drawn_plays_free();
    drawn_plays_read();
    CHECK_STR(drawn_text(timeline_draw, drawn_plays, 2), once);
    CHECK_STR(drawn_text(drawn_report, drawn_plays, 2), html);
    drawn_plays_free();
}

/* Fills a play with random events of all kinds. */
static void make_random(struct judged_play *play, struct event *events, size_t count, int clients,
                        uint64_t *random) {
    static const char *const servers[] = {"redis-1", "redis-2", "redis-3"};
    int64_t t_ns = 0;
    play->log = (struct event_log){
        .play = {.scenario = "random", .play = "broken", .ttl_ms = 500}, .events = events, .count = count};
    for (size_t i = 0; i < count; i++) {
        const char *who = harness_format("client-%d", (int)(harness_random(random) % (size_t)clients));
        const char *server = servers[harness_random(random) % 3];
        t_ns += (int64_t)(harness_random(random) % (8000 * (uint64_t)MS / count));
        events[i] = (struct event){.n = i + 1,
                                   .t_ns = t_ns,
                                   .kind = (enum event_kind)(harness_random(random) % EVENT_VERDICT),
                                   .op = harness_random(random) % 50 + 1,
                                   .grant = harness_random(random) % 20 + 1,
                                   .until_ns = t_ns + 500 * MS,
                                   .quantity = 1,
                                   .initial = 9,
                                   .available = (int64_t)(harness_random(random) % 12) - 2,
                                   .jump_ms = 60000,
                                   .reason = "stale",
                                   .what = "stopped for a while",
                                   .role = harness_random(random) % 2 ? "master" : "replica",
                                   .text = "reads 9 left",
                                   .owner = harness_random(random) % 2 ? who : ""};
        struct event *event = &events[i];
        event->who = event->kind < EVENT_HOLDER_PAUSED || event->kind == EVENT_NOTE ? who : "lab";
        event->target = harness_random(random) % 4 ? who : server;
        event->key = harness_random(random) % 4 ? "lamp" : "chair";
        bool stock = event->kind == EVENT_SALE_STOCK ||
                     (event->kind >= EVENT_WRITE_SENT && event->kind <= EVENT_WRITE_UNKNOWN);
        event->item = stock ? "lamp" : NULL;
        event->server = event->kind >= EVENT_STORE_KEY && event->kind <= EVENT_SERVER_UP ? server : NULL;
    }
    CHECK(judgement_make(&play->log, &play->judgement));
    static char sentence[JUDGE_SENTENCE_SIZE];
    judgement_verdict(&play->judgement, &play->log, &play->verdict, sentence);
}

/* Every picture keeps its texts apart, and is not too high for a page. */
static void test_random_texts(void) {
    static struct event events[6000];
    static const struct {
        size_t count;
        int clients, rounds;
    } sizes[] = {{200, 5, 12}, {400, 2, 4}, {900, 32, 3}, {1500, 64, 2}, {6000, 64, 1}, {3000, 200, 1}};
    uint64_t random = harness_seed();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int round = 0; round < sizes[i].rounds; round++) {
            struct judged_play play = {.log = {.count = 0}};
            make_random(&play, events, sizes[i].count, sizes[i].clients, &random);
            const char *svg = drawn_text(timeline_draw, &play, 1);
            check_texts(svg);
            CHECK(sizes[i].clients > 64 || number_after(svg, " height=\"") < 1200 * 1.3);
            judgement_free(&play.judgement);
        }
    }
}

/* Of a large play at most VIEW_MOST events are drawn, the first, the last and the evidence among them; the
 * panel and the table say how many are not. */
static void test_windows(void) {
    enum { COUNT = 20000 };
    static struct event events[COUNT];
    struct judged_play play = {.log = {.play = {.scenario = "large", .play = "broken", .ttl_ms = 1000},
                                       .events = events,
                                       .count = COUNT}};
    for (size_t i = 0; i < COUNT; i++)
        events[i] = (struct event){.n = i + 1,
                                   .t_ns = (int64_t)i * MS,
                                   .kind = EVENT_NOTE,
                                   .who = harness_format("client-%d", (int)(i % 8)),
                                   .text = "is here"};
    for (size_t i = 0; i < 8; i++) {
        events[i].kind = EVENT_ACQUIRE_SENT;
        events[i].key = "lamp";
    }
    play.verdict =
        (struct event){.outcome = "reproduced", .sentence = "So it is.", .evidence = {7000, 12345}};
    CHECK(judgement_make(&play.log, &play.judgement));
    struct view view;
    CHECK(view_make(&view, &play, 1));
    CHECK_INT(view.window_count, 4);
    CHECK(view.plays[0].left_out >= COUNT - VIEW_MOST && view.plays[0].left_out < COUNT - VIEW_MOST + 10);
    CHECK(view.plays[0].shown[0] && view.plays[0].shown[COUNT - 1]);
    CHECK(view.plays[0].shown[6999] && view.plays[0].shown[12344] && !view.plays[0].shown[3000]);
    const char *svg = drawn_text(timeline_draw, &play, 1), *html = drawn_text(drawn_report, &play, 1);
    char left_out[32];
    describe_count(view.plays[0].left_out, left_out);
    CHECK_HAS(svg, harness_format(">%s of 20,000 events left out here", left_out));
    CHECK_INT(drawn_count(svg, "<g id=\""), (int)(COUNT - view.plays[0].left_out));
    CHECK_INT(drawn_count(svg, "left out</title>"), 3);
    CHECK_INT(drawn_count(html, "<tr id=\""), (int)(COUNT - view.plays[0].left_out));
    CHECK_HAS(html, "<code>events.broken.jsonl</code>");
    check_texts(svg);
    view_free(&view);
    judgement_free(&play.judgement);
}

#define AT(ms, of, by) .t_ns = (ms)*MS, .kind = EVENT_##of, .who = (by)

static struct event wrong[] = {
    {AT(0, SERVER_ROLE, "redis-1"), .server = "redis-1", .role = "master"},
    {AT(10, ACQUIRE_SENT, "client-a"), .op = 1, .key = "lamp"},
    {AT(90, ACQUIRE_UNKNOWN, "client-a"), .op = 1, .key = "lamp"},
    {AT(100, SERVER_DOWN, "lab"), .server = "redis-1"},
    {AT(300, SERVER_UP, "lab"), .server = "redis-1"},
    {AT(400, SERVER_CLOCK, "lab"), .server = "redis-1", .jump_ms = -60000},
    {AT(500, STORE_KEY, "redis-1"), .server = "redis-1", .key = "lamp", .owner = "b"},
    {AT(550, RELEASE_SENT, "client-a"), .op = 3, .key = "lamp"},
    {AT(560, STORE_KEY, "redis-1"), .server = "redis-1", .key = "lamp", .owner = "", .cause = 8},
    {AT(600, WRITE_UNKNOWN, "client-b"), .op = 2, .item = "lamp", .quantity = 1},
    {AT(900, NOTE, "client-b"), .text = "reads 1 left"},
};

/* What the stores and the stock say while all goes wrong: each event has its mark. */
static void test_marks(void) {
    enum { COUNT = sizeof wrong / sizeof wrong[0] };
    struct judged_play play = {.log = {.play = {.scenario = "herd", .play = "broken", .ttl_ms = 1000},
                                       .events = wrong,
                                       .count = COUNT},
                               .verdict = {.outcome = "reproduced", .sentence = ""}};
    for (size_t i = 0; i < COUNT; i++)
        wrong[i].n = i + 1;
    CHECK(judgement_make(&play.log, &play.judgement));
    const char *svg = drawn_text(timeline_draw, &play, 1);
    for (int n = 1; n <= COUNT; n++)
        CHECK_HAS(svg, harness_format("<g id=\"n%d\" tabindex=\"0\" role=\"img\"><title>", n));
    static const char *const parts[] = {"lease possible\"",
                                        "class=\"down\"",
                                        "class=\"unsure\"",
                                        ">master</text>",
                                        ">down</text>",
                                        ">up</text>",
                                        ">clock -60 s</text>",
                                        ">releases b's lock</text>",
                                        ">no answer</text>",
                                        ">reads 1 left</text>",
                                        "<title>0 ms, redis-1: is now master</title>",
                                        "<title>100 ms, lab: redis-1 is down</title>",
                                        "<title>400 ms, lab: the clock of redis-1 jumps by -60000 ms</title>",
                                        "<title>500 ms, redis-1: says that lamp belongs to b</title>"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        CHECK_HAS(svg, parts[i]);
    judgement_free(&play.judgement);
}

/* Time is in true scale but for what is folded. */
static void test_scale(void) {
    static struct event events[] = {
        {.n = 1, .t_ns = 0}, {.n = 2, .t_ns = 1000000000}, {.n = 3, .t_ns = 11000000000}};
    struct judged_play play = {.log = {.play = {.ttl_ms = 1000}, .events = events, .count = 3}};
    struct scale scale;
    struct view view;
    CHECK(view_make(&view, &play, 1));
    CHECK(scale_fit(&scale, &play, 1, &view, 100, 1100));
    CHECK_INT(scale.fold_count, 1); /* from 2 s to 10 s */
    double second = (1000.0 - SCALE_FOLD_PX) / 3;
    CHECK_INT(scale_x(&scale, 0), 100);
    CHECK_INT(scale_x(&scale, 1000000000) * 10, (100 + second) * 10);
    CHECK_INT(scale_x(&scale, 2000000000) * 10, (100 + 2 * second) * 10);
    CHECK_INT(scale_x(&scale, 10000000000) * 10, (100 + 2 * second + SCALE_FOLD_PX) * 10);
    CHECK_INT(scale_x(&scale, 11000000000), 1100);
    for (int64_t t_ns = -1; (t_ns = scale_next_tick(&scale, t_ns)) >= 0;)
        CHECK(t_ns <= 2000000000 || t_ns >= 10000000000);
    play.log.play.ttl_ms = 4000;
    CHECK(scale_fit(&scale, &play, 1, &view, 100, 1100));
    CHECK_INT(scale.fold_count, 0);
    CHECK_INT(scale_x(&scale, 5500000000), 600);
    view_free(&view);
}

static void test_trace(void) {
    drawn_plays_read();
    json_t *root = json_loads(drawn_text(trace_draw, drawn_plays, 2), 0, NULL), *event;
    size_t i;
    int phases[128] = {0};
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        phases[json_string_value(json_object_get(event, "ph"))[0] & 127]++;
        CHECK(json_is_integer(json_object_get(event, "pid")) &&
              json_is_integer(json_object_get(event, "tid")) && json_is_real(json_object_get(event, "ts")));
    }
    CHECK_INT(phases['b'], 8); /* three holds and a fault in each */
    CHECK_INT(phases['e'], 8);
    CHECK(phases['s'] > 20 && phases['s'] == phases['f']);
    CHECK_INT(phases['C'], 5);
    json_decref(root);
    drawn_plays_free();
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("drawing: the same bytes, marks of the evidence, no text on another", test_by_hand);
    harness_run("drawing: nor in random plays of up to 64 clients and 6,000 events", test_random_texts);
    harness_run("drawing: windows of a large play", test_windows);
    harness_run("drawing: what each event looks like", test_marks);
    harness_run("drawing: true scale, and folds", test_scale);
    harness_run("drawing: the trace", test_trace);
    return harness_finish();
}
