/* seckill-load with baskets and transfers: a right seller is clean, and each fault is caught by its counter.
 */
#include "loadtest/test/attack.h"
#include "loadtest/test/seller.h"
#include "test/harness.h"

enum { ITEMS = 20, EACH = 60, ALL = ITEMS * EACH };

static struct attack_result attack(const struct seller *seller, const char *more) {
    return attack_sale(seller, harness_format("--items %d%s%s", ITEMS, more[0] != '\0' ? " " : "", more));
}

/* All items have the faults of single orders. */
static struct seller *start(unsigned faults) {
    return seller_start_many(ITEMS, ITEMS, faults, EACH);
}

static void test_right_baskets(void) {
    struct seller *seller = start(0);
    struct attack_result outcome = attack(seller, "--basket-lines 3 --duplicates 20 --zipf 0.5");
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "items demo-0 to demo-19, baskets of 3, zipf 0.5 at ");
    CHECK_HAS(outcome.text, "baskets            1000 attempts: ");
    CHECK_HAS(outcome.json, "\"baskets\": {");
    CHECK_INT(attack_number_of(&outcome, "basket_lines"), 3);
    CHECK_INT(attack_number_of(&outcome, "attempts"), 1000);
    long long baskets = attack_number_of(&outcome, "accepted") - attack_number_of(&outcome, "replayed");
    CHECK(baskets > 100 && attack_number_of(&outcome, "replayed") > 0);
    CHECK(attack_number_of(&outcome, "sold-out") > 0);
    CHECK_INT(attack_number_of(&outcome, "orders"), 3 * baskets);
    CHECK_INT(seller_orders(seller), 3 * baskets);
}

static void test_large_baskets(void) {
    struct seller *seller = start(SELLER_AWKWARD);
    struct attack_result outcome = attack(seller, "--basket-lines 32 --duplicates 50 --requests 200");
    attack_check_code(&outcome, 0);
    CHECK(attack_number_of(&outcome, "replayed") > 0);
    CHECK_INT(seller_orders(seller), attack_number_of(&outcome, "orders"));
}

static void test_right_transfers(void) {
    struct seller *seller = start(0);
    struct attack_result outcome = attack(seller, "--transfers 40 --quantity 2 --duplicates 20");
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.json, "\"transfers\": {");
    CHECK_HAS(outcome.json, "\"purchases\": {");
    CHECK_HAS(outcome.text, "40 % transfers");
    CHECK_INT(seller_orders(seller), attack_number_of(&outcome, "orders"));
    outcome = attack(seller, "--transfers 100 --zipf 1");
    attack_check_code(&outcome, 0);
    CHECK_INT(attack_number_of(&outcome, "orders"), 0);
    CHECK(attack_number_of(&outcome, "accepted") > 0);
}

static void test_beside_purchases(void) {
    struct seller *seller = start(0);
    struct attack_result outcome =
        attack(seller, "--basket-lines 3 --purchases 60 --transfers 10 --duplicates 20");
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "baskets of 3, 60 % purchases, 10 % transfers at ");
    static const char *const kinds[] = {"\"purchases\": {", "\"baskets\": {", "\"transfers\": {"};
    for (int i = 0; i < 3; i++)
        CHECK_HAS(outcome.json, kinds[i]);
    CHECK_INT(attack_number_of(&outcome, "purchases_percent"), 60);
    CHECK_INT(seller_orders(seller), attack_number_of(&outcome, "orders"));
    outcome = attack(start(SELLER_OVERSELLS), "--basket-lines 3 --purchases 60");
    attack_check_violated(&outcome, "oversold", 5);
}

static void test_right_mixture(unsigned faults, const char *cause, const char *more) {
    struct attack_result outcome =
        attack(start(faults), harness_format("--basket-lines 2 --transfers 30 --duplicates 20%s", more));
    attack_check_code(&outcome, 0);
    CHECK_INT(attack_number_of(&outcome, cause), attack_number_of(&outcome, "unknown"));
    CHECK(attack_number_of(&outcome, "unknown") > 100);
}

