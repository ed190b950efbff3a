/* HTTP: how requests wait for their answers, and who is cut off. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "service/test/site.h"
#include "test/harness.h"

enum { LONG_MS = 60000, IDLE_MS = 300 };

/* On both sides of the time after which a request that waits is suspended. */
static const int borders_ms[] = {0, 1, 5, 8, 9, 10, 11, 12, 15, 25, 50};
enum { BORDERS = sizeof borders_ms / sizeof *borders_ms };

static const char *request_of(int delay_ms, int id, const char *body) {
    return harness_format("POST /%d HTTP/1.1\r\nHost: x\r\nX-Id: %d\r\nContent-Length: %zu\r\n\r\n%s",
                          delay_ms, id, strlen(body), body);
}

static void check_answer(struct web_conn *conn, int id, const char *body) {
    struct web_response response;
    enum web_result result = web_read_response(conn, &response);
    if (result != WEB_OK)
        FAIL("no answer to %d: %d", id, result);
    CHECK_INT(response.status, 200);
    CHECK_STR(response.body, harness_format("%d%s", id, body));
}

/* ---- how requests wait ---- */

static void answers_on_both_sides_of_the_border(void) {
    enum { EACH = 12 };
    static struct web_conn conns[BORDERS * EACH];
    struct site *site = site_start(1000, LONG_MS);
    for (int i = 0; i < BORDERS * EACH; i++)
        CHECK(web_open(&conns[i], site_port(site)));
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < BORDERS * EACH; i++)
            web_send_text(&conns[i], request_of(borders_ms[(i + round) % BORDERS], i, "abc"));
        for (int i = 0; i < BORDERS * EACH; i++)
            check_answer(&conns[i], i, "abc");
    }
    for (int i = 0; i < BORDERS * EACH; i++) {
        CHECK_INT(conns[i].held, 0);
        web_close(&conns[i]);
    }
    site_wait(site, 0, 0);
    CHECK_INT(atomic_load(&site_metrics(site)->requests), 8 * BORDERS * EACH);
}

static void pipelined(void) {
    enum { MANY = 60 };
    struct site *site = site_start(1000, LONG_MS);
    uint64_t position = harness_seed();
    struct web_conn conn;
    CHECK(web_open(&conn, site_port(site)));
    for (int round = 0; round < 3; round++) {
        char *all = harness_alloc((size_t)MANY * 256), *end = all;
        for (int i = 0; i < MANY; i++)
            end = stpcpy(end, request_of(borders_ms[harness_random(&position) % 8], i, "xyz"));
        /* In one write, or in pieces of any size. */
        for (size_t at = 0, size; at < (size_t)(end - all); at += size) {
            size = round == 0 ? (size_t)(end - all) : harness_random(&position) % 700 + 1;
            if (size > (size_t)(end - all) - at)
                size = (size_t)(end - all) - at;
            CHECK_INT(web_send_raw(&conn, all + at, size), WEB_OK);
        }
        for (int i = 0; i < MANY; i++)
            check_answer(&conn, i, "xyz");
    }
    web_close(&conn);
    site_wait(site, 0, 0);
}

/* The input ends on, just before and just after each place where a buffer may end, also with more requests
 * right behind it. */
static void buffers_to_the_last_byte(void) {
    static const size_t around[] = {512, 1024, 2048, 3072, 4096, 4864, 5120, 6144, 8192, 12288, 16384};
    struct site *site = site_start(1000, LONG_MS);
    struct web_conn conn;
    CHECK(web_open(&conn, site_port(site)));
    for (int behind = 0; behind < 2; behind++) {
        for (size_t k = 0; k < sizeof around / sizeof *around; k++) {
            for (size_t total = around[k] - 3; total <= around[k] + 3; total++) {
                size_t head = strlen(request_of(12, 7, "")) + (total > 10000 ? 4 : total > 1000 + 70 ? 3 : 2);
                char *body = harness_alloc(total - head + 1);
                memset(body, 'b', total - head);
                int delay_ms = total % 2 ? 11 : 15;
                const char *first = request_of(delay_ms, 7, body);
                web_send_text(&conn,
                              behind ? harness_format("%s%s", first, request_of(11, 8, "next")) : first);
                check_answer(&conn, 7, body);
                if (behind)
                    check_answer(&conn, 8, "next");
            }
        }
    }
    web_close(&conn);
    site_wait(site, 0, 0);
}

