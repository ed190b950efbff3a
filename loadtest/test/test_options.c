#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/load_options.h"
#include "test/harness.h"

static struct options options;
static char error[256];

/* The words of `line` after the program's name. */
static enum flags_status parse(const char *line) {
    char *argv[48] = {harness_format("seckill-load")};
    int argc = 1;
    char *rest = harness_format("%s", line);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        if (word[0] != '\0')
            argv[argc++] = word;
    }
    memset(&options, 0, sizeof options);
    error[0] = '\0';
    return options_read(argv, 77, &options, error, sizeof error);
}

/* All options but the URLs, in the order of struct options. */
static const char *all(void) {
    return harness_format(
        "%s %u %g lines %u %u%% %u%% users %u x%u, %u connections, %llu or %llu ns, %s %u%% "
        "%s seed %llu, %llu %llu %s %s",
        options.item, options.items, options.zipf, options.basket_lines, options.purchases, options.transfers,
        options.users, options.quantity, options.connections, (unsigned long long)options.requests,
        (unsigned long long)options.duration_ns, options.retries ? "retries" : "once", options.duplicates,
        options.token ? options.token : "-", (unsigned long long)options.seed,
        (unsigned long long)options.timeout_ns, (unsigned long long)options.settle_ns,
        options.json ? options.json : "none", options.progress ? options.progress : "none");
}

static void test_defaults(void) {
    unsetenv("SECKILL_ADMIN_TOKEN");
    CHECK_INT(parse("--item demo --requests 5"), FLAGS_RUN);
    CHECK_INT(options.urls.count, 1);
    CHECK_STR(options.urls.texts[0], "http://127.0.0.1:8080");
    CHECK_STR(all(), "demo 0 0 lines 0 0% 0% users 10000 x1, 64 connections, 5 or 0 ns, once 0% - seed 77, "
                     "5000000000 30000000000 none none");
}

static void test_all(void) {
    CHECK_INT(parse("--url http://a --url=http://b --item x.y --items 7 --zipf 1.25 --basket-lines 32 "
                    "--purchases 60 --transfers 40 --users 3 --quantity 4 --connections 5 --duration 2m "
                    "--retries --duplicates 20 --token t --seed 9 --timeout 100 --settle 500ms --json - "
                    "--progress p"),
              FLAGS_RUN);
    CHECK_INT(options.urls.count, 2);
    CHECK_STR(options.urls.texts[1], "http://b");
    CHECK_STR(all(), "x.y 7 1.25 lines 32 60% 40% users 3 x4, 5 connections, 0 or 120000000000 ns, "
                     "retries 20% t seed 9, 100000000 500000000 - p");
}

static void test_token_from_environment(void) {
    setenv("SECKILL_ADMIN_TOKEN", "from-environment", 1);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_RUN);
    CHECK_STR(options.token, "from-environment");
    CHECK_INT(parse("--item x --requests 1 --token given"), FLAGS_RUN);
    CHECK_STR(options.token, "given");
    setenv("SECKILL_ADMIN_TOKEN", "two words", 1);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_WRONG);
    CHECK_HAS(error, "SECKILL_ADMIN_TOKEN");
    setenv("SECKILL_ADMIN_TOKEN", "", 1);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_RUN);
    CHECK(options.token == NULL);
    unsetenv("SECKILL_ADMIN_TOKEN");
}

static void write_token(const char *path, const char *text, size_t size) {
    FILE *file = fopen(path, "we");
    CHECK(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
}

static void test_token_from_file(void) {
    const char *path = harness_path("token"), *longest = harness_repeat('t', 512);
    setenv("SECKILL_ADMIN_TOKEN_FILE", path, 1);
    write_token(path, "from-file\n", 10);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_RUN);
    CHECK_STR(options.token, "from-file");
    CHECK_INT(parse("--item x --requests 1 --token given"), FLAGS_RUN);
    CHECK_STR(options.token, "given");
    write_token(path, longest, 512);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_RUN);
    CHECK_STR(options.token, longest);
    static const struct {
        const char *text;
        size_t size;
    } wrong[] = {{"", 0}, {"\n", 1}, {"hunter2\n\n", 9}, {"hunter2\0", 8}, {"hunter2 x", 9}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_token(path, wrong[i].text, wrong[i].size);
        CHECK_INT(parse("--item x --requests 1"), FLAGS_WRONG);
        CHECK_HAS(error, harness_format("SECKILL_ADMIN_TOKEN_FILE: %s must have one line of 1 to 512", path));
    }
    write_token(path, harness_repeat('t', 514), 514);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_WRONG);
    CHECK_INT(parse("--help"), FLAGS_HELP);
    setenv("SECKILL_ADMIN_TOKEN", "from-environment", 1);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_WRONG);
    CHECK_HAS(error, "unset one of them");
    unsetenv("SECKILL_ADMIN_TOKEN");
    setenv("SECKILL_ADMIN_TOKEN_FILE", "/no/such/file", 1);
    CHECK_INT(parse("--item x --requests 1"), FLAGS_WRONG);
    CHECK_HAS(error, "SECKILL_ADMIN_TOKEN_FILE: cannot read /no/such/file: No such file");
    unsetenv("SECKILL_ADMIN_TOKEN_FILE");
}

