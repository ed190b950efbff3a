/* Lines of baskets and halves of transfers that an item lacks: what the audit of all items tells, and what a
 * confirm, a retry and a repeated debit do. */
#include <string.h>

#include "inventory/test/told.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/transactions_internal.h"

static struct redis_server redis;
static struct told told;

static struct seller *open_one(void) {
    redis_start(&redis, NULL);
    const struct seller_options options = {.url = harness_format("redis://127.0.0.1:%d", redis.port),
                                           .call_timeout_ms = 500,
                                           .resolve_ms = 3000};
    return told_seller_open_with(shop_open(), &options, &told);
}

/* ---- the audit of all items ---- */

static void forget(const struct txn *txn, int line) {
    struct inventory_order order;
    inventory_transaction_order(&txn->transaction, line, &order);
    CHECK_STR(redis_command(&redis, "HDEL", stock_key(order.item), strchr(order.id, ':') + 1, NULL), "1");
}

static void check_all(struct seller *seller, int torn, int lacking, int unknown, int unbalanced) {
    struct inventory_audit_sum sum = txns_audit_all(seller);
    CHECK_INT(sum.journal.torn, torn);
    CHECK_INT(sum.journal.lacking, lacking);
    CHECK_INT(sum.unknown, unknown);
    CHECK_INT(sum.unbalanced, unbalanced);
    CHECK_INT(sum.conserved, torn + unknown + unbalanced == 0);
}

