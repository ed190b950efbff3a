/* Each strategy under a crowd of buyers: which sell what there is, and that those which teach do teach. */
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { STOCK = 100, BUYERS = 5000, THREADS = 64, TRIES = 5 };

struct sale {
    struct redis_server redis;
    struct seckilld service;
};

static void open_sale(struct sale *sale, const char *lock, const char *work_delay) {
    redis_start(&sale->redis, "--appendfsync", "no", NULL);
    seckilld_start(&sale->service, sale->redis.port, "--teaching", "--lock", lock, "--work-delay", work_delay,
                   NULL);
    seckilld_wait_ready(&sale->service, 200);
}

static struct crowd *sell(struct sale *sale, const char *strategy, int buyers) {
    shop_put(sale->service.port, strategy,
             harness_format("\"stock\":%d,\"strategy\":\"%s\"", STOCK, strategy));
    struct crowd_plan plan = {.ports = {sale->service.port},
                              .item = strategy,
                              .prefix = "k",
                              .threads = THREADS,
                              .purchases = buyers};
    struct crowd *crowd = crowd_run(&plan);
    CHECK_INT(crowd_answered(crowd), buyers);
    crowd_check_answers(crowd, "sold-out");
    CHECK_INT(crowd_count(crowd, 201) + crowd_count(crowd, 409), buyers);
    return crowd;
}

static void honest(const char *strategy) {
    struct sale sale;
    open_sale(&sale, "local:", "0");
    struct crowd *crowd = sell(&sale, strategy, BUYERS);
    int port = sale.service.port;
    CHECK_INT(crowd_count(crowd, 201), STOCK);
    CHECK_INT(shop_audit(port, strategy, "sold"), STOCK);
    CHECK_INT(shop_audit(port, strategy, "orders"), STOCK);
    CHECK_INT(shop_audit(port, strategy, "available"), 0);
    crowd_check_orders(crowd, port);
    /* Those who won still have it, with the key they won it with; those who did not have nothing. */
    struct crowd_plan again = {
        .ports = {port}, .item = strategy, .prefix = "k", .threads = 8, .purchases = BUYERS / 10};
    struct crowd *retries = crowd_run(&again);
    for (int i = 0; i < again.purchases; i++) {
        const struct receipt *first = crowd_receipt(crowd, i), *second = crowd_receipt(retries, i);
        CHECK_INT(second->status, first->status);
        CHECK_STR(second->order, first->order);
        CHECK(second->replayed == (first->status == 201));
    }
    CHECK_INT(shop_audit(port, strategy, "sold"), STOCK);
    CHECK_INT(seckilld_stop(&sale.service), 0);
}

static void batch(void) {
    honest("batch");
}
static void lua(void) {
    honest("lua");
}
static void decr(void) {
    honest("decr");
}
static void optimistic(void) {
    honest("optimistic");
}
static void locked_by_a_lock(void) {
    honest("locked");
}

/* Sells more than there is, says so in the audit, and every buyer has an order. That two buyers come between
 * each other is chance: on a machine that has little to give it may take another sale. */
static void oversold(const char *lock, const char *work_delay, const char *strategy, int buyers) {
    struct sale sale;
    struct crowd *crowd = NULL;
    struct web_response audit;
    int sold = 0;
    for (int tries = 0; tries < TRIES && sold <= STOCK; tries++) {
        if (tries > 0)
            seckilld_stop(&sale.service);
        open_sale(&sale, lock, work_delay);
        crowd = sell(&sale, strategy, buyers);
        sold = crowd_count(crowd, 201);
    }
    int port = sale.service.port;
    CHECK(sold > STOCK);
    CHECK_INT(shop_admin(port, "GET", harness_format("/v1/items/%s/audit", strategy), NULL, &audit), 200);
    CHECK_HAS(audit.body, "\"conserved\":false");
    CHECK_INT(shop_number(&audit, "oversold"), sold - STOCK);
    CHECK_INT(shop_number(&audit, "orders"), sold);
    crowd_check_orders(crowd, port);
}

static void naive(void) {
    oversold("local:", "0", "naive", BUYERS);
}

static void naive_with_a_delay(void) {
    oversold("local:", "5", "naive", BUYERS / 2);
}

static void locked_by_none(void) {
    oversold("none:", "1", "locked", BUYERS);
}

