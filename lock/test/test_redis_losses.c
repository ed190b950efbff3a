/* The lock in one Redis, when something is lost: replies, the store, grants. Two handles are two processes to
 * the store. */
#include <string.h>

#include "lock/test/tools.h"

static struct redis_server redis;

static void begin(void) {
    redis_start(&redis, NULL);
}

static struct lock *open_lock(const char *options) {
    return tools_open(NULL, tools_redis_url(redis.port, options));
}

/* No server's clock has come so far, so fences are counted, 16 for each grant. */
#define AHEAD UINT64_C(5000000000000000)

static void let_clock_be_behind(void) {
    redis_command(&redis, "SET", "lock:{a}:fence", harness_format("%llu", (unsigned long long)AHEAD), NULL);
}

/* ---- lost replies ---- */

/* The store goes away and comes back while a thread waits. */
static void gone_while_waiting(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&redis, "a", 1);
    redis_kill(&redis);
    redis_restart(&redis);
    tools_wait_for_queue(&redis, "a", 1);
    CHECK(!waiter->done);
    tools_check_status(lock_release(holder, &held), LOCK_OK);
    CHECK(tools_serve(waiter) > held.fence);
}

/* ---- a master that becomes a replica ---- */

/* The name of the store points elsewhere, but the connection to what is a replica now stands. */
static void becomes_a_replica(void) {
    static const char *const schemes[] = {"redis", "redis", "redis", "redlock"}, *const variants[] = {
                                                                                     "", "&variant=watchdog",
                                                                                     "&variant=set-del", ""};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        struct redis_server next;
        struct lock_config config = {.teaching = true};
        struct lock_grant grant;
        begin();
        redis_start(&next, NULL);
        struct proxy *proxy = proxy_start(redis.port);
        struct lock *lock = tools_open(&config, harness_format("%s://127.0.0.1:%d?ttl=4000%s", schemes[i],
                                                               proxy_port(proxy), variants[i]));
        tools_use(lock, "b");
        redis_command(&redis, "REPLICAOF", "127.0.0.1", harness_format("%d", next.port), NULL);
        tools_check_status(lock_try(lock, "b", &grant), LOCK_UNAVAILABLE);
        proxy_point(proxy, next.port);
        tools_use_at_last(lock, "b");
    }
}

static bool hears_nobody(void *server) {
    return !strstr(redis_command(server, "PUBSUB", "CHANNELS", "lock:wake:*", NULL), "lock:");
}

