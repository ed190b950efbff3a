#include <string.h>

#include "loadtest/ledger.h"
#include "loadtest/verdict.h"
#include "test/harness.h"

static struct ledger ledger;
static struct books before;
static struct books after;
static uint64_t clock_ns;

static void free_ledger(void *unused) {
    (void)unused;
    ledger_free(&ledger);
}

static struct ledger_line *line_of(uint32_t key) {
    struct ledger_line *line = ledger_add(&ledger);
    CHECK(line != NULL);
    line->key = key;
    line->intended_ns = ++clock_ns;
    line->sent_ns = ++clock_ns;
    line->answered_ns = ++clock_ns;
    if (key >= ledger.key_count)
        ledger.key_count = key + 1;
    return line;
}

static void rejected(uint32_t key, const char *why) {
    struct ledger_line *line = line_of(key);
    line->outcome = LEDGER_REJECTED;
    line->reason = ledger_reason(&ledger, why, strlen(why));
}

static void unknown(uint32_t key) {
    struct ledger_line *line = line_of(key);
    line->outcome = LEDGER_UNKNOWN;
    line->cause = ledger_reason(&ledger, "timed-out", strlen("timed-out"));
}

static void won_content(uint32_t key, const char *order, uint64_t content) {
    struct ledger_line *line = line_of(key);
    line->outcome = LEDGER_OK;
    CHECK(ledger_acknowledge(&ledger, line, order, strlen(order), content));
    ledger.orders[line->order].check = LEDGER_HERE;
}

static void won(uint32_t key) {
    won_content(key, harness_format("order-%u", key), key);
}

/* Ten units, all of them sold to keys 0 to 9, and key 10 told so. */
static void begin(void) {
    free_ledger(NULL);
    ledger_init(&ledger);
    harness_defer(free_ledger, NULL);
    clock_ns = 1000;
    before = (struct books){.conserved = true, .stock = 10, .available = 10};
    after = (struct books){.conserved = true, .stock = 10, .sold = 10, .orders = 10};
    for (uint32_t key = 0; key < 10; key++)
        won(key);
    rejected(10, "sold-out");
}

static struct verdict reach(int64_t quantity) {
    CHECK(ledger_match(&ledger));
    return verdict_reach(&ledger, quantity, &before, &after);
}

/* All counters in one text, so that a check sees also those that should be zero. */
static const char *text_of(struct verdict v) {
    static const char *const kinds[] = {"clean", "violated", "untold"};
    return harness_format("%s over %d lost %d dup %d phantom %d under %d unresolved %d unchecked %d",
                          kinds[v.kind], (int)v.oversold, (int)v.lost, (int)v.duplicated, (int)v.phantom,
                          (int)v.undersold, (int)v.unresolved, (int)v.unchecked);
}

#define CHECK_VERDICT(want) CHECK_STR(text_of(reach(1)), want)

