/* Baskets and transfers, as long as nothing goes wrong, and as they are refused. Baskets in steps, and at
 * once by a script: one contract. */
#include <stdio.h>
#include <string.h>

#include "inventory/test/transactions.h"
#include "inventory/transactions.h"
#include "test/harness.h"

static struct redis_server redis;

/* Three phones, lamps and chairs, and nothing else in the store. */
static struct seller *open_sale(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    seller->fence = 5;
    item_sell(seller, "phone", INVENTORY_BATCH, 3);
    item_sell(seller, "lamp", INVENTORY_BATCH, 3);
    item_sell(seller, "chair", INVENTORY_LUA, 3);
    return seller;
}

static void check_order(struct seller *seller, const struct txn *txn, int line, enum inventory_state state) {
    struct inventory_order told, stands;
    inventory_transaction_order(&txn->transaction, line, &told);
    CHECK_STATUS(order_step(seller, told.id, INVENTORY_READ, &stands), INVENTORY_OK);
    CHECK_STR(stands.id, told.id);
    CHECK_STR(stands.item, txn->transaction.lines[line].item);
    CHECK_STR(stands.user, "ann");
    CHECK_STR(stands.basket, txn->transaction.id);
    CHECK_INT(stands.quantity, txn->transaction.lines[line].quantity);
    CHECK_INT(stands.created_ms, told.created_ms);
    CHECK_INT(stands.expires_ms, told.expires_ms);
    CHECK_STR(inventory_state_name(stands.state), inventory_state_name(state));
}

static void test_basket(void) {
    struct seller *seller = open_sale();
    struct txn *basket = txn_new(seller, "k1", "phone:1 lamp:2 chair:3");
    const char *before = store_dump(&redis, false);
    CHECK_STATUS(txn_do(basket, TXN_CHECK), INVENTORY_WANTS_LOCK);
    CHECK_STR(store_dump(&redis, false), before);
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
    CHECK_STR(inventory_state_name(basket->transaction.state), "confirmed");
    CHECK_INT(basket->transaction.expires_ms, 0);
    for (int i = 0; i < 3; i++)
        check_order(seller, basket, i, INVENTORY_STATE_CONFIRMED);
    check_books(seller, &redis, "phone", 2, 0, 1);
    check_books(seller, &redis, "lamp", 1, 0, 2);
    check_books(seller, &redis, "chair", 0, 0, 3);
    CHECK_STR(txn_phase(&redis, basket), "confirmed");
    CHECK_INT(journal_open(&redis), 0);
    CHECK_INT(redis_integer(&redis, "ZCARD", stock_key("phone:holds"), NULL), 0);
}

static void test_replay(void) {
    struct seller *seller = open_sale();
    struct txn *first = txn_new(seller, "k1", "phone:3 lamp:1");
    CHECK_STATUS(txn_do(first, TXN_MAKE), INVENTORY_OK);
    const char *before = store_dump(&redis, false);
    struct seller *other = seller_open(seller->shop, &redis);
    other->fence = 2; /* older than what was seen: it writes nothing */
    struct txn *again = txn_new(other, "k1", "phone:3 lamp:1");
    for (int call = TXN_MAKE; call <= TXN_CHECK; call++) {
        CHECK_STATUS(txn_do(again, (enum txn_call)call), INVENTORY_REPLAYED);
        for (int i = 0; i < 2; i++) {
            struct inventory_order a, b;
            inventory_transaction_order(&first->transaction, i, &a);
            inventory_transaction_order(&again->transaction, i, &b);
            CHECK_STR(a.id, b.id);
            CHECK_INT(a.created_ms, b.created_ms);
        }
    }
    CHECK_STATUS(txn_do(txn_new(seller, "k1", "phone:3 lamp:2"), TXN_CHECK), INVENTORY_KEY_REUSED);
    CHECK_STATUS(txn_make(seller, "k1", "phone:3 lamp:2"), INVENTORY_KEY_REUSED);
    CHECK_STATUS(txn_make(seller, "k1", "phone:3"), INVENTORY_KEY_REUSED);
    CHECK_STATUS(txn_make(seller, "k1", "lamp:1 phone:3"), INVENTORY_KEY_REUSED);
    CHECK_STR(store_dump(&redis, false), before);
    /* A purchase with the same key is another thing, and so is another user's basket. */
    CHECK_STATUS(buy(seller, "lamp", "ann", "k1", 1)->status, INVENTORY_OK);
    struct txn *bobs = txn_new_of(seller, "bob", "k1", "lamp:1");
    CHECK_STATUS(txn_do(bobs, TXN_MAKE), INVENTORY_OK);
    CHECK(strcmp(bobs->transaction.id, first->transaction.id) != 0);
}

