/* The verdict on purchases: of one item, and of several, where faults that cancel out in the sum must be
 * found. */
#include "loadtest/test/receipt.h"
#include "test/harness.h"

enum { STEPS = 3, ITEMS = 3, EACH = 4 };

#define BOOKS(stock, available, held, sold, orders)                                                          \
    { true, stock, available, held, sold, orders, 0, true, false, 0 }

/* ---- one item: ten units, all sold to keys 0 to 9; key 10 was told sold-out ---- */

#define TEN     BOOKS(10, 10, 0, 0, 0)
#define TWENTY  BOOKS(20, 10, 0, 0, 0)
#define SOLD(n) BOOKS(10, 0, 0, n, n)

static const struct sale {
    const char *name;
    struct receipt_step steps[STEPS];
    struct books before, after;
    const char *want;
} sales[] = {
    {"clean", {{0}}, TEN, SOLD(10), "clean"},
    {"earlier sales do not count", {{0}}, BOOKS(15, 10, 0, 5, 5), BOOKS(15, 0, 0, 15, 15), "clean"},
    {"duplicates with the first answer are clean", {{WON, 3}, {WON, 3}}, TEN, SOLD(10), "clean"},
    {"a rejected key may win after a restock", {{WON, 10}}, TEN, BOOKS(12, 1, 0, 11, 11), "clean"},
    {"oversold, by the audit", {{0}}, TEN, {true, 10, 0, 0, 10, 10, 3, true, false, 0}, "violated over 3"},
    {"oversold, by the receipts", {{WON, 11}, {WON, 12}}, TEN, SOLD(12), "violated over 2"},
    {"missing or different orders are lost",
     {{MISSING, 4}, {DIFFERENT, 5}},
     TEN,
     SOLD(10),
     "violated lost 2"},
    {"lost from the audit's count", {{0}}, TEN, SOLD(9), "violated lost 1"},
    {"lost, one order for two keys",
     {{WON, 11}, {SAME_ID, 10}},
     TWENTY,
     BOOKS(20, 0, 0, 10, 10),
     "violated lost 1"},
    {"duplicated, three orders for a key",
     {{WON_B, 3}, {WON_B, 3}, {WON_C, 3}},
     TWENTY,
     BOOKS(20, 0, 0, 12, 12),
     "violated dup 2"},
    {"duplicated, the same order with other content",
     {{WON, 3}, {OTHER_CONTENT, 10}},
     TEN,
     SOLD(10),
     "violated dup 1"},
    {"duplicated, a winner is told sold-out", {{SOLD_OUT, 3}}, TEN, SOLD(10), "violated dup 1"},
    {"a rejection in flight while its key wins is clean", {{LATE_SOLD_OUT, 3}}, TEN, SOLD(10), "clean"},
    {"phantom units", {{0}}, TWENTY, BOOKS(20, 0, 0, 12, 11), "violated phantom 2"},
    {"phantom orders", {{0}}, TWENTY, BOOKS(20, 0, 0, 10, 11), "violated phantom 1"},
    {"unresolved requests may be in the books",
     {{UNKNOWN, 11}},
     TWENTY,
     BOOKS(20, 0, 0, 11, 11),
     "inconclusive unresolved 1"},
    {"unresolved requests, and one order more",
     {{UNKNOWN, 11}},
     TWENTY,
     BOOKS(20, 0, 0, 12, 12),
     "violated phantom 1 unresolved 1"},
    {"undersold", {{0}}, BOOKS(14, 10, 0, 0, 0), BOOKS(14, 4, 0, 10, 10), "violated under 1"},
    {"undersold, two were told",
     {{SOLD_OUT, 11}, {LIMIT, 12}},
     BOOKS(14, 10, 0, 0, 0),
     BOOKS(14, 4, 0, 10, 10),
     "violated under 2"},
    {"expired holds are clean", {{RETURNED, 2}}, TEN, BOOKS(10, 1, 0, 9, 10), "clean"},
    {"expired holds that the audit counted as held are clean", {{RETURNED, 2}}, TEN, SOLD(10), "clean"},
    {"expired earlier holds are clean", {{0}}, BOOKS(15, 10, 5, 0, 5), BOOKS(15, 5, 0, 10, 15), "clean"},
    {"not conserved", {{0}}, TEN, {false, 10, 0, 0, 10, 10, 0, true, false, 0}, "violated not conserved 1"},
    {"one could not be checked", {{UNCHECKED, 7}}, TEN, SOLD(10), "inconclusive unchecked 1"},
    {"one was not sent", {{UNSENT, 11}}, TEN, SOLD(10), "inconclusive unsent 1"},
    {"no audit", {{0}}, TEN, BOOKS(0, 0, 0, 0, 0), "inconclusive"},
    {"violated also without an audit", {{WON_B, 3}}, TEN, BOOKS(0, 0, 0, 0, 0), "violated dup 1"},
};
static const struct sale *sale; /* of the running test */

static const char *judge(unsigned quantity) {
    receipt_begin(0);
    for (uint32_t key = 0; key < 10; key++)
        receipt_do(WON, key);
    receipt_do(SOLD_OUT, 10);
    for (int i = 0; i < STEPS; i++)
        receipt_do(sale->steps[i].what, sale->steps[i].of);
    return receipt_verdict(&(struct options){.quantity = quantity}, &sale->before,
                           sale->after.stock ? &sale->after : NULL);
}

