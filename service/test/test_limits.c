/* Requests at the limits of HTTP: heads and bodies of all sizes, chunks, 100-continue, HTTP/1.0. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "service/test/shop.h"

static struct shop shop;

/* ---- heads ---- */

static void heads_too_large(void) {
    const size_t sizes[] = {10000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *text = harness_repeat('a', sizes[i]);
        const char *const heads[] = {
            harness_format("GET /%s HTTP/1.1\r\nHost: x\r\n\r\n", text),
            harness_format("GET /livez?%s HTTP/1.1\r\nHost: x\r\n\r\n", text),
            harness_format("GET /livez HTTP/1.1\r\nHost: x\r\nCookie: %s\r\n\r\n", text),
            harness_format("GET /livez HTTP/1.1\r\n%s: x\r\n\r\n", text),
            harness_format("%s /livez HTTP/1.1\r\nHost: x\r\n\r\n", text),
        };
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
            shop_check_refused(shop.port, heads[k], strlen(heads[k]));
    }
    shop_check_served(shop.port, "x");
}

/* `size` bytes of headers, of several kinds: a cookie, a long one, many short ones, many cookies, arguments.
 * The answer has the longest request id. */
static const char *head_of(int kind, size_t size, const char *key) {
    static const char *const unit[] = {"c", "h", "A: b\r\n", "a=b; ", "&a"};
    char *filler = harness_alloc(size + 16);
    for (size_t at = 0; at < size; at += strlen(unit[kind]))
        memcpy(filler + at, unit[kind], strlen(unit[kind]));
    const char *name = kind == 0 || kind == 3 ? "Cookie: " : kind == 1 ? "X-Filler: " : "";
    const char *body = shop_purchase_body("x", "head", 1);
    return harness_format("POST /v1/purchases%s%s HTTP/1.1\r\nHost: x\r\n%s%s%sIdempotency-Key: %s\r\n"
                          "X-Request-Id: %s\r\nContent-Length: %zu\r\n\r\n%s",
                          kind == 4 ? "?" : "", kind == 4 ? filler : "", name, kind == 4 ? "" : filler,
                          kind == 2 || kind == 4 ? "" : "\r\n", key, harness_repeat('i', 128), strlen(body),
                          body);
}

/* Whatever its head is like, a purchase is answered, or was not made. With others behind it, which fill the
 * buffers, it is no different. */
static void heads_of_all_sizes(void) {
    for (int kind = 0; kind < 10; kind++) {
        int refused = 0, bought = 0;
        const char *behind = kind < 5 ? "" : harness_repeat('\n', 5000);
        for (size_t size = 100; size < 8400; size += kind < 5 ? 97 : 503) {
            struct web_conn conn;
            struct web_response response;
            const char *key = harness_format("head-%d-%zu", kind, size);
            CHECK(web_open(&conn, shop.port));
            const char *request = harness_format("%s%s", head_of(kind % 5, size, key), behind);
            web_send_raw(&conn, request, strlen(request));
            enum web_result result = web_read_response(&conn, &response);
            web_close(&conn);
            if (result != WEB_OK && result != WEB_CLOSED)
                FAIL("kind %d, %zu bytes: no answer and no end (%d)", kind, size, result);
            bool made = result == WEB_OK && response.status == 201;
            CHECK(made || result == WEB_CLOSED || (response.status >= 400 && response.status < 500));
            CHECK_INT(shop_buy(shop.port, "x", "head", 1, key, &response), 201);
            if ((web_header(&response, "Idempotent-Replayed") != NULL) != made)
                FAIL("kind %d, %zu bytes: %s", kind, size,
                     made ? "sold, and not found again" : "sold, and never told");
            refused += !made;
            bought += made;
        }
        CHECK(refused > 0 && bought > 0);
    }
}

/* ---- bodies ---- */

static const char *padded_body(size_t size) {
    const char *body = shop_purchase_body("x", "padded", 1);
    return harness_format("%s%s", body, harness_repeat(' ', size - strlen(body)));
}

static void bodies_at_the_limit(void) {
    struct web_response response;
    for (int i = 0; i < 20; i++) { /* whether the client is still sending is a matter of chance */
        const char *key = harness_format("Idempotency-Key: limit-%d\r\n", i);
        web_call(shop.port, "POST", "/v1/purchases", key, padded_body(16385), &response);
        CHECK_PROBLEM(&response, 413, "too-large");
        web_call(shop.port, "POST", "/v1/purchases", key, padded_body(200000), &response);
        CHECK_PROBLEM(&response, 413, "too-large");
        CHECK_INT(web_call(shop.port, "POST", "/v1/purchases", key, padded_body(16384), &response), 201);
        CHECK(!web_header(&response, "Idempotent-Replayed"));
    }
    shop_admin(shop.port, "PUT", "/v1/items/big",
               harness_format("{\"stock\":1}%s", harness_repeat(' ', 16384)), &response);
    CHECK_PROBLEM(&response, 413, "too-large");
}

