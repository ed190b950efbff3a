/* The lock in one Redis: what is in the store, who is served when, and what becomes of lost replies, lost
 * messages, lost grants. Two handles are two processes to the store. */
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
    redis_start(&redis, NULL);
}

/* Of a lock nothing is left but its fence. */
static void check_no_trace(const char *key) {
    CHECK_STR(redis_command(&redis, "EXISTS", harness_format("lock:{%s}", key), NULL), "0");
    CHECK_STR(redis_command(&redis, "EXISTS", harness_format("lock:{%s}:line", key), NULL), "0");
}

static void in_the_store(void) {
    begin();
    struct lock *lock = open_lock("ttl=5000");
    int64_t before_ns = lock_now_ns(lock);
    struct lock_grant grant = tools_take(lock, "a");
    CHECK_STR(redis_command(&redis, "GET", "lock:{a}", NULL), grant.owner);
    long long left_ms = redis_integer(&redis, "PTTL", "lock:{a}", NULL);
    CHECK(left_ms > 0 && left_ms <= 5000);
    CHECK(grant.deadline_ns < before_ns + 5000 * 1000000LL);
    CHECK(grant.fence > 0);
    tools_give(lock, &grant);
    check_no_trace("a");
    CHECK_STR(redis_command(&redis, "KEYS", "*", NULL), "[lock:{a}:fence]");
}

/* The time counts from before the request, however late the answer. */
static void slow_answer(void) {
    begin();
    struct proxy *proxy = proxy_start(redis.port);
    struct lock *lock = open_by(proxy, "ttl=5000");
    struct lock_grant grant = tools_take(lock, "a");
    tools_give(lock, &grant);
    proxy_set(proxy, PROXY_DELAY, 300, NULL);
    int64_t before_ns = lock_now_ns(lock);
    grant = tools_take(lock, "a");
    CHECK(lock_now_ns(lock) >= before_ns + 300 * 1000000LL);
    CHECK(grant.deadline_ns <= before_ns + 4950 * 1000000LL);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    int64_t extended_ns = lock_now_ns(lock);
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    CHECK(grant.deadline_ns >= extended_ns + 4900 * 1000000LL);
    tools_give(lock, &grant);
}

static void no_trace(void) {
    begin();
    struct lock *holder = open_lock(""), *other = open_lock("");
    struct lock_cancel *cancel = lock_cancel_new();
    struct lock_grant held = tools_take(holder, "a"), grant;
    struct tools_waiter waiter;
    tools_check_status(lock_acquire(other, "a", tools_in_ms(other, 200), NULL, &grant), LOCK_TIMEOUT);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}:line", NULL), "0");
    tools_wait(&waiter, other, "a", PATIENCE_MS, cancel);
    tools_wait_for_line(&redis, "a", 1);
    CHECK(redis_integer(&redis, "PTTL", "lock:{a}:line", NULL) > 0); /* should all its processes die */
    lock_cancel(cancel);
    tools_check_status(tools_join(&waiter), LOCK_CANCELLED);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}:line", NULL), "0");
    tools_give(holder, &held);
    check_no_trace("a");
    lock_cancel_free(cancel);
}

/* ---- in turn ---- */

static void in_turn_among_processes(void) {
    enum { MANY = 6 };
    begin();
    struct lock *holder = open_lock("");
    struct lock_grant held = tools_take(holder, "a");
    struct tools_waiter waiters[MANY];
    for (int i = 0; i < MANY; i++) {
        tools_wait(&waiters[i], open_lock(""), "a", PATIENCE_MS, NULL);
        tools_wait_for_line(&redis, "a", i + 1);
    }
    uint64_t fence = held.fence;
    tools_give(holder, &held);
    for (int i = 0; i < MANY; i++) {
        tools_check_status(tools_join(&waiters[i]), LOCK_OK);
        CHECK(waiters[i].grant.fence > fence);
        fence = waiters[i].grant.fence;
        for (int k = i + 1; k < MANY; k++)
            CHECK(!waiters[k].done);
        tools_give(waiters[i].lock, &waiters[i].grant);
    }
    check_no_trace("a");
}

/* Its holder has died and the key has run out: the first in line has it, whoever looks first; and once it has
 * it, it stands in line no more. */
