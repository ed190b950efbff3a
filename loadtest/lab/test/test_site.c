/* seckill-lab serve without a browser: runs, faults, reports, watchers, what it refuses, what all its answers
 * say, and what it leaves behind. (test_page_live.c plays a sale.) */
#include <glob.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "loadtest/lab/test/lab_site.h"

enum { PATIENCE_MS = 60000, WATCHERS = 40 };

static const char two_processes[] =
    "{\"kind\":\"scenario\",\"name\":\"two-processes\",\"play\":\"broken\",\"seed\":7}";
static const char redis_lock[] = "{\"kind\":\"lock\",\"lock\":\"redis\",\"fencing\":false}";

static struct lab_site site;         /* of the running test */
static struct web_response response; /* the last one of get() and post() */

static int get(const char *path, const char *headers) {
    return lab_site_call(&site, "GET", path, headers, NULL, &response);
}

static int post(const char *path, const char *body) {
    return lab_site_post(&site, path, body, &response);
}

/* An order to a run: "stop" or "faults". */
static int post_run(const char *run, const char *what, const char *body) {
    return post(harness_format("/api/runs/%s/%s", run, what), body);
}

static int get_events(const char *run, const char *headers) {
    return get(harness_format("/api/runs/%s/events", run), headers);
}

static const char *begin(const char *order) {
    lab_site_start(&site);
    return lab_site_begin(&site, order);
}

static void stop(const char *run) {
    CHECK_INT(post_run(run, "stop", "{}"), 202);
    lab_site_wait(&site, run);
}

/* ---- runs ---- */

static const char *events_after(const char *run, const char *id) {
    CHECK_INT(get_events(run, harness_format("Last-Event-ID: %s\r\n", id)), 200);
    CHECK_STR(web_header(&response, "Content-Type"), "text/event-stream");
    return response.body;
}

/* Who comes late, or again, hears the same, and from where it was. */
static void replayed(void) {
    static const char first[] =
        "id: 0\ndata: {\"format\":\"seckill-events/1\",\"scenario\":\"two-processes\"";
    const char *run = begin(two_processes);
    CHECK_INT(get_events(run, NULL), 200); /* until its end */
    const char *live = response.body;
    lab_site_wait(&site, run);
    CHECK(strncmp(live, first, sizeof first - 1) == 0 || live[0] == ':');
    CHECK_HAS(live, "\"ev\":\"verdict\",\"outcome\":\"reproduced\"");
    CHECK_HAS(live, "\n\nevent: end\ndata: {}\n\n");
    CHECK_INT(get_events(run, NULL), 200);
    CHECK_STR(response.body, strstr(live, "id: 0\n"));
    CHECK_STR(events_after(run, "5"), strstr(live, "id: 6\n"));
    CHECK_STR(events_after(run, "1000000"), "event: end\ndata: {}\n\n");
    CHECK_STR(events_after(run, "x"), strstr(live, "id: 1\n"));
}

static void one_run(void) {
    const char *run = begin(redis_lock);
    CHECK_INT(post("/api/runs", two_processes), 409);
    lab_site_check_problem(&response);
    stop(run);
    CHECK_INT(post_run(run, "stop", "{}"), 409);
    const char *scenario = lab_site_begin(&site, two_processes);
    CHECK_INT(post_run(scenario, "faults", "{\"fault\":\"pause\",\"target\":\"client-a\"}"), 409);
    lab_site_check_problem(&response);
    CHECK_HAS(response.body, "Only a lock run");
    lab_site_wait(&site, scenario);
}

/* ---- faults ---- */

static int break_it(const char *run, const char *fault, const char *target) {
    return post_run(run, "faults", harness_format("{\"fault\":\"%s\",\"target\":\"%s\"}", fault, target));
}

/* The events so far have a sale. */
static bool has_sold(void *run) {
    static char text[1 << 18];
    glob_t found;
    FILE *file = NULL;
    if (glob(harness_format("%s/seckill-lab-*/runs/%s.jsonl", site.directory, (char *)run), 0, NULL,
             &found) == 0)
        file = fopen(found.gl_pathv[0], "r");
    globfree(&found);
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return strstr(text, "\"ev\":\"write.accepted\"");
}

