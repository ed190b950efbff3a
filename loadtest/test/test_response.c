#include <string.h>

#include "loadtest/http/http_response.h"
#include "test/harness.h"

struct expected {
    const char *bytes;
    const char *body;
    unsigned status;
    bool keep_alive;
    bool replayed;
    bool ends_at_close;
};

static const struct expected good[] = {
    {"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nIdempotent-Replayed: true\r\n\r\nhello", "hello", 201,
     true, true, false},
    {"HTTP/1.1 409 Conflict\r\ncontent-length:2\r\nConnection: close\r\n\r\n{}", "{}", 409, false, false,
     false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrail: "
     "er\r\n\r\n",
     "abc0123456789", 200, true, false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 200, true, false, false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 "
     "OK\r\nContent-Length: "
     "1\r\n\r\nx",
     "x", 200, true, false, false},
    {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 200, false, false, false},
    {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive\r\n\r\nx", "x", 200, true, false, false},
    {"HTTP/1.1 200 OK\r\nConnection: foo , CLOSE\r\nContent-Length: 0\r\n\r\n", "", 200, false, false, false},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", 204, true, false, false},
    {"HTTP/1.1 200\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\ny", "y", 200, true, false, false},
    {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "ok", 200, true, false, false},
    {"HTTP/1.1 503 Service Unavailable\r\n\r\nuntil the end", "until the end", 503, false, false, true},
    {"HTTP/1.1 200 OK\r\nIdempotent-Replayed: false\r\nX:\r\nContent-Length: 0\r\n\r\n", "", 200, true, false,
     false},
};

static const char *const bad[] = {
    "\r\n",
    "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 099 Low\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nContent-Length: 16385\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1z\r\na\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4001\r\n",
};

static enum response_status feed(struct response *r, const char *bytes, size_t length, size_t *used) {
    /* A copy of exactly this size, so that a sanitizer sees a read past its end. */
    char *copy = harness_alloc(length);
    memcpy(copy, bytes, length);
    return response_feed(r, copy, length, used);
}

static void check_whole(const struct expected *e, const struct response *r) {
    CHECK_INT(r->status, e->status);
    CHECK_INT(r->body_length, strlen(e->body));
    CHECK(memcmp(r->body, e->body, r->body_length) == 0);
    CHECK_INT(r->keep_alive, e->keep_alive);
    CHECK_INT(r->replayed, e->replayed);
}

static enum response_status feed_in_two(struct response *r, const char *bytes, size_t length, size_t split) {
    size_t used = 0;
    response_reset(r);
    enum response_status status = feed(r, bytes, split, &used);
    if (status != RESPONSE_MORE)
        return status;
    CHECK_INT(used, split);
    status = feed(r, bytes + split, length - split, &used);
    if (status == RESPONSE_DONE)
        CHECK_INT(used, length - split);
    return status;
}

static void test_every_split(void) {
    struct response *r = harness_alloc(sizeof *r);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t length = strlen(good[i].bytes);
        for (size_t split = 0; split < length; split++) {
            enum response_status status = feed_in_two(r, good[i].bytes, length, split);
            if (good[i].ends_at_close) {
                CHECK_INT(status, RESPONSE_MORE);
                status = response_close(r);
            }
            CHECK_INT(status, RESPONSE_DONE);
            check_whole(&good[i], r);
        }
    }
}

static void test_byte_by_byte(void) {
    struct response *r = harness_alloc(sizeof *r);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        enum response_status status = RESPONSE_MORE;
        response_reset(r);
        for (const char *at = good[i].bytes; *at != '\0'; at++) {
            size_t used = 0;
            CHECK_INT(status, RESPONSE_MORE);
            status = feed(r, at, 1, &used);
        }
        if (good[i].ends_at_close)
            status = response_close(r);
        CHECK_INT(status, RESPONSE_DONE);
        check_whole(&good[i], r);
    }
}

