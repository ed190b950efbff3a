/* redis: a Redis that fails over, and what the lock there loses with it. */
#include <stdio.h>
#include <string.h>

#include "base/redis/blocking/connection.h"
#include "base/redis/blocking/driver.h"
#include "lock/test/tools.h"

static struct redis_sentinel *shop;

static bool names_second(void *arg) {
    (void)arg;
    const char *answer =
        redis_command(&shop->sentinel[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop", NULL);
    return strstr(answer, harness_format(" %d]", shop->server[1].port)) != NULL;
}

/* Everything is healthy, and an operator has the Sentinels replace the master, which takes commands for
 * another ten seconds. Who is connected leaves it at once: what the replica has is still held, and for as
 * long as was promised; what it has not is lost, and told, long before its deadline. One Sentinel hangs: the
 * others are not asked less often than once in a time-out and a pause, and what they say counts. */
static void orderly(void) {
    struct redis_sentinel sentinel;
    redis_sentinel_start(shop = &sentinel);
    redis_pause(&sentinel.sentinel[REDIS_SENTINELS - 1]);
    struct redis_server *master = &sentinel.server[0], *replica = &sentinel.server[1];
    const char *url = harness_format("%s?ttl=60000", redis_sentinel_url(&sentinel));
    struct lock *lock = tools_open_told(url);
    struct lock_grant held = tools_acquire(lock, "held");
    redis_wait_copied(master, replica);
    /* From now on the replica hears nothing. */
    CHECK_STR(redis_command(master, "ACL", "SETUSER", "default", "-psync", "-sync", NULL), "OK");
    redis_command(master, "CLIENT", "KILL", "TYPE", "replica", NULL);
    struct lock_grant lost = tools_acquire(lock, "lost");
    harness_pause_ms(1200); /* more than the margin of a deadline */
    tools_check_status(lock_extend(lock, &held), LOCK_OK);
    CHECK_STR(redis_command(&sentinel.sentinel[0], "SENTINEL", "FAILOVER", "shop", NULL), "OK");
    CHECK(harness_wait(names_second, NULL, PATIENCE_MS));
    struct lock *after = tools_open(NULL, url);
    struct lock_grant second = tools_acquire(after, "lost");
    tools_wait_told(1);
    CHECK_STR(told.grant.key, "lost");
    CHECK_INT(lock_remaining_ns(lock, &lost), 0);
    tools_check_status(lock_extend(lock, &lost), LOCK_LOST);
    tools_check_status(lock_release(lock, &lost), LOCK_NOT_OWNER);
    tools_check_held(lock, "lost"); /* by the other, at the new master */
    tools_check_held(after, "held");
    long long ttl_ms = redis_integer(replica, "PTTL", "lock:{held}", NULL);
    CHECK(ttl_ms >= lock_remaining_ns(lock, &held) / 1000000);
    CHECK_INT(told.times, 1);
    tools_release(lock, &held);
    tools_release(after, &second);
    redis_resume(&sentinel.sentinel[REDIS_SENTINELS - 1]);
}

/* While a Sentinel replaces the master nothing is granted, though the old master is well. */
static void while_replaced(void) {
    struct redis_sentinel sentinel;
    redis_sentinel_start(shop = &sentinel);
    struct lock *lock = tools_open(NULL, redis_sentinel_url(&sentinel));
    struct lock_grant grant = tools_acquire(lock, "a"), none;
    tools_release(lock, &grant);
    redis_wait_copied(&sentinel.server[0], &sentinel.server[1]);
    redis_pause(&sentinel.server[1]); /* so that the failover does not come to its end */
    CHECK_STR(redis_command(&sentinel.sentinel[0], "SENTINEL", "FAILOVER", "shop", NULL), "OK");
    struct lock *after = tools_open(NULL, redis_sentinel_url(&sentinel));
    tools_check_status(lock_try(after, "a", &none), LOCK_UNAVAILABLE);
    char said[LOCK_ERROR_SIZE];
    lock_last_error(after, said, sizeof said);
    CHECK_HAS(said, "are replacing the master");
    while (lock_try(lock, "a", &grant) == LOCK_OK) /* until it has heard of it */
        lock_release(lock, &grant);
    tools_check_status(lock_try(lock, "a", &none), LOCK_UNAVAILABLE);
    redis_resume(&sentinel.server[1]);
}

static void check_refused(const char *url, const char *error) {
    struct lock *lock = tools_open(NULL, url);
    struct lock_grant none;
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 300), NULL, &none), LOCK_UNAVAILABLE);
    char said[LOCK_ERROR_SIZE];
    lock_last_error(lock, said, sizeof said);
    CHECK_HAS(said, error);
}

