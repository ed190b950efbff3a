/* lock_last_error() names the server that could not be used, and why. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lock/test/etcd_tools.h"

enum { TTL_MS = 4000, THREADS = 8 };

static struct redis_server redis;
static struct etcd_server etcd;
static struct zookeeper_server zookeeper;
static char last[LOCK_ERROR_SIZE];

/* `begin` is all before 127.0.0.1. */
static struct lock *open_lock(const char *begin, int port) {
    return tools_open(NULL, harness_format("%s127.0.0.1:%d?ttl=%d", begin, port, TTL_MS));
}

static const char *last_error(struct lock *lock) {
    lock_last_error(lock, last, sizeof last);
    CHECK(!strstr(last, "sesame"));
    return last;
}

/* A key of its own: what was sent to a server that is stopped is done once it goes on. */
static void check_fails(struct lock *lock, const char *server, const char *why) {
    static int count;
    struct lock_grant grant;
    enum lock_status status = lock_try(lock, harness_format("k%d", count++), &grant);
    CHECK(status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN);
    CHECK_HAS(last_error(lock), harness_format("%s: ", server));
    CHECK_HAS(last, why);
}

static void nothing_yet(void) {
    struct lock *lock = open_lock("redis://", redis.port), *local = tools_open(NULL, "local:");
    tools_check_free(lock, "k");
    CHECK_STR(last_error(lock), "");
    tools_check_free(local, "k");
    CHECK_STR(last_error(local), "");
}

/* A cancelled call says nothing about the store, whether it was asked or not. */
static void check_cancelled(const char *url, int port) {
    struct proxy *proxy = proxy_start(port);
    struct lock *lock = open_lock(url, proxy_port(proxy));
    struct lock_cancel *cancel = tools_new_cancel();
    struct lock_grant grant = tools_use(lock, "k");
    char before[sizeof last];
    snprintf(before, sizeof before, "%s", last_error(lock)); /* it may have taken time to connect */
    proxy_set(proxy, PROXY_DELAY, 200, NULL);
    struct tools_waiter *waiter = tools_wait(lock, "k", PATIENCE_MS, cancel);
    harness_pause_ms(50); /* what is asked is in flight, as a rule */
    lock_cancel(cancel);
    tools_join(waiter);
    CHECK_STR(last_error(lock), before);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    lock_acquire(lock, "another", tools_in_ms(lock, PATIENCE_MS), cancel, &grant);
    CHECK_STR(last_error(lock), before);
    CHECK(tools_metrics(lock).cancelled > 0);
}

static void cancelled(void) {
    check_cancelled("redis://", redis.port);
    check_cancelled("redlock://", redis.port);
    check_cancelled("etcd://", etcd.port);
    check_cancelled("zookeeper://", zookeeper.port);
}

/* Nor does a call that waits in the store's queue until its deadline. */
static void waited_in_vain(void) {
    const struct lock_config config = {.teaching = true};
    const char *url = harness_format("etcd://127.0.0.1:%d?variant=rpc&ttl=%d", etcd.port, TTL_MS);
    struct lock *holder = tools_open(&config, url), *lock = tools_open(&config, url);
    struct lock_grant grant = tools_acquire(holder, "k"), none;
    tools_check_free(lock, "another");
    CHECK_STR(last_error(lock), "");
    tools_check_status(lock_acquire(lock, "k", tools_in_ms(lock, 100), NULL, &none), LOCK_TIMEOUT);
    CHECK_STR(last_error(lock), "");
    tools_release(holder, &grant);
}

static void refused(void) {
    static const struct {
        const char *url, *why;
    } locks[] = {
        {"redis://:sesame@", "Connection refused"},
        {"redis://me:sesame@", "Connection refused"},
        {"redlock://:sesame@", "Connection refused"},
        {"etcd://me:sesame@", "Connection refused"},
        {"zookeeper://", "refused"},
    };
    int port = harness_free_port();
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++)
        check_fails(open_lock(locks[i].url, port), harness_format("127.0.0.1:%d", port), locks[i].why);
    /* Two nodes, of which the first that refuses decides it. */
    check_fails(open_lock(harness_format("redlock://127.0.0.1:%d,", harness_free_port()), port), "",
                "Connection refused");
}

