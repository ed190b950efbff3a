/* Baskets and transfers that a failover tore, and whose maker cannot put them back: what the journal says is
 * written again, what does not fit is told, and what was made twice is undone once. */
#include <stdio.h>
#include <string.h>

#include "inventory/context.h"
#include "inventory/test/told.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/journal.h"
#include "inventory/transactions/lines.h"
#include "inventory/transactions/transaction.h"

enum { MASTERS = 3 };

static struct redis_cluster cluster;
static struct redis_server *dies; /* the master of lamp, and of rare */
static const char *rare;
static struct pair pair;
static struct told told, others;

static struct seller *open_seller(struct shop *shop, const char *url, struct told *by) {
    return told_seller_open_with(
        shop, &(struct seller_options){.url = url, .call_timeout_ms = 500, .resolve_ms = 3000}, by);
}

static bool is_whole(void *arg) {
    return store_is_whole(((struct seller *)arg)->inventory->store);
}

static bool is_not_whole(void *arg) {
    return !is_whole(arg);
}

static void put_three(struct seller *seller) {
    struct inventory_item held = terms("held", INVENTORY_BATCH, 100);
    held.hold_ms = 600000;
    item_sell(seller, "phone", INVENTORY_BATCH, 100);
    item_sell(seller, "lamp", INVENTORY_BATCH, 100);
    CHECK_STATUS(item_put(seller, &held), INVENTORY_OK);
}

/* Two sellers at a cluster whose master of lamp has a replica that gets nothing from now on. Phone, and all
 * that is used of the journal, are on others. */
static void open_cluster(struct seller **maker, struct seller **other) {
    redis_cluster_start(&cluster, MASTERS, 1);
    struct shop *shop = shop_open();
    *maker = open_seller(shop, redis_cluster_url(&cluster), &told);
    *other = open_seller(shop, redis_cluster_url(&cluster), &others);
    shop_wait(shop, is_whole, *maker, "all masters are there");
    shop_wait(shop, is_whole, *other, "all masters are there");
    dies = redis_cluster_of(&cluster, "{lamp}");
    CHECK(redis_cluster_of(&cluster, "{phone}") != dies && redis_cluster_of(&cluster, "{held}") != dies);
    put_three(*maker);
    for (int i = 0; i == 0 || redis_cluster_of(&cluster, harness_format("{%s}", rare)) != dies; i++)
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
    redis_kill(dies);
    shop_wait(other->shop, is_not_whole, other, "the master is gone");
    shop_wait(other->shop, is_whole, other, "its successor is there");
}

/* The same transaction, asked for by another seller. */
static struct txn *same(struct seller *seller, const struct txn *of) {
    struct txn *txn = harness_alloc(sizeof *txn);
    *txn = *of;
    txn->seller = seller;
    return txn;
}

static void check_audit(struct seller *seller, const char *item, int64_t available, int64_t held,
                        int64_t sold) {
    struct inventory_audit audit;
    CHECK_STATUS(item_audit(seller, item, &audit), INVENTORY_OK);
    CHECK(audit.conserved && audit.exact);
    CHECK_INT(audit.item.available, available);
    CHECK_INT(audit.item.held, held);
    CHECK_INT(audit.item.sold, sold);
}

static void check_order(struct seller *seller, const struct txn *txn, int line, const char *state) {
    struct inventory_order order;
    inventory_transaction_order(&txn->transaction, line, &order);
    CHECK_STATUS(order_step(seller, order.id, INVENTORY_READ, &order), INVENTORY_OK);
    CHECK_STR(inventory_state_name(order.state), state);
}

struct summed {
    bool done;
    enum inventory_status status;
    struct inventory_audit_sum sum;
};

static void on_sum(void *ctx, enum inventory_status status, const struct inventory_audit_sum *sum) {
    struct summed *summed = ctx;
    summed->done = true;
    summed->status = status;
    if (sum)
        summed->sum = *sum;
}

static bool is_summed(void *arg) {
    return ((struct summed *)arg)->done;
}