static void after_a_dead_holder(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *first = open_lock("ttl=60000"),
                *other = open_lock("ttl=60000");
    struct lock_grant grant = tools_take(holder, "a");
    struct tools_waiter waiter;
    tools_wait(&waiter, first, "a", PATIENCE_MS, NULL);
    tools_wait_for_line(&redis, "a", 1);
    redis_command(&redis, "DEL", "lock:{a}", NULL);
    tools_check_status(lock_try(other, "a", &grant), LOCK_BUSY);
    tools_check_status(tools_join(&waiter), LOCK_OK);
    tools_give(first, &waiter.grant);
    for (int i = 0; i < 2; i++) { /* it looks by itself, once it stands in line */
        grant = tools_take(other, "a");
        tools_wait(&waiter, first, "a", PATIENCE_MS, NULL);
        tools_wait_for_line(&redis, "a", 1);
        redis_command(&redis, "DEL", "lock:{a}", NULL);
        tools_check_status(tools_join(&waiter), LOCK_OK);
        CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}:line", NULL), "0");
        tools_give(first, &waiter.grant);
        lock_release(other, &grant);
    }
}

static bool hears_everything(void *arg) {
    (void)arg;
    return redis_integer(&redis, "PUBSUB", "NUMPAT", NULL) > 0;
}

/* Whose process has died is passed over; who has given up without the store's knowing gives it back. */
static void the_dead_and_the_gone(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_take(holder, "a");
    struct tools_waiter waiter;
    char gone[LOCK_OWNER_SIZE];
    struct proc all; /* who listens to everything is nobody's process */
    const char *argv[] = {"redis-cli", "-p", harness_format("%d", redis.port), "PSUBSCRIBE", "*", NULL};
    proc_spawn(&all, argv, NULL, harness_format("%s/psubscribe.log", harness_dir()));
    CHECK(harness_wait(hears_everything, NULL, PATIENCE_MS));
    redis_command(&redis, "RPUSH", "lock:{a}:line", harness_repeat('d', LOCK_OWNER_SIZE - 1), NULL);
    tools_wait(&waiter, other, "a", PATIENCE_MS, NULL);
    tools_wait_for_line(&redis, "a", 2);
    tools_give(holder, &held);
    tools_check_status(tools_join(&waiter), LOCK_OK);
    memcpy(gone, waiter.grant.owner, sizeof gone);
    memset(gone + 16, 'f', 16);
    redis_command(&redis, "RPUSH", "lock:{a}:line", gone, NULL);
    tools_give(other, &waiter.grant);
    held = tools_take(holder, "a");
    tools_give(holder, &held);
    check_no_trace("a");
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
    struct lock_grant held = tools_take(holder, "a");
    struct tools_waiter waiter;
    tools_wait(&waiter, other, "a", PATIENCE_MS, NULL);
    tools_wait_for_line(&redis, "a", 1);
    redis_command(&redis, "CLIENT", "KILL", "TYPE", "pubsub", NULL);
    CHECK(harness_wait(hears_nobody, NULL, PATIENCE_MS));
    tools_give(holder, &held);
    tools_check_status(tools_join(&waiter), LOCK_OK);
    tools_give(other, &waiter.grant);
    CHECK(harness_wait(hears_somebody, NULL, PATIENCE_MS));
    check_no_trace("a");
}

/* It is given away, and nobody tells: who waits looks again all the same. */
static void lost_message(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_take(holder, "a");
    struct tools_waiter waiter;
    tools_wait(&waiter, other, "a", PATIENCE_MS, NULL);
    tools_wait_for_line(&redis, "a", 1);
    redis_command(&redis, "EVAL",
                  "redis.call('INCRBY', KEYS[2], 16)"
                  "return redis.call('SET', KEYS[1], redis.call('LPOP', KEYS[3]), 'PX', 60000)",
                  "3", "lock:{a}", "lock:{a}:fence", "lock:{a}:line", NULL);
    tools_check_status(tools_join(&waiter), LOCK_OK);
    CHECK(waiter.grant.fence > held.fence);
    tools_check_status(lock_release(holder, &held), LOCK_NOT_OWNER);
    tools_give(other, &waiter.grant);
    check_no_trace("a");
}