static void clients_that_leave(void) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    struct site *site = site_start(1000, LONG_MS);
    int leaving = 0;
    for (int stay_ms = 0; stay_ms <= 30; stay_ms += 5) {
        for (int i = 0; i < BORDERS; i++, leaving++) {
            struct web_conn conn;
            CHECK(web_open(&conn, site_port(site)));
            /* Some with another request behind, which nobody will want answered. */
            web_send_text(&conn, harness_format("%s%s", request_of(borders_ms[i], i, "gone"),
                                                i % 3 ? "" : request_of(borders_ms[i], i, "gone")));
            harness_pause_ms(stay_ms);
            if (i % 2)
                setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            web_close(&conn);
        }
    }
    site_wait(site, 0, 0);
    CHECK(atomic_load(&site_metrics(site)->requests) >= leaving / 2);
    CHECK_INT(atomic_load(&site_metrics(site)->answered), atomic_load(&site_metrics(site)->requests));
    struct web_conn conn;
    CHECK(web_open(&conn, site_port(site)));
    web_send_text(&conn, request_of(12, 1, "still there"));
    check_answer(&conn, 1, "still there");
    web_close(&conn);
}

/* Half a request or a whole one, and the end right behind it, in one packet. */
static void the_end_behind_the_request(void) {
    enum { MANY = 80 };
    static struct web_conn conns[MANY];
    struct site *site = site_start(1000, LONG_MS);
    const char *request = request_of(11, 1, "last");
    int on = 1;
    for (int i = 0; i < MANY; i++) {
        CHECK(web_open(&conns[i], site_port(site)));
        if (i % 4 < 2) { /* on a connection that has been waited on */
            web_send_text(&conns[i], request_of(0, 0, "first"));
            check_answer(&conns[i], 0, "first");
        }
        setsockopt(conns[i].fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
        CHECK_INT(web_send_raw(&conns[i], request, strlen(request) - (i % 2 == 0)), WEB_OK);
        CHECK_INT(shutdown(conns[i].fd, SHUT_WR), 0);
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 2)
            check_answer(&conns[i], 1, "last");
        CHECK_INT(web_read_end(&conns[i]), WEB_CLOSED);
        web_close(&conns[i]);
    }
    site_wait(site, 0, 0);
}

/* ---- who is cut off ---- */

static void check_cut_off(struct web_conn *conn) {
    CHECK_INT(web_read_end(conn), WEB_CLOSED);
    web_close(conn);
}

static void idle_ones(void) {
    struct site *site = site_start(1000, IDLE_MS);
    struct web_conn silent, served;
    CHECK(web_open(&silent, site_port(site)) && web_open(&served, site_port(site)));
    web_send_text(&served, request_of(0, 1, ""));
    check_answer(&served, 1, "");
    check_cut_off(&silent);
    check_cut_off(&served);
    site_wait(site, 0, 0);
}

/* A byte now and then keeps nobody alive: only whole requests do. */
static void tricklers(void) {
    struct site *site = site_start(1000, IDLE_MS);
    static const char *const slow[] = {
        "GET /0 HTTP/1.1\r\nX-Filler: ", "POST /0 HTTP/1.1\r\nContent-Length: 10000\r\n\r\n",
        "POST /0 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n"};
    struct web_conn conns[3], busy;
    for (int i = 0; i < 3; i++) {
        CHECK(web_open(&conns[i], site_port(site)));
        web_send_text(&conns[i], slow[i]);
    }
    CHECK(web_open(&busy, site_port(site)));
    bool cut[3] = {false};
    for (int64_t until_ms = harness_now_ms() + 20000; !cut[0] || !cut[1] || !cut[2];) {
        CHECK(harness_now_ms() < until_ms);
        for (int i = 0; i < 3; i++)
            cut[i] |= web_send_raw(&conns[i], "x", 1) != WEB_OK;
        harness_pause_ms(10);
        web_send_text(&busy, request_of(1, 5, "kept"));
        check_answer(&busy, 5, "kept");
    }
    for (int i = 0; i < 3; i++)
        web_close(&conns[i]);
    web_close(&busy);
    site_wait(site, 0, 0);
    CHECK(atomic_load(&site_metrics(site)->requests) > 0);
}