static struct inventory_audit_sum audit_all(struct seller *seller) {
    struct summed summed = {.done = false}, second = {.done = false};
    inventory_audit_all(seller->inventory, on_sum, &summed);
    inventory_audit_all(seller->inventory, on_sum, &second);
    CHECK(second.done);
    CHECK_STATUS(second.status, INVENTORY_OVERLOADED);
    shop_wait(seller->shop, is_summed, &summed, "all is audited");
    CHECK_STATUS(summed.status, INVENTORY_OK);
    return summed.sum;
}

/* Held baskets that are settled before anybody has compared. */
static void settle_first(struct seller *other, const struct txn *confirmed, const struct txn *cancelled) {
    CHECK_STATUS(txn_do(same(other, confirmed), TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(same(other, cancelled), TXN_CANCEL), INVENTORY_OK);
    check_order(other, confirmed, 1, "confirmed");
    check_order(other, confirmed, 2, "confirmed");
    check_order(other, cancelled, 1, "cancelled");
}

/* What did not fit does once there are units again: the confirm is carried out, and the rest with the next
 * comparison. */
static void make_room(struct seller *other, const struct txn *sold, const struct txn *held) {
    CHECK_STATUS(txn_do(same(other, held), TXN_CONFIRM), INVENTORY_UNKNOWN);
    check_audit(other, rare, 0, 0, 10);
    CHECK_STATUS(item_restock(other, rare, "r", 5, NULL), INVENTORY_OK);
    CHECK_STATUS(txn_do(same(other, held), TXN_CONFIRM), INVENTORY_OK);
    CHECK_INT(txns_reconcile(other, true).mended, 1);
    check_order(other, sold, 0, "confirmed");
    check_order(other, sold, 1, "confirmed");
    check_order(other, held, 1, "confirmed");
    check_audit(other, rare, 3, 0, 12);
    CHECK_STR(redis_command(redis_cluster_of(&cluster, harness_format("{%s}", rare)), "HGET",
                            harness_format("seckill:{%s}:item", rare), "shortage", NULL),
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
        check_order(other, sold, line, "confirmed");
    check_order(other, confirmed, 1, "confirmed");
    check_order(other, cancelled, 1, "cancelled");
    CHECK_STATUS(txn_do(same(other, held), TXN_CONFIRM), INVENTORY_OK);
    check_order(other, held, 1, "confirmed");
    make_room(other, sold_rare, held_rare);
    check_audit(other, "phone", 100 - 3 + 1 - 2, 0, 2);
    check_audit(other, "lamp", 100 + 3 - 1 - 3 - 1 - 4 - 3, 0, 3 + 1 + 4 + 3);
    check_audit(other, "held", 96, 0, 4);
    CHECK(audit_all(other).conserved);
}

static bool has_disowned(void *arg) {
    const struct inventory *inventory = ((struct seller *)arg)->inventory;
    return inventory->putback.receipts.todo == 0 && inventory->metrics->waiting == 0;
}

/* The maker dies, and another one gives the first answer to a retry, or to who looks. So it keeps what it
 * told, and puts it back. */
static void test_told_by_another(void) {
    pair_start(&pair);
    struct shop *shop = shop_open();
    struct seller *maker = open_seller(shop, pair_url(&pair), &told),
                  *other = open_seller(shop, pair_url(&pair), &others);
    put_three(maker);
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
        CHECK_STATUS(txn_do(same(other, made[i]), calls[i]),
                     calls[i] == TXN_CHECK ? INVENTORY_REPLAYED : INVENTORY_OK);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    CHECK_INT(txns_reconcile(other, true).torn, 5);
    CHECK_INT(txns_reconcile(other, false).torn, 0);
    check_order(other, made[1], 1, "confirmed");
    check_order(other, made[2], 1, "held");
    check_order(other, made[3], 1, "confirmed");
    check_order(other, made[4], 1, "held");
    check_audit(other, "phone", 100 - 3 - 4, 2, 2);
    CHECK(audit_all(other).conserved);
}

/* All of it is lost, its maker stands still for longer than a minute, and the buyers ask another one
 * meanwhile. An order of his is put back when he goes on. */
static void test_made_twice(void) {
    enum { LONG_MS = 65000 };
    struct inventory_order order;
    pair_start(&pair);
    struct shop *late_shop = shop_open(), *shop = shop_open();
    struct seller *late = open_seller(late_shop, pair_url(&pair), &told),
                  *other = open_seller(shop, pair_url(&pair), &others);
    put_three(late);
    pair_cut(&pair);
    CHECK_STATUS(txn_make(late, "t", "phone:3 lamp:3"), INVENTORY_OK);
    CHECK_STATUS(txn_make(late, "sold", "phone:1 lamp:1"), INVENTORY_OK);
    CHECK_STATUS(txn_make(late, "held", "phone:1 held:1"), INVENTORY_OK);
    struct buy *bought = buy(late, "lamp", "bob", "late", 5);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    other->fence = 6;
    CHECK_STATUS(txn_make(other, "t", "phone:3 lamp:3"), INVENTORY_OK);
    struct txn *sold = txn_new(other, "sold", "phone:1 lamp:1");
    CHECK_STATUS(txn_do(sold, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_make(other, "held", "phone:1 held:1"), INVENTORY_OK);
    CHECK_STATUS(order_step(other, bought->id, INVENTORY_READ, &order), INVENTORY_UNKNOWN_ORDER);
    late_shop->hurried_ms += LONG_MS;
    seller_wait_down(late);
    seller_wait_up(late);
    shop_wait(late_shop, has_disowned, late, "its own attempts are undone");
    CHECK_INT(told.outcomes[INVENTORY_LOSS_DIFFERS], 3);
    check_order(other, sold, 0, "confirmed");
    CHECK_STATUS(order_step(other, bought->id, INVENTORY_READ, &order), INVENTORY_OK);
    check_audit(other, "phone", 100 - 3 - 1 - 1, 1, 1);
    check_audit(other, "lamp", 103 - 1 - 5, 0, 1 + 5);
    check_audit(other, "held", 99, 1, 0);
    CHECK(audit_all(other).conserved);
}

/* An attempt that was acknowledged and lost, and one that nobody was told of, of another seller. */
static struct txn *make_beside_an_intent(struct seller *maker, struct seller *other) {
    put_three(maker);
    pair_cut(&pair);
    struct txn *sold = txn_new(maker, "sold", "phone:1 lamp:1"), *intent = same(other, sold);
    CHECK_STATUS(txn_do(sold, TXN_MAKE), INVENTORY_OK);
    memset(intent->transaction.nonce, 'A', strlen(sold->transaction.nonce));
    journal_keep(other->inventory, &intent->transaction, PHASE_INTENT, sold->transaction.created_ms);
    return sold;
}

static void check_beside_an_intent(struct seller *other, const struct txn *sold) {
    CHECK_STR(txn_phase(&pair.replica, sold), "confirming");
    CHECK_STATUS(txn_do(same(other, sold), TXN_CHECK), INVENTORY_REPLAYED);
    shop_idle(other->shop, 50); /* the reply of its last step is not waited for */
    CHECK_STR(txn_phase(&pair.replica, sold), "confirmed");
    CHECK_INT(told.outcomes[INVENTORY_LOSS_DIFFERS] + others.outcomes[INVENTORY_LOSS_DIFFERS], 0);
    check_audit(other, "phone", 99, 0, 1);
    CHECK(audit_all(other).conserved);
}

/* The intent is put back first: it waits until that is given up. */
static void test_behind_an_intent(void) {
    pair_start(&pair);
    struct shop *late_shop = shop_open(), *shop = shop_open();
    struct seller *late = open_seller(late_shop, pair_url(&pair), &told),
                  *other = open_seller(shop, pair_url(&pair), &others);
    const struct txn *sold = make_beside_an_intent(late, other);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    seller_wait_down(late);
    seller_wait_up(late);
    shop_idle(late_shop, 200);
    CHECK_STR(txn_phase(&pair.replica, sold), "intent");
    check_order(late, sold, 0, "confirmed");
    CHECK_INT(txns_recover(other), 1);
    shop_wait(late_shop, has_disowned, late, "it stands again");
    check_beside_an_intent(other, sold);
}

/* The intent comes last. */
static void test_before_an_intent(void) {
    pair_start(&pair);
    struct shop *late_shop = shop_open(), *shop = shop_open();
    struct seller *late = open_seller(late_shop, pair_url(&pair), &told),
                  *other = open_seller(shop, pair_url(&pair), &others);
    const struct txn *sold = make_beside_an_intent(other, late);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    seller_wait_down(late);
    seller_wait_up(late);
    shop_wait(late_shop, has_disowned, late, "nothing is left to do");
    check_beside_an_intent(late, sold);
}

/* What the journal has of it after the failover: an attempt that is not decided, or is being undone. */
static void set_phase(const struct txn *of, const char *phase, const char *record, bool open) {
    txn_set_record(&pair.replica, of, harness_format("%s%s", phase, strchr(record, ' ')), open);
}

/* The decision was lost, another one undoes the attempt, and then its maker is back, who had acknowledged it.
 */
static void test_undone(void) {
    pair_start(&pair);
    struct shop *late_shop = shop_open(), *shop = shop_open();
    struct seller *late = open_seller(late_shop, pair_url(&pair), &told),
                  *other = open_seller(shop, pair_url(&pair), &others);
    put_three(late);
    pair_cut(&pair);
    enum { MADE = 8 };
    struct txn *made[MADE];
    const char *records[MADE];
    for (int i = 0; i < MADE; i++) {
        static const char *const lines[] = {"phone:3 lamp:3", "phone:1 lamp:1", "phone:1 held:1",
                                            "phone:1 held:1"};
        made[i] = txn_new(late, harness_format("%s%d", i % 4 == 0 ? "t" : "b", i), lines[i % 4]);
        CHECK_STATUS(txn_do(made[i], TXN_MAKE), INVENTORY_OK);
        if (i % 4 == 3)
            CHECK_STATUS(txn_do(made[i], TXN_CONFIRM), INVENTORY_OK);
        records[i] = txn_record(&pair.master, made[i]);
    }
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    for (int i = 0; i < MADE / 2; i++)
        set_phase(made[i], "intent", records[i], true);
    CHECK_INT(txns_recover(other), MADE / 2);
    for (int i = MADE / 2; i < MADE; i++)
        set_phase(made[i], "undoing", records[i], false);
    CHECK_STR(
        redis_command(&pair.replica, "HGET", "seckill:{phone}:restocks", made[0]->transaction.nonce, NULL),
        "refund 0");
    seller_wait_down(late);
    seller_wait_up(late);
    CHECK(inventory_transactions_are_suspect(late->inventory));
    CHECK(txns_reconcile(late, true).torn > 0);
    CHECK_INT(txns_reconcile(late, false).torn, 0);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT] + told.outcomes[INVENTORY_LOSS_DIFFERS], 0);
    while (strcmp(txn_phase(&pair.replica, made[7]), "confirmed") != 0) { /* who had it is given a second */
        shop_idle(shop, 50);
        txns_recover(other);
    }
    check_audit(other, "phone", 100 - 6 - 6, 2, 4);
    check_audit(other, "lamp", 106 - 2, 0, 2);
    check_audit(other, "held", 96, 2, 2);
    CHECK_STATUS(txn_do(same(other, made[2]), TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(same(other, made[6]), TXN_CANCEL), INVENTORY_OK);
    check_order(other, made[2], 0, "confirmed");
    check_order(other, made[6], 0, "cancelled");
    check_audit(other, "phone", 100 - 6 - 5, 0, 5);
    CHECK(audit_all(other).conserved);
}

/* ---- the audit of all items ---- */

static struct redis_server redis;

static void forget(const struct txn *txn, int line) {
    struct inventory_order order;
    inventory_transaction_order(&txn->transaction, line, &order);
    CHECK_STR(redis_command(&redis, "HDEL", harness_format("seckill:{%s}:orders", order.item),
                            strchr(order.id, ':') + 1, NULL),
              "1");
}

static void check_all(struct seller *seller, int torn, int lacking, int unknown, int unbalanced) {
    struct inventory_audit_sum sum = audit_all(seller);
    CHECK_INT(sum.journal.torn, torn);
    CHECK_INT(sum.journal.lacking, lacking);
    CHECK_INT(sum.unknown, unknown);
    CHECK_INT(sum.unbalanced, unbalanced);
    CHECK_INT(sum.conserved, torn + unknown + unbalanced == 0);
}

/* Everything is there; and then a part of it is not. */
static void test_audit_all(void) {
    redis_start(&redis, NULL);
    struct shop *shop = shop_open();
    struct seller *seller = open_seller(shop, harness_format("redis://127.0.0.1:%d", redis.port), &told);
    CHECK_INT(audit_all(seller).items, 0);
    put_three(seller);
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
    struct inventory_audit_sum sum = audit_all(seller);
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
    CHECK_STR(redis_command(&redis, "HDEL", "seckill:{lamp}:restocks", moved->transaction.nonce, NULL), "1");
    forget(sold, 1);
    check_all(seller, 2, 5, 0, 1);
    CHECK(inventory_transactions_are_suspect(seller->inventory));
    redis_command(&redis, "HINCRBY", "seckill:{lamp}:item", "sold", "-2", NULL);
    redis_command(&redis, "HINCRBY", "seckill:{lamp}:item", "available", "-1", NULL);
    redis_command(&redis, "HINCRBY", "seckill:{lamp}:item", "restocked", "-3", NULL);
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

static void lose_line(const struct txn *txn, int line, const char *counted) {
    const char *key = harness_format("seckill:{%s}:item", txn->transaction.lines[line].item);
    forget(txn, line);
    redis_command(&redis, "HINCRBY", key, "available", "1", NULL);
    redis_command(&redis, "HINCRBY", key, counted, "-1", NULL);
}

/* It was confirmed, that was lost, and then it expired; and it is noted that it was. */
static void lose_confirm(const struct txn *txn, int line) {
    struct inventory_order order;
    const char *item = harness_format("seckill:{%s}:item", txn->transaction.lines[line].item), *digest;
    inventory_transaction_order(&txn->transaction, line, &order);
    digest = strchr(order.id, ':') + 1;
    const char *orders = harness_format("seckill:{%s}:orders", order.item);
    const char *record = harness_format("%s", redis_command(&redis, "HGET", orders, digest, NULL));
    redis_command(&redis, "HSET", orders, digest, harness_format("e2%s", strchr(record, ' ')), NULL);
    redis_command(&redis, "HSET", harness_format("seckill:{%s}:shortage", order.item), digest, record, NULL);
    redis_command(&redis, "HINCRBY", item, "available", "1", NULL);
    redis_command(&redis, "HINCRBY", item, "returned", "1", NULL);
    redis_command(&redis, "HINCRBY", item, "sold", "-1", NULL);
    redis_command(&redis, "HINCRBY", item, "shortage", "1", NULL);
}

static void set_confirming(const struct txn *txn) {
    const char *record = txn_record(&redis, txn);
    txn_set_record(&redis, txn, harness_format("confirming%s", strchr(record, ' ')), true);
}

/* A line was lost with its decision written, its unit sold again, and that is told. Who asks again for the
 * basket gets the first answer; that it is confirmed is told to nobody before it is. */
static void test_lacking(void) {
    redis_start(&redis, NULL);
    struct shop *shop = shop_open();
    struct seller *seller = open_seller(shop, harness_format("redis://127.0.0.1:%d", redis.port), &told);
    put_three(seller);
    item_sell(seller, "rare", INVENTORY_BATCH, 3);
    struct txn *sold = txn_new(seller, "sold", "phone:1 rare:1"),
               *held = txn_new(seller, "held", "held:1 rare:1"),
               *late = txn_new(seller, "late", "held:1 rare:1");
    CHECK_STATUS(txn_do(sold, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(held, TXN_MAKE), INVENTORY_OK);
    lose_line(sold, 1, "sold");
    lose_line(held, 1, "held");
    set_confirming(sold);
    CHECK_STATUS(txn_do(late, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(late, TXN_CONFIRM), INVENTORY_OK);
    lose_confirm(late, 1);
    set_confirming(late);
    CHECK_STATUS(buy(seller, "rare", "bob", "all", 3)->status, INVENTORY_OK);
    CHECK_STATUS(txn_do(same(seller, sold), TXN_MAKE), INVENTORY_UNAVAILABLE); /* not told yet */
    txns_reconcile(seller, true);
    told_check(&told, 0, 2);
    for (int i = 0; i < 3; i++) {
        struct txn *again = same(seller, i == 0 ? sold : i == 1 ? held : late);
        CHECK_STATUS(txn_do(again, TXN_CONFIRM), INVENTORY_UNKNOWN);
        CHECK_STATUS(txn_do(again, TXN_MAKE), INVENTORY_REPLAYED);
        CHECK_STR(inventory_state_name(again->transaction.state), i ? "held" : "confirmed");
        CHECK_STATUS(txn_do(again, TXN_CHECK), INVENTORY_REPLAYED);
        CHECK_STR(txn_phase(&redis, again), "confirming");
    }
    check_audit(seller, "rare", 0, 0, 3);
    CHECK_STATUS(item_restock(seller, "rare", "r", 3, NULL), INVENTORY_OK);
    CHECK_STATUS(txn_do(same(seller, held), TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(same(seller, late), TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(same(seller, sold), TXN_MAKE), INVENTORY_REPLAYED);
    check_order(seller, sold, 1, "confirmed");
    check_order(seller, held, 1, "confirmed");
    check_order(seller, late, 1, "confirmed");
    check_audit(seller, "rare", 0, 0, 6);
    CHECK_STR(redis_command(&redis, "HGET", "seckill:{rare}:item", "shortage", NULL), "0");
    CHECK(audit_all(seller).conserved);
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

static bool is_answered(void *arg) {
    return ((struct txn *)arg)->answers > 0;
}

static enum inventory_status debit_again(struct txn *txn) {
    txn->answers = 0;
    txn->transaction.done = on_debit_answered;
    transaction_begin(txn->seller->inventory, &txn->transaction, debit, INVENTORY_READ);
    shop_wait(txn->seller->shop, is_answered, txn, "the debit is answered");
    return txn->status;
}

/* Of two lines of one item one is there: the other is debited, and nothing twice. */
static void test_debit_again(void) {
    redis_start(&redis, NULL);
    struct shop *shop = shop_open();
    struct seller *seller = open_seller(shop, harness_format("redis://127.0.0.1:%d", redis.port), &told);
    put_three(seller);
    struct txn *txn = txn_new(seller, "b", "lamp:1 lamp:4");
    memset(nonce, 'B', sizeof nonce - 1);
    CHECK_STATUS(debit_again(txn), INVENTORY_OK);
    check_audit(seller, "lamp", 95, 5, 0);
    CHECK_STATUS(debit_again(txn), INVENTORY_OK);
    check_audit(seller, "lamp", 95, 5, 0);
    lose_line(txn, 0, "held");
    CHECK_STATUS(debit_again(txn), INVENTORY_OK);
    check_audit(seller, "lamp", 95, 5, 0);
}

/* Beside transactions that go on, nothing is torn and nothing unknown. */
static void test_audit_beside(void) {
    redis_start(&redis, NULL);
    struct shop *shop = shop_open();
    struct seller *seller = open_seller(shop, harness_format("redis://127.0.0.1:%d", redis.port), &told);
    struct txn *txns[60];
    item_sell(seller, "phone", INVENTORY_BATCH, 50);
    item_sell(seller, "lamp", INVENTORY_BATCH, 1000);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 60; i++) {
            txns[i] = txn_new(seller, harness_format("%s%d-%d", i % 3 ? "b" : "t", round, i),
                              i % 2 ? "phone:1 lamp:1" : "lamp:1 phone:1");
            txn_begin(txns[i], TXN_MAKE);
        }
        struct inventory_audit_sum sum = audit_all(seller);
        CHECK_INT(sum.journal.torn, 0);
        CHECK_INT(sum.unknown, 0);
        CHECK_INT(sum.unbalanced, 0);
        for (int i = 0; i < 60; i++)
            txn_wait(txns[i]);
    }
    CHECK(audit_all(seller).conserved);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("from the journal", test_from_journal);
    harness_run("told by another", test_told_by_another);
    harness_run("made twice", test_made_twice);
    harness_run("behind an intent", test_behind_an_intent);
    harness_run("before an intent", test_before_an_intent);
    harness_run("undone by another", test_undone);
    harness_run("a line of a decision is lacking", test_lacking);
    harness_run("a debit that is repeated", test_debit_again);
    harness_run("the audit of all", test_audit_all);
    harness_run("the audit of all beside transactions", test_audit_beside);
    return harness_finish();
}
