/* Baskets and transfers that a failover of the store tore are made whole again by an instance that lives, and
 * what does not fit is named in its log. */
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/transactions.h"
#include "service/test/shop.h"
#include "test/pair.h"

enum { MASTERS = 3, WHOLE_MS = 30000 };

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
           shop_number(&response, "torn") == 0;
}

static void made_whole(void) {
    struct seckilld next;
    struct web_response made, response;
    tear(&made);
    seckilld_start(&next, 0, "--redis", redis_cluster_url(&cluster), "--store-timeout", "500", NULL);
    CHECK(harness_wait(is_whole, &next, WHOLE_MS));
    CHECK_HAS(proc_output(&next.proc), "error a failover of the store tore ");
    for (int line = 0; line < 2; line++) {
        const char *order = shop_text(&made, harness_format("orders.%d.order", line));
        CHECK_INT(shop_order(next.port, order, NULL, &response), 200);
        CHECK_STR(shop_text(&response, "state"), "confirmed");
    }
    CHECK_INT(shop_audit(next.port, "phone", "available"), 100 - 1 - 3);
    CHECK_INT(shop_audit(next.port, "lamp", "available"), 100 - 2 + 3);
    CHECK_INT(shop_audit(next.port, "lamp", "sold"), 2);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("made whole by another instance", made_whole);
    return harness_finish();
}
