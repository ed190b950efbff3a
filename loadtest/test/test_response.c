#include <stdlib.h>
#include <string.h>

#include "loadtest/http/http_response.h"
#include "test/harness.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

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

/* Feeds it in pieces of this size, each in a copy of exactly its size, so that a sanitizer sees a read past
 * its end. Sets how many bytes were taken. */
static enum response_status feed(struct response *r, const char *bytes, size_t length, size_t piece,
                                 size_t *taken) {
    enum response_status status = RESPONSE_MORE;
    response_reset(r);
    for (*taken = 0; status == RESPONSE_MORE && *taken < length;) {
        size_t size = length - *taken < piece ? length - *taken : piece, used = 0;
        char *copy = malloc(size);
        CHECK(copy);
        memcpy(copy, bytes + *taken, size);
        status = response_feed(r, copy, size, &used);
        free(copy);
        CHECK(used <= size && (status != RESPONSE_MORE || used == size));
        *taken += used;
    }
    return status;
}

static void test_good(void) {
    struct response *r = harness_alloc(sizeof *r);
    for (size_t i = 0; i < COUNT(good); i++) {
        const struct expected *e = &good[i];
        size_t length = strlen(e->bytes), taken;
        for (size_t piece = 1; piece <= length; piece++) {
            enum response_status status = feed(r, e->bytes, length, piece, &taken);
            CHECK_INT(status, e->ends_at_close ? RESPONSE_MORE : RESPONSE_DONE);
            if (e->ends_at_close)
                CHECK_INT(response_close(r), RESPONSE_DONE);
            CHECK_INT(taken, length);
            CHECK_INT(r->status, e->status);
            CHECK_INT(r->body_length, strlen(e->body));
            CHECK(memcmp(r->body, e->body, r->body_length) == 0);
            CHECK_INT(r->keep_alive, e->keep_alive);
            CHECK_INT(r->replayed, e->replayed);
        }
    }
}

static void test_stops_at_its_end(void) {
    static const char two[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nAHTTP/1.1 409 No\r\n";
    struct response *r = harness_alloc(sizeof *r);
    size_t taken;
    CHECK_INT(feed(r, two, sizeof two - 1, sizeof two, &taken), RESPONSE_DONE);
    CHECK_INT(taken, strstr(two, "AHTTP") + 1 - two);
}

static void test_cut_off(void) {
    struct response *r = harness_alloc(sizeof *r);
    for (size_t i = 0; i < COUNT(good); i++) {
        const char *bytes = good[i].bytes;
        size_t most = good[i].ends_at_close ? (size_t)(strstr(bytes, "\n") - bytes) : strlen(bytes) - 1;
        for (size_t length = 0, taken; length < most; length++) {
            CHECK_INT(feed(r, bytes, length, length, &taken), RESPONSE_MORE);
            CHECK_INT(response_close(r), RESPONSE_BAD);
        }
    }
}

static void test_bad(void) {
    struct response *r = harness_alloc(sizeof *r);
    for (size_t i = 0; i < COUNT(bad); i++) {
        for (size_t piece = 1, taken; piece <= strlen(bad[i]); piece++) {
            if (feed(r, bad[i], strlen(bad[i]), piece, &taken) != RESPONSE_BAD)
                FAIL("taken for a response, in pieces of %zu: %s", piece, bad[i]);
        }
    }
}

static void test_bounds(void) {
    struct response *r = harness_alloc(sizeof *r);
    size_t taken;
    const char *line = harness_repeat('x', RESPONSE_LINE + 1);
    CHECK_INT(feed(r, line, RESPONSE_LINE + 1, RESPONSE_LINE + 1, &taken), RESPONSE_BAD);

    const char *head = "HTTP/1.1 200 OK\r\n";
    while (strlen(head) < RESPONSE_HEAD + 16)
        head = harness_format("%sX: %0100d\r\n", head, 0);
    CHECK_INT(feed(r, head, strlen(head), 8, &taken), RESPONSE_BAD);
    CHECK(taken <= RESPONSE_HEAD + 8);
    CHECK_INT(feed(r, head, RESPONSE_HEAD - 200, 8, &taken), RESPONSE_MORE);

    const char *whole = harness_format("HTTP/1.1 200 OK\r\n\r\n%s", harness_repeat('x', RESPONSE_BODY + 1));
    CHECK_INT(feed(r, whole, strlen(whole) - 1, 1, &taken), RESPONSE_MORE);
    CHECK_INT(feed(r, whole, strlen(whole), 1, &taken), RESPONSE_BAD);
}

/* Good responses with some bytes changed, in pieces: the result stays within the limits, and equals that of
 * one piece. */
static void test_garbage(void) {
    uint64_t random = harness_seed();
    struct response *whole = harness_alloc(sizeof *whole);
    struct response *pieces = harness_alloc(sizeof *pieces);
    for (int round = 0; round < 20000; round++) {
        char bytes[512];
        const char *from = good[harness_random(&random) % COUNT(good)].bytes;
        size_t length = strlen(from), all, taken;
        memcpy(bytes, from, length + 1);
        for (uint64_t changes = harness_random(&random) % 4; changes > 0; changes--)
            bytes[harness_random(&random) % length] = "\r\n:;0f 9\0\xffx"[harness_random(&random) % 11];
        enum response_status status = feed(whole, bytes, length, length, &all);
        CHECK_INT(feed(pieces, bytes, length, 1 + harness_random(&random) % length, &taken), status);
        if (status != RESPONSE_DONE)
            continue;
        CHECK_INT(taken, all);
        CHECK_INT(pieces->status, whole->status);
        CHECK_INT(pieces->body_length, whole->body_length);
        CHECK(memcmp(pieces->body, whole->body, whole->body_length) == 0);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("response: split anywhere", test_good);
    harness_run("response: consumes no byte beyond its end", test_stops_at_its_end);
    harness_run("response: truncated anywhere it is no response", test_cut_off);
    harness_run("response: garbage is refused", test_bad);
    harness_run("response: limits of lines, heads and bodies", test_bounds);
    harness_run("response: garbage, the same in pieces as whole", test_garbage);
    return harness_finish();
}
