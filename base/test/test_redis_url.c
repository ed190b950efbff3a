/* URLs of Sentinels and clusters; those of one server are in test_redis_target.c. */
#include "base/redis/url.h"

#include <stdio.h>
#include <string.h>

#include "test/harness.h"

static void test_good_urls(void) {
    static const struct {
        const char *url;
        enum redis_url_kind kind;
        int count;
        const char *host;
        int port;
        const char *user, *password, *master, *printed;
    } cases[] = {
        {"redis://h:7/2", REDIS_URL_ONE, 1, "h", 7, "", "", "", "redis://h:7/2"},
        {"unix:///r.sock", REDIS_URL_ONE, 1, "/r.sock", 0, "", "", "", "unix:///r.sock?db=0"},
        {"redis-cluster://a", REDIS_URL_CLUSTER, 1, "a", 6379, "", "", "", "redis-cluster://a:6379"},
        {"redis-cluster://a:1,b,c:3/", REDIS_URL_CLUSTER, 3, "c", 3, "", "", "",
         "redis-cluster://a:1,b:6379,c:3"},
        {"redis-cluster://shop:p%2cw@a,[::1]:2", REDIS_URL_CLUSTER, 2, "::1", 2, "shop", "p,w", "",
         "redis-cluster://a:6379,[::1]:2"},
        {"redis-sentinel://a,b:5/shop", REDIS_URL_SENTINEL, 2, "b", 5, "", "", "shop",
         "redis-sentinel://a:26379,b:5/shop"},
        {"redis-sentinel://:secret@a/my%20shop", REDIS_URL_SENTINEL, 1, "a", 26379, "", "secret", "my shop",
         "redis-sentinel://a:26379/my shop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct redis_url url;
        char error[256] = "", printed[512];
        if (!redis_url_parse(&url, cases[i].url, error, sizeof error))
            FAIL("%s: %s", cases[i].url, error);
        CHECK_INT(url.kind, cases[i].kind);
        CHECK_INT(url.count, cases[i].count);
        const struct redis_target *last = &url.servers[url.count - 1];
        CHECK_STR(last->host, cases[i].host);
        CHECK_INT(last->port, cases[i].port);
        CHECK_STR(last->user, cases[i].user);
        CHECK_STR(last->password, cases[i].password);
        CHECK_STR(url.master, cases[i].master);
        const struct redis_address address = redis_target_address(last);
        const struct redis_target same = redis_url_target(&url, &address);
        CHECK(redis_target_is_same(&same, last));
        CHECK_STR(same.password, cases[i].password);
        const char *login[3];
        int argc = redis_target_login(last, login);
        CHECK_INT(argc, cases[i].user[0] ? 3 : cases[i].password[0] ? 2 : 0);
        if (argc > 0)
            CHECK_STR(login[argc - 1], cases[i].password);
        redis_url_print(&url, printed, sizeof printed);
        CHECK_STR(printed, cases[i].printed);
    }
}

static void test_bad_urls(void) {
    static const char *const cases[][2] = {
        {"redis-cluster://", "host 1 is empty"},
        {"redis-cluster://a,,b", "host 2 is empty"},
        {"redis-cluster://a,", "host 2 is empty"},
        {"redis-cluster://a:0", "host 1 has a port"},
        {"redis-cluster://a,b:70000", "host 2 has a port"},
        {"redis-cluster://a b", "host 1 has a character"},
        {"redis-cluster://a,b\n", "a control character"},
        {"redis-cluster://a/1", "a cluster has no databases"},
        {"redis-cluster://a?db=1", "a cluster has no databases"},
        {"redis-cluster://:hunter2@a,:hunter2@b", "a comma in user or password"},
        {"redis-cluster://hunter2@a", "user or password is wrong"},
        {"redis-cluster://:hunter2%4@a", "user or password is wrong"},
        {"redis-cluster://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more servers than the 16"},
        {"redis-sentinel://a,b", "the name of the master is missing"},
        {"redis-sentinel://a/", "the name of the master is missing"},
        {"redis-sentinel://a/shop/2", "has a sign that no name has"},
        {"redis-sentinel://a/shop?x", "has a sign that no name has"},
        {"redis-sentinel:///shop", "host 1 is empty"},
        {"redis-clusters://:hunter2@a", "begins with neither"},
        {"rediss://:hunter2@a", "begins with neither"},
        {"", "begins with neither"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct redis_url url = {.count = 77};
        char error[256] = "";
        if (redis_url_parse(&url, cases[i][0], error, sizeof error))
            FAIL("read \"%s\"", cases[i][0]);
        CHECK_INT(url.count, 77);
        CHECK_HAS(error, cases[i][1]);
        CHECK_HAS(error, " (want redis");
        CHECK(!strstr(error, "hunter2"));
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("good URLs", test_good_urls);
    harness_run("bad URLs", test_bad_urls);
    return harness_finish();
}
