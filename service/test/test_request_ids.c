/* X-Request-Id and traceparent: taken from the request or made, on each answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/shop.h"

enum { MADE_LENGTH = 32, TRACEPARENT_LENGTH = 55 };

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static struct shop shop;

/* ---- what an answer has ---- */

static bool is_hex(const char *text, size_t length) {
    return strspn(text, "0123456789abcdef") >= length;
}

static bool is_traceparent(const char *text) {
    return strlen(text) == TRACEPARENT_LENGTH && strncmp(text, "00-", 3) == 0 && is_hex(text + 3, 32) &&
           strspn(text + 3, "0") < 32 && text[35] == '-' && is_hex(text + 36, 16) &&
           strspn(text + 36, "0") < 16 && text[52] == '-' && is_hex(text + 53, 2);
}

/* How many headers of that name there are. */
static int count(const struct web_response *response, const char *name) {
    const char *line = harness_format("\n%s: ", name), *at = response->headers;
    int n = 0;
    for (; (at = strcasestr(at, line)); at++)
        n++;
    return n;
}

static const char *id_of(const struct web_response *response, const char *name) {
    CHECK_INT(count(response, name), 1);
    return web_header(response, name);
}

/* The answer has this request id; NULL: one that was made for it alone. */
static void check_id(const struct web_response *response, const char *id) {
    static char last[MADE_LENGTH + 1];
    const char *has = id_of(response, "X-Request-Id");
    if (id) {
        CHECK_STR(has, id);
        return;
    }
    if (strlen(has) != MADE_LENGTH || !is_hex(has, MADE_LENGTH) || strcmp(has, last) == 0)
        FAIL("the request id %s was not made for this answer (the last was %s)", has, last);
    snprintf(last, sizeof last, "%s", has);
}

/* The same of the trace, whose flags are `flags`. The span is a new one each time. */
static void check_trace(const struct web_response *response, const char *trace, const char *flags) {
    static char last[TRACEPARENT_LENGTH + 1];
    const char *has = id_of(response, "traceparent");
    if (!is_traceparent(has) || strncmp(has + 36, last + 36, 16) == 0 || strncmp(has + 36, SPAN, 16) == 0)
        FAIL("traceparent: %s (the last was %s)", has, last);
    if ((strncmp(has + 3, trace ? trace : last + 3, 32) == 0) != (trace != NULL) ||
        strcmp(has + 53, flags) != 0)
        FAIL("traceparent: %s, not of the trace %s with %s", has, trace ? trace : "(a new one)", flags);
    snprintf(last, sizeof last, "%s", has);
}

static void check_made(const struct web_response *response) {
    check_id(response, NULL);
    check_trace(response, NULL, "00");
}

static void ask(const char *headers, struct web_response *response) {
    CHECK_INT(web_call(shop.port, "GET", "/livez", headers, NULL, response), 200);
}

/* ---- the request id ---- */

static void ids_are_taken(void) {
    struct web_response response;
    const char *good[] = {"a", "!#$%&'()*+-./:<=>?@[]^_`{|}~", "3f2a-Z.0", harness_repeat('x', 128)};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ask(harness_format("X-Request-Id: %s\r\n", good[i]), &response);
        check_id(&response, good[i]);
        check_trace(&response, NULL, "00");
    }
    ask("x-REQUEST-id:  \tlower \t \r\n", &response);
    check_id(&response, "lower");
}

static void bad_ids_are_not(void) {
    struct web_response response;
    const char *bad[] = {"",
                         " ",
                         "a b",
                         "a\tb",
                         "a\"b",
                         "a\\b",
                         "a,b",
                         "a;b",
                         "\x7f",
                         "\xc3\xa9",
                         "a\1b",
                         "a\x1b[2J",
                         "\"><script>",
                         "a\xff;",
                         harness_repeat('x', 129),
                         harness_repeat('x', 2000)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ask(harness_format("X-Request-Id: %s\r\n", bad[i]), &response);
        check_made(&response);
    }
    ask("X-Request-Id: one\r\nX-Request-Id: two\r\n", &response);
    check_made(&response);
    ask("X-Request-Id: one\r\nx-request-id: one\r\n", &response);
    check_made(&response);
    ask("X-Request-Id: \r\nX-Request-Id: two\r\n", &response);
    check_made(&response);
    ask("X-Request-Idx: one\r\nX-Request-I: one\r\nX_Request_Id: one\r\n", &response);
    check_made(&response);
}

