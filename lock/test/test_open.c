/* The URLs that lock_open() accepts and refuses, and its error texts. */
#include <string.h>

#include "lock/test/tools.h"
#include "lock/zookeeper/zookeeper_session.h"

static const struct lock_config teaching = {.teaching = true};

static void refuse(const char *const rows[][2], size_t count) {
    for (size_t i = 0; i < count; i++)
        tools_refuse(rows[i][0], &teaching, rows[i][1]);
}

#define REFUSE(...)                                                                                          \
    do {                                                                                                     \
        const char *const rows[][2] = {__VA_ARGS__};                                                         \
        refuse(rows, sizeof rows / sizeof *rows);                                                            \
    } while (0)

static void schemes_and_options(void) {
    tools_open(NULL, "local:");
    tools_open(NULL, "local:?ttl=500");
    tools_open(&teaching, "none:");
    tools_refuse("none:", NULL, "for lessons: it locks nothing");
    REFUSE(
        {"", "not a lock URL"}, {"local", "not a lock URL"}, {"Local:", "not a lock URL"},
        {":", "not a lock URL"}, {"file:", "no such lock; there are none:, local:"},
        {"file:", "redis:, redis-sentinel:, redis-cluster:, redlock:, etcd:, zookeeper:"},
        {"local:?variant=better", "no such lock; its variants are none"},
        {"redis://h?variant=better", "no such lock; its variants are owner, watchdog, get-set, setnx-expire, "
                                     "getset, set-del, timestamp"},
        {"etcd://h?variant=better", "no such lock; its variants are queue, fixed-key, rpc"},
        {"redlock://:s3cret@a,b?variant=other", "no such lock"}, {"local://here", "local: has no address"},
        {"local:here", "an address begins with //"}, {"local:?ttl=9", "ttl wants 10 to 86400000"},
        {"local:?ttl=86400001", "ttl wants"}, {"local:?ttl=", "ttl wants"}, {"local:?ttl=1e3", "ttl wants"},
        {"local:?ttl=99999999999999999999", "ttl wants"}, {"redis://a?ttl=100#frag", "ttl wants"},
        {"redis://a?ttl=100?ttl=200", "ttl wants"}, {"local:?variant=", "variant wants a name"},
        {"local:?tll=100", "unknown option"}, {"local:?", "unknown option"},
        {"local:?ttl=100&", "unknown option"}, {"redis://a?s3cret", "unknown option"},
        {"local:?ca=ca.pem", "does not speak TLS"}, {"redis://h?cert=a&key=b", "does not speak TLS"},
        {"zookeeper://h?key=s3cret", "does not speak TLS"},
        {"redis://a?ttl=100&ttl=100", "an option is there twice"},
        {"redis://a?variant=owner&ttl=100&variant=owner", "an option is there twice"},
        {"etcd://a?cert=/a&key=/b&cert=/c", "an option is there twice"},
        {"redis://a?renew=on&renew=on", "an option is there twice"},
        {"redis://a?renew=off", "renew wants to be on"}, {"redis://a?renew", "renew wants to be on"},
        {"local:?renew=on", "local: cannot renew"},
        {"none:?renew=on", "renew is not for the locks of lessons"},
        {"redis://a?variant=set-del&renew=on", "renew is not for the locks of lessons"},
        {"etcd://a?variant=rpc&renew=on", "renew is not for the locks of lessons"});
}

static void redis_urls(void) {
    REFUSE({"redis://", "has no address"}, {"redis://?ttl=100", "has no address"},
           {"redis://a,b", "redis: the host has a comma, and it is one server (want redis://"},
           {"redis://u:s3cret@a,u:s3cret@b", "a comma in user or password"},
           {"redis://a b", "a character that no host has"}, {"redis://a%0ab", "a character that no host has"},
           {"redis://a\nb", "a control character"}, {"redis://a?ttl=100\n", "a control character"},
           {"redis://a#frag", "a ? or # has no meaning here"},
           {"redis://a:1#frag?ttl=100", "a ? or # has no meaning here"},
           {"redis://a:0", "the host has a port that is not a number from 1 to 65535"},
           {"redis://a:70000", "a port that is not"}, {"redis://a:12x", "a port that is not"},
           {"redis://:1", "the host is empty"}, {"redis://:s3cret@", "the host is empty"},
           {"redis://u:s3cret?s3cret@a", "a ? in a user or password is written %3F"});
}

