/* The memory of the server that is promoted is full. */
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/transactions/transactions_internal.h"

enum { LONG_MS = 65000, REST_MS = 500 + 2000 };

static struct pair pair;
static struct told told;

/* The replica is full when it is promoted. `lost`: it lacks an order. */
static void fail_over_full(struct seller **seller, int64_t hold_ms, bool lost) {
    pair_start(&pair);
    *seller = told_seller_open(shop_open(), pair_url(&pair), &told);
    item_put_with(*seller, "seat", 3, 0, hold_ms);
    CHECK_STATUS(buy(*seller, "seat", "ann", "kept", 1)->status, INVENTORY_OK);
    pair_cut(&pair);
    if (lost)
        CHECK_STATUS(buy(*seller, "seat", "ann", "lost", 1)->status, INVENTORY_OK);
    CHECK_STR(redis_command(&pair.replica, "CONFIG", "SET", "maxmemory", "1", NULL), "OK");
    pair_fail_over(&pair);
    seller_wait_down(*seller);
}

static const char *order_of(const char *key) {
    char digest[INVENTORY_DIGEST_SIZE];
    inventory_key_digest("ann", key, strlen(key), digest);
    return harness_format("seat:%s", digest);
}

static void tick_again(uv_check_t *check) {
    failover_tick(((struct seller *)check->data)->inventory->purchases);
}

static bool is_up_after_tick(void *arg) {
    struct inventory *inventory = ((struct seller *)arg)->inventory;
    failover_tick(inventory->purchases);
    return inventory_is_up(inventory);
}

/* What was lost cannot be written: so nobody is told anything, until it can. Then it is, also where that
 * takes long, and whatever the inventory does first after a reply. */
static void test_full(void) {
    struct seller *seller;
    uv_check_t check;
    struct inventory_item item;
    fail_over_full(&seller, 600000, true);
    SHOP_UNTIL(seller->shop, strstr(inventory_last_error(seller->inventory), "OOM"), "the store has no room");
    seller->shop->hurried_ms += LONG_MS; /* longer than the rest */
    shop_idle(seller->shop, 500);
    CHECK(!inventory_is_up(seller->inventory));
    CHECK_STATUS(buy(seller, "seat", "bob", "new", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_STATUS(order_step(seller, order_of("kept"), INVENTORY_READ, NULL), INVENTORY_UNAVAILABLE);
    CHECK_STATUS(item_reader(seller, "seat", &item), INVENTORY_UNAVAILABLE);
    told_check(&told, 0, 0);
    CHECK_STR(redis_command(&pair.replica, "CONFIG", "SET", "maxmemory", "0", NULL), "OK");
    check.data = seller;
    uv_check_init(&seller->shop->loop, &check);
    uv_check_start(&check, tick_again);
    shop_wait(seller->shop, is_up_after_tick, seller, "it sells again");
    uv_close((uv_handle_t *)&check, NULL);
    shop_idle(seller->shop, 1);
    told_check(&told, 1, 0);
    CHECK_STATUS(order_step(seller, order_of("lost"), INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    check_books(seller, &pair.replica, "seat", 1, 1, 1);
}

/* Where nothing was lost it answers reads. Who has shown what he has cannot be noted: so the quarantine lasts
 * for the whole time. */
static void test_full_and_nothing_lost(void) {
    static const int64_t holds[] = {0, 600000};
    for (int i = 0; i < 2; i++) {
        struct seller *seller;
        fail_over_full(&seller, holds[i], false);
        seller_wait_up(seller);
        const struct putback *putback = seller->inventory->purchases->putback;
        CHECK(clock_mono_ms(&seller->shop->clock) - putback->histories[1]->reached_ms >= REST_MS);
        CHECK_STATUS(order_step(seller, order_of("kept"), INVENTORY_READ, NULL), INVENTORY_OK);
        CHECK_STATUS(buy(seller, "seat", "ann", "kept", 1)->status, INVENTORY_REPLAYED);
        CHECK_STATUS(buy(seller, "seat", "bob", "new", 1)->status, INVENTORY_UNAVAILABLE);
        told_check(&told, 0, 0);
        shop_close(seller->shop);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a failover lost something", test_full);
    harness_run("nothing was lost", test_full_and_nothing_lost);
    return harness_finish();
}
