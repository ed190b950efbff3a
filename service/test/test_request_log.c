/* The log in JSON, and its line for each call of operators and of the shop. */
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "service/rfc3339.h"
#include "service/test/shop.h"

enum { TIME_MS = 10000, THREADS = 8, CALLS = 100 };

/* ---- reading a log ---- */

static void json_free(void *json) {
    json_decref(json);
}

static const char *member(const json_t *line, const char *name) {
    const char *text = json_string_value(json_object_get(line, name));
    if (!text)
        FAIL("no member %s in %s", name, json_dumps(line, 0));
    return text;
}

static bool is_call(const json_t *line) {
    return json_object_get(line, "who");
}

/* It has exactly the members of its kind. */
static void check_members(const json_t *line, const char *text) {
    static const char *const levels[] = {"info", "warning", "error"};
    size_t members = 3, level = 0;
    int64_t ms;
    CHECK(rfc3339_read(member(line, "time"), &ms));
    while (level < 3 && strcmp(levels[level], member(line, "level")) != 0)
        level++;
    CHECK(level < 3);
    CHECK(*member(line, "message"));
    if (is_call(line)) {
        members = json_object_get(line, "problem") ? 11 : 10;
        CHECK_STR(member(line, "message"), "call");
        CHECK_STR(member(line, "level"), "info");
        CHECK(*member(line, "method") && *member(line, "path") && *member(line, "request_id"));
        CHECK(strlen(member(line, "trace_id")) == 32 &&
              strspn(member(line, "trace_id"), "0123456789abcdef") == 32);
        CHECK(json_is_integer(json_object_get(line, "status")));
        const json_t *took = json_object_get(line, "ms");
        CHECK(json_is_real(took) && json_real_value(took) >= 0 && json_real_value(took) < 600000);
        const char *fraction = strstr(text, "\"ms\":");
        fraction += strcspn(fraction, ".");
        CHECK_INT(strspn(fraction + 1, "0123456789"), 3);
        CHECK(members == 10 || *member(line, "problem"));
    }
    if (json_object_size(line) != members)
        FAIL("members that nobody knows: %s", text);
}

/* Every line of the log, each of which must be whole. Lives until the test ends. */
static json_t *read_lines(const struct proc *proc) {
    json_t *lines = json_array();
    harness_defer(json_free, lines);
    char *rest = proc_output(proc), *text;
    CHECK(*rest && rest[strlen(rest) - 1] == '\n');
    rest[strlen(rest) - 1] = '\0';
    while ((text = strsep(&rest, "\n"))) {
        json_error_t error;
        json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        if (!line || !json_is_object(line))
            FAIL("not an object of JSON: %s (%s)", text, error.text);
        json_array_append_new(lines, line);
        check_members(line, text);
    }
    return lines;
}

/* The first line with this member; NULL: there is none. */
static const json_t *find(const json_t *lines, const char *name, const char *value) {
    size_t i;
    json_t *line;
    json_array_foreach((json_t *)(uintptr_t)lines, i, line) {
        const char *has = json_string_value(json_object_get(line, name));
        if (has && strcmp(has, value) == 0)
            return line;
    }
    return NULL;
}

/* ---- which calls have a line, and what is in it ---- */

#define TRACE   "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT  "traceparent: 00-" TRACE "-00f067aa0ba902b7-01\r\n"
#define BUYING  "{\"item\":\"phone\",\"user\":\"ann-of-the-body\",\"quantity\":1}"
#define FOREIGN "Authorization: Bearer wr0ng-token\r\n"

