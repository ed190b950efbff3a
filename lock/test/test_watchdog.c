/* variant=watchdog: reentrant, renewed while its holder reports progress, and not a moment longer than
 * bounded. */
#include <stdlib.h>
#include <string.h>

#include "lock/test/tools.h"

static const int64_t MS = 1000000;

static struct redis_server redis;

static struct lock *open_lock(const char *options) {
    return tools_open_told(tools_redis_url(redis.port, harness_format("variant=watchdog&%s", options)));
}

static void reentrant(void) {
    struct lock *lock = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant outer = tools_acquire(lock, "a"), inner = tools_acquire(lock, "a"), innermost;
    CHECK_STR(inner.owner, outer.owner);
    CHECK_INT(inner.fence, outer.fence);
    tools_check_status(lock_try(lock, "a", &innermost), LOCK_OK);
    CHECK_INT(innermost.fence, outer.fence);
    tools_release(lock, &innermost);
    tools_release(lock, &inner);
    tools_check_held(lock, "a");
    tools_check_held(other, "a");
    tools_release(lock, &outer);
    tools_check_status(lock_release(lock, &outer), LOCK_NOT_OWNER);
    CHECK(tools_use(other, "a").fence > outer.fence);
    struct lock *owner = tools_open(NULL, tools_redis_url(redis.port, "")); /* which is not reentrant */
    struct lock_grant grant = tools_acquire(owner, "a"), again;
    tools_check_status(lock_try(owner, "a", &again), LOCK_BUSY);
    tools_release(owner, &grant);
}

/* A thread that ends while it holds the lock has no heir, though the next may have its pthread_t. */
static void no_heir(void) {
    struct lock *lock = open_lock("ttl=60000");
    struct lock_grant grant = tools_acquire_elsewhere(lock, "a");
    for (int i = 0; i < 10; i++)
        tools_check_held(lock, "a");
    tools_release(lock, &grant);
}

static long long extensions(void) {
    const char *info = redis_command(&redis, "INFO", "commandstats", NULL);
    const char *at = strstr(info, "cmdstat_pexpire:calls=");
    return at ? strtoll(at + strlen("cmdstat_pexpire:calls="), NULL, 10) : 0;
}

/* What redsync's authors warn of: the process lives, its holder hangs. The renewals end by themselves, and
 * another gets the lock; without the bound it would never. */
static void hung_holder(void) {
    struct lock *other = open_lock("ttl=800"), *lock = open_lock("ttl=800");
    struct lock_grant hung = tools_acquire(lock, "a");
    int64_t since_ns = lock_now_ns(lock), deadline_ns = hung.deadline_ns;
    while (told.times == 0) { /* to look is no progress */
        int64_t left_ns = lock_remaining_ns(lock, &hung);
        if (left_ns > 0)
            deadline_ns = lock_now_ns(lock) + left_ns;
        CHECK(deadline_ns < since_ns + PATIENCE_MS * MS);
        harness_pause_ms(1);
    }
    CHECK(told.at_ns - since_ns > 3 * (790 * MS)); /* it was renewed, but not for ever */
    CHECK(told.at_ns < deadline_ns);               /* and should it come to itself, it is told in time */
    struct lock_grant next = tools_acquire(other, "a");
    CHECK(lock_now_ns(lock) >= deadline_ns);
    CHECK(next.fence > hung.fence);
    tools_check_status(lock_progress(lock, &hung), LOCK_LOST);
    tools_check_status(lock_release(lock, &hung), LOCK_NOT_OWNER);
    tools_release(other, &next);
}

static _Atomic bool takes_long;

static void on_lost_for_long(void *ctx, const struct lock_grant *grant) {
    tools_on_lost(ctx, grant);
    while (takes_long)
        harness_pause_ms(1);
}

static void end_on_lost(void *arg) {
    (void)arg;
    takes_long = false;
}

