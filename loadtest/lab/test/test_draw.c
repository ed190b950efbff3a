/* What is drawn: timelines, reports, the index, the trace, of two plays that were written by hand, and of
 * plays with all kinds of events and many clients. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/document.h"
#include "loadtest/lab/draw/html.h"
#include "loadtest/lab/draw/svg.h"
#include "loadtest/lab/draw/timeline.h"
#include "loadtest/lab/draw/view.h"
#include "test/harness.h"

#define MS INT64_C(1000000)

/* The two plays that were written by hand. */
static struct judged_play plays[2];

static void read_plays(void) {
    static const char *const names[] = {"broken", "fixed"};
    char error[300];
    for (int i = 0; i < 2; i++) {
        FILE *in = fopen(harness_format("loadtest/lab/test/plays/maotai.%s.jsonl", names[i]), "re");
        CHECK(in != NULL);
        if (!judged_play_read(in, &plays[i], error, sizeof error))
            FAIL("%s", error);
        fclose(in);
    }
}

static void free_plays(void) {
    judged_play_free(&plays[0]);
    judged_play_free(&plays[1]);
}

static const char *drawn(bool (*draw)(FILE *, const struct judged_play[], int), const struct judged_play of[],
                         int count) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CHECK(out && draw(out, of, count));
    fclose(out);
    char *kept = harness_format("%s", text);
    free(text);
    return kept;
}

static bool draw_report(FILE *out, const struct judged_play of[], int count) {
    return html_draw(out, of, count, NULL);
}

static int count_of(const char *text, const char *what) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* ---- timelines ---- */

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
    for (const char *at = svg; (at = strstr(at, "<text class=\"")); at++) {
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
    read_plays();
    const char *once = drawn(timeline_draw, plays, 2);
    const char *html = drawn(draw_report, plays, 2);
    check_texts(once);
    CHECK_HAS(html, "client-b and client-c both believe: 290 ms");
    for (int i = 0; i < 2; i++) {
        const uint64_t *evidence = plays[i].judgement.evidence;
        for (int k = 0; k < EVENT_EVIDENCE && evidence[k] != 0; k++) {
            char id[32];
            describe_id(&plays[i].log, evidence[k], id);
            CHECK_HAS(html, harness_format("<g id=\"%s\" tabindex=\"0\" role=\"img\"><title>", id));
        }
    }
    free_plays();
    read_plays();
    CHECK_STR(drawn(timeline_draw, plays, 2), once);
    CHECK_STR(drawn(draw_report, plays, 2), html);
    free_plays();
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
            const char *svg = drawn(timeline_draw, &play, 1);
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
    const char *svg = drawn(timeline_draw, &play, 1), *html = drawn(draw_report, &play, 1);
    char left_out[32];
    describe_count(view.plays[0].left_out, left_out);
    CHECK_HAS(svg, harness_format(">%s of 20,000 events left out here", left_out));
    CHECK_INT(count_of(svg, "<g id=\""), (int)(COUNT - view.plays[0].left_out));
    CHECK_INT(count_of(svg, "left out</title>"), 3);
    CHECK_INT(count_of(html, "<tr id=\""), (int)(COUNT - view.plays[0].left_out));
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
    const char *svg = drawn(timeline_draw, &play, 1);
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
    read_plays();
    json_t *root = json_loads(drawn(trace_draw, plays, 2), 0, NULL), *event;
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
    free_plays();
}

/* ---- reports ---- */

static bool draw_lesson(FILE *out, const struct judged_play of[], int count) {
    static const struct report_text lesson = {.title = "A & B",
                                              .question = "Who\nsells?",
                                              .story = "One.\n\n\nTwo.",
                                              .broken_code = "if (a < b)\n\treturn 1;\n",
                                              .fixed_code = "return 0;\n"};
    return html_draw(out, of, count, &lesson);
}