static void test_stops_at_its_end(void) {
    static const char two[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nAHTTP/1.1 409 No\r\n";
    struct response *r = harness_alloc(sizeof *r);
    size_t used = 0;
    response_reset(r);
    CHECK_INT(feed(r, two, sizeof two - 1, &used), RESPONSE_DONE);
    CHECK_INT(used, strstr(two, "AHTTP") + 1 - two);
}

static void test_cut_off(void) {
    struct response *r = harness_alloc(sizeof *r);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t head = (size_t)(strstr(good[i].bytes, "\n") - good[i].bytes);
        size_t used = 0;
        response_reset(r);
        CHECK_INT(feed(r, good[i].bytes, head, &used), RESPONSE_MORE);
        CHECK_INT(response_close(r), RESPONSE_BAD);
        if (good[i].ends_at_close)
            continue;
        for (size_t length = 0; length + 1 < strlen(good[i].bytes); length++) {
            response_reset(r);
            CHECK_INT(feed(r, good[i].bytes, length, &used), RESPONSE_MORE);
            CHECK_INT(response_close(r), RESPONSE_BAD);
        }
    }
}

static void test_bad(void) {
    struct response *r = harness_alloc(sizeof *r);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (size_t split = 0; split < strlen(bad[i]); split++) {
            if (feed_in_two(r, bad[i], strlen(bad[i]), split) != RESPONSE_BAD)
                FAIL("taken for a response, split at %zu: %s", split, bad[i]);
        }
    }
}

static void test_bounds(void) {
    struct response *r = harness_alloc(sizeof *r);
    size_t used = 0;
    char *line = harness_alloc(RESPONSE_LINE + 2);
    memset(line, 'x', RESPONSE_LINE + 1);
    response_reset(r);
    CHECK_INT(feed(r, line, RESPONSE_LINE + 1, &used), RESPONSE_BAD);

    response_reset(r);
    CHECK_INT(feed(r, "HTTP/1.1 200 OK\r\n", 17, &used), RESPONSE_MORE);
    size_t sent = 17;
    enum response_status status = RESPONSE_MORE;
    for (; status == RESPONSE_MORE && sent < 2 * (size_t)RESPONSE_HEAD; sent += 8)
        status = feed(r, "X: yyy\r\n", 8, &used);
    CHECK_INT(status, RESPONSE_BAD);
    CHECK(sent <= RESPONSE_HEAD + 8);

    response_reset(r);
    CHECK_INT(feed(r, "HTTP/1.1 200 OK\r\n\r\n", 19, &used), RESPONSE_MORE);
    for (sent = 0; sent < RESPONSE_BODY; sent++)
        CHECK_INT(feed(r, "x", 1, &used), RESPONSE_MORE);
    CHECK_INT(feed(r, "x", 1, &used), RESPONSE_BAD);
}

/* Good responses with some bytes changed, in pieces: the result stays within the limits, and equals that of
 * one piece. */
static void test_garbage(void) {
    uint64_t state = harness_seed();
    struct response *whole = harness_alloc(sizeof *whole);
    struct response *pieces = harness_alloc(sizeof *pieces);
    for (int round = 0; round < 20000; round++) {
        char bytes[512];
        const char *from = good[harness_random(&state) % (sizeof good / sizeof good[0])].bytes;
        size_t length = strlen(from);
        memcpy(bytes, from, length + 1);
        for (uint64_t changes = harness_random(&state) % 4; changes > 0; changes--)
            bytes[harness_random(&state) % length] = "\r\n:;0f 9\0\xffx"[harness_random(&state) % 11];
        size_t used = 0;
        size_t all_used = 0;
        response_reset(whole);
        response_reset(pieces);
        enum response_status status = response_feed(whole, bytes, length, &all_used);
        enum response_status in_pieces = RESPONSE_MORE;
        size_t at = 0;
        while (in_pieces == RESPONSE_MORE && at < length) {
            size_t part = 1 + harness_random(&state) % (length - at);
            in_pieces = response_feed(pieces, bytes + at, part, &used);
            at += used;
        }
        CHECK_INT(in_pieces, status);
        if (status == RESPONSE_DONE) {
            CHECK_INT(at, all_used);
            CHECK_INT(pieces->status, whole->status);
            CHECK_INT(pieces->body_length, whole->body_length);
            CHECK(memcmp(pieces->body, whole->body, whole->body_length) == 0);
        }
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("response: split anywhere", test_every_split);
    harness_run("response: byte by byte", test_byte_by_byte);
    harness_run("response: consumes no byte beyond its end", test_stops_at_its_end);
    harness_run("response: truncated anywhere it is no response", test_cut_off);
    harness_run("response: garbage is refused", test_bad);
    harness_run("response: limits of lines, heads and bodies", test_bounds);
    harness_run("response: garbage, the same in pieces as whole", test_garbage);
    return harness_finish();
}
