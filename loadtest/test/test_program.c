/* seckill-load as users run it, against a right seller that is at times awkward or hard to reach. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loadtest/test/attack.h"
#include "loadtest/test/seller.h"
#include "test/harness.h"

/* Checks that the run is clean, all is sold, and each request has one outcome. */
static void check_clean(const struct attack_result *outcome, struct seller *seller) {
    attack_check_code(outcome, 0);
    CHECK_HAS(outcome->text, "CLEAN  500 attempts: ");
    CHECK_HAS(outcome->text, " 0 lost, 0 duplicated, 0 oversold, ");
    CHECK_HAS(outcome->json, "\"clean\": true");
    CHECK_INT(attack_number_of(outcome, "attempts"), 500);
    CHECK_INT(attack_number_of(outcome, "accepted") + attack_number_of(outcome, "rejected"), 500);
    CHECK_INT(attack_number_of(outcome, "orders"), STOCK);
    CHECK_INT(seller_orders(seller), STOCK);
}

static void test_honest(void) {
    struct seller *seller = seller_start("", STOCK);
    struct attack_result outcome = attack_sale(seller, "");
    check_clean(&outcome, seller);
    CHECK_INT(attack_number_of(&outcome, "accepted"), STOCK);
    CHECK_INT(attack_number_of(&outcome, "unknown"), 0);
    CHECK_HAS(outcome.json, "\"sold-out\": 400");
    CHECK_HAS(outcome.json, "\"p99_9\": ");
    CHECK_HAS(outcome.json, "\"accepted_per_second\": ");
    CHECK_HAS(outcome.text, "all resolved");
}

/* Also from a seller whose HTTP is awkward. */
static void test_duplicates(void) {
    struct seller *seller = seller_start("awkward", STOCK);
    struct attack_result outcome = attack_sale(seller, "--duplicates 50");
    check_clean(&outcome, seller);
    CHECK(attack_number_of(&outcome, "duplicates") > 150);
    CHECK(attack_number_of(&outcome, "replayed") > 0);
    CHECK_INT(attack_number_of(&outcome, "accepted"), STOCK + attack_number_of(&outcome, "replayed"));
    CHECK_INT(attack_number_of(&outcome, "unknown"), 0);
}

/* It repeats no key of the first. */
static void test_second_run(void) {
    struct seller *seller = seller_start("", STOCK + 50);
    struct attack_result outcome = attack_sale(seller, "--requests 50");
    attack_check_code(&outcome, 0);
    outcome = attack_sale(seller, "--quantity 3");
    attack_check_code(&outcome, 0);
    CHECK_INT(attack_number_of(&outcome, "accepted"), 33);
    CHECK_INT(seller_orders(seller), 83);
}

static const struct unknown {
    const char *name;
    const char *faults;
    const char *flags, *cause;
} unknowns[] = {
    {"program: lost replies are resolved at the end", "drops-replies", "", "connection-broken"},
    {"program: lost replies are retried", "drops-replies", "--retries --duplicates 20", "connection-broken"},
    {"program: a 503 is unknown", "says-503", "", "overloaded"},
    {"program: a 503 is retried", "says-503", "--retries", "overloaded"},
    {"program: an answer that is not HTTP is unknown", "garbles", "--retries", "unreadable-answer"},
};
static const struct unknown *unknown; /* of the running test */

static void test_unknown(void) {
    struct seller *seller = seller_start(unknown->faults, STOCK);
    struct attack_result outcome = attack_sale(seller, unknown->flags);
    check_clean(&outcome, seller);
    CHECK(attack_number_of(&outcome, "unknown") > 50);
    CHECK_INT(attack_number_of(&outcome, unknown->cause), attack_number_of(&outcome, "unknown"));
    CHECK_HAS(outcome.text, "unknown, all resolved");
}

