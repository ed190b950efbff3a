/* The journal is compared with the items, and something is in the way: a master that is gone, a reply that is
 * lost, another one that compares too. */
#include <string.h>

#include "inventory/test/told.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/transactions_internal.h"

static struct told told, others;

static const char *key_of(const struct txn *txn, int line) {
    return stock_key(txn->transaction.lines[line].item);
}

static void check_line(struct seller *seller, const struct txn *txn, int line, enum inventory_status status) {
    struct inventory_order order;
    inventory_transaction_order(&txn->transaction, line, &order);
    CHECK_STATUS(order_step(seller, order.id, INVENTORY_READ, &order), status);
}

/* ---- a master is gone, and has no successor ---- */

static struct redis_cluster cluster;

static struct seller *open_seller(struct shop *shop, struct told *by) {
    struct seller *seller = told_seller_open(shop, redis_cluster_url(&cluster), by);
    seller_wait_whole(seller);
    return seller;
}

static struct redis_server *of_part(unsigned part) {
    return redis_cluster_of(&cluster, harness_format("{baskets:%u}", part));
}

/* A basket of one unit each, in that part of the journal. */
static struct txn *make(struct seller *seller, unsigned part, const char *item, const char *other) {
    static int serial;
    struct txn *txn;
    do
        txn = txn_new(seller, harness_format("b%d", serial++), harness_format("%s:1 %s:1", item, other));
    while (key_part(txn->transaction.id) != part);
    CHECK_STATUS(txn_do(txn, TXN_MAKE), INVENTORY_OK);
    return txn;
}

/* One part of the journal is gone, the next one has a basket with a line that is, and behind these is what
 * can be mended: it is. The rest is once the master is back. What does not fit is told by one of two sellers,
 * once. */
static void test_master_gone(void) {
    enum { FIRST = 0, SECOND = 1 };
    redis_cluster_start(&cluster, 3, 0);
    struct shop *shop = shop_open();
    struct seller *seller = open_seller(shop, &told), *other = open_seller(shop, &others);
    struct redis_server *gone = of_part(FIRST), *lives = of_part(SECOND);
    unsigned behind = SECOND + 1;
    while (of_part(behind) == gone)
        behind++;
    CHECK(lives != gone && behind < KEY_PARTS);
    const char *there = item_at(&cluster, gone), *item = item_at(&cluster, lives),
               *rare = item_at(&cluster, lives);
    item_sell(seller, there, INVENTORY_BATCH, 10);
    item_sell(seller, item, INVENTORY_BATCH, 10);
    item_sell(seller, rare, INVENTORY_BATCH, 1);
    struct txn *in_gone = make(seller, FIRST, item, item), *late = make(seller, SECOND, item, there),
               *torn = make(seller, behind, item, item), *is_short = make(seller, behind, item, rare);
    struct inventory_reconciled found;
    CHECK_STATUS(txns_reconcile_once(seller, true, &found), INVENTORY_OK);
    redis_kill(gone);
    seller_wait_not_whole(seller);
    seller_wait_not_whole(other);
    txn_lose_line(lives, in_gone, 0, "sold");
    txn_lose_line(lives, late, 0, "sold");
    txn_lose_line(lives, torn, 1, "sold");
    txn_lose_line(lives, is_short, 1, "sold");
    CHECK_STATUS(buy(seller, rare, "bob", "all", 1)->status, INVENTORY_OK);
    CHECK_STATUS(txns_reconcile_once(seller, true, &found), INVENTORY_UNAVAILABLE);
    CHECK_INT(found.torn, 3);
    CHECK_INT(found.mended, 2);
    check_line(seller, torn, 1, INVENTORY_OK);
    check_line(seller, late, 0, INVENTORY_OK);
    check_line(seller, in_gone, 0, INVENTORY_UNKNOWN_ORDER);
    told_check(&told, 2, 1);
    CHECK(!inventory_transactions_are_suspect(seller->inventory)); /* for a while */
    shop->hurried_ms += 4000;
    CHECK(inventory_transactions_are_suspect(seller->inventory));
    txns_reconcile_once(seller, true, &found);
    CHECK_INT(found.mended, 0);
    CHECK_STATUS(txns_reconcile_once(other, true, &found), INVENTORY_UNAVAILABLE);
    redis_restart(gone);
    seller_wait_whole(seller);
    CHECK_INT(txns_reconcile(seller, true).torn, 2);
    CHECK(!inventory_transactions_are_suspect(seller->inventory));
    check_line(seller, in_gone, 0, INVENTORY_OK);
    told_check(&told, 3, 1);
    told_check(&others, 0, 0);
}

/* ---- a reply is lost ---- */

