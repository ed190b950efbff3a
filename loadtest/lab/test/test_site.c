/* seckill-lab serve without a browser: runs, faults, reports, watchers, and what it leaves behind. */
#include <glob.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "loadtest/lab/test/lab_site.h"
#include "loadtest/lab/test/leftovers.h"

enum { PATIENCE_MS = 60000, WATCHERS = 40 };

static const char two_processes[] =
    "{\"kind\":\"scenario\",\"name\":\"two-processes\",\"play\":\"broken\",\"seed\":7}";
static const char redis_lock[] = "{\"kind\":\"lock\",\"lock\":\"redis\",\"fencing\":false}";

/* ---- runs ---- */

static const char *events_of(const struct lab_site *site, const char *run, const char *after) {
    struct web_response response;
    const char *headers = after != NULL ? harness_format("Last-Event-ID: %s\r\n", after) : NULL;
    CHECK_INT(
        lab_site_call(site, "GET", harness_format("/api/runs/%s/events", run), headers, NULL, &response),
        200);
    CHECK_STR(web_header(&response, "Content-Type"), "text/event-stream");
    return response.body;
}

/* Who comes late, or again, hears the same, and from where it was. */
static void replayed(void) {
    struct lab_site site;
    lab_site_start(&site);
    const char *run = lab_site_begin(&site, two_processes);
    const char *live = events_of(&site, run, NULL); /* until its end */
    lab_site_wait(&site, run);
    CHECK(strncmp(live, "id: 0\ndata: {\"format\":\"seckill-events/1\",\"scenario\":\"two-processes\"", 40) ==
              0 ||
          live[0] == ':');
    CHECK_HAS(live, "\"ev\":\"verdict\",\"outcome\":\"reproduced\"");
    CHECK_HAS(live, "\n\nevent: end\ndata: {}\n\n");
    const char *again = events_of(&site, run, NULL);
    CHECK_STR(again, strstr(live, "id: 0\n"));
    const char *later = events_of(&site, run, "5");
    CHECK_STR(later, strstr(live, "id: 6\n"));
    CHECK_STR(events_of(&site, run, "1000000"), "event: end\ndata: {}\n\n");
    CHECK_STR(events_of(&site, run, "x"), strstr(again, "id: 1\n"));
}

static void one_run(void) {
    struct lab_site site;
    struct web_response response;
    lab_site_start(&site);
    const char *run = lab_site_begin(&site, redis_lock);
    CHECK_INT(lab_site_post(&site, "/api/runs", two_processes, &response), 409);
    lab_site_check_problem(&response);
    CHECK_INT(lab_site_post(&site, harness_format("/api/runs/%s/stop", run), "{}", NULL), 202);
    lab_site_wait(&site, run);
    CHECK_INT(lab_site_post(&site, harness_format("/api/runs/%s/stop", run), "{}", NULL), 409);
    const char *scenario = lab_site_begin(&site, two_processes);
    CHECK_INT(lab_site_post(&site, harness_format("/api/runs/%s/faults", scenario),
                            "{\"fault\":\"pause\",\"target\":\"client-a\"}", &response),
              409);
    lab_site_check_problem(&response);
    CHECK_HAS(response.body, "Only a lock run");
    lab_site_wait(&site, scenario);
}

/* ---- faults ---- */

static int break_it(const struct lab_site *site, const char *run, const char *fault, const char *target) {
    return lab_site_post(site, harness_format("/api/runs/%s/faults", run),
                         harness_format("{\"fault\":\"%s\",\"target\":\"%s\"}", fault, target), NULL);
}

static void stop(const struct lab_site *site, const char *run) {
    CHECK_INT(lab_site_post(site, harness_format("/api/runs/%s/stop", run), "{}", NULL), 202);
    lab_site_wait(site, run);
}

struct sought {
    const struct lab_site *site;
    const char *run, *text;
};

