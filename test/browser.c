/* A real browser: Debian's chromium, driven over WebDriver (W3C). */
#include "test/harness.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { START_MS = 60000, WAIT_MS = 60000, CALL_MS = 60000, PATH_SIZE = 200 };

#define ELEMENT "element-6066-11e4-a52e-4f735466cecf" /* as the protocol names a reference to one */

/* ---- calls ---- */

/* Takes `body` over, which may be NULL: then it is a GET. The value of the answer is the caller's. NULL, and
 * `error` says why: it was refused. */
static json_t *call(const struct browser *browser, const char *path, json_t *body, const char **error) {
    struct web_conn conn;
    struct web_response response = {.status = 0};
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!web_open_at(&conn, "127.0.0.1", browser->port, CALL_MS))
        FAIL("chromedriver does not listen on port %d", browser->port);
    enum web_result result = web_request(&conn, text ? "POST" : "GET", path,
                                         text ? "Content-Type: application/json\r\n" : NULL, text, &response);
    web_close(&conn);
    free(text);
    if (result != WEB_OK)
        FAIL("chromedriver does not answer %s", path);
    json_t *json = json_loads(response.body, 0, NULL), *value = json_incref(json_object_get(json, "value"));
    json_decref(json);
    if (response.status == 200)
        return value;
    const char *message = json_string_value(json_object_get(value, "message"));
    *error = harness_format("%s", message ? message : response.body);
    json_decref(value);
    return NULL;
}

static json_t *session_call(const struct browser *browser, const char *path, json_t *body) {
    const char *error = "";
    json_t *value = call(browser, harness_format("/session/%s/%s", browser->session, path), body, &error);
    if (!value)
        FAIL("%s: %.300s", path, error);
    return value;
}

/* ---- begin and end ---- */

static bool is_ready(void *arg) {
    const struct browser *browser = arg;
    return web_call(browser->port, "GET", "/status", NULL, NULL, NULL) == 200;
}

/* In a namespace of its own, so that what it has started ends with it, however it ends. */
static void start_driver(struct browser *browser) {
    const char *argv[8];
    size_t count = 0;
    browser->port = harness_free_port();
    argv[count++] = "unshare";
    if (geteuid() != 0)
        argv[count++] = "--map-root-user";
    argv[count++] = "--pid";
    argv[count++] = "--fork";
    argv[count++] = "--kill-child";
    argv[count++] = "chromedriver";
    argv[count++] = harness_format("--port=%d", browser->port);
    argv[count] = NULL;
    proc_spawn(&browser->driver, argv, NULL,
               harness_format("%s/chromedriver-%d.log", harness_dir(), browser->port));
    if (!harness_wait(is_ready, browser, START_MS))
        FAIL("chromedriver does not start");
}

