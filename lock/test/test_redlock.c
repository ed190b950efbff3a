/* Redlock on real servers: what a quorum decides, nodes that are down, and what is documented to go wrong. */
#include <pthread.h>
#include <sched.h>

#include "lock/test/nodes.h"

/* A call waits for a second then. */
enum { TTL_MS = 20000 };

static void passwords(void) {
    char error[LOCK_ERROR_SIZE] = "";
    struct lock *lock;
    nodes_start(3, false);
    for (int i = 0; i < 3; i++)
        redis_command(&nodes.redis[i], "CONFIG", "SET", "requirepass", "open,sesame", NULL);
    for (int wrong = 0; wrong < 3; wrong++) { /* of so many nodes the password is wrong */
        const char *url =
            harness_format("redlock://:open%%2Csesame@127.0.0.1:%d,default:open%%2C%s@127.0.0.1:%d/3,"
                           ":%s@127.0.0.1:%d",
                           nodes.redis[0].port, wrong > 1 ? "hazel" : "sesame", nodes.redis[1].port,
                           wrong > 0 ? "hazel" : "open%2Csesame", nodes.redis[2].port);
        tools_check_status(lock_open(url, NULL, &lock, error, sizeof error), LOCK_OK);
        tools_check_status(nodes_try(lock, harness_format("key%d", wrong)),
                           wrong > 1 ? LOCK_UNAVAILABLE : LOCK_OK);
        CHECK_STR(error, "");
    }
}

/* ---- a quorum ---- */

/* The time that it took to ask is not the holder's. */
static void what_it_can(void) {
    struct lock *lock = nodes_begin(TTL_MS, true);
    CHECK_INT(lock_caps(lock), LOCK_CAN_EXTEND | LOCK_IS_SHARED | LOCK_IS_SAFE);
    for (int i = 0; i < 3; i++)
        proxy_set(nodes.proxy[i], PROXY_DELAY, 300, "EVAL");
    int64_t before_ns = lock_now_ns(lock), valid_ns = TTL_MS * 990000LL - 2000000;
    struct lock_grant grant = tools_acquire(lock, "a");
    CHECK_INT(grant.fence, 0);
    CHECK(grant.deadline_ns >= before_ns + valid_ns);
    CHECK(grant.deadline_ns < before_ns + valid_ns + 300000000);
    before_ns = lock_now_ns(lock);
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    CHECK(grant.deadline_ns >= before_ns + valid_ns);
    CHECK(grant.deadline_ns < before_ns + valid_ns + 300000000);
    tools_release(lock, &grant);
}

/* Of `count` nodes `down` are down; a quorum is left. */
static void work_with(int count, int down) {
    nodes_start(count, false);
    struct lock *lock = nodes_open(TTL_MS), *other = nodes_open(TTL_MS);
    for (int i = 0; i < down; i++)
        redis_kill(&nodes.redis[i]);
    for (int round = 0; round < 3; round++) {
        struct lock_grant grant = tools_acquire(lock, "a"), foreign = grant;
        foreign.owner[3] ^= 1;
        tools_check_status(nodes_try(other, "a"), LOCK_BUSY);
        tools_check_status(lock_release(lock, &foreign), LOCK_NOT_OWNER);
        tools_check_status(lock_extend(lock, &grant), LOCK_OK);
        tools_check_status(nodes_try(other, "a"), LOCK_BUSY);
        tools_release(lock, &grant);
        tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
        struct lock_grant next = tools_acquire(other, "a");
        tools_check_status(nodes_try(lock, "a"), LOCK_BUSY);
        tools_release(other, &next);
    }
    for (int i = down; i < count; i++)
        nodes_wait_gone(i, "a", 0);
}

static void minority_down(void) {
    work_with(1, 0);
    work_with(3, 1);
    work_with(5, 2);
}

/* The votes of the live nodes are released, though no thread waits for it. */
static void majority_down(void) {
    for (int count = 2; count <= 5; count++) {
        struct lock_grant grant;
        nodes_start(count, false);
        struct lock *lock = nodes_open(TTL_MS);
        int down = (count + 1) / 2;
        for (int i = 0; i < down; i++)
            redis_kill(&nodes.redis[i]);
        tools_check_status(lock_try(lock, "a", &grant), LOCK_UNAVAILABLE);
        for (int i = down; i < count; i++)
            nodes_wait_gone(i, "a", 2);
        tools_check_status(lock_acquire(lock, "a", lock_now_ns(lock) + 100000000, NULL, &grant),
                           LOCK_UNAVAILABLE);
        for (int i = down; i < count; i++)
            nodes_wait_gone(i, "a", 4);
        redis_restart(&nodes.redis[0]);
        tools_use(lock, "a");
    }
}

