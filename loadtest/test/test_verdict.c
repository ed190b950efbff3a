#include "loadtest/test/receipt.h"
#include "test/harness.h"

static struct books before;
static struct books after;

/* Ten units, all sold to keys 0 to 9; key 10 was told sold-out. */
static void begin(void) {
    receipt_begin();
    before = (struct books){.conserved = true, .stock = 10, .available = 10};
    after = (struct books){.conserved = true, .stock = 10, .sold = 10, .orders = 10};
    for (uint32_t key = 0; key < 10; key++)
        receipt_won(key);
    receipt_rejected(10, "sold-out");
}

static struct verdict reach(unsigned quantity) {
    return receipt_judge(&(struct options){.quantity = quantity}, &before, &after);
}

#define CHECK_VERDICT(want) CHECK_STR(receipt_text(reach(1)), want)

static void test_clean(void) {
    begin();
    CHECK_VERDICT("clean");
}

static void test_earlier_sales(void) {
    begin();
    before = (struct books){.conserved = true, .stock = 15, .available = 10, .sold = 5, .orders = 5};
    after = (struct books){.conserved = true, .stock = 15, .sold = 15, .orders = 15};
    CHECK_VERDICT("clean");
}

static void test_duplicates_replayed(void) {
    begin();
    receipt_won(3);
    receipt_won(3);
    CHECK_VERDICT("clean");
}

static void test_restock_lets_rejected_key_win(void) {
    begin();
    receipt_won(10);
    after = (struct books){.conserved = true, .stock = 12, .available = 1, .sold = 11, .orders = 11};
    CHECK_VERDICT("clean");
}

static void test_oversold_by_audit(void) {
    begin();
    after.oversold = 3;
    CHECK_VERDICT("violated over 3");
}

static void test_oversold_by_receipts(void) {
    begin();
    receipt_won(11);
    receipt_won(12);
    after.sold = 12;
    after.orders = 12;
    CHECK_VERDICT("violated over 2");
}

static void test_missing(void) {
    begin();
    request_log.orders[4].check = ORDER_MISSING;
    request_log.orders[5].check = ORDER_DIFFERENT;
    CHECK_VERDICT("violated lost 2");
}

static void test_uncounted(void) {
    begin();
    after = (struct books){.conserved = true, .stock = 10, .available = 0, .sold = 9, .orders = 9};
    CHECK_VERDICT("violated lost 1");
}

static void test_one_order_for_two(void) {
    begin();
    before.stock = after.stock = 20;
    after.available = 0;
    receipt_won_content(11, "order-3", 3);
    CHECK_VERDICT("violated lost 1");
}

static void test_two_orders_for_one(void) {
    begin();
    before.stock = after.stock = 20;
    after.sold = after.orders = 12;
    receipt_won_content(3, "order-3b", 3);
    receipt_won_content(3, "order-3b", 3);
    receipt_won_content(3, "order-3c", 3);
    CHECK_VERDICT("violated dup 2");
}

static void test_other_content(void) {
    begin();
    receipt_won_content(3, "order-3", 99);
    CHECK_VERDICT("violated dup 1");
}

static void test_winner_told_sold_out(void) {
    begin();
    receipt_rejected(3, "sold-out");
    CHECK_VERDICT("violated dup 1");
}

static void test_rejected_while_winning(void) {
    begin();
    receipt_rejected(3, "sold-out");
    request_log.lines[request_log.line_count - 1].sent_ns = request_log.orders[3].answered_ns;
    CHECK_VERDICT("clean");
}

static void test_phantom(void) {
    begin();
    before.stock = after.stock = 20;
    after.sold = 12;
    after.orders = 11;
    CHECK_VERDICT("violated phantom 2");
    after.sold = 10;
    CHECK_VERDICT("violated phantom 1");
}

static void test_unresolved_may_be_in_books(void) {
    begin();
    before.stock = after.stock = 20;
    receipt_unknown(11);
    after.sold = after.orders = 11;
    CHECK_VERDICT("inconclusive unresolved 1");
    after.sold = after.orders = 12;
    CHECK_VERDICT("violated phantom 1 unresolved 1");
}