/* `logged`: "WHO STATUS PROBLEM" of its line, - for none; NULL: it has no line. */
static const struct call {
    const char *method, *path, *headers, *body, *logged;
} calls[] = {
    {"PUT", "/v1/items/phone", SECKILLD_ADMIN PARENT, "{\"stock\":5}", "admin 201 -"},
    {"PUT", "/v1/items/phone", SECKILLD_ADMIN, "{\"stock\":5}", "admin 200 -"},
    {"PUT", "/v1/items/phone", SECKILLD_ADMIN, "{\"stock\":6}", "admin 409 item-exists"},
    {"PUT", "/v1/items/lamp", "", "{\"stock\":5}", "- 401 unauthorized"},
    {"PUT", "/v1/items/lamp", FOREIGN, "{\"stock\":5}", "- 401 unauthorized"},
    {"PUT", "/v1/items/lamp", SECKILLD_ADMIN, "{\"stock\":", "admin 400 invalid-request"},
    {"POST", "/v1/items/phone/restock", SECKILLD_ADMIN, "{\"quantity\":1}", "admin 400 key-missing"},
    {"POST", "/v1/items/phone/restock", SECKILLD_ADMIN "Idempotency-Key: secret-key\r\n", "{\"quantity\":1}",
     "admin 200 -"},
    {"GET", "/v1/items/phone/audit?token=in-the-query", SECKILLD_ADMIN, NULL, "admin 200 -"},
    {"GET", "/v1/audit", SECKILLD_ADMIN, NULL, "admin 200 -"},
    {"GET", "/v1/lock", SECKILLD_ADMIN, NULL, "admin 200 -"},
    {"HEAD", "/v1/lock", SECKILLD_ADMIN, NULL, "admin 200 -"},
    /* The shop, which needs no token. */
    {"POST", "/v1/orders/phone:x/confirm", "", NULL, "- 404 unknown-order"},
    {"POST", "/v1/baskets/x/confirm", "", NULL, "- 404 unknown-basket"},
    {"POST", "/v1/baskets/x/confirm", SECKILLD_ADMIN, NULL, "admin 404 unknown-basket"},
    /* Buyers. */
    {"POST", "/v1/purchases", "Idempotency-Key: secret-key\r\n", BUYING, NULL},
    {"POST", "/v1/purchases", "", BUYING, NULL},
    {"POST", "/v1/purchases", FOREIGN "Idempotency-Key: secret-key\r\n", BUYING, NULL},
    {"GET", "/v1/items/phone", "", NULL, NULL},
    {"GET", "/v1/orders/phone:x", "", NULL, NULL},
    {"POST", "/v1/orders/phone:x/cancel", "", NULL, NULL},
    /* The same by somebody who has a name. */
    {"POST", "/v1/purchases", SECKILLD_ADMIN "Idempotency-Key: secret-key\r\n", BUYING, "admin 201 -"},
    {"GET", "/v1/items/phone", SECKILLD_ADMIN, NULL, NULL},
    {"GET", "/openapi.json", SECKILLD_ADMIN, NULL, NULL},
    /* What programs ask every few seconds, and what is no call. */
    {"GET", "/livez", "", NULL, NULL},
    {"GET", "/readyz", "", NULL, NULL},
    {"GET", "/metrics", SECKILLD_ADMIN, NULL, NULL},
    {"GET", "/openapi.json", "", NULL, NULL},
    {"GET", "/nothing", SECKILLD_ADMIN, NULL, NULL},
    {"DELETE", "/v1/items/phone", SECKILLD_ADMIN, NULL, NULL},
};

enum { CALLS_HERE = sizeof calls / sizeof *calls };

static void check_line(const json_t *line, const struct call *call, size_t i) {
    const char *who = member(line, "who"), *problem = json_string_value(json_object_get(line, "problem"));
    CHECK_STR(harness_format("%s %lld %s", *who ? who : "-",
                             (long long)json_integer_value(json_object_get(line, "status")),
                             problem ? problem : "-"),
              call->logged);
    CHECK_STR(member(line, "method"), call->method);
    CHECK_STR(member(line, "path"), harness_format("%.*s", (int)strcspn(call->path, "?"), call->path));
    CHECK_STR(member(line, "request_id"), harness_format("call-%zu", i));
    CHECK((strcmp(member(line, "trace_id"), TRACE) == 0) == (strstr(call->headers, PARENT) != NULL));
}