/* A Sentinel that demands a password is told the URL's; the servers, which demand none, take any. And one
 * that hangs is passed over. */
static void strict_sentinel(void) {
    struct redis_sentinel sentinel;
    redis_sentinel_start(&sentinel);
    struct redis_server *strict = &sentinel.sentinel[0];
    CHECK_STR(redis_command(strict, "ACL", "SETUSER", "default", "resetpass", ">hunter2", NULL), "OK");
    const char *at = harness_format("127.0.0.1:%d/shop", strict->port);
    struct lock *lock = tools_open(NULL, harness_format("redis-sentinel://default:hunter2@%s", at));
    struct lock_grant grant = tools_acquire(lock, "a");
    tools_release(lock, &grant);
    check_refused(harness_format("redis-sentinel://%s", at), "Sentinel");
    check_refused(harness_format("redis-sentinel://default:wrong@%s", at), "Sentinel");
    redis_pause(strict); /* one that hangs costs no attempt */
    lock = tools_open(NULL, redis_sentinel_url(&sentinel));
    tools_check_status(lock_try(lock, "a", &grant), LOCK_OK);
    tools_release(lock, &grant);
    redis_resume(strict);
}

/* The error names the one that was asked last. */
static void no_sentinel(void) {
    int first = harness_free_port(), last = harness_free_port();
    check_refused(harness_format("redis-sentinel://127.0.0.1:%d,127.0.0.1:%d/shop", first, last),
                  harness_format("127.0.0.1:%d", last));
}

static void close_connection(void *connection) {
    redis_connection_close(connection);
}

static bool follow(struct redis_connection *connection, int port, int64_t asked_epoch, int64_t epoch) {
    struct redis_named named = {.asked_epoch = asked_epoch, .election.epoch = epoch};
    snprintf(named.master.host, sizeof named.master.host, "127.0.0.1");
    named.master.port = port;
    return redis_connection_follow(connection, &named);
}

static int moves;

static void on_moved(void *ctx) {
    (void)ctx;
    moves++;
}

static const struct redis_hooks hooks = {.moved = on_moved};

static void ping(struct redis_connection *connection) {
    const char *const command[] = {"PING"};
    struct redis_answer answer;
    CHECK_INT(redis_connection_call(connection, 1, command, &answer, NULL), REDIS_ANSWERED);
}

/* What a connection has heard of counts for the thread that watches Sentinels, too: an answer from before
 * does not lead it back, unless its Sentinels were made anew. */
static void heard_of_newer(void) {
    enum { TIMEOUT_MS = 2000, OLD = 4, NEW = 5 };
    struct redis_server redis;
    struct redis_url url;
    char why[200];
    int64_t epoch = OLD;
    redis_start(&redis, NULL);
    int elsewhere = harness_free_port();
    CHECK(redis_url_parse(&url, tools_redis_url(redis.port, ""), why, sizeof why));
    struct redis_connection *connection = redis_connection_open(&url, TIMEOUT_MS, NULL);
    harness_defer(close_connection, connection);
    CHECK(!redis_connection_was_reached(connection, &epoch));
    ping(connection);
    CHECK(!follow(connection, redis.port, 0, NEW));
    CHECK(!follow(connection, elsewhere, OLD, OLD)); /* asked before that was heard of */
    CHECK(redis_connection_was_reached(connection, &epoch));
    CHECK_INT(epoch, NEW);
    CHECK(follow(connection, elsewhere, NEW, OLD)); /* made anew */
    CHECK(follow(connection, elsewhere, OLD, NEW));
}