/* Everything is there; and then a part of it is not. */
static void test_audit_all(void) {
    struct seller *seller = open_one();
    CHECK_INT(txns_audit_all(seller).items, 0);
    items_put_three(seller);
    CHECK_STATUS(buy(seller, "phone", "bob", "k", 2)->status, INVENTORY_OK);
    struct txn *moved = txn_new(seller, "t", "phone:3 lamp:3"),
               *sold = txn_new(seller, "sold", "phone:1 lamp:2"),
               *cancelled = txn_new(seller, "cancelled", "held:1 lamp:1"),
               *waits = txn_new(seller, "waits", "held:4 lamp:1"),
               *refused = txn_new(seller, "no", "phone:1 lamp:199");
    CHECK_STATUS(txn_do(moved, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(sold, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(cancelled, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(cancelled, TXN_CANCEL), INVENTORY_OK);
    CHECK_STATUS(txn_do(waits, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(refused, TXN_MAKE), INVENTORY_SOLD_OUT);
    struct inventory_audit_sum sum = txns_audit_all(seller);
    CHECK(sum.conserved);
    CHECK_INT(sum.items, 3);
    CHECK_INT(sum.stock, 300);
    CHECK_INT(sum.held, 5);
    CHECK_INT(sum.sold, 5);
    CHECK_INT(sum.available, 290);
    CHECK_INT(sum.journal.transactions, 4);
    CHECK_INT(sum.journal.in_flight, 0);
    CHECK(!inventory_transactions_are_suspect(seller->inventory));
    /* A half of the transfer is gone, and a line: an audit that finds this makes them suspect. */
    CHECK_STR(redis_command(&redis, "HDEL", stock_key("lamp"),
                            harness_format("+%s", moved->transaction.nonce), NULL),
              "1");
    forget(sold, 1);
    check_all(seller, 2, 5, 0, 1);
    CHECK(inventory_transactions_are_suspect(seller->inventory));
    redis_command(&redis, "HINCRBY", stock_key("lamp"), "sold", "-2", NULL);
    redis_command(&redis, "HINCRBY", stock_key("lamp"), "available", "-1", NULL);
    redis_command(&redis, "HINCRBY", stock_key("lamp"), "restocked", "-3", NULL);
    check_all(seller, 2, 5, 0, 0);
    CHECK_INT(txns_reconcile(seller, true).mended, 5);
    check_all(seller, 0, 0, 0, 0);
    /* What the journal does not have any more, or has as another attempt. */
    const char *record = txn_record(&redis, waits);
    txn_set_record(&redis, waits,
                   harness_format("held AAAAAAAAAAAAAAAAAAAAAA %s", strchr(strchr(record, ' ') + 1, ' ') + 1),
                   false);
    check_all(seller, 1, 5, 5, 0);
    txn_set_record(&redis, waits, record, false);
    check_all(seller, 0, 0, 0, 0);
    const char *confirmed = txn_record(&redis, sold);
    txn_set_record(&redis, sold, harness_format("held%s", strchr(confirmed, ' ')), false);
    check_all(seller, 0, 0, 3, 0);
    txn_set_record(&redis, sold, confirmed, false);
    confirmed = txn_record(&redis, moved);
    redis_command(&redis, "HDEL",
                  harness_format("seckill:{baskets:%u}:journal", key_part(moved->transaction.id)),
                  harness_format("t:%s", moved->transaction.id), NULL);
    check_all(seller, 0, 0, 6, 0);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_UNKNOWN_TRANSACTION], 2 + 2 + 2);
    txn_set_record(&redis, moved, confirmed, false);
    check_all(seller, 0, 0, 0, 0);
}

/* It was confirmed, that was lost, and then it expired; and it is noted that it was. */
static void lose_confirm(const struct txn *txn, int line) {
    struct inventory_order order;
    const char *item = stock_key(txn->transaction.lines[line].item), *digest;
    inventory_transaction_order(&txn->transaction, line, &order);
    digest = strchr(order.id, ':') + 1;
    const char *orders = stock_key(order.item);
    const char *record = harness_format("%s", redis_command(&redis, "HGET", orders, digest, NULL));
    redis_command(&redis, "HSET", orders, digest, harness_format("e2%s", strchr(record, ' ')), NULL);
    redis_command(&redis, "HSET", stock_key(harness_format("%s:shortage", order.item)), digest, record, NULL);
    redis_command(&redis, "HINCRBY", item, "available", "1", NULL);
    redis_command(&redis, "HINCRBY", item, "released", "1", NULL);
    redis_command(&redis, "HINCRBY", item, "sold", "-1", NULL);
    redis_command(&redis, "HINCRBY", item, "shortage", "1", NULL);
}

static void set_confirming(const struct txn *txn) {
    const char *record = txn_record(&redis, txn);
    txn_set_record(&redis, txn, harness_format("confirming%s", strchr(record, ' ')), true);
}

/* Lines were lost with their decision written, and their units sold again (or, `by_limit`, there are units,
 * but the user has bought all that the limit allows by then), and that is told. Who asks again for the basket
 * gets the first answer; that it is confirmed is told to nobody before it is. */
static void test_lacking(int by_limit) {
    struct seller *seller = open_one();
    items_put_three(seller);
    item_put_with(seller, "few", by_limit ? 100 : 3, by_limit ? 3 : 0, by_limit ? 600000 : 0);
    struct txn *sold = txn_new(seller, "sold", "phone:1 few:1"),
               *held = txn_new(seller, "held", "held:1 few:1"),
               *late = txn_new(seller, "late", "held:1 few:1"), *all[] = {sold, held, late};
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(txn_do(all[i], TXN_MAKE), INVENTORY_OK);
        if (all[i] != held)
            CHECK_STATUS(txn_do(all[i], TXN_CONFIRM), INVENTORY_OK);
    }
    txn_lose_line(&redis, sold, 1, "sold");
    txn_lose_line(&redis, held, 1, "held");
    lose_confirm(late, 1);
    if (by_limit)
        CHECK_INT(redis_integer(&redis, "HINCRBY", stock_key("few"), "@ann", "-3", NULL), 0);
    set_confirming(sold);
    set_confirming(late);
    struct buy *bought = buy(seller, "few", by_limit ? "ann" : "bob", "all", 3);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_same(seller, sold), by_limit ? TXN_CONFIRM : TXN_MAKE),
                 INVENTORY_UNAVAILABLE); /* not told yet */
    txns_reconcile(seller, true);
    told_check(&told, 0, 2);
    for (int i = 0; i < 3; i++) {
        struct txn *again = txn_same(seller, all[i]);
        CHECK_STATUS(txn_do(again, TXN_CONFIRM), INVENTORY_UNKNOWN);
        CHECK_STATUS(txn_do(again, TXN_MAKE), INVENTORY_REPLAYED);
        CHECK_STR(inventory_state_name(again->transaction.state), "confirmed");
        CHECK_STATUS(txn_do(again, TXN_CHECK), INVENTORY_REPLAYED);
        CHECK_STR(txn_phase(&redis, again), "confirming");
    }
    if (by_limit)
        CHECK_STATUS(order_step(seller, bought->id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    else
        CHECK_STATUS(item_restock(seller, "few", "r", 3, NULL), INVENTORY_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(txn_do(txn_same(seller, all[i]), TXN_CONFIRM), INVENTORY_OK);
        txn_check_order(seller, all[i], 1, "confirmed");
    }
    item_check_audit(seller, "few", by_limit ? 97 : 0, 0, by_limit ? 3 : 6);
    CHECK_STR(redis_command(&redis, "HGET", stock_key("few"), "shortage", NULL), "0");
    CHECK_STATUS(buy(seller, "few", "ann", "more", 1)->status,
                 by_limit ? INVENTORY_LIMIT : INVENTORY_SOLD_OUT);
    CHECK(txns_audit_all(seller).conserved);
}

/* ---- a debit that is repeated ---- */

static char nonce[INVENTORY_DIGEST_SIZE];

static void on_debited(struct transaction_run *run) {
    transaction_finish(run, run->status);
}

static void debit(struct transaction_run *run) {
    stpcpy(run->transaction->nonce, nonce);
    run->transaction->expires_ms = 1;
    lines_write(run, WRITE_DEBIT, on_debited);
}

static void on_debit_answered(struct inventory_transaction *transaction, enum inventory_status status) {
    struct txn *txn = (struct txn *)transaction;
    txn->answers++;
    txn->status = status;
}

static enum inventory_status debit_again(struct txn *txn) {
    txn->answers = 0;
    txn->transaction.done = on_debit_answered;
    transaction_begin(txn->seller->inventory->transactions, &txn->transaction, debit, INVENTORY_READ);
    SHOP_UNTIL(txn->seller->shop, txn->answers > 0, "the debit is answered");
    return txn->status;
}

/* Of two lines of one item one is there: the other is debited, and nothing twice. */
static void test_debit_again(void) {
    struct seller *seller = open_one();
    items_put_three(seller);
    struct txn *txn = txn_new(seller, "b", "lamp:1 lamp:4");
    memset(nonce, 'B', sizeof nonce - 1);
    CHECK_STATUS(debit_again(txn), INVENTORY_OK);
    item_check_audit(seller, "lamp", 95, 5, 0);
    CHECK_STATUS(debit_again(txn), INVENTORY_OK);
    item_check_audit(seller, "lamp", 95, 5, 0);
    txn_lose_line(&redis, txn, 0, "held");
    CHECK_STATUS(debit_again(txn), INVENTORY_OK);
    item_check_audit(seller, "lamp", 95, 5, 0);
}

/* Beside transactions that go on, nothing is torn and nothing unknown. */
static void test_audit_beside(void) {
    struct seller *seller = open_one();
    struct txn *txns[60];
    item_sell(seller, "phone", INVENTORY_BATCH, 50);
    item_sell(seller, "lamp", INVENTORY_BATCH, 1000);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 60; i++) {
            txns[i] = txn_new(seller, harness_format("%s%d-%d", i % 3 ? "b" : "t", round, i),
                              i % 2 ? "phone:1 lamp:1" : "lamp:1 phone:1");
            txn_begin(txns[i], TXN_MAKE);
        }
        struct inventory_audit_sum sum = txns_audit_all(seller);
        CHECK_INT(sum.journal.torn, 0);
        CHECK_INT(sum.unknown, 0);
        CHECK_INT(sum.unbalanced, 0);
        for (int i = 0; i < 60; i++)
            txn_wait(txns[i]);
    }
    CHECK(txns_audit_all(seller).conserved);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the audit of all", test_audit_all);
    harness_run("the audit of all beside transactions", test_audit_beside);
    run_case("a line of a decision is lacking", test_lacking, false);
    run_case("a line of a decision is lacking, and the user has others", test_lacking, true);
    harness_run("a debit that is repeated", test_debit_again);
    return harness_finish();
}
