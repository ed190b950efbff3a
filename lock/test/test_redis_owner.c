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

static void no_trace(void) {
    begin();
    struct lock *holder = open_lock(""), *other = open_lock("");
    struct lock_cancel *cancel = lock_cancel_new();
    struct lock_grant held = tools_acquire(holder, "a"), grant;
    tools_check_status(lock_acquire(other, "a", tools_in_ms(other, 200), NULL, &grant), LOCK_TIMEOUT);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}:line", NULL), "0");
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, cancel);
    tools_wait_for_queue(&redis, "a", 1);
    CHECK(redis_integer(&redis, "PTTL", "lock:{a}:line", NULL) > 0); /* should all its processes die */
    lock_cancel(cancel);
    tools_check_status(tools_join(waiter), LOCK_CANCELLED);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}:line", NULL), "0");
    tools_release(holder, &held);
    tools_check_no_trace(&redis, "a");
    lock_cancel_free(cancel);
}

/* The library's threads, of which one that waited has two, take no signals: those are the program's. */
static void signals(void) {
    begin();
    int others = tools_count_threads(false), blocking = tools_count_threads(true);
    struct lock *holder = open_lock(""), *lock = open_lock("");
    struct lock_grant held = tools_acquire(holder, "a"), grant;
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 50), NULL, &grant), LOCK_TIMEOUT);
    CHECK_INT(tools_count_threads(false), others);
    CHECK_INT(tools_count_threads(true), blocking + 3);
    tools_release(holder, &held);
}

/* ---- in order ---- */

static void in_turn_among_processes(void) {
    enum { MANY = 6 };
    begin();
    struct lock *holder = open_lock("");
    struct lock_grant held = tools_acquire(holder, "a");
    struct tools_waiter *waiters[MANY];
    for (int i = 0; i < MANY; i++) {
        waiters[i] = tools_wait(open_lock(""), "a", PATIENCE_MS, NULL);
        tools_wait_for_queue(&redis, "a", i + 1);
    }
    uint64_t fence = held.fence;
    tools_release(holder, &held);
    for (int i = 0; i < MANY; i++) {
        tools_check_status(tools_join(waiters[i]), LOCK_OK);
        CHECK(waiters[i]->grant.fence > fence);
        fence = waiters[i]->grant.fence;
        for (int k = i + 1; k < MANY; k++)
            CHECK(!waiters[k]->done);
        tools_release(waiters[i]->lock, &waiters[i]->grant);
    }
    tools_check_no_trace(&redis, "a");
}

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
    tools_release(first, &waiter->grant);
    for (int i = 0; i < 2; i++) { /* it asks by itself once it is in the list */
        grant = tools_acquire(other, "a");
        waiter = tools_wait(first, "a", PATIENCE_MS, NULL);
        tools_wait_for_queue(&redis, "a", 1);
        redis_command(&redis, "DEL", "lock:{a}", NULL);
        tools_check_status(tools_join(waiter), LOCK_OK);
        CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}:line", NULL), "0");
        tools_release(first, &waiter->grant);
        lock_release(other, &grant);
    }
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
    tools_check_status(tools_join(waiter), LOCK_OK);
    tools_release(other, &waiter->grant);
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

/* A hundred processes wait. Each costs its attempts (the first before it is subscribed) and a poll a
 * second; each hand-over costs a release and an acquisition. */
static void a_hundred_wait(void) {
    enum { MANY = 100 };
    begin();
    struct lock *holder = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    static struct tools_waiter *waiters[MANY];
    for (int i = 0; i < MANY; i++)
        waiters[i] = tools_wait(open_lock("ttl=60000"), "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&redis, "a", MANY);
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
    int64_t began_ms = harness_now_ms();
    tools_release(holder, &held);
    for (int left = MANY; left > 0;) {
        for (int i = 0; i < MANY; i++) {
            if (!waiters[i]->done || !waiters[i]->lock)
                continue;
            tools_check_status(tools_join(waiters[i]), LOCK_OK);
            tools_release(waiters[i]->lock, &waiters[i]->grant);
            waiters[i]->lock = NULL;
            left--;
        }
    }
    long long polls = (harness_now_ms() - began_ms) / 1000 + 1;
    CHECK(scripts_run() <= 2 * MANY + 1 + polls * MANY);
    tools_check_no_trace(&redis, "a");
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
    harness_run("who gives up leaves no trace", no_trace);
    harness_run("signals", signals);
    harness_run("in turn among processes", in_turn_among_processes);
    harness_run("after a dead holder", after_a_dead_holder);
    harness_run("held for ever", held_for_ever);
    harness_run("the dead and the gone", the_dead_and_the_gone);
    harness_run("deaf", deaf);
    harness_run("a lost message", lost_message);
    harness_run("a hundred wait", a_hundred_wait);
    harness_run("local preference is bounded", local_preference_is_bounded);
    return harness_finish();
}