/* It asks no host but those of this machine. */
static json_t *arguments(const struct browser *browser, int width, int height) {
    static const char *const always[] = {"--headless=new",
                                         "--no-sandbox",
                                         "--disable-dev-shm-usage",
                                         "--disable-gpu",
                                         "--no-first-run",
                                         "--disable-background-networking",
                                         "--disable-component-update",
                                         "--disable-sync",
                                         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        json_array_append_new(list, json_string(always[i]));
    json_array_append_new(
        list, json_string(harness_format("--user-data-dir=%s/chromium-%d", harness_dir(), browser->port)));
    json_array_append_new(list, json_string(harness_format("--window-size=%d,%d", width, height)));
    return list;
}

static json_t *capabilities(const struct browser *browser, int width, int height) {
    return json_pack("{s:{s:{s:s, s:{s:s, s:s}, s:{s:o}}}}", "capabilities", "alwaysMatch", "browserName",
                     "chrome", "goog:loggingPrefs", "browser", "ALL", "performance", "ALL",
                     "goog:chromeOptions", "args", arguments(browser, width, height));
}

void browser_start(struct browser *browser, int width, int height) {
    const char *error = "";
    start_driver(browser);
    json_t *value = call(browser, "/session", capabilities(browser, width, height), &error);
    const char *session = json_string_value(json_object_get(value, "sessionId"));
    if (!session)
        FAIL("chromium does not start: %.500s", error);
    snprintf(browser->session, sizeof browser->session, "%s", session);
    json_decref(value);
}

/* ---- what a user does ---- */

void browser_open(const struct browser *browser, const char *url) {
    json_decref(session_call(browser, "url", json_pack("{s:s}", "url", url)));
}

void browser_resize(const struct browser *browser, int width, int height) {
    json_decref(
        session_call(browser, "window/rect", json_pack("{s:i, s:i}", "width", width, "height", height)));
}

static const char *element_of(json_t *value) {
    const char *id = json_string_value(json_object_get(value, ELEMENT));
    if (!id)
        FAIL("the browser names no element");
    return harness_format("%s", id);
}

struct clicked {
    const struct browser *browser;
    const char *selector, *error;
};

/* The page may move while the mouse is on its way. */
static bool is_clicked(void *arg) {
    struct clicked *clicked = arg;
    const char *session = clicked->browser->session;
    json_t *found =
        call(clicked->browser, harness_format("/session/%s/element", session),
             json_pack("{s:s, s:s}", "using", "css selector", "value", clicked->selector), &clicked->error);
    if (!found)
        return false;
    const char *path = harness_format("/session/%s/element/%s/click", session, element_of(found));
    json_decref(found);
    json_t *done = call(clicked->browser, path, json_object(), &clicked->error);
    json_decref(done);
    return done;
}

void browser_click(const struct browser *browser, const char *selector) {
    struct clicked clicked = {browser, selector, ""};
    browser_wait(browser, harness_format("const e = document.querySelector(%s); return e && !e.disabled && "
                                         "e.getClientRects().length > 0",
                                         browser_quote(selector)));
    if (!harness_wait(is_clicked, &clicked, WAIT_MS))
        FAIL("%s cannot be clicked: %.300s", selector, clicked.error);
}

static void add_key(json_t *actions, const char *type, const char *key, size_t length) {
    json_array_append_new(actions, json_pack("{s:s, s:o}", "type", type, "value", json_stringn(key, length)));
}

void browser_type(const struct browser *browser, const char *keys) {
    json_t *actions = json_array();
    for (size_t length; *keys != '\0'; keys += length) {
        length = 1;
        while (((unsigned char)keys[length] & 0xc0) == 0x80) /* of one character in UTF-8 */
            length++;
        add_key(actions, "keyDown", keys, length);
        add_key(actions, "keyUp", keys, length);
    }
    json_decref(session_call(
        browser, "actions",
        json_pack("{s:[{s:s, s:s, s:o}]}", "actions", "type", "key", "id", "keyboard", "actions", actions)));
}

/* ---- what a user sees ---- */

const char *browser_quote(const char *text) {
    json_t *json = json_string(text);
    char *quoted = json_dumps(json, JSON_ENCODE_ANY);
    const char *kept = harness_format("%s", quoted);
    free(quoted);
    json_decref(json);
    return kept;
}

const char *browser_run(const struct browser *browser, const char *script) {
    json_t *value = session_call(browser, "execute/sync", json_pack("{s:s, s:[]}", "script", script, "args"));
    const char *text = json_string_value(value);
    char *dumped = !text ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const char *kept = harness_format("%s", text ? text : dumped);
    free(dumped);
    json_decref(value);
    return kept;
}

struct awaited {
    const struct browser *browser;
    const char *script;
};

static bool is_so(void *arg) {
    const struct awaited *awaited = arg;
    const char *said = browser_run(awaited->browser, awaited->script);
    return strcmp(said, "false") != 0 && strcmp(said, "null") != 0 && said[0] != '\0';
}

void browser_wait(const struct browser *browser, const char *script) {
    struct awaited awaited = {browser, script};
    if (harness_wait(is_so, &awaited, WAIT_MS))
        return;
    browser_shoot(browser, "failed");
    FAIL("this does not come true: %s; the page says: %.1500s", script,
         browser_run(browser, "return document.body.innerText"));
}

/* Of each entry of a log the text. */
static const char *read_log(const struct browser *browser, const char *type) {
    json_t *list = session_call(browser, "se/log", json_pack("{s:s}", "type", type));
    const char *all = "";
    for (size_t i = 0; i < json_array_size(list); i++)
        all = harness_format("%s%s\n", all,
                             json_string_value(json_object_get(json_array_get(list, i), "message")));
    json_decref(list);
    return all;
}

const char *browser_console(const struct browser *browser) {
    return read_log(browser, "browser");
}

const char *browser_requests(const struct browser *browser) {
    json_t *list = session_call(browser, "se/log", json_pack("{s:s}", "type", "performance"));
    const char *all = "";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *message = json_string_value(json_object_get(json_array_get(list, i), "message")), *url;
        json_t *json = message ? json_loads(message, 0, NULL) : NULL;
        if (json_unpack(json, "{s:{s:{s:{s:s}}}}", "message", "params", "request", "url", &url) == 0)
            all = harness_format("%s%s\n", all, url);
        json_decref(json);
    }
    json_decref(list);
    return all;
}

/* ---- pictures ---- */

/* Base64. */
static size_t decode(const char *text, unsigned char **bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char *out = *bytes = harness_alloc(strlen(text) + 1);
    unsigned bits = 0, count = 0;
    for (const char *digit; *text != '\0' && (digit = strchr(digits, *text)); text++) {
        bits = bits << 6 | (unsigned)(digit - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            *out++ = (unsigned char)(bits >> count);
        }
    }
    return (size_t)(out - *bytes);
}

void browser_shoot(const struct browser *browser, const char *name) {
    const char *directory = getenv("SECKILL_SHOTS");
    if (!directory)
        return;
    json_t *value = session_call(browser, "screenshot", NULL);
    unsigned char *picture;
    size_t size = decode(json_string_value(value), &picture);
    FILE *out = fopen(harness_format("%s/%s.png", directory, name), "w");
    CHECK(out && fwrite(picture, 1, size, out) == size && fclose(out) == 0);
    json_decref(value);
}