/* Nobody is cut off for waiting, whatever it takes. */
static void those_who_wait(void) {
    struct site *site = site_start(1000, IDLE_MS);
    struct web_conn conn;
    CHECK(web_open(&conn, site_port(site)));
    web_send_text(&conn, request_of(2500, 3, "late"));
    check_answer(&conn, 3, "late");
    web_send_text(&conn, request_of(0, 4, "and on"));
    check_answer(&conn, 4, "and on");
    web_close(&conn);
}

/* A client that sends request after request and reads no answer. */
static void deaf_ones(void) {
    struct site *site = site_start(1000, IDLE_MS);
    struct web_conn conn;
    char *body = harness_alloc(16001);
    memset(body, 'd', 16000);
    const char *request = request_of(0, 1, body);
    CHECK(web_open(&conn, site_port(site)));
    conn.timeout_ms = 100;
    while (web_send_raw(&conn, request, strlen(request)) == WEB_OK)
        continue; /* until both sides' buffers are full */
    site_wait(site, 0, 0);
    web_close(&conn);
}

/* More arguments, cookies or headers than fit: whatever is made of them, nobody is left without a word. */
static void too_much_in_a_head(void) {
    static const char *const kinds[][3] = {
        {"GET /0?", "&a", " HTTP/1.1\r\nHost: x\r\nUser-Agent: x/1\r\nAccept: */*\r\n\r\n"},
        {"GET /0 HTTP/1.1\r\nHost: x\r\nCookie: ", "a=b; ", "\r\n\r\n"},
        {"GET /0 HTTP/1.1\r\nHost: x\r\n", "a:b\r\n", "\r\n"}};
    struct site *site = site_start(1000, LONG_MS);
    for (int kind = 0; kind < 3; kind++) {
        for (int units = 20; units < 2000; units += units < 200 ? 1 : 100) {
            struct web_conn conn;
            struct web_response response;
            char *text = harness_alloc((size_t)units * 5 + 1), *end = text;
            for (int k = 0; k < units; k++)
                end = stpcpy(end, kinds[kind][1]);
            const char *request = harness_format("%s%s%s", kinds[kind][0], text, kinds[kind][2]);
            CHECK(web_open(&conn, site_port(site)));
            web_send_raw(&conn, request, strlen(request));
            enum web_result result = web_read_response(&conn, &response);
            if (result != WEB_OK && result != WEB_CLOSED)
                FAIL("%d times %s: no answer and no end", units, kinds[kind][1]);
            web_close(&conn);
        }
    }
    site_wait(site, 0, 0);
}

static void more_than_may(void) {
    enum { MAY = 3, MANY = 40 };
    struct site *site = site_start(MAY, LONG_MS);
    struct web_conn conns[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK(web_open(&conns[i], site_port(site)));
        web_send_text(&conns[i], request_of(i % 2 ? 12 : 0, i, "flood"));
    }
    /* Each has its turn when one before it leaves, and not before. */
    for (int i = 0; i < MANY; i++) {
        check_answer(&conns[i], i, "flood");
        CHECK(atomic_load(&site_metrics(site)->connections) <= MAY);
        web_close(&conns[i]);
    }
    site_wait(site, 0, 0);
}

