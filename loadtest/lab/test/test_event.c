/* Events: what is written is read again, and a wrong line is told by its number. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/events/event.h"
#include "test/harness.h"

#define PLAY                                                                                                 \
    "{\"format\":\"seckill-events/1\",\"scenario\":\"maotai\",\"play\":\"broken\",\"seed\":7,"               \
    "\"clock\":\"monotonic\",\"servers\":{\"redis\":\"7.0.15\"},\"ttl_ms\":1000}\n"

static struct event_log log_read;
static char error[300];

static bool read_text(const char *text) {
    FILE *in = *text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : fopen("/dev/null", "re");
    CHECK(in);
    bool good = event_log_read(in, &log_read, error, sizeof error);
    fclose(in);
    return good;
}

static const char *written(const struct event_play *play, const struct event events[], size_t count) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CHECK(out && event_play_write(out, play));
    for (size_t i = 0; i < count; i++)
        CHECK(event_write(out, &events[i]));
    fclose(out);
    const char *kept = harness_format("%s", text);
    free(text);
    return kept;
}

/* Numbers and texts that tell the members apart. */
static struct event full_event(int kind) {
    return (struct event){.n = (uint64_t)kind + 1,
                          .t_ns = kind * 1000000000LL,
                          .kind = (enum event_kind)kind,
                          .who = "client-a",
                          .cause = (uint64_t)kind,
                          .op = 2,
                          .grant = 3,
                          .fence = 1ULL << 62,
                          .until_ns = 5,
                          .requests = 4,
                          .quantity = 6,
                          .initial = 7,
                          .available = -8,
                          .sold = 9,
                          .jump_ms = -10,
                          .key = "key",
                          .item = "item",
                          .reason = "stale",
                          .what = "a \"pause\"",
                          .target = "target",
                          .server = "redis",
                          .owner = "",
                          .role = "master",
                          .text = "text\n",
                          .outcome = "held",
                          .sentence = "sentence",
                          .overlap_ms = 11,
                          .oversold = 12,
                          .double_writes = 13,
                          .refused_stale = 14,
                          .evidence = {1, 2, 3}};
}

/* Each kind with all its members. */
static void test_every_kind(void) {
    struct event_play play = {"herd", "fixed", 42, 3000, json_pack("{s:s}", "etcd", "3.4.23")};
    struct event events[EVENT_KINDS];
    for (int kind = 0; kind < EVENT_KINDS; kind++)
        events[kind] = full_event(kind);
    const char *text = written(&play, events, EVENT_KINDS);
    json_decref(play.servers);
    if (!read_text(text))
        FAIL("%s", error);
    CHECK_STR(harness_format("%s %s %d %d", log_read.play.scenario, log_read.play.play,
                             (int)log_read.play.seed, (int)log_read.play.ttl_ms),
              "herd fixed 42 3000");
    CHECK_STR(json_string_value(json_object_get(log_read.play.servers, "etcd")), "3.4.23");
    CHECK_INT(log_read.count, EVENT_KINDS);
    CHECK_STR(written(&log_read.play, log_read.events, log_read.count), text);
    for (size_t i = 0; i < log_read.count; i++)
        CHECK_INT(log_read.events[i].kind, i);
    const struct event *ok = &log_read.events[EVENT_ACQUIRE_OK];
    CHECK(ok->op == 2 && ok->grant == 3 && ok->fence == 1ULL << 62 && ok->until_ns == 5 && ok->cause == 1);
    CHECK(!ok->item && ok->evidence[0] == 0); /* not what an acquire.ok has */
    CHECK(ok->requests == 4 && log_read.events[EVENT_ACQUIRE_SENT].requests == 0);
    CHECK_STR(log_read.events[EVENT_STORE_KEY].owner, "");
    event_log_free(&log_read);
}