/* Each of these comes after the one before. */
static void check_order(const char *text, const char *const parts[]) {
    for (; *parts; parts++) {
        const char *found = strstr(text, *parts);
        if (!found)
            FAIL("missing, or in the wrong order: %s", *parts);
        text = found + strlen(*parts);
    }
}

static void test_report(void) {
    read_plays();
    check_order(
        drawn(draw_lesson, plays, 2),
        (const char *const[]){
            "Content-Security-Policy\" content=\"default-src 'none'; style-src", "<title>A &amp; B</title>",
            "<h1>A &amp; B</h1>", "<h2>What will happen?</h2>\n<p>Who\nsells?</p>",
            "<p>One.</p>\n<p>Two.</p>", "<h3>Broken: reproduced</h3>",
            /* a request has no mark: its row in the table is linked */
            "<a href=\"#row-n12\">event 12</a>: 1520 ms, client-a: sends the sale", "<a href=\"#n13\">",
            "<h3>Fixed: held</h3>", "<a href=\"#row-fixed-n12\">", "<svg ", "<g id=\"n13\"",
            "<g id=\"fixed-n13\"", "</svg>", "<code>if (a &lt; b)\n    return 1;\n</code>",
            "<code>return 0;\n</code>", "<caption>", "<th scope=\"col\">who</th>", "<tr id=\"row-n12\">",
            "<tr id=\"row-fixed-n12\">", "seckill-lab run maotai --seed 7", NULL});
    const char *html = drawn(draw_report, plays, 2);
    CHECK(!strstr(html, "What will happen?") && !strstr(html, "The code"));
    CHECK(!strstr(html, "Step by step")); /* no client has noted anything */
    CHECK(!strstr(html, "<script"));
    free_plays();
}

/* A play that could not be set up has a sentence and nothing to count. */
static void test_setup_failed(void) {
    static struct event events[] = {{.n = 1, .kind = EVENT_NOTE, .who = "lab", .text = "no redis-server"}};
    for (size_t count = 0; count < 2; count++) {
        struct judged_play play = {
            .log = {.play = {.scenario = "herd", .play = "broken"}, .events = events, .count = count}};
        CHECK(judgement_make(&play.log, &play.judgement));
        play.verdict = (struct event){.outcome = "setup-failed", .sentence = "Redis did not start."};
        const char *html = drawn(draw_report, &play, 1);
        CHECK_HAS(html, "<h3>Broken: setup-failed</h3>");
        CHECK_HAS(html, "Redis did not start.");
        CHECK(!strstr(html, "Counted") && !strstr(html, " ms</text>"));
        judgement_free(&play.judgement);
    }
}

/* What steps_print() prints of them; NULL: it says that there is nothing to print. */
static const char *steps_of(struct event *events, size_t count) {
    static char line[4000];
    const struct event_log log = {.events = events, .count = count};
    memset(line, 0, sizeof line);
    FILE *out = fmemopen(line, sizeof line, "w");
    CHECK(out);
    bool printed = steps_print(out, &log);
    fclose(out);
    CHECK(printed || !*line);
    return printed ? line : NULL;
}

static void test_steps(void) {
    static struct event events[40] = {
        {.t_ns = 1, .kind = EVENT_NOTE, .who = "client-a", .text = "reads 1 left"},
        {.t_ns = 2, .kind = EVENT_NOTE, .who = "lab", .text = "is no client"},
        {.t_ns = 9, .kind = EVENT_WRITE_ACCEPTED, .who = "client-b", .item = "lamp", .quantity = 1},
        {.t_ns = 9, .kind = EVENT_SALE_STOCK, .who = "lab", .item = "lamp", .available = 0},
        {.t_ns = 3, .kind = EVENT_NOTE, .who = "client-b", .text = "reads 1 left"},
        {.t_ns = 5, .kind = EVENT_WRITE_ACCEPTED, .who = "client-a", .item = "lamp", .quantity = 1},
    };
    for (size_t i = 0; i < 40; i++) {
        if (i >= 6)
            events[i] = (struct event){.t_ns = 10,
                                       .kind = EVENT_WRITE_REFUSED,
                                       .who = "client-c",
                                       .item = "lamp",
                                       .quantity = 2,
                                       .reason = "stale"};
        events[i].n = i + 1;
    }
    CHECK_STR(steps_of(events, 7),
              "client-a reads 1 left; client-b reads 1 left; client-a sells 1; client-b sells 1 (0 left); "
              "client-c is refused 2 (stale)\n");
    const char *steps = steps_of(events, 40);
    CHECK_HAS(steps, "(stale); and 26 more\n");
    CHECK_INT(count_of(steps, ";"), STEPS_MAX);
    CHECK(!steps_of(events + 1, 3)); /* no client notes anything */
}

