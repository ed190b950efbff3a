/* Baskets and transfers that a failover of the store tore are made whole again by an instance that lives, and
 * what does not fit is named in its log. */
#include <signal.h>
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/transactions.h"
#include "service/test/shop.h"
#include "test/harness.h"

enum { MASTERS = 3, PATIENCE_MS = 30000 };

static struct redis_cluster cluster;
static struct redis_server *dies; /* the master of lamp, and not of phone */

/* A key whose basket or transfer the journal has elsewhere than at the master that dies. */
static const char *safe_key(const char *user) {
    for (int i = 0;; i++) {
        char *key = harness_format("k%d", i), id[INVENTORY_DIGEST_SIZE];
        inventory_key_digest(user, key, strlen(key), id);
        if (redis_cluster_of(&cluster, harness_format("{baskets:%u}", key_part(id))) != dies)
            return key;
    }
}

/* A basket and a transfer over two masters, of which one dies together with their maker; its replica has not
 * got its half of them. The basket's answer is in `made`. */
static void tear(struct web_response *made) {
    struct seckilld maker;
    redis_cluster_start(&cluster, MASTERS, 1);
    seckilld_start(&maker, 0, "--redis", redis_cluster_url(&cluster), "--store-timeout", "500", NULL);
    seckilld_wait_whole(&maker);
    shop_put(maker.port, "phone", "\"stock\":100");
    shop_put(maker.port, "lamp", "\"stock\":100");
    dies = redis_cluster_of(&cluster, stock_key("lamp"));
    CHECK(redis_cluster_of(&cluster, stock_key("phone")) != dies);
    replica_cut(dies, dies + MASTERS);
    CHECK_INT(shop_basket(maker.port, "ann", "phone:1 lamp:2", safe_key("ann"), made), 201);
    CHECK_INT(shop_transfer(maker.port, "phone", "lamp", 3, safe_key(""), NULL), 200);
    seckilld_kill(&maker);
    redis_kill(dies);
}

static bool is_whole(void *arg) {
    struct web_response response;
    return shop_admin(((struct seckilld *)arg)->port, "GET", "/v1/audit", NULL, &response) == 200 &&
           shop_number(&response, "transactions") == 2 && strstr(response.body, "\"conserved\":true") &&
           shop_number(&response, "in_flight") == 0 && shop_number(&response, "torn") == 0;
}

static void made_whole(void) {
    struct seckilld next;
    struct web_response made, response;
    tear(&made);
    seckilld_start(&next, 0, "--redis", redis_cluster_url(&cluster), "--store-timeout", "500", NULL);
    CHECK(harness_wait(is_whole, &next, PATIENCE_MS));
    seckilld_wait_log(&next, "error a failover of the store tore ");
    for (int line = 0; line < 2; line++) {
        const char *order = shop_text(&made, harness_format("orders.%d.order", line));
        CHECK_INT(shop_order(next.port, order, NULL, &response), 200);
        CHECK_STR(shop_text(&response, "state"), "confirmed");
    }
    CHECK_INT(shop_audit(next.port, "phone", "available"), 100 - 1 - 3);
    CHECK_INT(shop_audit(next.port, "lamp", "available"), 100 - 2 + 3);
    CHECK_INT(shop_audit(next.port, "lamp", "sold"), 2);
}

/* The journal has lost a basket, and its orders are there: nobody can confirm or cancel them, and the audit
 * of all items names them. */
static void unknown_to_the_journal(void) {
    struct shop shop;
    struct web_response made, response;
    shop_open(&shop);
    shop_put(shop.port, "held", "\"stock\":10,\"hold_seconds\":600");
    shop_put(shop.port, "phone", "\"stock\":10");
    CHECK_INT(shop_basket(shop.port, "ann", "held:1 phone:2", "k", &made), 201);
    const char *id = shop_text(&made, "basket");
    const char *journal = harness_format("seckill:{baskets:%u}:journal", key_part(id));
    CHECK_INT(redis_integer(&shop.redis, "HDEL", journal, harness_format("b:%s", id), NULL), 1);
    shop_basket_step(shop.port, id, "confirm", &response);
    CHECK_PROBLEM(&response, 404, "unknown-basket");
    CHECK_INT(shop_admin(shop.port, "GET", "/v1/audit", NULL, &response), 200);
    CHECK_INT(shop_number(&response, "unknown"), 1 + 2);
    CHECK_INT(shop_number(&response, "torn"), 0);
    CHECK(strstr(response.body, "\"conserved\":false"));
    for (int line = 0; line < 2; line++) {
        const char *order = shop_text(&made, harness_format("orders.%d.order", line));
        seckilld_wait_log(&shop.service,
                          harness_format("error the order %s has units, and the journal does not have its "
                                         "basket or transfer",
                                         order));
        CHECK_INT(shop_order(shop.port, order, NULL, NULL), 404);
        shop_order(shop.port, order, "cancel", &response);
        CHECK_PROBLEM(&response, 409, "basket-order");
    }
    shop_close(&shop);
}

struct undone {
    int port;
    const char *order;
};

static bool is_undone(void *arg) {
    const struct undone *undone = arg;
    return shop_order(undone->port, undone->order, NULL, NULL) == 404;
}

/* One of two instances stands still while the basket that it made is lost, and the buyer gets it from the
 * other instance. Its maker finds that when it goes on, undoes what it made, and says so. */
static void made_twice(void) {
    struct pair pair;
    struct seckilld late, other, *const services[] = {&late, &other};
    struct web_response first, second, response;
    const char *lock = shop_lock_start("redis");
    pair_start(&pair);
    for (int i = 0; i < 2; i++) {
        seckilld_start_ready(services[i], proxy_port(pair.front), "--store-timeout", "500", "--lock", lock,
                             NULL);
    }
    shop_put(late.port, "phone", "\"stock\":10");
    shop_put(late.port, "lamp", "\"stock\":10");
    pair_cut(&pair);
    CHECK_INT(shop_basket(late.port, "ann", "phone:1 lamp:2", "k", &first), 201);
    proc_kill(&late.proc, SIGSTOP);
    pair_fail_over(&pair);
    seckilld_wait_ready(&other, 503);
    seckilld_wait_ready(&other, 200);
    CHECK_INT(shop_basket(other.port, "ann", "phone:1 lamp:2", "k", &second), 201);
    CHECK(!web_header(&second, "Idempotent-Replayed"));
    CHECK_STR(shop_text(&second, "basket"), shop_text(&first, "basket"));
    proc_kill(&late.proc, SIGCONT);
    seckilld_wait_log(&late,
                      harness_format("error a failover of the store lost the basket or transfer b:%s, and "
                                     "something else was acknowledged since",
                                     shop_text(&first, "basket")));
    for (int line = 0; line < 2; line++) {
        struct undone undone = {other.port, shop_text(&first, harness_format("orders.%d.order", line))};
        CHECK(harness_wait(is_undone, &undone, PATIENCE_MS));
    }
    CHECK_INT(shop_order(other.port, shop_text(&second, "orders.1.order"), NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_audit(other.port, "phone", "sold"), 1);
    CHECK_INT(shop_audit(other.port, "lamp", "sold"), 2);
    CHECK_INT(shop_audit(other.port, "lamp", "available"), 8);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("made whole by another instance", made_whole);
    harness_run("unknown to the journal", unknown_to_the_journal);
    harness_run("made twice", made_twice);
    return harness_finish();
}
