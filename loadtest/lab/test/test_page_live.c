/* The page in a real browser: a live sale, a live lock, a reload in the middle, and what happens when the
 * server goes away. In each test the console stays free of errors, and no other host is asked. */
#include <signal.h>
#include <string.h>

#include "loadtest/lab/test/lab_page.h"

enum { SALE_STEPS = 16 };

/* Of the newest run, which has ended. */
static int count_events(void) {
    static const char before[] = "\"run\":{\"run\":\"";
    struct web_response response;
    int count = 0;
    CHECK_INT(lab_site_call(&page_site, "GET", "/api/lab", NULL, NULL, &response), 200);
    const char *id = strstr(response.body, before);
    CHECK(id);
    id += sizeof before - 1;
    const char *path = harness_format("/api/runs/%.*s/events", (int)strcspn(id, "\""), id);
    CHECK_INT(lab_site_call(&page_site, "GET", path, NULL, NULL, &response), 200);
    for (const char *at = response.body; (at = strstr(at, "\nid: ")); at++)
        count++; /* the first line is the play */
    return count;
}

static void reload(void) {
    page_open("#/lock");
    page_click("#lock-go");
    page_wait("Number($('#player').dataset.n) > 10");
    browser_open(&page_browser,
                 lab_site_url(&page_site, "#/recordings")); /* of the same page: another view */
    page_run("location.reload()");
    page_wait("location.hash === '#/lock' && $('#lock-stop')");
    page_wait("Number($('#player').dataset.n) > 12");
    page_wait_data("#status", "state", "playing");
    page_click("#player-back");
    page_click("#lock-stop");
    page_wait_data("#status", "state", "ended");
    page_wait("$('#verdict').dataset.outcome !== undefined");
    page_run("$('#player-seek').focus()");
    page_type(BROWSER_END); /* it has them all, also those from before the reload */
    page_wait_data("#player", "n", harness_format("%d", count_events()));
    page_check_quiet(false);
}

static void sale(void) {
    page_open("#/sale");
    page_sell();
    page_wait("$('[data-sale=naive]').dataset.oversold > 0");
    page_wait_data("[data-sale=lua]", "oversold", "0");
    page_wait_data("[data-sale=lua]", "sold", "500");
    page_wait("$('[data-sale=naive]').innerText.includes('that were not there')");
    page_wait("[...document.querySelectorAll('.plot-p50, .plot-p99')].filter(line => "
              "line.getAttribute('d').includes('L')).length === 4");
    page_wait("$('[data-sale=naive] .plot-orders').getAttribute('d') === '' && "
              "$('[data-sale=lua] .plot-orders').getAttribute('d') !== ''");
    browser_shoot(&page_browser, "sale");
    page_run("$('#player-seek').value = 0; $('#player-seek').dispatchEvent(new Event('input'))");
    page_wait_data("[data-sale=naive]", "sold", "0");
    for (int i = 0; i < SALE_STEPS; i++) { /* the right way is right at each event */
        long n = page_data("#stock", "n");
        page_click("#player-forward");
        page_wait_data("#stock", "n", harness_format("%ld", n + 1));
        CHECK_INT(page_data("[data-sale=lua]", "oversold"), 0);
    }
    page_check_quiet(false);
}

static void lock(void) {
    page_open("#/lock");
    page_run("window.button = (fault) => $(`[data-fault=${fault}][data-target='${window.paused}']`); "
             "window.$ = $; window.holder = () => $('#clients-believe').dataset.clients");
    page_click("#lock-go");
    page_wait("holder() !== ''");
    /* Whoever holds it now is paused, until its lease is over. */
    page_wait("(() => { window.paused = holder(); const b = button('pause'); if (!b || b.disabled) return "
              "false; b.click(); return true })()");
    page_wait("!button('resume').disabled");
    page_wait("holder() !== '' && holder() !== window.paused");
    page_run("button('resume').click()");
    page_wait("!button('pause').disabled");
    /* The key of whoever holds it expires, and another takes it. */
    page_wait("($('[data-fault=jump]').click(), !$('#disagree').hidden && "
              "$('#disagree').innerText.startsWith('2 clients believe'))");
    page_click("[data-fault='kill'][data-target='client-c']");
    page_wait("$('#clients').innerText.includes('client-c is dead')");
    browser_shoot(&page_browser, "lock");
    page_click("#lock-stop");
    page_wait("$('#verdict').dataset.outcome !== undefined");
    page_check_quiet(false);
}

static void kill_server(void) {
    int status;
    proc_kill(&page_site.proc, SIGKILL);
    CHECK(proc_wait(&page_site.proc, 10000, &status));
    page_wait_data("#status", "state", "lost");
}

static void server_dies(void) {
    page_open("#/lock");
    page_click("#lock-go");
    page_wait("Number($('#player').dataset.n) > 5");
    kill_server();
    lab_site_restart(&page_site);
    page_wait_data("#status", "state", "idle");
    page_click("#lock-go"); /* with the new token */
    page_wait_data("#status", "state", "playing");
    page_click("#lock-stop");
    page_wait_data("#status", "state", "ended");
    kill_server(); /* while nothing runs */
    page_check_quiet(true);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a reload in the middle", reload);
    harness_run("a sale, live", sale);
    harness_run("a lock, live", lock);
    harness_run("the server dies and comes back", server_dies);
    return harness_finish();
}