/* ---- the trace ---- */

static void traces_are_taken(void) {
    static const struct {
        const char *value, *trace, *flags;
    } good[] = {
        {"00-" TRACE "-" SPAN "-01", TRACE, "01"},
        {"00-" TRACE "-" SPAN "-00", TRACE, "00"},
        {"00-00000000000000000000000000000001-0000000000000001-01", "00000000000000000000000000000001", "01"},
        {"01-" TRACE "-" SPAN "-01", TRACE, "01"}, /* of a version to come */
        {"fe-" TRACE "-" SPAN "-01-what-is-new", TRACE, "01"},
        {"cc-" TRACE "-" SPAN "-01-", TRACE, "01"},
    };
    struct web_response response;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ask(harness_format("traceparent: %s\r\n", good[i].value), &response);
        check_trace(&response, good[i].trace, good[i].flags);
        check_id(&response, NULL);
    }
    ask("TraceParent: \t00-" TRACE "-" SPAN "-01 \t\r\nX-Request-Id: both\r\n", &response);
    check_trace(&response, TRACE, "01");
    check_id(&response, "both");
}

static void bad_traces_are_not(void) {
    static const char *const bad[] = {
        "",
        "00",
        "x",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-011",
        "00-" TRACE "-" SPAN "-01-more",
        "00-" TRACE "-" SPAN "-01-",
        "01-" TRACE "-" SPAN "-01.more",
        "01-" TRACE "-" SPAN "-012",
        "ff-" TRACE "-" SPAN "-01",
        "0g-" TRACE "-" SPAN "-01",
        "FE-" TRACE "-" SPAN "-01",
        "0-" TRACE "-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-" TRACE "-00F067AA0BA902B7-01",
        "00-" TRACE "-" SPAN "-0A",
        "00-" TRACE "-" SPAN "-0x",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-" SPAN "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01",
        "00-" TRACE "-00f067aa0ba902bg-01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
        "\"00-" TRACE "-" SPAN "-01\"",
        "00-" TRACE "-" SPAN "-01,00-" TRACE "-" SPAN "-01",
    };
    struct web_response response;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ask(harness_format("traceparent: %s\r\n", bad[i]), &response);
        check_made(&response);
    }
    ask("traceparent: 00-" TRACE "-" SPAN "-01\r\ntraceparent: 00-" TRACE "-" SPAN "-01\r\n", &response);
    check_made(&response);
    ask("traceparent: 00-" TRACE "-" SPAN "-01\r\nTraceparent: \r\n", &response);
    check_made(&response);
}

/* ---- none twice ---- */

enum { ROUNDS = 400, CONNECTIONS = 8 };

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of all workers, and of the program when it is started again. */
static void none_is_made_twice(void) {
    static char *made[2 * 3 * ROUNDS];
    size_t count = 0;
    for (int start = 0; start < 2; start++) {
        struct web_conn conns[CONNECTIONS];
        for (int i = 0; i < CONNECTIONS; i++)
            CHECK(web_open(&conns[i], shop.port));
        for (int i = 0; i < ROUNDS; i++) {
            struct web_response response;
            CHECK_INT(web_request(&conns[i % CONNECTIONS], "GET", "/livez", NULL, NULL, &response), WEB_OK);
            const char *trace = id_of(&response, "traceparent");
            made[count++] = harness_format("%s", id_of(&response, "X-Request-Id"));
            made[count++] = harness_format("%.32s", trace + 3);
            made[count++] = harness_format("%.16s", trace + 36);
        }
        for (int i = 0; i < CONNECTIONS; i++)
            web_close(&conns[i]);
        if (start == 0) {
            CHECK_INT(seckilld_stop(&shop.service), 0);
            seckilld_restart(&shop.service);
        }
    }
    seckilld_wait_ready(&shop.service, 200);
    qsort(made, count, sizeof *made, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(made[i], made[i - 1]) == 0)
            FAIL("made twice: %s", made[i]);
}

