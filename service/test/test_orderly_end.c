/* An instance that is told to end waits, within --drain, until the replicas have what it acknowledged: nobody
 * will be left who could put it back. */
#include <signal.h>
#include <string.h>

#include "service/test/shop.h"
#include "test/harness.h"

static struct pair pair;
static struct seckilld service;

static void start(struct seckilld *at_pair, const char *drain_ms) {
    seckilld_start_ready(at_pair, proxy_port(pair.front), "--store-timeout", "500", "--drain", drain_ms,
                         NULL);
}

/* The items are of an instance that has ended, so all that the service acknowledges is what a test asks for.
 */
static void open_at_pair(const char *drain_ms) {
    struct seckilld first;
    pair_start(&pair);
    start(&first, "20000");
    shop_put(first.port, "phone", "\"stock\":100");
    shop_put(first.port, "lamp", "\"stock\":100");
    CHECK_INT(seckilld_stop(&first), 0);
    start(&service, drain_ms);
}

static void buy(const char *key) {
    CHECK_INT(shop_buy(service.port, "phone", "ann", 1, key, NULL), 201);
}

static bool is_draining(void *arg) {
    (void)arg;
    return strstr(proc_output(&service.proc), "draining") != NULL;
}

/* It is told to end, and does not yet. */
static void begin_end(void) {
    int status;
    proc_kill(&service.proc, SIGTERM);
    CHECK(harness_wait(is_draining, NULL, 20000));
    CHECK(!proc_wait(&service.proc, 300, &status));
}

static void check_ends_well(void) {
    int status;
    CHECK(proc_wait(&service.proc, 20000, &status));
    CHECK_INT(status, 0);
    CHECK(!strstr(proc_output(&service.proc), "not all replicas have"));
}

/* The master dies, and an instance begins that knows only what the replica has. Returns its port. */
static int fail_over(void) {
    static struct seckilld next;
    pair_fail_over(&pair);
    start(&next, "1000");
    return next.port;
}

/* The replica lags. */
static void of_orders(void) {
    open_at_pair("20000");
    pair_cut(&pair);
    for (int i = 0; i < 50; i++)
        buy(harness_format("k%d", i));
    begin_end();
    pair_mend(&pair);
    check_ends_well();
    CHECK_INT(redis_integer(&pair.master, "ZCARD", "seckill:{sellers}:alive", NULL), 0);
    int port = fail_over();
    CHECK_INT(shop_audit(port, "phone", "sold"), 50);
    CHECK_INT(shop_buy(port, "phone", "ann", 1, "k49", NULL), 201);
    CHECK_INT(shop_audit(port, "phone", "sold"), 50);
}

/* The same of a basket, which is all that this instance has acknowledged; and the replica has died, so the
 * end waits for one. */
static void of_a_basket(void) {
    struct web_response response;
    open_at_pair("20000");
    redis_kill(&pair.replica);
    CHECK_INT(shop_basket(service.port, "ann", "phone:1 lamp:2", "k", &response), 201);
    const char *basket = shop_text(&response, "basket");
    begin_end();
    redis_restart(&pair.replica);
    check_ends_well();
    int port = fail_over();
    CHECK_INT(shop_basket_step(port, basket, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_audit(port, "phone", "sold"), 1);
    CHECK_INT(shop_audit(port, "lamp", "sold"), 2);
}

/* No replica gets it in time: the end is said not to be a good one, and how much it is: the order; and of the
 * basket its record and two lines. If the master dies then, nobody is left who knows of them. */
static void in_haste(void) {
    struct web_response response;
    open_at_pair("300");
    pair_cut(&pair);
    CHECK_INT(shop_buy(service.port, "phone", "ann", 1, "k", &response), 201);
    const char *order = shop_text(&response, "order");
    CHECK_INT(shop_basket(service.port, "ann", "phone:1 lamp:2", "k", &response), 201);
    const char *basket = shop_text(&response, "basket");
    CHECK_INT(seckilld_stop(&service), 0);
    const char *said = proc_output(&service.proc), *lacks = "not all replicas have the last ";
    CHECK_HAS(said, " ends, and not all replicas have the last 1 orders, restocks or transfers that it ");
    CHECK_HAS(said, " ending, and not all replicas have the last 3 steps of baskets and transfers that ");
    CHECK(!strstr(strstr(strstr(said, lacks) + 1, lacks) + 1, lacks)); /* of the other worker nothing */
    int port = fail_over();
    CHECK_INT(shop_order(port, order, NULL, NULL), 404);
    CHECK_INT(shop_basket_step(port, basket, NULL, NULL), 404);
    CHECK_INT(shop_audit(port, "phone", "sold"), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("with orders", of_orders);
    harness_run("with a basket, and without a replica", of_a_basket);
    harness_run("in haste", in_haste);
    return harness_finish();
}
