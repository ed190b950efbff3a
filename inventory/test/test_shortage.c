/* Orders that a failover lost and that do not fit any more: that is told and noted, and the note is taken
 * back once they fit. What was made anew meanwhile stands. */

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/transactions/transactions_internal.h"

static struct pair pair;
static struct told told, others;

static struct seller *open_seller(void) {
    pair_start(&pair);
    return told_seller_open(shop_open(), pair_url(&pair), &told);
}

/* The master dies, and the seller cannot reach its replica yet. Another one sells there. */
static struct seller *fail_over_without(struct seller *seller) {
    proxy_set(pair.front, PROXY_REFUSE, 0, NULL);
    pair_fail_over(&pair);
    return told_seller_on(seller->shop, &pair.replica, &others);
}

static void let_back(struct seller *seller) {
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
}

/* ---- told and noted ---- */

/* Another history, which is shown everything again. */
static void shown_again(struct seller *seller) {
    const struct putback *putback = seller->inventory->purchases->putback;
    unsigned before = putback->number;
    told_begin_history(&pair.replica);
    SHOP_UNTIL(seller->shop, putback->number > before, "the new history is seen");
    seller_wait_up(seller);
}

static void check_shortage(const char *units) {
    CHECK_STR(redis_command(&pair.replica, "HGET", stock_key("seat"), "shortage", NULL), units);
}

/* It is taken back, too, when who had the order buys it again: alone, and together with others. */
static void test_bought_again(void) {
    struct seller *seller = open_seller();
    struct buy *takers[3];
    item_put_with(seller, "seat", 3, 0, 600000);
    pair_cut(&pair);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(buy(seller, "seat", "ann", harness_format("a%d", i), 1)->status, INVENTORY_OK);
    struct seller *first = fail_over_without(seller);
    for (int i = 0; i < 3; i++) {
        takers[i] = buy(first, "seat", "bob", harness_format("b%d", i), 1);
        CHECK_STATUS(takers[i]->status, INVENTORY_OK);
    }
    let_back(seller);
    told_check(&told, 0, 3);
    for (int i = 0; i < 3; i++)
        check_order_step(first, takers[i], INVENTORY_CANCEL, INVENTORY_OK);
    CHECK_STATUS(buy(first, "seat", "cid", "c", 1)->status, INVENTORY_OK);
    check_shortage("3");
    CHECK_STATUS(buy(first, "seat", "ann", "a0", 1)->status, INVENTORY_OK);
    check_shortage("2");
    CHECK_STATUS(item_restock(first, "seat", "r", 2, NULL), INVENTORY_OK);
    for (int i = 1; i < 4; i++)
        buy_begin(first, "seat", "ann", harness_format("a%d", i), 1);
    shop_settle(first->shop);
    check_shortage("0");
    CHECK_INT(redis_integer(&pair.replica, "EXISTS", stock_key("seat:shortage"), NULL), 0);
}

/* Strategies `batch` and `lua` do that, as docs/sell.md says; the others leave it to the next failover. */
static void test_bought_again_by(void) {
    struct seller *seller = open_seller();
    struct inventory_item item;
    const char *names[INVENTORY_STRATEGIES];
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        names[i] = inventory_strategy_name((enum inventory_strategy)i);
        item = terms(names[i], (enum inventory_strategy)i, 1);
        item.hold_ms = 600000;
        CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
    }
    pair_cut(&pair);
    for (int i = 0; i < INVENTORY_STRATEGIES; i++)
        CHECK_STATUS(buy(seller, names[i], "ann", "a", 1)->status, INVENTORY_OK);
    struct seller *first = fail_over_without(seller);
    struct buy *takers[INVENTORY_STRATEGIES];
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        takers[i] = buy(first, names[i], "bob", "b", 1);
        CHECK_STATUS(takers[i]->status, INVENTORY_OK);
    }
    let_back(seller);
    told_check(&told, 0, INVENTORY_STRATEGIES);
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        check_order_step(first, takers[i], INVENTORY_CANCEL, INVENTORY_OK);
        CHECK_STATUS(buy(first, names[i], "ann", "a", 1)->status, INVENTORY_OK);
        CHECK_STATUS(item_reader(first, names[i], &item), INVENTORY_OK);
        CHECK_INT(item.shortage, i > INVENTORY_LUA);
    }
    shown_again(seller);
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        CHECK_STATUS(item_reader(seller, names[i], &item), INVENTORY_OK);
        CHECK_INT(item.shortage, 0);
    }
}

