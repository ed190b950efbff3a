#include "loadtest/lab/test/lab_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOLLAR "const $ = (selector) => document.querySelector(selector); "

struct lab_site page_site;
struct browser page_browser;

void page_open(const char *path) {
    lab_site_start(&page_site);
    browser_start(&page_browser, 1280, 900);
    browser_open(&page_browser, lab_site_url(&page_site, path));
    page_wait("$('main h1')");
}

void page_click(const char *selector) {
    browser_click(&page_browser, selector);
}

void page_type(const char *keys) {
    browser_type(&page_browser, keys);
}

static const char *format_list(const char *format, va_list arguments) {
    char *text = NULL;
    CHECK(vasprintf(&text, format, arguments) >= 0);
    const char *kept = harness_format("%s", text);
    free(text);
    return kept;
}

void page_run(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    browser_run(&page_browser, harness_format(DOLLAR "%s; return 1", format_list(format, arguments)));
    va_end(arguments);
}

void page_wait(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    browser_wait(&page_browser, harness_format(DOLLAR "return !!(%s)", format_list(format, arguments)));
    va_end(arguments);
}

void page_wait_data(const char *selector, const char *name, const char *value) {
    page_wait("$(%s)?.dataset.%s === '%s'", browser_quote(selector), name, value);
}

long page_data(const char *selector, const char *name) {
    return strtol(browser_run(&page_browser, harness_format("return document.querySelector(%s).dataset.%s",
                                                            browser_quote(selector), name)),
                  NULL, 10);
}

void page_sell(void) {
    page_run("const f = $('#sale-form').elements; f.stock.value = 500; f.seconds.value = 1");
    page_click("#sale-go");
    page_wait_data("#verdict", "outcome", "reproduced");
}

void page_drop(const char *name, const char *text) {
    page_run("const data = new DataTransfer(); data.items.add(new File([%s], %s)); "
             "$('main').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: "
             "true}))",
             browser_quote(text), browser_quote(name));
}

void page_check_quiet(bool was_away) {
    const char *own = harness_format("http://127.0.0.1:%d/", page_site.port);
    char *line, *rest = harness_format("%s", browser_console(&page_browser));
    while ((line = strsep(&rest, "\n"))) {
        bool is_absence = strstr(line, "Failed to load resource") || strstr(line, "net::ERR_");
        if (*line && !(was_away && is_absence))
            FAIL("the console says: %s", line);
    }
    bool is_logged = false;
    rest = harness_format("%s", browser_requests(&page_browser));
    while ((line = strsep(&rest, "\n"))) {
        bool is_own = strncmp(line, own, strlen(own)) == 0;
        is_logged = is_logged || is_own;
        if (strncmp(line, "http", 4) == 0 && !is_own) /* not the browser's own chrome: */
            FAIL("the page asks %s", line);
    }
    CHECK(is_logged); /* else nothing was seen, whatever it asked */
}
