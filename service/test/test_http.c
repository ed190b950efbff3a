/* HTTP: how requests wait for their answers, and who is cut off. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "service/http/http_server.h"
#include "test/harness.h"

enum { TICK_MS = 2, WAIT_MS = 20000, LONG_MS = 60000, IDLE_MS = 300 };

/* An HTTP server in a thread of this program, that answers when it is told to: GET or POST /N is answered
 * after N milliseconds with the request's body and its X-Id header in front; /-N at once, after the thread
 * has stood still for so long. */
struct site {
    uv_loop_t loop;
    struct http_server *http;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t tick;
    pthread_t thread;
    int port;
    atomic_bool draining, stopping;
    atomic_int requests, pending, connections, answered; /* written by its thread */
};

struct later {
    uv_timer_t timer;
    struct site *site;
    struct http_request *request;
};

static void site_answer(struct site *site, struct http_request *request) {
    char body[HTTP_BODY_MAX + 64];
    size_t id_size = strlen(memcpy(body, request->context, 16));
    memcpy(body + id_size, request->body, request->length);
    atomic_fetch_add(&site->answered, 1);
    http_answer(request, 200, "text/plain", body, id_size + request->length, NULL);
}

static void on_later_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void on_later(uv_timer_t *timer) {
    struct later *later = timer->data;
    site_answer(later->site, later->request);
    uv_close((uv_handle_t *)timer, on_later_closed);
}

static void on_request(void *ctx, struct http_request *request) {
    struct site *site = ctx;
    size_t length;
    const char *id;
    http_request_header(request, "X-Id", &id, &length);
    atomic_fetch_add(&site->requests, 1);
    snprintf(request->context, 16, "%.*s", (int)length, id ? id : "");
    int delay_ms = (int)strtol(request->path + 1, NULL, 10);
    if (delay_ms < 0) { /* the whole server stands still */
        harness_pause_ms(-delay_ms);
        delay_ms = 0;
    }
    if (delay_ms == 0) {
        site_answer(site, request);
        return;
    }
    struct later *later = malloc(sizeof *later);
    if (!later)
        abort();
    *later = (struct later){.site = site, .request = request};
    later->timer.data = later;
    uv_timer_init(&site->loop, &later->timer);
    uv_update_time(&site->loop);
    uv_timer_start(&later->timer, on_later, (uint64_t)delay_ms, 0);
}

static void on_answer(void *ctx, const struct http_request *request, int status) {
    (void)ctx;
    (void)request;
    (void)status;
}

static void site_turn(struct site *site) {
    http_server_turn(site->http);
    atomic_store(&site->pending, http_server_pending(site->http));
    atomic_store(&site->connections, http_server_connections(site->http));
}

static void on_prepare(uv_prepare_t *handle) {
    site_turn(handle->data);
}

static void on_check(uv_check_t *handle) {
    site_turn(handle->data);
}

static void on_tick(uv_timer_t *timer) {
    struct site *site = timer->data;
    if (atomic_load(&site->draining))
        http_server_drain(site->http);
    if (!atomic_load(&site->stopping) || http_server_pending(site->http) > 0)
        return;
    uv_close((uv_handle_t *)&site->prepare, NULL);
    uv_close((uv_handle_t *)&site->check, NULL);
    uv_close((uv_handle_t *)&site->tick, NULL);
    http_server_close(site->http);
}

static void *site_run(void *arg) {
    struct site *site = arg;
    uv_run(&site->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&site->loop) != 0)
        abort();
    return NULL;
}

static void site_stop(void *arg) {
    struct site *site = arg;
    atomic_store(&site->stopping, true);
    pthread_join(site->thread, NULL);
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(fd, 1024), 0);
    return fd;
}

/* Ends with the test, which fails if it does not end. */
static struct site *site_start(int connections_max, int idle_ms) {
    struct site *site = harness_alloc(sizeof *site);
    site->port = harness_free_port();
    uv_loop_init(&site->loop);
    struct http_config config = {.listen_fd = listen_on(site->port),
                                 .connections_max = connections_max,
                                 .idle_ms = idle_ms,
                                 .on_request = on_request,
                                 .on_answer = on_answer,
                                 .ctx = site};
    site->http = http_server_open(&site->loop, &config);
    CHECK(site->http != NULL);
    site->prepare.data = site->check.data = site->tick.data = site;
    uv_prepare_init(&site->loop, &site->prepare);
    uv_check_init(&site->loop, &site->check);
    uv_timer_init(&site->loop, &site->tick);
    uv_prepare_start(&site->prepare, on_prepare);
    uv_check_start(&site->check, on_check);
    uv_timer_start(&site->tick, on_tick, TICK_MS, TICK_MS);
    CHECK_INT(pthread_create(&site->thread, NULL, site_run, site), 0);
    harness_defer(site_stop, site);
    return site;
}

struct wanted {
    struct site *site;
    int connections, pending;
};