static void begin_chunked(struct web_conn *conn, const char *key) {
    CHECK(web_open(conn, shop.port));
    web_send_text(conn, harness_format("POST /v1/purchases HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\n"
                                       "Transfer-Encoding: chunked\r\n\r\n",
                                       key));
}

static void send_chunk(struct web_conn *conn, const char *data, size_t size) {
    web_send_text(conn, harness_format("%zx\r\n%.*s\r\n", size, (int)size, data));
}

static void chunked(void) {
    struct web_conn conn;
    struct web_response response;
    const size_t sizes[] = {100, 1000, 16383, 16384, 16385, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *body = padded_body(sizes[i]);
        begin_chunked(&conn, harness_format("chunked-%zu", i));
        for (size_t at = 0, size = 1; at < sizes[i]; at += size, size = size * 3 + 1)
            send_chunk(&conn, body + at, sizes[i] - at < size ? sizes[i] - at : size);
        web_send_text(&conn, "0\r\n\r\n");
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
        if (sizes[i] <= 16384)
            CHECK_INT(response.status, 201);
        else
            CHECK_PROBLEM(&response, 413, "too-large");
        web_close(&conn);
    }
}

/* Who sends more than is read to the end is told so all the same, once; one without end is cut off. */
static void chunked_without_end(void) {
    enum { CHUNK = 60000, MOST = 64 << 20 };
    struct web_conn conn;
    struct web_response response;
    const char *chunk = harness_format("%x\r\n%s\r\n", CHUNK, harness_repeat('x', CHUNK));
    const size_t sizes[] = {1020000, 1080000, 1500000, 4 << 20, 12 << 20, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double before = shop_metric(shop.port, "seckill_http_responses_total{class=\"4xx\"}");
        begin_chunked(&conn, "endless");
        size_t sent = 0;
        while (sent < sizes[i] && web_send_raw(&conn, chunk, strlen(chunk)) == WEB_OK)
            sent += CHUNK;
        CHECK((sent < sizes[i]) == (sizes[i] == MOST));
        if (sizes[i] != MOST)
            web_send_text(&conn, "0\r\n\r\n");
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
        CHECK_PROBLEM(&response, 413, "too-large");
        if (sizes[i] > 1 << 20)
            CHECK_INT(web_read_end(&conn), WEB_CLOSED);
        web_close(&conn);
        CHECK_INT(shop_metric(shop.port, "seckill_http_responses_total{class=\"4xx\"}"), before + 1);
    }
    shop_check_served(shop.port, "x");
}

static void send_expecting(struct web_conn *conn, const char *key, size_t length, const char *body) {
    web_send_text(conn, harness_format("POST /v1/purchases HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\n"
                                       "Content-Length: %zu\r\nExpect: 100-continue\r\n\r\n%s",
                                       key, length, body));
}

static void expect_100(void) {
    struct web_conn conn;
    struct web_response response;
    const char *body = shop_purchase_body("x", "polite", 1);
    CHECK(web_open(&conn, shop.port));
    for (int i = 0; i < 3; i++) { /* on a connection that is kept */
        send_expecting(&conn, i ? "polite" : "first", strlen(body), "");
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
        CHECK_INT(response.status, 100);
        web_send_text(&conn, body);
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
        CHECK_INT(response.status, 201);
    }
    /* One who does not wait for it. */
    send_expecting(&conn, "hasty", strlen(body), body);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    if (response.status == 100)
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 201);
    send_expecting(&conn, "rude", 16385, "");
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_PROBLEM(&response, 413, "too-large");
    CHECK_INT(web_read_end(&conn), WEB_CLOSED);
    web_close(&conn);
}

