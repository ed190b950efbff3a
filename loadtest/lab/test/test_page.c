/* The page in a real browser: lessons by mouse and by keyboard, a live sale, a live lock, recordings, and
 * what happens when the server goes away. In each test the console stays free of errors, and no other host is
 * asked. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/test/lab_site.h"

enum { WIDTH = 1280, HEIGHT = 900, KEYS_MAX = 80, SALE_STEPS = 16 };

struct visit {
    struct lab_site site;
    struct browser browser;
};

static void visit(struct visit *v, const char *path) {
    lab_site_start(&v->site);
    browser_start(&v->browser, WIDTH, HEIGHT);
    browser_open(&v->browser, lab_site_url(&v->site, path));
    browser_wait(&v->browser, "return document.querySelector('main h1') !== null");
}

/* Nothing is said, but by the browser itself of a server that is away. */
static void check_console(const struct visit *v, bool was_away) {
    char *line, *rest = harness_format("%s", browser_console(&v->browser));
    while ((line = strsep(&rest, "\n")) != NULL) {
        bool is_absence =
            strstr(line, "Failed to load resource") != NULL || strstr(line, "net::ERR_") != NULL;
        if (line[0] != '\0' && !(was_away && is_absence))
            FAIL("the console says: %s", line);
    }
}

static void check_quiet(const struct visit *v, bool was_away) {
    const char *own = harness_format("http://127.0.0.1:%d/", v->site.port);
    char *line, *rest = harness_format("%s", browser_requests(&v->browser));
    bool is_logged = false;
    check_console(v, was_away);
    while ((line = strsep(&rest, "\n")) != NULL) {
        bool is_own = strncmp(line, own, strlen(own)) == 0;
        is_logged = is_logged || is_own;
        if (strncmp(line, "http", 4) == 0 && !is_own) /* not the browser's own chrome: */
            FAIL("the page asks %s", line);
    }
    CHECK(is_logged); /* else nothing was seen, whatever it asked */
}

/* A number that an element shows in its data. */
static long data_of(const struct visit *v, const char *selector, const char *name) {
    return strtol(browser_run(&v->browser, harness_format("return document.querySelector(%s).dataset.%s",
                                                          browser_quote(selector), name)),
                  NULL, 10);
}

static void wait_outcome(const struct visit *v, const char *outcome) {
    browser_wait(
        &v->browser,
        harness_format("return document.querySelector('#verdict')?.dataset.outcome === '%s'", outcome));
}

/* The state of the lamp at the end of the play. */
static void check_lamp(const struct visit *v, long sold, long excess) {
    browser_wait(&v->browser,
                 harness_format(
                     "const d = document.querySelector('#stock [data-item=\"lamp\"]')?.dataset; return d && "
                     "d.sold === '%ld' && d.excess === '%ld'",
                     sold, excess));
}

/* ---- lessons ---- */

static void by_mouse(void) {
    struct visit v;
    visit(&v, "");
    browser_click(&v.browser, "[data-card='no-lock']");
    browser_click(&v.browser, "#guess input[value='1']");
    browser_click(&v.browser, "#run-broken");
    wait_outcome(&v, "reproduced");
    browser_wait(&v.browser, "return document.querySelector('#answer').innerText === 'You were right.'");
    browser_wait(&v.browser, "return document.querySelector('#code mark') !== null");
    check_lamp(&v, 2, 1);
    browser_shoot(&v.browser, "lesson-broken");
    browser_click(&v.browser, "#run-fixed");
    wait_outcome(&v, "held");
    check_lamp(&v, 1, 0);
    browser_wait(&v.browser, "return document.querySelector('#timeline-fixed').getClientRects().length > 0");
    browser_wait(
        &v.browser,
        "return document.querySelector('#ladder [data-scenario=\"no-lock\"]').dataset.progress === 'done'");
    browser_shoot(&v.browser, "lesson-fixed");
    browser_click(&v.browser, ".pictures h2 button"); /* back to the broken play, with its verdict */
    wait_outcome(&v, "reproduced");
    check_lamp(&v, 2, 1);
    browser_click(&v.browser, ".pictures h2 ~ h2 button");
    wait_outcome(&v, "held");
    browser_click(&v.browser, "#next-lesson");
    browser_wait(&v.browser, "return location.hash === '#/lessons/strategies'");
    check_quiet(&v, false);
}

