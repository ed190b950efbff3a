/* seckill-load as people run it, against a seller that is honest, awkward, or wrong in one way. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "loadtest/test/seller.h"
#include "test/harness.h"

enum { STOCK = 100, TIME_MS = 60000 };

struct outcome {
    int code;
    const char *text; /* standard output and error */
    const char *json; /* "" when there is none */
};

static int runs;

static const char *file_name(const char *suffix) {
    return harness_format("%s/run-%d.%s", harness_dir(), runs, suffix);
}

static const char *read_file(const char *path) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return "";
    char *text = harness_alloc(65536);
    size_t length = fread(text, 1, 65535, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

/* Starts seckill-load with the words of `line`. */
static void start(struct proc *proc, const char *line) {
    const char *argv[48] = {harness_format("%s/seckill-load", harness_build())};
    int argc = 1;
    char *rest = harness_format("%s", line);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        argv[argc++] = word;
    runs++;
    argv[argc++] = "--json";
    argv[argc++] = file_name("json");
    proc_spawn(proc, argv, NULL, file_name("log"));
}

static struct outcome finish(struct proc *proc) {
    struct outcome outcome = {.json = read_file(file_name("json"))};
    int status = 0;
    if (!proc_wait(proc, TIME_MS, &status))
        FAIL("still running after %d ms: %s", TIME_MS, proc_output(proc));
    outcome.text = proc_output(proc);
    outcome.json = read_file(file_name("json"));
    if (!WIFEXITED(status))
        FAIL("ended by signal %d: %s", WTERMSIG(status), outcome.text);
    outcome.code = WEXITSTATUS(status);
    return outcome;
}

static struct outcome run(const char *line) {
    struct proc proc;
    start(&proc, line);
    return finish(&proc);
}

/* A sale of all the stock in 1000 purchases, with the options of `more`. */
static struct outcome attack(const struct seller *seller, const char *more) {
    return run(harness_format("--url http://127.0.0.1:%d --item demo --token test-token --users 500 "
                              "--connections 16 --requests 1000 --seed %llu%s%s",
                              seller_port(seller), (unsigned long long)(harness_seed() >> 1),
                              more[0] != '\0' ? " " : "", more));
}

static long long number_after(const char *text, const char *name) {
    const char *at = strstr(text, harness_format("\"%s\": ", name));
    if (at == NULL)
        FAIL("no %s in %s", name, text);
    return strtoll(at + strlen(name) + 4, NULL, 10);
}

static long long number_of(const struct outcome *outcome, const char *name) {
    return number_after(outcome->json, name);
}

static long long verdict_of(const struct outcome *outcome, const char *name) {
    const char *verdict = strstr(outcome->json, "\"verdict\": {");
    CHECK(verdict != NULL);
    return number_after(verdict, name);
}

static void check_code(const struct outcome *outcome, int code) {
    if (outcome->code != code)
        FAIL("exit status %d, not %d: %s", outcome->code, code, outcome->text);
}

/* Clean, all sold, and each request has one outcome. */
static void check_clean(const struct outcome *outcome, struct seller *seller) {
    check_code(outcome, 0);
    CHECK_HAS(outcome->text, "CLEAN  1000 attempts: ");
    CHECK_HAS(outcome->text, " 0 lost, 0 duplicated, 0 oversold, ");
    CHECK_HAS(outcome->json, "\"clean\": true");
    CHECK_INT(number_of(outcome, "attempts"), 1000);
    CHECK_INT(number_of(outcome, "accepted") + number_of(outcome, "rejected"), 1000);
    CHECK_INT(number_of(outcome, "orders"), STOCK);
    CHECK_INT(seller_orders(seller), STOCK);
}

/* A fault must be seen, named, and no other counter be moved by it. */
static void check_violated(const struct outcome *outcome, const char *name, long long least) {
    static const char *const names[] = {"oversold", "lost",      "duplicated",
                                        "phantom",  "undersold", "unresolved"};
    check_code(outcome, 1);
    CHECK_HAS(outcome->text, "NOT CLEAN  ");
    CHECK_HAS(outcome->json, "\"clean\": false");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            CHECK(verdict_of(outcome, names[i]) >= least);
        else if (verdict_of(outcome, names[i]) != 0)
            FAIL("%s moved too: %s", names[i], outcome->text);
    }
}