/* Calls in flight and new calls: both fail. */
static void check_hung(const char *url, int port, struct proc *server) {
    struct lock *before = open_lock(url, port), *now = open_lock(url, port);
    tools_use_at_last(before, "k"); /* a busy machine may be late */
    proc_kill(server, SIGSTOP);
    check_fails(before, harness_format("127.0.0.1:%d", port), "no answer");
    check_fails(now, harness_format("127.0.0.1:%d", port), "");
    proc_kill(server, SIGCONT);
}

static void hung(void) {
    check_hung("redis://", redis.port, &redis.proc);
    check_hung("redlock://", redis.port, &redis.proc);
    check_hung("etcd://", etcd.port, &etcd.proc);
    check_hung("zookeeper://", zookeeper.port, &zookeeper.proc);
}

static void refused_by_a_redis(void) {
    struct redis_server replica;
    redis_start_replica(&replica, &redis);
    const char *const urls[] = {"redis://:sesame@", "redlock://:sesame@"};
    for (int i = 0; i < 2; i++) {
        const char *server = harness_format("127.0.0.1:%d", redis.port);
        redis_command(&redis, "CONFIG", "SET", "maxmemory", "1", NULL);
        check_fails(open_lock(i ? "redlock://" : "redis://", redis.port), server, "OOM ");
        redis_command(&redis, "CONFIG", "SET", "maxmemory", "0", NULL);
        check_fails(open_lock(urls[i], redis.port), server, "the password is refused");
        check_fails(open_lock(i ? "redlock://" : "redis://", replica.port),
                    harness_format("127.0.0.1:%d", replica.port), "READONLY ");
    }
    check_fails(tools_open(NULL, harness_format("redis://127.0.0.1:%d/99", redis.port)), "",
                "DB index is out of range");
    redis_command(&redis, "CONFIG", "SET", "requirepass", "other", NULL);
    check_fails(open_lock("redis://", redis.port), "", "NOAUTH ");
    check_fails(open_lock("redis://me:sesame@", redis.port), "", "user or the password");
}

static bool authentication_fails(void *lock) {
    struct lock_grant grant;
    lock_try(lock, "k", &grant);
    return strstr(last_error(lock), "authentication failed") != NULL;
}

static void refused_by_an_etcd(void) {
    struct etcd_server strict;
    /* To check a password takes long otherwise, by intention. */
    etcd_start(&strict, "--bcrypt-cost", "4", NULL);
    etcd_command(&strict, "user", "add", "root:other", NULL);
    etcd_command(&strict, "user", "grant-role", "root", "root", NULL);
    CHECK_HAS(etcd_command(&strict, "auth", "enable", NULL), "Authentication Enabled");
    CHECK(harness_wait(authentication_fails, open_lock("etcd://root:sesame@", strict.port), PATIENCE_MS));
    CHECK_HAS(last, harness_format("127.0.0.1:%d: ", strict.port));
}

static void *fail_often(void *lock) {
    static _Atomic int count;
    char key[16];
    snprintf(key, sizeof key, "k%d", count++);
    for (int i = 0; i < 200; i++) {
        char text[40];
        struct lock_grant grant;
        lock_try(lock, key, &grant);
        lock_last_error(lock, text, sizeof text);
        CHECK_HAS(text, "127.0.0.1:");
        CHECK(strlen(text) < sizeof text);
    }
    return NULL;
}

/* Cut where there is no room, and whole or not there while it changes. */
static void many_threads(void) {
    struct lock *lock = open_lock("redis://", harness_free_port());
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, fail_often, lock), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    char text[8];
    lock_last_error(lock, text, sizeof text);
    CHECK_STR(text, "127.0.0");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_start(&redis, NULL);
    etcd_start(&etcd, NULL);
    zookeeper_start(&zookeeper);
    harness_run("nothing has failed", nothing_yet);
    harness_run("cancelled", cancelled);
    harness_run("waited in vain", waited_in_vain);
    harness_run("refused", refused);
    harness_run("hung", hung);
    harness_run("what a Redis refuses", refused_by_a_redis);
    harness_run("what an etcd refuses", refused_by_an_etcd);
    harness_run("many threads", many_threads);
    return harness_finish();
}
