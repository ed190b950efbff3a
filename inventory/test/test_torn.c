/* Baskets and transfers that a failover tore, and whose maker cannot put them back: what the journal says is
 * written again, what does not fit is told, and what was made twice is undone once. */
#include <stdio.h>
#include <string.h>

#include "inventory/context.h"
#include "inventory/test/told.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/journal.h"
#include "inventory/transactions/lines.h"

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

/* Two sellers at a cluster whose master of lamp has a replica that gets nothing from now on. Phone, and all
 * that is used of the journal, are on others. */
static void open_cluster(struct seller **maker, struct seller **other) {
    redis_cluster_start(&cluster, MASTERS, 1);
    struct shop *shop = shop_open();
    *maker = open_seller(shop, redis_cluster_url(&cluster), &told);
    *other = open_seller(shop, redis_cluster_url(&cluster), &others);
    shop_wait(shop, seller_is_whole, *maker, "all masters are there");
    shop_wait(shop, seller_is_whole, *other, "all masters are there");
    dies = redis_cluster_of(&cluster, "{lamp}");
    CHECK(redis_cluster_of(&cluster, "{phone}") != dies && redis_cluster_of(&cluster, "{held}") != dies);
    items_put_three(*maker);
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
    shop_wait(other->shop, seller_is_not_whole, other, "the master is gone");
    shop_wait(other->shop, seller_is_whole, other, "its successor is there");
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

/* Two sellers with a loop each, so that one of them can stand still. */
static void open_pair(struct seller **late, struct seller **other) {
    pair_start(&pair);
    *late = open_seller(shop_open(), pair_url(&pair), &told);
    *other = open_seller(shop_open(), pair_url(&pair), &others);
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
    seller_wait_up(other);
    CHECK_INT(txns_reconcile(other, true).torn, 5);
    CHECK_INT(txns_reconcile(other, false).torn, 0);
    txn_check_order(other, made[1], 1, "confirmed");
    txn_check_order(other, made[2], 1, "held");
    txn_check_order(other, made[3], 1, "confirmed");
    txn_check_order(other, made[4], 1, "held");
    item_check_audit(other, "phone", 100 - 3 - 4, 2, 2);
    CHECK(txns_audit_all(other).conserved);
}

/* All of it is lost, its maker stands still for longer than a minute, and the buyers ask another one
 * meanwhile. An order of his is put back when he goes on. */
static void test_made_twice(void) {
    enum { LONG_MS = 65000 };
    struct inventory_order order;
    struct seller *late, *other;
    open_pair(&late, &other);
    items_put_three(late);
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
    late->shop->hurried_ms += LONG_MS;
    seller_wait_down(late);
    seller_wait_up(late);
    shop_wait(late->shop, has_disowned, late, "its own attempts are undone");
    CHECK_INT(told.outcomes[INVENTORY_LOSS_DIFFERS], 3);
    txn_check_order(other, sold, 0, "confirmed");
    CHECK_STATUS(order_step(other, bought->id, INVENTORY_READ, &order), INVENTORY_OK);
    item_check_audit(other, "phone", 100 - 3 - 1 - 1, 1, 1);
    item_check_audit(other, "lamp", 103 - 1 - 5, 0, 1 + 5);
    item_check_audit(other, "held", 99, 1, 0);
    CHECK(txns_audit_all(other).conserved);
}

/* What the journal has of it after the failover: an attempt that is not decided, or is being undone. */
static void set_phase(const struct txn *of, const char *phase, const char *record, bool open) {
    txn_set_record(&pair.replica, of, harness_format("%s%s", phase, strchr(record, ' ')), open);
}

/* A transfer that was acknowledged, lost and made again by another seller. Both attempts stand, and the
 * first one is not undone until `decide` lets the journal say that the other one is decided. */
struct twice {
    struct seller *late, *other;
    struct txn *lost, *again;
    const char *record; /* of the second attempt */
};

static void make_twice(struct twice *twice, int phones_sold) {
    open_pair(&twice->late, &twice->other);
    items_put_three(twice->late);
    pair_cut(&pair);
    twice->lost = txn_new(twice->late, "t", "phone:3 lamp:3");
    CHECK_STATUS(txn_do(twice->lost, TXN_MAKE), INVENTORY_OK);
    pair_fail_over(&pair);
    seller_wait_down(twice->other);
    seller_wait_up(twice->other);
    twice->other->fence = 6;
    twice->again = txn_new(twice->other, "t", "phone:3 lamp:3");
    CHECK_STATUS(txn_do(twice->again, TXN_MAKE), INVENTORY_OK);
    shop_idle(twice->other->shop, 50); /* the reply of the last step is not waited for */
    CHECK_STR(txn_phase(&pair.replica, twice->again), "confirmed");
    twice->record = harness_format("%s", txn_record(&pair.replica, twice->again));
    set_phase(twice->again, "intent", twice->record, false);
    if (phones_sold)
        CHECK_STATUS(buy(twice->other, "phone", "bob", "phones", phones_sold)->status, INVENTORY_OK);
    seller_wait_down(twice->late);
    seller_wait_up(twice->late);
    item_check_audit(twice->other, "lamp", 106, 0, 0);
    CHECK(!has_disowned(twice->late));
}

static void decide(const struct twice *twice) {
    set_phase(twice->again, "confirmed", twice->record, false);
}

static void check_told(int is_short, int differs, int is_twice) {
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT], is_short);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_DIFFERS], differs);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_TWICE], is_twice);
    CHECK_INT((int)told.metrics.shortage, is_short + differs + is_twice);
}

