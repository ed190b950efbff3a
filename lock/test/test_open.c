/* The URLs that lock_open() accepts and refuses, and its error texts. */
#include <string.h>

#include "lock/core/backend.h"
#include "lock/lock.h"
#include "test/harness.h"

static void refuse(const char *url, bool teaching, const char *words) {
    char error[LOCK_ERROR_SIZE] = "";
    struct lock_config config = {.teaching = teaching};
    struct lock *lock = (struct lock *)error;
    CHECK_STR(lock_status_text(lock_open(url, &config, &lock, error, sizeof error)), "not valid");
    CHECK(lock == (struct lock *)error);
    CHECK_HAS(error, words);
    CHECK(!strstr(error, "s3cret"));
}

static void accept(const char *url) {
    char error[LOCK_ERROR_SIZE] = "";
    struct lock_config config = {.teaching = true};
    struct lock *lock = NULL;
    if (lock_open(url, &config, &lock, error, sizeof error) != LOCK_OK)
        FAIL("%s: %s", url, error);
    lock_close(lock);
}

static void open_and_refuse(void) {
    accept("local:");
    accept("local:?ttl=500");
    accept("none:");
    refuse("", true, "not a lock URL");
    refuse("local", true, "not a lock URL");
    refuse("Local:", true, "not a lock URL");
    refuse(":", true, "not a lock URL");
    refuse("file:", true, "no such lock; there are none:, local:");
    refuse("file:", true, "redis:, redis-sentinel:, redis-cluster:, redlock:, etcd:, zookeeper:");
    refuse("local:?variant=better", true, "no such lock; its variants are none");
    refuse(
        "redis://h?variant=better", true,
        "no such lock; its variants are owner, watchdog, get-set, setnx-expire, getset, set-del, timestamp");
    refuse("etcd://h?variant=better", true, "no such lock; its variants are queue, fixed-key, rpc");
    refuse("local://here", true, "local: has no address");
    refuse("local:here", true, "an address begins with //");
    refuse("local:?ttl=9", true, "ttl wants 10 to 86400000");
    refuse("local:?ttl=86400001", true, "ttl wants");
    refuse("local:?ttl=", true, "ttl wants");
    refuse("local:?ttl=1e3", true, "ttl wants");
    refuse("local:?ttl=99999999999999999999", true, "ttl wants");
    refuse("local:?variant=", true, "variant wants a name");
    refuse("local:?tll=100", true, "unknown option");
    refuse("local:?", true, "unknown option");
    refuse("local:?ttl=100&", true, "unknown option");
    refuse("local:?ca=ca.pem", true, "does not speak TLS");
    refuse("redis://h?cert=a&key=b", true, "does not speak TLS");
    refuse("redis://", true, "has no address");
    refuse("redis://?ttl=100", true, "has no address");
    refuse("redis://a,b", true, "redis: the host has a comma, and it is one server (want redis://");
    refuse("redis://u:s3cret@a,u:s3cret@b", true, "a comma in user or password");
    refuse("redis://a b", true, "a character that no host has");
    refuse("redis://a%0ab", true, "a character that no host has");
    refuse("redis://a\nb", true, "a control character");
    refuse("redis://a?ttl=100\n", true, "a control character");
    refuse("redis://a#frag", true, "a ? or # has no meaning here");
    refuse("redis://a:1#frag?ttl=100", true, "a ? or # has no meaning here");
    refuse("redis://a:0", true, "the host has a port that is not a number from 1 to 65535");
    refuse("redis://a:70000", true, "a port that is not");
    refuse("redis://a:12x", true, "a port that is not");
    refuse("redis://:1", true, "the host is empty");
    refuse("redis://:s3cret@", true, "the host is empty");
    refuse("redis://a?ttl=100&ttl=200", true, "an option is there twice");
    refuse("redis://a?ttl=100&ttl=100", true, "an option is there twice");
    refuse("redis://a?variant=owner&ttl=100&variant=owner", true, "an option is there twice");
    refuse("etcd://a?ca=/a&ca=/b", true, "an option is there twice");
    refuse("etcd://a?cert=/a&key=/b&cert=/c", true, "an option is there twice");
    refuse("redis://a?ttl=100#frag", true, "ttl wants");
    refuse("redis://a?ttl=100?ttl=200", true, "ttl wants");
    refuse("redis://a?s3cret", true, "unknown option");
    refuse("redis://u:s3cret?s3cret@a", true, "a ? in a user or password is written %3F");
    refuse("none:", false, "for lessons: it locks nothing");
}