static void test_find(void) {
    struct seller *seller = open_sale();
    CHECK_STATUS(txn_make(seller, "k1", "phone:3 lamp:1"), INVENTORY_OK);
    struct txn *found = txn_new(seller, "k1", "");
    CHECK_STATUS(txn_do(found, TXN_FIND), INVENTORY_OK);
    CHECK_STR(found->transaction.user, "ann");
    CHECK_INT(found->transaction.count, 2);
    CHECK_STR(found->transaction.lines[0].item, "phone");
    CHECK_INT(found->transaction.lines[0].quantity, 3);
    check_order(seller, found, 1, INVENTORY_STATE_CONFIRMED);
    CHECK_STATUS(txn_do(txn_new(seller, "k2", ""), TXN_FIND), INVENTORY_UNKNOWN_BASKET);
    CHECK_STATUS(txn_do(txn_new(seller, "t", ""), TXN_FIND), INVENTORY_UNKNOWN_BASKET);
}

/* Refused for the line that is named, whatever comes after it; nothing was done, and the key may win later.
 */
static void refused(struct seller *seller, const char *lines, enum inventory_status status, int line,
                    int64_t available) {
    const char *before = store_dump(&redis, false);
    for (int call = TXN_MAKE; call <= TXN_CHECK; call++) {
        struct txn *basket = txn_new(seller, "refused", lines);
        CHECK_STATUS(txn_do(basket, (enum txn_call)call), status);
        CHECK_INT(basket->transaction.failed, line);
        if (status == INVENTORY_SOLD_OUT)
            CHECK_INT(basket->transaction.available, available);
    }
    CHECK_STR(store_dump(&redis, false), before);
}

static void test_refusals(void) {
    struct seller *seller = open_sale();
    int64_t now_ms = clock_wall_ms(&seller->shop->clock);
    item_put_with(seller, "limited", 10, 2, 0);
    item_put_with(seller, "rare", 3, 2, 0);
    struct inventory_item early = terms("early", INVENTORY_BATCH, 3),
                          late = terms("late", INVENTORY_BATCH, 3);
    early.starts_ms = now_ms + 60000;
    late.ends_ms = now_ms - 60000;
    CHECK_STATUS(item_put(seller, &early), INVENTORY_OK);
    CHECK_STATUS(item_put(seller, &late), INVENTORY_OK);
    refused(seller, "phone:4", INVENTORY_SOLD_OUT, 0, 3);
    refused(seller, "lamp:1 phone:4", INVENTORY_SOLD_OUT, 1, 3);
    refused(seller, "lamp:1 phone:2 chair:1 phone:2", INVENTORY_SOLD_OUT, 3, 3);
    refused(seller, "lamp:1 chair:4 phone:4", INVENTORY_SOLD_OUT, 1, 3);
    refused(seller, "lamp:1 nothing:1 phone:4", INVENTORY_UNKNOWN_ITEM, 1, 0);
    refused(seller, "phone:4 nothing:1", INVENTORY_SOLD_OUT, 0, 3);
    refused(seller, "lamp:1 limited:3", INVENTORY_LIMIT, 1, 0);
    refused(seller, "limited:1 lamp:1 limited:1 limited:1", INVENTORY_LIMIT, 3, 0);
    refused(seller, "limited:2 lamp:4 limited:1", INVENTORY_SOLD_OUT, 1, 3);
    refused(seller, "limited:2 lamp:2 limited:1 lamp:2", INVENTORY_LIMIT, 2, 0);
    refused(seller, "rare:3 lamp:1 rare:1", INVENTORY_LIMIT, 0, 0);
    refused(seller, "rare:4 rare:1", INVENTORY_SOLD_OUT, 0, 3);
    refused(seller, "lamp:1 early:1", INVENTORY_NOT_STARTED, 1, 0);
    refused(seller, "late:1 phone:4", INVENTORY_ENDED, 0, 0);
    /* The key that was refused wins once it can. */
    CHECK_STATUS(txn_make(seller, "refused", "limited:1 phone:1 limited:1"), INVENTORY_OK);
    refused(seller, "phone:1", INVENTORY_KEY_REUSED, 0, 0);
    CHECK_STATUS(txn_make(seller, "k2", "lamp:1 limited:1"), INVENTORY_LIMIT);
    CHECK_STATUS(buy(seller, "limited", "ann", "k3", 1)->status, INVENTORY_LIMIT);
    CHECK_STATUS(buy(seller, "limited", "bob", "k4", 1)->status, INVENTORY_OK);
    check_books(seller, &redis, "limited", 7, 0, 3);
}