static void http_1_0(void) {
    static const char *const connections[] = {"", "Connection: close\r\n", "Connection: keep-alive\r\n"};
    const char *body = shop_purchase_body("x", "old", 1);
    for (int i = 0; i < 3; i++) {
        struct web_conn conn;
        struct web_response response;
        CHECK(web_open(&conn, shop.port));
        for (int k = 0; k < (i == 2 ? 3 : 1); k++) {
            web_send_text(
                &conn,
                harness_format("POST /v1/purchases HTTP/1.0\r\nIdempotency-Key: old-%d\r\n%sContent-Length: "
                               "%zu\r\n\r\n%s",
                               i, connections[i], strlen(body), body));
            CHECK_INT(web_read_response(&conn, &response), WEB_OK);
            CHECK_INT(response.status, 201);
        }
        if (i < 2)
            CHECK_INT(web_read_end(&conn), WEB_CLOSED);
        web_close(&conn);
    }
}

/* ---- what is HTTP/1.1, and what is not ---- */

/* All that comes until the end, which must come. */
static const char *read_all(struct web_conn *conn, size_t *size) {
    enum { MOST = 1 << 16 };
    char *all = harness_alloc(MOST);
    struct timeval limit = {.tv_sec = 10};
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (*size = 0; *size < MOST - 1;) {
        ssize_t got = recv(conn->fd, all + *size, MOST - 1 - *size, 0);
        if (got < 0 && errno != ECONNRESET)
            FAIL("no end after \"%s\"", all);
        if (got <= 0)
            break;
        *size += (size_t)got;
    }
    return all;
}

/* Another request is right behind the one that is tried: after a refusal it must not be answered. */
static const char behind[] = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

static void check_parts(const char *what, const char *all, size_t size, int status, const char *type,
                        bool kept) {
    struct web_response response = {.status = 0};
    const char *at = all;
    for (int i = 0; i < (kept ? 2 : 1); i++) {
        const char *body = strstr(at, "\r\n\r\n"), *length = strcasestr(at, "\r\nContent-Length: ");
        if (strncmp(at, "HTTP/1.1 ", 9) != 0 || !body || !length || length > body)
            FAIL("%s: \"%s\"", what, all);
        response.headers = harness_format("%.*s", (int)(body + 4 - at), at);
        response.status = (int)strtol(at + 9, NULL, 10);
        response.len = strtoul(length + 18, NULL, 10);
        response.body = harness_format("%.*s", (int)response.len, body + 4);
        at = body + 4 + response.len;
        if (response.status != (i > 0 ? 200 : status))
            FAIL("%s: %d, not %d", what, response.status, i > 0 ? 200 : status);
        if (response.status >= 400)
            CHECK_PROBLEM(&response, status, type);
    }
    if (at != all + size)
        FAIL("%s: there is more than its answer: \"%s\"", what, at);
    if (!kept)
        CHECK_STR(web_header(&response, "Connection"), "close");
}

static void check_raw(const char *request, size_t length, int status, const char *type, bool kept) {
    struct web_conn conn;
    size_t size;
    CHECK(web_open(&conn, shop.port));
    web_send_raw(&conn, request, length);
    web_send_raw(&conn, behind, sizeof behind - 1);
    const char *all = read_all(&conn, &size);
    check_parts(harness_format("%.200s", request), all, size, status, type, kept);
    web_close(&conn);
}

#define PURCHASE "POST /v1/purchases HTTP/1.1\r\nHost: x\r\nIdempotency-Key: raw\r\n"
#define BODY     "{\"item\":\"x\",\"user\":\"raw\",\"quantity\":1}" /* 38 bytes */

