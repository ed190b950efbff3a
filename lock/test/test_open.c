/* What lock_open() takes, what it refuses, and with which words. */
#include <string.h>

#include "lock/lock.h"
#include "lock/url.h"
#include "test/harness.h"

static void refuse(const char *url, bool teaching, const char *words) {
    char error[LOCK_ERROR_SIZE] = "";
    struct lock_config config = {.teaching = teaching};
    struct lock *lock = (struct lock *)error;
    CHECK_STR(lock_status_text(lock_open(url, &config, &lock, error, sizeof error)), "not valid");
    CHECK(lock == (struct lock *)error);
    CHECK_HAS(error, words);
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
    refuse("local:?variant=better", true, "no such lock; there are");
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
    refuse("etcd://h?ca=/nowhere/ca.pem", true, "/nowhere/ca.pem");
    refuse("etcd://h?key=/nowhere/key.pem", true, "TLS wants ca_file");
    refuse("etcd://", true, "want etcd://");
    refuse("etcd://me@h", true, "the user makes no sense");
    refuse("etcd://h:70000", true, "endpoint 1");
    refuse("none:", false, "for lessons: it locks nothing");
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
    harness_run("times to live", times_to_live);
    harness_run("the parts of a URL", parts);
    harness_run("statuses", every_status_has_its_text);
    return harness_finish();
}