/* What is noted then is told by the next comparison, and by that alone. */
static void test_reply_lost(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    struct shop *shop = shop_open();
    struct seller *seller =
        told_seller_open(shop, harness_format("redis://127.0.0.1:%d", proxy_port(proxy)), &told);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    item_sell(seller, "rare", INVENTORY_BATCH, 1);
    struct txn *txn = txn_new(seller, "b", "phone:1 rare:1");
    CHECK_STATUS(txn_do(txn, TXN_MAKE), INVENTORY_OK);
    txn_lose_line(&redis, txn, 0, "sold");
    CHECK_INT(txns_reconcile(seller, true).mended, 1); /* the store has the script by now */
    txn_lose_line(&redis, txn, 1, "sold");
    CHECK_STATUS(buy(seller, "rare", "bob", "all", 1)->status, INVENTORY_OK);
    proxy_set(proxy, PROXY_CUT, 0, "decided");
    struct inventory_reconciled found;
    CHECK_STATUS(txns_reconcile_once(seller, true, &found), INVENTORY_UNAVAILABLE);
    CHECK_INT(proxy_faults(proxy), 1);
    CHECK_STR(redis_command(&redis, "HGET", stock_key("rare"), "shortage", NULL), "1");
    told_check(&told, 1, 0);
    seller_wait_up(seller);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(txns_reconcile(seller, true).torn, 1);
        told_check(&told, 1, 1);
    }
}

/* ---- a decision that was lost, and is put back ---- */

static struct txn *make_held(struct seller *seller, const char *key, const char *lines) {
    struct txn *txn = txn_new(seller, key, lines);
    CHECK_STATUS(txn_do(txn, TXN_MAKE), INVENTORY_OK);
    return txn;
}

static void expire_all(struct seller *seller, int count) {
    redis_clock()->ahead_ms += 601000;
    CHECK_INT(txns_recover(seller), count);
    redis_clock()->ahead_ms -= 601000;
}

/* The basket was confirmed or cancelled, that was lost, it expired, and now the journal has it again. */
static void decide(const struct redis_server *redis, const struct txn *txn, const char *decided) {
    CHECK_STR(txn_phase(redis, txn), "expired");
    txn_check_order(txn->seller, txn, 0, "expired");
    txn_set_record(redis, txn, harness_format("%s%s", decided, strchr(txn_record(redis, txn), ' ')), true);
}

static void test_overruled(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    items_put_three(seller);
    struct txn *confirmed = make_held(seller, "a", "held:2 phone:1"),
               *cancelled = make_held(seller, "b", "held:4 phone:1");
    expire_all(seller, 2);
    decide(&redis, confirmed, "confirming");
    decide(&redis, cancelled, "cancelling");
    CHECK_INT(txns_reconcile(seller, true).mended, 3 + 5);
    CHECK_STATUS(txn_do(confirmed, TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(cancelled, TXN_CANCEL), INVENTORY_OK);
    shop_idle(seller->shop, 50); /* the replies of the last steps are not waited for */
    CHECK_STR(txn_phase(&redis, confirmed), "confirmed");
    CHECK_STR(txn_phase(&redis, cancelled), "cancelled");
    txn_check_order(seller, confirmed, 0, "confirmed");
    txn_check_order(seller, cancelled, 1, "cancelled");
    item_check_audit(seller, "held", 98, 0, 2);
    item_check_audit(seller, "phone", 99, 0, 1);
    CHECK(txns_audit_all(seller).conserved);
}

/* Its units are sold again: that is told, once. */
static void test_overruled_short(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    item_put_with(seller, "seat", 1, 0, 600000);
    struct txn *txn = make_held(seller, "a", "seat:1");
    expire_all(seller, 1);
    decide(&redis, txn, "confirming");
    struct buy *bought = buy(seller, "seat", "bob", "k", 1);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(txns_reconcile(seller, true).mended, 0);
        told_check(&told, 0, 1);
        CHECK_STATUS(txn_do(txn, TXN_CONFIRM), INVENTORY_UNKNOWN);
    }
    CHECK_STATUS(order_step(seller, bought->id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn, TXN_CONFIRM), INVENTORY_OK);
    item_check_audit(seller, "seat", 0, 0, 1);
}

/* It was taken for not decided, and its units are sold again: the decision comes back and does not fit. That
 * is told once, and its next step is carried out: to confirm, once there are units. */
