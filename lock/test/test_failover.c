/* redis: a Redis that fails over, and what the lock there loses with it. */
#include <string.h>

#include "lock/test/tools.h"

static bool is_promoted(void *arg) {
    struct redis_sentinel *sentinel = arg;
    return redis_sentinel_master(sentinel) == &sentinel->server[1];
}

/* The master is killed before its replica has heard of the grant; the Sentinels make the replica the master:
 * two hold the lock, and the second's fence is not newer. The lock does not claim otherwise. */
static void failover(void) {
    struct redis_sentinel sentinel;
    redis_sentinel_start(&sentinel);
    struct redis_server *master = &sentinel.server[0], *replica = &sentinel.server[1];
    struct lock *lock = tools_open(NULL, tools_redis_url(master->port, "ttl=60000"));
    redis_pause(replica);
    redis_command(master, "CLIENT", "KILL", "TYPE", "replica", NULL); /* not even on the way to it */
    struct lock_grant first = tools_acquire(lock, "a");
    redis_kill(master);
    redis_resume(replica);
    CHECK(harness_wait(is_promoted, &sentinel, PATIENCE_MS));
    struct lock *after = tools_open(NULL, tools_redis_url(replica->port, "ttl=60000"));
    struct lock_grant second = tools_acquire(after, "a");
    CHECK(lock_remaining_ns(lock, &first) > 0);
    CHECK(lock_remaining_ns(after, &second) > 0);
    CHECK(second.fence <= first.fence);
    CHECK(lock_caps(lock) & LOCK_CAN_FENCE);
    CHECK(!(lock_caps(lock) & LOCK_CAN_FENCE_FAILOVER));
}

static void check_refused(const char *url, const char *error) {
    struct lock *lock = tools_open(NULL, url);
    struct lock_grant none;
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 300), NULL, &none), LOCK_UNAVAILABLE);
    char said[LOCK_ERROR_SIZE];
    lock_last_error(lock, said, sizeof said);
    CHECK_HAS(said, error);
}

/* A Sentinel that demands a password is told the URL's; the servers, which demand none, take any. */
static void sentinel_password(void) {
    struct redis_sentinel sentinel;
    redis_sentinel_start(&sentinel);
    const struct redis_server *strict = &sentinel.sentinel[0];
    CHECK_STR(redis_command(strict, "ACL", "SETUSER", "default", "resetpass", ">hunter2", NULL), "OK");
    const char *at = harness_format("127.0.0.1:%d/shop", strict->port);
    struct lock *lock = tools_open(NULL, harness_format("redis-sentinel://default:hunter2@%s", at));
    struct lock_grant grant = tools_acquire(lock, "a");
    tools_release(lock, &grant);
    check_refused(harness_format("redis-sentinel://%s", at), "Sentinel");
    check_refused(harness_format("redis-sentinel://default:wrong@%s", at), "Sentinel");
}

/* The error names the one that was asked last. */
static void no_sentinel(void) {
    int first = harness_free_port(), last = harness_free_port();
    check_refused(harness_format("redis-sentinel://127.0.0.1:%d,127.0.0.1:%d/shop", first, last),
                  harness_format("127.0.0.1:%d", last));
}

/* All but the first Sentinel name the second server. */
static bool has_moved(void *arg) {
    const struct redis_sentinel *sentinel = arg;
    const char *port = harness_format(" %d]", sentinel->server[1].port);
    for (int i = 1; i < REDIS_SENTINELS; i++) {
        if (!strstr(
                redis_command(&sentinel->sentinel[i], "SENTINEL", "get-master-addr-by-name", "shop", NULL),
                port))
            return false;
    }
    return true;
}

/* A Sentinel that has not heard of the failover: what the others say counts. */
static void stale_sentinel(void) {
    struct redis_sentinel sentinel;
    struct redis_server left;
    redis_sentinel_start(&sentinel);
    redis_start(&left, NULL);
    const struct redis_server *stale = &sentinel.sentinel[0]; /* until the others tell it, after seconds */
    CHECK_STR(redis_command(&sentinel.sentinel[1], "SENTINEL", "FAILOVER", "shop", NULL), "OK");
    CHECK(harness_wait(has_moved, &sentinel, PATIENCE_MS));
    CHECK_STR(redis_command(stale, "SENTINEL", "REMOVE", "shop", NULL), "OK");
    CHECK_STR(redis_command(stale, "SENTINEL", "MONITOR", "shop", "127.0.0.1",
                            harness_format("%d", left.port), "2", NULL),
              "OK");
    struct lock *lock = tools_open(NULL, redis_sentinel_url(&sentinel));
    struct lock_grant grant = tools_acquire(lock, "a");
    CHECK_STR(redis_command(&left, "DBSIZE", NULL), "0");
    tools_release(lock, &grant);
}

/* The Sentinel that carries a failover out names the successor, though its state still shows the old master,
 * which is alive. */
static void within_a_failover(void) {
    struct redis_sentinel sentinel;
    struct redis_server stubborn;
    redis_sentinel_start_stalled(&sentinel, &stubborn);
    struct lock *lock =
        tools_open(NULL, harness_format("redis-sentinel://127.0.0.1:%d/shop", sentinel.sentinel[0].port));
    struct lock_grant grant = tools_acquire(lock, "a");
    CHECK_STR(redis_command(&sentinel.server[0], "DBSIZE", NULL), "0");
    tools_release(lock, &grant);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a Sentinel failover", failover);
    harness_run("a Sentinel's password", sentinel_password);
    harness_run("no Sentinel answers", no_sentinel);
    harness_run("a Sentinel that has not heard", stale_sentinel);
    harness_run("within a failover", within_a_failover);
    return harness_finish();
}
