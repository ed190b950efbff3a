/* The verdict on baskets and transfers. */
#include <string.h>

#include "loadtest/test/receipt.h"
#include "test/harness.h"

enum { ITEMS = 3, LINES = 3, EACH = 100 };
static struct options options;
static struct books before[ITEMS];
static struct books after[ITEMS];
static uint32_t next_key;

static struct planned_request planned_for(uint32_t key) {
    struct plan plan = {.options = &options};
    struct planned_request planned;
    plan_of_key(&plan, key, &planned);
    return planned;
}

/* The next key with exactly these lines, or these two items of a transfer. */
static uint32_t key_of(const uint32_t *items) {
    for (;; next_key++) {
        struct planned_request planned = planned_for(next_key);
        if (memcmp(planned.items, items, planned.count * sizeof *items) == 0)
            return next_key++;
    }
}

static void sell(uint32_t item, int units) {
    after[item].available -= units;
    after[item].sold += units;
    after[item].orders += units / (int)options.quantity;
}

static void win(const uint32_t *items) {
    receipt_won_basket(key_of(items), LINES);
    for (int i = 0; i < LINES; i++)
        sell(items[i], (int)options.quantity);
}

static void refuse(const uint32_t *items) {
    receipt_rejected(key_of(items), "sold-out");
}

static void begin_books(unsigned lines, unsigned transfers) {
    receipt_begin();
    next_key = 0;
    options = (struct options){.items = ITEMS,
                               .quantity = 1,
                               .seed = harness_seed(),
                               .basket_lines = lines,
                               .transfers = transfers,
                               .connections = 1};
    for (int i = 0; i < ITEMS; i++)
        before[i] = after[i] = (struct books){.conserved = true, .stock = EACH, .available = EACH};
}

/* Three baskets were sold, the last of one item twice. */
static const uint32_t one_of_each[] = {0, 1, 2};
static const uint32_t backwards[] = {2, 1, 0};
static const uint32_t twice[] = {1, 0, 1};

static void begin(void) {
    begin_books(LINES, 0);
    win(one_of_each);
    win(backwards);
    win(twice);
}

static uint32_t key_of_order(unsigned basket) {
    return request_log.lines[basket].key;
}

#define CHECK_VERDICT(want) CHECK_STR(receipt_text(receipt_judge(&options, before, after)), want)

static void test_clean(void) {
    begin();
    CHECK_VERDICT("clean");
    receipt_won_basket(key_of_order(1), LINES);
    CHECK_VERDICT("clean");
}

static void test_torn(void) {
    begin();
    receipt_order(key_of_order(0), 1)->check = ORDER_MISSING;
    CHECK_VERDICT("violated lost 1 torn 1");
    receipt_order(key_of_order(1), 0)->check = ORDER_MISSING;
    receipt_order(key_of_order(1), 2)->check = ORDER_MISSING;
    CHECK_VERDICT("violated lost 3 torn 2");
    CHECK_INT(receipt_judge(&options, before, NULL).torn, 2);
    CHECK_INT(receipt_judge(&options, before, NULL).lost, 3);
}

/* A basket that is missing as a whole is lost, but not torn. */
static void test_lost_whole(void) {
    begin();
    for (unsigned i = 0; i < LINES; i++)
        receipt_order(key_of_order(0), i)->check = ORDER_MISSING;
    CHECK_VERDICT("violated lost 3");
}

static void forget_id(struct log_order *order) {
    order->absent = true;
    order->check = ORDER_UNCHECKED;
    order->id = strlen(request_log.ids);
}

static void test_absent(void) {
    begin();
    forget_id(receipt_order(key_of_order(2), 2));
    CHECK_VERDICT("violated torn 1");
}

/* The answer to a repeated key lacks an order that the first answer had. */
static void test_absent_later(void) {
    begin();
    receipt_won_basket(key_of_order(2), LINES);
    forget_id(&request_log.orders[request_log.order_count - 1]);
    CHECK_VERDICT("violated dup 1");
}

static void test_told_otherwise(void) {
    begin();
    receipt_order(key_of_order(0), 2)->misstated = true;
    CHECK_VERDICT("violated lost 1");
    receipt_order(key_of_order(0), 0)->surplus = true;
    CHECK_VERDICT("violated lost 1 dup 1");
}

static void test_one_order_for_two_lines(void) {
    begin();
    receipt_order(key_of_order(2), 2)->id = receipt_order(key_of_order(2), 0)->id;
    CHECK_VERDICT("violated lost 1");
}

static void test_two_baskets_for_one_key(void) {
    begin();
    receipt_won_basket(key_of_order(0), LINES);
    request_log.orders[request_log.order_count - 1].id = request_log.orders[0].id;
    sell(2, 1);
    CHECK_VERDICT("violated dup 1");
}

