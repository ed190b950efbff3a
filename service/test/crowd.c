#include "service/test/crowd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "service/test/shop.h"

enum { THREADS_MAX = 128, RETRY_MS = 60000, PAUSE_MS = 5 };

struct crowd {
    struct crowd_plan plan;
    struct receipt *receipts;
    atomic_int next, answered, places;
    atomic_bool stopped;
    int started;
    bool joined;
    pthread_t threads[THREADS_MAX];
};

/* What a thread needs. It asks the harness for no memory: that of a failed test is freed while it runs. */
struct buyer {
    struct web_conn conn;
    char head[2048], body[12288]; /* of the last answer */
};

/* The text of `name` in the answer's JSON, which has no escapes. */
static void copy_text(const struct buyer *buyer, const char *name, char *out, size_t out_size) {
    const char *at = strstr(buyer->body, name);
    size_t length = at ? strcspn(at += strlen(name), "\"") : 0;
    if (length == 0 || length >= out_size)
        FAIL("%s has no %s", buyer->body, name);
    memcpy(out, at, length);
    out[length] = '\0';
}

static void note(struct receipt *receipt, const struct buyer *buyer, int status) {
    char type[64];
    receipt->status = status;
    receipt->replayed = strcasestr(buyer->head, "\r\nIdempotent-Replayed: true\r\n") != NULL;
    if (status == 201 || status == 200) {
        copy_text(buyer, status == 201 ? "\"order\":\"" : "\"transfer\":\"", receipt->order,
                  sizeof receipt->order);
    } else {
        copy_text(buyer, "\"type\":\"/problems/", type, sizeof type);
        snprintf(receipt->type, sizeof receipt->type, "%.23s", type);
    }
}

/* Moves an answer from the connection into the buyer; 0 where there is none. */
static int read_answer(struct buyer *buyer) {
    struct web_conn *conn = &buyer->conn;
    size_t head = 0, length = 0;
    struct timeval patience = {conn->timeout_ms / 1000, 0};
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (head == 0 || conn->held < head + length) {
        ssize_t got = recv(conn->fd, conn->buffer + conn->held, sizeof conn->buffer - 1 - conn->held, 0);
        if (got <= 0)
            return 0;
        conn->held += (size_t)got;
        conn->buffer[conn->held] = '\0';
        const char *end = strstr(conn->buffer, "\r\n\r\n"),
                   *declared = strcasestr(conn->buffer, "\r\nContent-Length:");
        if (!end || head)
            continue;
        head = (size_t)(end - conn->buffer) + 4;
        length = declared ? strtoul(declared + 17, NULL, 10) : 0;
        if (head >= sizeof buyer->head || length >= sizeof buyer->body)
            FAIL("an answer of %zu and %zu bytes", head, length);
    }
    snprintf(buyer->head, sizeof buyer->head, "%.*s", (int)head, conn->buffer);
    snprintf(buyer->body, sizeof buyer->body, "%.*s", (int)length, conn->buffer + head);
    conn->held -= head + length;
    memmove(conn->buffer, conn->buffer + head + length, conn->held);
    return strncmp(buyer->head, "HTTP/1.1 ", 9) == 0 ? (int)strtol(buyer->head + 9, NULL, 10) : 0;
}

/* Tries once; an answer that ends the connection, or none, leaves it closed. */
static void attempt(struct crowd *crowd, struct buyer *buyer, int port, int i) {
    const struct crowd_plan *plan = &crowd->plan;
    struct receipt *receipt = &crowd->receipts[i];
    char body[3072], request[4096];
    receipt->tries++;
    receipt->status = 0;
    if (buyer->conn.fd < 0 && !web_open(&buyer->conn, port))
        return;
    if (plan->path)
        plan->write_body(plan->ctx, i, body, sizeof body);
    else
        snprintf(body, sizeof body, "{\"item\":\"%s\",\"user\":\"u%d\",\"quantity\":%d}", plan->item, i,
                 plan->quantity ? plan->quantity : 1);
    int length = snprintf(request, sizeof request,
                          "POST %s HTTP/1.1\r\nHost: shop\r\n" SECKILLD_ADMIN "Idempotency-Key: %s-%d\r\n"
                          "Content-Length: %zu\r\n\r\n%s",
                          plan->path ? plan->path : "/v1/purchases", plan->prefix, i, strlen(body), body);
    int status = web_send_raw(&buyer->conn, request, (size_t)length) == WEB_OK ? read_answer(buyer) : 0;
    if (status)
        note(receipt, buyer, status);
    if (!status || strcasestr(buyer->head, "\r\nConnection: close\r\n"))
        web_close(&buyer->conn);
}

