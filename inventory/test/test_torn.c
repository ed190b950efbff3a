/* Baskets and transfers that a failover tore, and whose maker cannot put them back: what the journal says is
 * written again, and what does not fit is told. */
#include <string.h>

#include "inventory/test/told.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/transactions_internal.h"

enum { MASTERS = 3 };

static struct redis_cluster cluster;
static struct redis_server *dies; /* the master of lamp, and of rare */
static const char *rare;
static struct pair pair;
static struct told told, others;

/* Two sellers at a cluster whose master of lamp has a replica that gets nothing from now on. Phone, and all
 * that is used of the journal, are on others. */
static void open_cluster(struct seller **maker, struct seller **other) {
    redis_cluster_start(&cluster, MASTERS, 1);
    struct shop *shop = shop_open();
    *maker = told_seller_open(shop, redis_cluster_url(&cluster), &told);
    *other = told_seller_open(shop, redis_cluster_url(&cluster), &others);
    seller_wait_whole(*maker);
    seller_wait_whole(*other);
    dies = redis_cluster_of(&cluster, stock_key("lamp"));
    CHECK(redis_cluster_of(&cluster, stock_key("phone")) != dies &&
          redis_cluster_of(&cluster, stock_key("held")) != dies);
    items_put_three(*maker);
    for (int i = 0; i == 0 || redis_cluster_of(&cluster, stock_key(rare)) != dies; i++)
        rare = harness_format("rare%d", i);
    item_sell(*maker, rare, INVENTORY_BATCH, 10);
    replica_cut(dies, dies + MASTERS);
}

/* A key whose transaction the journal has elsewhere than at the master that dies. */
static const char *safe_key(const char *prefix, const char *user) {
    for (int i = 0;; i++) {
        char *key = harness_format("%s%d", prefix, i), id[INVENTORY_DIGEST_SIZE];
        inventory_key_digest(user, key, strlen(key), id);
        if (redis_cluster_of(&cluster, harness_format("{baskets:%u}", key_part(id))) != dies)
            return key;
    }
}

static struct txn *make(struct seller *seller, const char *prefix, const char *lines) {
    struct txn *txn = txn_new(seller, safe_key(prefix, prefix[0] == 't' ? "" : "ann"), lines);
    CHECK_STATUS(txn_do(txn, TXN_MAKE), INVENTORY_OK);
    return txn;
}

/* The maker dies together with the master. */
static void lose(struct seller *maker, struct seller *other) {
    seller_close(maker);
    master_replace(&cluster, dies);
    seller_wait_replaced(other);
}

/* Held baskets that are settled before anybody has compared. */
static void settle_first(struct seller *other, const struct txn *confirmed, const struct txn *cancelled) {
    CHECK_STATUS(txn_do(txn_same(other, confirmed), TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_same(other, cancelled), TXN_CANCEL), INVENTORY_OK);
    txn_check_order(other, confirmed, 1, "confirmed");
    txn_check_order(other, confirmed, 2, "confirmed");
    txn_check_order(other, cancelled, 1, "cancelled");
}

/* What did not fit does once there are units again: the confirm is carried out, and the rest with the next
 * comparison. */
static void make_room(struct seller *other, const struct txn *sold, const struct txn *held) {
    CHECK_STATUS(txn_do(txn_same(other, held), TXN_CONFIRM), INVENTORY_UNKNOWN);
    item_check_audit(other, rare, 0, 0, 10);
    CHECK_STATUS(item_restock(other, rare, "r", 5, NULL), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_same(other, held), TXN_CONFIRM), INVENTORY_OK);
    CHECK_INT(txns_reconcile(other, true).mended, 1);
    txn_check_order(other, sold, 0, "confirmed");
    txn_check_order(other, sold, 1, "confirmed");
    txn_check_order(other, held, 1, "confirmed");
    item_check_audit(other, rare, 3, 0, 12);
    CHECK_STR(
        redis_command(redis_cluster_of(&cluster, stock_key(rare)), "HGET", stock_key(rare), "shortage", NULL),
        "0");
}