/* A mutex in the process is none between two. */
static void locked_in_two_processes(void) {
    struct sale sale;
    struct seckilld other;
    open_sale(&sale, "local:", "2");
    seckilld_start(&other, sale.redis.port, "--teaching", "--work-delay", "2", NULL);
    seckilld_wait_ready(&other, 200);
    shop_put(other.port, "shared", harness_format("\"stock\":%d,\"strategy\":\"locked\"", STOCK));
    struct crowd_plan plan = {.ports = {sale.service.port, other.port},
                              .item = "shared",
                              .prefix = "k",
                              .threads = 16,
                              .purchases = 1000};
    struct crowd *crowd = crowd_run(&plan);
    crowd_check_answers(crowd, "sold-out");
    CHECK(crowd_count(crowd, 201) > STOCK);
}

/* The delay is work: one purchase after the other takes at least so long. Nobody waits for it in `batch`. */
static void the_work_delay(void) {
    struct sale sale;
    open_sale(&sale, "local:", "20");
    shop_put(sale.service.port, "slow", "\"stock\":100,\"strategy\":\"locked\"");
    struct crowd_plan plan = {
        .ports = {sale.service.port}, .item = "slow", .prefix = "k", .threads = 16, .purchases = 50};
    int64_t began_ms = harness_now_ms();
    struct crowd *crowd = crowd_run(&plan);
    CHECK_INT(crowd_count(crowd, 201), 50);
    CHECK(harness_now_ms() - began_ms >= 1000 /* 50 times 20 ms */);
    CHECK_INT(shop_audit(sale.service.port, "slow", "sold"), 50);
}

/* More wait for a lock than may, or longer than they may: they are told so, and nothing was done for them. */
static void too_many_wait(void) {
    struct sale sale;
    struct web_response response;
    enum { MANY = 1300 };
    static struct web_conn conns[MANY];
    redis_start(&sale.redis, NULL);
    seckilld_start(&sale.service, sale.redis.port, "--teaching", "--lock-ttl", "100", "--work-delay", "50",
                   NULL);
    seckilld_wait_ready(&sale.service, 200);
    shop_put(sale.service.port, "queue", "\"stock\":2000,\"strategy\":\"locked\"");
    for (int i = 0; i < MANY; i++) {
        const char *request = shop_purchase_raw("queue", "u", 1, harness_format("k%d", i));
        CHECK(web_open(&conns[i], sale.service.port));
        CHECK_INT(web_send_raw(&conns[i], request, strlen(request)), WEB_OK);
    }
    int overloaded = 0;
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(web_read_response(&conns[i], &response), WEB_OK);
        if (response.status != 201) {
            CHECK_PROBLEM(&response, 503, "overloaded");
            overloaded++;
        }
        web_close(&conns[i]);
    }
    CHECK(overloaded > 0 && overloaded < MANY);
    CHECK_INT(shop_audit(sale.service.port, "queue", "orders"), MANY - overloaded);
}

static void unsafe_items_without_teaching(void) {
    struct sale sale;
    struct seckilld careful;
    struct web_response response;
    open_sale(&sale, "none:", "0");
    seckilld_start(&careful, sale.redis.port, NULL);
    seckilld_wait_ready(&careful, 200);
    static const char *const unsafe[] = {"naive", "locked"};
    for (int i = 0; i < 2; i++) {
        const char *terms = harness_format("\"stock\":1,\"strategy\":\"%s\"", unsafe[i]);
        shop_admin(careful.port, "PUT", "/v1/items/new", harness_format("{%s}", terms), &response);
        CHECK_PROBLEM(&response, 409, "teaching-only");
        shop_put(sale.service.port, unsafe[i], terms);
        shop_buy(careful.port, unsafe[i], "u", 1, "k", &response);
        CHECK_PROBLEM(&response, 409, "teaching-only");
        CHECK_INT(shop_get(careful.port, harness_format("/v1/items/%s", unsafe[i]), &response), 200);
        CHECK_INT(shop_number(&response, "available"), 1);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("batch sells what there is", batch);
    harness_run("lua sells what there is", lua);
    harness_run("decr sells what there is", decr);
    harness_run("optimistic sells what there is", optimistic);
    harness_run("locked, by a lock, sells what there is", locked_by_a_lock);
    harness_run("naive oversells", naive);
    harness_run("naive with a delay oversells", naive_with_a_delay);
    harness_run("locked by none: oversells", locked_by_none);
    harness_run("locked by local: in two processes oversells", locked_in_two_processes);
    harness_run("the work delay", the_work_delay);
    harness_run("too many wait for a lock", too_many_wait);
    harness_run("unsafe items without --teaching", unsafe_items_without_teaching);
    return harness_finish();
}