static void test_honest(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct outcome outcome = attack(seller, "");
    check_clean(&outcome, seller);
    CHECK_INT(number_of(&outcome, "accepted"), STOCK);
    CHECK_INT(number_of(&outcome, "unknown"), 0);
    CHECK_HAS(outcome.json, "\"sold-out\": 900");
    CHECK_HAS(outcome.json, "\"p99_9\": ");
    CHECK_HAS(outcome.json, "\"accepted_per_second\": ");
    CHECK_HAS(outcome.text, "all resolved");
}

static void test_duplicates(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct outcome outcome = attack(seller, "--duplicates 50");
    check_clean(&outcome, seller);
    CHECK(number_of(&outcome, "duplicates") > 300);
    CHECK(number_of(&outcome, "replayed") > 0);
    CHECK_INT(number_of(&outcome, "accepted"), STOCK + number_of(&outcome, "replayed"));
}

static void test_second_run(void) {
    struct seller *seller = seller_start(0, STOCK + 50);
    struct outcome outcome = attack(seller, "--requests 50");
    check_code(&outcome, 0);
    outcome = attack(seller, "");
    check_code(&outcome, 0);
    CHECK_INT(number_of(&outcome, "accepted"), STOCK);
}

static void test_awkward_http(void) {
    struct seller *seller = seller_start(SELLER_AWKWARD, STOCK);
    struct outcome outcome = attack(seller, "--duplicates 20");
    check_clean(&outcome, seller);
    CHECK_INT(number_of(&outcome, "unknown"), 0);
}

static void check_unknowns(unsigned faults, const char *cause, const char *more) {
    struct seller *seller = seller_start(faults, STOCK);
    struct outcome outcome = attack(seller, more);
    check_clean(&outcome, seller);
    CHECK(number_of(&outcome, "unknown") > 100);
    CHECK_INT(number_of(&outcome, cause), number_of(&outcome, "unknown"));
    CHECK_HAS(outcome.text, "unknown, all resolved");
}

static void test_lost_replies(void) {
    check_unknowns(SELLER_DROPS_REPLIES, "connection-broken", "");
}

static void test_lost_replies_retried(void) {
    check_unknowns(SELLER_DROPS_REPLIES, "connection-broken", "--retries --duplicates 20");
}

static void test_503(void) {
    check_unknowns(SELLER_SAYS_503, "overloaded", "");
    check_unknowns(SELLER_SAYS_503, "overloaded", "--retries");
}

static void test_garbled(void) {
    check_unknowns(SELLER_GARBLES, "unreadable-answer", "--retries");
}

static void test_oversells(void) {
    struct outcome outcome = attack(seller_start(SELLER_OVERSELLS, STOCK), "");
    check_violated(&outcome, "oversold", 5);
    CHECK_INT(verdict_of(&outcome, "oversold"), 5);
}

static void test_oversells_and_lies(void) {
    struct outcome outcome = attack(seller_start(SELLER_OVERSELLS | SELLER_LIES, STOCK), "--duplicates 20");
    check_violated(&outcome, "oversold", 5);
    CHECK_INT(verdict_of(&outcome, "oversold"), 5);
}

static void test_loses(void) {
    struct outcome outcome = attack(seller_start(SELLER_LOSES, STOCK), "");
    check_violated(&outcome, "lost", 10);
    CHECK_INT(verdict_of(&outcome, "lost"), 10);
}

static void test_loses_and_lies(void) {
    struct outcome outcome = attack(seller_start(SELLER_LOSES | SELLER_LIES, STOCK), "");
    check_violated(&outcome, "lost", 10);
    CHECK_INT(verdict_of(&outcome, "lost"), 10);
}

static void test_alters(void) {
    struct outcome outcome = attack(seller_start(SELLER_ALTERS, STOCK), "");
    check_violated(&outcome, "lost", 10);
    CHECK_INT(verdict_of(&outcome, "lost"), 10);
}

static void test_sells_twice(void) {
    struct outcome outcome = attack(seller_start(SELLER_SELLS_TWICE, STOCK), "--duplicates 50");
    check_violated(&outcome, "duplicated", 1);
}

static void test_forgets(void) {
    struct outcome outcome = attack(seller_start(SELLER_FORGETS, STOCK), "--duplicates 50");
    check_violated(&outcome, "duplicated", 1);
}

static void test_phantom(void) {
    struct outcome outcome = attack(seller_start(SELLER_PHANTOM, STOCK), "");
    check_violated(&outcome, "phantom", 9);
}

