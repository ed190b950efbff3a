/* The page in a real browser: lessons by mouse and by keyboard, steps in time, recordings. In each test the
 * console stays free of errors, and no other host is asked. */
#include <string.h>

#include "loadtest/lab/test/lab_page.h"

enum { KEYS_MAX = 80 };

/* The state of the lamp at the end of the play. */
static void check_lamp(const char *sold, const char *excess) {
    page_wait_data("#stock [data-item='lamp']", "sold", sold);
    page_wait_data("#stock [data-item='lamp']", "excess", excess);
}

static void by_mouse(void) {
    page_open("");
    page_click("[data-card='no-lock']");
    page_click("#guess input[value='1']");
    page_click("#run-broken");
    page_wait_data("#verdict", "outcome", "reproduced");
    page_wait("$('#answer').innerText === 'You were right.'");
    page_wait("$('#code mark')");
    check_lamp("2", "1");
    browser_shoot(&page_browser, "lesson-broken");
    page_click("#run-fixed");
    page_wait_data("#verdict", "outcome", "held");
    check_lamp("1", "0");
    page_wait("$('#timeline-fixed').getClientRects().length > 0");
    page_wait_data("#ladder [data-scenario='no-lock']", "progress", "done");
    browser_shoot(&page_browser, "lesson-fixed");
    page_click(".pictures h2 button"); /* back to the broken play, with its verdict */
    page_wait_data("#verdict", "outcome", "reproduced");
    check_lamp("2", "1");
    page_click(".pictures h2 ~ h2 button");
    page_wait_data("#verdict", "outcome", "held");
    page_click("#next-lesson");
    page_wait("location.hash === '#/lessons/strategies'");
    page_check_quiet(false);
}

/* Presses Tab until the focus is on this element, and then the key. */
static void tab_and_press(const char *selector, const char *key) {
    const char *has_focus =
        harness_format("return document.activeElement.matches(%s)", browser_quote(selector));
    for (int i = 0; i < KEYS_MAX; i++) {
        if (strcmp(browser_run(&page_browser, has_focus), "true") == 0) {
            page_type(key);
            return;
        }
        page_type(BROWSER_TAB);
    }
    FAIL("the Tab key does not lead to %s", selector);
}

static void by_keyboard(void) {
    page_open("");
    tab_and_press("[data-card='no-lock']", BROWSER_ENTER);
    page_wait("$('#guess')");
    tab_and_press("#guess input", BROWSER_DOWN);
    page_wait("$('#guess').elements.answer.value === '1'");
    tab_and_press("#run-broken", BROWSER_ENTER);
    page_wait_data("#verdict", "outcome", "reproduced");
    check_lamp("2", "1");
    tab_and_press("#player-seek", BROWSER_HOME);
    page_wait_data("#player", "t", "0");
    long first = page_data("#player", "n");
    page_type(BROWSER_RIGHT);
    page_wait_data("#player", "n", harness_format("%ld", first + 1));
    page_type(BROWSER_LEFT);
    page_wait_data("#player", "n", harness_format("%ld", first));
    page_type(" "); /* it plays, to the end */
    check_lamp("2", "1");
    page_type(BROWSER_END);
    check_lamp("2", "1");
    tab_and_press("#run-fixed", BROWSER_ENTER);
    page_wait_data("#verdict", "outcome", "held");
    check_lamp("1", "0");
    page_check_quiet(false);
}

/* Back to before the second sale, and on: the same as before. */
static void steps(void) {
    static const char step[] = "return document.querySelector('#step').innerText";
    page_open("#/lessons/two-processes");
    page_click("#guess input[value='0']");
    page_click("#run-broken");
    page_wait_data("#verdict", "outcome", "reproduced");
    check_lamp("2", "1");
    page_wait("$('#answer').innerText.startsWith('You guessed otherwise')");
    const char *end = browser_run(&page_browser, step);
    long last = page_data("#player", "n"), n = last;
    for (; n > 1 && page_data("#stock [data-item='lamp']", "sold") > 1; n--) {
        page_click("#player-back");
        page_wait_data("#stock", "n", harness_format("%ld", n - 1));
    }
    CHECK(n > 1 && n < last);
    check_lamp("1", "0");
    while (n++ < last)
        page_click("#player-forward");
    page_wait_data("#player", "n", harness_format("%ld", last));
    CHECK_STR(browser_run(&page_browser, step), end);
    check_lamp("2", "1");
    page_click("#verdict [data-n]"); /* evidence leads to its event */
    CHECK_INT(page_data("#player", "n"), page_data("#verdict [data-n]", "n"));
    page_check_quiet(false);
}

static void recordings(void) {
    page_open("");
    page_drop("events.broken.jsonl", lab_site_file("loadtest/lab/test/plays/maotai.broken.jsonl"));
    page_wait_data("#verdict", "outcome", "reproduced");
    page_wait("location.hash === '#/recordings'");
    CHECK_INT(page_data("#player", "n"), 30);
    page_run("$('#player-seek').value = 1700; $('#player-seek').dispatchEvent(new Event('input'))");
    page_wait_data("#clients-believe", "clients", "client-b client-c");
    page_wait("$('#disagree').innerText.startsWith('2 clients believe')");
    browser_shoot(&page_browser, "recording");
    page_drop("wrong.jsonl", "{\"format\":\"seckill-events/1\"}\nnonsense\n");
    page_wait("!$('#problem').hidden && $('#problem').innerText.includes('wrong.jsonl, line 2')");
    page_run("const data = new DataTransfer(); for (const name of ['a', 'b', 'c']) data.items.add(new "
             "File(['{}'], name)); $('main').dispatchEvent(new DragEvent('drop', {dataTransfer: data, "
             "bubbles: true, cancelable: true}))");
    page_wait("$('#problem').innerText.includes('3 files')");
    page_check_quiet(false);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the first lesson by mouse", by_mouse);
    harness_run("the first lesson by keyboard", by_keyboard);
    harness_run("steps back and forward", steps);
    harness_run("recordings", recordings);
    return harness_finish();
}
