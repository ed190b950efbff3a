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

#define BASKETS   "--basket-lines 3 --duplicates 20"
#define TRANSFERS "--transfers 50 --duplicates 20"
static const struct attack_fault faults[] = {
    /* Every tenth order of an item: some baskets lose one line. */
    {"baskets: catches a lost line", SELLER_LOSES, BASKETS, "lost", 10, false, "torn"},
    {"baskets: catches a lost line that the audit conceals", SELLER_LOSES | SELLER_LIES, BASKETS, "lost", 10,
     false, "torn"},
    {"baskets: catches a line for somebody else", SELLER_ALTERS, BASKETS, "lost", 10, false, NULL},
    {"baskets: catches a line told as confirmed, but cancelled", SELLER_CANCELS, BASKETS, "lost", 10, false,
     NULL},
    {"baskets: catches a line with two orders", SELLER_DOUBLES_LINE, BASKETS, "phantom", 10, false, NULL},
    {"baskets: catches a line of a refused basket", SELLER_KEEPS_LINE, BASKETS, "phantom", 1, false, NULL},
    {"baskets: catches oversold", SELLER_OVERSELLS, BASKETS, "oversold", 5, false, NULL},
    {"baskets: catches two for one key", SELLER_SELLS_TWICE, BASKETS, "duplicated", 3, false, NULL},
    {"baskets: catches another answer to a repeated key", SELLER_RETELLS, BASKETS, "duplicated", 1, false,
     NULL},
    {"baskets: catches winners told sold-out", SELLER_FORGETS, BASKETS, "duplicated", 1, false, NULL},
    {"baskets: catches orders in the wrong sequence", SELLER_MIXES_UP, BASKETS, "lost", 10, false, NULL},
    {"baskets: catches a wrong quantity in the answer", SELLER_MISCOUNTS, BASKETS, "lost", 10, false, NULL},
    {"baskets: catches a wrong user in the answer", SELLER_MISNAMES, BASKETS, "lost", 10, false, NULL},
    {"baskets: catches an order missing in the answer", SELLER_OMITS, BASKETS, "torn", 10, false, NULL},
    {"baskets: catches an order too many in the answer", SELLER_REPEATS, BASKETS, "duplicated", 10, false,
     NULL},
    {"baskets: catches one order for all lines", SELLER_SAME_ORDER, BASKETS, "lost", 10, false, NULL},
    {"baskets: catches oversold beside purchases", SELLER_OVERSELLS, "--basket-lines 3 --purchases 60",
     "oversold", 5, false, NULL},
    /* A retry of a basket whose answer was lost buys it again. */
    {"baskets: catches a retry that buys twice", SELLER_DROPS_REPLIES | SELLER_SELLS_TWICE,
     "--basket-lines 3 --retries", "phantom", 10, false, NULL},
    {"transfers: catches units that arrive nowhere", SELLER_DRAINS, TRANSFERS, "unbalanced", 10, false, NULL},
    {"transfers: catches one carried out twice", SELLER_MOVES_TWICE, TRANSFERS, "unbalanced", 5, false, NULL},
    {"transfers: catches units that arrive elsewhere", SELLER_MOVES_ASTRAY, TRANSFERS, "unbalanced", 5, false,
     NULL},
    {"transfers: catches one not carried out", SELLER_MOVES_NOTHING, TRANSFERS, "unbalanced", 5, false, NULL},
    {"transfers: catches one refused, but carried out", SELLER_MOVES_REFUSED, TRANSFERS, "unbalanced", 5,
     false, NULL},
    {"transfers: catches a wrong quantity in the answer", SELLER_MISCOUNTS, TRANSFERS, "lost", 10, false,
     NULL},
    {"transfers: catches a wrong item in the answer", SELLER_MISNAMES, TRANSFERS, "lost", 10, false, NULL},
    {"transfers: catches another answer to a repeated key", SELLER_RETELLS, TRANSFERS, "duplicated", 1, false,
     NULL},
    {"transfers: catches two for one key", SELLER_SELLS_TWICE, "--transfers 100 --duplicates 50",
     "duplicated", 1, false, NULL},
    {"transfers: catches a refusal after an acknowledgement", SELLER_FORGETS,
     "--transfers 100 --duplicates 50", "duplicated", 1, false, NULL},
    /* The retry of a transfer whose answer was lost moves the units again. */
    {"transfers: catches a retry that moves twice", SELLER_DROPS_REPLIES | SELLER_SELLS_TWICE,
     "--transfers 100 --retries", "unbalanced", 10, false, NULL},
};
static const struct attack_fault *fault; /* of the running test */

static void test_fault(void) {
    struct attack_result outcome = attack(start(fault->faults), fault->flags);
    attack_check_fault(&outcome, fault);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("baskets: a right seller is clean", test_right_baskets);
    harness_run("baskets: a right seller of 32 lines is clean", test_large_baskets);
    harness_run("baskets: beside purchases", test_beside_purchases);
    harness_run("baskets: lost replies, errors and nonsense are settled", test_lost_replies);
    harness_run("baskets: unresolved is not clean", test_unresolved);
    harness_run("transfers: a right seller is clean", test_right_transfers);
    for (fault = faults; fault < faults + sizeof faults / sizeof faults[0]; fault++)
        harness_run(fault->name, test_fault);
    return harness_finish();
}