/* The retry after a lost reply is taken for a new purchase: the first order is nobody's. */
static void test_retry_buys_twice(void) {
    struct outcome outcome =
        attack(seller_start(SELLER_DROPS_REPLIES | SELLER_SELLS_TWICE, STOCK), "--retries");
    check_violated(&outcome, "phantom", 10);
}

/* A buyer who won is told sold-out by the retry after a lost reply. */
static void test_retry_hears_sold_out(void) {
    struct outcome outcome = attack(seller_start(SELLER_DROPS_REPLIES | SELLER_FORGETS, STOCK), "--retries");
    check_violated(&outcome, "phantom", 10);
}

static void test_undersells(void) {
    struct outcome outcome = attack(seller_start(SELLER_UNDERSELLS, STOCK), "");
    check_violated(&outcome, "undersold", 5);
    CHECK_INT(verdict_of(&outcome, "undersold"), 5);
}

static void test_unbalanced(void) {
    struct outcome outcome = attack(seller_start(SELLER_UNBALANCED, STOCK), "");
    check_violated(&outcome, "none of them", 0);
    CHECK_HAS(outcome.text, "not conserved");
    CHECK_HAS(outcome.json, "\"conserved\": false");
}

static void test_unresolved(void) {
    struct seller *seller = seller_start(SELLER_SILENT, STOCK);
    struct outcome outcome = attack(seller, "--requests 60 --timeout 50 --settle 500ms");
    check_code(&outcome, 3);
    CHECK_INT(number_of(&outcome, "timed-out"), 20);
    CHECK_INT(verdict_of(&outcome, "unresolved"), 20);
    CHECK_HAS(outcome.text, "COULD NOT TELL");
    CHECK_HAS(outcome.text, "20 unresolved");
}

static void test_audit_goes_away(void) {
    struct outcome outcome = attack(seller_start(SELLER_AUDITS_ONCE, STOCK), "--settle 300ms");
    check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "no audit");
    CHECK_HAS(outcome.json, "\"books_after\": null");
}

static void test_quantity(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct outcome outcome = attack(seller, "--quantity 3");
    check_code(&outcome, 0);
    CHECK_INT(number_of(&outcome, "accepted"), 33);
    CHECK_INT(seller_orders(seller), 33);
}

static void test_one_of_two_is_down(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct outcome outcome =
        attack(seller, harness_format("--retries --url http://127.0.0.1:%d", harness_free_port()));
    check_clean(&outcome, seller);
    CHECK_INT(number_of(&outcome, "not_sent"), 0);
    CHECK(number_of(&outcome, "retries") > 0);
}

static void test_not_sent(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct outcome outcome =
        attack(seller, harness_format("--requests 100 --url http://127.0.0.1:%d", harness_free_port()));
    check_code(&outcome, 0);
    long long not_sent = number_of(&outcome, "not_sent");
    CHECK(not_sent > 0);
    CHECK_INT(number_of(&outcome, "accepted"), 100 - not_sent);
    CHECK_INT(seller_requests(seller), 100 - not_sent);
}

static void test_wrong_token(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct outcome outcome = attack(seller, "--token wrong");
    check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "SECKILL_ADMIN_TOKEN");
    CHECK_INT(seller_requests(seller), 0);
}

static void test_no_seller(void) {
    struct outcome outcome =
        run(harness_format("--url http://127.0.0.1:%d --item demo --requests 1", harness_free_port()));
    check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "cannot connect");
    CHECK_HAS(outcome.text, "make run");
}

static void test_no_item(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct outcome outcome = attack(seller, "--item other");
    check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "no such item");
}

static void test_usage(void) {
    struct outcome outcome = run("--item demo");
    check_code(&outcome, 2);
    CHECK_HAS(outcome.text, "--requests");
    outcome = run("--item demo --requests 1 --url https://127.0.0.1");
    check_code(&outcome, 2);
    CHECK_HAS(outcome.text, "http://");
    outcome = run("--item demo --requests 1 --url http://127.0.0.1:70000");
    check_code(&outcome, 2);
    CHECK_HAS(outcome.text, "port");
    outcome = run("--help");
    check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "usage:");
}