static void test_aborted_and_sold(int call) {
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    item_put_with(seller, "seat", 1, 1, 600000);
    struct txn *txn = make_held(seller, "a", "seat:1");
    const char *record = txn_record(&redis, txn);
    txn_set_record(&redis, txn, harness_format("intent%s", strchr(record, ' ')), true);
    CHECK_INT(txns_recover(seller), 1);
    CHECK_STR(txn_phase(&redis, txn), "none");
    struct buy *bought = buy(seller, "seat", "bob", "k", 1);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    txn_set_record(&redis, txn, record, false);
    CHECK_INT(txns_reconcile(seller, true).mended, 0);
    told_check(&told, 0, 1);
    if (call == TXN_CONFIRM) {
        CHECK_STATUS(txn_do(txn, TXN_CONFIRM), INVENTORY_UNKNOWN);
        CHECK_STATUS(order_step(seller, bought->id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    }
    CHECK_STATUS(txn_do(txn, (enum txn_call)call), INVENTORY_OK);
    txn_check_order(seller, txn, 0, call == TXN_CONFIRM ? "confirmed" : "cancelled");
    CHECK_STR(redis_command(&redis, "HGET", stock_key("seat"), "shortage", NULL), "0");
    told_check(&told, 0, 1);
    item_check_audit(seller, "seat", 0, call != TXN_CONFIRM, call == TXN_CONFIRM);
    CHECK(txns_audit_all(seller).conserved);
}

/* ---- a decision that the journal lost, and an item has ---- */

/* The server forgets the last step of a line, whose counter was `from`. */
static void lose_step(const struct redis_server *redis, const struct txn *txn, int line, const char *from) {
    struct inventory_order order;
    inventory_transaction_order(&txn->transaction, line, &order);
    const char *digest = strchr(order.id, ':') + 1,
               *quantity = harness_format("%lld", (long long)order.quantity),
               *record = redis_command(redis, "HGET", key_of(txn, line), digest, NULL);
    redis_command(redis, "HSET", key_of(txn, line), digest, harness_format("b%s", strchr(record, ' ')), NULL);
    redis_command(redis, "HINCRBY", key_of(txn, line), "held", quantity, NULL);
    redis_command(redis, "HINCRBY", key_of(txn, line), from, harness_format("-%s", quantity), NULL);
    if (strcmp(from, "available") == 0)
        redis_command(redis, "HINCRBY", key_of(txn, line), "released", harness_format("-%s", quantity), NULL);
}

/* It is decided, and its record says that it is in this phase. */
static void decide_held(struct txn *txn, const struct redis_server *redis, enum txn_call call,
                        const char *phase) {
    CHECK_STATUS(txn_do(txn, (enum txn_call)call), INVENTORY_OK);
    shop_idle(txn->seller->shop, 50); /* the replies of the last steps are not waited for */
    txn_set_record(redis, txn, harness_format("%s%s", phase, strchr(txn_record(redis, txn), ' ')), true);
}

static struct txn *make_decided(struct seller *seller, const struct redis_server *redis, const char *key,
                                enum txn_call call, const char *phase) {
    struct txn *txn = make_held(seller, key, "held:2 phone:1");
    decide_held(txn, redis, call, phase);
    return txn;
}

/* Whatever is asked for next, and in whichever order: the stronger decision stands, in all items. */
static void test_decided_by_items(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    items_put_three(seller);
    struct txn *confirmed = make_decided(seller, &redis, "a", TXN_CONFIRM, "held"),
               *expired = make_decided(seller, &redis, "b", TXN_CONFIRM, "expiring"),
               *aborted = make_decided(seller, &redis, "c", TXN_CONFIRM, "undoing"),
               *cancelled = make_decided(seller, &redis, "d", TXN_CANCEL, "held"),
               *cancelled_too = make_decided(seller, &redis, "e", TXN_CANCEL, "expiring");
    txn_lose_line(&redis, confirmed, 1, "sold");
    txn_lose_line(&redis, expired, 1, "sold");
    CHECK_STATUS(txn_do(confirmed, TXN_CANCEL), INVENTORY_UNKNOWN);
    CHECK_STATUS(txn_do(cancelled, TXN_CONFIRM), INVENTORY_UNKNOWN);
    txns_recover(seller);
    CHECK(inventory_transactions_are_suspect(seller->inventory));
    CHECK_INT(txns_reconcile(seller, true).torn, 3);
    txns_recover(seller);
    shop_idle(seller->shop, 50);
    struct txn *const sold[] = {confirmed, expired, aborted, cancelled};
    for (int i = 0; i < 4; i++) {
        CHECK_STATUS(txn_do(sold[i], TXN_CONFIRM), INVENTORY_OK);
        shop_idle(seller->shop, 50);
        CHECK_STR(txn_phase(&redis, sold[i]), "confirmed");
        txn_check_order(seller, sold[i], 0, "confirmed");
        txn_check_order(seller, sold[i], 1, "confirmed");
        CHECK_STATUS(txn_do(sold[i], TXN_CANCEL), INVENTORY_CONFIRMED);
    }
    CHECK_STR(txn_phase(&redis, cancelled_too), "cancelled");
    item_check_audit(seller, "held", 92, 0, 8);
    item_check_audit(seller, "phone", 96, 0, 4);
    CHECK(txns_audit_all(seller).conserved);
}

static void wait_for_phase(struct seller *seller, const struct redis_server *redis, const struct txn *txn,
                           const char *phase) {
    for (int i = 0; i < 100 && strcmp(txn_phase(redis, txn), phase) != 0; i++)
        shop_idle(seller->shop, 20);
    CHECK_STR(txn_phase(redis, txn), phase);
}

/* Nobody asks: what an item has stands, and the other one, whose step was lost too, keeps its units. */
static void test_completed(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    items_put_three(seller);
    struct txn *confirmed = make_decided(seller, &redis, "a", TXN_CONFIRM, "held"),
               *cancelled = make_decided(seller, &redis, "b", TXN_CANCEL, "held");
    lose_step(&redis, confirmed, 1, "sold");
    lose_step(&redis, cancelled, 0, "available");
    CHECK_INT(txns_reconcile(seller, true).torn, 0);
    wait_for_phase(seller, &redis, confirmed, "confirmed");
    wait_for_phase(seller, &redis, cancelled, "cancelled");
    txn_check_order(seller, confirmed, 1, "confirmed");
    txn_check_order(seller, cancelled, 0, "cancelled");
    item_check_audit(seller, "held", 98, 0, 2);
    item_check_audit(seller, "phone", 99, 0, 1);
    CHECK(txns_audit_all(seller).conserved);
}

/* There is no room for a step, which is carried out the next time. */
static void test_completed_later(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct seller *seller = told_seller_open_with(
        shop_open(),
        &(struct seller_options){.url = harness_format("redis://127.0.0.1:%d", redis.port), .queue_max = 1},
        &told);
    items_put_three(seller);
    struct txn *first = make_decided(seller, &redis, "a", TXN_CONFIRM, "held"), *second;
    for (int i = 0;; i++) {
        second = txn_new(seller, harness_format("b%d", i), "held:2 phone:1");
        if (key_part(second->transaction.id) == key_part(first->transaction.id))
            break;
    }
    CHECK_STATUS(txn_do(second, TXN_MAKE), INVENTORY_OK);
    decide_held(second, &redis, TXN_CONFIRM, "held");
    lose_step(&redis, first, 1, "sold");
    lose_step(&redis, second, 1, "sold");
    txns_reconcile(seller, true);
    CHECK(inventory_transactions_are_suspect(seller->inventory));
    shop_idle(seller->shop, 50);
    txns_reconcile(seller, true);
    wait_for_phase(seller, &redis, first, "confirmed");
    wait_for_phase(seller, &redis, second, "confirmed");
    CHECK(!inventory_transactions_are_suspect(seller->inventory));
    CHECK(txns_audit_all(seller).conserved);
}

/* ---- an item that is lost ---- */

/* A transfer has ended, and its receiving item is lost: it is torn until that item is on sale again. */
static void test_item_lost(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    item_sell(seller, "lamp", INVENTORY_BATCH, 10);
    struct txn *txn = txn_new(seller, "t", "phone:2 lamp:2");
    CHECK_STATUS(txn_do(txn, TXN_MAKE), INVENTORY_OK);
    shop_idle(seller->shop, 50); /* the reply of the last step is not waited for */
    CHECK_INT(redis_integer(&redis, "DEL", stock_key("lamp"), NULL), 1);
    redis_command(&redis, "DEL", stock_key("lamp:events"), NULL);
    for (int i = 1; i <= 2; i++) {
        CHECK_INT(txns_audit_all(seller).journal.torn, 1);
        CHECK_INT(txns_reconcile(seller, true).mended, 0);
        CHECK_INT(told.outcomes[INVENTORY_LOSS_UNKNOWN_ITEM], i);
    }
    item_sell(seller, "lamp", INVENTORY_BATCH, 10);
    CHECK_INT(txns_audit_all(seller).journal.torn, 1);
    CHECK(inventory_transactions_are_suspect(seller->inventory));
    CHECK_INT(txns_reconcile(seller, true).mended, 2);
    item_check_audit(seller, "lamp", 12, 0, 0);
    CHECK(txns_audit_all(seller).conserved);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a decision that was lost", test_overruled);
    harness_run("a decision that does not fit", test_overruled_short);
    run_case("aborted, sold, and confirmed", test_aborted_and_sold, TXN_CONFIRM);
    run_case("aborted, sold, and cancelled", test_aborted_and_sold, TXN_CANCEL);
    harness_run("a decision that items have", test_decided_by_items);
    harness_run("a decision that nobody asks for", test_completed);
    harness_run("a decision for which there is no room", test_completed_later);
    harness_run("an item that is lost", test_item_lost);
    harness_run("a master that is gone", test_master_gone);
    harness_run("a reply that is lost", test_reply_lost);
    return harness_finish();
}
