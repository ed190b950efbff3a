/* seckill-load against a seller in the test: a right one is clean, and each fault is caught by its counter;
 * with one item, with many of which one is faulty, and with baskets and transfers. test_verdict.c has
 * every way to a counter; here is one of each, through the whole program. */
#include <string.h>

#include "loadtest/request_plan.h"
#include "loadtest/test/attack.h"
#include "loadtest/test/seller.h"
#include "test/harness.h"

/* Enough of 2000 requests to sell every item out: on average a hundred for the twenty units of each. */
enum { ITEMS = 20, EACH = 20, ALL = ITEMS * EACH };

/* What is sold, and how. */
enum shop {
    ONE,   /* one item */
    MANY,  /* 20 items, of which one, chosen by the seed, has the faults */
    MIXED, /* 20 items with 30 units, in baskets and transfers; all have the faults */
};

static struct attack_result attack(enum shop shop, const char *faults, const char *more) {
    const char *separator = *more ? " " : "";
    if (shop == ONE)
        return attack_sale(seller_start(faults, STOCK), more);
    if (shop == MANY)
        return attack_sale(seller_start_many(ITEMS, (int)(harness_seed() % ITEMS), faults, EACH),
                           harness_format("--items 20 --requests 2000%s%s", separator, more));
    return attack_sale(seller_start_many(20, 20, faults, 30),
                       harness_format("--items 20%s%s", separator, more));
}

/* ---- violations ---- */

/* The verdict is a violation: each counter that is named moved by at least, or exactly, that, and no other
 * moved. */
static void check_counters(const struct attack_result *outcome, const char *counters, long long least,
                           bool exact) {
    static const char *const names[] = {"oversold",  "lost", "duplicated", "phantom",
                                        "undersold", "torn", "unbalanced", "unresolved"};
    attack_check_code(outcome, 1);
    CHECK_HAS(outcome->text, "NOT CLEAN  ");
    CHECK_HAS(outcome->json, "\"clean\": false");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        long long count = attack_verdict_of(outcome, names[i]);
        bool moves = strstr(counters, names[i]);
        if (moves && (count < least || (exact && count != least)))
            FAIL("%s is not %s%lld: %s", names[i], exact ? "" : "at least ", least, outcome->text);
        if (!moves && count != 0)
            FAIL("%s moved too: %s", names[i], outcome->text);
    }
}

#define BASKETS   "--basket-lines 3 --duplicates 20"
#define TRANSFERS "--transfers 50 --duplicates 20"

static const struct fault {
    const char *name; /* of the test */
    enum shop shop;
    const char *faults; /* of the seller */
    const char *flags;
    const char *counters; /* that must move; no other may */
    int least;
    bool exact; /* it is exactly that */
} faults[] = {
    {"faults: catches oversold that the audit conceals", ONE, "oversells lies", "--duplicates 20", "oversold",
     5, true},
    {"faults: catches lost orders that the audit conceals", ONE, "loses lies", "", "lost", 10, true},
    {"faults: catches orders for another user", ONE, "alters", "", "lost", 10, true},
    {"faults: catches two orders for one key", ONE, "sells-twice", "--duplicates 50", "duplicated", 1, false},
    {"faults: catches phantom orders", ONE, "phantom", "", "phantom", 9, false},
    {"faults: catches undersold", ONE, "undersells", "", "undersold", 5, true},
    /* Every tenth order of an item: some baskets lose one line. */
    {"baskets: catches a lost line", MIXED, "loses", BASKETS, "lost torn", 10, false},
    {"baskets: catches a line told as confirmed, but cancelled", MIXED, "cancels", BASKETS, "lost", 10,
     false},
    {"baskets: catches another answer to a repeated key", MIXED, "retells", BASKETS, "duplicated", 1, false},
    {"transfers: catches units that arrive nowhere", MIXED, "drains", TRANSFERS, "unbalanced", 10, false},
    {"transfers: catches another answer to a repeated key", MIXED, "retells", TRANSFERS, "duplicated", 1,
     false},
};
static const struct fault *fault; /* of the running test */

static void test_fault(void) {
    struct attack_result outcome = attack(fault->shop, fault->faults, fault->flags);
    check_counters(&outcome, fault->counters, fault->least, fault->exact);
}

