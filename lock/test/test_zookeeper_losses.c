/* zookeeper: when something is lost: replies, sessions, servers. Two handles are two processes to the store.
 */
#include "lock/test/tools.h"

static struct zookeeper_server server;

static void begin(void) {
    zookeeper_start(&server);
}

static struct lock *open_by(int port, const char *options) {
    return tools_open(NULL, harness_format("zookeeper://127.0.0.1:%d%s", port, options));
}

/* Below /lock/a. */
static int count_nodes(void) {
    return tools_count_nodes(&server, "/lock/a");
}

static void wait_for_nodes(int count) {
    tools_wait_for_nodes(&server, "/lock/a", count);
}

static void check_one_node(const struct lock_grant *grant) {
    CHECK_INT(count_nodes(), 1);
    CHECK_HAS(zookeeper_list(&server, "/lock/a"), grant->owner);
}

/* Acquires as a user does when the store is away for a while. */
static struct lock_grant take_in_the_end(struct lock *lock, const char *key) {
    struct lock_grant grant;
    enum lock_status status;
    int64_t until_ns = tools_in_ms(lock, PATIENCE_MS);
    do
        status = lock_acquire(lock, key, until_ns, NULL, &grant);
    while ((status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN) && lock_now_ns(lock) < until_ns);
    tools_check_status(status, LOCK_OK);
    return grant;
}

/* ---- lost replies ---- */

/* Between threads, one call releases the node of one and creates that of the next. */
static void lost_hand_over(void) {
    begin();
    struct proxy *proxy = proxy_start(server.port);
    struct lock *lock = open_by(proxy_port(proxy), "?ttl=3000");
    for (int cut = 0; cut < 4; cut++) {
        struct lock_grant grant = tools_acquire(lock, "a");
        struct tools_waiter *waiter = tools_wait(lock, "a", PATIENCE_MS, NULL);
        tools_wait_for_waiters(lock, 1);
        proxy_set(proxy, PROXY_CUT, cut * 20, "/lock/a");
        tools_release(lock, &grant);
        tools_check_status(tools_join(waiter), LOCK_OK);
        CHECK_INT(proxy_faults(proxy), cut + 1);
        CHECK(waiter->grant.fence > grant.fence);
        check_one_node(&waiter->grant);
        tools_release(lock, &waiter->grant);
    }
}

/* ---- sessions that end ---- */

/* A busy server may keep one waiting. */
static void still_held(struct lock *lock, struct lock_grant *grant) {
    enum lock_status status = lock_extend(lock, grant);
    if (status != LOCK_UNAVAILABLE && status != LOCK_UNKNOWN)
        tools_check_status(status, LOCK_OK);
}

/* The server lets a session live for much less than the time to live. Whatever its holder last heard, the
 * grant is over for it before it is over for the server; however often it had been extended. */
static void over_while_held(void) {
    zookeeper_start_bounded(&server, 2000);
    struct proxy *proxy = proxy_start(server.port);
    struct lock *lock = open_by(proxy_port(proxy), "?ttl=5000"), *other = open_by(server.port, "?ttl=5000");
    for (int i = 0; i < 2; i++) {
        struct lock_grant grant = take_in_the_end(lock, "a"), again;
        CHECK(lock_remaining_ns(lock, &grant) < 2000000000);
        for (int64_t until_ns = tools_in_ms(lock, i ? 300 : 0); lock_now_ns(lock) < until_ns;)
            still_held(lock, &grant);
        proxy_set(proxy, PROXY_REFUSE, 0, NULL);
        CHECK(lock_remaining_ns(lock, &grant) > 0);
        again = tools_acquire(other, "a");
        CHECK_INT(lock_remaining_ns(lock, &grant), 0);
        CHECK(grant.deadline_ns < lock_now_ns(lock));
        CHECK(again.fence > grant.fence);
        proxy_set(proxy, PROXY_PASS, 0, NULL);
        tools_check_status(lock_extend(lock, &grant), LOCK_LOST);
        tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
        check_one_node(&again);
        tools_release(other, &again);
    }
}

static _Atomic int64_t ahead_ns;

static int64_t turned_now_ns(void *ctx) {
    (void)ctx;
    return harness_now_ms() * 1000000 + ahead_ns;
}

/* Half of the session's time has passed without a word from the server, for all that this process knows: what
 * it is given then might be over soon, and is not taken for a grant before the server has been heard again.
 */