/* Presses Tab until the focus is on this element. */
static void tab_to(const struct visit *v, const char *selector) {
    for (int i = 0; i < KEYS_MAX; i++) {
        if (strcmp(browser_run(&v->browser, harness_format("return document.activeElement.matches(%s)",
                                                           browser_quote(selector))),
                   "true") == 0)
            return;
        browser_type(&v->browser, BROWSER_TAB);
    }
    FAIL("the Tab key does not lead to %s", selector);
}

static void wait_event(const struct visit *v, long n) {
    browser_wait(&v->browser,
                 harness_format("return document.querySelector('#player').dataset.n === '%ld'", n));
}

static void by_keyboard(void) {
    struct visit v;
    visit(&v, "");
    tab_to(&v, "[data-card='no-lock']");
    browser_type(&v.browser, BROWSER_ENTER);
    browser_wait(&v.browser, "return document.querySelector('#guess') !== null");
    tab_to(&v, "#guess input");
    browser_type(&v.browser, BROWSER_DOWN);
    browser_wait(&v.browser, "return document.querySelector('#guess').elements.answer.value === '1'");
    tab_to(&v, "#run-broken");
    browser_type(&v.browser, BROWSER_ENTER);
    wait_outcome(&v, "reproduced");
    check_lamp(&v, 2, 1);
    tab_to(&v, "#player-seek");
    browser_type(&v.browser, BROWSER_HOME);
    browser_wait(&v.browser, "return document.querySelector('#player').dataset.t === '0'");
    long first = data_of(&v, "#player", "n");
    browser_type(&v.browser, BROWSER_RIGHT);
    wait_event(&v, first + 1);
    browser_type(&v.browser, BROWSER_LEFT);
    wait_event(&v, first);
    browser_type(&v.browser, " "); /* it plays, to the end */
    check_lamp(&v, 2, 1);
    browser_type(&v.browser, BROWSER_END);
    check_lamp(&v, 2, 1);
    tab_to(&v, "#run-fixed");
    browser_type(&v.browser, BROWSER_ENTER);
    wait_outcome(&v, "held");
    check_lamp(&v, 1, 0);
    check_quiet(&v, false);
}

/* ---- time ---- */

/* Back to before the second sale, and on: the same as before. */
static void steps(void) {
    struct visit v;
    visit(&v, "#/lessons/two-processes");
    browser_click(&v.browser, "#guess input[value='0']");
    browser_click(&v.browser, "#run-broken");
    wait_outcome(&v, "reproduced");
    check_lamp(&v, 2, 1);
    browser_wait(&v.browser,
                 "return document.querySelector('#answer').innerText.startsWith('You guessed otherwise')");
    const char *end = browser_run(&v.browser, "return document.querySelector('#step').innerText");
    long last = data_of(&v, "#player", "n"), n = last;
    for (; n > 1 && data_of(&v, "#stock [data-item='lamp']", "sold") > 1; n--) {
        browser_click(&v.browser, "#player-back");
        browser_wait(&v.browser,
                     harness_format("return document.querySelector('#stock').dataset.n === '%ld'", n - 1));
    }
    CHECK(n > 1 && n < last);
    check_lamp(&v, 1, 0);
    while (n++ < last)
        browser_click(&v.browser, "#player-forward");
    CHECK_STR(browser_run(&v.browser, "return document.querySelector('#step').innerText"), end);
    check_lamp(&v, 2, 1);
    browser_click(&v.browser, "#verdict [data-n]"); /* evidence leads to its event */
    CHECK_INT(data_of(&v, "#player", "n"), data_of(&v, "#verdict [data-n]", "n"));
    check_quiet(&v, false);
}

/* Of the newest run, which has ended. */
static long count_events(const struct lab_site *site) {
    static const char before[] = "\"run\":{\"run\":\"";
    struct web_response response;
    long count = 0;
    CHECK_INT(lab_site_call(site, "GET", "/api/lab", NULL, NULL, &response), 200);
    const char *id = strstr(response.body, before);
    CHECK(id != NULL);
    id += sizeof before - 1;
    const char *path = harness_format("/api/runs/%.*s/events", (int)strcspn(id, "\""), id);
    CHECK_INT(lab_site_call(site, "GET", path, NULL, NULL, &response), 200);
    for (const char *at = response.body; (at = strstr(at, "\nid: ")) != NULL; at++)
        count++; /* the first line is the play */
    return count;
}

