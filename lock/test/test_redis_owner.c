/* The lock in one Redis: what is in the store, and who is served when. Two handles are two processes to the
 * store. */
#include <stdlib.h>
#include <string.h>

#include "lock/test/tools.h"

static struct redis_server redis;

static struct lock *open_lock(const char *options) {
    return tools_open(NULL, tools_redis_url(redis.port, options));
}

static struct lock *open_by(const struct proxy *proxy, const char *options) {
    return tools_open(NULL, tools_redis_url(proxy_port(proxy), options));
}

static void begin(void) {
    redis_command(&redis, "FLUSHALL", NULL);
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
}

static void in_the_store(void) {
    begin();
    struct lock *lock = open_lock("ttl=5000");
    int64_t before_ns = lock_now_ns(lock);
    struct lock_grant grant = tools_acquire(lock, "a");
    CHECK_STR(redis_command(&redis, "GET", "lock:{a}", NULL), grant.owner);
    long long left_ms = redis_integer(&redis, "PTTL", "lock:{a}", NULL);
    CHECK(left_ms > 0 && left_ms <= 5000);
    CHECK(grant.deadline_ns < before_ns + 5000 * 1000000LL);
    CHECK(grant.fence > 0);
    CHECK(!(lock_caps(lock) & LOCK_CAN_FENCE_FAILOVER)); /* it relies on the servers' clocks */
    tools_release(lock, &grant);
    tools_check_no_trace(&redis, "a");
    CHECK_STR(redis_command(&redis, "KEYS", "*", NULL), "[lock:{a}:fence]");
}

/* The time counts from before the request, however late the answer. */
static void slow_answer(void) {
    begin();
    struct proxy *proxy = proxy_start(redis.port);
    struct lock *lock = open_by(proxy, "ttl=5000");
    tools_use(lock, "a");
    proxy_set(proxy, PROXY_DELAY, 300, NULL);
    int64_t before_ns = lock_now_ns(lock);
    struct lock_grant grant = tools_acquire(lock, "a");
    CHECK(lock_now_ns(lock) >= before_ns + 300 * 1000000LL);
    CHECK(grant.deadline_ns <= before_ns + 4950 * 1000000LL);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    int64_t extended_ns = lock_now_ns(lock);
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    CHECK(grant.deadline_ns >= extended_ns + 4900 * 1000000LL);
    tools_release(lock, &grant);
}

/* ---- in order ---- */

/* Its holder has died and the key has run out: the first of the queue gets it, whichever waiter polls first;
 * then it is in the queue no more. */
static void after_a_dead_holder(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *first = open_lock("ttl=60000"),
                *other = open_lock("ttl=60000");
    struct lock_grant grant = tools_acquire(holder, "a");
    struct tools_waiter *waiter = tools_wait(first, "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&redis, "a", 1);
    redis_command(&redis, "DEL", "lock:{a}", NULL);
    tools_check_status(lock_try(other, "a", &grant), LOCK_BUSY);
    tools_check_status(tools_join(waiter), LOCK_OK);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}:line", NULL), "0");
    tools_release(first, &waiter->grant);
}

static bool hears_everything(void *arg) {
    (void)arg;
    return redis_integer(&redis, "PUBSUB", "NUMPAT", NULL) > 0;
}

/* A dead process is passed over; a waiter that has given up without the store's knowledge releases the grant.
 */
static void the_dead_and_the_gone(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    char gone[LOCK_OWNER_SIZE];
    struct proc all; /* a subscriber by pattern is no waiting process */
    const char *argv[] = {"redis-cli", "-p", harness_format("%d", redis.port), "PSUBSCRIBE", "*", NULL};
    proc_spawn(&all, argv, NULL, harness_format("%s/psubscribe.log", harness_dir()));
    CHECK(harness_wait(hears_everything, NULL, PATIENCE_MS));
    redis_command(&redis, "RPUSH", "lock:{a}:line", harness_repeat('d', LOCK_OWNER_SIZE - 1), NULL);
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&redis, "a", 2);
    tools_release(holder, &held);
    tools_check_status(tools_join(waiter), LOCK_OK);
    memcpy(gone, waiter->grant.owner, sizeof gone);
    memset(gone + 16, 'f', 16);
    redis_command(&redis, "RPUSH", "lock:{a}:line", gone, NULL);
    tools_release(other, &waiter->grant);
    tools_use(holder, "a");
    tools_check_no_trace(&redis, "a");
}

