/* What a failover loses of holds and their ends, restocks, baskets and transfers is put back as it was
 * acknowledged last, whoever shows it first, and however long ago it was. */
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/transactions_internal.h"

enum { LONG_MS = 65000 };

static struct pair pair;
static struct told told, others;

/* ---- the newest state of each order ---- */

/* A hold that ran out does not take the unit from who bought it then, though the new master's clock is
 * behind: by that the hold is not over. */
static void test_hold_is_over_by_another_clock(void) {
    redis_clock(); /* of servers that start after this */
    pair_start(&pair);
    struct seller *seller = told_seller_open(shop_open(), pair_url(&pair), &told);
    item_put_with(seller, "seat", 1, 0, 60000);
    struct buy *first = buy(seller, "seat", "ann", "a", 1);
    CHECK_STATUS(first->status, INVENTORY_OK);
    pair_cut(&pair);
    redis_clock()->ahead_ms += 60000 + INVENTORY_HOLD_GRACE_MS;
    holds_sweep(seller, &pair.master);
    struct buy *second = buy(seller, "seat", "bob", "b", 1);
    CHECK_STATUS(second->status, INVENTORY_OK);
    redis_clock()->ahead_ms -= 60000;
    told_fail_over(&pair, seller, NULL);
    told_check(&told, 1, 0);
    check_order_step(seller, first, INVENTORY_CONFIRM, INVENTORY_EXPIRED);
    check_order_step(seller, second, INVENTORY_CONFIRM, INVENTORY_OK);
    check_books(seller, &pair.replica, "seat", 0, 0, 1);
}

/* A hold that ran out, and its unit has left in a transfer since. */
static void test_hold_is_over_and_sent(void) {
    redis_clock(); /* of servers that start after this */
    pair_start(&pair);
    struct seller *seller = told_seller_open(shop_open(), pair_url(&pair), &told);
    item_put_with(seller, "seat", 2, 0, 60000);
    item_put_with(seller, "lamp", 1, 0, 0);
    struct buy *first = buy(seller, "seat", "ann", "a", 1);
    CHECK_STATUS(first->status, INVENTORY_OK);
    redis_wait_copied(&pair.master, &pair.replica);
    pair_cut(&pair);
    redis_clock()->ahead_ms += 60000 + INVENTORY_HOLD_GRACE_MS;
    holds_sweep(seller, &pair.master);
    struct txn *sent = txn_new(seller, "t", "seat:2 lamp:2");
    CHECK_STATUS(txn_do(sent, TXN_MAKE), INVENTORY_OK);
    told_fail_over(&pair, seller, NULL);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT], 0);
    check_books(seller, &pair.replica, "seat", 0, 0, 0);
    check_books(seller, &pair.replica, "lamp", 3, 0, 0);
}

/* One seller knows of a hold, the other that it was cancelled, and who has the unit now. The limit is as
 * tight as the stock. */
static void test_cancelled_by_another(void) {
    struct seller *seller, *other;
    told_open_two(&pair, &seller, &told, &other, &others);
    item_put_with(seller, "seat", 1, 1, 600000);
    pair_cut(&pair);
    struct buy *first = buy(seller, "seat", "ann", "a", 1);
    check_order_step(other, first, INVENTORY_CANCEL, INVENTORY_OK);
    struct buy *second = buy(other, "seat", "ann", "b", 1);
    check_order_step(other, second, INVENTORY_CONFIRM, INVENTORY_OK);
    told_fail_over(&pair, seller, other);
    check_order_step(seller, first, INVENTORY_CONFIRM, INVENTORY_CANCELLED);
    check_order_step(seller, second, INVENTORY_CONFIRM, INVENTORY_OK);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT] + others.outcomes[INVENTORY_LOSS_SHORT], 0);
    check_books(seller, &pair.replica, "seat", 0, 0, 1);
}

/* ---- what the shop was told of payment, refund and return ---- */

static enum inventory_status step_of(struct seller *seller, const char *id,
                                     const struct inventory_order_call *call, struct inventory_order *now) {
    return answer_wait(order_call_begin(seller, id, call), now, sizeof *now);
}

static struct inventory_order_call return_of(const char *id, const char *key, int64_t quantity,
                                             bool restock) {
    struct inventory_order_call call = {.step = INVENTORY_RETURN, .quantity = quantity, .restock = restock};
    inventory_key_digest(id, key, strlen(key), call.digest);
    return call;
}

