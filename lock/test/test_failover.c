/* redis: a Redis that fails over, and what the lock there loses with it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/test/tools.h"

static struct redis_server redis;

static int sentinel_port;

static int promoted_port(void) {
    struct redis_server sentinel = {.port = sentinel_port};
    const char *reply =
        redis_command(&sentinel, "SENTINEL", "get-master-addr-by-name", "m", NULL); /* [127.0.0.1 PORT] */
    const char *space = strrchr(reply, ' ');
    return space ? (int)strtol(space + 1, NULL, 10) : 0;
}

static bool is_promoted(void *port) {
    return promoted_port() == *(int *)port;
}

static bool knows_replica(void *arg) {
    (void)arg;
    struct redis_server sentinel = {.port = sentinel_port};
    return strstr(redis_command(&sentinel, "INFO", "sentinel", NULL), "slaves=1") != NULL;
}

static void start_sentinel(struct proc *proc, int master_port) {
    sentinel_port = harness_free_port();
    const char *file = harness_format("%s/sentinel.conf", harness_dir());
    FILE *conf = fopen(file, "w");
    if (!conf)
        FAIL("cannot write %s", file);
    fprintf(conf,
            "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor m 127.0.0.1 %d 1\n"
            "sentinel down-after-milliseconds m 300\nsentinel failover-timeout m 3000\n",
            sentinel_port, harness_dir(), master_port);
    fclose(conf);
    const char *argv[] = {"redis-server", file, "--sentinel", NULL};
    proc_spawn(proc, argv, NULL, harness_format("%s/sentinel.log", harness_dir()));
    CHECK(harness_wait(knows_replica, NULL, PATIENCE_MS));
}

/* The master is killed before its replica has heard of the grant; the Sentinel makes the replica the master:
 * two hold the lock, and the second's fence is not newer. The lock does not claim otherwise. */
static void failover(void) {
    struct redis_server replica;
    struct proc sentinel;
    redis_start(&redis, NULL);
    redis_start_replica(&replica, &redis);
    start_sentinel(&sentinel, redis.port);
    struct lock *lock = tools_open(NULL, tools_redis_url(redis.port, "ttl=60000"));
    redis_pause(&replica);
    redis_command(&redis, "CLIENT", "KILL", "TYPE", "replica", NULL); /* not even on the way to it */
    struct lock_grant first = tools_acquire(lock, "a");
    redis_kill(&redis);
    redis_resume(&replica);
    CHECK(harness_wait(is_promoted, &replica.port, PATIENCE_MS));
    struct lock *after = tools_open(NULL, tools_redis_url(replica.port, "ttl=60000"));
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

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a Sentinel failover", failover);
    harness_run("a Sentinel's password", sentinel_password);
    return harness_finish();
}