static long long scripts_run(void) {
    const char *info = redis_command(&redis, "INFO", "commandstats", NULL);
    const char *at = strstr(info, "cmdstat_evalsha:calls=");
    return at ? strtoll(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
}

/* A hundred processes wait. Each costs its attempts (the first while it does not listen yet) and a look a
 * second; each hand-over costs what gives it and what takes it. */
static void a_hundred_wait(void) {
    enum { MANY = 100 };
    begin();
    struct lock *holder = open_lock("ttl=60000");
    struct lock_grant held = tools_take(holder, "a");
    static struct tools_waiter waiters[MANY];
    for (int i = 0; i < MANY; i++)
        tools_wait(&waiters[i], open_lock("ttl=60000"), "a", PATIENCE_MS, NULL);
    tools_wait_for_line(&redis, "a", MANY);
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
    int64_t began_ms = harness_now_ms();
    tools_give(holder, &held);
    for (int left = MANY; left > 0;) {
        for (int i = 0; i < MANY; i++) {
            if (!waiters[i].done || !waiters[i].lock)
                continue;
            tools_check_status(tools_join(&waiters[i]), LOCK_OK);
            tools_give(waiters[i].lock, &waiters[i].grant);
            waiters[i].lock = NULL;
            left--;
        }
    }
    long long looks = (harness_now_ms() - began_ms) / 1000 + 1;
    CHECK(scripts_run() <= 2 * MANY + 1 + looks * MANY);
    check_no_trace("a");
}

/* Somebody has set the key for ever: who waits looks now and then, no more. */
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
        struct lock_grant grant = tools_take(hammer->lock, "a");
        hammer->turns++;
        tools_give(hammer->lock, &grant);
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
    struct lock_metrics metrics;
    lock_read_metrics(crowd, &metrics);
    CHECK(metrics.passed > metrics.acquired / 2);
    check_no_trace("a");
}

/* ---- lost replies ---- */

/* The script has run, its reply is lost: who owns the key is asked. */
static void unknown_is_resolved(void) {
    begin();
    struct proxy *proxy = proxy_start(redis.port);
    struct lock *lock = open_by(proxy, "ttl=60000");
    struct lock_grant grant = tools_take(lock, "a");
    tools_give(lock, &grant);
    for (int cut = 0; cut < 4; cut++) {
        proxy_set(proxy, PROXY_CUT, cut, "EVALSHA");
        uint64_t before = grant.fence;
        tools_check_status(cut % 2 ? lock_try(lock, "a", &grant)
                                   : lock_acquire(lock, "a", tools_in_ms(lock, PATIENCE_MS), NULL, &grant),
                           LOCK_OK);
        CHECK_INT(proxy_faults(proxy), 2 * cut + 1);
        CHECK_INT(grant.fence, before + 16); /* given once */
        CHECK_STR(redis_command(&redis, "GET", "lock:{a}", NULL), grant.owner);
        proxy_set(proxy, PROXY_CUT, cut, "EVALSHA");
        tools_give(lock, &grant);
        check_no_trace("a");
    }
}

static bool is_taken_back(void *arg) {
    (void)arg;
    return redis_integer(&redis, "EXISTS", "lock:{a}", NULL) == 0;
}

static bool is_given(void *arg) {
    return !is_taken_back(arg);
}

/* The store had given it when it went out of reach: it is taken back as soon as it can be. */
static void unknown_is_taken_back(void) {
    begin();
    struct proxy *proxy = proxy_start(redis.port);
    struct lock *lock = open_by(proxy, "ttl=60000");
    struct lock_grant grant = tools_take(lock, "a");
    tools_give(lock, &grant);
    struct tools_waiter waiter;
    proxy_set(proxy, PROXY_DELAY, 60000, "EVALSHA");
    tools_wait(&waiter, lock, "a", 100, NULL);
    CHECK(harness_wait(is_given, NULL, PATIENCE_MS));
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    tools_check_status(tools_join(&waiter), LOCK_UNKNOWN);
    harness_pause_ms(300); /* the first tries are in vain */
    CHECK(is_given(NULL));
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    CHECK(harness_wait(is_taken_back, NULL, PATIENCE_MS));
    tools_check_free(lock, "a");
}