static void reload(void) {
    struct visit v;
    visit(&v, "#/lock");
    browser_click(&v.browser, "#lock-go");
    browser_wait(&v.browser, "return Number(document.querySelector('#player').dataset.n) > 10");
    browser_open(&v.browser, lab_site_url(&v.site, "#/recordings")); /* of the same page: another view */
    browser_run(&v.browser, "location.reload(); return true");
    browser_wait(&v.browser,
                 "return location.hash === '#/lock' && document.querySelector('#lock-stop') !== null");
    browser_wait(&v.browser, "return Number(document.querySelector('#player').dataset.n) > 12");
    browser_wait(&v.browser, "return document.querySelector('#status').dataset.state === 'playing'");
    browser_click(&v.browser, "#player-back");
    browser_click(&v.browser, "#lock-stop");
    browser_wait(&v.browser, "return document.querySelector('#status').dataset.state === 'ended' && "
                             "document.querySelector('#verdict').dataset.outcome !== undefined");
    browser_run(&v.browser, "document.querySelector('#player-seek').focus(); return 1");
    browser_type(&v.browser, BROWSER_END); /* it has them all, also those from before the reload */
    browser_wait(&v.browser, harness_format("return document.querySelector('#player').dataset.n === '%ld'",
                                            count_events(&v.site)));
    check_quiet(&v, false);
}

static void seek(const struct visit *v, int ms) {
    browser_run(&v->browser,
                harness_format("const bar = document.querySelector('#player-seek'); bar.value = %d; "
                               "bar.dispatchEvent(new Event('input')); return 1",
                               ms));
}

/* ---- the sale and the lock ---- */

static void sale(void) {
    struct visit v;
    visit(&v, "#/sale");
    browser_run(&v.browser, "const f = document.querySelector('#sale-form').elements; f.stock.value = 500; "
                            "f.seconds.value = 1; return 1");
    browser_click(&v.browser, "#sale-go");
    wait_outcome(&v, "reproduced");
    browser_wait(&v.browser, "return document.querySelector('[data-sale=naive]').dataset.oversold > 0");
    browser_wait(&v.browser, "const d = document.querySelector('[data-sale=lua]').dataset; return d.oversold "
                             "=== '0' && d.sold === '500'");
    browser_wait(
        &v.browser,
        "return document.querySelector('[data-sale=naive]').innerText.includes('that were not there')");
    browser_wait(&v.browser, "return [...document.querySelectorAll('.plot-p50, .plot-p99')].filter(line => "
                             "line.getAttribute('d').includes('L')).length === 4");
    browser_wait(&v.browser, "const line = way => document.querySelector(`[data-sale=${way}] .plot-orders`); "
                             "return line('naive').getAttribute('d') === '' && "
                             "line('lua').getAttribute('d') !== ''");
    browser_shoot(&v.browser, "sale");
    seek(&v, 0);
    browser_wait(&v.browser, "return document.querySelector('[data-sale=naive]').dataset.sold === '0'");
    for (int i = 0; i < SALE_STEPS; i++) { /* the right way is right at each event */
        long n = data_of(&v, "#stock", "n");
        browser_click(&v.browser, "#player-forward");
        browser_wait(&v.browser,
                     harness_format("return document.querySelector('#stock').dataset.n === '%ld'", n + 1));
        CHECK_INT(data_of(&v, "[data-sale=lua]", "oversold"), 0);
    }
    check_quiet(&v, false);
}

static void lock(void) {
    struct visit v;
    visit(&v, "#/lock");
    browser_click(&v.browser, "#lock-go");
    browser_wait(&v.browser, "return document.querySelector('#clients-believe').dataset.clients !== ''");
    /* Whoever holds it now is paused, until its lease is over. */
    browser_wait(&v.browser,
                 "const who = document.querySelector('#clients-believe').dataset.clients; "
                 "const b = document.querySelector(`[data-fault=pause][data-target='${who}']`); if (!b || "
                 "b.disabled) return false; b.click(); window.paused = who; return true");
    browser_wait(
        &v.browser,
        "return !document.querySelector(`[data-fault=resume][data-target='${window.paused}']`).disabled");
    browser_wait(&v.browser, "const who = document.querySelector('#clients-believe').dataset.clients; return "
                             "who !== '' && who !== window.paused");
    browser_wait(
        &v.browser,
        "document.querySelector(`[data-fault=resume][data-target='${window.paused}']`).click(); return true");
    browser_wait(
        &v.browser,
        "return !document.querySelector(`[data-fault=pause][data-target='${window.paused}']`).disabled");
    /* The key of whoever holds it expires, and another takes it. */
    browser_wait(&v.browser, "document.querySelector('[data-fault=jump]').click(); const d = "
                             "document.querySelector('#disagree'); return !d.hidden && "
                             "d.innerText.startsWith('2 clients believe')");
    browser_click(&v.browser, "[data-fault='kill'][data-target='client-c']");
    browser_wait(&v.browser,
                 "return document.querySelector('#clients').innerText.includes('client-c is dead')");
    browser_shoot(&v.browser, "lock");
    browser_click(&v.browser, "#lock-stop");
    browser_wait(&v.browser, "return document.querySelector('#verdict').dataset.outcome !== undefined");
    check_quiet(&v, false);
}

