/* The page in a real browser: that all can use it (axe-core), in both themes and at every width, and that no
 * other page can. */
#include <stdio.h>
#include <string.h>

#include "loadtest/lab/test/lab_page.h"

static const char *const views[] = {"lessons", "sale", "lock", "recordings", "lessons/two-processes"};
enum { VIEWS = sizeof views / sizeof views[0] };

/* A view is drawn after its address has changed. */
static void go_to(const char *view) {
    size_t page = strcspn(view, "/");
    page_run("location.hash = '#/%s'", view);
    page_wait("$('#tab-%.*s').getAttribute('aria-current') === 'page' && !!$('#guess') === %s", (int)page,
              view, view[page] ? "true" : "false");
}

/* ---- axe ---- */

static void check_axe(const char *axe, const char *what) {
    browser_run(&page_browser, harness_format("if (!window.axe) { %s } return 1", axe));
    page_run("window.found = null; axe.run().then((r) => { window.found = r.violations.map((one) => "
             "`${one.id}: ${one.nodes.map((n) => n.html.slice(0, 200) + ' ' + (n.failureSummary || "
             "'')).join(' | ')}`).join('\\n') || 'none'; })");
    page_wait("window.found");
    const char *found = browser_run(&page_browser, "return window.found");
    if (strcmp(found, "none") != 0)
        FAIL("%s: %.3000s", what, found);
}

static void play_lesson(void) {
    go_to("lessons/two-processes");
    page_click("#guess input[value='1']");
    page_click("#run-broken");
    page_wait_data("#verdict", "outcome", "reproduced");
}

static void accessible(void) {
    static const char *const themes[] = {"light", "dark"};
    const char *axe = lab_site_file("build/npm/node_modules/axe-core/axe.min.js");
    page_open("");
    play_lesson();
    for (int t = 0; t < 2; t++) {
        page_wait("($('#theme').dataset.theme !== '%s' && $('#theme').click(), $('#theme').dataset.theme === "
                  "'%s')",
                  themes[t], themes[t]);
        for (int i = 0; i < VIEWS; i++) {
            go_to(views[i]);
            if (i == VIEWS - 1)
                page_wait_data("#verdict", "outcome", "reproduced");
            check_axe(axe, harness_format("%s, %s", views[i], themes[t]));
            browser_shoot(&page_browser, harness_format("view-%d-%s", i, themes[t]));
        }
    }
    /* What is only there while something runs, or is wrong. */
    go_to("sale");
    page_sell();
    check_axe(axe, "a sale that has ended");
    go_to("lock");
    page_click("#lock-go");
    page_wait("Number($('#player').dataset.n) > 8");
    check_axe(axe, "a lock run");
    page_drop("x.jsonl", "x");
    page_wait("!$('#problem').hidden");
    check_axe(axe, "a problem");
}

/* Nothing is cut off, and the page itself never scrolls sideways. */
static void widths(void) {
    static const int sizes[][2] = {{360, 740}, {1280, 900}, {2560, 1440}};
    page_open("");
    play_lesson();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        browser_resize(&page_browser, sizes[s][0], sizes[s][1]);
        for (int i = 0; i < VIEWS; i++) {
            go_to(views[i]);
            page_wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth");
            browser_shoot(&page_browser, harness_format("width-%d-%d", sizes[s][0], i));
        }
    }
    CHECK_STR(browser_console(&page_browser), "");
}

/* ---- another site ---- */

static bool answers(void *port) {
    return web_call(*(int *)port, "GET", "/", NULL, NULL, NULL) == 200;
}

/* Serves the page on another port, which is another site. */
static int serve_other(const char *page) {
    static struct proc server;
    int port = harness_free_port();
    FILE *file = fopen(harness_format("%s/index.html", harness_dir()), "we");
    CHECK(file && fputs(page, file) >= 0 && fclose(file) == 0);
    const char *argv[] = {"python3", "-m",        "http.server", harness_format("%d", port),
                          "--bind",  "127.0.0.1", "--directory", harness_dir(),
                          NULL};
    proc_spawn(&server, argv, NULL, harness_path("other"));
    CHECK(harness_wait(answers, &port, 20000));
    return port;
}

/* It tries all that a page can try: to read, to post as JSON and as a form, to hear the events of a run that
 * there is, to load code, to frame. */
static const char *hostile_page(const char *lab, const char *run) {
    return harness_format(
        "<!doctype html><title>other</title><iframe name=f id=f></iframe><iframe src='%s/'></iframe>"
        "<form id=form method=post target=f action='%s/api/runs?form' enctype=text/plain>"
        "<input name='{\"kind\":\"scenario\",\"name\":\"two-processes\",\"play\":\"broken\",\"x\":\"' "
        "value='\"}'></form><script>"
        "const lab = '%s', said = {}, "
        "body = '{\"kind\":\"scenario\",\"name\":\"two-processes\",\"play\":\"broken\"}';"
        "const post = (type) => fetch(`${lab}/api/runs`, {method: 'POST', body, headers: type});"
        "const tries = {read: fetch(`${lab}/api/lab`), module: import(`${lab}/main.mjs`), "
        "plain: post({'Content-Type': 'text/plain'}), "
        "json: post({'Content-Type': 'application/json', 'X-Lab-Token': 'x'})};"
        "for (const [name, one] of Object.entries(tries)) "
        "one.then(() => { said[name] = 'yes'; }, () => { said[name] = 'no'; });"
        "const stream = new EventSource(`${lab}/api/runs/%s/events`);"
        "stream.onerror = () => { said.events = said.events || 'no'; }; stream.onopen = () => { said.events "
        "= 'yes'; };"
        "document.getElementById('f').onload = () => { said.form = 'answered'; };"
        "document.getElementById('form').submit(); window.said = said;</script>",
        lab, lab, lab, run);
}

static void other_sites(void) {
    struct web_response response;
    page_open("");
    const char *lab = harness_format("http://127.0.0.1:%d", page_site.port);
    const char *run = lab_site_begin(
        &page_site, "{\"kind\":\"scenario\",\"name\":\"two-processes\",\"play\":\"broken\",\"seed\":7}");
    lab_site_wait(&page_site, run);
    browser_open(&page_browser, harness_format("http://127.0.0.1:%d/", serve_other(hostile_page(lab, run))));
    page_wait("Object.keys(window.said).length === 6");
    CHECK_STR(browser_run(&page_browser,
                          "return Object.entries(window.said).map(([name, value]) => name + ' ' "
                          "+ value).sort().join(', ')"),
              "events no, form answered, json no, module no, plain no, read no");
    CHECK_HAS(browser_requests(&page_browser), "/api/runs?form");
    CHECK_INT(lab_site_call(&page_site, "GET", "/api/lab", NULL, NULL, &response), 200);
    CHECK_HAS(response.body, harness_format("\"run\":{\"run\":\"%s\"", run)); /* still the newest */
    CHECK_HAS(browser_console(&page_browser), "frame-ancestors");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("axe finds nothing", accessible);
    harness_run("from 360 px to 2560", widths);
    harness_run("another site's page", other_sites);
    return harness_finish();
}