/* While the first holder is told, which takes long, the others can know it in time by asking. */
static void telling_takes_long(void) {
    enum { MANY = 4 };
    struct lock_config config = {.on_lost = on_lost_for_long};
    struct lock_grant grants[MANY];
    told.times = 0;
    takes_long = true;
    struct lock *lock = tools_open(&config, tools_redis_url(redis.port, "variant=watchdog&ttl=3000"));
    harness_defer(end_on_lost, NULL);
    for (int i = 0; i < MANY; i++)
        grants[i] = tools_acquire(lock, harness_format("k%d", i));
    redis_pause(&redis);
    tools_wait_told(1);
    for (int i = 0; i < MANY; i++) {
        while (lock_remaining_ns(lock, &grants[i]) > 0)
            harness_pause_ms(1);
    }
    CHECK(lock_now_ns(lock) < grants[0].deadline_ns);
    tools_check_status(lock_progress(lock, &grants[MANY - 1]), LOCK_LOST);
    CHECK_INT(told.times, 1);
    takes_long = false;
    tools_wait_told(MANY);
    redis_resume(&redis);
}

/* A holder that is told to stop has time to: no thread of this process gets the lock before its deadline. */
static void told_in_time(void) {
    struct lock *lock = open_lock("ttl=2400");
    struct lock_grant grant = tools_acquire(lock, "a");
    struct tools_waiter *next = tools_wait(lock, "a", PATIENCE_MS, NULL);
    redis_pause(&redis);
    tools_wait_told(1);
    redis_resume(&redis);
    CHECK(lock_now_ns(lock) < grant.deadline_ns);
    tools_check_status(tools_join(next), LOCK_OK);
    CHECK(lock_now_ns(lock) >= grant.deadline_ns);
    tools_release(lock, &next->grant);
}

static _Atomic int64_t ahead_ns;

static int64_t now_ns(void *ctx) {
    (void)ctx;
    return harness_now_ms() * MS + ahead_ns;
}

/* The whole process was paused for longer than its grant was good for: it hears of it when it goes on. */
static void paused(void) {
    told.times = 0;
    struct lock_config config = {.on_lost = tools_on_lost, .now_ns = now_ns};
    struct lock *lock = tools_open(&config, tools_redis_url(redis.port, "variant=watchdog&ttl=1500"));
    struct lock_grant grant = tools_acquire(lock, "a");
    ahead_ns = 60000 * MS;
    tools_wait_told(1);
    tools_check_status(lock_progress(lock, &grant), LOCK_LOST);
}

/* Held for longer than its time to live, by a holder that works, though a renewal's reply is lost. */
static void renewal_gets_over_a_failure(void) {
    struct proxy *proxy = proxy_start(redis.port);
    struct lock *lock = tools_open_told(tools_redis_url(proxy_port(proxy), "variant=watchdog&ttl=900"));
    struct lock_grant grant = tools_acquire(lock, "a");
    int64_t first_ns = grant.deadline_ns;
    proxy_set(proxy, PROXY_CUT, 0, "EVALSHA");
    while (lock_now_ns(lock) < first_ns + 900 * MS) {
        harness_pause_ms(10);
        tools_check_status(lock_progress(lock, &grant), LOCK_OK);
        CHECK_STR(redis_command(&redis, "GET", "lock:{a}", NULL), grant.owner);
    }
    CHECK_INT(proxy_faults(proxy), 1);
    CHECK(grant.deadline_ns > first_ns);
    CHECK(tools_metrics(lock).extended >= 4);
    CHECK_INT(told.times, 0);
    tools_release(lock, &grant);
}

/* A released grant is not renewed, while others acquire the same key. */
static void no_renewal_after_release(void) {
    struct lock *lock = open_lock("ttl=450");
    for (int i = 0; i < 20; i += 2) {
        struct lock_grant grant = tools_acquire(lock, "a");
        harness_pause_ms(140 + i); /* about when it is renewed */
        tools_release(lock, &grant);
        long long before = extensions();
        redis_command(&redis, "SET", "lock:{a}", "somebody", "PX", "100000", NULL);
        harness_pause_ms(20);
        CHECK_INT(extensions(), before);
        CHECK(redis_integer(&redis, "PTTL", "lock:{a}", NULL) > 90000);
        redis_command(&redis, "DEL", "lock:{a}", NULL);
    }
    CHECK_INT(told.times, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_start(&redis, NULL);
    harness_run("reentrant", reentrant);
    harness_run("no heir", no_heir);
    harness_run("a hung holder", hung_holder);
    harness_run("telling takes long", telling_takes_long);
    harness_run("told in time", told_in_time);
    harness_run("paused", paused);
    harness_run("a renewal that gets over a failure", renewal_gets_over_a_failure);
    harness_run("no renewal after release", no_renewal_after_release);
    return harness_finish();
}