/* ---- all kinds of answers ---- */

#define IDS "X-Request-Id: mine\r\ntraceparent: 00-" TRACE "-" SPAN "-01\r\n"

static void check_taken(const struct web_response *response) {
    check_id(response, "mine");
    check_trace(response, TRACE, "01");
}

/* One after the other on a connection: each request has its own. */
static void each_answer_has_them(void) {
    static const struct {
        const char *method, *path, *headers, *body;
        int status;
    } calls[] = {
        {"POST", "/v1/purchases", "Idempotency-Key: k\r\n",
         "{\"item\":\"phone\",\"user\":\"ann\",\"quantity\":1}", 201},
        {"POST", "/v1/purchases", "Idempotency-Key: k\r\n",
         "{\"item\":\"phone\",\"user\":\"ann\",\"quantity\":2}", 422},
        {"POST", "/v1/purchases", "Idempotency-Key: l\r\n",
         "{\"item\":\"phone\",\"user\":\"bob\",\"quantity\":9}", 409},
        {"POST", "/v1/purchases", "", "{\"item\":\"phone\",\"user\":\"ann\",\"quantity\":1}", 400},
        {"GET", "/v1/items/phone", "", NULL, 200},
        {"GET", "/v1/items/none", "", NULL, 404},
        {"GET", "/nothing", "", NULL, 404},
        {"DELETE", "/v1/purchases", "", NULL, 405},
        {"GET", "/v1/audit", "", NULL, 401},
        {"GET", "/v1/audit", SECKILLD_ADMIN, NULL, 200},
        {"POST", "/v1/purchases", "Content-Encoding: gzip\r\n", "x", 415},
        {"GET", "/metrics", "", NULL, 200},
        {"GET", "/openapi.json", "", NULL, 200},
    };
    struct web_conn conn;
    struct web_response response;
    CHECK(web_open(&conn, shop.port));
    for (size_t i = 0; i < 3 * sizeof calls / sizeof *calls; i++) {
        size_t k = i / 3;
        const char *headers = harness_format("%s%s", calls[k].headers, i % 3 == 1 ? IDS : "");
        CHECK_INT(web_request(&conn, calls[k].method, calls[k].path, headers, calls[k].body, &response),
                  WEB_OK);
        CHECK_INT(response.status, calls[k].status);
        (i % 3 == 1 ? check_taken : check_made)(&response);
    }
    web_close(&conn);
    CHECK_INT(web_call(shop.port, "POST", "/v1/purchases", IDS, harness_repeat('x', 20000), &response), 413);
    check_taken(&response);
}

/* What the server refuses itself, with a head that it has read. %s: more headers. */
static const struct {
    const char *request;
    int status;
} refusals[] = {
    {"GET /livez HTTP/1.1\r\n%s\r\n", 400},
    {"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n%s\r\n", 400},
    {"GET /livez HTTP/1.1\r\nHost: a/b\r\n%s\r\n", 400},
    {"GET livez HTTP/1.1\r\nHost: a\r\n%s\r\n", 400},
    {"GE(T /livez HTTP/1.1\r\nHost: a\r\n%s\r\n", 400},
    {"POST /v1/purchases HTTP/1.1\r\nHost: a\r\n%sTransfer-Encoding: gzip\r\n\r\n", 501},
    {"POST /v1/purchases HTTP/1.1\r\nHost: a\r\n%sTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
};

static void raw(const char *request, struct web_response *response) {
    struct web_conn conn;
    CHECK(web_open(&conn, shop.port));
    web_send_text(&conn, request);
    CHECK_INT(web_read_response(&conn, response), WEB_OK);
    web_close(&conn);
}

static void refusals_have_them(void) {
    struct web_response response;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const char *rest = strstr(refusals[i].request, "%s"),
                   *before = harness_format("%.*s", (int)(rest - refusals[i].request), refusals[i].request);
        raw(harness_format("%s%s%s", before, IDS, rest + 2), &response);
        CHECK_INT(response.status, refusals[i].status);
        check_taken(&response);
        raw(harness_format("%s%s", before, rest + 2), &response);
        CHECK_INT(response.status, refusals[i].status);
        check_made(&response);
        raw(harness_format("%sX-Request-Id: \"evil\r\nX-Request-Id: b\r\ntraceparent: 00\r\n%s", before,
                           rest + 2),
            &response);
        CHECK_INT(response.status, refusals[i].status);
        check_made(&response);
    }
    /* Of these libmicrohttpd does not read the head to its end. */
    raw("GET /livez HTTP/3.0\r\nHost: a\r\n" IDS "\r\n", &response);
    CHECK_INT(response.status, 505);
    check_made(&response);
    raw(harness_format("GET /livez HTTP/1.1\r\nHost: a\r\n" IDS "X: %s\r\n\r\n", harness_repeat('x', 9000)),
        &response);
    CHECK_INT(response.status, 431);
    check_made(&response);
    raw(harness_format("GET /%s HTTP/1.1\r\nHost: a\r\n" IDS "\r\n", harness_repeat('x', 9000)), &response);
    CHECK_INT(response.status, 414);
    check_made(&response);
}