static void silence(void) {
    begin();
    struct lock_config config = {.now_ns = turned_now_ns};
    struct lock *lock = tools_open(&config, harness_format("zookeeper://127.0.0.1:%d?ttl=4000", server.port));
    struct lock_grant grant = tools_acquire(lock, "a");
    tools_release(lock, &grant);
    ahead_ns = 4000000000;
    tools_check_status(lock_try(lock, "a", &grant), LOCK_UNAVAILABLE);
    CHECK_INT(count_nodes(), 0);
    grant = tools_acquire(lock, "a");
    CHECK(lock_remaining_ns(lock, &grant) > 2000000000);
    tools_release(lock, &grant);
}

/* A waiter gets a new session, and enters the queue anew. */
static void over_while_waiting(void) {
    zookeeper_start_bounded(&server, 1500);
    struct proxy *proxy = proxy_start(server.port);
    struct lock *lock = open_by(proxy_port(proxy), "?ttl=5000"), *other = open_by(server.port, "?ttl=60000");
    struct lock_grant held = tools_acquire(other, "a");
    struct tools_waiter *waiter = NULL;
    for (int i = 0; i < 2; i++) {
        waiter = tools_wait(lock, "a", 60000, NULL);
        wait_for_nodes(2);
        proxy_set(proxy, PROXY_REFUSE, 0, NULL);
        for (bool gone = false; !gone; gone = count_nodes() == 1)
            still_held(other, &held);
        proxy_set(proxy, PROXY_PASS, 0, NULL);
        while (count_nodes() < 2 && !waiter->done)
            still_held(other, &held);
        tools_release(other, &held);
        if (tools_join(waiter) == LOCK_OK)
            break;
        tools_check_status(waiter->status, LOCK_UNAVAILABLE); /* it was away for a second: too long */
        held = tools_acquire(other, "a");
    }
    tools_check_status(waiter->status, LOCK_OK);
    CHECK(waiter->grant.fence > held.fence);
    check_one_node(&waiter->grant);
    tools_release(lock, &waiter->grant);
}

/* ---- servers that go ---- */

static bool extends(void *arg) {
    void **args = arg;
    return lock_extend(args[0], args[1]) == LOCK_OK;
}

/* Clients that come while it starts would get no reply now and then, and wait for it: two thirds of the
 * session's time. */
static void restart_behind(struct proxy *proxy) {
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    zookeeper_restart(&server);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
}

/* Sessions outlive their server, if it comes back in time. */
static void restarted(void) {
    begin();
    struct proxy *proxy = proxy_start(server.port);
    struct lock *lock = open_by(proxy_port(proxy), ""), *other = open_by(proxy_port(proxy), "");
    struct lock_grant grant = tools_acquire(lock, "a");
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    wait_for_nodes(2);
    zookeeper_kill(&server);
    CHECK(lock_remaining_ns(lock, &grant) > 0);
    CHECK(lock_extend(lock, &grant) != LOCK_LOST);
    restart_behind(proxy);
    void *args[] = {lock, &grant};
    CHECK(harness_wait(extends, args, PATIENCE_MS));
    CHECK(!waiter->done || waiter->status != LOCK_OK);
    tools_release(lock, &grant);
    if (tools_join(waiter) != LOCK_OK)
        waiter->grant = take_in_the_end(other, "a");
    CHECK(waiter->grant.fence > grant.fence);
    tools_release(other, &waiter->grant);
}

static bool is_renewed(void *lock) {
    return tools_metrics(lock).extended >= 4 || told.times > 0;
}

/* Grants are much shorter than the time to live: they are renewed in time all the same, and when they cannot
 * be, that is told before their deadline. */
static void renewed_while_bounded(void) {
    zookeeper_start_bounded(&server, 4000);
    struct lock *lock =
        tools_open_told(harness_format("zookeeper://127.0.0.1:%d?ttl=60000&renew=on", server.port));
    struct lock_grant grant = tools_acquire(lock, "a");
    CHECK(lock_remaining_ns(lock, &grant) < 4000000000);
    CHECK(harness_wait(is_renewed, lock, PATIENCE_MS));
    CHECK_INT(told.times, 0);
    check_one_node(&grant);
    int64_t until_ns = 0, left_ns;
    zookeeper_pause(&server);
    while ((left_ns = lock_remaining_ns(lock, &grant)) > 0) {
        until_ns = lock_now_ns(lock) + left_ns;
        harness_pause_ms(1);
    }
    tools_wait_told(1);
    CHECK(told.at_ns < until_ns);
    zookeeper_resume(&server);
}