static void wait_sold(const char *run) {
    if (!harness_wait(has_sold, (void *)(uintptr_t)run, PATIENCE_MS))
        FAIL("nobody sells in %s", run);
}

static void broken_by_hand(void) {
    static const struct {
        const char *fault, *target;
        int status;
    } faults[] = {{"pause", "client-a", 202}, {"pause", "client-a", 409},  {"revive", "client-a", 409},
                  {"kill", "client-b", 202},  {"resume", "client-b", 409}, {"cut", "redis", 202},
                  {"cut", "redis", 409},      {"heal", "redis", 202},      {"heal", "redis", 409},
                  {"jump", "redis", 202},     {"jump", "client-c", 409},   {"kill-master", "redis", 409},
                  {"cut", "no-such", 409},    {"burn", "redis", 400},      {"resume", "client-a", 202},
                  {"revive", "client-b", 202}};
    static const char *const told[] = {
        "\"ev\":\"holder.paused\",\"what\":\"paused by hand\",\"target\":\"client-a\"",
        "\"ev\":\"holder.resumed\"",
        "\"what\":\"killed\",\"target\":\"client-b\"",
        "\"what\":\"cut off\",\"target\":\"redis\"",
        "\"ev\":\"server.clock\"",
        "\"ev\":\"acquire.ok\""};
    const char *run = begin(redis_lock);
    wait_sold(run);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        CHECK_INT(break_it(run, faults[i].fault, faults[i].target), faults[i].status);
    stop(run);
    CHECK_INT(get_events(run, NULL), 200);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        CHECK_HAS(response.body, told[i]);
}

/* Each lock is taken, and its holder sells. */
static void each_lock(void) {
    static const char *const locks[] = {"set-del", "watchdog", "redlock", "etcd", "zookeeper", "sentinel"};
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++) {
        const char *run = lab_site_begin(
            &site, harness_format("{\"kind\":\"lock\",\"lock\":\"%s\",\"fencing\":false}", locks[i]));
        wait_sold(run);
        if (strcmp(locks[i], "sentinel") == 0) {
            CHECK_INT(break_it(run, "kill-master", "redis-1"), 202);
            CHECK_INT(break_it(run, "kill-master", "redis-1"), 409);
        }
        stop(run);
        CHECK_INT(get_events(run, NULL), 200);
        CHECK(!strstr(response.body, "setup-failed"));
    }
}

/* ---- the report ---- */

static int report(const char *one, const char *other) {
    json_t *json = json_pack("{s:[s,s*]}", "recordings", one, other);
    char *body = json_dumps(json, 0);
    int status = post("/api/report", body);
    free(body);
    json_decref(json);
    return status;
}

static void reported(void) {
    static const char *const parts[] = {"<h1>A release by DEL deletes another", "id=\"fixed-n18\"",
                                        "<summary>The answer</summary>", "here it goes wrong</b>",
                                        "this mends it</b>"};
    const char *broken = lab_site_file("loadtest/lab/test/plays/maotai.broken.jsonl"),
               *fixed = lab_site_file("loadtest/lab/test/plays/maotai.fixed.jsonl");
    lab_site_start(&site);
    CHECK_INT(report(fixed, broken), 200);
    CHECK_HAS(web_header(&response, "Content-Disposition"), "attachment");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        CHECK_HAS(response.body, parts[i]);
    CHECK_INT(report(broken, NULL), 200);
    CHECK_INT(report(broken, broken), 400);
    CHECK_HAS(response.body, "the broken and the fixed play");
    CHECK_INT(report("no events", NULL), 400);
    CHECK_HAS(response.body, "line 1");
    CHECK_INT(report("", NULL), 400);
    CHECK_INT(post("/api/report", "{\"recordings\":[]}"), 400);
    CHECK_INT(post("/api/report", "{\"recordings\":[7]}"), 400);
}

/* ---- watchers ---- */

static bool is_heard(void *run) {
    return get_events(run, NULL) == 200 && strstr(response.body, "event: end");
}

/* They are bounded, and harm nobody, neither while they watch nor when they leave. */
static void many_watchers(void) {
    struct web_conn watchers[WATCHERS];
    int watching = 0;
    const char *run = begin(redis_lock);
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
    CHECK_INT(get("/", NULL), 200);
    for (int i = 0; i < WATCHERS; i++)
        web_close(&watchers[i]);
    stop(run);
    CHECK(harness_wait(is_heard, (void *)(uintptr_t)run, PATIENCE_MS)); /* those who left have made room */
}