static bool hears_nobody(void *arg) {
    (void)arg;
    return strstr(redis_command(&redis, "PUBSUB", "CHANNELS", NULL), "lock:wake") == NULL;
}

static bool hears_somebody(void *arg) {
    return !hears_nobody(arg);
}

/* The connection that listens breaks; the lock is released before it is back, and again after. */
static void deaf(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&redis, "a", 1);
    redis_command(&redis, "CLIENT", "KILL", "TYPE", "pubsub", NULL);
    CHECK(harness_wait(hears_nobody, NULL, PATIENCE_MS));
    tools_release(holder, &held);
    tools_serve(waiter);
    CHECK(harness_wait(hears_somebody, NULL, PATIENCE_MS));
    tools_check_no_trace(&redis, "a");
}

/* It is passed on without a message: the waiter asks again all the same. */
static void lost_message(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&redis, "a", 1);
    redis_command(&redis, "EVAL",
                  "redis.call('INCRBY', KEYS[2], 16)"
                  "return redis.call('SET', KEYS[1], redis.call('LPOP', KEYS[3]), 'PX', 60000)",
                  "3", "lock:{a}", "lock:{a}:fence", "lock:{a}:line", NULL);
    tools_check_status(tools_join(waiter), LOCK_OK);
    CHECK(waiter->grant.fence > held.fence);
    tools_check_status(lock_release(holder, &held), LOCK_NOT_OWNER);
    tools_release(other, &waiter->grant);
    tools_check_no_trace(&redis, "a");
}

static long long scripts_run(void) {
    const char *info = redis_command(&redis, "INFO", "commandstats", NULL);
    const char *at = strstr(info, "cmdstat_evalsha:calls=");
    return at ? strtoll(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
}

/* The key was set without expiry by another program: waiters ask only now and then. */
static void held_for_ever(void) {
    begin();
    struct lock *lock = open_lock("");
    struct lock_grant grant;
    redis_command(&redis, "SET", "lock:{a}", "somebody", NULL);
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 700), NULL, &grant), LOCK_TIMEOUT);
    CHECK(scripts_run() <= 10);
    CHECK_STR(redis_command(&redis, "GET", "lock:{a}", NULL), "somebody");
}

struct hammer {
    pthread_t thread;
    struct lock *lock;
    _Atomic long turns;
};

static _Atomic bool stop_hammering;

static void *hammer(void *arg) {
    struct hammer *hammer = arg;
    while (!stop_hammering) {
        struct lock_grant grant = tools_acquire(hammer->lock, "a");
        hammer->turns++;
        tools_release(hammer->lock, &grant);
    }
    return NULL;
}

/* Eight threads of one process pass the lock among themselves; the only one of another has its share all the
 * same: what one grant serves, no more, comes before it, and again while it is not in line yet. */
static void local_preference_is_bounded(void) {
    enum { THREADS = 9 };
    begin();
    struct lock *crowd = open_lock(""), *lone = open_lock("");
    struct hammer hammers[THREADS];
    stop_hammering = false;
    for (int i = 0; i < THREADS; i++) {
        hammers[i] = (struct hammer){.lock = i == 0 ? lone : crowd};
        CHECK_INT(pthread_create(&hammers[i].thread, NULL, hammer, &hammers[i]), 0);
    }
    harness_pause_ms(1000);
    stop_hammering = true;
    long turns = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(hammers[i].thread, NULL);
        turns += hammers[i].turns;
    }
    CHECK(!harness_failed());
    CHECK(hammers[0].turns > 20);
    CHECK(turns <= 3L * 16 * (hammers[0].turns + 1));
    struct lock_metrics metrics = tools_metrics(crowd);
    CHECK(metrics.passed > metrics.acquired / 2);
    tools_check_no_trace(&redis, "a");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_start(&redis, NULL);
    harness_run("what is in the store", in_the_store);
    harness_run("a slow answer", slow_answer);
    harness_run("after a dead holder", after_a_dead_holder);
    harness_run("held for ever", held_for_ever);
    harness_run("the dead and the gone", the_dead_and_the_gone);
    harness_run("deaf", deaf);
    harness_run("a lost message", lost_message);
    harness_run("local preference is bounded", local_preference_is_bounded);
    return harness_finish();
}