/* So is the subscriber's connection: a replica would publish nothing to it. */
static void listens_where_it_asks(void) {
    struct redis_server next;
    begin();
    redis_start(&next, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    const char *url = tools_redis_url(proxy_port(proxy), "ttl=60000");
    struct lock *lock = tools_open(NULL, url), *holder = tools_open(NULL, url);
    struct lock_grant grant = tools_acquire(holder, "a");
    struct tools_waiter *waiter = tools_wait(lock, "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&redis, "a", 1);
    tools_release(holder, &grant);
    tools_serve(waiter);
    CHECK(!hears_nobody(&redis));
    redis_command(&redis, "REPLICAOF", "127.0.0.1", harness_format("%d", next.port), NULL);
    proxy_point(proxy, next.port);
    tools_use_at_last(lock, "b");
    CHECK(harness_wait(hears_nobody, &redis, PATIENCE_MS));
    struct lock *other = tools_open(NULL, tools_redis_url(next.port, "ttl=60000"));
    grant = tools_acquire(other, "a");
    waiter = tools_wait(lock, "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&next, "a", 1);
    CHECK(!hears_nobody(&next));
    tools_release(other, &grant);
    tools_serve(waiter);
}

/* Errors that the store answers: nothing is had, nothing is half done. */
static void the_store_refuses(void) {
    begin();
    struct lock *lock = open_lock(""), *other = open_lock("");
    struct lock_grant grant, held = tools_acquire(other, "b");
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

static struct lock *asked_lock;

static void ask_and_give_back(void *ctx, const struct lock_grant *grant) {
    struct lock_grant lost = *grant, other;
    tools_check_status(lock_progress(asked_lock, &lost), LOCK_LOST);
    tools_check_status(lock_extend(asked_lock, &lost), LOCK_LOST);
    tools_check_status(lock_release(asked_lock, &lost), LOCK_NOT_OWNER);
    tools_check_status(lock_try(asked_lock, "b", &other), LOCK_OK);
    tools_check_status(lock_release(asked_lock, &other), LOCK_OK);
    tools_on_lost(ctx, grant);
}

/* The key is another's: it stays, and so does what it has. */
static void of_another(void) {
    begin();
    struct lock *lock = open_lock("");
    struct lock_grant grant = tools_acquire(lock, "b");
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    redis_command(&redis, "SET", "lock:{b}", "somebody", NULL);
    tools_check_status(lock_extend(lock, &grant), LOCK_LOST);
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    CHECK_STR(redis_command(&redis, "GET", "lock:{b}", NULL), "somebody");
}

/* on_lost() may use the lock. */
static void told_and_at_work(void) {
    begin();
    struct lock_config config = {.on_lost = ask_and_give_back};
    struct lock *lock = asked_lock = tools_open(&config, tools_redis_url(redis.port, "ttl=600"));
    told.times = 0;
    for (int i = 1; i <= 2; i++) {
        tools_acquire(lock, "a");
        redis_command(&redis, "DEL", "lock:{a}", NULL);
        tools_wait_told(i);
    }
    tools_check_free(lock, "a");
}

static void *release_late(void *arg) {
    struct tools_waiter *holder = arg;
    harness_pause_ms(1000);
    tools_release(holder->lock, &holder->grant);
    return NULL;
}

/* Several keys, and the last takes longer than the first is good for: all are held in the end. */
static void several_that_take_long(void) {
    begin();
    struct lock *lock = open_lock("ttl=400"), *other = open_lock("ttl=60000");
    const char *const keys[] = {"a", "b"};
    struct tools_waiter holder = {.lock = other, .grant = tools_acquire(other, "b")};
    struct lock_grant grants[2];
    struct tools_waiter *waiter = tools_wait(other, "b", 900, NULL); /* keeps it busy in the end too */
    CHECK_INT(pthread_create(&holder.thread, NULL, release_late, &holder), 0);
    tools_check_status(lock_acquire_all(lock, keys, 2, tools_in_ms(lock, PATIENCE_MS), NULL, grants),
                       LOCK_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(lock_remaining_ns(lock, &grants[i]) > 100 * 1000000LL);
        tools_check_held(other, keys[i]);
    }
    tools_check_status(lock_release_all(lock, grants, 2), LOCK_OK);
    pthread_join(holder.thread, NULL);
    tools_check_status(tools_join(waiter), LOCK_TIMEOUT);
}

/* A Redis that crashed goes on beyond what it gave before: it has less of it, or nothing. */
static void lost_fences(void) {
    redis_start(&redis, "--appendonly", "no", NULL);
    struct lock *lock = open_lock("");
    tools_use(lock, "a");
    CHECK_STR(redis_command(&redis, "SAVE", NULL), "OK");
    uint64_t fence = tools_use(lock, "a").fence;
    redis_kill(&redis);
    redis_restart(&redis);
    uint64_t after = tools_use(lock, "a").fence;
    CHECK(after > fence);
    redis_kill(&redis);
    redis_wipe(&redis);
    redis_restart(&redis);
    CHECK(tools_use(lock, "a").fence > after);
}

/* A server whose clock is behind counts on. */
static void clock_behind(void) {
    begin();
    struct lock *lock = open_lock("");
    let_clock_be_behind();
    CHECK_INT(tools_use(lock, "a").fence, AHEAD + 1);
    CHECK_INT(tools_use(lock, "a").fence, AHEAD + 17);
}

/* ---- two servers that are the master in turn, and do not restart ---- */

static struct redis_server other_server;

static void promote(const struct redis_server *server) {
    CHECK_STR(redis_command(server, "REPLICAOF", "NO", "ONE", NULL), "OK");
}

static bool is_linked(void *server) {
    return strstr(redis_command(server, "INFO", "replication", NULL), "master_link_status:up");
}

/* Returns when `server` has what `master` has. */
static void follow(struct redis_server *server, const struct redis_server *master) {
    redis_command(server, "REPLICAOF", "127.0.0.1", harness_format("%d", master->port), NULL);
    CHECK(harness_wait(is_linked, server, PATIENCE_MS));
}

/* The other one was promoted without the last fence, and nobody locked there. */
static void master_again(void) {
    begin();
    redis_start_replica(&other_server, &redis);
    struct lock *lock = open_lock("");
    tools_use(lock, "a");
    redis_wait_copied(&redis, &other_server);
    promote(&other_server);
    uint64_t lost = tools_use(lock, "a").fence;
    follow(&redis, &other_server);
    promote(&redis);
    CHECK(tools_use(lock, "a").fence > lost);
}

/* The other one was promoted in order, and died before it could pass on what it gave. */
static void master_again_after_a_death(void) {
    begin();
    redis_start_replica(&other_server, &redis);
    struct lock *lock = open_lock(""), *there = tools_open(NULL, tools_redis_url(other_server.port, ""));
    tools_use(lock, "a");
    redis_wait_copied(&redis, &other_server);
    promote(&other_server);
    follow(&redis, &other_server);
    redis_pause(&redis);
    redis_command(&other_server, "CLIENT", "KILL", "TYPE", "replica", NULL); /* not even on the way to it */
    uint64_t lost = tools_use(there, "a").fence;
    redis_kill(&other_server);
    redis_resume(&redis);
    promote(&redis);
    CHECK(tools_use(lock, "a").fence > lost);
}

/* A grant that runs out is not one that is lost: its holder knew. */
static void run_out(void) {
    begin();
    struct lock *lock = tools_open_told(tools_redis_url(redis.port, "ttl=200"));
    struct lock *other = open_lock("ttl=200");
    struct lock_grant grant = tools_acquire(lock, "a"), next = tools_acquire(other, "a");
    CHECK(lock_now_ns(lock) >= grant.deadline_ns);
    CHECK(next.fence > grant.fence);
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    tools_check_held(lock, "a");
    tools_release(other, &next);
    CHECK_INT(told.times, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("gone while somebody waits", gone_while_waiting);
    harness_run("a master that becomes a replica is left", becomes_a_replica);
    harness_run("who waits listens where it asks", listens_where_it_asks);
    harness_run("the store refuses", the_store_refuses);
    harness_run("a key that is another's", of_another);
    harness_run("told, and at work", told_and_at_work);
    harness_run("several that take long", several_that_take_long);
    harness_run("a grant that runs out", run_out);
    harness_run("fences that are lost", lost_fences);
    harness_run("a clock that is behind", clock_behind);
    harness_run("a server that is master again", master_again);
    harness_run("a server that is master again after a death", master_again_after_a_death);
    return harness_finish();
}