static void etcd_urls(void) {
    refuse("etcd://h?ca=/nowhere/ca.pem", true, "/nowhere/ca.pem");
    refuse("etcd://h?key=/nowhere/key.pem", true, "TLS needs ca_file");
    refuse("etcd://", true, "want etcd://");
    refuse("etcd://me@h", true, "the user makes no sense");
    refuse("etcd://h:70000", true, "endpoint 1");
    refuse("etcd://h:0", true, "endpoint 1");
    refuse("etcd://h:12x", true, "endpoint 1");
    refuse("etcd://a,b c", true, "endpoint 2");
    refuse("etcd://a,,b", true, "endpoint 2");
    refuse("etcd://a,b,", true, "endpoint 3");
    refuse("etcd://a#frag", true, "endpoint 1");
    refuse("etcd://a/b", true, "endpoint 1");
    refuse("etcd://a\n", true, "a control character");
    refuse("etcd://u:s3cret@a,u:s3cret@b", true, "USER:PASSWORD stands once");
    refuse("etcd://a:1,u:s3cret@b", true, "USER:PASSWORD stands once");
    refuse("etcd://u:s3c,ret@b", true, "a comma in it is written %2C");
    accept("etcd://u:s3c%2cret@127.0.0.1:1");
}

static void renewing(void) {
    refuse("redis://a?renew=off", true, "renew wants to be on");
    refuse("redis://a?renew", true, "renew wants to be on");
    refuse("redis://a?renew=on&renew=on", true, "an option is there twice");
    refuse("local:?renew=on", true, "local: cannot renew");
    refuse("none:?renew=on", true, "renew is not for the locks of lessons");
    refuse("redis://a?variant=set-del&renew=on", true, "renew is not for the locks of lessons");
    refuse("etcd://a?variant=rpc&renew=on", true, "renew is not for the locks of lessons");
}

static void times_to_live(void) {
    static const int64_t bad[] = {1, 9, -5, 86400001, INT64_MAX};
    char error[LOCK_ERROR_SIZE];
    struct lock *lock;
    static const struct {
        const char *url;
        int64_t given_ms, ttl_ms;
    } good[] = {{"local:", 0, 10000},
                {"local:", 500, 500},
                {"none:?ttl=86400000", 500, 86400000},
                {"redis://127.0.0.1:1?variant=watchdog&ttl=10", 0, 10}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct lock_config config = {.ttl_ms = good[i].given_ms, .teaching = true};
        CHECK_STR(lock_status_text(lock_open(good[i].url, &config, &lock, error, sizeof error)), "ok");
        CHECK_INT(lock_ttl_ns(lock), good[i].ttl_ms * 1000000);
        CHECK_INT((lock_caps(lock) & LOCK_RENEWS) != 0, i == 3);
        lock_close(lock);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lock_config config = {.ttl_ms = bad[i]};
        CHECK_STR(lock_status_text(lock_open("local:", &config, &lock, error, sizeof error)), "not valid");
        CHECK_HAS(error, "ttl_ms wants 10 to 86400000");
    }
}

static void parts(void) {
    struct lock_url url;
    char error[LOCK_ERROR_SIZE];
    CHECK(lock_url_parse(&url, "redis://me:pass@h:1/2?ttl=250&variant=set-del", error, sizeof error));
    CHECK_STR(url.scheme, "redis");
    CHECK_STR(url.address, "me:pass@h:1/2");
    CHECK_STR(url.variant, "set-del");
    CHECK_INT(url.ttl_ms, 250);
    const char *long_address = harness_format("redis://secret%03000d", 1);
    CHECK(!lock_url_parse(&url, long_address, error, sizeof error));
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
    harness_run("what is opened and what is refused", open_and_refuse);
    harness_run("what etcd opens and refuses", etcd_urls);
    harness_run("which locks renew", renewing);
    harness_run("times to live", times_to_live);
    harness_run("the parts of a URL", parts);
    harness_run("statuses", every_status_has_its_text);
    return harness_finish();
}
