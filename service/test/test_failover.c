/* A failover of the store loses acknowledged orders: they are there again before anything is sold, or it is
 * told that they are not. */
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { STOCK = 600, BUYERS = 1000, THREADS = 24 };

/* A proxy leads the service to the master. The replica stops to follow before it has got what comes next. */
struct setup {
    struct redis_server master, replica;
    struct proxy *front;
    struct seckilld service;
    int port;
};

static bool has_item(void *arg) {
    return strcmp(redis_command(arg, "EXISTS", "seckill:{phone}:item", NULL), "1") == 0;
}

static void open_setup(struct setup *setup, const char *terms) {
    redis_start(&setup->master, NULL);
    redis_start_replica(&setup->replica, &setup->master);
    setup->front = proxy_start(setup->master.port);
    seckilld_start(&setup->service, proxy_port(setup->front), "--store-timeout", "500", NULL);
    setup->port = setup->service.port;
    seckilld_wait_ready(&setup->service, 200);
    shop_put(setup->port, "phone", terms);
    CHECK(harness_wait(has_item, &setup->replica, 20000));
    CHECK_STR(redis_command(&setup->replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
}

static void fail_over(struct setup *setup) {
    proxy_point(setup->front, setup->replica.port);
    redis_kill(&setup->master);
    shop_wait_unready(setup->port, "");
    seckilld_wait_ready(&setup->service, 200);
}

static void a_crowds_orders(void) {
    struct setup setup;
    open_setup(&setup, "\"stock\":600");
    struct crowd_plan plan = {
        .ports = {setup.port}, .item = "phone", .prefix = "k", .threads = THREADS, .purchases = BUYERS};
    struct crowd *crowd = crowd_run(&plan);
    CHECK_INT(crowd_count(crowd, 201), STOCK);
    CHECK_STR(redis_command(&setup.replica, "HGET", "seckill:{phone}:item", "sold", NULL), "0");
    fail_over(&setup);
    crowd_check_orders(crowd, setup.port);
    struct crowd *again = crowd_run(&plan);
    crowd_check_answers(again, "sold-out");
    for (int i = 0; i < BUYERS; i++) {
        CHECK_STR(crowd_receipt(again, i)->order, crowd_receipt(crowd, i)->order);
        CHECK_INT(crowd_receipt(again, i)->replayed, crowd_receipt(crowd, i)->status == 201);
    }
    CHECK_INT(shop_audit(setup.port, "phone", "sold"), STOCK);
    CHECK_INT(shop_audit(setup.port, "phone", "shortage"), 0);
    CHECK_INT((int)shop_metric(setup.port, "seckill_put_back_total"), STOCK);
    CHECK_INT((int)shop_metric(setup.port, "seckill_shortage_total"), 0);
    CHECK_HAS(proc_output(&setup.service.proc), "orders that a failover of the store had lost");
}

/* Another instance, which had acknowledged nothing, has sold the units at the new master by then. */
static void a_shortage(void) {
    struct setup setup;
    struct seckilld other;
    struct web_response response;
    open_setup(&setup, "\"stock\":10");
    seckilld_start(&other, setup.replica.port, NULL);
    seckilld_wait_ready(&other, 200);
    CHECK_INT(shop_buy(setup.port, "phone", "ann", 8, "a", &response), 201);
    const char *lost = shop_text(&response, "order");
    CHECK_INT(shop_buy(other.port, "phone", "bob", 5, "b", NULL), 201);
    fail_over(&setup);
    CHECK_INT(shop_audit(setup.port, "phone", "sold"), 5);
    CHECK_INT(shop_audit(setup.port, "phone", "shortage"), 8);
    CHECK_INT((int)shop_metric(setup.port, "seckill_shortage_total"), 1);
    CHECK_HAS(proc_output(&setup.service.proc),
              harness_format("error a failover of the store lost the order %s, and its units were sold again",
                             lost));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a crowd's orders are put back", a_crowds_orders);
    harness_run("a shortage is told", a_shortage);
    return harness_finish();
}
