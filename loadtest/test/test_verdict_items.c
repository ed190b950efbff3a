/* The verdict on several items: faults that cancel out in the sum must be found. */
#include "loadtest/request_plan.h"
#include "loadtest/test/receipt.h"
#include "test/harness.h"

enum { ITEMS = 3 };
static struct options options;
static struct books before[ITEMS];
static struct books after[ITEMS];
static uint32_t next_key;

/* A new key that buys this item. */
static uint32_t key_of(uint32_t item) {
    struct plan plan = {.options = &options};
    struct planned_request planned;
    do
        plan_of_key(&plan, next_key++, &planned);
    while (planned.items[0] != item);
    return next_key - 1;
}

/* Four units of each item, all sold; one buyer of each was told sold-out. */
static void begin(void) {
    receipt_begin();
    next_key = 0;
    options = (struct options){.items = ITEMS, .quantity = 1, .seed = harness_seed()};
    for (uint32_t item = 0; item < ITEMS; item++) {
        before[item] = (struct books){.conserved = true, .stock = 4, .available = 4};
        after[item] = (struct books){.conserved = true, .stock = 4, .sold = 4, .orders = 4};
        for (int i = 0; i < 4; i++)
            receipt_won(key_of(item));
        receipt_rejected(key_of(item), "sold-out");
    }
}

#define CHECK_VERDICT(want) CHECK_STR(receipt_text(receipt_judge(&options, before, after)), want)

static void test_clean(void) {
    begin();
    CHECK_VERDICT("clean");
}

/* No buyer of item 2 was told sold-out. */
static void refuse_otherwise(void) {
    request_log.lines[request_log.line_count - 1].reason =
        request_log_reason(&request_log, "purchase-limit", 14);
}

/* Five of the four units of item 0 are sold, which its audit hides; one unit of item 2 is left. */
static void test_oversold(void) {
    begin();
    refuse_otherwise();
    receipt_won(key_of(0));
    after[0].sold = after[0].orders = 5;
    before[2].stock = after[2].stock = 5;
    before[2].available = 5;
    after[2].available = 1;
    CHECK_VERDICT("violated over 1");
}

static void test_lost_and_phantom(void) {
    begin();
    after[1].sold = after[1].orders = 3;
    CHECK_VERDICT("violated lost 1");
    after[2].sold = after[2].orders = 5;
    after[2].stock = 5;
    CHECK_VERDICT("violated lost 1 phantom 1");
}

static void test_wrong_orders(void) {
    begin();
    request_log.orders[1].check = ORDER_MISSING;
    request_log.orders[9].check = ORDER_DIFFERENT;
    CHECK_VERDICT("violated lost 2");
    CHECK_INT(receipt_judge(&options, before, NULL).lost, 2);
}

/* Units are left only of an item whose buyers were not told sold-out. */
static void test_undersold(void) {
    begin();
    before[2].stock = after[2].stock = 6;
    before[2].available = 6;
    after[2].available = 2;
    refuse_otherwise();
    CHECK_VERDICT("clean");
    receipt_rejected(key_of(2), "sold-out");
    CHECK_VERDICT("violated under 1");
}

/* Unresolved requests and returned orders of one item do not excuse the books of another. */
static void test_unresolved_and_returned(void) {
    begin();
    receipt_unknown(key_of(0));
    before[1].stock = after[1].stock = 5;
    after[1].sold = after[1].orders = 5;
    CHECK_VERDICT("violated phantom 1 unresolved 1");
    begin();
    request_log.orders[0].check = ORDER_RETURNED;
    after[0].sold = 3;
    after[0].available = 1;
    CHECK_VERDICT("clean");
    before[1].stock = after[1].stock = 5;
    after[1].available = 1;
    CHECK_VERDICT("violated under 1");
}

static void test_not_conserved(void) {
    begin();
    after[1].conserved = false;
    struct verdict v = receipt_judge(&options, before, after);
    CHECK_INT(v.kind, VERDICT_VIOLATED);
    CHECK(!v.conserved);
    CHECK(!books_sum(after, ITEMS).conserved);
}

static void test_sum(void) {
    struct books books[] = {{true, 10, 1, 2, 7, 8, 0, true, true, 9},
                            {true, 100, 20, 30, 50, 60, 4, true, true, 81}};
    struct books sum = books_sum(books, 2);
    CHECK_STR(harness_format("%d %d %d %d %d %d %d", sum.conserved, (int)sum.stock, (int)sum.available,
                             (int)sum.held, (int)sum.sold, (int)sum.orders, (int)sum.oversold),
              "1 110 21 32 57 68 4");
    CHECK(sum.has_counters);
    CHECK_INT(sum.counted, 90);
    books[1].has_counters = false;
    CHECK(!books_sum(books, 2).has_counters);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("verdict of several items: clean", test_clean);
    harness_run("verdict of several items: one oversold", test_oversold);
    harness_run("verdict of several items: one lost and one phantom", test_lost_and_phantom);
    harness_run("verdict of several items: wrong orders", test_wrong_orders);
    harness_run("verdict of several items: one undersold", test_undersold);
    harness_run("verdict of several items: each is judged alone", test_unresolved_and_returned);
    harness_run("verdict of several items: one not conserved", test_not_conserved);
    harness_run("verdict of several items: the sum of the books", test_sum);
    return harness_finish();
}