static void test_one_of_two_is_down(void) {
    struct seller *seller = seller_start("", STOCK);
    struct attack_result outcome =
        attack_sale(seller, harness_format("--retries --url http://127.0.0.1:%d", harness_free_port()));
    check_clean(&outcome, seller);
    CHECK_HAS(outcome.text, "WARNING: cannot connect");
    CHECK_INT(attack_number_of(&outcome, "not_sent"), 0);
    CHECK(attack_number_of(&outcome, "retries") > 0);
}

/* Nothing is sold by a run that cannot begin, and the results of an earlier one stay. */
static void test_cannot_begin(void) {
    const char *missing = harness_format("http://127.0.0.1:%d", harness_free_port());
    const char *kept = harness_format("%s/kept", harness_dir());
    const struct {
        const char *flags;
        int code;
        const char *says;
    } cases[] = {
        {"--token wrong", 3, "SECKILL_ADMIN_TOKEN"},
        {"--item other", 3, "no such item"},
        /* Without retries every seller must run at the start. */
        {harness_format("--url %s --json %s", missing, kept), 3,
         harness_format("%s: cannot connect", missing)},
        {harness_format("--json %s/none/x", harness_dir()), 2, "none/x: No such file or directory"},
        {harness_format("--progress %s/none/x", harness_dir()), 2, "none/x: No such file or directory"},
        {"--duration 1s", 2, "--requests"},
        {"--url https://127.0.0.1", 2, "http://"},
        {"--url http://127.0.0.1:70000", 2, "port"},
        {"--help", 0, "usage:"},
    };
    struct seller *seller = seller_start("", STOCK);
    FILE *file = fopen(kept, "we");
    CHECK(file && fputs("{}", file) >= 0 && fclose(file) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attack_result outcome = attack_sale(seller, cases[i].flags);
        attack_check_code(&outcome, cases[i].code);
        CHECK_HAS(outcome.text, cases[i].says);
    }
    CHECK_INT(seller_requests(seller), 0);
    CHECK_STR(attack_read_file(kept), "{}");
    struct attack_result outcome = attack_run(harness_format("--url %s --item demo --requests 1", missing));
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "cannot connect");
    CHECK_HAS(outcome.text, "make run");
}

static bool is_asked(void *seller) {
    return seller_requests(seller) > 0;
}

/* Without retries every seller must run until the end. */
static void test_not_sent(void) {
    struct seller *seller = seller_start("", STOCK);
    struct proxy *proxy = proxy_start(seller->port);
    struct proc load;
    attack_start(&load, harness_format("--url http://127.0.0.1:%d --url http://127.0.0.1:%d --item demo "
                                       "--token test-token --connections 16 "
                                       "--duration 1s",
                                       seller->port, proxy_port(proxy)));
    CHECK(harness_wait(is_asked, seller, TIME_MS));
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    struct attack_result outcome = attack_finish(&load);
    proxy_stop(proxy);
    attack_check_code(&outcome, 3);
    CHECK(attack_number_of(&outcome, "not_sent") > 0);
    CHECK_INT(attack_verdict_of(&outcome, "unsent"), attack_number_of(&outcome, "not_sent"));
    CHECK_HAS(outcome.text, "NO VERDICT");
    CHECK_HAS(outcome.text, "--retries tries again");
    CHECK_HAS(outcome.json, "\"clean\": false");
}

static void test_json_to_output(void) {
    struct seller *seller = seller_start("", STOCK);
    struct proc proc;
    int status = -1;
    const char *out = harness_format("%s/out", harness_dir());
    const char *err = harness_format("%s/err", harness_dir());
    const char *line = harness_format(
        "%s/seckill-load --url http://127.0.0.1:%d --item demo --token test-token --connections 16 "
        "--requests 10 --json - >%s 2>%s",
        harness_build(), seller->port, out, err);
    proc_spawn(&proc, (const char *const[]){"sh", "-c", line, NULL}, NULL,
               harness_format("%s/sh", harness_dir()));
    CHECK(proc_wait(&proc, TIME_MS, &status));
    CHECK_INT(status, 0);
    struct attack_result outcome = {.json = attack_read_file(out)};
    CHECK(outcome.json[0] == '{');
    CHECK_INT(attack_number_of(&outcome, "accepted"), 10);
    CHECK_HAS(attack_read_file(err), "CLEAN");
}

