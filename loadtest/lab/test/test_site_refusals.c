/* seckill-lab serve without a browser: what it does not let pass, and what all its answers say. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "loadtest/lab/test/lab_site.h"

static const char two_processes[] =
    "{\"kind\":\"scenario\",\"name\":\"two-processes\",\"play\":\"broken\",\"seed\":7}";

/* Nothing is played. */
static void check_idle(const struct lab_site *site) {
    struct web_response response;
    CHECK_INT(lab_site_call(site, "GET", "/api/lab", NULL, NULL, &response), 200);
    json_t *json = json_loads(response.body, 0, NULL);
    CHECK(json_is_null(json_object_get(json, "run")));
    json_decref(json);
}

/* test_guard.c has each way to be refused; here is one of each kind. */
static void refused(void) {
    struct lab_site site;
    struct web_response response;
    lab_site_start(&site);
    const char *origin = harness_format("Origin: http://127.0.0.1:%d\r\n", site.port),
               *token = harness_format("X-Lab-Token: %s\r\n", site.token),
               *json = "Content-Type: application/json\r\n";
    const struct {
        int status;
        const char *headers[4];
    } cases[] = {
        {403, {origin, json, "X-Lab-Token: 0123456789abcdef0123456789abcdef\r\n", ""}},
        {403, {token, json, "Origin: http://evil.example\r\n", ""}},
        {403, {origin, token, json, "Sec-Fetch-Site: cross-site\r\n"}},
        {415, {origin, token, "Content-Type: text/plain\r\n", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *of = cases[i].headers;
        const char *headers = harness_format("%s%s%s%s", of[0], of[1], of[2], of[3]);
        CHECK_INT(lab_site_call(&site, "POST", "/api/runs", headers, two_processes, &response),
                  cases[i].status);
        lab_site_check_problem(&response);
    }
    /* A name that somebody has pointed at this address. */
    const char *rebound = harness_format("Host: evil.example:%d\r\nOrigin: http://evil.example:%d\r\n%s%s",
                                         site.port, site.port, token, json);
    CHECK_INT(web_call(site.port, "POST", "/api/runs", rebound, two_processes, &response), 403);
    CHECK_INT(web_call(site.port, "GET", "/api/lab", rebound, NULL, &response), 403);
    CHECK(!strstr(response.body, site.token));
    CHECK_INT(lab_site_call(&site, "PUT", "/api/runs", NULL, two_processes, &response), 405);
    check_idle(&site);
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
    struct lab_site site;
    struct web_response response;
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (lab_site_post(&site, "/api/runs", orders[i], &response) != 400)
            FAIL("%s is answered by %d", orders[i], response.status);
        lab_site_check_problem(&response);
    }
    CHECK_INT(lab_site_post(&site, "/api/runs", harness_repeat(' ', 5000), &response), 413);
    lab_site_check_problem(&response);
    check_idle(&site);
}

static void no_such_address(void) {
    static const char *const paths[] = {
        "/api",          "/api/",          "/api/runs/",         "/api/runs/x", "/api/runs/x/events",
        "/api/runs/x/y", "/../etc/passwd", "/%2e%2e/etc/passwd", "/main.mjs/",  "/favicon.ico"};
    static const char pause_a[] = "{\"fault\":\"pause\",\"target\":\"client-a\"}";
    struct lab_site site;
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (lab_site_call(&site, "GET", paths[i], NULL, NULL, NULL) != 404)
            FAIL("%s is there", paths[i]);
    }
    CHECK_INT(lab_site_post(&site, "/api/runs/x/faults", pause_a, NULL), 404);
    CHECK_INT(lab_site_post(&site, "/api/runs/x/stop", "{}", NULL), 404);
    CHECK_INT(lab_site_post(&site, "/api/lab", "{}", NULL), 405);
    CHECK_INT(lab_site_post(&site, "/main.mjs", "{}", NULL), 405);
    CHECK_INT(lab_site_call(&site, "GET", "/api/runs", NULL, NULL, NULL), 405);
    CHECK_INT(lab_site_call(&site, "GET", "/api/report", NULL, NULL, NULL), 405);
}

static void check_headers(const struct web_response *response) {
    const char *policy = web_header(response, "Content-Security-Policy");
    CHECK(policy != NULL);
    CHECK_HAS(policy, "default-src 'none'; script-src 'self'; style-src 'self';");
    CHECK_HAS(policy, "frame-ancestors 'none'");
    CHECK_STR(web_header(response, "X-Content-Type-Options"), "nosniff");
    CHECK_STR(web_header(response, "Cross-Origin-Resource-Policy"), "same-origin");
    CHECK(web_header(response, "Access-Control-Allow-Origin") == NULL);
}

static void headers_of_answers(void) {
    static const char *const paths[] = {"/", "/main.mjs", "/style.css", "/icon.svg", "/api/lab", "/no-such"};
    struct lab_site site;
    struct web_response response;
    lab_site_start(&site);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        lab_site_call(&site, "GET", paths[i], NULL, NULL, &response);
        check_headers(&response);
    }
    lab_site_call(&site, "GET", "/api/lab", "Sec-Fetch-Site: cross-site\r\n", NULL, &response);
    CHECK_INT(response.status, 403);
    check_headers(&response);
    CHECK_INT(lab_site_post(&site, "/api/runs", "x", &response), 400);
    check_headers(&response);
    CHECK_INT(lab_site_post(&site, "/api/runs", two_processes, &response), 201);
    check_headers(&response);
    const char *run = lab_site_text(&response, "run");
    CHECK_INT(lab_site_call(&site, "GET", harness_format("/api/runs/%s/events", run), NULL, NULL, &response),
              200);
    check_headers(&response);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("other pages are refused", refused);
    harness_run("orders that cannot be played", bad_orders);
    harness_run("no such address", no_such_address);
    harness_run("headers of all answers", headers_of_answers);
    return harness_finish();
}
