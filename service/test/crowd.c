#include "service/test/crowd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/caller.h"
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

static void copy_text(const struct caller *caller, const char *name, char *out, size_t out_size) {
    if (!caller_text(caller, name, out, out_size))
        FAIL("%s has no %s", caller->body, name);
}

static void note(struct receipt *receipt, const struct caller *caller, int status) {
    char type[64];
    receipt->status = status;
    receipt->replayed = caller_has_header(caller, "Idempotent-Replayed: true");
    if (status == 201 || status == 200) {
        copy_text(caller, status == 201 ? "\"order\":\"" : "\"transfer\":\"", receipt->order,
                  sizeof receipt->order);
    } else {
        copy_text(caller, "\"type\":\"/problems/", type, sizeof type);
        snprintf(receipt->type, sizeof receipt->type, "%.23s", type);
    }
}

static void attempt(struct crowd *crowd, struct caller *caller, int port, int i) {
    const struct crowd_plan *plan = &crowd->plan;
    struct receipt *receipt = &crowd->receipts[i];
    char body[3072], key[64];
    receipt->tries++;
    receipt->status = 0;
    if (plan->path)
        plan->write_body(plan->ctx, i, body, sizeof body);
    else
        snprintf(body, sizeof body, "{\"item\":\"%s\",\"user\":\"u%d\",\"quantity\":%d}", plan->item, i,
                 plan->quantity ? plan->quantity : 1);
    snprintf(key, sizeof key, "%s-%d", plan->prefix, i);
    int status = caller_call(caller, port, "POST", plan->path ? plan->path : "/v1/purchases", key, body);
    if (status)
        note(receipt, caller, status);
}

static void *buy(void *arg) {
    struct crowd *crowd = arg;
    const struct crowd_plan *plan = &crowd->plan;
    int ports = plan->ports[1] ? 2 : 1, place = atomic_fetch_add(&crowd->places, 1);
    struct caller caller = CALLER_NEW;
    for (int i; !atomic_load(&crowd->stopped) && (i = atomic_fetch_add(&crowd->next, 1)) < plan->purchases;) {
        int64_t until_ms = harness_now_ms() + RETRY_MS;
        for (;;) {
            attempt(crowd, &caller, plan->ports[place % ports], i);
            int status = crowd->receipts[i].status;
            if (!plan->retries || (status != 0 && status != 503) || harness_now_ms() >= until_ms)
                break;
            harness_pause_ms(PAUSE_MS);
            caller_close(&caller);
            place++;
        }
        atomic_fetch_add(&crowd->answered, 1);
        if (plan->pause_ms)
            harness_pause_ms(plan->pause_ms);
    }
    caller_close(&caller);
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

/* ---- baskets and transfers ---- */

void goods_put(const struct goods *goods, int port) {
    for (int i = 0; i < goods->items; i++)
        shop_put(port, harness_format("i%d", i), harness_format("\"stock\":%d", goods->stock));
}

struct goods_line {
    int item, quantity;
};

static int draw_basket(const struct goods *goods, int i, struct goods_line lines[GOODS_LINES_MAX]) {
    uint64_t random = goods->seed + (uint64_t)i * 1000003;
    int count = goods->lines_least +
                (int)(harness_random(&random) % (unsigned)(goods->lines_most - goods->lines_least + 1));
    for (int k = 0; k < count; k++) {
        lines[k].item = (int)(harness_random(&random) % (unsigned)goods->items);
        lines[k].quantity = 1 + (int)(harness_random(&random) % (unsigned)goods->quantity_most);
    }
    return count;
}

/* The quantity. */
static int draw_transfer(const struct goods *goods, int i, int *from, int *to) {
    uint64_t random = goods->seed + (uint64_t)i * 1000033;
    unsigned items = (unsigned)goods->items;
    *from = (int)(harness_random(&random) % items);
    *to = (int)(((unsigned)*from + 1 + harness_random(&random) % (items - 1)) % items);
    return 1 + (int)(harness_random(&random) % (unsigned)goods->quantity_most);
}

void goods_write_basket(void *ctx, int i, char *body, size_t size) {
    struct goods_line lines[GOODS_LINES_MAX];
    int count = draw_basket(ctx, i, lines), length = snprintf(body, size, "{\"user\":\"u%d\",\"lines\":[", i);
    for (int k = 0; k < count; k++)
        length += snprintf(body + length, size - (size_t)length, "%s{\"item\":\"i%d\",\"quantity\":%d}",
                           k ? "," : "", lines[k].item, lines[k].quantity);
    snprintf(body + length, size - (size_t)length, "]}");
}

void goods_write_transfer(void *ctx, int i, char *body, size_t size) {
    int from, to, quantity = draw_transfer(ctx, i, &from, &to);
    snprintf(body, size, "{\"from\":\"i%d\",\"to\":\"i%d\",\"quantity\":%d}", from, to, quantity);
}

void goods_note_baskets(struct goods *goods, const struct crowd *crowd) {
    struct goods_line lines[GOODS_LINES_MAX];
    for (int i = 0; i < crowd->plan.purchases; i++) {
        int count = crowd->receipts[i].status == 201 ? draw_basket(goods, i, lines) : 0;
        for (int k = 0; k < count; k++) {
            goods->sold[lines[k].item] += lines[k].quantity;
            goods->orders[lines[k].item]++;
        }
    }
}

void goods_note_transfers(struct goods *goods, const struct crowd *crowd) {
    for (int i = 0; i < crowd->plan.purchases; i++) {
        int from, to, quantity = draw_transfer(goods, i, &from, &to);
        if (crowd->receipts[i].status != 200)
            continue;
        goods->moved[from] -= quantity;
        goods->moved[to] += quantity;
    }
}

void goods_check_books(const struct goods *goods, int port) {
    for (int i = 0; i < goods->items; i++) {
        const char *item = harness_format("i%d", i);
        CHECK_INT(shop_audit(port, item, "sold"), goods->sold[i]);
        CHECK_INT(shop_audit(port, item, "orders"), goods->orders[i]);
        CHECK_INT(shop_audit(port, item, "pending"), 0);
        CHECK_INT(shop_audit(port, item, "stock"), goods->stock + goods->moved[i]);
        CHECK_INT(shop_audit(port, item, "available"), goods->stock + goods->moved[i] - goods->sold[i]);
    }
}