static void test_json_cannot_be_written(void) {
    struct attack_result outcome = attack_sale(seller_start("", STOCK), "--json /dev/full");
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "/dev/full: cannot be written");
    outcome = attack_sale(seller_start("oversells", STOCK), "--json /dev/full");
    attack_check_code(&outcome, 1);
}

/* A device must not be replaced by a file. */
static void test_json_to_device(void) {
    struct seller *seller = seller_start("", STOCK);
    struct stat known;
    const char *link = harness_format("%s/device", harness_dir());
    CHECK(symlink("/dev/null", link) == 0);
    struct attack_result outcome = attack_sale(seller, harness_format("--requests 10 --json %s", link));
    attack_check_code(&outcome, 0);
    CHECK(lstat(link, &known) == 0 && S_ISLNK(known.st_mode));
}

/* The last line of its progress is what the load has come to. */
static void test_progress(void) {
    struct seller *seller = seller_start("", STOCK);
    const char *path = harness_format("%s/progress", harness_dir());
    struct attack_result outcome = attack_sale(seller, harness_format("--progress %s", path));
    check_clean(&outcome, seller);
    const char *lines = attack_read_file(path), *last = strrchr(lines, '{');
    CHECK(last && lines[strlen(lines) - 1] == '\n');
    CHECK_HAS(last, "{\"seconds\":");
    CHECK_HAS(last, harness_format("\"accepted\":%d,\"rejected\":400,\"unknown\":0,\"p50_us\":", STOCK));
}

static void test_interrupted(void) {
    struct seller *seller = seller_start("", STOCK);
    struct proc proc;
    attack_start(&proc,
                 harness_format("--url http://127.0.0.1:%d --item demo --token test-token --duration 10m "
                                "--connections 8",
                                seller->port));
    CHECK(harness_wait(is_asked, seller, TIME_MS));
    proc_kill(&proc, SIGINT);
    struct attack_result outcome = attack_finish(&proc);
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.text, "interrupted");
    CHECK_HAS(outcome.json, "\"interrupted\": true");
}

static bool interrupt_again(void *proc) {
    if (proc_running(proc))
        proc_kill(proc, SIGTERM);
    return !proc_running(proc);
}

static void test_interrupted_twice(void) {
    struct seller *seller = seller_start("silent", STOCK);
    struct proc proc;
    attack_start(&proc,
                 harness_format("--url http://127.0.0.1:%d --item demo --token test-token --requests 1 "
                                "--timeout 600000",
                                seller->port));
    CHECK(harness_wait(is_asked, seller, TIME_MS));
    CHECK(harness_wait(interrupt_again, &proc, TIME_MS));
    struct attack_result outcome = attack_finish(&proc);
    attack_check_code(&outcome, 3);
    CHECK_HAS(outcome.text, "without a verdict");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("program: an honest seller is clean", test_honest);
    harness_run("program: duplicates of an honest seller with awkward HTTP are clean", test_duplicates);
    harness_run("program: a second run repeats no key", test_second_run);
    for (unknown = unknowns; unknown < unknowns + sizeof unknowns / sizeof unknowns[0]; unknown++)
        harness_run(unknown->name, test_unknown);
    harness_run("program: a retry goes to the next url", test_one_of_two_is_down);
    harness_run("program: runs that cannot begin", test_cannot_begin);
    harness_run("program: unsent requests are not clean", test_not_sent);
    harness_run("program: JSON to standard output", test_json_to_output);
    harness_run("program: JSON that cannot be written", test_json_cannot_be_written);
    harness_run("program: JSON to a device", test_json_to_device);
    harness_run("program: progress for programs", test_progress);
    harness_run("program: interrupted once, it still judges", test_interrupted);
    harness_run("program: interrupted twice, it stops", test_interrupted_twice);
    return harness_finish();
}