static void redlock_urls(void) {
    REFUSE({"redlock:", "has no address; want redlock://HOST"}, {"redlock://", "has no address"},
           {"redlock://?ttl=100", "has no address"}, {"redlock://,", "node 1 is empty"},
           {"redlock://a,,b", "node 2 is empty"},
           {"redlock://a,b:0", "node 2: the host has a port that is not a number from 1 to 65535; want"},
           {"redlock://a,b/x", "node 2: the database after the / is not a number"},
           {"redlock://a,s3cret@b", "node 2: user or password is wrong; want"},
           {"redlock://a,:s3cret,s3cret@b", "node 2: the host is empty"},
           {"redlock://a,b#frag", "node 2: a ? or #"}, {"redlock://a,b,A", "nodes 1 and 3 are the same"},
           {"redlock://a:6379,a", "nodes 1 and 2 are the same"},
           {"redlock://:s3cret@a/1,me:s3cret@a/2", "nodes 1 and 2 are the same"},
           {"redlock://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", "too many nodes"},
           {"redlock://a,b,c,d,e,f,g,h,i,j,k,l,m,n,:1", "node 15"});
    tools_open(NULL, "redlock://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o");
}

static void etcd_urls(void) {
    REFUSE({"etcd:", "want etcd://"}, {"etcd://", "want etcd://"},
           {"etcd://h?ca=/nowhere/ca.pem", "/nowhere/ca.pem"},
           {"etcd://h?key=/nowhere/key.pem", "TLS needs ca_file"}, {"etcd://h?cert=/nowhere", "want "},
           {"etcd://h?ca=", "want "}, {"etcd://me@h", "the user makes no sense"},
           {"etcd://s3cret@h", "want "}, {"etcd://:s3cret@h", "want "}, {"etcd://me:s3cret@", "want "},
           {"etcd://me:s3cret@h:port", "want "}, {"etcd://me:s3cret@h?ca=/nowhere", "want "},
           {"etcd://me:s3cret%et@h", "want "}, {"etcd://me:s3cret%4@h", "want "},
           {"etcd://me:s3cret%00@h", "want "}, {"etcd://me:s3cret/@a,,b", "want "},
           {"etcd://me:s3cret?@h", "want "}, {"etcd://h:70000", "endpoint 1"}, {"etcd://h:0", "endpoint 1"},
           {"etcd://h:12x", "endpoint 1"}, {"etcd://a,b c", "endpoint 2"}, {"etcd://a,,b", "endpoint 2"},
           {"etcd://a,b,", "endpoint 3"}, {"etcd://a#frag", "endpoint 1"}, {"etcd://a/b", "endpoint 1"},
           {"etcd://a\n", "a control character"},
           {"etcd://u:s3cret@a,u:s3cret@b", "USER:PASSWORD stands once"},
           {"etcd://a:1,u:s3cret@b", "USER:PASSWORD stands once"},
           {"etcd://u:s3c,ret@b", "a comma in it is written %2C"});
    tools_refuse(harness_format("etcd://root:s3cret%s@127.0.0.1:1", harness_repeat('x', 300)), NULL, "want ");
    tools_open(NULL, "etcd://u:s3c%2cret@127.0.0.1:1");
}

static const char *servers_of(const char *address) {
    char *servers = harness_alloc(ZOOKEEPER_SERVERS_SIZE), root[ZOOKEEPER_ROOT_SIZE];
    char what[128] = "";
    if (!zookeeper_address_read(address, servers, root, what, sizeof what))
        FAIL("%s: %s", address, what);
    return servers;
}

