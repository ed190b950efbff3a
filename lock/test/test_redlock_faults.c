/* Redlock and nodes that are slow, that hang, and whose replies are lost. */
#include <pthread.h>
#include <string.h>

#include "lock/redlock/node.h"
#include "lock/test/nodes.h"
#include "redlock_release.lua.h"

/* A call waits for 500 ms then, and a connection for 2 s. */
enum { TTL_MS = 10000 };

static const char *const absent = "(nil)";

/* The first nodes hang. The others have been asked all the same, and in the end nothing is left on those that
 * hung: what took it back came after it. `linked`: they hang after the connection was made. */
static void hanging(int count, int hang, bool linked) {
    nodes_start(count, false);
    struct lock *lock = nodes_open(TTL_MS);
    if (linked) {
        tools_use(lock, "first");
    }
    for (int i = 0; i < count; i++) {
        redis_command(&nodes.redis[i], "CONFIG", "RESETSTAT", NULL);
        if (i < hang)
            redis_pause(&nodes.redis[i]);
    }
    struct lock_grant grant = tools_acquire(lock, "a");
    for (int i = hang; i < count; i++)
        CHECK(nodes_has(i, &grant));
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    tools_release(lock, &grant);
    for (int i = hang; i < count; i++)
        CHECK_STR(nodes_value(i, "a"), absent);
    struct lock_grant next = tools_acquire(lock, "a");
    for (int i = 0; i < hang; i++)
        redis_resume(&nodes.redis[i]);
    tools_release(lock, &next);
    for (int i = 0; i < hang; i++)
        nodes_wait_gone(i, "a", linked ? 3 : 1);
}

static void node_hangs(void) {
    hanging(3, 1, true);
    hanging(3, 1, false);
    hanging(5, 2, true);
}

/* It hangs for so long that the connection is given up with the question in it, and what takes it back comes
 * over another. */
static void node_hangs_long(void) {
    struct lock *lock = nodes_begin(TTL_MS, false);
    tools_use(lock, "first");
    for (int i = 0; i < 3; i++)
        redis_command(&nodes.redis[i], "CONFIG", "RESETSTAT", NULL);
    redis_pause(&nodes.redis[2]);
    tools_use(lock, "a");
    harness_pause_ms(2300);
    redis_resume(&nodes.redis[2]);
    nodes_wait_gone(2, "a", 2);
}

/* Two nodes have carried it out and answer too late: not had, and nothing is left. */
static void slow_majority(void) {
    struct lock_grant grant;
    struct lock *lock = nodes_begin(TTL_MS, true);
    for (int i = 1; i < 3; i++)
        proxy_set(nodes.proxy[i], PROXY_DELAY, 1800, "EVAL");
    tools_check_status(lock_try(lock, "a", &grant), LOCK_UNAVAILABLE);
    nodes_wait_gone(0, "a", 2);
    for (int i = 1; i < 3; i++)
        CHECK(strcmp(nodes_value(i, "a"), absent) != 0);
    for (int i = 1; i < 3; i++) {
        nodes_wait_gone(i, "a", 2);
        proxy_set(nodes.proxy[i], PROXY_PASS, 0, NULL);
    }
    tools_use(lock, "a");
}

/* lock_close() waits until the releases are sent. */
static void closed_at_once(void) {
    char error[LOCK_ERROR_SIZE];
    struct lock *lock;
    nodes_start(3, true);
    tools_check_status(lock_open(nodes_url(TTL_MS), NULL, &lock, error, sizeof error), LOCK_OK);
    proxy_set(nodes.proxy[0], PROXY_DELAY, 300, "EVAL");
    tools_use(lock, "a");
    lock_close(lock);
    CHECK_STR(nodes_value(0, "a"), absent);
    CHECK_INT(nodes_scripts(0), 2);
}

/* What takes an earlier round of the same owner back can come late, from a connection that was given up: it
 * does not touch the later round's votes. */