/* Refused with 400, and the connection ends. \001 stands for a NUL, here and below. */
static const char *const bad_requests[] = {
    /* Hosts. */
    "GET /livez HTTP/1.1\r\n\r\n", "GET /livez HTTP/1.1\r\nAccept: */*\r\n\r\n",
    "GET /livez HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "GET /livez HTTP/1.1\r\nHost: x, y\r\n\r\n",
    /* Targets. */
    "GET http://x/livez HTTP/1.1\r\n\r\n", "GET http:///livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http://x\x1e/livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http://x y/livez?a HTTP/1.1\r\nHost: x\r\n\r\n", "GET ftp://x/livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET livez HTTP/1.1\r\nHost: x\r\n\r\n", "GET ?a HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /livez a HTTP/1.1\r\nHost: x\r\n\r\n", "GET /livez\rHTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET \001/livez?a HTTP/1.1\r\nHost: x\r\n\r\n", "GET /livez\001a HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET\001a /livez HTTP/1.1\r\nHost: x\r\n\r\n", "G@T /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET %2flivez HTTP/1.1\r\nHost: x\r\n\r\n", "GET /livez HTTP/1.2\r\n\r\n",
    "GET /livez HTP/1.1\r\nHost: x\r\n\r\n", "GET /livez\r\nHost: x\r\n\r\n",
    /* Lines. */
    "GET /livez HTTP/1.1\r\nHost : x\r\n\r\n", "GET /livez HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
    "GET /livez HTTP/1.1\r\nHost: x\r\n: c\r\n\r\n", "GET /livez HTTP/1.1\r\nHost: x\r\nA\r\n\r\n",
    "GET /livez HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "GET /livez HTTP/1.1\r\nA: b\r\n\tc\r\nHost: x\r\n\r\n",
    "GET /livez HTTP/1.1\r\n Host: x\r\nHost: x\r\n\r\n",
    "GET /livez HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n",
    "GET /livez HTTP/1.1\r\nHost: x\r\nA: b\001c\r\n\r\n",
    "GET /livez HTTP/1.1\r\nHost: x\r\nA: \001\r\n\r\n", "GET /livez HTTP/1.1\r\nHost: x\r\nA\001: b\r\n\r\n",
    /* Where a body ends. */
    PURCHASE "Content-Length: 38\r\nContent-Length: 38\r\n\r\n" BODY,
    PURCHASE "Content-Length: 0\r\nContent-Length: 38\r\n\r\n" BODY,
    PURCHASE "Content-Length: 38, 38\r\n\r\n" BODY, PURCHASE "Content-Length: +38\r\n\r\n" BODY,
    PURCHASE "Content-Length: 0x26\r\n\r\n" BODY, PURCHASE "Content-Length: 3 8\r\n\r\n" BODY,
    PURCHASE "Content-Length: 38\001\r\n\r\n" BODY, PURCHASE "Content-Length:\r\n\r\n" BODY,
    PURCHASE "Content-Length: 38\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    PURCHASE "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    PURCHASE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /v1/purchases HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    PURCHASE "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    PURCHASE "Transfer-Encoding: chunked\r\n\r\n0x26\r\n" BODY "\r\n0\r\n\r\n",
    PURCHASE "Transfer-Encoding: chunked\r\n\r\n26\r\n" BODY "0\r\n\r\n",
    PURCHASE "Transfer-Encoding: chunked\r\n\r\n26\r\n" BODY "\r\n0\r\nA\r\n\r\n"};