static void zookeeper_urls(void) {
    REFUSE({"zookeeper:", "server 1 is empty; want zookeeper://HOST[:PORT],HOST[:PORT]"},
           {"zookeeper://,", "server 1 is empty"}, {"zookeeper://h,", "server 2 is empty"},
           {"zookeeper://h,,g", "server 2 is empty"}, {"zookeeper://:2181", "server 1 is empty"},
           {"zookeeper://h:", "server 1 has a port"}, {"zookeeper://h:0", "server 1 has a port"},
           {"zookeeper://h:65536", "server 1 has a port"},
           {"zookeeper://h:4294967297", "server 1 has a port"},
           {"zookeeper://g,h:21x", "server 2 has a port"}, {"zookeeper://me:s3cret@h", "server 1 has a user"},
           {"zookeeper://h g", "server 1 has a character that no host has"},
           {"zookeeper://h%20g", "server 1 has a character"},
           {"zookeeper://g,h#frag", "server 2 has a character"}, {"zookeeper://h\n", "a control character"},
           {"zookeeper://[::1", "server 1 has no ]"}, {"zookeeper://[::1]2181", "server 1 has a port"},
           {"zookeeper://h/a/", "the path has a level that is empty"},
           {"zookeeper://h//a", "the path has a level"}, {"zookeeper://h/a/../b", "the path has a level"},
           {"zookeeper://h/./a", "the path has a level"},
           {"zookeeper://h/a,g/a", "it stands once, behind the last server"},
           {"zookeeper://h/a#frag", "a # or an @"}, {"zookeeper://h/a b", "the path has a space"},
           {"zookeeper://h/1/2/3/4/5/6/7/8/9", "the path is too deep"},
           {harness_format("zookeeper://h/%s", harness_repeat('r', 258)), "the path is too long"});
    tools_open(NULL, harness_format("zookeeper://h/%s", harness_repeat('r', 257)));
    CHECK_STR(servers_of("h"), "h:2181");
    CHECK_STR(servers_of("h:1,g,127.0.0.1:00020/a"), "h:1,g:2181,127.0.0.1:20");
    CHECK_STR(servers_of("[::1],[fe80::1%lo]:7"), "::1:2181,fe80::1%lo:7");
    /* No server need be there. */
    struct lock *lock = tools_open(NULL, "zookeeper://127.0.0.1:1,[::1]:1/a/b?ttl=20");
    CHECK(lock_caps(lock) & LOCK_CAN_FENCE_FAILOVER);
}

static void times_to_live(void) {
    static const int64_t bad[] = {1, 9, -5, 86400001, INT64_MAX};
    static const struct {
        const char *url;
        int64_t given_ms, ttl_ms;
    } good[] = {{"local:", 0, 10000},
                {"local:", 500, 500},
                {"none:?ttl=86400000", 500, 86400000},
                {"redis://127.0.0.1:1?variant=watchdog&ttl=10", 0, 10}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct lock_config config = {.ttl_ms = good[i].given_ms, .teaching = true};
        struct lock *lock = tools_open(&config, good[i].url);
        CHECK_INT(lock_ttl_ns(lock), good[i].ttl_ms * 1000000);
        CHECK_INT((lock_caps(lock) & LOCK_RENEWS) != 0, i == 3);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tools_refuse("local:", &(struct lock_config){.ttl_ms = bad[i]}, "ttl_ms wants 10 to 86400000");
}

static void parts(void) {
    struct lock_url url;
    char error[LOCK_ERROR_SIZE];
    CHECK(lock_url_parse(&url, "redis://me:pass@h:1/2?ttl=250&variant=set-del", error, sizeof error));
    CHECK_STR(url.scheme, "redis");
    CHECK_STR(url.address, "me:pass@h:1/2");
    CHECK_STR(url.variant, "set-del");
    CHECK_INT(url.ttl_ms, 250);
    CHECK(!lock_url_parse(&url, harness_format("redis://secret%03000d", 1), error, sizeof error));
    CHECK_HAS(error, "too long");
    CHECK(!strstr(error, "secret"));
    CHECK(!lock_url_parse(&url, "redis://h?ttl=secret", error, sizeof error));
    CHECK(!strstr(error, "secret"));
    CHECK_INT(url.ttl_ms, 250);
}

static void every_status_has_its_text(void) {
    for (int i = 0; i < LOCK_STATUSES; i++)
        CHECK(lock_status_text((enum lock_status)i)[0] != '\0');
    CHECK_STR(lock_status_text(LOCK_STATUSES), "no status");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("schemes and options", schemes_and_options);
    harness_run("URLs of redis", redis_urls);
    harness_run("URLs of redlock", redlock_urls);
    harness_run("URLs of etcd", etcd_urls);
    harness_run("URLs of zookeeper", zookeeper_urls);
    harness_run("times to live", times_to_live);
    harness_run("the parts of a URL", parts);
    harness_run("statuses", every_status_has_its_text);
    return harness_finish();
}