static void run_shell(const char *command) {
    int status;
    struct proc proc;
    const char *argv[] = {"sh", "-c", command, NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/sh.log", harness_dir()));
    CHECK(proc_wait(&proc, PATIENCE_MS, &status));
    CHECK_INT(status, 0);
}

/* Its data is lost, and another's put there: the session is over long before the grant is. */
static void session_lost(void) {
    struct zookeeper_server other;
    begin();
    zookeeper_start(&other);
    struct proxy *proxy = proxy_start(server.port);
    struct lock *lock =
        tools_open_told(harness_format("zookeeper://127.0.0.1:%d?ttl=9000", proxy_port(proxy)));
    for (int i = 0; i < 30; i++) /* so that it counts further than what this process has seen */
        zookeeper_list(&other, "/");
    struct lock_grant grant = tools_acquire(lock, "a"), extended = grant;
    zookeeper_kill(&server);
    zookeeper_kill(&other);
    run_shell(harness_format("rm -r %s/data && cp -r %s/data %s/data", server.dir, other.dir, server.dir));
    restart_behind(proxy);
    tools_wait_told(1);
    CHECK(lock_now_ns(lock) < grant.deadline_ns);
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    tools_check_status(lock_extend(lock, &extended), LOCK_LOST);
    struct lock_grant next = take_in_the_end(lock, "a");
    CHECK(next.fence > grant.fence);
    tools_check_status(lock_release(lock, &grant), LOCK_NOT_OWNER);
    check_one_node(&next);
    tools_release(lock, &next);
    CHECK_INT(told.times, 1);
}

/* The server has lost its data. It refuses clients that have seen more than it knows; so the session is given
 * up. */
static void wiped(void) {
    zookeeper_start_bounded(&server, 800);
    struct proxy *proxy = proxy_start(server.port);
    struct lock *lock = open_by(proxy_port(proxy), "?ttl=3000");
    struct lock_grant grant = tools_acquire(lock, "a");
    zookeeper_kill(&server);
    run_shell(harness_format("rm -r %s/data", server.dir));
    restart_behind(proxy);
    struct lock_grant next = take_in_the_end(lock, "a");
    CHECK_INT(lock_remaining_ns(lock, &grant), 0);
    check_one_node(&next);
    tools_release(lock, &next);
}

/* The leader is killed, twice: what was held is held, and fences grow. */
static void failover(void) {
    enum { SERVERS = 3 };
    struct zookeeper_server servers[SERVERS];
    zookeeper_start_ensemble(servers, SERVERS);
    const char *url = harness_format("zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?ttl=20000",
                                     servers[0].port, servers[1].port, servers[2].port);
    struct lock *lock = tools_open(NULL, url), *other = tools_open(NULL, url);
    CHECK(lock_caps(lock) & LOCK_CAN_FENCE_FAILOVER);
    struct lock_grant grant = tools_acquire(lock, "a");
    for (int i = 0; i < 2; i++) {
        int leader = zookeeper_leader(servers, SERVERS);
        zookeeper_kill(&servers[leader]);
        void *args[] = {lock, &grant};
        CHECK(harness_wait(extends, args, PATIENCE_MS));
        struct lock_grant busy;
        enum lock_status status;
        do
            status = lock_try(other, "a", &busy);
        while (status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN);
        tools_check_status(status, LOCK_BUSY);
        lock_release(lock, &grant);
        struct lock_grant next = take_in_the_end(other, "a");
        CHECK(next.fence > grant.fence);
        lock_release(other, &next);
        grant = take_in_the_end(lock, "a");
        CHECK(grant.fence > next.fence);
        zookeeper_restart(&servers[leader]);
    }
}

/* The store hangs: calls end in time, and so does lock_close(), with replies in flight. */
static void hung(void) {
    begin();
    char error[LOCK_ERROR_SIZE];
    const char *url = harness_format("zookeeper://127.0.0.1:%d?ttl=1500", server.port);
    struct lock *lock;
    struct lock_grant held, grant;
    tools_check_status(lock_open(url, NULL, &lock, error, sizeof error), LOCK_OK);
    held = tools_acquire(lock, "held");
    zookeeper_pause(&server);
    tools_check_status(lock_try(lock, "a", &grant), LOCK_UNKNOWN);
    tools_check_status(lock_extend(lock, &held), LOCK_UNKNOWN);
    tools_check_status(lock_release(lock, &held), LOCK_UNKNOWN);
    lock_close(lock);
    zookeeper_resume(&server);
    wait_for_nodes(0);
    tools_wait_for_nodes(&server, "/lock/held", 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a hand-over whose reply is lost", lost_hand_over);
    harness_run("a session that ends while it holds", over_while_held);
    harness_run("a session not heard of for a while", silence);
    harness_run("a session that ends while it waits", over_while_waiting);
    harness_run("a server that is killed, and comes back", restarted);
    harness_run("a session that is lost", session_lost);
    harness_run("renewed in a session that is bounded", renewed_while_bounded);
    harness_run("a server that has lost all", wiped);
    harness_run("leaders that are killed", failover);
    harness_run("a server that hangs", hung);
    return harness_finish();
}