/* Also a node that answers, but with errors, is down. */
static void errors(void) {
    struct lock *lock = nodes_begin(TTL_MS, false);
    redis_command(&nodes.redis[0], "RPUSH", "lock:{a}", "x", NULL);
    tools_use(lock, "a");
    redis_command(&nodes.redis[1], "RPUSH", "lock:{a}", "x", NULL);
    tools_check_status(nodes_try(lock, "a"), LOCK_UNAVAILABLE);
    nodes_wait_gone(2, "a", 4);
}

static uint64_t always_long(void *ctx) {
    (void)ctx;
    return 7999999; /* of the 8 ms, or more, by which asking again is spread */
}

/* Two NO decide it; the vote of the third is released. Asked again after 1 to 9 ms. */
static void held_by_others(void) {
    struct lock_grant grant;
    struct lock_config config = {.random = always_long};
    nodes_start(3, false);
    struct lock *lock = tools_open(&config, nodes_url(TTL_MS));
    for (int i = 1; i < 3; i++)
        redis_command(&nodes.redis[i], "SET", "lock:{a}", "another", NULL);
    tools_check_status(lock_try(lock, "a", &grant), LOCK_BUSY);
    nodes_wait_gone(0, "a", 2);
    tools_check_status(lock_acquire(lock, "a", lock_now_ns(lock) + 50000000, NULL, &grant), LOCK_TIMEOUT);
    nodes_wait_gone(0, "a", 4);
    for (int i = 1; i < 3; i++) {
        CHECK_STR(nodes_value(i, "a"), "another");
        CHECK(nodes_scripts(i) <= 1 + 50 / 9 + 3); /* with one at the end, and the release */
    }
    /* Another owner has one vote, and one node is down: busy, since that owner may release its vote. */
    redis_command(&nodes.redis[2], "DEL", "lock:{a}", NULL);
    redis_kill(&nodes.redis[0]);
    tools_check_status(lock_try(lock, "a", &grant), LOCK_BUSY);
    nodes_wait_gone(2, "a", 0);
    redis_command(&nodes.redis[1], "DEL", "lock:{a}", NULL);
    tools_use(lock, "a");
}

/* ---- while it is held ---- */

/* Once a node that is back is seen to be. */
static enum lock_status extend_at_last(struct lock *lock, struct lock_grant *grant) {
    enum lock_status status;
    int64_t until_ns = tools_in_ms(lock, TTL_MS / 2);
    do
        status = lock_extend(lock, grant);
    while (status == LOCK_UNAVAILABLE && lock_now_ns(lock) < until_ns);
    return status;
}

static void extend(void) {
    struct lock *lock = nodes_begin(TTL_MS, false);
    struct lock_grant grant = tools_acquire(lock, "a");
    redis_kill(&nodes.redis[0]);
    for (int i = 1; i < 3; i++)
        redis_command(&nodes.redis[i], "PEXPIRE", "lock:{a}", "4000", NULL);
    int64_t before_ns = grant.deadline_ns;
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    CHECK(grant.deadline_ns > before_ns);
    for (int i = 1; i < 3; i++)
        CHECK(redis_integer(&nodes.redis[i], "PTTL", "lock:{a}", NULL) > 4000);
    redis_kill(&nodes.redis[1]);
    before_ns = grant.deadline_ns;
    tools_check_status(lock_extend(lock, &grant), LOCK_UNAVAILABLE);
    CHECK_INT(grant.deadline_ns, before_ns);
    CHECK(lock_remaining_ns(lock, &grant) > 0);
    redis_restart(&nodes.redis[1]);
    tools_check_status(extend_at_last(lock, &grant), LOCK_OK);
    /* One has lost it, one is down, one has it: that proves nothing. Once two have lost it, it is lost. */
    redis_command(&nodes.redis[1], "DEL", "lock:{a}", NULL);
    tools_check_status(lock_extend(lock, &grant), LOCK_UNAVAILABLE);
    redis_restart(&nodes.redis[0]);
    redis_command(&nodes.redis[0], "SET", "lock:{a}", "another", NULL);
    tools_check_status(extend_at_last(lock, &grant), LOCK_LOST);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
}

static bool all_voted(void *grant) {
    return nodes_has(0, grant) && nodes_has(1, grant) && nodes_has(2, grant);
}