/* Everything happened while the replica was cut off. One of two instances that did it is asked after it. */
static void test_payment(void) {
    static const struct inventory_order_call pay = {.step = INVENTORY_PAY, .payment = "pi", .pay_ms = -1},
                                             confirm = {.step = INVENTORY_CONFIRM, .payment = "pi"},
                                             another = {.step = INVENTORY_CONFIRM, .payment = "pi-2"};
    struct seller *seller, *other;
    struct inventory_order now;
    redis_clock(); /* of servers that start after this */
    told_open_two(&pair, &seller, &told, &other, &others);
    struct inventory_item item = terms("seat", INVENTORY_BATCH, 10);
    item.hold_ms = 60000;
    item.pay_ms = 600000;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
    const char *paying = buy(seller, "seat", "ann", "a", 1)->order.id,
               *late = buy(other, "seat", "bob", "b", 4)->order.id,
               *refused = buy(seller, "seat", "eve", "c", 5)->order.id;
    redis_wait_copied(&pair.master, &pair.replica);
    pair_cut(&pair);
    CHECK_STATUS(step_of(seller, paying, &pay, &now), INVENTORY_OK);
    redis_clock()->ahead_ms += 60000 + INVENTORY_HOLD_GRACE_MS;
    holds_sweep(seller, &pair.master);
    CHECK_STATUS(buy(seller, "seat", "dan", "d", 1)->status, INVENTORY_OK);
    CHECK_STATUS(step_of(other, late, &confirm, &now), INVENTORY_OK);
    CHECK(now.late);
    CHECK_STATUS(step_of(other, refused, &confirm, &now), INVENTORY_EXPIRED);
    CHECK(now.refund_due);
    struct inventory_order_call some = return_of(late, "r1", 1, true), rest = return_of(late, "r2", 2, false);
    CHECK_STATUS(step_of(seller, late, &some, &now), INVENTORY_OK);
    CHECK_STATUS(step_of(other, late, &rest, &now), INVENTORY_OK);
    /* Whoever told of the order keeps it, but not what was returned: that is put back by its own notes. */
    const struct receipt *kept = receipts_find(&seller->inventory->purchases->putback->receipts,
                                               RECEIPT_ORDER, "seat", strchr(late, ':') + 1);
    CHECK(kept && *receipt_record(kept) == 'c' && !strstr(receipt_record(kept), " r="));
    check_books(seller, &pair.master, "seat", 5, 2, 1);

    told_fail_over(&pair, seller, other);
    check_books(seller, &pair.replica, "seat", 5, 2, 1);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT] + others.outcomes[INVENTORY_LOSS_SHORT] +
                  told.outcomes[INVENTORY_LOSS_DIFFERS] + others.outcomes[INVENTORY_LOSS_DIFFERS],
              0);
    CHECK_STATUS(step_of(other, paying, &pay, &now), INVENTORY_REPLAYED);
    CHECK_STR(inventory_state_name(now.state), "paying");
    CHECK_STATUS(step_of(seller, late, &confirm, &now), INVENTORY_REPLAYED);
    CHECK(now.late && now.returned == 3);
    CHECK_STATUS(step_of(seller, late, &another, &now), INVENTORY_PAYMENT_DIFFERS);
    CHECK_STATUS(step_of(other, late, &some, &now), INVENTORY_REPLAYED);
    CHECK_STATUS(step_of(seller, late, &rest, &now), INVENTORY_REPLAYED);
    CHECK_INT(now.returned, 3);
    CHECK_STATUS(item_restock(seller, "seat", "r", 10, NULL), INVENTORY_OK);
    CHECK_STATUS(step_of(seller, refused, &confirm, &now), INVENTORY_EXPIRED); /* final */
    CHECK(now.refund_due);
    check_books(seller, &pair.replica, "seat", 15, 2, 1);
}

/* ---- restocks, transfers, baskets ---- */