static const struct raw {
    const char *request;
    int status;
    bool kept; /* the connection */
    const char *type;
} raws[] = {
    /* Hosts. */
    {"GET /livez HTTP/1.1\r\nhOST: \t[::1]:8080 \t\r\n\r\n", 200, true, NULL},
    {"GET /livez HTTP/1.1\r\nHost:\r\n\r\n", 200, true, NULL},
    /* Targets. */
    {"GET http://x/livez HTTP/1.1\r\nHost: x\r\n\r\n", 200, true, NULL},
    {"GET HTTPS://a.b:1/livez?c=d&e HTTP/1.1\r\nHost: x\r\n\r\n", 200, true, NULL},
    {"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n", 404, true, "not-found"},
    {"GET http://x?/livez HTTP/1.1\r\nHost: x\r\n\r\n", 404, true, "not-found"},
    {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404, true, "not-found"},
    {"GET /v1%2Fitems/x HTTP/1.1\r\nHost: x\r\n\r\n", 404, true, "not-found"},
    {"GET /v1/items%2fx HTTP/1.1\r\nHost: x\r\n\r\n", 404, true, "not-found"},
    {"GET /v1/items/x%2F HTTP/1.1\r\nHost: x\r\n\r\n", 400, true, "invalid-request"},
    {"GET /v1/items/%78 HTTP/1.1\r\nHost: x\r\n\r\n", 200, true, NULL},
    {"GET /livez HTTP/1.2\r\nHost: x\r\n\r\n", 200, true, NULL},
    {"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n", 505, false, "unsupported-version"},
    {"GET /livez HTTP/0.9\r\nHost: x\r\n\r\n", 505, false, "unsupported-version"},
    /* Lines. */
    {"GET /livez HTTP/1.1\nHost: x\n\n", 200, true, NULL},
    /* Where a body ends. */
    {PURCHASE "Content-Length: 38\r\n\r\n" BODY, 201, true, NULL},
    {PURCHASE "Content-Length: 99999999999999999999\r\n\r\n" BODY, 413, false, "too-large"},
    {PURCHASE "Transfer-Encoding: chunked\r\n\r\n26;a=b\r\n" BODY "\r\n0\r\nA: b\r\n\r\n", 201, true, NULL},
    {PURCHASE "Transfer-Encoding: Chunked\r\n\r\n26\n" BODY "\n0\n\n", 201, true, NULL},
    {PURCHASE "Transfer-Encoding: gzip\r\n\r\n" BODY, 501, false, "unknown-coding"},
    {PURCHASE "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, false, "unknown-coding"},
    {PURCHASE "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, false, "unknown-coding"},
    {PURCHASE "Transfer-Encoding:\r\n\r\n0\r\n\r\n", 501, false, "unknown-coding"},
    {PURCHASE "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 413, false, "too-large"},
    /* What is not done to a body. */
    {PURCHASE "Content-Encoding: gzip\r\nContent-Length: 38\r\n\r\n" BODY, 415, true, "unsupported-encoding"},
    {PURCHASE "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n26\r\n" BODY "\r\n0\r\n\r\n", 415,
     true, "unsupported-encoding"},
    {PURCHASE "Content-Encoding: Identity\r\nContent-Length: 38\r\n\r\n" BODY, 201, true, NULL},
    /* Keys. */
    {PURCHASE "Idempotency-Key: other\r\nContent-Length: 38\r\n\r\n" BODY, 400, true, "invalid-request"},
    {PURCHASE "idempotency-key: raw\r\nContent-Length: 38\r\n\r\n" BODY, 400, true, "invalid-request"},
};

static void check_text(const char *text, int status, const char *type, bool kept) {
    char *request = harness_format("%s", text);
    size_t length = strlen(request);
    for (char *nul; (nul = memchr(request, '\001', length));)
        *nul = '\0';
    check_raw(request, length, status, type, kept);
}

/* Whatever is refused has one answer, a problem, and where it is not clear where it ends, the connection
 * ends. */
static void raw_requests(void) {
    for (size_t i = 0; i < sizeof bad_requests / sizeof *bad_requests; i++)
        check_text(bad_requests[i], 400, "invalid-request", false);
    for (size_t i = 0; i < sizeof raws / sizeof *raws; i++)
        check_text(raws[i].request, raws[i].status, raws[i].type, raws[i].kept);
    /* Without its body, which nobody who sent HEAD would read as one. */
    struct web_conn conn;
    size_t size;
    CHECK(web_open(&conn, shop.port));
    web_send_text(&conn, "HEAD /livez HTTP/1.1\r\n\r\n");
    const char *all = read_all(&conn, &size);
    CHECK_HAS(all, "HTTP/1.1 400 Bad Request\r\n");
    CHECK_STR(all + size - 4, "\r\n\r\n");
    CHECK(strstr(all, "\r\n\r\n") == all + size - 4);
    web_close(&conn);
}

/* More arguments than the connection's memory holds, where nobody saw that there are any: it ends all the
 * same. */
static void arguments_behind_a_nul(void) {
    static const char start[] = "GET /livez\0HTTP/1.1\0?", end[] = " HTTP/1.1\r\nHost: x\r\n\r\n";
    for (size_t units = 20; units < 2000; units += units < 200 ? 3 : 100) {
        char *request = harness_alloc(sizeof start + 2 * units + sizeof end),
             *at = request + sizeof start - 1;
        memcpy(request, start, sizeof start - 1);
        for (size_t i = 0; i < units; i++)
            at = stpcpy(at, "&a");
        at = stpcpy(at, end);
        struct web_conn conn;
        size_t size;
        CHECK(web_open(&conn, shop.port));
        web_send_raw(&conn, request, (size_t)(at - request));
        CHECK_INT(shutdown(conn.fd, SHUT_WR), 0);
        const char *all = read_all(&conn, &size);
        CHECK(strncmp(all, "HTTP/1.1 ", 9) == 0 && !strstr(all + 9, "HTTP/1.1 "));
        web_close(&conn);
    }
}

static void the_end(void) {
    shop_close(&shop);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (argc < 2 || strcmp(argv[1], "-l") != 0) {
        shop_open(&shop);
        shop_put(shop.port, "x", "\"stock\":1000000");
    }
    harness_run("heads too large", heads_too_large);
    harness_run("heads of all sizes", heads_of_all_sizes);
    harness_run("bodies at the limit", bodies_at_the_limit);
    harness_run("chunked bodies", chunked);
    harness_run("chunked bodies without end", chunked_without_end);
    harness_run("Expect: 100-continue", expect_100);
    harness_run("HTTP/1.0", http_1_0);
    harness_run("requests that are HTTP/1.1, or not", raw_requests);
    harness_run("arguments behind a NUL", arguments_behind_a_nul);
    harness_run("the end", the_end);
    return harness_finish();
}
