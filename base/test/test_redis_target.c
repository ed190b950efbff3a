/* URLs of stores. */
#include "base/redis/url.h"

#include <stdio.h>
#include <string.h>

#include "test/harness.h"

static void test_good_urls(void) {
    static const struct {
        const char *url;
        struct redis_target want;
        const char *printed;
    } cases[] = {
        {"redis://localhost", {"localhost", 6379, "", "", 0}, "redis://localhost:6379/0"},
        {"redis://localhost/", {"localhost", 6379, "", "", 0}, "redis://localhost:6379/0"},
        {"redis://10.0.0.1:1", {"10.0.0.1", 1, "", "", 0}, "redis://10.0.0.1:1/0"},
        {"redis://h:65535/15", {"h", 65535, "", "", 15}, "redis://h:65535/15"},
        {"redis://:secret@h", {"h", 6379, "", "secret", 0}, "redis://h:6379/0"},
        {"redis://shop:secret@h:7/2", {"h", 7, "shop", "secret", 2}, "redis://h:7/2"},
        {"redis://shop:p@ss:w@rd@h:7", {"h", 7, "shop", "p@ss:w@rd", 0}, "redis://h:7/0"},
        {"redis://a%40b:%2f%3F%25%3a%20@h", {"h", 6379, "a@b", "/?%: ", 0}, "redis://h:6379/0"},
        {"redis://:@h", {"h", 6379, "", "", 0}, "redis://h:6379/0"},
        {"redis://[::1]", {"::1", 6379, "", "", 0}, "redis://[::1]:6379/0"},
        {"redis://u:p@[fe80::1]:6380/3", {"fe80::1", 6380, "u", "p", 3}, "redis://[fe80::1]:6380/3"},
        {"unix:///run/redis.sock", {"/run/redis.sock", 0, "", "", 0}, "unix:///run/redis.sock?db=0"},
        {"unix:///r.sock?db=4", {"/r.sock", 0, "", "", 4}, "unix:///r.sock?db=4"},
        {"unix://:se%40cret@/r.sock?db=4", {"/r.sock", 0, "", "se@cret", 4}, "unix:///r.sock?db=4"},
        {"unix://u:p@/my%20redis.sock", {"/my redis.sock", 0, "u", "p", 0}, "unix:///my redis.sock?db=0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct redis_target target;
        char error[256] = "", printed[512];
        if (!redis_target_parse(&target, cases[i].url, error, sizeof error))
            FAIL("%s: %s", cases[i].url, error);
        CHECK_STR(target.host, cases[i].want.host);
        CHECK_INT(target.port, cases[i].want.port);
        CHECK_STR(target.user, cases[i].want.user);
        CHECK_STR(target.password, cases[i].want.password);
        CHECK_INT(target.database, cases[i].want.database);
        redis_target_print(&target, printed, sizeof printed);
        CHECK_STR(printed, cases[i].printed);
    }
}

static void test_bad_urls(void) {
    char long_password[400], long_host[400];
    snprintf(long_password, sizeof long_password, "redis://:hunter2%0300d@h", 0);
    snprintf(long_host, sizeof long_host, "redis://:hunter2@%0300d", 0);
    const char *const bad[] = {"",
                               "localhost",
                               "localhost:6379",
                               "http://h",
                               "REDIS://h",
                               "rediss://:hunter2@h",
                               "redis:/h",
                               "redis://",
                               "redis://:6379",
                               "redis:///1",
                               "redis://h:",
                               "redis://h:0",
                               "redis://h:65536",
                               "redis://h:6379x",
                               "redis://h:-1",
                               "redis://h: 1",
                               "redis://h/x",
                               "redis://h/1/2",
                               "redis://h/-1",
                               "redis://h/123456",
                               "redis://h?db=1",
                               "redis://hunter2@h",
                               "redis://:hunter2%4@h",
                               "redis://:hunter2%4",
                               "redis://:hunter2%zz@h",
                               "redis://:hunter2%00@h",
                               "redis://:hunter2@",
                               "redis://:hunter2@h:x",
                               "redis://:hunter2@h/x",
                               "redis://:hunter2/2@h/1",
                               "redis://[::1",
                               "redis://[]",
                               "redis://[::1]x",
                               "redis://[::1]:",
                               "redis://::1",
                               "unix://",
                               "unix://run/redis.sock",
                               "unix:///s?db=",
                               "unix:///s?db=x",
                               "unix:///s?database=1",
                               "unix://:hunter2@",
                               "unix://hunter2@/s",
                               long_password,
                               long_host};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct redis_target target = {.host = "untouched", .port = 77};
        char error[256] = "";
        if (redis_target_parse(&target, bad[i], error, sizeof error))
            FAIL("read \"%s\"", bad[i]);
        CHECK_STR(target.host, "untouched");
        CHECK_INT(target.port, 77);
        CHECK_HAS(error, " (want redis://");
        if (strstr(error, "hunter2"))
            FAIL("the password of \"%s\" is in the error: %s", bad[i], error);
    }
}

/* What is wrong, and where. */
static void test_reasons(void) {
    static const char *const cases[][2] = {
        {"redis://a,b", "the host has a comma"},
        {"redis://a%2cb", "a character that no host has"},
        {"redis://a:1,b:2", "the host has a comma"},
        {"redis://u:hunter2@a,u:hunter2@b", "a comma in user or password"},
        {"redis://a:1,u:hunter2@b", "a comma in user or password"},
        {"redis://:hunter2@a b", "a character that no host has"},
        {"redis://:hunter2@a%20b", "a character that no host has"},
        {"redis://a%0ab", "a character that no host has"},
        {"redis://a%3ab", "a character that no host has"},
        {"redis://a\"b", "a character that no host has"},
        {"redis://a\303\244b", "a character that no host has"},
        {"redis://[::1 ]", "a character that no host has"},
        {"redis://a\n", "a control character"},
        {"redis://:hunter2\t@a", "a control character"},
        {"redis://a\177", "a control character"},
        {"unix:///r.sock\n", "a control character"},
        {"redis://a#frag", "a ? or #"},
        {"redis://a:1#frag", "a ? or #"},
        {"redis://a/1#frag", "a ? or #"},
        {"redis://a/1?ttl=5", "a ? or #"},
        {"redis://", "the host is empty"},
        {"redis://:hunter2@", "the host is empty"},
        {"redis://:7", "the host is empty"},
        {"redis://[]:7", "the host is empty"},
        {"redis://[::1", "no ] to its ["},
        {"redis://[::1]7", "a port"},
        {"redis://h:0", "a port"},
        {"redis://h:70000", "a port"},
        {"redis://h:12x", "a port"},
        {"redis://h:", "a port"},
        {"redis://::1", "the host is empty"},
        {"redis://fe80::1", "a port"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct redis_target target;
        char error[256] = "";
        if (redis_target_parse(&target, cases[i][0], error, sizeof error))
            FAIL("read \"%s\"", cases[i][0]);
        CHECK_HAS(error, cases[i][1]);
        CHECK(!strstr(error, "hunter2"));
    }
}

static void test_no_room(void) {
    char tiny[8];
    struct redis_target target;
    CHECK(!redis_target_parse(&target, "redis://", tiny, sizeof tiny));
    CHECK(memchr(tiny, '\0', sizeof tiny) != NULL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("URLs of stores", test_good_urls);
    harness_run("wrong URLs, and no password in the error", test_bad_urls);
    harness_run("what is wrong with them", test_reasons);
    harness_run("no room for the error", test_no_room);
    return harness_finish();
}