static void test_lost_replies(void) {
    test_right_mixture(SELLER_DROPS_REPLIES, "connection-broken", "");
    test_right_mixture(SELLER_DROPS_REPLIES, "connection-broken", " --retries");
    test_right_mixture(SELLER_SAYS_503, "overloaded", " --retries");
    test_right_mixture(SELLER_GARBLES, "unreadable-answer", " --retries");
}

/* Some baskets and transfers stay unknown; no other counter may count them. */
static void test_unresolved(void) {
    struct attack_result outcome =
        attack(start(SELLER_SILENT), "--basket-lines 2 --transfers 50 --requests 60 "
                                     "--timeout 500 --settle 1s");
    attack_check_code(&outcome, 3);
    CHECK_INT(attack_verdict_of(&outcome, "unresolved"), 20);
    CHECK_HAS(outcome.text, "NO VERDICT");
}

static const char baskets[] = "--basket-lines 3 --duplicates 20";

/* Every tenth order of an item: some baskets lose one line. */
static void test_line_lost(void) {
    struct attack_result outcome = attack(start(SELLER_LOSES), baskets);
    attack_check_violated_both(&outcome, "lost", "torn", 10);
}

static void test_line_lost_and_concealed(void) {
    struct attack_result outcome = attack(start(SELLER_LOSES | SELLER_LIES), baskets);
    attack_check_violated_both(&outcome, "lost", "torn", 10);
}

static void check_baskets(unsigned faults, const char *name, long long least) {
    struct attack_result outcome = attack(start(faults), baskets);
    attack_check_violated(&outcome, name, least);
}

static void test_line_altered(void) {
    check_baskets(SELLER_ALTERS, "lost", 10);
}

static void test_line_cancelled(void) {
    check_baskets(SELLER_CANCELS, "lost", 10);
}

static void test_line_doubled(void) {
    check_baskets(SELLER_DOUBLES_LINE, "phantom", 10);
}

static void test_line_kept(void) {
    check_baskets(SELLER_KEEPS_LINE, "phantom", 1);
}

static void test_oversold(void) {
    check_baskets(SELLER_OVERSELLS, "oversold", 5);
}

static void test_sold_twice(void) {
    check_baskets(SELLER_SELLS_TWICE, "duplicated", 3);
}

static void test_retold(void) {
    check_baskets(SELLER_RETELLS, "duplicated", 1);
}

static void test_winner_refused(void) {
    check_baskets(SELLER_FORGETS, "duplicated", 1);
}

static void test_mixed_up(void) {
    check_baskets(SELLER_MIXES_UP, "lost", 10);
}

static void test_miscounted(void) {
    check_baskets(SELLER_MISCOUNTS, "lost", 10);
}

static void test_misnamed(void) {
    check_baskets(SELLER_MISNAMES, "lost", 10);
}

static void test_omitted(void) {
    check_baskets(SELLER_OMITS, "torn", 10);
}

static void test_repeated(void) {
    check_baskets(SELLER_REPEATS, "duplicated", 10);
}

static void test_same_order(void) {
    check_baskets(SELLER_SAME_ORDER, "lost", 10);
}

/* A retry of a basket whose answer was lost buys it again. */
static void test_retry_buys_twice(void) {
    struct attack_result outcome =
        attack(start(SELLER_DROPS_REPLIES | SELLER_SELLS_TWICE), "--basket-lines 3 --retries");
    attack_check_violated(&outcome, "phantom", 10);
}

static const char transfers[] = "--transfers 50 --duplicates 20";

static void check_transfers(unsigned faults, const char *name, long long least) {
    struct attack_result outcome = attack(start(faults), transfers);
    attack_check_violated(&outcome, name, least);
}

static void test_drained(void) {
    check_transfers(SELLER_DRAINS, "unbalanced", 10);
}

static void test_moved_twice(void) {
    check_transfers(SELLER_MOVES_TWICE, "unbalanced", 5);
}