/* Those who have all the places and say nothing make room long before they would be cut off otherwise. */
static void silent_ones_make_room(void) {
    enum { MAY = 8, SERVED_MS = 20000 };
    struct site *site = site_start(MAY, LONG_MS);
    struct web_conn silent[MAY], other;
    for (int i = 0; i < MAY; i++) {
        CHECK(web_open(&silent[i], site_port(site)));
        if (i % 2)
            web_send_text(&silent[i], "POST /0 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    }
    site_wait(site, MAY, 0);
    CHECK(web_open_at(&other, "127.0.0.1", site_port(site), SERVED_MS));
    web_send_text(&other, request_of(0, 7, "room"));
    check_answer(&other, 7, "room");
    web_close(&other);
    for (int i = 0; i < MAY; i++)
        web_close(&silent[i]);
}

/* All who had a place leave it in one moment: those who wait notice. */
static void all_leave_at_once(void) {
    enum { MAY = 5, MANY = 20 };
    struct site *site = site_start(MAY, LONG_MS);
    struct web_conn in[MAY], waiting[MANY];
    for (int i = 0; i < MAY; i++)
        CHECK(web_open(&in[i], site_port(site)));
    site_wait(site, MAY, 0);
    for (int i = 0; i < MANY; i++) {
        CHECK(web_open(&waiting[i], site_port(site)));
        web_send_text(&waiting[i], request_of(0, i, "in the end"));
    }
    web_send_text(&in[0], request_of(-100, 0, ""));
    while (atomic_load(&site_metrics(site)->requests) == 0)
        harness_pause_ms(1);
    for (int i = 0; i < MAY; i++)
        web_close(&in[i]);
    for (int i = 0; i < MANY; i++) {
        check_answer(&waiting[i], i, "in the end");
        web_close(&waiting[i]);
    }
}

static void drained(void) {
    enum { MANY = 66 };
    struct site *site = site_start(1000, LONG_MS);
    static struct web_conn conns[MANY];
    for (int i = 0; i < MANY; i++)
        CHECK(web_open(&conns[i], site_port(site)));
    for (int i = 0; i < MANY; i++)
        web_send_text(&conns[i], request_of(i % 3 == 0 ? 0 : 12 * (i % 3) + 1000, i, "x"));
    for (int i = 0; i < MANY; i += 3)
        check_answer(&conns[i], i, "x");
    site_wait(site, MANY, MANY / 3 * 2);
    site_drain(site);
    for (int i = 0; i < MANY; i++) {
        if (i % 3)
            check_answer(&conns[i], i, "x");
        check_cut_off(&conns[i]);
    }
    site_wait(site, 0, 0);
    CHECK(!web_open(&conns[0], site_port(site)));
}

/* Whatever the moment, nobody is kept for want of a last word. */
static void drained_at_any_moment(void) {
    enum { MANY = 40, ROUNDS = 25 };
    static struct web_conn conns[MANY];
    uint64_t position = harness_seed();
    for (int round = 0; round < ROUNDS; round++) {
        struct site *site = site_start(1000, LONG_MS);
        for (int i = 0; i < MANY; i++)
            CHECK(web_open(&conns[i], site_port(site)));
        site_wait(site, MANY, 0);
        for (int i = 0; i < MANY; i++)
            web_send_text(&conns[i], request_of((int)(harness_random(&position) % 15), i, "x"));
        harness_pause_ms((int)(harness_random(&position) % 15));
        site_drain(site);
        for (int i = 0; i < MANY; i++) {
            check_answer(&conns[i], i, "x");
            check_cut_off(&conns[i]);
        }
        site_wait(site, 0, 0);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("answers on both sides of the border", answers_on_both_sides_of_the_border);
    harness_run("pipelined requests", pipelined);
    harness_run("buffers to the last byte", buffers_to_the_last_byte);
    harness_run("clients that leave", clients_that_leave);
    harness_run("the end behind the request", the_end_behind_the_request);
    harness_run("idle ones are cut off", idle_ones);
    harness_run("tricklers are cut off", tricklers);
    harness_run("those who wait are not", those_who_wait);
    harness_run("deaf ones are cut off", deaf_ones);
    harness_run("too much in a head", too_much_in_a_head);
    harness_run("more than may", more_than_may);
    harness_run("silent ones make room", silent_ones_make_room);
    harness_run("all leave at once", all_leave_at_once);
    harness_run("drained", drained);
    harness_run("drained at any moment", drained_at_any_moment);
    return harness_finish();
}