/* The events so far have it. */
static bool is_told(void *arg) {
    const struct sought *sought = arg;
    static char text[1 << 18];
    glob_t found;
    FILE *file = NULL;
    if (glob(harness_format("%s/seckill-lab-*/runs/%s.jsonl", sought->site->directory, sought->run), 0, NULL,
             &found) == 0)
        file = fopen(found.gl_pathv[0], "r");
    globfree(&found);
    text[file != NULL ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    if (file != NULL)
        fclose(file);
    return strstr(text, sought->text) != NULL;
}

static void broken_by_hand(void) {
    struct lab_site site;
    lab_site_start(&site);
    const char *run = lab_site_begin(&site, redis_lock);
    struct sought sale = {&site, run, "\"ev\":\"write.accepted\""};
    CHECK(harness_wait(is_told, &sale, PATIENCE_MS));
    CHECK_INT(break_it(&site, run, "pause", "client-a"), 202);
    CHECK_INT(break_it(&site, run, "pause", "client-a"), 409);
    CHECK_INT(break_it(&site, run, "revive", "client-a"), 409);
    CHECK_INT(break_it(&site, run, "kill", "client-b"), 202);
    CHECK_INT(break_it(&site, run, "resume", "client-b"), 409);
    CHECK_INT(break_it(&site, run, "cut", "redis"), 202);
    CHECK_INT(break_it(&site, run, "cut", "redis"), 409);
    CHECK_INT(break_it(&site, run, "heal", "redis"), 202);
    CHECK_INT(break_it(&site, run, "heal", "redis"), 409);
    CHECK_INT(break_it(&site, run, "jump", "redis"), 202);
    CHECK_INT(break_it(&site, run, "jump", "client-c"), 409);
    CHECK_INT(break_it(&site, run, "kill-master", "redis"), 409);
    CHECK_INT(break_it(&site, run, "cut", "no-such"), 409);
    CHECK_INT(break_it(&site, run, "burn", "redis"), 400);
    CHECK_INT(break_it(&site, run, "resume", "client-a"), 202);
    CHECK_INT(break_it(&site, run, "revive", "client-b"), 202);
    stop(&site, run);
    const char *events = events_of(&site, run, NULL);
    static const char *const told[] = {
        "\"ev\":\"holder.paused\",\"what\":\"paused by hand\",\"target\":\"client-a\"",
        "\"ev\":\"holder.resumed\"",
        "\"what\":\"killed\",\"target\":\"client-b\"",
        "\"what\":\"cut off\",\"target\":\"redis\"",
        "\"ev\":\"server.clock\"",
        "\"ev\":\"acquire.ok\"",
        "\"ev\":\"write.accepted\""};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        CHECK_HAS(events, told[i]);
}

/* Each lock is taken, and its holder sells. */
static void each_lock(void) {
    static const char *const locks[] = {"set-del", "watchdog", "redlock", "etcd", "zookeeper", "sentinel"};
    struct lab_site site;
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++) {
        const char *run = lab_site_begin(
            &site, harness_format("{\"kind\":\"lock\",\"lock\":\"%s\",\"fencing\":false}", locks[i]));
        struct sought sought = {&site, run, "\"ev\":\"write.accepted\""};
        if (!harness_wait(is_told, &sought, PATIENCE_MS))
            FAIL("nobody sells under %s", locks[i]);
        if (strcmp(locks[i], "sentinel") == 0) {
            CHECK_INT(break_it(&site, run, "kill-master", "redis-1"), 202);
            CHECK_INT(break_it(&site, run, "kill-master", "redis-1"), 409);
        }
        stop(&site, run);
        CHECK(strstr(events_of(&site, run, NULL), "setup-failed") == NULL);
    }
}

/* ---- sales ---- */

static void sale_live(void) {
    struct lab_site site;
    lab_site_start(&site);
    const char *run =
        lab_site_begin(&site, "{\"kind\":\"sale\",\"ways\":[\"naive\",\"lua\"],\"stock\":500,\"buyers\":32,"
                              "\"seconds\":1}");
    const char *events = events_of(&site, run, NULL);
    CHECK_HAS(events, "\"ev\":\"sale.crowd\",\"item\":\"naive\"");
    CHECK_HAS(events, "\"ev\":\"sale.crowd\",\"item\":\"lua\"");
    CHECK_HAS(events, "\"outcome\":\"reproduced\"");
    CHECK_HAS(events, "\"item\":\"lua\",\"initial\":500,\"available\":0,\"sold\":500");
    CHECK(strstr(events, "\"item\":\"naive\",\"initial\":500,\"available\":0,\"sold\":500}") == NULL);
}

/* ---- the report ---- */

static int report(const struct lab_site *site, const char *one, const char *other,
                  struct web_response *response) {
    json_t *json = json_pack("{s:[s,s*]}", "recordings", one, other);
    char *body = json_dumps(json, 0);
    int status = lab_site_post(site, "/api/report", body, response);
    free(body);
    json_decref(json);
    return status;
}

static void reported(void) {
    struct lab_site site;
    struct web_response response;
    lab_site_start(&site);
    const char *broken = lab_site_file("loadtest/lab/test/plays/maotai.broken.jsonl"),
               *fixed = lab_site_file("loadtest/lab/test/plays/maotai.fixed.jsonl");
    CHECK_INT(report(&site, fixed, broken, &response), 200);
    CHECK_HAS(web_header(&response, "Content-Disposition"), "attachment");
    CHECK_HAS(response.body, "<h1>A release by DEL deletes another");
    CHECK_HAS(response.body, "id=\"fixed-n18\"");
    CHECK_HAS(response.body, "<summary>The answer</summary>");
    CHECK_HAS(response.body, "here it goes wrong</b>");
    CHECK_HAS(response.body, "this mends it</b>");
    CHECK_INT(report(&site, broken, NULL, &response), 200);
    CHECK_INT(report(&site, broken, broken, &response), 400);
    CHECK_HAS(response.body, "the broken and the fixed play");
    CHECK_INT(report(&site, "no events", NULL, &response), 400);
    CHECK_HAS(response.body, "line 1");
    CHECK_INT(report(&site, "", NULL, &response), 400);
    CHECK_INT(lab_site_post(&site, "/api/report", "{\"recordings\":[]}", &response), 400);
    CHECK_INT(lab_site_post(&site, "/api/report", "{\"recordings\":[7]}", &response), 400);
}