/* What it moved is sold before it is undone: then neither half is, and it is told once. */
static void test_twice_and_sold(void) {
    struct twice twice;
    make_twice(&twice, 0);
    CHECK_STATUS(buy(twice.other, "lamp", "bob", "lamps", 104)->status, INVENTORY_OK);
    decide(&twice);
    shop_wait(twice.late->shop, has_disowned, twice.late, "it cannot be undone");
    shop_idle(twice.late->shop, 200);
    CHECK(has_disowned(twice.late));
    check_told(0, 0, 1);
    item_check_audit(twice.other, "phone", 94, 0, 0);
    item_check_audit(twice.other, "lamp", 2, 0, 104);
    struct inventory_audit_sum sum = txns_audit_all(twice.other);
    CHECK_INT(sum.stock, 300);
    CHECK_INT(sum.journal.torn + sum.unbalanced + sum.shortage, 0);
    CHECK_INT(sum.unknown, 3 + 3); /* both halves: the journal has the other attempt */
}

static void check_noted(const char *item, const char *units, const char *notes) {
    CHECK_STR(
        redis_command(&pair.replica, "HGET", harness_format("seckill:{%s}:item", item), "shortage", NULL),
        units);
    CHECK_STR(redis_command(&pair.replica, "HLEN", harness_format("seckill:{%s}:shortage", item), NULL),
              notes);
}

/* As putback.lua does. */
static void note_short(const char *item, const char *digest, const char *record, const char *units) {
    redis_command(&pair.replica, "HSET", harness_format("seckill:{%s}:shortage", item), digest, record, NULL);
    redis_command(&pair.replica, "HINCRBY", harness_format("seckill:{%s}:item", item), "shortage", units,
                  NULL);
}

/* Its units were sold before it was put back, and that is noted until it is undone. */
static void test_twice_and_short(void) {
    struct twice twice;
    make_twice(&twice, 97);
    check_told(1, 0, 0);
    check_noted("phone", "3", "1");
    note_short("lamp", twice.lost->transaction.nonce,
               harness_format("refund 3 %s", twice.lost->transaction.id), "3"); /* taken back, and lost */
    decide(&twice);
    shop_wait(twice.late->shop, has_disowned, twice.late, "it is undone");
    check_told(1, 1, 0);
    check_noted("phone", "0", "0");
    check_noted("lamp", "0", "0");
    item_check_audit(twice.other, "phone", 0, 0, 97);
    item_check_audit(twice.other, "lamp", 103, 0, 0);
    CHECK(txns_audit_all(twice.other).conserved);
}