static void test_item_twice(void) {
    struct seller *seller = open_sale();
    struct txn *basket = txn_new(seller, "k1", "phone:1 lamp:1 phone:2");
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
    for (int i = 0; i < 3; i++)
        check_order(seller, basket, i, INVENTORY_STATE_CONFIRMED);
    check_books(seller, &redis, "phone", 0, 0, 3);
    CHECK_INT(stock_orders(&redis, "phone"), 2);
}

/* All lines of one item. */
static void test_many_lines(void) {
    struct seller *seller = open_sale();
    item_put_with(seller, "one", INVENTORY_LINES_MAX, 0, 0);
    char same[1024] = "";
    for (int i = 0; i < INVENTORY_LINES_MAX; i++)
        snprintf(same + strlen(same), sizeof same - strlen(same), "%sone:1", i ? " " : "");
    CHECK_STATUS(txn_make(seller, "k1", same), INVENTORY_OK);
    check_books(seller, &redis, "one", 0, 0, INVENTORY_LINES_MAX);
}

/* As long as it comes: names, quantities, and so many items. */
static void test_longest(void) {
    struct seller *seller = open_sale();
    char lines[INVENTORY_LINES_MAX * (INVENTORY_NAME_MAX + 8)] = "";
    const char *long_name = harness_repeat('n', INVENTORY_NAME_MAX - 2);
    for (int i = 0; i < INVENTORY_LINES_MAX; i++) {
        const char *name = harness_format("%s%02d", long_name, i);
        item_put_with(seller, name, 2 * (int64_t)INVENTORY_QUANTITY_MAX, INVENTORY_QUANTITY_MAX, 0);
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s%s:%d", i ? " " : "", name,
                 INVENTORY_QUANTITY_MAX);
    }
    const char *user = harness_repeat('~', INVENTORY_USER_MAX);
    struct txn *basket = txn_new(seller, "k1", lines), *more = txn_new(seller, "k2", lines);
    snprintf(basket->transaction.user, sizeof basket->transaction.user, "%s", user);
    snprintf(more->transaction.user, sizeof more->transaction.user, "%s", user);
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_REPLAYED);
    CHECK_STATUS(txn_do(more, TXN_MAKE), INVENTORY_LIMIT);
    CHECK_INT(more->transaction.failed, 0);
    check_books(seller, &redis, harness_format("%s31", long_name), INVENTORY_QUANTITY_MAX, 0,
                INVENTORY_QUANTITY_MAX);
}

/* ---- holds ---- */

static struct txn *hold(struct seller *seller) {
    item_put_with(seller, "tv", 5, 2, 60000);
    item_put_with(seller, "sofa", 5, 0, 90000);
    struct txn *basket = txn_new(seller, "k1", "phone:1 sofa:1 tv:2");
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
    CHECK_STR(inventory_state_name(basket->transaction.state), "held");
    CHECK_INT(basket->transaction.expires_ms, basket->transaction.created_ms + 60000);
    for (int i = 0; i < 3; i++)
        check_order(seller, basket, i, INVENTORY_STATE_HELD);
    check_books(seller, &redis, "phone", 2, 1, 0);
    check_books(seller, &redis, "tv", 3, 2, 0);
    struct inventory_audit audit = item_audited(seller, "tv");
    CHECK_INT(audit.pending, 2);
    return basket;
}