static void *buy(void *arg) {
    struct crowd *crowd = arg;
    const struct crowd_plan *plan = &crowd->plan;
    int ports = plan->ports[1] ? 2 : 1, place = atomic_fetch_add(&crowd->places, 1);
    struct buyer buyer = {.conn.fd = -1};
    for (int i; !atomic_load(&crowd->stopped) && (i = atomic_fetch_add(&crowd->next, 1)) < plan->purchases;) {
        int64_t until_ms = harness_now_ms() + RETRY_MS;
        for (;;) {
            attempt(crowd, &buyer, plan->ports[place % ports], i);
            int status = crowd->receipts[i].status;
            if (!plan->retries || (status != 0 && status != 503) || harness_now_ms() >= until_ms)
                break;
            harness_pause_ms(PAUSE_MS);
            web_close(&buyer.conn);
            place++;
        }
        atomic_fetch_add(&crowd->answered, 1);
    }
    web_close(&buyer.conn);
    return NULL;
}

static void end(void *arg) {
    struct crowd *crowd = arg;
    crowd_stop(crowd);
    crowd_join(crowd);
}

struct crowd *crowd_start(const struct crowd_plan *plan) {
    struct crowd *crowd = harness_alloc(sizeof *crowd);
    CHECK(plan->threads <= THREADS_MAX);
    crowd->plan = *plan;
    crowd->receipts = harness_alloc((size_t)plan->purchases * sizeof *crowd->receipts);
    harness_defer(end, crowd);
    for (; crowd->started < plan->threads; crowd->started++)
        CHECK_INT(pthread_create(&crowd->threads[crowd->started], NULL, buy, crowd), 0);
    return crowd;
}

int crowd_answered(const struct crowd *crowd) {
    return atomic_load(&crowd->answered);
}

struct mark {
    struct crowd *crowd;
    int answered;
};

static bool has_passed(void *arg) {
    struct mark *mark = arg;
    return crowd_answered(mark->crowd) >= mark->answered || harness_failed();
}

void crowd_wait(struct crowd *crowd, int answered) {
    struct mark mark = {crowd, answered};
    if (!harness_wait(has_passed, &mark, RETRY_MS) || harness_failed())
        FAIL("%d purchases were answered, not %d", crowd_answered(crowd), answered);
}

void crowd_stop(struct crowd *crowd) {
    atomic_store(&crowd->stopped, true);
}

void crowd_join(struct crowd *crowd) {
    if (crowd->joined)
        return;
    crowd->joined = true;
    for (int i = 0; i < crowd->started; i++)
        pthread_join(crowd->threads[i], NULL);
}

struct crowd *crowd_run(const struct crowd_plan *plan) {
    struct crowd *crowd = crowd_start(plan);
    crowd_join(crowd);
    CHECK(!harness_failed());
    return crowd;
}

/* ---- receipts ---- */

const struct receipt *crowd_receipt(const struct crowd *crowd, int i) {
    return &crowd->receipts[i];
}

int crowd_count(const struct crowd *crowd, int status) {
    int count = 0;
    for (int i = 0; i < crowd->plan.purchases; i++)
        count += crowd->receipts[i].tries && crowd->receipts[i].status == status;
    return count;
}

void crowd_check_orders(const struct crowd *crowd, int port) {
    struct web_conn conn;
    struct web_response response;
    CHECK(web_open(&conn, port));
    for (int i = 0; i < crowd->plan.purchases; i++) {
        const struct receipt *receipt = &crowd->receipts[i];
        if (receipt->status != 201)
            continue;
        CHECK_INT(
            web_request(&conn, "GET", harness_format("/v1/orders/%s", receipt->order), NULL, NULL, &response),
            WEB_OK);
        if (response.status != 200)
            FAIL("the order of %s-%d was acknowledged, and now is %d %s", crowd->plan.prefix, i,
                 response.status, response.body);
        CHECK_STR(shop_text(&response, "user"), harness_format("u%d", i));
        CHECK_STR(shop_text(&response, "order"), receipt->order);
    }
    web_close(&conn);
}

void crowd_check_answers(const struct crowd *crowd, const char *type) {
    for (int i = 0; i < crowd->plan.purchases; i++) {
        const struct receipt *receipt = &crowd->receipts[i];
        if (receipt->tries && receipt->status != 201 && (!type || strcmp(receipt->type, type) != 0))
            FAIL("%s-%d ended with %d %s after %d tries", crowd->plan.prefix, i, receipt->status,
                 receipt->type, receipt->tries);
    }
}