static void test_from_journal(void) {
    struct seller *maker, *other;
    open_cluster(&maker, &other);
    make(maker, "to-lamp", "phone:3 lamp:3");
    make(maker, "to-phone", "lamp:1 phone:1");
    const struct txn *sold = make(maker, "sold", "phone:1 lamp:1 lamp:2"),
                     *confirmed = make(maker, "confirmed", "held:1 lamp:1"),
                     *cancelled = make(maker, "cancelled", "held:1 lamp:1"),
                     *held = make(maker, "held", "held:1 lamp:4"),
                     *early = make(maker, "early", "held:1 lamp:1 lamp:2"),
                     *late = make(maker, "late", "held:1 lamp:1"),
                     *sold_rare = make(maker, "sold-rare", harness_format("phone:1 %s:1", rare)),
                     *held_rare = make(maker, "held-rare", harness_format("held:1 %s:1", rare));
    CHECK_STATUS(txn_do((struct txn *)confirmed, TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do((struct txn *)cancelled, TXN_CANCEL), INVENTORY_OK);
    CHECK(inventory_transactions_are_suspect(other->inventory)); /* it was just opened */
    CHECK_INT(txns_reconcile(other, true).torn, 0);
    CHECK(!inventory_transactions_are_suspect(other->inventory));
    lose(maker, other);
    CHECK(inventory_transactions_are_suspect(other->inventory));
    settle_first(other, early, late);
    CHECK_STATUS(buy(other, rare, "bob", "all", 10)->status, INVENTORY_OK);
    struct inventory_reconciled found = txns_reconcile(other, false);
    CHECK_INT(found.transactions, 10);
    CHECK_INT(found.in_flight, 0);
    CHECK_INT(found.torn, 6 + 2);
    CHECK_INT(found.lacking, 3 + 1 + 1 + 2 + 1 + 1 + 4 + 2);
    CHECK_INT(found.mended, 0);
    CHECK(inventory_transactions_are_suspect(other->inventory)); /* nothing is mended yet */
    found = txns_reconcile(other, true);
    CHECK_INT(found.torn, 6 + 2);
    CHECK_INT(found.mended, 3 + 1 + 1 + 2 + 1 + 1 + 4);
    CHECK(!inventory_transactions_are_suspect(other->inventory));
    CHECK_INT(txns_reconcile(other, false).torn, 2);
    CHECK_INT(others.outcomes[INVENTORY_LOSS_BACK], 7);
    CHECK_INT(others.outcomes[INVENTORY_LOSS_SHORT], 2);
    CHECK_INT((int)others.metrics.put_back, 7);
    CHECK_INT((int)others.metrics.shortage, 2);
    for (int line = 0; line < 3; line++)
        txn_check_order(other, sold, line, "confirmed");
    txn_check_order(other, confirmed, 1, "confirmed");
    txn_check_order(other, cancelled, 1, "cancelled");
    CHECK_STATUS(txn_do(txn_same(other, held), TXN_CONFIRM), INVENTORY_OK);
    txn_check_order(other, held, 1, "confirmed");
    make_room(other, sold_rare, held_rare);
    item_check_audit(other, "phone", 100 - 3 + 1 - 2, 0, 2);
    item_check_audit(other, "lamp", 100 + 3 - 1 - 3 - 1 - 4 - 3, 0, 3 + 1 + 4 + 3);
    item_check_audit(other, "held", 96, 0, 4);
    CHECK(txns_audit_all(other).conserved);
}

/* The maker dies, and another one gives the first answer to a retry, or to who looks. So it keeps what it
 * told, and puts it back. */
static void test_told_by_another(void) {
    pair_start(&pair);
    struct shop *shop = shop_open();
    struct seller *maker = told_seller_open(shop, pair_url(&pair), &told),
                  *other = told_seller_open(shop, pair_url(&pair), &others);
    items_put_three(maker);
    pair_cut(&pair);
    static const char *const lines[] = {"phone:3 lamp:3", "phone:1 lamp:1", "phone:1 held:1",
                                        "phone:1 held:1", "phone:1 held:1"};
    static const enum txn_call calls[] = {TXN_CHECK, TXN_CHECK, TXN_CHECK, TXN_CONFIRM, TXN_FIND};
    struct txn *made[5];
    for (int i = 0; i < 5; i++) {
        made[i] = txn_new(maker, harness_format("%s%d", i == 0 ? "t" : "b", i), lines[i]);
        CHECK_STATUS(txn_do(made[i], TXN_MAKE), INVENTORY_OK);
    }
    CHECK_STATUS(txn_do(made[3], TXN_CONFIRM), INVENTORY_OK);
    seller_close(maker);
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(txn_do(txn_same(other, made[i]), calls[i]),
                     calls[i] == TXN_CHECK ? INVENTORY_REPLAYED : INVENTORY_OK);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_hurry_up(other);
    CHECK_INT(txns_reconcile(other, true).torn, 5);
    CHECK_INT(txns_reconcile(other, false).torn, 0);
    txn_check_order(other, made[1], 1, "confirmed");
    txn_check_order(other, made[2], 1, "held");
    txn_check_order(other, made[3], 1, "confirmed");
    txn_check_order(other, made[4], 1, "held");
    item_check_audit(other, "phone", 100 - 3 - 4, 2, 2);
    CHECK(txns_audit_all(other).conserved);
}

/* The journal has lost baskets whose orders are there: the audit of all items counts the units, and names the
 * first hundred orders, in each audit. */
static void test_unknown(void) {
    enum { BASKETS = 51, TOLD = 100 };
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    items_put_three(seller);
    for (int i = 0; i < BASKETS; i++)
        CHECK_STATUS(txn_do(txn_new(seller, harness_format("b%d", i), "phone:1 lamp:1"), TXN_MAKE),
                     INVENTORY_OK);
    CHECK(txns_audit_all(seller).conserved);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_UNKNOWN_TRANSACTION], 0);
    for (int i = 0; i < 8; i++)
        redis_command(&redis, "DEL", harness_format("seckill:{baskets:%d}:journal", i), NULL);
    for (int i = 1; i <= 2; i++) {
        struct inventory_audit_sum audit = txns_audit_all(seller);
        CHECK(!audit.conserved);
        CHECK_INT(audit.unknown, 2 * BASKETS);
        CHECK_INT(told.outcomes[INVENTORY_LOSS_UNKNOWN_TRANSACTION], i * TOLD);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("from the journal", test_from_journal);
    harness_run("told by another", test_told_by_another);
    harness_run("unknown to the journal", test_unknown);
    return harness_finish();
}