static void test_unbalanced(void) {
    struct attack_result outcome = attack(ONE, "unbalanced", "");
    check_counters(&outcome, "", 0, true);
    CHECK_HAS(outcome.text, "not conserved: the audit says that the books");
    CHECK_HAS(outcome.text, " 100   orders of this run were acknowledged");
    CHECK_HAS(outcome.text, " 100   units held or sold\n");
    CHECK_HAS(outcome.text, " 107   units held or sold, by the counters of the item");
    CHECK_HAS(outcome.json, "\"conserved\": false");
    CHECK_HAS(outcome.json, "\"counted\": 107");
}

/* The item most in demand is oversold, and its audit hides it; the units left of other items must not hide it
 * too. */
static void test_oversold_behind_plenty(void) {
    enum { REQUESTS = 400, EXTRA = 5 };
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
    struct seller *seller = seller_start_many(ITEMS, busiest, "oversells lies", wanted[busiest] - EXTRA);
    struct attack_result outcome = attack_sale(seller, harness_format("--items 20 --requests %d", REQUESTS));
    check_counters(&outcome, "oversold", EXTRA, true);
}

/* ---- no verdict ---- */

static const struct no_verdict {
    const char *name, *faults, *flags, *says;
    enum shop shop;
    int unresolved;
} no_verdicts[] = {
    {"faults: unresolved is not clean", "silent", "--requests 60 --timeout 200 --settle 300ms",
     "20 unresolved", ONE, 20},
    /* Some baskets and transfers stay unknown; no other counter may count them. */
    {"baskets: unresolved is not clean", "silent",
     "--basket-lines 2 --transfers 50 --requests 60 --timeout 200 --settle 300ms", "20 unresolved", MIXED,
     20},
    {"faults: without an audit there is no verdict", "audits-once", "--settle 300ms", "no audit", ONE, 0},
    {"faults: with audits that are never exact there is no verdict", "inexact audits-once", "--settle 300ms",
     "no audit: the audit was never exact", ONE, 0},
    {"many items: without the audit of one there is no verdict", "audits-once", "--settle 300ms",
     "no audit: the audit failed", MANY, 0},
};
static const struct no_verdict *no_verdict; /* of the running test */

static void test_no_verdict(void) {
    struct attack_result outcome = attack(no_verdict->shop, no_verdict->faults, no_verdict->flags);
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "NO VERDICT");
    CHECK_HAS(outcome.text, no_verdict->says);
    CHECK_INT(attack_verdict_of(&outcome, "unresolved"), no_verdict->unresolved);
    if (!no_verdict->unresolved)
        CHECK_HAS(outcome.json, "\"books_after\": null");
}

static void test_audit_gets_exact(void) {
    struct attack_result outcome = attack(ONE, "inexact", "");
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "CLEAN");
}

/* ---- right sellers ---- */

static void test_many(void) {
    struct seller *seller = seller_start_many(ITEMS, 0, "", EACH);
    struct attack_result outcome = attack_sale(seller, "--items 20 --requests 2000 --duplicates 20");
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "items demo-0 to demo-19 at ");
    CHECK_INT(attack_number_of(&outcome, "items"), ITEMS);
    CHECK_INT(attack_number_of(&outcome, "orders"), ALL);
    CHECK_INT(seller_orders(seller), ALL);
    CHECK_HAS(outcome.text, "books before stock 400, available 400, held 0, sold 0, orders 0\n");
    CHECK_HAS(outcome.text, "books after  stock 400, available 0, held 0, sold 400, orders 400\n");
    CHECK(attack_number_of(&outcome, "replayed") > 0);
    CHECK_INT(attack_number_of(&outcome, "accepted"), ALL + attack_number_of(&outcome, "replayed"));
    CHECK_INT(attack_number_of(&outcome, "sold-out"), attack_number_of(&outcome, "rejected"));
    /* Many units are left, and no request was rejected. */
    outcome = attack_sale(seller_start_many(ITEMS, 0, "", 1000), "--items 20");
    attack_check_code(&outcome, 0);
    CHECK_INT(attack_number_of(&outcome, "accepted"), 500);
    CHECK_HAS(outcome.text, "available 19500, held 0, sold 500, orders 500\n");
}

