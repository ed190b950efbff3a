/* Reports, the index, and the steps of a play in words. */
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/document.h"
#include "loadtest/lab/draw/svg.h"
#include "loadtest/lab/test/drawn.h"
#include "test/harness.h"

static const struct report_text lesson = {.title = "A & B",
                                          .question = "Who\nsells?",
                                          .story = "One.\n\n\nTwo.",
                                          .broken_code = "if (a < b)\n\treturn 1;\n",
                                          .fixed_code = "return 0;\n"};

static bool draw_lesson(FILE *out, const struct judged_play of[], int count) {
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
    drawn_plays_read();
    check_order(
        drawn_text(draw_lesson, drawn_plays, 2),
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
    const char *html = drawn_text(drawn_report, drawn_plays, 2);
    CHECK(!strstr(html, "What will happen?") && !strstr(html, "The code"));
    CHECK(!strstr(html, "Step by step")); /* no client has noted anything */
    CHECK(!strstr(html, "<script"));
    drawn_plays_free();
}

/* A play that could not be set up has a sentence and nothing to count. */
static void test_setup_failed(void) {
    static struct event events[] = {{.n = 1, .kind = EVENT_NOTE, .who = "lab", .text = "no redis-server"}};
    for (size_t count = 0; count < 2; count++) {
        struct judged_play play = {
            .log = {.play = {.scenario = "herd", .play = "broken"}, .events = events, .count = count}};
        CHECK(judgement_make(&play.log, &play.judgement));
        play.verdict = (struct event){.outcome = "setup-failed", .sentence = "Redis did not start."};
        const char *html = drawn_text(drawn_report, &play, 1);
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
    CHECK_INT(drawn_count(steps, ";"), STEPS_MAX);
    CHECK(!steps_of(events + 1, 3)); /* no client notes anything */
}

static void test_index(void) {
    static const struct index_row rows[] = {
        {"maotai", "<late>", 7, "reproduced", "A and B.", "held", "One.", 290, 1, true},
        {"herd", "All wake up", 7, "setup-failed", "No server.", NULL, NULL, 0, 0, false}};
    char *html = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&html, &size);
    CHECK(out);
    index_draw(out, rows, 2);
    fclose(out);
    check_order(html, (const char *const[]){"1 of 2 lessons did what they teach</strong>, with seed 7",
                                            "<a href=\"maotai/report.html\">maotai</a>", "&lt;late&gt;",
                                            "reproduced", "A and B.", "290 ms", ">1<", "held", "One.",
                                            ">yes<", "<a href=\"herd/report.html\">herd</a>", "setup-failed",
                                            "not played", ">no<", "</html>", NULL});
    free(html);
}

/* Names of any length fit into a description. */
static void test_long_names(void) {
    static char name[2000], text[DESCRIBE_SIZE];
    memset(name, 'x', sizeof name - 1);
    for (int kind = 0; kind < EVENT_KINDS; kind++) {
        const struct event event = {.kind = (enum event_kind)kind,
                                    .who = name,
                                    .key = name,
                                    .item = name,
                                    .grant = UINT64_MAX,
                                    .fence = 1,
                                    .quantity = INT64_MIN,
                                    .reason = name,
                                    .what = name,
                                    .target = name,
                                    .server = "s",
                                    .owner = name,
                                    .role = name,
                                    .text = name,
                                    .outcome = name,
                                    .sentence = name};
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
    harness_run("report: its parts in their order", test_report);
    harness_run("report: a play that was not set up", test_setup_failed);
    harness_run("report: step by step", test_steps);
    harness_run("report: the index", test_index);
    harness_run("report: texts in documents", test_escape);
    harness_run("report: names of any length", test_long_names);
    return harness_finish();
}