/* A body that turns out too large is answered in its middle. */
static void large_bodies(void) {
    struct web_conn conn;
    struct web_response response;
    char *chunk = harness_format("10000\r\n%s\r\n", harness_repeat('x', 0x10000));
    CHECK(web_open(&conn, shop.port));
    web_send_text(&conn,
                  "POST /v1/purchases HTTP/1.1\r\nHost: a\r\n" IDS "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++)
        web_send_raw(&conn, chunk, strlen(chunk));
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 413);
    check_taken(&response);
    web_close(&conn);
}

/* However a header is broken, nothing of it gets into a header of its own in the answer. */
static void no_injection(void) {
    static const char *const tries[] = {
        "X-Request-Id: a\r\n Evil: 1\r\n",
        "X-Request-Id: a\rEvil: 1\r\n",
        "X-Request-Id: a\nEvil: 1\r\n",
        "X-Request-Id: a%0d%0aEvil: 1\r\n",
        "traceparent: 00-" TRACE "-" SPAN "-01\r\n\tEvil: 1\r\n",
        "X-Request-Id : a\r\n",
    };
    struct web_response response;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        raw(harness_format("GET /livez HTTP/1.1\r\nHost: a\r\n%s\r\n", tries[i]), &response);
        CHECK(response.status == 200 || response.status == 400);
        CHECK_INT(count(&response, "Evil"), 0);
        CHECK(strstr(id_of(&response, "X-Request-Id"), "Evil") == NULL);
        CHECK(is_traceparent(id_of(&response, "traceparent")));
    }
}

/* The store is away. */
static void unable_answers_have_them(void) {
    struct web_response response;
    const char *purchase = shop_purchase_body("phone", "u", 1);
    redis_kill(&shop.redis);
    seckilld_wait_ready(&shop.service, 503);
    CHECK_INT(web_call(shop.port, "POST", "/v1/purchases", IDS "Idempotency-Key: k\r\n", purchase, &response),
              503);
    check_taken(&response);
    CHECK_INT(shop_buy(shop.port, "phone", "u", 1, "k", &response), 503);
    check_made(&response);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    shop_open(&shop);
    shop_put(shop.port, "phone", "\"stock\":5");
    harness_run("request ids are taken", ids_are_taken);
    harness_run("bad request ids are not, nor two", bad_ids_are_not);
    harness_run("traces are taken", traces_are_taken);
    harness_run("bad traces are not, nor two", bad_traces_are_not);
    harness_run("none is made twice", none_is_made_twice);
    harness_run("each answer of a connection has its own", each_answer_has_them);
    harness_run("refusals of the HTTP server have them", refusals_have_them);
    harness_run("a body that turns out too large", large_bodies);
    harness_run("no header is injected", no_injection);
    harness_run("503s have them", unable_answers_have_them);
    shop_close(&shop);
    return harness_finish();
}