static void test_missing_item(void) {
    struct seller *seller = seller_start_many(ITEMS - 1, 0, "", EACH);
    struct attack_result outcome = attack_sale(seller, "--items 20");
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "no such item");
    CHECK_INT(seller_requests(seller), 0);
}

static const struct right {
    const char *name;
    const char *faults; /* that must not matter */
    const char *flags, *text, *json, *also;
} rights[] = {
    {"baskets: a right seller is clean", "", "--basket-lines 3 --duplicates 20 --zipf 0.5",
     "items demo-0 to demo-19, baskets of 3, zipf 0.5 at ", "\"basket_lines\": 3", "\"sold-out\": "},
    {"baskets: a right seller of 32 lines is clean", "awkward",
     "--basket-lines 32 --duplicates 50 --requests 200",
     "baskets             200 attempts: ", "\"basket_lines\": 32", "\"attempts\": 200"},
    {"baskets: beside purchases", "", "--basket-lines 3 --purchases 60 --transfers 10 --duplicates 20",
     "baskets of 3, 60 % purchases, 10 % transfers at ", "\"baskets\": {", "\"purchases_percent\": 60"},
    {"transfers: a right seller is clean", "", "--transfers 40 --quantity 2 --duplicates 20",
     "40 % transfers", "\"transfers\": {", "\"purchases\": {"},
    {"transfers: nothing else is clean", "", "--transfers 100 --duplicates 20 --zipf 1", "100 % transfers",
     "\"transfers\": {", "\"orders\": 0"},
};
static const struct right *right; /* of the running test */

static void test_right(void) {
    struct seller *seller = seller_start_many(20, 20, right->faults, 30);
    struct attack_result outcome = attack_sale(seller, harness_format("--items 20 %s", right->flags));
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, right->text);
    CHECK_HAS(outcome.json, right->json);
    CHECK_HAS(outcome.json, right->also);
    CHECK(attack_number_of(&outcome, "accepted") > attack_number_of(&outcome, "replayed"));
    CHECK(attack_number_of(&outcome, "replayed") > 0);
    CHECK_INT(attack_number_of(&outcome, "unknown"), 0);
    CHECK_INT(seller_orders(seller), attack_number_of(&outcome, "orders"));
}

/* Replies that are lost, errors and nonsense are settled, with retries and without. */
static void test_lost_replies(void) {
    static const struct {
        const char *faults, *cause, *flags;
        enum shop shop;
        int least;
    } cases[] = {
        {"drops-replies", "connection-broken", "--duplicates 20 --retries", MANY, 1},
        {"drops-replies", "connection-broken", "--basket-lines 2 --transfers 30", MIXED, 50},
        {"drops-replies", "connection-broken", "--basket-lines 2 --transfers 30 --retries", MIXED, 50},
        {"says-503", "overloaded", "--basket-lines 2 --transfers 30 --retries", MIXED, 50},
        {"garbles", "unreadable-answer", "--basket-lines 2 --transfers 30 --retries", MIXED, 50},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attack_result outcome = attack(cases[i].shop, cases[i].faults, cases[i].flags);
        attack_check_code(&outcome, 0);
        CHECK_INT(attack_number_of(&outcome, cases[i].cause), attack_number_of(&outcome, "unknown"));
        CHECK(attack_number_of(&outcome, "unknown") >= cases[i].least);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (fault = faults; fault < faults + sizeof faults / sizeof *faults; fault++)
        harness_run(fault->name, test_fault);
    harness_run("faults: catches an audit that is not conserved", test_unbalanced);
    harness_run("many items: catches one oversold that the audit conceals", test_oversold_behind_plenty);
    for (no_verdict = no_verdicts; no_verdict < no_verdicts + sizeof no_verdicts / sizeof *no_verdicts;
         no_verdict++)
        harness_run(no_verdict->name, test_no_verdict);
    harness_run("faults: an inexact audit is requested again", test_audit_gets_exact);
    harness_run("many items: a right seller is clean", test_many);
    harness_run("many items: a missing item", test_missing_item);
    for (right = rights; right < rights + sizeof rights / sizeof *rights; right++)
        harness_run(right->name, test_right);
    harness_run("many items, baskets, transfers: lost replies, errors and nonsense are settled",
                test_lost_replies);
    return harness_finish();
}