static void test_line_of_a_refused_basket(void) {
    begin();
    refuse(one_of_each);
    after[1].available = 0;
    sell(0, 1);
    CHECK_VERDICT("violated phantom 1");
}

/* Each of its lines may be in the books, but no other. */
static void test_unresolved(void) {
    begin();
    receipt_unknown(key_of(twice));
    CHECK_VERDICT("inconclusive unresolved 1");
    sell(1, 2);
    sell(0, 1);
    CHECK_VERDICT("inconclusive unresolved 1");
    sell(2, 1);
    CHECK_VERDICT("violated phantom 1 unresolved 1");
}

/* Three transfers moved six units from item 0 to item 1; one from 1 to 2 was rejected. */
static const uint32_t there[] = {0, 1};
static const uint32_t onward[] = {1, 2};

static void begin_transfers(void) {
    begin_books(0, 100);
    options.quantity = 2;
    for (int i = 0; i < 3; i++)
        receipt_won(key_of(there));
    for (size_t i = 0; i < request_log.order_count; i++)
        request_log.orders[i].check = ORDER_UNCHECKED;
    refuse(onward);
    after[0].stock = after[0].available = EACH - 6;
    after[1].stock = after[1].available = EACH + 6;
}

static void test_balanced(void) {
    begin_transfers();
    CHECK_VERDICT("clean");
    receipt_won(request_log.lines[1].key);
    CHECK_VERDICT("clean");
}

static void test_unbalanced(void) {
    begin_transfers();
    after[1].stock -= 2; /* arrived nowhere */
    CHECK_VERDICT("violated unbalanced 2");
    begin_transfers();
    after[1].stock += 2; /* made */
    CHECK_VERDICT("violated unbalanced 2");
    begin_transfers();
    after[0].stock -= 2; /* carried out twice */
    after[1].stock += 2;
    CHECK_VERDICT("violated unbalanced 2");
    begin_transfers();
    after[1].stock -= 4; /* to another item */
    after[2].stock += 4;
    CHECK_VERDICT("violated unbalanced 4");
    begin_transfers();
    after[1].stock -= 2; /* the rejected one was carried out */
    after[2].stock += 2;
    CHECK_VERDICT("violated unbalanced 2");
}

/* It may have been carried out or not, but the total stock stays the same. */
static void test_unresolved_transfer(void) {
    begin_transfers();
    receipt_unknown(key_of(onward));
    CHECK_VERDICT("inconclusive unresolved 1");
    after[1].stock -= 2;
    CHECK_VERDICT("violated unresolved 1 unbalanced 2");
    after[2].stock += 2;
    CHECK_VERDICT("inconclusive unresolved 1");
    after[1].stock -= 2;
    after[2].stock += 2;
    CHECK_VERDICT("violated unresolved 1 unbalanced 2");
}

static void test_two_transfers_for_one_key(void) {
    begin_transfers();
    receipt_won_content(request_log.lines[0].key, "another", 1);
    after[0].stock -= 2;
    after[1].stock += 2;
    CHECK_VERDICT("violated dup 1");
}

static void test_transfer_told_otherwise(void) {
    begin_transfers();
    request_log.orders[1].misstated = true;
    CHECK_VERDICT("violated lost 1");
}

/* A basket or a transfer may have held the units for a moment: buyers who were told sold-out were told the
 * truth. */
static void test_undersold_not_judged(void) {
    begin();
    refuse(one_of_each);
    CHECK_VERDICT("clean");
    begin_transfers();
    refuse(onward);
    CHECK_VERDICT("clean");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("verdict of baskets: clean", test_clean);
    harness_run("verdict of baskets: torn", test_torn);
    harness_run("verdict of baskets: lost as a whole", test_lost_whole);
    harness_run("verdict of baskets: an order missing in the answer", test_absent);
    harness_run("verdict of baskets: an order missing in a later answer", test_absent_later);
    harness_run("verdict of baskets: the answer differs from the request", test_told_otherwise);
    harness_run("verdict of baskets: one order for two lines", test_one_order_for_two_lines);
    harness_run("verdict of baskets: another order for one line of a key", test_two_baskets_for_one_key);
    harness_run("verdict of baskets: a line of a rejected basket", test_line_of_a_refused_basket);
    harness_run("verdict of baskets: unresolved requests may be in the books", test_unresolved);
    harness_run("verdict of baskets and transfers: undersold is not judged", test_undersold_not_judged);
    harness_run("verdict of transfers: balanced", test_balanced);
    harness_run("verdict of transfers: unbalanced", test_unbalanced);
    harness_run("verdict of transfers: one unresolved", test_unresolved_transfer);
    harness_run("verdict of transfers: two for one key", test_two_transfers_for_one_key);
    harness_run("verdict of transfers: the answer differs from the request", test_transfer_told_otherwise);
    return harness_finish();
}