static void check_no_secrets(const char *log) {
    static const char *const secrets[] = {"test-token", "hunter2",     "wr0ng",        "Bearer",
                                          "secret-key", "of-the-body", "in-the-query", "stock\\\""};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (strstr(log, secrets[i]))
            FAIL("%s is in the log: %s", secrets[i], log);
}

static void calls_and_their_lines(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_conn conn;
    struct web_response response;
    redis_start(&redis, "--requirepass", "hunter2", NULL);
    const char *url = harness_format("redis://:hunter2@127.0.0.1:%d", redis.port);
    seckilld_start_ready(&service, 1, "--log", "json", "--redis", url, "--lock", url, "--workers", "2", NULL);
    CHECK(web_open(&conn, service.port));
    for (size_t i = 0; i < CALLS_HERE; i++) {
        const struct call *call = &calls[i];
        const char *text = harness_format("%s %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: call-%zu\r\n%s"
                                          "Content-Length: %zu\r\n\r\n%s",
                                          call->method, call->path, i, call->headers,
                                          call->body ? strlen(call->body) : 0, call->body ? call->body : "");
        web_send_text(&conn, text);
        bool head = strcmp(call->method, "HEAD") == 0;
        CHECK_INT((head ? web_read_head : web_read_response)(&conn, &response), WEB_OK);
        CHECK_STR(web_header(&response, "X-Request-Id"), harness_format("call-%zu", i));
    }
    web_close(&conn);
    CHECK_INT(seckilld_stop(&service), 0);
    const json_t *lines = read_lines(&service.proc);
    size_t logged = 0, at;
    json_t *line;
    for (size_t i = 0; i < CALLS_HERE; i++) {
        const json_t *found = find(lines, "request_id", harness_format("call-%zu", i));
        if ((found != NULL) != (calls[i].logged != NULL))
            FAIL("%s %s (%zu) is %slogged", calls[i].method, calls[i].path, i, found ? "" : "not ");
        if (found)
            check_line(found, &calls[i], i);
        logged += found != NULL;
    }
    json_array_foreach((json_t *)(uintptr_t)lines, at, line) logged -= is_call(line);
    CHECK_INT(logged, 0);
    check_no_secrets(proc_output(&service.proc));
    CHECK(find(lines, "message", harness_format("the store redis://127.0.0.1:%d/0 is there", redis.port)));
    CHECK(find(lines, "message", "ended"));
}

/* At the door of buyers there are no calls of operators; what is sent there is nobody's call. */
static void at_two_doors(void) {
    struct redis_server redis;
    struct seckilld service;
    int buyers = harness_free_port();
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--log", "json", "--listen",
                         harness_format("127.0.0.1:%d", buyers), "--operator-listen",
                         harness_format("127.0.0.1:%d", harness_free_port()), NULL);
    CHECK_INT(shop_admin(buyers, "GET", "/v1/audit", NULL, NULL), 404);
    CHECK_INT(shop_order(buyers, "phone:x", "confirm", NULL), 404);
    CHECK_INT(shop_admin(service.port, "GET", "/v1/lock", NULL, NULL), 200);
    CHECK_INT(seckilld_stop(&service), 0);
    const json_t *lines = read_lines(&service.proc);
    size_t i, logged = 0;
    json_t *line;
    json_array_foreach((json_t *)(uintptr_t)lines, i, line) logged += is_call(line);
    CHECK_INT(logged, 1);
    CHECK_STR(member(find(lines, "message", "call"), "path"), "/v1/lock");
}

static void as_text(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_response response;
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--log", "text", NULL);
    CHECK_INT(shop_admin(service.port, "PUT", "/v1/items/phone", "{\"stock\":1}", &response), 201);
    CHECK(web_header(&response, "X-Request-Id") != NULL);
    CHECK_INT(seckilld_stop(&service), 0);
    const char *log = proc_output(&service.proc);
    CHECK_HAS(log, " info  ended\n");
    CHECK_HAS(log, " info  admin calls PUT /v1/items/phone\n");
    CHECK(!strstr(log, "{"));
}

