/* Each fault of a seller must be caught by its counter. */
#include "loadtest/test/attack.h"
#include "loadtest/test/seller.h"
#include "test/harness.h"

static void test_oversells(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_OVERSELLS, STOCK), "");
    attack_check_violated(&outcome, "oversold", 5);
    CHECK_INT(attack_verdict_of(&outcome, "oversold"), 5);
}

static void test_oversells_and_lies(void) {
    struct attack_result outcome =
        attack_sale(seller_start(SELLER_OVERSELLS | SELLER_LIES, STOCK), "--duplicates 20");
    attack_check_violated(&outcome, "oversold", 5);
    CHECK_INT(attack_verdict_of(&outcome, "oversold"), 5);
}

static void test_loses(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_LOSES, STOCK), "");
    attack_check_violated(&outcome, "lost", 10);
    CHECK_INT(attack_verdict_of(&outcome, "lost"), 10);
}

static void test_loses_and_lies(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_LOSES | SELLER_LIES, STOCK), "");
    attack_check_violated(&outcome, "lost", 10);
    CHECK_INT(attack_verdict_of(&outcome, "lost"), 10);
}

static void test_alters(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_ALTERS, STOCK), "");
    attack_check_violated(&outcome, "lost", 10);
    CHECK_INT(attack_verdict_of(&outcome, "lost"), 10);
}

static void test_sells_twice(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_SELLS_TWICE, STOCK), "--duplicates 50");
    attack_check_violated(&outcome, "duplicated", 1);
}

static void test_forgets(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_FORGETS, STOCK), "--duplicates 50");
    attack_check_violated(&outcome, "duplicated", 1);
}

static void test_phantom(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_PHANTOM, STOCK), "");
    attack_check_violated(&outcome, "phantom", 9);
}

/* The seller sells again for the retry after a lost reply: no answer acknowledges the first order. */
static void test_retry_buys_twice(void) {
    struct attack_result outcome =
        attack_sale(seller_start(SELLER_DROPS_REPLIES | SELLER_SELLS_TWICE, STOCK), "--retries");
    attack_check_violated(&outcome, "phantom", 10);
}

/* The retry after a lost reply is answered sold-out, though the first request won. */
static void test_retry_hears_sold_out(void) {
    struct attack_result outcome =
        attack_sale(seller_start(SELLER_DROPS_REPLIES | SELLER_FORGETS, STOCK), "--retries");
    attack_check_violated(&outcome, "phantom", 10);
}

static void test_undersells(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_UNDERSELLS, STOCK), "");
    attack_check_violated(&outcome, "undersold", 5);
    CHECK_INT(attack_verdict_of(&outcome, "undersold"), 5);
}

static void test_unbalanced(void) {
    struct attack_result outcome = attack_sale(seller_start(SELLER_UNBALANCED, STOCK), "");
    attack_check_violated(&outcome, "none of them", 0);
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
    harness_run("faults: catches oversold", test_oversells);
    harness_run("faults: catches oversold that the audit conceals", test_oversells_and_lies);
    harness_run("faults: catches lost orders", test_loses);
    harness_run("faults: catches lost orders that the audit conceals", test_loses_and_lies);
    harness_run("faults: catches orders for another user", test_alters);
    harness_run("faults: catches two orders for one key", test_sells_twice);
    harness_run("faults: catches winners told sold-out", test_forgets);
    harness_run("faults: catches phantom orders", test_phantom);
    harness_run("faults: catches a retry that buys twice", test_retry_buys_twice);
    harness_run("faults: catches a retry that hears sold-out", test_retry_hears_sold_out);
    harness_run("faults: catches undersold", test_undersells);
    harness_run("faults: catches an audit that is not conserved", test_unbalanced);
    harness_run("faults: unresolved is not clean", test_unresolved);
    harness_run("faults: without an audit there is no verdict", test_audit_goes_away);
    harness_run("faults: an inexact audit is requested again", test_audit_gets_exact);
    harness_run("faults: with audits that are never exact there is no verdict", test_audit_never_exact);
    return harness_finish();
}
