/* The drawings of two plays that were written by hand, and of one with all kinds of events and many clients.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/html.h"
#include "loadtest/lab/draw/scale.h"
#include "loadtest/lab/draw/svg.h"
#include "loadtest/lab/draw/timeline.h"
#include "loadtest/lab/draw/trace.h"
#include "test/harness.h"

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

static char *drawn(bool (*draw)(FILE *, const struct judged_play[], int), const struct judged_play of[],
                   int count) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CHECK(out != NULL && draw(out, of, count));
    fclose(out);
    char *kept = harness_format("%s", text);
    free(text);
    return kept;
}

static void test_same_bytes(void) {
    read_plays();
    const char *once = drawn(timeline_draw, plays, 2);
    free_plays();
    read_plays();
    CHECK_STR(drawn(timeline_draw, plays, 2), once);
    free_plays();
}

/* What the verdict refers to can be linked, in each play. */
static void test_evidence_has_marks(void) {
    read_plays();
    const char *html = drawn(html_draw, plays, 2);
    for (int i = 0; i < 2; i++) {
        struct judgement *judgement = &plays[i].judgement;
        for (int k = 0; k < EVENT_EVIDENCE && judgement->evidence[k] != 0; k++) {
            char id[32];
            describe_id(&plays[i].log, judgement->evidence[k], id);
            CHECK_HAS(html, harness_format("<g id=\"%s\" tabindex=\"0\"><title>", id));
        }
    }
    CHECK_HAS(html, "client-b and client-c both believe: 290 ms");
    free_plays();
}

struct box {
    double left, top, right, bottom;
    char text[200];
};

static double number_after(const char *at, const char *name) {
    const char *found = strstr(at, name);
    CHECK(found != NULL);
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
        bool head = strncmp(at + 13, "head", 4) == 0, small = strncmp(at + 13, "s", 1) == 0;
        double size = head    ? 15
                      : small ? 12
                              : 13,
               x = number_after(at, " x=\""), y = number_after(at, " y=\"");
        double width = svg_text_width(box->text, size, false);
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
    static struct box boxes[2000];
    int count = find_texts(svg, boxes, 2000);
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

static void test_texts(void) {
    read_plays();
    check_texts(drawn(timeline_draw, plays, 2));
    free_plays();
}

/* A random play of many clients: every picture of it keeps its texts apart. */
static void test_random_texts(void) {
    uint64_t random = harness_seed();
    for (int round = 0; round < 20; round++) {
        static struct event events[200];
        struct judged_play play = {
            .log = {.play = {.scenario = "random", .play = "broken", .ttl_ms = 500}, .events = events}};
        int64_t t_ns = 0;
        while (play.log.count < 200) {
            struct event *event = &events[play.log.count++];
            static const enum event_kind kinds[] = {
                EVENT_ACQUIRE_SENT,  EVENT_ACQUIRE_OK, EVENT_WRITE_ACCEPTED,
                EVENT_WRITE_REFUSED, EVENT_STORE_KEY,  EVENT_SALE_STOCK,
                EVENT_RELEASE_SENT,  EVENT_RENEW_LOST, EVENT_HOLDER_PAUSED};
            static const char *const names[] = {"client-a", "client-b", "client-c", "client-d", "client-e"};
            t_ns += (int64_t)(harness_random(&random) % 40000000);
            const char *who = names[harness_random(&random) % 5];
            *event = (struct event){.n = play.log.count,
                                    .t_ns = t_ns,
                                    .kind = kinds[harness_random(&random) % 9],
                                    .who = who,
                                    .op = harness_random(&random) % 50 + 1,
                                    .grant = harness_random(&random) % 20 + 1,
                                    .until_ns = t_ns + 500000000,
                                    .quantity = 1,
                                    .initial = 9,
                                    .available = (int64_t)(harness_random(&random) % 12) - 2,
                                    .key = "lamp",
                                    .item = "lamp",
                                    .reason = "stale",
                                    .what = "stopped",
                                    .target = who,
                                    .server = "redis",
                                    .owner = harness_random(&random) % 2 ? "a" : ""};
        }
        CHECK(judgement_make(&play.log, &play.judgement));
        char sentence[JUDGE_SENTENCE_SIZE];
        judgement_verdict(&play.judgement, &play.log, &play.verdict, sentence);
        check_texts(drawn(timeline_draw, &play, 1));
        judgement_free(&play.judgement);
    }
}

/* Time is in true scale but for what is folded. */
static void test_scale(void) {
    static struct event events[] = {
        {.n = 1, .t_ns = 0}, {.n = 2, .t_ns = 1000000000}, {.n = 3, .t_ns = 11000000000}};
    struct judged_play play = {.log = {.play = {.ttl_ms = 1000}, .events = events, .count = 3}};
    struct scale scale;
    CHECK(scale_fit(&scale, &play, 1, 100, 1100));
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
    CHECK(scale_fit(&scale, &play, 1, 100, 1100));
    CHECK_INT(scale.fold_count, 0);
    CHECK_INT(scale_x(&scale, 5500000000), 600);
}

static void test_trace(void) {
    read_plays();
    json_t *root = json_loads(drawn(trace_draw, plays, 2), 0, NULL), *event;
    json_t *list = json_object_get(root, "traceEvents");
    size_t i;
    int begins = 0, ends = 0, starts = 0, finishes = 0, counters = 0;
    json_array_foreach(list, i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        begins += strcmp(phase, "b") == 0;
        ends += strcmp(phase, "e") == 0;
        starts += strcmp(phase, "s") == 0;
        finishes += strcmp(phase, "f") == 0;
        counters += strcmp(phase, "C") == 0;
        CHECK(json_is_integer(json_object_get(event, "pid")) &&
              json_is_integer(json_object_get(event, "tid")) && json_is_real(json_object_get(event, "ts")));
    }
    CHECK_INT(begins, 8); /* three holds and a fault in each */
    CHECK_INT(ends, 8);
    CHECK(starts > 20 && starts == finishes);
    CHECK_INT(counters, 5);
    json_decref(root);
    free_plays();
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("drawing: the same events, the same bytes", test_same_bytes);
    harness_run("drawing: the evidence has marks", test_evidence_has_marks);
    harness_run("drawing: no text on another, none cut", test_texts);
    harness_run("drawing: nor in random plays", test_random_texts);
    harness_run("drawing: true scale, and folds", test_scale);
    harness_run("drawing: the trace", test_trace);
    return harness_finish();
}