static void earlier_round(void) {
    struct lock *lock = nodes_begin(TTL_MS, false);
    for (int i = 1; i < 3; i++)
        redis_command(&nodes.redis[i], "SET", "lock:{a}", "another", NULL);
    struct tools_waiter *waiter = tools_wait(lock, "a", PATIENCE_MS, NULL);
    nodes_wait_gone(0, "a", 2);
    for (int i = 1; i < 3; i++)
        redis_command(&nodes.redis[i], "DEL", "lock:{a}", NULL);
    tools_check_status(tools_join(waiter), LOCK_OK);
    const char *round = harness_format("%s:%015x", waiter->grant.owner, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(redis_integer(&nodes.redis[i], "EVAL", redlock_release_lua, "1", "lock:{a}", round, NULL),
                  0);
    tools_release(lock, &waiter->grant);
}

/* ---- time ---- */

static _Atomic int64_t ahead_ns;

static int64_t turned_clock(void *ctx) {
    (void)ctx;
    return harness_now_ms() * 1000000 + ahead_ns;
}

static void sleep_too_long(void *ctx, const char *point, const char *key) {
    (void)ctx;
    CHECK_STR(key, "a");
    if (strcmp(point, "voted") != 0)
        return;
    ahead_ns += TTL_MS * 990000LL - 2000000;
}

/* All votes, but no time left: not granted, and released. */
static void too_late(void) {
    struct lock_grant grant;
    struct lock_config config = {.now_ns = turned_clock, .at_point = sleep_too_long};
    nodes_start(3, false);
    struct lock *lock = tools_open(&config, nodes_url(TTL_MS));
    tools_check_status(lock_try(lock, "a", &grant), LOCK_UNAVAILABLE);
    for (int i = 0; i < 3; i++)
        nodes_wait_gone(i, "a", 2);
}

/* ---- one node ---- */

static struct redlock_round *ping(bool insists, int64_t late_ms) {
    struct redlock_round *round = redlock_round_new(1);
    CHECK(round != NULL);
    const char *argv[] = {"EVAL", "return 1", "0"};
    memcpy(round->argv, argv, sizeof argv);
    round->argc = 3;
    round->enough = 1;
    round->insists = insists;
    round->limit.until_ns = harness_now_ms() * 1000000;
    round->late_ns = (harness_now_ms() + late_ms) * 1000000;
    return round;
}

static bool answers(void *node) {
    struct redlock_round *round = ping(true, 60000);
    round->limit.until_ns += 5000000000;
    redlock_node_post(node, &round->asks[0]);
    return redlock_round_end(round).by_node[0] == REDLOCK_YES;
}

/* Before a node that hangs stand so many and no more; of those the late ones are not sent, unless they
 * insist. */
static void bounded(void) {
    enum { MANY = 10000, SOME = 10 };
    struct redis_target target;
    char error[200];
    nodes_start(1, false);
    CHECK(redis_target_parse(&target, harness_format("redis://127.0.0.1:%d", nodes.redis[0].port), error,
                             sizeof error));
    struct redlock_node *node = redlock_node_open(&target, 20000, NULL);
    CHECK(node != NULL);
    CHECK(harness_wait(answers, node, 20000));
    redis_pause(&nodes.redis[0]);
    struct redlock_round *first = ping(false, 60000);
    redlock_node_post(node, &first->asks[0]);
    redlock_round_end(first);
    harness_pause_ms(100); /* the thread waits for its answer */
    int down[2] = {0, 0};
    for (int i = 0; i < 2 * MANY; i++) {
        struct redlock_round *round = ping(i >= MANY, i < MANY || i >= MANY + SOME ? -1 : 60000);
        redlock_node_post(node, &round->asks[0]);
        struct redlock_votes votes = redlock_round_end(round);
        down[i >= MANY] += votes.by_node[0] == REDLOCK_DOWN;
    }
    CHECK(down[0] >= MANY / 2 && down[0] < MANY);
    CHECK(down[1] >= MANY / 2 && down[1] < MANY);
    harness_pause_ms(50);
    redis_resume(&nodes.redis[0]);
    CHECK(harness_wait(answers, node, 20000));
    redlock_node_close(node);
    int posted = 2 * MANY - down[0] - down[1];
    CHECK(nodes_scripts(0) > SOME && nodes_scripts(0) < posted);
}

/* ---- all of it ---- */

enum { WORKERS = 6 };

struct worker {
    pthread_t thread;
    struct lock *lock;
    _Atomic bool *stop;
    long had, failed;
};

static _Atomic int inside;

static void *work(void *arg) {
    struct worker *worker = arg;
    while (!*worker->stop) {
        struct lock_grant grant;
        int64_t until_ns = lock_now_ns(worker->lock) + 300000000;
        if (lock_acquire(worker->lock, "a", until_ns, NULL, &grant) != LOCK_OK) {
            worker->failed++;
            continue;
        }
        CHECK_INT(inside++, 0);
        worker->had++;
        CHECK_INT(--inside, 0);
        lock_release(worker->lock, &grant);
    }
    return NULL;
}

static void hurt(uint64_t *random) {
    int victim = (int)(harness_random(random) % (uint64_t)nodes.count);
    struct redis_server *redis = &nodes.redis[victim];
    switch (harness_random(random) % 4) {
    case 0:
        redis_kill(redis);
        harness_pause_ms((int)(harness_random(random) % 100));
        redis_restart(redis);
        break;
    case 1:
        redis_pause(redis);
        harness_pause_ms((int)(harness_random(random) % 600));
        redis_resume(redis);
        break;
    case 2: proxy_set(nodes.proxy[victim], PROXY_DELAY, (int)(harness_random(random) % 30), NULL); break;
    default: proxy_set(nodes.proxy[victim], PROXY_CUT, (int)(harness_random(random) % 10), NULL);
    }
}

/* Three processes, as far as the nodes can tell; the nodes keep what they know. */
static void crowd_under_faults(void) {
    enum { LOCKS = 3, FAULTS = 25 };
    struct lock *locks[LOCKS];
    struct worker workers[WORKERS];
    _Atomic bool stop = false;
    uint64_t random = harness_seed();
    nodes_start(3, true);
    inside = 0;
    for (int i = 0; i < LOCKS; i++)
        locks[i] = nodes_open(3000);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.lock = locks[i % LOCKS], .stop = &stop};
        CHECK_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < FAULTS; i++) {
        hurt(&random);
        harness_pause_ms((int)(harness_random(&random) % 100));
    }
    stop = true;
    long had = 0;
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        had += workers[i].had;
    }
    CHECK(!harness_failed());
    CHECK(had > 50);
    for (int i = 0; i < 3; i++)
        proxy_set(nodes.proxy[i], PROXY_PASS, 0, NULL);
    tools_use_at_last(locks[0], "a");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a node hangs", node_hangs);
    harness_run("a node hangs for long", node_hangs_long);
    harness_run("a majority is slow", slow_majority);
    harness_run("closed at once", closed_at_once);
    harness_run("an earlier round", earlier_round);
    harness_run("votes that come too late", too_late);
    harness_run("what stands before a node is bounded", bounded);
    harness_run("a crowd under faults", crowd_under_faults);
    return harness_finish();
}