static void not_there(void) {
    begin();
    struct lock *lock = open_lock("");
    struct lock_grant grant = tools_take(lock, "a");
    redis_stop(&redis);
    harness_pause_ms(100); /* a connection that was idle is looked at: nothing is sent, nothing is unknown */
    tools_check_status(lock_try(lock, "b", &grant), LOCK_UNAVAILABLE);
    tools_check_status(lock_acquire(lock, "b", tools_in_ms(lock, 50), NULL, &grant), LOCK_UNAVAILABLE);
    int64_t began_ms = harness_now_ms();
    tools_check_status(lock_acquire(lock, "b", tools_in_ms(lock, 600000), NULL, &grant), LOCK_UNAVAILABLE);
    CHECK(harness_now_ms() - began_ms < 60000); /* not until its deadline */
    tools_check_status(lock_release(lock, &grant), LOCK_UNAVAILABLE);
    redis_restart(&redis);
    CHECK(harness_wait(is_taken_back, NULL, PATIENCE_MS));
    grant = tools_take(lock, "a");
    tools_give(lock, &grant);
}

/* While somebody waits the store goes and comes back. */
static void gone_while_waiting(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_take(holder, "a");
    struct tools_waiter waiter;
    tools_wait(&waiter, other, "a", PATIENCE_MS, NULL);
    tools_wait_for_line(&redis, "a", 1);
    redis_kill(&redis);
    redis_restart(&redis);
    tools_wait_for_line(&redis, "a", 1);
    CHECK(!waiter.done);
    tools_check_status(lock_release(holder, &held), LOCK_OK);
    tools_check_status(tools_join(&waiter), LOCK_OK);
    CHECK(waiter.grant.fence > held.fence);
    tools_give(other, &waiter.grant);
}

static void scripts_flushed(void) {
    begin();
    struct lock *lock = open_lock("");
    for (int i = 0; i < 3; i++) {
        struct lock_grant grant = tools_take(lock, "a");
        redis_command(&redis, "SCRIPT", "FLUSH", NULL);
        tools_check_status(lock_extend(lock, &grant), LOCK_OK);
        redis_command(&redis, "SCRIPT", "FLUSH", NULL);
        tools_give(lock, &grant);
        redis_command(&redis, "SCRIPT", "FLUSH", NULL);
    }
}

/* Errors that the store answers: nothing is had, nothing is half done. */
static void the_store_refuses(void) {
    begin();
    struct lock *lock = open_lock(""), *other = open_lock("");
    struct lock_grant grant, held = tools_take(other, "b");
    redis_command(&redis, "SET", "lock:{a}:fence", "no number", NULL);
    tools_check_status(lock_try(lock, "a", &grant), LOCK_UNAVAILABLE);
    redis_command(&redis, "SET", "lock:{b}:line", "no list", NULL);
    tools_check_status(lock_release(other, &held), LOCK_UNAVAILABLE);
    redis_command(&redis, "DEL", "lock:{b}", NULL);
    tools_check_status(lock_acquire(lock, "b", tools_in_ms(lock, 50), NULL, &grant), LOCK_UNAVAILABLE);
    redis_command(&redis, "DEL", "lock:{b}:line", NULL);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{a}", NULL), "0");
    struct redis_server replica;
    redis_start_replica(&replica, &redis);
    struct lock *on_replica = tools_open(NULL, tools_redis_url(replica.port, ""));
    tools_check_status(lock_try(on_replica, "c", &grant), LOCK_UNAVAILABLE);
    redis_command(&redis, "CONFIG", "SET", "requirepass", "sesame", NULL);
    struct lock *unknown = open_lock("");
    tools_check_status(lock_try(unknown, "c", &grant), LOCK_UNAVAILABLE);
    struct lock *known = tools_open(NULL, harness_format("redis://:sesame@127.0.0.1:%d/3", redis.port));
    tools_check_free(known, "c");
}

/* ---- lost grants ---- */

static struct lock *told_lock;
static struct lock_grant told;
static _Atomic int told_times;
static _Atomic int64_t told_ns;

static void on_lost(void *ctx, const struct lock_grant *grant) {
    (void)ctx;
    told = *grant;
    told_ns = lock_now_ns(told_lock);
    told_times++;
}

static bool is_told(void *times) {
    return told_times >= *(int *)times;
}

