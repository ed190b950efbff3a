/* The wrong Redis locks, beyond their flaws, are locks: in calm, with somebody who waits, with lost replies.
 * And nobody gets one who did not ask for it. */
#include <stdio.h>
#include <string.h>

#include "lock/test/takers.h"

/* `flaw` is a piece of what it says when it is refused; NULL: it is right. */
static const struct {
    const char *variant, *flaw;
} locks[] = {
    {"get-set", "lets two hold it at once"},
    {"setnx-expire", "stays locked for ever"},
    {"getset", "replace the winner's time"},
    {"set-del", "deletes another's lock"},
    {"timestamp", "two grants of the same millisecond"},
    {"owner", NULL},
};

enum { LOCKS = sizeof locks / sizeof *locks };

static struct taker a, b, c;

static void open_takers(void) {
    taker_open(&a);
    taker_open(&b);
    taker_open(&c);
}

static void in_calm(void) {
    stage_begin();
    open_takers();
    CHECK(taker_try(&a));
    CHECK(!taker_try(&b));
    CHECK(lock_remaining_ns(a.lock, &a.grant) > TTL_MS * 900000LL);
    tools_check_status(taker_release(&a), LOCK_OK);
    tools_check_status(taker_release(&a), LOCK_NOT_OWNER);
    CHECK(taker_try(&b));
    CHECK(!taker_try(&a));
    stage_time_passes();
    CHECK_INT(lock_remaining_ns(b.lock, &b.grant), 0);
    CHECK(taker_try(&a));
    tools_check_status(taker_release(&a), LOCK_OK);
    if (strcmp(stage.variant, "owner") != 0) {
        CHECK_INT(lock_caps(a.lock), LOCK_IS_SHARED);
        CHECK_INT(a.grant.fence, 0);
        tools_check_status(lock_extend(a.lock, &a.grant), LOCK_CONFIG);
    }
    /* If the owner is a time, two grants of one instant have the same owner; each is released all the same.
     */
    const char *const names[] = {"k", "l", "k", "m"};
    struct lock_grant grants[4];
    tools_check_status(lock_acquire_all(a.lock, names, 4, 0, NULL, grants), LOCK_OK);
    tools_check_status(lock_release_all(a.lock, grants, 4), LOCK_OK);
    CHECK_STR(redis_command(&stage.redis, "EXISTS", "lock:{k}", "lock:{l}", "lock:{m}", NULL), "0");
}

/* A waiter polls until it gets the lock: here, until the time of a dead holder is over. */
static void waiting(void) {
    stage_begin();
    struct lock *lock;
    struct lock_config config = {.teaching = true};
    struct lock_grant grant, next;
    char error[LOCK_ERROR_SIZE];
    tools_check_status(lock_open(stage_url(stage.variant, SHORT_TTL_MS), &config, &lock, error, sizeof error),
                       LOCK_OK);
    int64_t began_ns = lock_now_ns(lock);
    tools_check_status(lock_acquire(lock, "w", began_ns, NULL, &grant), LOCK_OK);
    tools_check_status(lock_acquire(lock, "w", began_ns + 20000000000, NULL, &next), LOCK_OK);
    CHECK(lock_now_ns(lock) - began_ns >= SHORT_TTL_MS * 900000LL);
    tools_check_status(lock_release(lock, &next), LOCK_OK);
    lock_close(lock);
}

static struct proxy *proxy;

/* a's replies can be lost, b's not. */
static void open_behind_proxy(void) {
    stage_begin();
    proxy = proxy_start(stage.redis.port);
    stage.port = proxy_port(proxy);
    taker_open(&a);
    stage.port = stage.redis.port;
    taker_open(&b);
}

/* getset: a time does not name its writer: after a lost reply nobody holds the lock until the time is over.
 */
static void lost_and_not_found(void) {
    static const char *const takes[] = {"SETNX", "GETSET"};
    open_behind_proxy();
    for (int i = 0; i < 2; i++) {
        proxy_set(proxy, PROXY_CUT, 0, takes[i]);
        CHECK(!taker_try(&a));
        CHECK_INT(proxy_faults(proxy), i + 1);
        CHECK(!taker_try(&b));
        stage_time_passes();
    }
    CHECK(taker_try(&a));
    proxy_set(proxy, PROXY_CUT, 0, "EVALSHA");
    tools_check_status(taker_release(&a), LOCK_OK);
    CHECK_INT(proxy_faults(proxy), 3);
    CHECK(taker_try(&b));
    proxy_stop(proxy);
}

/* The store did it, and its reply is lost: what was taken is found to be had, and what was given back to be
 * gone. */
static void lost_replies(void) {
    static const char *const takes[] = {"\r\nGET\r\n", "\r\nSET\r\n", "SETNX", "PEXPIRE", "EVALSHA"};
    int count = sizeof takes / sizeof *takes;
    if (strcmp(stage.variant, "getset") == 0) {
        lost_and_not_found();
        return;
    }
    open_behind_proxy();
    for (int i = 0; i < count; i++) {
        proxy_set(proxy, PROXY_CUT, 0, takes[i]);
        CHECK(taker_try(&a));
        CHECK(!taker_try(&b));
        CHECK(redis_integer(&stage.redis, "PTTL", "lock:{k}", NULL) > 0);
        proxy_set(proxy, PROXY_CUT, 0, "lock:{k}");
        tools_check_status(taker_release(&a), LOCK_OK);
        CHECK(taker_try(&b));
        tools_check_status(taker_release(&b), LOCK_OK);
    }
    CHECK(proxy_faults(proxy) > count);
    proxy_stop(proxy);
}

static void refused_unless_asked_for(void) {
    stage.port = stage.redis.port;
    for (int i = 0; i < LOCKS; i++) {
        struct lock *lock = NULL;
        char error[LOCK_ERROR_SIZE] = "";
        const char *url = stage_url(locks[i].variant, TTL_MS);
        enum lock_status status = lock_open(url, NULL, &lock, error, sizeof error);
        tools_check_status(status, locks[i].flaw ? LOCK_CONFIG : LOCK_OK);
        if (locks[i].flaw) {
            CHECK_HAS(error, "this lock is for lessons: it ");
            CHECK_HAS(error, locks[i].flaw);
            CHECK(taker_open_url(&a, url));
            lock_close(a.lock);
        }
        lock_close(lock);
    }
}

static void run_for_each(const char *name, void (*test)(void)) {
    for (int i = 0; i < LOCKS; i++) {
        stage.variant = locks[i].variant;
        char full[128];
        snprintf(full, sizeof full, "%s: %s", stage.variant, name);
        harness_run(full, test);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_start(&stage.redis, NULL);
    run_for_each("a lock in calm", in_calm);
    run_for_each("waiting", waiting);
    run_for_each("lost replies", lost_replies);
    harness_run("refused unless asked for", refused_unless_asked_for);
    return harness_finish();
}