/* ---- what is refused ---- */

/* Nothing is played. */
static void check_idle(void) {
    CHECK_INT(get("/api/lab", NULL), 200);
    CHECK_HAS(response.body, "\"run\":null");
}

/* test_guard.c has each way to be refused, and test_page_rules.c another site's page in a browser. */
static void refused(void) {
    lab_site_start(&site);
    const char *foreign = harness_format("Host: evil.example:%d\r\nOrigin: http://evil.example:%d\r\n"
                                         "X-Lab-Token: %s\r\nContent-Type: application/json\r\n",
                                         site.port, site.port, site.token);
    const char *form =
        harness_format("Origin: http://127.0.0.1:%d\r\nX-Lab-Token: %s\r\nContent-Type: text/plain\r\n",
                       site.port, site.token);
    CHECK_INT(web_call(site.port, "POST", "/api/runs", foreign, two_processes, &response), 403);
    lab_site_check_problem(&response);
    CHECK_INT(web_call(site.port, "GET", "/api/lab", foreign, NULL, &response), 403);
    CHECK(!strstr(response.body, site.token));
    CHECK_INT(lab_site_call(&site, "POST", "/api/runs", form, two_processes, &response), 415);
    lab_site_check_problem(&response);
    CHECK_INT(lab_site_call(&site, "PUT", "/api/runs", NULL, two_processes, &response), 405);
    check_idle();
}

static void bad_orders(void) {
    static const char *const orders[] = {
        "",
        "x",
        "[]",
        "{}",
        "{\"kind\":\"scenario\"}",
        "{\"kind\":\"scenario\",\"name\":\"no-such\",\"play\":\"broken\"}",
        "{\"kind\":\"scenario\",\"name\":\"maotai\",\"play\":\"live\"}",
        "{\"kind\":\"scenario\",\"name\":\"maotai\",\"play\":\"broken\",\"seed\":-1}",
        "{\"kind\":\"scenario\",\"name\":\"maotai\",\"play\":\"broken\",\"more\":1}",
        "{\"kind\":\"scenario\",\"kind\":\"scenario\",\"name\":\"maotai\",\"play\":\"broken\"}",
        "{\"kind\":\"sale\",\"ways\":[],\"stock\":1,\"buyers\":1,\"seconds\":1}",
        "{\"kind\":\"sale\",\"ways\":[\"lua\",\"lua\"],\"stock\":1,\"buyers\":1,\"seconds\":1}",
        "{\"kind\":\"sale\",\"ways\":[\"lua\",\"naive\",\"decr\"],\"stock\":1,\"buyers\":1,\"seconds\":1}",
        "{\"kind\":\"sale\",\"ways\":[\"lua\"],\"stock\":0,\"buyers\":1,\"seconds\":1}",
        "{\"kind\":\"sale\",\"ways\":[\"lua\"],\"stock\":1,\"buyers\":100000,\"seconds\":1}",
        "{\"kind\":\"sale\",\"ways\":[\"lua\"],\"stock\":1,\"buyers\":1,\"seconds\":3600}",
        "{\"kind\":\"sale\",\"ways\":[7],\"stock\":1,\"buyers\":1,\"seconds\":1}",
        "{\"kind\":\"lock\",\"lock\":\"no-such\",\"fencing\":false}",
        "{\"kind\":\"lock\",\"lock\":\"redlock\",\"fencing\":true}",
        "{\"kind\":\"lock\",\"lock\":\"redis\"}"};
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (post("/api/runs", orders[i]) != 400)
            FAIL("%s is answered by %d", orders[i], response.status);
        lab_site_check_problem(&response);
    }
    CHECK_INT(post("/api/runs", harness_repeat(' ', 5000)), 413);
    lab_site_check_problem(&response);
    check_idle();
}