/* A note of shortage is taken back when what it is about fits again, if that is still kept. */
static void test_resolved(int kept) {
    struct seller *seller = open_seller();
    item_put_with(seller, "seat", 1, 0, 600000);
    pair_cut(&pair);
    struct buy *lost = buy(seller, "seat", "ann", "a", 1);
    CHECK_STATUS(lost->status, INVENTORY_OK);
    struct seller *first = fail_over_without(seller);
    struct buy *taker = buy(first, "seat", "bob", "b", 1);
    CHECK_STATUS(taker->status, INVENTORY_OK);
    let_back(seller);
    told_check(&told, 0, 1);
    check_shortage("1");
    shown_again(seller); /* nothing is told or noted twice */
    seller_wait_up(first);
    told_check(&told, 0, 1);
    check_shortage("1");
    check_order_step(first, taker, INVENTORY_CANCEL, INVENTORY_OK);
    if (!kept) {
        seller->shop->hurried_ms += 65000;
        SHOP_UNTIL(seller->shop, seller->inventory->purchases->putback->receipts.count == 0,
                   "it is not kept any more");
    }
    shown_again(seller);
    told_check(&told, kept, 1);
    if (!kept) {
        check_shortage("1");
        return;
    }
    check_shortage("0");
    CHECK_INT(redis_integer(&pair.replica, "EXISTS", stock_key("seat:shortage"), NULL), 0);
    check_order_step(seller, lost, INVENTORY_CONFIRM, INVENTORY_OK);
    check_books(seller, &pair.replica, "seat", 0, 0, 1);
}

/* ---- made again ---- */

/* An order that was lost, and made again with the same key: both receipts are shown to the next server, and
 * then it is sold from. */
static void test_made_again(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_sold_at(&redis, &told);
    char digest[INVENTORY_DIGEST_SIZE];
    inventory_key_digest("ann", "k", 1, digest);
    CHECK_INT(redis_integer(&redis, "HDEL", stock_key("phone"), digest, NULL), 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    told_begin_history(&redis);
    seller_wait_again(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
}

/* Nobody knows an order since a failover, and its key is used again with another quantity, before who sold it
 * is there again. Both were acknowledged, and one can stand: that is told, and no unit is made or lost. */
static void test_made_again_otherwise(int instead) {
    bool less = instead == 1;
    int quantity = less ? 2 : 1;
    struct seller *seller = open_seller();
    struct proxy *road = proxy_start(pair.master.port);
    struct seller *late =
        told_seller_open(seller->shop, harness_format("redis://127.0.0.1:%d", proxy_port(road)), &others);
    item_put_with(seller, "seat", 10, 3, 600000);
    pair_cut(&pair);
    struct buy *first = buy(late, "seat", "ann", "k", quantity);
    check_order_step(late, first, less ? INVENTORY_CONFIRM : INVENTORY_CANCEL, INVENTORY_OK);
    proxy_set(road, PROXY_REFUSE, 0, NULL);
    told_fail_over(&pair, seller, NULL);
    CHECK_STATUS(buy(seller, "seat", "ann", "k", instead)->status, INVENTORY_OK);
    proxy_point(road, pair.replica.port);
    proxy_set(road, PROXY_PASS, 0, NULL);
    seller_wait_up(late);
    CHECK_INT(others.outcomes[INVENTORY_LOSS_DIFFERS], 1);
    CHECK_INT((int)others.metrics.shortage, 1);
    check_books(seller, &pair.replica, "seat", 10 - instead, instead, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    run_case("it is resolved", test_resolved, true);
    run_case("it is resolved when it is not kept any more", test_resolved, false);
    harness_run("it is bought again", test_bought_again);
    harness_run("it is bought again, by strategy", test_bought_again_by);
    harness_run("an order that was made again", test_made_again);
    run_case("an order that was made again with less", test_made_again_otherwise, 1);
    run_case("an order that was made again with more", test_made_again_otherwise, 3);
    return harness_finish();
}
