/* seckill-load with --items: a seller of many items is judged by each of them. */
#include "loadtest/request_plan.h"
#include "loadtest/test/attack.h"
#include "loadtest/test/seller.h"
#include "test/harness.h"

/* Enough requests to sell every item out: on average a hundred for the twenty units of each. */
enum { ITEMS = 40, EACH = 20, ALL = ITEMS * EACH };

static struct attack_result attack_many(const struct seller *seller, const char *more) {
    return attack_sale(seller,
                       harness_format("--items 40 --requests 4000%s%s", more[0] != '\0' ? " " : "", more));
}

/* One item, chosen by the seed, has the faults; the others are honest. */
static struct attack_result attack_one_faulty(unsigned faults, const char *more) {
    int faulty = (int)(harness_seed() % ITEMS);
    return attack_many(seller_start_many(ITEMS, faulty, faults, EACH), more);
}

static void test_honest(void) {
    struct seller *seller = seller_start_many(ITEMS, 0, 0, EACH);
    struct attack_result outcome = attack_many(seller, "--duplicates 20");
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "items demo-0 to demo-39 at ");
    CHECK_INT(attack_number_of(&outcome, "items"), ITEMS);
    CHECK_INT(attack_number_of(&outcome, "orders"), ALL);
    CHECK_INT(seller_orders(seller), ALL);
    CHECK_HAS(outcome.text, "books before stock 800, available 800, held 0, sold 0, orders 0\n");
    CHECK_HAS(outcome.text, "books after  stock 800, available 0, held 0, sold 800, orders 800\n");
    CHECK(attack_number_of(&outcome, "replayed") > 0);
    CHECK_INT(attack_number_of(&outcome, "accepted"), ALL + attack_number_of(&outcome, "replayed"));
    CHECK_INT(attack_number_of(&outcome, "sold-out"), attack_number_of(&outcome, "rejected"));
}

/* Many units are left, and no request was rejected. */
static void test_plenty(void) {
    struct seller *seller = seller_start_many(ITEMS, 0, 0, 1000);
    struct attack_result outcome = attack_sale(seller, "--items 40");
    attack_check_code(&outcome, 0);
    CHECK_INT(attack_number_of(&outcome, "accepted"), 1000);
    CHECK_HAS(outcome.text, "available 39000, held 0, sold 1000, orders 1000\n");
}

static void test_lost_replies(void) {
    struct attack_result outcome = attack_one_faulty(SELLER_DROPS_REPLIES, "--retries --duplicates 20");
    attack_check_code(&outcome, 0);
    CHECK(attack_number_of(&outcome, "connection-broken") > 0);
}

static const struct attack_fault faults[] = {
    {"many items: catches one oversold", SELLER_OVERSELLS, "", "oversold", 5, true, NULL},
    {"many items: catches lost orders of one", SELLER_LOSES | SELLER_LIES, "", "lost", 2, true, NULL},
    {"many items: catches orders of one for somebody else", SELLER_ALTERS, "", "lost", 2, true, NULL},
    {"many items: catches two orders for one key", SELLER_SELLS_TWICE, "--duplicates 50", "duplicated", 1,
     false, NULL},
    {"many items: catches phantom orders of one", SELLER_PHANTOM, "", "phantom", 1, false, NULL},
    {"many items: catches one undersold", SELLER_UNDERSELLS, "", "undersold", 5, true, NULL},
};
static const struct attack_fault *fault; /* of the running test */

static void test_fault(void) {
    struct attack_result outcome = attack_one_faulty(fault->faults, fault->flags);
    attack_check_fault(&outcome, fault);
}

/* The item most in demand is oversold, and its audit hides it; the units left of other items must not hide it
 * too. */
static void test_oversold_behind_plenty(void) {
    enum { REQUESTS = 800, EXTRA = 5 };
    struct options options = {.items = ITEMS, .seed = harness_seed() >> 1}; /* that of attack_sale */
    int wanted[ITEMS] = {0};
    int busiest = 0;
    for (uint32_t key = 0; key < REQUESTS; key++) {
        struct planned_request planned;
        plan_of_key(&(struct plan){.options = &options}, key, &planned);
        wanted[planned.items[0]]++;
    }
    for (int i = 0; i < ITEMS; i++)
        busiest = wanted[i] > wanted[busiest] ? i : busiest;
    struct seller *seller =
        seller_start_many(ITEMS, busiest, SELLER_OVERSELLS | SELLER_LIES, wanted[busiest] - EXTRA);
    struct attack_result outcome = attack_sale(seller, harness_format("--items 40 --requests %d", REQUESTS));
    attack_check_fault(&outcome,
                       &(struct attack_fault){.counter = "oversold", .least = EXTRA, .exact = true});
}

static void test_unbalanced(void) {
    struct attack_result outcome = attack_one_faulty(SELLER_UNBALANCED, "");
    attack_check_fault(&outcome, &(struct attack_fault){.counter = NULL});
    CHECK_HAS(outcome.json, "\"conserved\": false");
}

static void test_audit_goes_away(void) {
    struct attack_result outcome = attack_one_faulty(SELLER_AUDITS_ONCE, "--settle 300ms");
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "no audit: the audit failed");
}

static void test_missing_item(void) {
    struct seller *seller = seller_start_many(ITEMS - 1, 0, 0, EACH);
    struct attack_result outcome = attack_many(seller, "");
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "no such item");
    CHECK_INT(seller_requests(seller), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("many items: an honest seller is clean", test_honest);
    harness_run("many items: units left without a rejection are clean", test_plenty);
    harness_run("many items: lost replies of one are retried", test_lost_replies);
    for (fault = faults; fault < faults + sizeof faults / sizeof faults[0]; fault++)
        harness_run(fault->name, test_fault);
    harness_run("many items: catches one oversold that the audit conceals", test_oversold_behind_plenty);
    harness_run("many items: catches one that is not conserved", test_unbalanced);
    harness_run("many items: without the audit of one there is no verdict", test_audit_goes_away);
    harness_run("many items: a missing item", test_missing_item);
    return harness_finish();
}