static void test_clean(void) {
    begin();
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_earlier_sales(void) {
    begin();
    before = (struct books){.conserved = true, .stock = 15, .available = 10, .sold = 5, .orders = 5};
    after = (struct books){.conserved = true, .stock = 15, .sold = 15, .orders = 15};
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_duplicates_replayed(void) {
    begin();
    won(3);
    won(3);
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_restock_lets_rejected_key_win(void) {
    begin();
    won(10);
    after = (struct books){.conserved = true, .stock = 12, .available = 1, .sold = 11, .orders = 11};
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_oversold_by_audit(void) {
    begin();
    after.oversold = 3;
    CHECK_VERDICT("violated over 3 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_oversold_by_receipts(void) {
    begin();
    won(11);
    won(12);
    after.sold = 12;
    after.orders = 12;
    CHECK_VERDICT("violated over 2 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_missing(void) {
    begin();
    ledger.orders[4].check = LEDGER_MISSING;
    ledger.orders[5].check = LEDGER_OTHER;
    CHECK_VERDICT("violated over 0 lost 2 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_uncounted(void) {
    begin();
    after = (struct books){.conserved = true, .stock = 10, .available = 0, .sold = 9, .orders = 9};
    CHECK_VERDICT("violated over 0 lost 1 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_one_order_for_two(void) {
    begin();
    before.stock = after.stock = 20;
    after.available = 0;
    won_content(11, "order-3", 3);
    CHECK_VERDICT("violated over 0 lost 1 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_two_orders_for_one(void) {
    begin();
    before.stock = after.stock = 20;
    after.sold = after.orders = 12;
    won_content(3, "order-3b", 3);
    won_content(3, "order-3b", 3);
    won_content(3, "order-3c", 3);
    CHECK_VERDICT("violated over 0 lost 0 dup 2 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_other_content(void) {
    begin();
    won_content(3, "order-3", 99);
    CHECK_VERDICT("violated over 0 lost 0 dup 1 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_winner_told_sold_out(void) {
    begin();
    rejected(3, "sold-out");
    CHECK_VERDICT("violated over 0 lost 0 dup 1 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_rejected_while_winning(void) {
    begin();
    rejected(3, "sold-out");
    ledger.lines[ledger.line_count - 1].sent_ns = ledger.orders[3].answered_ns;
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_phantom(void) {
    begin();
    before.stock = after.stock = 20;
    after.sold = 12;
    after.orders = 11;
    CHECK_VERDICT("violated over 0 lost 0 dup 0 phantom 2 under 0 unresolved 0 unchecked 0");
    after.sold = 10;
    CHECK_VERDICT("violated over 0 lost 0 dup 0 phantom 1 under 0 unresolved 0 unchecked 0");
}

static void test_unresolved_may_be_in_books(void) {
    begin();
    before.stock = after.stock = 20;
    unknown(11);
    after.sold = after.orders = 11;
    CHECK_VERDICT("untold over 0 lost 0 dup 0 phantom 0 under 0 unresolved 1 unchecked 0");
    after.sold = after.orders = 12;
    CHECK_VERDICT("violated over 0 lost 0 dup 0 phantom 1 under 0 unresolved 1 unchecked 0");
}

static void test_undersold(void) {
    begin();
    before.stock = after.stock = 14;
    after.available = 4;
    CHECK_VERDICT("violated over 0 lost 0 dup 0 phantom 0 under 1 unresolved 0 unchecked 0");
    rejected(11, "sold-out");
    rejected(12, "purchase-limit");
    CHECK_VERDICT("violated over 0 lost 0 dup 0 phantom 0 under 2 unresolved 0 unchecked 0");
}

static void test_rest_too_small(void) {
    begin();
    before.stock = after.stock = 32;
    after.sold = 30;
    after.available = 2;
    CHECK_STR(text_of(reach(3)), "clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
    before.stock = after.stock = 34;
    after.available = 4;
    CHECK_STR(text_of(reach(3)), "violated over 0 lost 0 dup 0 phantom 0 under 3 unresolved 0 unchecked 0");
}

static void test_returned_units(void) {
    begin();
    ledger.orders[2].check = LEDGER_RETURNED;
    after = (struct books){.conserved = true, .stock = 10, .available = 1, .sold = 9, .orders = 10};
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
    after.sold = 10; /* it was still held when the audit was taken */
    after.available = 0;
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_earlier_holds_lapse(void) {
    begin();
    before = (struct books){.conserved = true, .stock = 15, .available = 10, .held = 5, .orders = 5};
    after = (struct books){.conserved = true, .stock = 15, .available = 5, .sold = 10, .orders = 15};
    CHECK_VERDICT("clean over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_not_conserved(void) {
    begin();
    after.conserved = false;
    CHECK_VERDICT("violated over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_could_not_tell(void) {
    begin();
    ledger.orders[7].check = LEDGER_UNCHECKED;
    CHECK_VERDICT("untold over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 1");
    ledger.orders[7].check = LEDGER_HERE;
    struct verdict v = verdict_reach(&ledger, 1, &before, NULL);
    CHECK_STR(text_of(v), "untold over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
    CHECK(!v.audited && !v.conserved);
}

static void test_violated_without_audit(void) {
    begin();
    won_content(3, "order-3b", 3);
    CHECK(ledger_match(&ledger));
    struct verdict v = verdict_reach(&ledger, 1, &before, NULL);
    CHECK_STR(text_of(v), "violated over 0 lost 0 dup 1 phantom 0 under 0 unresolved 0 unchecked 0");
}

static void test_nothing_answered(void) {
    begin();
    free_ledger(NULL);
    ledger_init(&ledger);
    after = before;
    line_of(0)->outcome = LEDGER_NOT_SENT;
    CHECK_VERDICT("untold over 0 lost 0 dup 0 phantom 0 under 0 unresolved 0 unchecked 0");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("verdict: clean", test_clean);
    harness_run("verdict: earlier sales are not ours", test_earlier_sales);
    harness_run("verdict: duplicates with the first answer are clean", test_duplicates_replayed);
    harness_run("verdict: a rejected key may win after a restock", test_restock_lets_rejected_key_win);
    harness_run("verdict: oversold, the audit says so", test_oversold_by_audit);
    harness_run("verdict: oversold, the receipts say so", test_oversold_by_receipts);
    harness_run("verdict: lost, or something else in the books", test_missing);
    harness_run("verdict: lost from the audit's count", test_uncounted);
    harness_run("verdict: lost, one order for two keys", test_one_order_for_two);
    harness_run("verdict: duplicated, two and three orders for a key", test_two_orders_for_one);
    harness_run("verdict: duplicated, the same order told otherwise", test_other_content);
    harness_run("verdict: duplicated, a winner is told sold-out", test_winner_told_sold_out);
    harness_run("verdict: a rejection under way while its key wins is clean", test_rejected_while_winning);
    harness_run("verdict: phantom units and orders", test_phantom);
    harness_run("verdict: what is unresolved may be in the books", test_unresolved_may_be_in_books);
    harness_run("verdict: undersold", test_undersold);
    harness_run("verdict: a rest smaller than a purchase is not undersold", test_rest_too_small);
    harness_run("verdict: holds that lapse are clean", test_returned_units);
    harness_run("verdict: earlier holds that lapse are clean", test_earlier_holds_lapse);
    harness_run("verdict: not conserved", test_not_conserved);
    harness_run("verdict: could not tell", test_could_not_tell);
    harness_run("verdict: violated also without an audit", test_violated_without_audit);
    harness_run("verdict: nothing answered is not clean", test_nothing_answered);
    return harness_finish();
}