static void test_undersold(void) {
    begin();
    before.stock = after.stock = 14;
    after.available = 4;
    CHECK_VERDICT("violated under 1");
    receipt_rejected(11, "sold-out");
    receipt_rejected(12, "purchase-limit");
    CHECK_VERDICT("violated under 2");
}

static void test_rest_too_small(void) {
    begin();
    before.stock = after.stock = 32;
    after.sold = 30;
    after.available = 2;
    CHECK_STR(receipt_text(reach(3)), "clean");
    before.stock = after.stock = 34;
    after.available = 4;
    CHECK_STR(receipt_text(reach(3)), "violated under 3");
}

static void test_returned_units(void) {
    begin();
    request_log.orders[2].check = ORDER_RETURNED;
    after = (struct books){.conserved = true, .stock = 10, .available = 1, .sold = 9, .orders = 10};
    CHECK_VERDICT("clean");
    after.sold = 10; /* the audit counted it as held */
    after.available = 0;
    CHECK_VERDICT("clean");
}

static void test_earlier_holds_lapse(void) {
    begin();
    before = (struct books){.conserved = true, .stock = 15, .available = 10, .held = 5, .orders = 5};
    after = (struct books){.conserved = true, .stock = 15, .available = 5, .sold = 10, .orders = 15};
    CHECK_VERDICT("clean");
}

static void test_not_conserved(void) {
    begin();
    after.conserved = false;
    CHECK_VERDICT("violated");
}

static void test_could_not_tell(void) {
    begin();
    request_log.orders[7].check = ORDER_UNCHECKED;
    CHECK_VERDICT("inconclusive unchecked 1");
    request_log.orders[7].check = ORDER_FOUND;
    struct verdict v = receipt_judge(&(struct options){.quantity = 1}, &before, NULL);
    CHECK_STR(receipt_text(v), "inconclusive");
    CHECK(!v.audited && !v.conserved);
}

static void test_violated_without_audit(void) {
    begin();
    receipt_won_content(3, "order-3b", 3);
    struct verdict v = receipt_judge(&(struct options){.quantity = 1}, &before, NULL);
    CHECK_STR(receipt_text(v), "violated dup 1");
}

static void test_nothing_answered(void) {
    begin();
    receipt_begin();
    after = before;
    receipt_line(0)->outcome = OUTCOME_NOT_SENT;
    CHECK_VERDICT("inconclusive");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("verdict: clean", test_clean);
    harness_run("verdict: earlier sales do not count", test_earlier_sales);
    harness_run("verdict: duplicates with the first answer are clean", test_duplicates_replayed);
    harness_run("verdict: a rejected key may win after a restock", test_restock_lets_rejected_key_win);
    harness_run("verdict: oversold, by the audit", test_oversold_by_audit);
    harness_run("verdict: oversold, by the receipts", test_oversold_by_receipts);
    harness_run("verdict: missing or different orders are lost", test_missing);
    harness_run("verdict: lost from the audit's count", test_uncounted);
    harness_run("verdict: lost, one order for two keys", test_one_order_for_two);
    harness_run("verdict: duplicated, two and three orders for a key", test_two_orders_for_one);
    harness_run("verdict: duplicated, the same order with other content", test_other_content);
    harness_run("verdict: duplicated, a winner is told sold-out", test_winner_told_sold_out);
    harness_run("verdict: a rejection in flight while its key wins is clean", test_rejected_while_winning);
    harness_run("verdict: phantom units and orders", test_phantom);
    harness_run("verdict: unresolved requests may be in the books", test_unresolved_may_be_in_books);
    harness_run("verdict: undersold", test_undersold);
    harness_run("verdict: units left for less than a purchase are not undersold", test_rest_too_small);
    harness_run("verdict: expired holds are clean", test_returned_units);
    harness_run("verdict: expired earlier holds are clean", test_earlier_holds_lapse);
    harness_run("verdict: not conserved", test_not_conserved);
    harness_run("verdict: no verdict", test_could_not_tell);
    harness_run("verdict: violated also without an audit", test_violated_without_audit);
    harness_run("verdict: nothing answered is not clean", test_nothing_answered);
    return harness_finish();
}