/* ---- recordings ---- */

static void drop(const struct visit *v, const char *name, const char *text) {
    browser_run(&v->browser,
                harness_format("const data = new DataTransfer(); data.items.add(new File([%s], %s)); "
                               "document.querySelector('main').dispatchEvent(new DragEvent('drop', "
                               "{dataTransfer: data, bubbles: true, cancelable: true})); return 1",
                               browser_quote(text), browser_quote(name)));
}

static void recordings(void) {
    struct visit v;
    visit(&v, "");
    drop(&v, "events.broken.jsonl", lab_site_file("loadtest/lab/test/plays/maotai.broken.jsonl"));
    wait_outcome(&v, "reproduced");
    browser_wait(&v.browser, "return location.hash === '#/recordings'");
    CHECK_INT(data_of(&v, "#player", "n"), 30);
    seek(&v, 1700);
    browser_wait(&v.browser,
                 "return document.querySelector('#clients-believe').dataset.clients === 'client-b client-c'");
    browser_wait(&v.browser,
                 "return document.querySelector('#disagree').innerText.startsWith('2 clients believe')");
    browser_shoot(&v.browser, "recording");
    drop(&v, "wrong.jsonl", "{\"format\":\"seckill-events/1\"}\nnonsense\n");
    browser_wait(&v.browser, "const p = document.querySelector('#problem'); return !p.hidden && "
                             "p.innerText.includes('wrong.jsonl, line 2')");
    browser_run(&v.browser, "const data = new DataTransfer(); for (const name of ['a', 'b', 'c']) "
                            "data.items.add(new File(['{}'], name)); "
                            "document.querySelector('main').dispatchEvent(new DragEvent('drop', "
                            "{dataTransfer: data, bubbles: true, cancelable: true})); return 1");
    browser_wait(&v.browser, "return document.querySelector('#problem').innerText.includes('3 files')");
    check_quiet(&v, false);
}

/* ---- the server goes away ---- */

static void server_dies(void) {
    struct visit v;
    int status;
    visit(&v, "#/lock");
    browser_click(&v.browser, "#lock-go");
    browser_wait(&v.browser, "return Number(document.querySelector('#player').dataset.n) > 5");
    proc_kill(&v.site.proc, SIGKILL);
    CHECK(proc_wait(&v.site.proc, 10000, &status));
    browser_wait(&v.browser, "return document.querySelector('#status').dataset.state === 'lost'");
    lab_site_restart(&v.site);
    browser_wait(&v.browser, "return document.querySelector('#status').dataset.state === 'idle'");
    browser_click(&v.browser, "#lock-go"); /* with the new token */
    browser_wait(&v.browser, "return document.querySelector('#status').dataset.state === 'playing'");
    browser_click(&v.browser, "#lock-stop");
    browser_wait(&v.browser, "return document.querySelector('#status').dataset.state === 'ended'");
    proc_kill(&v.site.proc, SIGKILL); /* while nothing runs */
    CHECK(proc_wait(&v.site.proc, 10000, &status));
    browser_wait(&v.browser, "return document.querySelector('#status').dataset.state === 'lost'");
    check_quiet(&v, true);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the first lesson by mouse", by_mouse);
    harness_run("the first lesson by keyboard", by_keyboard);
    harness_run("steps back and forward", steps);
    harness_run("a reload in the middle", reload);
    harness_run("a sale, live", sale);
    harness_run("a lock, live", lock);
    harness_run("recordings", recordings);
    harness_run("the server dies and comes back", server_dies);
    return harness_finish();
}