static void test_sale(void) {
    CHECK_STR(judge(1), sale->want);
}

static void test_rest_too_small(void) {
    static const struct sale threes[] = {
        {"", {{0}}, BOOKS(32, 32, 0, 0, 0), BOOKS(32, 2, 0, 30, 10), "clean"},
        {"", {{0}}, BOOKS(34, 34, 0, 0, 0), BOOKS(34, 4, 0, 30, 10), "violated under 3"}};
    for (sale = threes; sale < threes + 2; sale++)
        CHECK_STR(judge(3), sale->want);
}

static void test_nothing_answered(void) {
    const struct books books = TEN;
    receipt_begin(0);
    CHECK_STR(receipt_verdict(&(struct options){.quantity = 1}, &books, &books), "inconclusive");
}

/* ---- several items: four units of each, all sold; one buyer of each was told sold-out ---- */

#define FOUR BOOKS(4, 4, 0, 0, 0)
#define FIVE BOOKS(5, 5, 0, 0, 0)
#define GONE BOOKS(4, 0, 0, 4, 4)

static const struct shop {
    const char *name;
    enum receipt_what last;           /* what the buyer of item 2 was told */
    struct receipt_step steps[STEPS]; /* a new line is for an item, with a new key */
    struct books before[ITEMS], after[ITEMS];
    const char *want;
} shops[] = {
    /* The audit of item 0 hides it; one unit of item 2 is left. */
    {"one oversold",
     LIMIT,
     {{WON, 0}},
     {FOUR, FOUR, FIVE},
     {BOOKS(4, 0, 0, 5, 5), GONE, BOOKS(5, 1, 0, 4, 4)},
     "violated over 1"},
    {"one lost and one phantom",
     SOLD_OUT,
     {{0}},
     {FOUR, FOUR, FIVE},
     {GONE, BOOKS(4, 0, 0, 3, 3), BOOKS(5, 0, 0, 5, 5)},
     "violated lost 1 phantom 1"},
    {"units left of one whose buyers were not told sold-out",
     LIMIT,
     {{0}},
     {FOUR, FOUR, BOOKS(6, 6, 0, 0, 0)},
     {GONE, GONE, BOOKS(6, 2, 0, 4, 4)},
     "clean"},
    {"one undersold",
     LIMIT,
     {{SOLD_OUT, 2}},
     {FOUR, FOUR, BOOKS(6, 6, 0, 0, 0)},
     {GONE, GONE, BOOKS(6, 2, 0, 4, 4)},
     "violated under 1"},
    /* What is unresolved or returned of one item does not excuse the books of another. */
    {"one unresolved, another phantom",
     SOLD_OUT,
     {{UNKNOWN, 0}},
     {FOUR, FIVE, FOUR},
     {GONE, BOOKS(5, 0, 0, 5, 5), GONE},
     "violated phantom 1 unresolved 1"},
    {"one returned",
     SOLD_OUT,
     {{RETURNED, 0}},
     {FOUR, FOUR, FOUR},
     {BOOKS(4, 1, 0, 3, 4), GONE, GONE},
     "clean"},
    {"one returned, another undersold",
     SOLD_OUT,
     {{RETURNED, 0}},
     {FOUR, FIVE, FOUR},
     {BOOKS(4, 1, 0, 3, 4), BOOKS(5, 1, 0, 4, 4), GONE},
     "violated under 1"},
};
static const struct shop *shop; /* of the running test */

static uint32_t next_key;

/* A new key that buys this item. */
static uint32_t key_of(const struct options *options, uint32_t item) {
    struct planned_request planned;
    do
        plan_of_key(&(struct plan){.options = options}, next_key++, &planned);
    while (planned.items[0] != item);
    return next_key - 1;
}

static void test_shop(void) {
    const struct options options = {.items = ITEMS, .quantity = 1, .seed = harness_seed()};
    next_key = 0;
    receipt_begin(0);
    for (uint32_t item = 0; item < ITEMS; item++) {
        for (int i = 0; i < EACH; i++)
            receipt_do(WON, key_of(&options, item));
        receipt_do(item == 2 ? shop->last : SOLD_OUT, key_of(&options, item));
    }
    for (const struct receipt_step *step = shop->steps; step < shop->steps + STEPS && step->what; step++)
        receipt_do(step->what, step->what < MISSING ? key_of(&options, step->of) : step->of);
    CHECK_STR(receipt_verdict(&options, shop->before, shop->after[0].stock ? shop->after : NULL), shop->want);
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
    books[1].has_counters = books[1].conserved = false;
    sum = books_sum(books, 2);
    CHECK(!sum.has_counters && !sum.conserved);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (sale = sales; sale < sales + sizeof sales / sizeof *sales; sale++)
        harness_run(harness_format("verdict: %s", sale->name), test_sale);
    harness_run("verdict: units left for less than a purchase are not undersold", test_rest_too_small);
    harness_run("verdict: nothing answered is not clean", test_nothing_answered);
    for (shop = shops; shop < shops + sizeof shops / sizeof *shops; shop++)
        harness_run(harness_format("verdict of several items: %s", shop->name), test_shop);
    harness_run("verdict of several items: the sum of the books", test_sum);
    return harness_finish();
}