/* The item that received the units does not answer: they are not given back, and it is asked again. */
static void test_twice_and_unanswered(void) {
    static const char restocks[] = "seckill:{lamp}:restocks", aside[] = "{lamp}:aside";
    struct twice twice;
    make_twice(&twice, 0);
    redis_command(&pair.replica, "RENAME", restocks, aside, NULL);
    redis_command(&pair.replica, "SET", restocks, "", NULL); /* a call finds another type */
    decide(&twice);
    shop_idle(twice.late->shop, 300);
    CHECK(!has_disowned(twice.late));
    CHECK_STR(harness_format("%.4s", redis_command(&pair.replica, "HGET", "seckill:{phone}:restocks",
                                                   twice.lost->transaction.nonce, NULL)),
              "send");
    check_told(0, 0, 0);
    redis_command(&pair.replica, "RENAME", aside, restocks, NULL);
    shop_wait(twice.late->shop, has_disowned, twice.late, "it is undone");
    check_told(0, 1, 0);
    item_check_audit(twice.other, "phone", 97, 0, 0);
    item_check_audit(twice.other, "lamp", 103, 0, 0);
    CHECK(txns_audit_all(twice.other).conserved);
}

/* Held baskets that were cancelled, or confirmed, and lost, and that the buyer asked another seller for. Of
 * the cancelled one it is noted besides that it had been confirmed. */