static void check_settled(struct seller *seller, struct txn *basket, enum inventory_state state) {
    bool sold = state == INVENTORY_STATE_CONFIRMED;
    for (int i = 0; i < 3; i++)
        check_order(seller, basket, i, state);
    check_books(seller, &redis, "phone", sold ? 2 : 3, 0, sold ? 1 : 0);
    check_books(seller, &redis, "sofa", sold ? 4 : 5, 0, sold ? 1 : 0);
    check_books(seller, &redis, "tv", sold ? 3 : 5, 0, sold ? 2 : 0);
    CHECK_INT(journal_open(&redis), 0);
    CHECK_STATUS(txn_make(seller, "k1", "phone:1 sofa:1 tv:2"), INVENTORY_REPLAYED);
    /* Its buyer may have two more if it was not bought. */
    CHECK_STATUS(txn_make(seller, "k2", "tv:2"), sold ? INVENTORY_LIMIT : INVENTORY_OK);
}

static void test_confirm(void) {
    struct seller *seller = open_sale();
    struct txn *basket = hold(seller);
    CHECK_STATUS(txn_do(basket, TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(basket, TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(basket, TXN_CANCEL), INVENTORY_CONFIRMED);
    check_settled(seller, basket, INVENTORY_STATE_CONFIRMED);
}

static void test_cancel(void) {
    struct seller *seller = open_sale();
    struct txn *basket = hold(seller);
    CHECK_STATUS(txn_do(basket, TXN_CANCEL), INVENTORY_OK);
    CHECK_STATUS(txn_do(basket, TXN_CANCEL), INVENTORY_OK);
    CHECK_STATUS(txn_do(basket, TXN_CONFIRM), INVENTORY_CANCELLED);
    check_settled(seller, basket, INVENTORY_STATE_CANCELLED);
}

static void test_expire(void) {
    struct seller *seller = open_sale();
    struct txn *basket = hold(seller);
    redis_clock()->ahead_ms = 59000;
    CHECK_INT(txns_recover(seller), 0);
    redis_clock()->ahead_ms = 61000;
    inventory_sweep(seller->inventory);
    CHECK_INT(txns_recover(seller), 1);
    CHECK_STATUS(txn_do(basket, TXN_CONFIRM), INVENTORY_EXPIRED);
    CHECK_STATUS(txn_do(basket, TXN_CANCEL), INVENTORY_EXPIRED);
    check_settled(seller, basket, INVENTORY_STATE_EXPIRED);
}

/* Nobody can confirm what is due, swept or not. */
static void test_confirm_too_late(void) {
    struct seller *seller = open_sale();
    struct txn *basket = hold(seller);
    redis_clock()->ahead_ms = 61000;
    CHECK_STATUS(txn_do(basket, TXN_CONFIRM), INVENTORY_EXPIRED);
    check_settled(seller, basket, INVENTORY_STATE_EXPIRED);
}

/* All or nothing holds for its orders, too. */
static void test_orders_of_a_held_basket(void) {
    struct seller *seller = open_sale();
    struct txn *basket = hold(seller);
    struct inventory_order order;
    inventory_transaction_order(&basket->transaction, 0, &order);
    CHECK_STATUS(order_step(seller, order.id, INVENTORY_CONFIRM, NULL), INVENTORY_OF_BASKET);
    CHECK_STATUS(order_step(seller, order.id, INVENTORY_CANCEL, NULL), INVENTORY_OF_BASKET);
    CHECK_STATUS(txn_do(basket, TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, order.id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, order.id, INVENTORY_CANCEL, NULL), INVENTORY_CONFIRMED);
}

static void test_settle_nothing(void) {
    struct seller *seller = open_sale();
    CHECK_STATUS(txn_do(txn_new(seller, "k1", "phone:1"), TXN_CONFIRM), INVENTORY_UNKNOWN_BASKET);
    CHECK_STATUS(txn_do(txn_new(seller, "k1", "phone:1"), TXN_FINISH), INVENTORY_UNKNOWN_BASKET);
    CHECK_STATUS(txn_make(seller, "k1", "phone:1"), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_new(seller, "k1", "phone:1"), TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_new(seller, "k1", "phone:1"), TXN_CANCEL), INVENTORY_CONFIRMED);
}

/* ---- transfers ---- */

static void test_transfer(void) {
    struct seller *seller = open_sale();
    CHECK_STATUS(txn_make(seller, "t1", "phone:2 lamp:2"), INVENTORY_OK);
    struct inventory_item phone, lamp;
    CHECK_STATUS(item_reader(seller, "phone", &phone), INVENTORY_OK);
    CHECK_STATUS(item_reader(seller, "lamp", &lamp), INVENTORY_OK);
    CHECK_INT(phone.initial + phone.restocked, 1);
    CHECK_INT(lamp.initial + lamp.restocked, 5);
    check_books(seller, &redis, "phone", 1, 0, 0);
    check_books(seller, &redis, "lamp", 5, 0, 0);
    const char *before = store_dump(&redis, false);
    CHECK_STATUS(txn_make(seller, "t1", "phone:2 lamp:2"), INVENTORY_REPLAYED);
    CHECK_STATUS(txn_make(seller, "t1", "phone:1 lamp:1"), INVENTORY_KEY_REUSED);
    CHECK_STATUS(txn_make(seller, "t1", "lamp:2 phone:2"), INVENTORY_KEY_REUSED);
    struct txn *short_of = txn_new(seller, "t2", "phone:2 lamp:2");
    CHECK_STATUS(txn_do(short_of, TXN_MAKE), INVENTORY_SOLD_OUT);
    CHECK_INT(short_of->transaction.failed, 0);
    CHECK_INT(short_of->transaction.available, 1);
    struct txn *nowhere = txn_new(seller, "t3", "phone:1 nothing:1");
    CHECK_STATUS(txn_do(nowhere, TXN_MAKE), INVENTORY_UNKNOWN_ITEM);
    CHECK_INT(nowhere->transaction.failed, 1);
    CHECK_STR(store_dump(&redis, false), before);
    item_put_with(seller, "full", INVENTORY_STOCK_MAX - 1, 0, 0);
    before = store_dump(&redis, false);
    CHECK_STATUS(txn_make(seller, "t5", "lamp:2 full:2"), INVENTORY_TOO_MANY);
    CHECK_STR(store_dump(&redis, false), before);
    CHECK_STATUS(txn_make(seller, "t6", "lamp:1 full:1"), INVENTORY_OK);
    CHECK_STATUS(txn_make(seller, "t7", "full:1 lamp:1"), INVENTORY_OK);
    /* And back: less than nothing was restocked then, in all. */
    CHECK_STATUS(txn_make(seller, "t4", "lamp:5 phone:5"), INVENTORY_OK);
    check_books(seller, &redis, "phone", 6, 0, 0);
    check_books(seller, &redis, "lamp", 0, 0, 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 6)->status, INVENTORY_OK);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    run_ways("a basket", test_basket, AT_ONCE);
    run_ways("the same basket again", test_replay, AT_ONCE);
    run_ways("a basket is found", test_find, AT_ONCE);
    run_ways("the first line that fails is named, and nothing is done", test_refusals, AT_ONCE);
    run_ways("an item twice", test_item_twice, NAIVELY);
    run_ways("32 lines of one item", test_many_lines, NAIVELY);
    run_ways("as long as it comes", test_longest, NAIVELY);
    run_ways("a held basket is confirmed", test_confirm, AT_ONCE);
    run_ways("a held basket is cancelled", test_cancel, AT_ONCE);
    run_ways("a held basket expires", test_expire, AT_ONCE);
    run_ways("a held basket is confirmed too late", test_confirm_too_late, AT_ONCE);
    run_ways("the orders of a held basket are not settled one by one", test_orders_of_a_held_basket, AT_ONCE);
    run_ways("nothing to settle, or settled already", test_settle_nothing, AT_ONCE);
    harness_run("a transfer", test_transfer);
    return harness_finish();
}