static void test_transactions(void) {
    struct seller *seller, *other;
    told_open_two(&pair, &seller, &told, &other, &others);
    pair_cut(&pair);
    item_put_with(seller, "phone", 6, 0, 0);
    item_put_with(seller, "lamp", 10, 0, 0);
    item_put_with(other, "held", 3, 2, 600000);
    CHECK_STATUS(item_restock(seller, "lamp", "r", 5, NULL), INVENTORY_OK);
    struct txn *transfer = txn_new(other, "t1", "phone:2 lamp:2");
    CHECK_STATUS(txn_do(transfer, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_make(seller, "k1", "phone:1 lamp:2"), INVENTORY_OK);
    struct txn *held = txn_new(seller, "k2", "held:1 phone:1"),
               *cancelled = txn_new(seller, "k3", "held:1 phone:1 lamp:1"),
               *confirmed = txn_new(seller, "k4", "held:1 phone:1");
    CHECK_STATUS(txn_do(held, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(cancelled, TXN_MAKE), INVENTORY_OK);
    struct txn *by_other = txn_new(other, "k3", "held:1 phone:1 lamp:1");
    CHECK_STATUS(txn_do(by_other, TXN_FIND), INVENTORY_OK);
    CHECK_STATUS(txn_do(by_other, TXN_CANCEL), INVENTORY_OK);
    CHECK_STATUS(txn_do(confirmed, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(confirmed, TXN_CONFIRM), INVENTORY_OK);
    struct txn *refused = txn_new(seller, "k5", "phone:1 held:3");
    CHECK(txn_do(refused, TXN_MAKE) != INVENTORY_OK);
    told_fail_over(&pair, seller, other);
    check_books(seller, &pair.replica, "phone", 1, 1, 2);
    check_books(seller, &pair.replica, "lamp", 15, 0, 2);
    check_books(seller, &pair.replica, "held", 1, 1, 1);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT] + others.outcomes[INVENTORY_LOSS_SHORT] +
                  told.outcomes[INVENTORY_LOSS_DIFFERS] + others.outcomes[INVENTORY_LOSS_DIFFERS],
              0);
    /* Everybody gets the first answer again, and nothing moves. */
    CHECK_STATUS(txn_make(other, "t1", "phone:2 lamp:2"), INVENTORY_REPLAYED);
    CHECK_STATUS(txn_make(other, "k1", "phone:1 lamp:2"), INVENTORY_REPLAYED);
    CHECK_STATUS(txn_make(other, "k4", "held:1 phone:1"), INVENTORY_REPLAYED);
    CHECK_STATUS(item_restock(other, "lamp", "r", 5, NULL), INVENTORY_REPLAYED);
    struct txn *again = txn_new(other, "k2", "held:1 phone:1");
    CHECK_STATUS(txn_do(again, TXN_FIND), INVENTORY_OK);
    CHECK_STATUS(txn_do(again, TXN_CONFIRM), INVENTORY_OK);
    while (strcmp(txn_phase(&pair.replica, cancelled), "cancelled") != 0) { /* who had it is given a second */
        shop_idle(seller->shop, 50);
        txns_recover(other);
    }
    check_books(seller, &pair.replica, "phone", 1, 0, 3);
    check_books(seller, &pair.replica, "lamp", 15, 0, 2);
    check_books(seller, &pair.replica, "held", 1, 0, 2);
}

/* ---- a cluster, of which one master is lost ---- */

enum { MASTERS = 3 };

/* Transfers and baskets over two masters, of which one is replaced by a replica that has not got its part for
 * longer than a minute. */
static void test_cluster(void) {
    struct redis_cluster cluster;
    redis_cluster_start(&cluster, MASTERS, 1);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_open(shop, redis_cluster_url(&cluster), &told);
    struct seller *other = told_seller_open(shop, redis_cluster_url(&cluster), &others);
    seller_wait_whole(seller);
    seller_wait_whole(other);
    const struct redis_server *phone = redis_cluster_of(&cluster, stock_key("phone"));
    struct redis_server *dies = redis_cluster_of(&cluster, stock_key("lamp"));
    CHECK(phone != dies);
    item_put_with(seller, "phone", 100, 0, 0);
    item_put_with(seller, "lamp", 100, 0, 0);
    item_put_with(seller, "held", 100, 0, 600000);
    replica_cut(dies, dies + MASTERS);
    for (int i = 0; i < 10; i++) {
        const char *there = harness_format("t%d", i), *back = harness_format("tb%d", i);
        CHECK_STATUS(txn_make(i % 2 ? seller : other, there, "phone:3 lamp:3"), INVENTORY_OK);
        CHECK_STATUS(txn_make(i % 2 ? other : seller, back, "lamp:1 phone:1"), INVENTORY_OK);
        CHECK_STATUS(txn_make(seller, harness_format("k%d", i), "phone:1 lamp:1"), INVENTORY_OK);
        struct txn *held = txn_new(other, harness_format("h%d", i), "held:1 phone:1 lamp:1");
        CHECK_STATUS(txn_do(held, TXN_MAKE), INVENTORY_OK);
        CHECK_STATUS(txn_do(held, i % 2 ? TXN_CONFIRM : TXN_CANCEL), INVENTORY_OK);
    }
    CHECK_STATUS(item_restock(seller, "lamp", "r", 7, NULL), INVENTORY_OK);
    shop->hurried_ms += LONG_MS;
    shop_idle(shop, 200);
    master_replace(&cluster, dies);
    seller_wait_not_whole(seller);
    seller_wait_not_whole(other);
    seller_wait_whole(seller);
    seller_wait_whole(other);
    for (int i = 0; i < 10; i++) {
        CHECK_STATUS(txn_make(seller, harness_format("t%d", i), "phone:3 lamp:3"), INVENTORY_REPLAYED);
        struct txn *basket = txn_new(seller, harness_format("k%d", i), "phone:1 lamp:1");
        CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_REPLAYED);
        for (int line = 0; line < 2; line++) {
            struct inventory_order order;
            inventory_transaction_order(&basket->transaction, line, &order);
            CHECK_STATUS(order_step(seller, order.id, INVENTORY_READ, &order), INVENTORY_OK);
            CHECK_STR(inventory_state_name(order.state), "confirmed");
        }
    }
    struct inventory_audit audit = item_audited(seller, "phone");
    CHECK(audit.conserved);
    CHECK_INT(audit.item.sold, 15);
    CHECK_INT(audit.item.available, 100 - 30 + 10 - 15);
    audit = item_audited(seller, "lamp");
    CHECK(audit.conserved);
    CHECK_INT(audit.item.sold, 15);
    CHECK_INT(audit.item.available, 100 + 30 - 10 - 15 + 7);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT] + others.outcomes[INVENTORY_LOSS_SHORT] +
                  told.outcomes[INVENTORY_LOSS_DIFFERS] + others.outcomes[INVENTORY_LOSS_DIFFERS],
              0);
}