static void lost(void) {
    const struct lock_config config = {.on_lost = tools_on_lost};
    told.times = 0;
    nodes_start(3, false);
    struct lock *lock = tools_open(&config, nodes_url(3000));
    struct lock_grant grant = tools_acquire(lock, "a"), kept = tools_acquire(lock, "b");
    /* A quorum was enough for it: the last vote may still be on its way. */
    CHECK(harness_wait(all_voted, &grant, PATIENCE_MS));
    CHECK(harness_wait(all_voted, &kept, PATIENCE_MS));
    for (int i = 0; i < 3; i++)
        redis_command(&nodes.redis[i], "DEL", i < 2 ? "lock:{a}" : "lock:{b}", NULL);
    tools_wait_told(1);
    CHECK(lock_now_ns(lock) < grant.deadline_ns);
    CHECK_STR(told.grant.owner, grant.owner);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    CHECK(lock_remaining_ns(lock, &kept) > 0);
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    tools_release(lock, &kept);
    CHECK_INT(told.times, 1);
}

/* The flaw that is documented: a node that has forgotten its vote gives it again. One that has written it
 * down does not. */
static void forgetful_node(void) {
    nodes_start(3, false);
    struct lock *first = nodes_open(TTL_MS), *second = nodes_open(TTL_MS);
    redis_kill(&nodes.redis[2]);
    struct lock_grant one = tools_acquire(first, "a"), two;
    redis_kill(&nodes.redis[1]);
    redis_restart(&nodes.redis[1]);
    redis_restart(&nodes.redis[2]);
    tools_check_status(lock_try(second, "a", &two), LOCK_BUSY);
    redis_kill(&nodes.redis[1]);
    redis_wipe(&nodes.redis[1]);
    redis_restart(&nodes.redis[1]);
    tools_check_status(lock_try(second, "a", &two), LOCK_OK);
    CHECK(lock_remaining_ns(first, &one) > 0);
    CHECK(lock_remaining_ns(second, &two) > 0);
    /* A verification notices it, and a release leaves the other owner's votes alone. */
    tools_check_status(extend_at_last(first, &one), LOCK_LOST);
    tools_check_status(lock_release(first, &one), LOCK_NOT_OWNER);
    CHECK(nodes_has(1, &two));
    CHECK(nodes_has(2, &two));
    tools_release(second, &two);
}

/* ---- two owners that split the votes ---- */

struct contender {
    pthread_t thread;
    struct lock *lock;
    int rounds;
};

static _Atomic int inside, rounds_done;

static void *contend(void *arg) {
    struct contender *contender = arg;
    for (int i = 0; i < contender->rounds; i++) {
        struct lock_grant grant = tools_acquire(contender->lock, "a");
        CHECK_INT(inside++, 0);
        sched_yield();
        rounds_done++;
        CHECK_INT(--inside, 0);
        tools_release(contender->lock, &grant);
    }
    return NULL;
}

/* With two nodes the quorum is both: if each owner has one vote, nobody has the lock. */
static void split_votes(int node_count) {
    enum { CONTENDERS = 3, ROUNDS = 80 };
    struct contender contenders[CONTENDERS];
    nodes_start(node_count, false);
    inside = rounds_done = 0;
    for (int i = 0; i < CONTENDERS; i++) {
        struct redis_server first = nodes.redis[0]; /* each asks in another order */
        for (int k = 1; k < node_count; k++)
            nodes.redis[k - 1] = nodes.redis[k];
        nodes.redis[node_count - 1] = first;
        contenders[i] = (struct contender){.lock = nodes_open(TTL_MS), .rounds = ROUNDS};
    }
    for (int i = 0; i < CONTENDERS; i++)
        CHECK_INT(pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]), 0);
    for (int i = 0; i < CONTENDERS; i++)
        pthread_join(contenders[i].thread, NULL);
    CHECK(!harness_failed());
    CHECK_INT(rounds_done, CONTENDERS * ROUNDS);
    for (int i = 0; i < node_count; i++)
        nodes_wait_gone(i, "a", 0);
}

static void contention(void) {
    split_votes(2);
    split_votes(3);
    split_votes(5);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("passwords", passwords);
    harness_run("what it can", what_it_can);
    harness_run("a minority is down", minority_down);
    harness_run("a majority is down", majority_down);
    harness_run("errors", errors);
    harness_run("held by others", held_by_others);
    harness_run("extended by a quorum", extend);
    harness_run("lost", lost);
    harness_run("a node that forgets: two holders", forgetful_node);
    harness_run("contention", contention);
    return harness_finish();
}