/* The Sentinels have counted a failover, and name the server that is connected to: so another was the master
 * in between, and this one may not have any more what it granted before. */
static void master_all_along(void) {
    enum { TIMEOUT_MS = 2000, OLD = 4, NEW = 5 };
    struct redis_server redis;
    struct redis_url url;
    char why[200];
    redis_start(&redis, NULL);
    CHECK(redis_url_parse(&url, tools_redis_url(redis.port, ""), why, sizeof why));
    struct redis_connection *connection = redis_connection_open(&url, TIMEOUT_MS, &hooks);
    harness_defer(close_connection, connection);
    moves = 0;
    ping(connection);
    CHECK_INT(moves, 0);
    for (int i = 0; i < 2; i++) {
        CHECK(!follow(connection, redis.port, 0, NEW));
        CHECK_INT(moves, 1);
    }
    CHECK(!follow(connection, redis.port, NEW, OLD)); /* made anew */
    CHECK_INT(moves, 1);
    CHECK(!follow(connection, redis.port, OLD, NEW));
    CHECK_INT(moves, 2);
}

/* As a Sentinel tells the others after a failover. */
static void tell_epoch(const struct redis_sentinel *sentinel, int epoch) {
    const char *hello = harness_format("127.0.0.1,%d,%s,%d,shop,127.0.0.1,%d,%d", harness_free_port(),
                                       harness_repeat('f', 40), epoch, sentinel->server[0].port, epoch);
    for (int i = 0; i < REDIS_SENTINELS; i++)
        redis_command(&sentinel->sentinel[i], "PUBLISH", "__sentinel__:hello", hello, NULL);
}

/* The same, and it was connected to anew. */
static void master_again(void) {
    enum { TIMEOUT_MS = 2000 };
    static const struct redis_named replacing = {.election.replacing = true};
    struct redis_sentinel sentinel;
    struct redis_url url;
    char why[200];
    redis_sentinel_start(&sentinel);
    CHECK(redis_url_parse(&url, redis_sentinel_url(&sentinel), why, sizeof why));
    struct redis_connection *connection = redis_connection_open(&url, TIMEOUT_MS, &hooks);
    harness_defer(close_connection, connection);
    moves = 0;
    ping(connection);
    CHECK(redis_connection_follow(connection, &replacing)); /* only to leave it */
    ping(connection);
    CHECK_INT(moves, 0);
    CHECK(redis_connection_follow(connection, &replacing));
    tell_epoch(&sentinel, 7);
    ping(connection);
    CHECK_INT(moves, 1);
}

static bool is_refused(void *arg) {
    struct lock_grant grant;
    enum lock_status status = lock_try(arg, "b", &grant);
    if (status == LOCK_OK)
        tools_release(arg, &grant);
    return status == LOCK_UNAVAILABLE;
}

/* What ends it where no Sentinel that this process hears of names another master: without a replica that
 * master refuses writes soon, and grants and renews nothing. */
static void without_good_replica(void) {
    struct redis_server master, replica;
    redis_start(&master, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1",
                "--repl-diskless-sync-delay", "0", NULL);
    redis_start_replica(&replica, &master);
    struct lock *lock = tools_open(NULL, tools_redis_url(master.port, "ttl=60000"));
    struct lock_grant grant = tools_acquire(lock, "a");
    redis_pause(&replica);
    CHECK(harness_wait(is_refused, lock, PATIENCE_MS));
    tools_check_status(lock_extend(lock, &grant), LOCK_UNAVAILABLE);
    redis_resume(&replica);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("an orderly failover, and a Sentinel hangs", orderly);
    harness_run("while the master is replaced", while_replaced);
    harness_run("a Sentinel's password", strict_sentinel);
    harness_run("no Sentinel answers", no_sentinel);
    harness_run("an answer from before", heard_of_newer);
    harness_run("a master that was not the master in between", master_all_along);
    harness_run("a master that is connected to again", master_again);
    harness_run("without a good replica", without_good_replica);
    return harness_finish();
}