/* ---- any bytes ---- */

static void odd_paths(void) {
    struct redis_server redis;
    struct seckilld service;
    static const struct {
        const char *asked, *logged;
    } paths[] = {
        {"/v1/items/%22%5c%0a%0d%09%01%1f%7f", "/v1/items/\"\\\n\r\t\1\x1f\x7f"},
        {"/v1/items/%c3%a9%e2%82%ac%f0%9f%93%b1", "/v1/items/é€📱"},
        {"/v1/items/%ff%c0%af%e2%82", "/v1/items/\ufffd\ufffd\ufffd\ufffd\ufffd"},
        {"/v1/items/a%2fb%00c", "/v1/items/a   b c"},
        {"/v1/items/%22%2c%22who%22%3a%22admin", "/v1/items/\",\"who\":\"admin"},
    };
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--log", "json", NULL);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CHECK_INT(shop_admin(service.port, "PUT", paths[i].asked, "{\"stock\":1}", NULL), 400);
    char *longest = harness_format("/v1/items/%s", harness_repeat('%', 1800)); /* 600 bytes, each escaped */
    for (char *at = longest + strlen("/v1/items/"); *at; at += 3)
        at[1] = '0', at[2] = '1';
    CHECK_INT(shop_admin(service.port, "PUT", longest, "{\"stock\":1}", NULL), 400);
    CHECK_INT(seckilld_stop(&service), 0);
    const json_t *lines = read_lines(&service.proc);
    size_t i, seen = 0;
    json_t *line;
    json_array_foreach((json_t *)(uintptr_t)lines, i, line) {
        if (!is_call(line))
            continue;
        const char *path = member(line, "path");
        if (seen < sizeof paths / sizeof *paths)
            CHECK_STR(path, paths[seen].logged);
        else
            CHECK_INT(strlen(path), 511);
        seen++;
    }
    CHECK_INT(seen, sizeof paths / sizeof *paths + 1);
}

static bool has_begun(void *proc) {
    return strstr(proc_output(proc), " on http://");
}

/* The name of a variable, which a warning tells, may have any bytes but = and NUL. */
static void odd_messages(void) {
    static const struct {
        const char *variable, *told;
    } names[] = {
        {"quote\"back\\slash", "quote\"back\\slash"},
        {"\1\n\t\x1f\x7f", "\1\n\t\x1f\x7f"},
        {"é€📱\xef\xbf\xbf\xf4\x8f\xbf\xbf", "é€📱\xef\xbf\xbf\xf4\x8f\xbf\xbf"},
        {"1\x80\xbf\xc1\xbf-", "1\ufffd\ufffd\ufffd\ufffd-"},           /* without a beginning; too long */
        {"2\xe0\x9f\xbf-", "2\ufffd\ufffd\ufffd-"},                     /* longer than needed */
        {"3\xed\xa0\x80-", "3\ufffd\ufffd\ufffd-"},                     /* a surrogate */
        {"4\xf4\x90\x80\x80\xf5-", "4\ufffd\ufffd\ufffd\ufffd\ufffd-"}, /* beyond the last */
        {"5\xf0\x8f\xbf\xbf-", "5\ufffd\ufffd\ufffd\ufffd-"},
        {"6\xe2\x82", "6\ufffd\ufffd"}, /* cut off */
    };
    enum { NAMES = sizeof names / sizeof *names };
    struct proc proc;
    int status, port = harness_free_port();
    const char *argv[] = {harness_format("%s/seckilld", harness_build()),
                          "--listen",
                          harness_format("127.0.0.1:%d", port),
                          "--redis",
                          "redis://127.0.0.1:1",
                          NULL};
    const char *env[NAMES + 4] = {"SECKILL_LOG=json", "SECKILL_ADMIN_TOKEN=x",
                                  harness_format("SECKILL_%s=1", harness_repeat('\1', 5000))};
    for (size_t i = 0; i < NAMES; i++)
        env[i + 3] = harness_format("SECKILL_%s=1", names[i].variable);
    proc_spawn(&proc, argv, env, harness_format("%s/odd.log", harness_dir()));
    CHECK(harness_wait(has_begun, &proc, TIME_MS));
    proc_kill(&proc, SIGTERM);
    CHECK(proc_wait(&proc, TIME_MS, &status) && status == 0);
    const json_t *lines = read_lines(&proc);
    for (size_t i = 0; i < NAMES; i++) {
        const json_t *line = find(lines, "message",
                                  harness_format("the environment's SECKILL_%s is no setting, and is ignored "
                                                 "(see --help)",
                                                 names[i].told));
        if (!line)
            FAIL("no line tells of %zu: %s", i, proc_output(&proc));
        CHECK_STR(member(line, "level"), "warning");
    }
}

