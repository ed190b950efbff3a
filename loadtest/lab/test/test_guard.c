/* The guard: what it lets pass, and each way in which another site's page could ask. */
#include "loadtest/lab/serve/page_server.h"
#include "test/harness.h"

#include <string.h>

static const struct guard guard = {
    .port = 8090, .loopback = true, .token = "0123456789abcdef0123456789abcdef"};

static const struct guard_request reads = {
    .method = "GET", .path = "/api/lab", .host = "127.0.0.1:8090", .fetch_site = "same-origin"};
static const struct guard_request changes = {.method = "POST",
                                             .path = "/api/runs",
                                             .host = "127.0.0.1:8090",
                                             .origin = "http://127.0.0.1:8090",
                                             .fetch_site = "same-origin",
                                             .content_type = "application/json",
                                             .token = "0123456789abcdef0123456789abcdef"};

static int status_of(const struct guard_request *request) {
    struct guard_refusal refusal = guard_check(&guard, request);
    CHECK((refusal.status != 0) == (refusal.title != NULL && refusal.detail != NULL));
    return refusal.status;
}

static int status_with(struct guard_request request, size_t member, const char *text) {
    memcpy((char *)&request + member, &text, sizeof text);
    return status_of(&request);
}

/* The request with one text replaced. */
#define WITH(request, member, text) status_with((request), offsetof(struct guard_request, member), (text))

static void own_page(void) {
    CHECK_INT(status_of(&reads), 0);
    CHECK_INT(status_of(&changes), 0);
    CHECK_INT(WITH(reads, method, "HEAD"), 0);
    CHECK_INT(WITH(reads, fetch_site, NULL), 0);   /* no browser, or an old one */
    CHECK_INT(WITH(reads, fetch_site, "none"), 0); /* typed into the address bar */
    CHECK_INT(WITH(reads, host, "localhost:8090"), 0);
    CHECK_INT(WITH(reads, host, "[::1]:8090"), 0);
    CHECK_INT(WITH(changes, content_type, "application/json; charset=utf-8"), 0);
}

static void names_of_others(void) {
    static const char *const hosts[] = {
        "evil.example:8090",   "127.0.0.1",      "127.0.0.1:8091", "localhost.evil.example:8090",
        "127.0.0.1.evil:8090", "10.0.0.1:8090",  "[fe80::1]:8090", "",
        "127.0.0.1:8090:8090", "0x7f000001:8090"};
    CHECK_INT(WITH(reads, host, NULL), 403);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (WITH(reads, host, hosts[i]) != 403 || WITH(changes, host, hosts[i]) != 403)
            FAIL("the host \"%s\" is let in", hosts[i]);
    }
}

/* Who listens for others is asked for by their addresses, and never by a name. */
static void listens_for_others(void) {
    struct guard open = guard;
    struct guard_request request = reads;
    open.loopback = false;
    request.host = "192.168.1.5:8090";
    CHECK_INT(guard_check(&open, &request).status, 0);
    request.host = "[2001:db8::1]:8090";
    CHECK_INT(guard_check(&open, &request).status, 0);
    request.host = "evil.example:8090";
    CHECK_INT(guard_check(&open, &request).status, 403);
}

static void other_sites(void) {
    CHECK_INT(WITH(reads, fetch_site, "cross-site"), 403);
    CHECK_INT(WITH(reads, fetch_site, "same-site"), 403); /* another port of this machine */
    CHECK_INT(WITH(changes, fetch_site, "cross-site"), 403);
    struct guard_request link = reads;
    link.path = "/";
    CHECK_INT(WITH(link, fetch_site, "cross-site"), 0); /* a link may lead here */
    CHECK_INT(WITH(changes, origin, NULL), 403);
    CHECK_INT(WITH(changes, origin, "null"), 403);
    CHECK_INT(WITH(changes, origin, "https://127.0.0.1:8090"), 403);
    CHECK_INT(WITH(changes, origin, "http://127.0.0.1:80900"), 403);
    CHECK_INT(WITH(changes, origin, "http://evil.example:8090"), 403);
    CHECK_INT(WITH(changes, origin, "http://localhost:8090"), 403); /* another name than its Host */
}

static void forms(void) {
    CHECK_INT(WITH(changes, content_type, NULL), 415);
    CHECK_INT(WITH(changes, content_type, "text/plain"), 415);
    CHECK_INT(WITH(changes, content_type, "application/x-www-form-urlencoded"), 415);
    CHECK_INT(WITH(changes, content_type, "application/jsonp"), 415);
}

static void tokens(void) {
    CHECK_INT(WITH(changes, token, NULL), 403);
    CHECK_INT(WITH(changes, token, ""), 403);
    CHECK_INT(WITH(changes, token, "0123456789abcdef0123456789abcdee"), 403);
    CHECK_INT(WITH(changes, token, "0123456789abcdef0123456789abcdef0"), 403);
}

static void methods(void) {
    static const char *const others[] = {"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK_INT(WITH(changes, method, others[i]), 405);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("its own page", own_page);
    harness_run("hosts that are not the lab", names_of_others);
    harness_run("a lab that listens for others", listens_for_others);
    harness_run("other sites and origins", other_sites);
    harness_run("bodies that a form can send", forms);
    harness_run("tokens", tokens);
    harness_run("methods", methods);
    return harness_finish();
}