static bool is_as_wanted(void *arg) {
    const struct wanted *wanted = arg;
    return atomic_load(&wanted->site->connections) == wanted->connections &&
           atomic_load(&wanted->site->pending) == wanted->pending;
}

/* Waits until it has as many connections, and as many requests without an answer. */
static void site_wait(struct site *site, int connections, int pending) {
    struct wanted wanted = {site, connections, pending};
    if (!harness_wait(is_as_wanted, &wanted, WAIT_MS))
        FAIL("%d connections and %d requests, not %d and %d", atomic_load(&site->connections),
             atomic_load(&site->pending), connections, pending);
}

/* ---- requests ---- */

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
        CHECK(web_open(&conns[i], site->port));
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
    CHECK_INT(atomic_load(&site->requests), 8 * BORDERS * EACH);
}

static void pipelined(void) {
    enum { MANY = 60 };
    struct site *site = site_start(1000, LONG_MS);
    uint64_t position = harness_seed();
    struct web_conn conn;
    CHECK(web_open(&conn, site->port));
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
    CHECK(web_open(&conn, site->port));
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
            CHECK(web_open(&conn, site->port));
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
    CHECK(atomic_load(&site->requests) >= leaving / 2);
    CHECK_INT(atomic_load(&site->answered), atomic_load(&site->requests));
    struct web_conn conn;
    CHECK(web_open(&conn, site->port));
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
        CHECK(web_open(&conns[i], site->port));
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
    CHECK(web_open(&silent, site->port) && web_open(&served, site->port));
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
        CHECK(web_open(&conns[i], site->port));
        web_send_text(&conns[i], slow[i]);
    }
    CHECK(web_open(&busy, site->port));
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
    CHECK(atomic_load(&site->requests) > 0);
}

/* Nobody is cut off for waiting, whatever it takes. */
static void those_who_wait(void) {
    struct site *site = site_start(1000, IDLE_MS);
    struct web_conn conn;
    CHECK(web_open(&conn, site->port));
    web_send_text(&conn, request_of(1200, 3, "late"));
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
    CHECK(web_open(&conn, site->port));
    conn.timeout_ms = 100;
    while (web_send_raw(&conn, request, strlen(request)) == WEB_OK)
        continue; /* until both sides' buffers are full */
    site_wait(site, 0, 0);
    web_close(&conn);
}

static void more_than_may(void) {
    enum { MAY = 3, MANY = 40 };
    struct site *site = site_start(MAY, LONG_MS);
    struct web_conn conns[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK(web_open(&conns[i], site->port));
        web_send_text(&conns[i], request_of(i % 2 ? 12 : 0, i, "flood"));
    }
    /* Each has its turn when one before it leaves, and not before. */
    for (int i = 0; i < MANY; i++) {
        check_answer(&conns[i], i, "flood");
        CHECK(atomic_load(&site->connections) <= MAY);
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
        CHECK(web_open(&silent[i], site->port));
        if (i % 2)
            web_send_text(&silent[i], "POST /0 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    }
    site_wait(site, MAY, 0);
    CHECK(web_open_at(&other, "127.0.0.1", site->port, SERVED_MS));
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
        CHECK(web_open(&in[i], site->port));
    site_wait(site, MAY, 0);
    for (int i = 0; i < MANY; i++) {
        CHECK(web_open(&waiting[i], site->port));
        web_send_text(&waiting[i], request_of(0, i, "in the end"));
    }
    web_send_text(&in[0], request_of(-100, 0, ""));
    while (atomic_load(&site->requests) == 0)
        harness_pause_ms(1);
    for (int i = 0; i < MAY; i++)
        web_close(&in[i]);
    for (int i = 0; i < MANY; i++) {
        check_answer(&waiting[i], i, "in the end");
        web_close(&waiting[i]);
    }
}

/* Whatever the moment, all who wait are answered, and nobody is kept for want of a last word. */
static void drained_at_any_moment(void) {
    enum { MANY = 40, ROUNDS = 25 };
    static struct web_conn conns[MANY];
    uint64_t position = harness_seed();
    for (int round = 0; round < ROUNDS; round++) {
        struct site *site = site_start(1000, LONG_MS);
        for (int i = 0; i < MANY; i++)
            CHECK(web_open(&conns[i], site->port));
        site_wait(site, MANY, 0);
        for (int i = 0; i < MANY; i++)
            web_send_text(&conns[i], request_of((int)(harness_random(&position) % 15), i, "x"));
        harness_pause_ms((int)(harness_random(&position) % 15));
        atomic_store(&site->draining, true);
        for (int i = 0; i < MANY; i++) {
            check_answer(&conns[i], i, "x");
            check_cut_off(&conns[i]);
        }
        site_wait(site, 0, 0);
        CHECK(!web_open(&conns[0], site->port));
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
    harness_run("more than may", more_than_may);
    harness_run("silent ones make room", silent_ones_make_room);
    harness_run("all leave at once", all_leave_at_once);
    harness_run("drained at any moment", drained_at_any_moment);
    return harness_finish();
}