static void test_settled_twice(void) {
    static const char lines[] = "phone:1 held:1";
    struct seller *late, *other;
    char digest[INVENTORY_DIGEST_SIZE];
    open_pair(&late, &other);
    items_put_three(late);
    pair_cut(&pair);
    struct txn *cancelled = txn_new(late, "x", lines), *confirmed = txn_new(late, "c", lines);
    CHECK_STATUS(txn_do(cancelled, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(confirmed, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(cancelled, TXN_CANCEL), INVENTORY_OK);
    CHECK_STATUS(txn_do(confirmed, TXN_CONFIRM), INVENTORY_OK);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    other->fence = 6;
    CHECK_STATUS(txn_make(other, "x", lines), INVENTORY_OK);
    CHECK_STATUS(txn_make(other, "c", lines), INVENTORY_OK);
    const char *record = harness_format("%s", txn_record(&pair.replica, cancelled));
    set_phase(cancelled, "intent", record, false); /* not to be undone before it is noted */
    seller_wait_down(late);
    seller_wait_up(late);
    lines_digest(&cancelled->transaction, 0, digest);
    note_short("phone", digest, "c2 1 ann 1", "1");
    set_phase(cancelled, "held", record, false);
    shop_wait(late->shop, has_disowned, late, "its own attempts are undone");
    check_told(0, 2, 0);
    check_noted("phone", "0", "0");
    item_check_audit(other, "phone", 98, 2, 0);
    item_check_audit(other, "held", 98, 2, 0);
    CHECK(txns_audit_all(other).conserved);
}

/* An attempt that was acknowledged and lost, and one of another seller, which had debited, but nobody was
 * told of it. */
static struct txn *make_beside_an_intent(struct seller *maker, struct seller *other, const char *key,
                                         const char *lines) {
    struct txn *made = txn_new(maker, key, lines);
    CHECK_STATUS(txn_do(made, TXN_MAKE), INVENTORY_OK);
    struct inventory_transaction intent = made->transaction;
    char move[RECORD_SIZE];
    memset(intent.nonce, 'A', strlen(intent.nonce));
    journal_keep(other->inventory, &intent, PHASE_INTENT, intent.created_ms);
    lines_print_move(move, &intent, 0, WRITE_DEBIT);
    if (intent.kind == INVENTORY_TRANSFER)
        putback_keep(other->inventory, RECEIPT_MOVE, intent.lines[0].item, intent.nonce, move);
    else
        lines_keep(other->inventory, &intent, 0, WRITE_DEBIT);
    return made;
}

static void make_beside_intents(struct seller *maker, struct seller *other, struct txn *made[2]) {
    items_put_three(maker);
    pair_cut(&pair);
    made[0] = make_beside_an_intent(maker, other, "sold", "phone:1 lamp:1");
    made[1] = make_beside_an_intent(maker, other, "t", "phone:3 lamp:3");
}

static void check_beside_intents(struct seller *other, struct txn *const made[2]) {
    for (int i = 0; i < 2; i++) {
        CHECK_STR(txn_phase(&pair.replica, made[i]), "confirming");
        CHECK_STATUS(txn_do(txn_same(other, made[i]), TXN_CHECK), INVENTORY_REPLAYED);
    }
    shop_idle(other->shop, 50); /* the replies of the last steps are not waited for */
    for (int i = 0; i < 2; i++)
        CHECK_STR(txn_phase(&pair.replica, made[i]), "confirmed");
    CHECK_INT(told.outcomes[INVENTORY_LOSS_DIFFERS] + others.outcomes[INVENTORY_LOSS_DIFFERS], 0);
    item_check_audit(other, "phone", 100 - 1 - 3, 0, 1);
    item_check_audit(other, "lamp", 100 - 1 + 3, 0, 1);
    CHECK(txns_audit_all(other).conserved);
}

/* The intents are put back first: the others wait until those are given up. */
static void test_behind_an_intent(void) {
    struct seller *late, *other;
    struct txn *made[2];
    open_pair(&late, &other);
    make_beside_intents(late, other, made);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    seller_wait_down(late);
    seller_wait_up(late);
    shop_idle(late->shop, 200);
    CHECK_STR(txn_phase(&pair.replica, made[0]), "intent");
    CHECK_STR(txn_phase(&pair.replica, made[1]), "intent");
    CHECK_INT((int)others.metrics.put_back, 2); /* what was debited; nobody was told of the intents */
    txn_check_order(late, made[0], 0, "confirmed");
    CHECK_INT(txns_recover(other), 2);
    shop_wait(late->shop, has_disowned, late, "they stand again");
    check_beside_intents(other, made);
}

/* The intents come last: what they debited is undone. */
static void test_before_an_intent(void) {
    struct seller *late, *other;
    struct txn *made[2];
    open_pair(&late, &other);
    make_beside_intents(other, late, made);
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_wait_up(other);
    seller_wait_down(late);
    seller_wait_up(late);
    shop_wait(late->shop, has_disowned, late, "they are undone");
    check_beside_intents(late, made);
}

/* The decision was lost, another one undoes the attempt, and then its maker is back, who had acknowledged it.
 */
static void test_undone(void) {
    struct seller *late, *other;
    open_pair(&late, &other);
    items_put_three(late);
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
        shop_idle(other->shop, 50);
        txns_recover(other);
    }
    item_check_audit(other, "phone", 100 - 6 - 6, 2, 4);
    item_check_audit(other, "lamp", 106 - 2, 0, 2);
    item_check_audit(other, "held", 96, 2, 2);
    CHECK_STATUS(txn_do(txn_same(other, made[2]), TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_same(other, made[6]), TXN_CANCEL), INVENTORY_OK);
    txn_check_order(other, made[2], 0, "confirmed");
    txn_check_order(other, made[6], 0, "cancelled");
    item_check_audit(other, "phone", 100 - 6 - 5, 0, 5);
    CHECK(txns_audit_all(other).conserved);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("from the journal", test_from_journal);
    harness_run("told by another", test_told_by_another);
    harness_run("made twice", test_made_twice);
    harness_run("made twice, and sold before it is undone", test_twice_and_sold);
    harness_run("made twice, and noted as short", test_twice_and_short);
    harness_run("made twice, and the receiver does not answer", test_twice_and_unanswered);
    harness_run("settled, and made again", test_settled_twice);
    harness_run("behind an intent", test_behind_an_intent);
    harness_run("before an intent", test_before_an_intent);
    harness_run("undone by another", test_undone);
    return harness_finish();
}