static struct rush {
    bool is_over;
    int sold;
} rush;

static void sell_more(struct buy *of) {
    if (rush.is_over)
        return;
    CHECK_STATUS(of->status, INVENTORY_OK);
    struct buy *next = buy_begin(of->seller, of->item, "ann", harness_format("r%d", rush.sold++), 1);
    next->then = sell_more;
}

/* A master is replaced while the others sell as fast as they can: what is sold there meanwhile is not waited
 * for. */
static void test_cluster_rush(void) {
    enum { IN_FLIGHT = 300 };
    struct redis_cluster cluster;
    redis_cluster_start(&cluster, MASTERS, 1);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_open(shop, redis_cluster_url(&cluster), &told);
    seller_wait_whole(seller);
    struct redis_server *dies = redis_cluster_of(&cluster, stock_key("lamp"));
    item_put_with(seller, "lamp", 100, 0, 0);
    const char *sells[8];
    for (int i = 0, n = 0; n < 8; i++) {
        const char *item = harness_format("item%d", i);
        if (redis_cluster_of(&cluster, stock_key(item)) == dies)
            continue;
        item_put_with(seller, item, 1000000000, 0, 0);
        sells[n++] = item;
    }
    replica_cut(dies, dies + MASTERS);
    CHECK_STATUS(buy(seller, "lamp", "ann", "k", 1)->status, INVENTORY_OK);
    for (int i = 0; i < IN_FLIGHT; i++)
        buy_begin(seller, sells[i % 8], "ann", harness_format("r%d", rush.sold++), 1)->then = sell_more;
    master_replace(&cluster, dies);
    seller_wait_replaced(seller);
    rush.is_over = true;
    CHECK_STATUS(buy(seller, "lamp", "ann", "k", 1)->status, INVENTORY_REPLAYED);
    told_check(&told, 1, 0);
}

static bool lacks_replica(void *master) {
    return strstr(redis_command(master, "INFO", "replication", NULL), "connected_slaves:0");
}

/* The seller comes when the replica is cut off already: only the cluster tells that there is one. */
static void test_cluster_cut_before(void) {
    struct redis_cluster cluster;
    redis_cluster_start(&cluster, MASTERS, 1);
    struct redis_server *dies = redis_cluster_of(&cluster, stock_key("lamp"));
    replica_cut(dies, dies + MASTERS);
    CHECK(harness_wait(lacks_replica, dies, 10000));
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_open(shop, redis_cluster_url(&cluster), &told);
    seller_wait_whole(seller);
    item_put_with(seller, "lamp", 100, 0, 0);
    for (int i = 0; i < 10; i++)
        CHECK_STATUS(buy(seller, "lamp", "ann", harness_format("k%d", i), 1)->status, INVENTORY_OK);
    seller->inventory->purchases->putback->draining = true;
    shop_idle(shop, 200);
    shop->hurried_ms += LONG_MS;
    shop_idle(shop, 200);
    master_replace(&cluster, dies);
    seller_wait_replaced(seller);
    struct inventory_audit audit = item_audited(seller, "lamp");
    CHECK(audit.conserved);
    CHECK_INT(audit.item.sold, 10);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a hold that is over by another clock", test_hold_is_over_by_another_clock);
    harness_run("a hold that is over, and its unit was sent", test_hold_is_over_and_sent);
    harness_run("cancelled by another", test_cancelled_by_another);
    harness_run("payment, refund and return", test_payment);
    harness_run("restocks, transfers, baskets", test_transactions);
    harness_run("a cluster", test_cluster);
    harness_run("a cluster whose replica was cut off before", test_cluster_cut_before);
    harness_run("a cluster that sells meanwhile", test_cluster_rush);
    return harness_finish();
}