static void test_moved_astray(void) {
    check_transfers(SELLER_MOVES_ASTRAY, "unbalanced", 5);
}

static void test_moved_nothing(void) {
    check_transfers(SELLER_MOVES_NOTHING, "unbalanced", 5);
}

static void test_moved_refused(void) {
    check_transfers(SELLER_MOVES_REFUSED, "unbalanced", 5);
}

static void test_transfer_told_otherwise(void) {
    check_transfers(SELLER_MISCOUNTS, "lost", 10);
    check_transfers(SELLER_MISNAMES, "lost", 10);
}

static void test_transfer_retold(void) {
    check_transfers(SELLER_RETELLS, "duplicated", 1);
}

static void test_transfer_again(void) {
    struct attack_result outcome = attack(start(SELLER_SELLS_TWICE), "--transfers 100 --duplicates 50");
    attack_check_violated(&outcome, "duplicated", 1);
}

static void test_transfer_refused_after_all(void) {
    struct attack_result outcome = attack(start(SELLER_FORGETS), "--transfers 100 --duplicates 50");
    attack_check_violated(&outcome, "duplicated", 1);
}

/* The retry of a transfer whose answer was lost moves the units again. */
static void test_transfer_retry_moves_twice(void) {
    struct attack_result outcome =
        attack(start(SELLER_DROPS_REPLIES | SELLER_SELLS_TWICE), "--transfers 100 --retries");
    attack_check_violated(&outcome, "unbalanced", 10);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("baskets: a right seller is clean", test_right_baskets);
    harness_run("baskets: a right seller of 32 lines is clean", test_large_baskets);
    harness_run("baskets: beside purchases", test_beside_purchases);
    harness_run("baskets: lost replies, errors and nonsense are settled", test_lost_replies);
    harness_run("baskets: unresolved is not clean", test_unresolved);
    harness_run("baskets: catches a lost line", test_line_lost);
    harness_run("baskets: catches a lost line that the audit conceals", test_line_lost_and_concealed);
    harness_run("baskets: catches a line for somebody else", test_line_altered);
    harness_run("baskets: catches a line told as confirmed, but cancelled", test_line_cancelled);
    harness_run("baskets: catches a line with two orders", test_line_doubled);
    harness_run("baskets: catches a line of a refused basket", test_line_kept);
    harness_run("baskets: catches oversold", test_oversold);
    harness_run("baskets: catches two for one key", test_sold_twice);
    harness_run("baskets: catches another answer to a repeated key", test_retold);
    harness_run("baskets: catches winners told sold-out", test_winner_refused);
    harness_run("baskets: catches orders in the wrong sequence", test_mixed_up);
    harness_run("baskets: catches a wrong quantity in the answer", test_miscounted);
    harness_run("baskets: catches a wrong user in the answer", test_misnamed);
    harness_run("baskets: catches an order missing in the answer", test_omitted);
    harness_run("baskets: catches an order too many in the answer", test_repeated);
    harness_run("baskets: catches one order for all lines", test_same_order);
    harness_run("baskets: catches a retry that buys twice", test_retry_buys_twice);
    harness_run("transfers: a right seller is clean", test_right_transfers);
    harness_run("transfers: catches units that arrive nowhere", test_drained);
    harness_run("transfers: catches one carried out twice", test_moved_twice);
    harness_run("transfers: catches units that arrive elsewhere", test_moved_astray);
    harness_run("transfers: catches one not carried out", test_moved_nothing);
    harness_run("transfers: catches one refused, but carried out", test_moved_refused);
    harness_run("transfers: catches one told as another", test_transfer_told_otherwise);
    harness_run("transfers: catches another answer to a repeated key", test_transfer_retold);
    harness_run("transfers: catches two for one key", test_transfer_again);
    harness_run("transfers: catches a refusal after an acknowledgement", test_transfer_refused_after_all);
    harness_run("transfers: catches a retry that moves twice", test_transfer_retry_moves_twice);
    return harness_finish();
}
