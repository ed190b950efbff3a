/* Two attempts at one basket or transfer, both acknowledged, or one of them not decided: the one that the
 * journal has stands, the other one is undone once, and what cannot be undone is told. */
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/transactions_internal.h"

static struct pair pair;
static struct told told, others;

/* Two sellers with a loop each, so that one of them can stand still. */
static void open_pair(struct seller **late, struct seller **other) {
    pair_start(&pair);
    *late = told_seller_open(shop_open(), pair_url(&pair), &told);
    *other = told_seller_open(shop_open(), pair_url(&pair), &others);
}

/* The late one stands still, so the quarantine lasts for as long as it can: its time passes quickly. */
static void fail_over_to(struct seller *other) {
    pair_fail_over(&pair);
    seller_wait_down(other);
    seller_hurry_up(other);
}

static bool has_disowned(void *arg) {
    const struct inventory *inventory = ((struct seller *)arg)->inventory;
    return inventory->purchases->putback->receipts.todo == 0 && inventory->shared.metrics->waiting == 0;
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
    fail_over_to(other);
    other->fence = 6;
    CHECK_STATUS(txn_make(other, "t", "phone:3 lamp:3"), INVENTORY_OK);
    struct txn *sold = txn_new(other, "sold", "phone:1 lamp:1");
    CHECK_STATUS(txn_do(sold, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_make(other, "held", "phone:1 held:1"), INVENTORY_OK);
    CHECK_STATUS(order_step(other, bought->id, INVENTORY_READ, &order), INVENTORY_UNKNOWN_ORDER);
    late->shop->hurried_ms += LONG_MS;
    seller_wait_again(late);
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
    fail_over_to(twice->other);
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

/* The sender's half was told as short, and the receiver's is sold before it is undone: so many units too many
 * exist, and both is told. */
static void test_twice_short_and_sold(void) {
    struct twice twice;
    make_twice(&twice, 97);
    CHECK_STATUS(buy(twice.other, "lamp", "bob", "lamps", 104)->status, INVENTORY_OK);
    decide(&twice);
    shop_wait(twice.late->shop, has_disowned, twice.late, "it cannot be undone");
    check_told(1, 0, 1);
    struct inventory_audit_sum sum = txns_audit_all(twice.other);
    CHECK_INT(sum.stock, 300 + 3);
    CHECK_INT(sum.shortage, 3);
    CHECK_INT(sum.unknown, 3);
    CHECK(!sum.conserved);
}

/* Who made the other attempt dies before it is undone: both stand, and the audit tells it. */
static void test_twice_and_dead(void) {
    struct twice twice;
    make_twice(&twice, 0);
    seller_close(twice.late);
    decide(&twice);
    shop_idle(twice.other->shop, 200);
    item_check_audit(twice.other, "phone", 94, 0, 0);
    item_check_audit(twice.other, "lamp", 106, 0, 0);
    struct inventory_audit_sum sum = txns_audit_all(twice.other);
    CHECK_INT(sum.stock, 300);
    CHECK_INT(sum.unknown, 3 + 3);
    CHECK(!sum.conserved);
}

static void check_noted(const char *item, const char *units, const char *notes) {
    CHECK_STR(redis_command(&pair.replica, "HGET", stock_key(item), "shortage", NULL), units);
    CHECK_STR(redis_command(&pair.replica, "HLEN", stock_key(harness_format("%s:shortage", item)), NULL),
              notes);
}

/* As putback.lua does. */
static void note_short(const char *item, const char *digest, const char *record, const char *units) {
    redis_command(&pair.replica, "HSET", stock_key(harness_format("%s:shortage", item)), digest, record,
                  NULL);
    redis_command(&pair.replica, "HINCRBY", stock_key(item), "shortage", units, NULL);
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
    const char *const lamp = stock_key("lamp"), *const aside = harness_format("%s:aside", lamp);
    struct twice twice;
    make_twice(&twice, 0);
    redis_command(&pair.replica, "RENAME", lamp, aside, NULL);
    redis_command(&pair.replica, "SET", lamp, "", NULL); /* a call finds another type */
    decide(&twice);
    shop_idle(twice.late->shop, 300);
    CHECK(!has_disowned(twice.late));
    CHECK_STR(
        harness_format("%.4s", redis_command(&pair.replica, "HGET", stock_key("phone"),
                                             harness_format("+%s", twice.lost->transaction.nonce), NULL)),
        "send");
    check_told(0, 0, 0);
    redis_command(&pair.replica, "RENAME", aside, lamp, NULL);
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
    fail_over_to(other);
    other->fence = 6;
    CHECK_STATUS(txn_make(other, "x", lines), INVENTORY_OK);
    CHECK_STATUS(txn_make(other, "c", lines), INVENTORY_OK);
    const char *record = harness_format("%s", txn_record(&pair.replica, cancelled));
    set_phase(cancelled, "intent", record, false); /* not to be undone before it is noted */
    seller_wait_again(late);
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
    journal_keep(other->inventory->transactions, &intent, PHASE_INTENT, intent.created_ms);
    lines_print_move(move, &intent, 0, WRITE_DEBIT);
    if (intent.kind == INVENTORY_TRANSFER)
        putback_keep(other->inventory->purchases, RECEIPT_MOVE, intent.lines[0].item, intent.nonce, move);
    else
        lines_keep(other->inventory->transactions, &intent, 0, WRITE_DEBIT);
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
    fail_over_to(other);
    seller_wait_again(late);
    shop_idle(late->shop, 200);
    CHECK_STR(txn_phase(&pair.replica, made[0]), "intent");
    CHECK_STR(txn_phase(&pair.replica, made[1]), "intent");
    CHECK_INT((int)others.metrics.put_back, 2); /* what was debited; nobody was told of the intents */
    txn_check_order(late, made[0], 0, "confirmed");
    struct txn *basket = txn_same(other, made[0]);
    CHECK_STATUS(txn_do(basket, TXN_FIND), INVENTORY_PENDING);
    CHECK_INT(basket->transaction.state, INVENTORY_STATE_ABORTED); /* so 404, until the intent is given up */
    CHECK_INT(txns_recover(other), 2);
    shop_wait(late->shop, has_disowned, late, "they stand again");
    check_beside_intents(other, made);
    CHECK_STATUS(txn_do(basket, TXN_FIND), INVENTORY_OK);
}

/* The intents come last: what they debited is undone. */
static void test_before_an_intent(void) {
    struct seller *late, *other;
    struct txn *made[2];
    open_pair(&late, &other);
    make_beside_intents(other, late, made);
    fail_over_to(other);
    seller_wait_again(late);
    shop_wait(late->shop, has_disowned, late, "they are undone");
    check_beside_intents(late, made);
}

/* A basket and a later order are lost, and put back when the basket's hold is over by far. It takes no units:
 * what is left is the order's. */
static void test_over_by_now(void) {
    enum { HOLD_MS = 60000 };
    struct seller *late, *other;
    redis_clock(); /* of servers that start after this */
    open_pair(&late, &other);
    item_put_with(late, "seat", 3, 0, HOLD_MS);
    pair_cut(&pair);
    struct txn *basket = txn_new(late, "b", "seat:1");
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
    struct buy *bought = buy(late, "seat", "bob", "k", 1);
    CHECK_STATUS(order_step(late, bought->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    fail_over_to(other);
    struct buy *sold = buy(other, "seat", "eve", "k", 2);
    CHECK_STATUS(order_step(other, sold->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    redis_clock()->ahead_ms += HOLD_MS + INVENTORY_HOLD_GRACE_MS + 1000;
    seller_wait_again(late);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT], 0);
    CHECK_STATUS(order_step(other, bought->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    other->shop->ahead_ms += HOLD_MS + INVENTORY_HOLD_GRACE_MS + 1000;
    txns_reconcile(other, true);
    CHECK_INT(others.outcomes[INVENTORY_LOSS_SHORT], 0);
    for (int i = 0; i < 100 && strcmp(txn_phase(&pair.replica, basket), "expired") != 0; i++) {
        shop_idle(other->shop, 50); /* who had it is given a second */
        txns_recover(other);
    }
    CHECK_STR(txn_phase(&pair.replica, basket), "expired");
    check_books(other, &pair.replica, "seat", 0, 0, 3);
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
    fail_over_to(other);
    for (int i = 0; i < MADE / 2; i++)
        set_phase(made[i], "intent", records[i], true);
    CHECK_INT(txns_recover(other), MADE / 2);
    for (int i = MADE / 2; i < MADE; i++)
        set_phase(made[i], "undoing", records[i], false);
    CHECK_STR(redis_command(&pair.replica, "HGET", stock_key("phone"),
                            harness_format("+%s", made[0]->transaction.nonce), NULL),
              "refund 0");
    seller_wait_again(late);
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
    harness_run("made twice", test_made_twice);
    harness_run("made twice, and sold before it is undone", test_twice_and_sold);
    harness_run("made twice, short, and sold before it is undone", test_twice_short_and_sold);
    harness_run("made twice, and its maker dies before it is undone", test_twice_and_dead);
    harness_run("made twice, and noted as short", test_twice_and_short);
    harness_run("made twice, and the receiver does not answer", test_twice_and_unanswered);
    harness_run("settled, and made again", test_settled_twice);
    harness_run("behind an intent", test_behind_an_intent);
    harness_run("before an intent", test_before_an_intent);
    harness_run("undone by another", test_undone);
    harness_run("a basket whose hold is over by now", test_over_by_now);
    return harness_finish();
}
