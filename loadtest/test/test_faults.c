/* Each fault of a seller must be caught by its counter. */
#include "loadtest/test/attack.h"
#include "loadtest/test/seller.h"
#include "test/harness.h"

static const struct attack_fault faults[] = {
    {"faults: catches oversold", SELLER_OVERSELLS, "", "oversold", 5, true, NULL},
    {"faults: catches oversold that the audit conceals", SELLER_OVERSELLS | SELLER_LIES, "--duplicates 20",
     "oversold", 5, true, NULL},
    {"faults: catches lost orders", SELLER_LOSES, "", "lost", 10, true, NULL},
    {"faults: catches lost orders that the audit conceals", SELLER_LOSES | SELLER_LIES, "", "lost", 10, true,
     NULL},
    {"faults: catches orders for another user", SELLER_ALTERS, "", "lost", 10, true, NULL},
    {"faults: catches two orders for one key", SELLER_SELLS_TWICE, "--duplicates 50", "duplicated", 1, false,
     NULL},
    {"faults: catches winners told sold-out", SELLER_FORGETS, "--duplicates 50", "duplicated", 1, false,
     NULL},
    {"faults: catches phantom orders", SELLER_PHANTOM, "", "phantom", 9, false, NULL},
    /* The seller sells again for the retry after a lost reply: no answer acknowledges the first order. */
    {"faults: catches a retry that buys twice", SELLER_DROPS_REPLIES | SELLER_SELLS_TWICE, "--retries",
     "phantom", 10, false, NULL},
    /* The retry after a lost reply is answered sold-out, though the first request won. */
    {"faults: catches a retry that hears sold-out", SELLER_DROPS_REPLIES | SELLER_FORGETS, "--retries",
     "phantom", 10, false, NULL},
    {"faults: catches undersold", SELLER_UNDERSELLS, "", "undersold", 5, true, NULL},
};
static const struct attack_fault *fault; /* of the running test */

static void test_fault(void) {
    struct attack_result outcome = attack_sale(seller_start(fault->faults, STOCK), fault->flags);
    attack_check_fault(&outcome, fault);
}

static void test_unbalanced(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_UNBALANCED, STOCK), "");
    attack_check_fault(&outcome, &(struct attack_fault){.counter = NULL});
    CHECK_HAS(outcome.text, "not conserved: the audit says that the books");
    CHECK_HAS(outcome.text, " 100   orders of this run were acknowledged");
    CHECK_HAS(outcome.text, " 100   units held or sold\n");
    CHECK_HAS(outcome.text, " 107   units held or sold, by the counters of the item");
    CHECK_HAS(outcome.json, "\"conserved\": false");
    CHECK_HAS(outcome.json, "\"counted\": 107");
}

static void test_unresolved(void) {
    struct seller *seller = seller_start(SELLER_SILENT, STOCK);
    struct attack_result outcome = attack_sale(seller, "--requests 60 --timeout 500 --settle 1s");
    attack_check_code(&outcome, 3);
    CHECK_INT(attack_number_of(&outcome, "timed-out"), 20);
    CHECK_INT(attack_verdict_of(&outcome, "unresolved"), 20);
    CHECK_HAS(outcome.text, "NO VERDICT");
    CHECK_HAS(outcome.text, "20 unresolved");
}

static void test_audit_goes_away(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_AUDITS_ONCE, STOCK), "--settle 300ms");
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "no audit");
    CHECK_HAS(outcome.json, "\"books_after\": null");
}

static void test_audit_gets_exact(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_INEXACT, STOCK), "");
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "CLEAN");
}

static void test_audit_never_exact(void) {
    struct attack_result outcome =
        attack_sale(seller_start(SELLER_INEXACT | SELLER_AUDITS_ONCE, STOCK), "--settle 300ms");
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "no audit: the audit was never exact");
    CHECK_HAS(outcome.json, "\"books_after\": null");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (fault = faults; fault < faults + sizeof faults / sizeof faults[0]; fault++)
        harness_run(fault->name, test_fault);
    harness_run("faults: catches an audit that is not conserved", test_unbalanced);
    harness_run("faults: unresolved is not clean", test_unresolved);
    harness_run("faults: without an audit there is no verdict", test_audit_goes_away);
    harness_run("faults: an inexact audit is requested again", test_audit_gets_exact);
    harness_run("faults: with audits that are never exact there is no verdict", test_audit_never_exact);
    return harness_finish();
}