/* ---- many at once, and who leaves ---- */

struct caller {
    pthread_t thread;
    int port, number;
};

static void *call_often(void *arg) {
    const struct caller *caller = arg;
    struct web_conn conn;
    struct web_response response;
    if (!web_open(&conn, caller->port))
        return NULL;
    for (int i = 0; i < CALLS; i++) {
        char headers[200];
        snprintf(headers, sizeof headers, SECKILLD_ADMIN "X-Request-Id: many-%d-%d\r\n", caller->number, i);
        if (web_request(&conn, "GET", "/v1/lock", headers, NULL, &response) != WEB_OK ||
            response.status != 200)
            break;
    }
    web_close(&conn);
    return NULL;
}

static void whole_lines(void) {
    struct redis_server redis;
    struct seckilld service;
    struct caller callers[THREADS];
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--log", "json", "--workers", "4", NULL);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.port = service.port, .number = i};
        CHECK_INT(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    CHECK_INT(seckilld_stop(&service), 0);
    const json_t *lines = read_lines(&service.proc);
    size_t i, logged = 0;
    json_t *line;
    json_array_foreach((json_t *)(uintptr_t)lines, i, line) logged += is_call(line);
    CHECK_INT(logged, THREADS * CALLS);
}

/* A client that has left before its answer: its call was made, and has a line. */
static void who_has_left(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_conn conn;
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--log", "json", "--store-timeout", "500", NULL);
    redis_pause(&redis);
    for (int i = 0; i < 20; i++) {
        CHECK(web_open(&conn, service.port));
        web_send_text(&conn, harness_format("PUT /v1/items/lamp-%d HTTP/1.1\r\nHost: x\r\n" SECKILLD_ADMIN
                                            "X-Request-Id: left-%d\r\nContent-Length: 11\r\n\r\n"
                                            "{\"stock\":1}",
                                            i, i));
        web_close(&conn);
    }
    for (int i = 0; i < 20; i++)
        seckilld_wait_log(&service, harness_format("\"left-%d\"", i));
    redis_resume(&redis);
    CHECK_INT(seckilld_stop(&service), 0);
    const json_t *lines = read_lines(&service.proc);
    for (int i = 0; i < 20; i++) {
        const json_t *line = find(lines, "request_id", harness_format("left-%d", i));
        CHECK_STR(member(line, "method"), "PUT");
        CHECK_STR(member(line, "path"), harness_format("/v1/items/lamp-%d", i));
        CHECK_STR(member(line, "problem"), "store-unavailable");
        CHECK_INT(json_integer_value(json_object_get(line, "status")), 503);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("calls of operators and the shop have a line, without secrets", calls_and_their_lines);
    harness_run("two doors", at_two_doors);
    harness_run("as text, who changes something is named", as_text);
    harness_run("paths of any bytes", odd_paths);
    harness_run("messages of any bytes", odd_messages);
    harness_run("calls at once leave whole lines", whole_lines);
    harness_run("a client that has left", who_has_left);
    return harness_finish();
}