static void test_help(void) {
    CHECK_INT(parse("--help"), FLAGS_HELP);
    CHECK_INT(parse("--version"), FLAGS_VERSION);
}

static void test_wrong(void) {
    unsetenv("SECKILL_ADMIN_TOKEN");
    static const struct {
        const char *line; /* + is "--item x --requests 1" */
        const char *says;
    } cases[] = {
        {"--requests 1", "--item"},
        {"--item x", "one of --requests and --duration"},
        {"+ --duration 1s", "one of --requests and --duration"},
        {"--item x --requests 0", "--requests must be a number from 1"},
        {"--item x --requests -1", "--requests"},
        {"--item x --requests 1x", "--requests"},
        {"--item x --requests 99999999999999999999999", "--requests"},
        {"--item x --requests", "--requests needs a value"},
        {"--item a/b --requests 1", "--item must be"},
        {"--item x --duration 10", "unit"},
        {"--item x --duration 10h", "unit"},
        {"--item x --duration s", "unit"},
        {"+ --items 0", "--items must be a number from 1 to 100000"},
        {"+ --items 100001", "--items"},
        {"+ --items 9 --zipf 5.1", "--zipf must be a number from 0 to 5"},
        {"+ --items 9 --zipf -1", "--zipf"},
        {"+ --items 9 --zipf 1e1", "--zipf"},
        {"+ --items 9 --zipf .", "--zipf"},
        {"+ --items 9 --zipf nan", "--zipf"},
        {"+ --zipf 1", "--zipf must be given with --items"},
        {"+ --items 9 --basket-lines 0", "--basket-lines must be a number from 1 to 32"},
        {"+ --items 9 --basket-lines 33", "--basket-lines"},
        {"+ --basket-lines 2", "--basket-lines must be given with --items"},
        {"+ --items 9 --basket-lines 2 --purchases 101", "--purchases must be a number from 0 to 100"},
        {"+ --items 9 --purchases 1", "--purchases must be given with --basket-lines"},
        {"+ --items 9 --token t --basket-lines 2 --transfers 50 --purchases 51",
         "--purchases must be no more, with --transfers, than 100 percent"},
        {"+ --items 9 --token t --transfers 101", "--transfers must be a number from 0 to 100"},
        {"+ --token t --transfers 1", "--transfers must be given with --items 2 or more"},
        {"+ --items 1 --token t --transfers 1", "--transfers must be given with --items 2"},
        {"+ --items 9 --transfers 1", "--transfers must be given with --token"},
        {"+ --users 0", "--users must be a number from 1 to 100000000"},
        {"+ --quantity 1001", "--quantity"},
        {"+ --connections 0", "--connections"},
        {"+ --duplicates 101", "--duplicates"},
        {"+ --retries=yes", "--retries=yes is no option with a value"},
        {"+ --nonsense", "--nonsense"},
        {"--item x --requests 1 more", "more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *line = cases[i].line;
        CHECK_INT(parse(*line == '+' ? harness_format("--item x --requests 1%s", line + 1) : line),
                  FLAGS_WRONG);
        CHECK_HAS(error, cases[i].says);
    }
}

/* A seller's names have up to 64 characters, with the number at the end. */
static void test_long_item(void) {
    static const char fifty_nine[] = "12345678901234567890123456789012345678901234567890123456789";
    CHECK_INT(parse(harness_format("--items 1000 --item x%s --requests 1", fifty_nine)), FLAGS_RUN);
    CHECK_INT(parse(harness_format("--items 1001 --item x%s --requests 1", fifty_nine)), FLAGS_WRONG);
    CHECK_HAS(error, "--item must be shorter");
    CHECK_INT(parse(harness_format("--item xyzxy%s --requests 1", fifty_nine)), FLAGS_RUN);
}

static void test_help_names_all(void) {
    static const char *const flags[] = {
        "--url",       "--item",  "--items",      "--zipf",        "--basket-lines", "--purchases",
        "--transfers", "--users", "--quantity",   "--connections", "--requests",     "--retries",
        "--duration",  "--token", "--duplicates", "--seed",        "--timeout",      "--settle",
        "--json",      "--help",  "--version",    "--progress"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        CHECK_HAS(options_help, flags[i]);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("options: defaults", test_defaults);
    harness_run("options: all flags", test_all);
    harness_run("options: the token from the environment", test_token_from_environment);
    harness_run("options: the token from a file", test_token_from_file);
    harness_run("options: help and version", test_help);
    harness_run("options: errors name the flag", test_wrong);
    harness_run("options: a name and its number must fit", test_long_item);
    harness_run("options: the help names every flag", test_help_names_all);
    return harness_finish();
}