/* An answer to an acquire may say what it cost; 0 is not written. */
static void test_requests(void) {
    static const enum event_kind kinds[] = {EVENT_ACQUIRE_OK, EVENT_ACQUIRE_BUSY, EVENT_ACQUIRE_TIMEOUT,
                                            EVENT_ACQUIRE_UNKNOWN};
    struct event_play play = {"herd", "fixed", 42, 3000, json_object()};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (int64_t requests = 0; requests < 18; requests += 17) {
            const struct event event = {
                .n = 1, .kind = kinds[i], .who = "a", .op = 1, .key = "k", .requests = requests};
            const char *text = written(&play, &event, 1);
            CHECK_INT(strstr(text, "\"requests\":17") != NULL, requests == 17);
            CHECK_INT(strstr(text, "requests") != NULL, requests == 17);
            if (!read_text(text))
                FAIL("%s", error);
            CHECK_INT(log_read.events[0].requests, requests);
            event_log_free(&log_read);
        }
    }
    json_decref(play.servers);
}

static void test_wrong(void) {
#define FORMAT "{\"format\":\"seckill-events/1\",\"scenario\":\"x\","
#define FIRST  PLAY "{\"n\":1,\"t\":0,\"who\":\"a\",\"ev\":"
#define NOTE   "\"ev\":\"note\",\"text\":\"\"}\n"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line 1: the file is empty"},
        {"{}\n", "line 1: it does not begin with"},
        {"{\"format\":\"seckill-events/2\"}\n", "line 1: it does not begin with"},
        {"[1\n", "line 1: "},
        {FORMAT "\"play\":\"mended\",\"seed\":1,\"servers\":{},\"ttl_ms\":1}\n", "neither broken nor fixed"},
        {FORMAT "\"play\":\"fixed\",\"servers\":{},\"ttl_ms\":1}\n", "seed"},
        {PLAY "{\"n\":2,\"t\":0,\"who\":\"lab\"," NOTE, "line 2: \"n\" is not 1"},
        {PLAY "{\"n\":1,\"t\":-1,\"who\":\"lab\"," NOTE, "line 2: \"t\""},
        {PLAY "{\"n\":1,\"t\":0," NOTE, "line 2: \"who\""},
        {PLAY "{\"n\":1,\"n\":1,\"t\":0,\"who\":\"lab\"," NOTE, "line 2: dup"},
        {FIRST "\"notes\",\"text\":\"\"}\n", "line 2: \"ev\""},
        {FIRST "\"note\"}\n", "line 2: \"text\" is missing, or is not what a note has"},
        {FIRST "\"note\",\"text\":7}\n", "line 2: \"text\""},
        {FIRST "\"note\",\"text\":\"\",\"cause\":1}\n", "line 2: \"cause\" is not an earlier event"},
        {FIRST "\"acquire.sent\",\"op\":1.5,\"key\":\"k\"}\n", "\"op\""},
        {FIRST "\"acquire.busy\",\"op\":1,\"key\":\"k\",\"requests\":-1}\n", "line 2: \"requests\""},
        {FIRST "\"acquire.busy\",\"op\":1,\"key\":\"k\",\"requests\":\"many\"}\n", "line 2: \"requests\""},
        {FIRST "\"write.sent\",\"op\":1,\"item\":\"i\",\"quantity\":1000000000001,\"grant\":0}\n",
         "line 2: \"quantity\""},
        {FIRST
         "\"verdict\",\"outcome\":\"held\",\"overlap_ms\":0,\"oversold\":0,\"double_writes\":0,"
         "\"refused_stale\":0,\"evidence\":[],\"sentence\":\"\"}\n{\"n\":2,\"t\":0,\"who\":\"lab\"," NOTE,
         "line 3: it is behind the verdict"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK(!read_text(cases[i].text));
        CHECK_HAS(error, cases[i].says);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("events: every kind, written and read", test_every_kind);
    harness_run("events: what an acquire cost", test_requests);
    harness_run("events: a wrong line is told by its number", test_wrong);
    return harness_finish();
}