static bool draw_index(FILE *out, const struct judged_play of[], int count) {
    static const struct index_row rows[] = {
        {"maotai", "<late>", 7, "reproduced", "A and B.", "held", "One.", 290, 1, true},
        {"herd", "All wake up", 7, "setup-failed", "No server.", NULL, NULL, 0, 0, false}};
    (void)of;
    index_draw(out, rows, count);
    return true;
}

static void test_index(void) {
    check_order(drawn(draw_index, NULL, 2),
                (const char *const[]){"1 of 2 lessons did what they teach</strong>, with seed 7",
                                      "<a href=\"maotai/report.html\">maotai</a>", "&lt;late&gt;",
                                      "reproduced", "A and B.", "290 ms", ">1<", "held", "One.", ">yes<",
                                      "<a href=\"herd/report.html\">herd</a>", "setup-failed", "not played",
                                      ">no<", "</html>", NULL});
}

/* Names of any length fit into a description. */
static void test_long_names(void) {
    static char name[2000], text[DESCRIBE_SIZE];
    memset(name, 'x', sizeof name - 1);
    for (int kind = 0; kind < EVENT_KINDS; kind++) {
        struct event event = {.kind = (enum event_kind)kind,
                              .grant = UINT64_MAX,
                              .fence = 1,
                              .quantity = INT64_MIN,
                              .server = "s"};
        event.who = event.key = event.item = event.reason = event.what = event.target = name;
        event.owner = event.role = event.text = event.outcome = event.sentence = name;
        describe_whole(&event, text);
        CHECK_HAS(text, "0 ms, xxxx");
    }
}

/* A text that is cut within a character, or has what no document may have, is written without that. */
static void test_escape(void) {
    static const char *const texts[][2] = {{"a<b>&\"", "a&lt;b&gt;&amp;&quot;"},
                                           {"caf\xc3\xa9", "caf\xc3\xa9"},
                                           {"caf\xc3", "caf"},
                                           {"\x01 \x7f\xef\xbf\xbf!", " !"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char line[64] = "";
        FILE *out = fmemopen(line, sizeof line, "w");
        CHECK(out);
        svg_escape(out, texts[i][0]);
        fclose(out);
        CHECK_STR(line, texts[i][1]);
    }
    char text[40] = "a name that is too long";
    svg_text_fit(text, 12, false, 60);
    CHECK(svg_text_width(text, 12, false) <= 60);
    CHECK_HAS(text, "a name\xe2\x80\xa6");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("drawing: the same bytes, marks of the evidence, no text on another", test_by_hand);
    harness_run("drawing: nor in random plays of up to 64 clients and 6,000 events", test_random_texts);
    harness_run("drawing: windows of a large play", test_windows);
    harness_run("drawing: what each event looks like", test_marks);
    harness_run("drawing: true scale, and folds", test_scale);
    harness_run("drawing: the trace", test_trace);
    harness_run("report: its parts in their order", test_report);
    harness_run("report: a play that was not set up", test_setup_failed);
    harness_run("report: step by step", test_steps);
    harness_run("report: the index", test_index);
    harness_run("report: texts in documents", test_escape);
    harness_run("report: names of any length", test_long_names);
    return harness_finish();
}
