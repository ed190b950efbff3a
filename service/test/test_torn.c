/* Baskets and transfers that a failover of the store tore are made whole again by an instance that lives, and
 * what does not fit is named in its log. */
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/transactions.h"
#include "service/test/shop.h"
#include "test/pair.h"

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
    seckilld_wait_ready(&maker, 200);
    shop_put(maker.port, "phone", "\"stock\":100");
    shop_put(maker.port, "lamp", "\"stock\":100");
    dies = redis_cluster_of(&cluster, "{lamp}");
    CHECK(redis_cluster_of(&cluster, "{phone}") != dies);
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

/* The order is lost, and its unit sold to somebody else. */
static void lose_order(const struct redis_server *redis, int port, const char *order) {
    CHECK_INT(redis_integer(redis, "HDEL", "seckill:{rare}:orders", strchr(order, ':') + 1, NULL), 1);
    redis_integer(redis, "HINCRBY", "seckill:{rare}:item", "held", "-1", NULL);
    redis_integer(redis, "HINCRBY", "seckill:{rare}:item", "available", "1", NULL);
    CHECK_INT(shop_buy(port, "rare", "bob", 2, "all", NULL), 201);
}

/* A line of a basket is told as lost: who asks again for the basket gets the first answer, and can confirm it
 * once there are units. */
static void told_as_lost(void) {
    struct shop shop;
    struct web_response made, response;
    shop_open(&shop);
    shop_put(shop.port, "held", "\"stock\":10,\"hold_seconds\":600");
    shop_put(shop.port, "rare", "\"stock\":2,\"hold_seconds\":600");
    CHECK_INT(shop_basket(shop.port, "ann", "held:1 rare:1", "k", &made), 201);
    const char *id = shop_text(&made, "basket"), *order = shop_text(&made, "orders.1.order");
    lose_order(&shop.redis, shop.port, order);
    CHECK_INT(shop_admin(shop.port, "GET", "/v1/audit", NULL, &response), 200);
    CHECK_INT(shop_number(&response, "torn"), 1);
    seckilld_wait_log(
        &shop.service,
        harness_format("error a failover of the store lost the order %s, and its units were sold again",
                       order));
    CHECK_INT(shop_basket_step(shop.port, id, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "held");
    shop_basket_step(shop.port, id, "confirm", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK_INT(shop_basket(shop.port, "ann", "held:1 rare:1", "k", &response), 201);
    CHECK_STR(response.body, made.body);
    CHECK(web_header(&response, "Idempotent-Replayed"));
    CHECK_INT(shop_restock(shop.port, "rare", 1, "r", NULL), 200);
    CHECK_INT(shop_basket_step(shop.port, id, "confirm", &response), 200);
    CHECK_INT(shop_order(shop.port, order, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_audit(shop.port, "rare", "shortage"), 0);
    shop_close(&shop);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("made whole by another instance", made_whole);
    harness_run("a line that is told as lost", told_as_lost);
    return harness_finish();
}
