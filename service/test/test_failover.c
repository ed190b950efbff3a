/* A failover of the store loses acknowledged orders: they are there again before anything is sold, or it is
 * told that they are not. */
#include <pthread.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"
#include "test/pair.h"

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
    CHECK_HAS(proc_output(&setup.service.proc), "that a failover of the store had lost");
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

static void *stop(void *arg) {
    static int status;
    status = seckilld_stop(arg);
    return &status;
}

static bool is_draining(void *arg) {
    return strstr(proc_output(&((struct seckilld *)arg)->proc), "draining") != NULL;
}

/* An instance that ends in order waits until the replica has what it acknowledged, which lags. Then the
 * master dies, and nobody is left who could put anything back. */
static void an_orderly_end(void) {
    struct pair pair;
    struct seckilld service, next;
    pthread_t thread;
    void *status;
    pair_start(&pair);
    seckilld_start(&service, proxy_port(pair.front), "--drain", "20000", NULL);
    seckilld_wait_ready(&service, 200);
    shop_put(service.port, "phone", "\"stock\":100");
    pair_cut(&pair);
    for (int i = 0; i < 50; i++)
        CHECK_INT(shop_buy(service.port, "phone", "ann", 1, harness_format("k%d", i), NULL), 201);
    CHECK_INT(pthread_create(&thread, NULL, stop, &service), 0);
    CHECK(harness_wait(is_draining, &service, 20000));
    pair_mend(&pair);
    pthread_join(thread, &status);
    CHECK_INT(*(int *)status, 0);
    pair_fail_over(&pair);
    seckilld_start(&next, proxy_port(pair.front), NULL);
    seckilld_wait_ready(&next, 200);
    CHECK_INT(shop_audit(next.port, "phone", "sold"), 50);
    CHECK_INT(shop_buy(next.port, "phone", "ann", 1, "k49", NULL), 201);
    CHECK_INT(shop_audit(next.port, "phone", "sold"), 50);
}

/* No replica gets it in time: the end is said not to be a good one. */
static void a_hasty_end(void) {
    struct pair pair;
    struct seckilld service;
    pair_start(&pair);
    seckilld_start(&service, proxy_port(pair.front), "--drain", "300", NULL);
    seckilld_wait_ready(&service, 200);
    shop_put(service.port, "phone", "\"stock\":100");
    pair_cut(&pair);
    CHECK_INT(shop_buy(service.port, "phone", "ann", 1, "k", NULL), 201);
    CHECK_INT(seckilld_stop(&service), 0);
    CHECK_HAS(proc_output(&service.proc), "ends, and no replica has the last");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a crowd's orders are put back", a_crowds_orders);
    harness_run("a shortage is told", a_shortage);
    harness_run("an orderly end", an_orderly_end);
    harness_run("a hasty end", a_hasty_end);
    return harness_finish();
}