/* ---- watchers ---- */

static bool is_heard(void *arg) {
    const struct sought *sought = arg;
    struct web_response response;
    return lab_site_call(sought->site, "GET", harness_format("/api/runs/%s/events", sought->run), NULL, NULL,
                         &response) == 200 &&
           strstr(response.body, "event: end") != NULL;
}

/* They are bounded, and harm nobody, neither while they watch nor when they leave. */
static void many_watchers(void) {
    struct lab_site site;
    struct web_conn watchers[WATCHERS];
    struct web_response response;
    int watching = 0;
    lab_site_start(&site);
    const char *run = lab_site_begin(&site, redis_lock);
    const char *request =
        harness_format("GET /api/runs/%s/events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", run, site.port);
    for (int i = 0; i < WATCHERS; i++) {
        CHECK(web_open(&watchers[i], site.port));
        web_send_text(&watchers[i], request);
        CHECK_INT(web_read_head(&watchers[i], &response), WEB_OK);
        CHECK(response.status == 200 || response.status == 503);
        watching += response.status == 200;
    }
    CHECK_INT(watching, 16);
    CHECK_INT(lab_site_call(&site, "GET", "/", NULL, NULL, NULL), 200);
    for (int i = 0; i < WATCHERS; i++)
        web_close(&watchers[i]);
    stop(&site, run);
    struct sought sought = {&site, run, NULL};
    CHECK(harness_wait(is_heard, &sought, PATIENCE_MS)); /* those who left have made room */
}

/* ---- begin and end ---- */

static void ends(void) {
    static const int signals[] = {SIGTERM, SIGINT, SIGKILL};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct lab_site site;
        int status;
        lab_site_start(&site);
        lab_site_begin(&site, redis_lock);
        CHECK(harness_wait(leftovers_play, site.directory, PATIENCE_MS));
        proc_kill(&site.proc, signals[i]);
        CHECK(proc_wait(&site.proc, PATIENCE_MS, &status));
        CHECK(signals[i] == SIGKILL || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        CHECK(harness_wait(leftovers_none, site.directory, PATIENCE_MS));
    }
}

static const char *run_to_end(const char *listen, int code) {
    struct proc proc;
    int status;
    const char *argv[] = {harness_format("%s/seckill-lab", harness_build()), "serve", "--listen", listen,
                          NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/end-%d.log", harness_dir(), harness_free_port()));
    CHECK(proc_wait(&proc, PATIENCE_MS, &status) && WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), code);
    return proc_output(&proc);
}

static bool has_begun(void *proc) {
    return strstr(proc_output(proc), "open http://") != NULL;
}

static void listens(void) {
    struct lab_site site;
    struct proc open;
    lab_site_start(&site);
    CHECK_HAS(proc_output(&site.proc), harness_format("open http://127.0.0.1:%d/ in a browser", site.port));
    CHECK(strstr(proc_output(&site.proc), "WARNING") == NULL);
    CHECK_HAS(run_to_end(harness_format("127.0.0.1:%d", site.port), 3), "Address already in use");
    CHECK_HAS(run_to_end("nonsense", 2), "--listen must be HOST:PORT");
    CHECK_HAS(run_to_end("no.such.name:80", 3), "no IPv4 or IPv6 address");
    const char *argv[] = {harness_format("%s/seckill-lab", harness_build()), "serve", "--listen", "0.0.0.0:0",
                          NULL};
    proc_spawn(&open, argv, NULL, harness_format("%s/open.log", harness_dir()));
    CHECK(harness_wait(has_begun, &open, PATIENCE_MS));
    CHECK_HAS(proc_output(&open), "WARNING: whoever reaches 0.0.0.0:");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("events are replayed", replayed);
    harness_run("one run at a time", one_run);
    harness_run("a lock is broken by hand", broken_by_hand);
    harness_run("each lock, live", each_lock);
    harness_run("a sale, live", sale_live);
    harness_run("reports of recordings", reported);
    harness_run("many watchers", many_watchers);
    harness_run("the end", ends);
    harness_run("where it listens", listens);
    return harness_finish();
}