static void no_such_address(void) {
    static const char *const paths[] = {
        "/api",          "/api/",          "/api/runs/",         "/api/runs/x", "/api/runs/x/events",
        "/api/runs/x/y", "/../etc/passwd", "/%2e%2e/etc/passwd", "/main.mjs/",  "/favicon.ico"};
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (get(paths[i], NULL) != 404)
            FAIL("%s is answered by %d", paths[i], response.status);
    }
    CHECK_INT(break_it("x", "pause", "client-a"), 404);
    CHECK_INT(post("/api/runs/x/stop", "{}"), 404);
    CHECK_INT(post("/api/lab", "{}"), 405);
    CHECK_INT(post("/main.mjs", "{}"), 405);
    CHECK_INT(get("/api/runs", NULL), 405);
    CHECK_INT(get("/api/report", NULL), 405);
}

static void check_headers(int got, int status) {
    CHECK_INT(got, status);
    const char *policy = web_header(&response, "Content-Security-Policy");
    CHECK(policy);
    CHECK_HAS(policy, "default-src 'none'; script-src 'self'; style-src 'self';");
    CHECK_HAS(policy, "frame-ancestors 'none'");
    CHECK_STR(web_header(&response, "X-Content-Type-Options"), "nosniff");
    CHECK_STR(web_header(&response, "Cross-Origin-Resource-Policy"), "same-origin");
    CHECK(!web_header(&response, "Access-Control-Allow-Origin"));
}

static void headers_of_answers(void) {
    static const char *const paths[] = {"/", "/main.mjs", "/style.css", "/icon.svg", "/api/lab"};
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        check_headers(get(paths[i], NULL), 200);
    check_headers(get("/no-such", NULL), 404);
    check_headers(get("/api/lab", "Sec-Fetch-Site: cross-site\r\n"), 403);
    check_headers(post("/api/runs", "x"), 400);
    check_headers(post("/api/runs", two_processes), 201);
    check_headers(get_events(lab_site_text(&response, "run"), NULL), 200);
}

/* ---- begin and end ---- */

static void ends(void) {
    static const int signals[] = {SIGTERM, SIGINT, SIGKILL};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        int status;
        begin(redis_lock);
        CHECK(harness_wait(leftovers_play, site.directory, PATIENCE_MS));
        proc_kill(&site.proc, signals[i]);
        CHECK(proc_wait(&site.proc, PATIENCE_MS, &status));
        CHECK(signals[i] == SIGKILL || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        CHECK(harness_wait(leftovers_none, site.directory, PATIENCE_MS));
    }
}

static void start_listening(struct proc *proc, const char *listen) {
    const char *argv[] = {harness_format("%s/seckill-lab", harness_build()), "serve", "--listen", listen,
                          NULL};
    proc_spawn(proc, argv, NULL, harness_path("listen"));
}

static bool has_begun(void *proc) {
    return strstr(proc_output(proc), "open http://");
}

static void listens(void) {
    lab_site_start(&site);
    const struct {
        const char *listen;
        int code;
        const char *says;
    } wrong[] = {{harness_format("127.0.0.1:%d", site.port), 3, "Address already in use"},
                 {"nonsense", 2, "--listen must be HOST:PORT"},
                 {"no.such.name:80", 3, "no IPv4 or IPv6 address"}};
    struct proc proc;
    CHECK_HAS(proc_output(&site.proc), harness_format("open http://127.0.0.1:%d/ in a browser", site.port));
    CHECK(!strstr(proc_output(&site.proc), "WARNING"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int status;
        start_listening(&proc, wrong[i].listen);
        CHECK(proc_wait(&proc, PATIENCE_MS, &status) && WIFEXITED(status));
        CHECK_INT(WEXITSTATUS(status), wrong[i].code);
        CHECK_HAS(proc_output(&proc), wrong[i].says);
    }
    start_listening(&proc, "0.0.0.0:0");
    CHECK(harness_wait(has_begun, &proc, PATIENCE_MS));
    CHECK_HAS(proc_output(&proc), "WARNING: whoever reaches 0.0.0.0:");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("events are replayed", replayed);
    harness_run("one run at a time", one_run);
    harness_run("a lock is broken by hand", broken_by_hand);
    harness_run("each lock, live", each_lock);
    harness_run("reports of recordings", reported);
    harness_run("many watchers", many_watchers);
    harness_run("other pages are refused", refused);
    harness_run("orders that cannot be played", bad_orders);
    harness_run("no such address", no_such_address);
    harness_run("headers of all answers", headers_of_answers);
    harness_run("the end", ends);
    harness_run("where it listens", listens);
    return harness_finish();
}
