/* A store that is a Redis Cluster: every kind of call, slots that move, masters that die. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/context.h"
#include "inventory/test/fixture.h"
#include "inventory/transactions.h"

enum { MASTERS = 3 };

static struct redis_cluster cluster;

static struct seller *open_seller(void) {
    redis_cluster_flush(&cluster);
    struct shop *shop = shop_open();
    struct seller *seller =
        seller_open_with(shop, &(struct seller_options){.url = redis_cluster_url(&cluster)});
    seller->locked = true;
    while (!store_is_whole(seller->inventory->store))
        shop_turn(shop);
    return seller;
}

static struct redis_server *of(const char *item) {
    struct redis_server *server = redis_cluster_of(&cluster, harness_format("{%s}", item));
    CHECK(server);
    return server;
}

static struct redis_server *not_of(const char *item) {
    const struct redis_server *server = of(item);
    return &cluster.server[server == &cluster.server[0]];
}

static void check_stock(struct seller *seller, const char *item, int64_t available, int64_t held, int64_t sold) {
    struct inventory_audit audit;
    CHECK_STATUS(item_audit(seller, item, &audit), INVENTORY_OK);
    CHECK(audit.conserved);
    CHECK_INT(audit.item.available, available);
    CHECK_INT(audit.item.held, held);
    CHECK_INT(audit.item.sold, sold);
    CHECK_INT(audit.oversold, 0);
}

/* Items on every server, each sold in its own way, with holds. */
static void test_everywhere(void) {
    struct seller *seller = open_seller();
    bool seen[MASTERS] = {false};
    for (int i = 0; i < 60; i++) {
        const char *item = harness_format("item%d", i);
        seen[of(item) - cluster.server] = true;
        struct inventory_item held = terms(item, strategy, 10);
        held.hold_ms = i % 2 ? 60000 : 0;
        CHECK_STATUS(item_put(seller, &held), INVENTORY_OK);
        const struct buy *first = buy(seller, item, "ann", "k", 2);
        CHECK_STATUS(first->status, INVENTORY_OK);
        CHECK_STATUS(buy(seller, item, "ann", "k", 2)->status, INVENTORY_REPLAYED);
        CHECK_STATUS(buy(seller, item, "bob", "l", 9)->status, INVENTORY_SOLD_OUT);
        if (i % 2)
            CHECK_STATUS(order_step(seller, first->order.id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
        CHECK_STATUS(item_restock(seller, item, "r", 1, NULL), INVENTORY_OK);
        check_stock(seller, item, 9, 0, 2);
    }
    for (int i = 0; i < MASTERS; i++)
        CHECK(seen[i]);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir()) {
        redis_clock();
        redis_cluster_start(&cluster, MASTERS, 0);
    }
    (void)not_of;
    run_each("on every server", test_everywhere, INVENTORY_LOCKED);
    return harness_finish();
}