static void test_json_to_output(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct proc proc;
    runs++;
    const char *json = file_name("json");
    const char *line =
        harness_format("%s/seckill-load --url http://127.0.0.1:%d --item demo --token test-token "
                       "--requests 10 --json - 2>%s >%s",
                       harness_build(), seller_port(seller), file_name("err"), json);
    proc_spawn(&proc, (const char *const[]){"sh", "-c", line, NULL}, NULL, file_name("log"));
    struct outcome outcome = finish(&proc);
    check_code(&outcome, 0);
    CHECK(outcome.json[0] == '{');
    CHECK_INT(number_of(&outcome, "accepted"), 10);
    CHECK_HAS(read_file(file_name("err")), "CLEAN");
}

static void test_json_cannot_be_written(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct proc proc;
    runs++;
    const char *line =
        harness_format("%s/seckill-load --url http://127.0.0.1:%d --item demo --token test-token "
                       "--requests 10 --json %s/none/x",
                       harness_build(), seller_port(seller), harness_dir());
    proc_spawn(&proc, (const char *const[]){"sh", "-c", line, NULL}, NULL, file_name("log"));
    struct outcome outcome = finish(&proc);
    check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "none/x: No such file or directory");
}

static bool has_begun(void *seller) {
    return seller_requests(seller) >= 50;
}

static void test_interrupted(void) {
    struct seller *seller = seller_start(0, STOCK);
    struct proc proc;
    start(&proc, harness_format("--url http://127.0.0.1:%d --item demo --token test-token --duration 10m "
                                "--connections 8",
                                seller_port(seller)));
    CHECK(harness_wait(has_begun, seller, TIME_MS));
    proc_kill(&proc, SIGINT);
    struct outcome outcome = finish(&proc);
    check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "interrupted");
    CHECK_HAS(outcome.json, "\"interrupted\": true");
}

static bool interrupt_again(void *proc) {
    if (proc_running(proc))
        proc_kill(proc, SIGTERM);
    return !proc_running(proc);
}

static bool hears_all(void *seller) {
    return seller_requests(seller) > 0;
}

static void test_interrupted_twice(void) {
    struct seller *seller = seller_start(SELLER_SILENT, STOCK);
    struct proc proc;
    start(&proc, harness_format("--url http://127.0.0.1:%d --item demo --token test-token --requests 1 "
                                "--timeout 600000",
                                seller_port(seller)));
    CHECK(harness_wait(hears_all, seller, TIME_MS));
    CHECK(harness_wait(interrupt_again, &proc, TIME_MS));
    struct outcome outcome = finish(&proc);
    check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "without a verdict");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("program: an honest seller is clean", test_honest);
    harness_run("program: duplicates of an honest seller are clean", test_duplicates);
    harness_run("program: a second run repeats no key", test_second_run);
    harness_run("program: quantity", test_quantity);
    harness_run("program: awkward HTTP", test_awkward_http);
    harness_run("program: lost replies are settled at the end", test_lost_replies);
    harness_run("program: lost replies are retried", test_lost_replies_retried);
    harness_run("program: a 503 is unknown", test_503);
    harness_run("program: an answer that is not HTTP is unknown", test_garbled);
    harness_run("program: catches oversold", test_oversells);
    harness_run("program: catches oversold that the audit conceals", test_oversells_and_lies);
    harness_run("program: catches lost orders", test_loses);
    harness_run("program: catches lost orders that the audit conceals", test_loses_and_lies);
    harness_run("program: catches orders for somebody else", test_alters);
    harness_run("program: catches two orders for one key", test_sells_twice);
    harness_run("program: catches winners told sold-out", test_forgets);
    harness_run("program: catches phantom orders", test_phantom);
    harness_run("program: catches a retry that buys twice", test_retry_buys_twice);
    harness_run("program: catches a retry that hears sold-out", test_retry_hears_sold_out);
    harness_run("program: catches undersold", test_undersells);
    harness_run("program: catches an audit that is not conserved", test_unbalanced);
    harness_run("program: unresolved is not clean", test_unresolved);
    harness_run("program: without an audit it cannot tell", test_audit_goes_away);
    harness_run("program: a retry goes to the next url", test_one_of_two_is_down);
    harness_run("program: what was not sent is counted apart", test_not_sent);
    harness_run("program: a wrong token", test_wrong_token);
    harness_run("program: no seller", test_no_seller);
    harness_run("program: no item", test_no_item);
    harness_run("program: bad usage", test_usage);
    harness_run("program: JSON to standard output", test_json_to_output);
    harness_run("program: JSON that cannot be written", test_json_cannot_be_written);
    harness_run("program: interrupted, it still judges", test_interrupted);
    harness_run("program: interrupted twice, it ends", test_interrupted_twice);
    return harness_finish();
}