static void lost_grant(void) {
    begin();
    struct lock_config config = {.on_lost = on_lost};
    struct lock *lock = told_lock = tools_open(&config, tools_redis_url(redis.port, "ttl=1200"));
    struct lock_grant first = tools_take(lock, "a"), second = tools_take(lock, "b");
    struct lock_metrics metrics;
    told_times = 0;
    redis_command(&redis, "DEL", "lock:{a}", NULL);
    CHECK(harness_wait(is_told, &(int){1}, PATIENCE_MS));
    CHECK(told_ns < first.deadline_ns);
    CHECK_STR(told.owner, first.owner);
    CHECK_INT(lock_remaining_ns(lock, &first), 0);
    tools_check_status(lock_progress(lock, &first), LOCK_LOST);
    tools_check_status(lock_extend(lock, &first), LOCK_LOST);
    struct lock_grant anew = tools_take(lock, "a");
    tools_check_status(lock_release(lock, &first), LOCK_NOT_OWNER);
    tools_give(lock, &anew);
    tools_check_status(lock_extend(lock, &second), LOCK_OK);
    redis_command(&redis, "SET", "lock:{b}", "somebody", NULL);
    tools_check_status(lock_extend(lock, &second), LOCK_LOST);
    tools_check_status(lock_release(lock, &second), LOCK_NOT_OWNER);
    CHECK_STR(redis_command(&redis, "GET", "lock:{b}", NULL), "somebody");
    lock_read_metrics(lock, &metrics);
    CHECK_INT(metrics.lost, 1);
    CHECK_INT(told_times, 1);
}

struct late_release {
    struct lock *lock;
    struct lock_grant grant;
    int after_ms;
};

static void *release_late(void *arg) {
    struct late_release *late = arg;
    harness_pause_ms(late->after_ms);
    tools_give(late->lock, &late->grant);
    return NULL;
}

/* Several keys, and the last takes longer than the first is good for: all are held in the end. */
static void several_that_take_long(void) {
    begin();
    struct lock *lock = open_lock("ttl=400"), *other = open_lock("ttl=60000");
    const char *const keys[] = {"a", "b"};
    struct lock_grant grants[2], held = tools_take(other, "b");
    struct tools_waiter waiter;
    tools_wait(&waiter, other, "b", 900, NULL); /* keeps it busy in the end too */
    pthread_t thread;
    struct late_release late = {.lock = other, .grant = held, .after_ms = 1000};
    CHECK_INT(pthread_create(&thread, NULL, release_late, &late), 0);
    tools_check_status(lock_acquire_all(lock, keys, 2, tools_in_ms(lock, PATIENCE_MS), NULL, grants),
                       LOCK_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(lock_remaining_ns(lock, &grants[i]) > 100 * 1000000LL);
        tools_check_held(other, keys[i]);
    }
    tools_check_status(lock_release_all(lock, grants, 2), LOCK_OK);
    pthread_join(thread, NULL);
    tools_check_status(tools_join(&waiter), LOCK_TIMEOUT);
}

/* A grant that runs out is not one that is lost: its holder knew. */
static void run_out(void) {
    begin();
    struct lock_config config = {.on_lost = on_lost};
    struct lock *lock = told_lock = tools_open(&config, tools_redis_url(redis.port, "ttl=200"));
    struct lock *other = open_lock("ttl=200");
    told_times = 0;
    struct lock_grant grant = tools_take(lock, "a"), next = tools_take(other, "a");
    CHECK(lock_now_ns(lock) >= grant.deadline_ns);
    CHECK(next.fence > grant.fence);
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    tools_check_held(lock, "a");
    tools_give(other, &next);
    CHECK_INT(told_times, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("what is in the store", in_the_store);
    harness_run("a slow answer", slow_answer);
    harness_run("who gives up leaves no trace", no_trace);
    harness_run("in turn among processes", in_turn_among_processes);
    harness_run("after a dead holder", after_a_dead_holder);
    harness_run("held for ever", held_for_ever);
    harness_run("the dead and the gone", the_dead_and_the_gone);
    harness_run("deaf", deaf);
    harness_run("a lost message", lost_message);
    harness_run("a hundred wait", a_hundred_wait);
    harness_run("local preference is bounded", local_preference_is_bounded);
    harness_run("unknown is resolved", unknown_is_resolved);
    harness_run("unknown is taken back", unknown_is_taken_back);
    harness_run("not there", not_there);
    harness_run("gone while somebody waits", gone_while_waiting);
    harness_run("scripts flushed", scripts_flushed);
    harness_run("the store refuses", the_store_refuses);
    harness_run("a lost grant", lost_grant);
    harness_run("several that take long", several_that_take_long);
    harness_run("a grant that runs out", run_out);
    return harness_finish();
}
