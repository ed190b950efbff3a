/* zookeeper: what is in the store, and what is left there. Two handles are two processes to the store. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/test/tools.h"
#include "lock/zookeeper/zookeeper_session.h"

static struct zookeeper_server server;

static _Atomic bool is_out_of_memory;

/* Before that of the C library: there is no memory for calls to the store. A sanitizer's own start calls it,
 * too, before anything can be recorded. */
__attribute__((no_sanitize("thread"))) void *
calloc(size_t count, size_t size) { /* NOLINT(readability-inconsistent-declaration-parameter-name) */
    static void *(*_Atomic real)(size_t count, size_t size);
    if (!real)
        real = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    return is_out_of_memory && size == sizeof(struct zookeeper_call) ? NULL : real(count, size);
}

static struct lock *open_lock(const char *options) {
    return tools_open(NULL, harness_format("zookeeper://127.0.0.1:%d%s", server.port, options));
}

/* ---- what is there ---- */

static bool watches(void *arg) {
    const char *text = zookeeper_ask(&server, "wchs");
    return strstr(text, arg) != NULL;
}

/* "2 connections watching 2 paths" */
static void wait_for_watches(const char *text) {
    if (!harness_wait(watches, (void *)text, PATIENCE_MS))
        FAIL("not %s, but %s", text, zookeeper_ask(&server, "wchs"));
}

/* ---- names ---- */

static void names(void) {
    struct lock *lock = open_lock("");
    struct lock_grant grant = tools_acquire(lock, "plain");
    CHECK_STR(zookeeper_list(&server, "/lock/plain"), harness_format("%s-0000000000", grant.owner));
    tools_release(lock, &grant);
    CHECK_INT(tools_count_nodes(&server, "/lock/plain"), 0);
}

static void chroot(void) {
    struct lock *lock = open_lock("/some/where"), *same = open_lock("/some/where"), *none = open_lock("/");
    struct lock_grant grant = tools_acquire(lock, "c");
    CHECK_STR(zookeeper_list(&server, "/some/where/lock/c"), harness_format("%s-0000000000", grant.owner));
    tools_check_held(same, "c");
    tools_check_free(none, "c");
    tools_release(lock, &grant);
}

/* The longest path of all: of the longest chroot, a key of which each character takes three, and nodes in it.
 */
static void longest_names(void) {
    const char *key = harness_repeat('/', LOCK_KEY_MAX), *chroot = harness_repeat('r', 257);
    char *path = harness_format("/%s/lock/", chroot);
    for (int i = 0; i < LOCK_KEY_MAX; i++)
        path = harness_format("%s%%2F", path);
    struct lock *holder = open_lock(harness_format("/%s", chroot));
    struct lock *other = open_lock(harness_format("/%s", chroot));
    struct lock_grant grant = tools_acquire(holder, key);
    struct tools_waiter *waiter = tools_wait(other, key, PATIENCE_MS, NULL);
    tools_wait_for_nodes(&server, path, 2);
    tools_check_status(lock_extend(holder, &grant), LOCK_OK);
    tools_release(holder, &grant);
    tools_check_status(tools_join(waiter), LOCK_OK);
    tools_release(other, &waiter->grant);
    tools_refuse(harness_format("zookeeper:%s", harness_format("//h/%sr", chroot)), NULL,
                 "the path is too long");
}

/* ---- memory ---- */

/* LOCK_NOMEM; what is left in the store is withdrawn once there is memory. */
static void out_of_memory(void) {
    struct lock *lock = open_lock("");
    struct lock_grant grant = tools_acquire(lock, "m"), other;
    is_out_of_memory = true;
    tools_check_status(lock_try(lock, "n", &other), LOCK_NOMEM);
    tools_check_status(lock_acquire(lock, "n", tools_in_ms(lock, 100), NULL, &other), LOCK_NOMEM);
    tools_check_status(lock_extend(lock, &grant), LOCK_NOMEM);
    tools_check_status(lock_release(lock, &grant), LOCK_NOMEM);
    is_out_of_memory = false;
    tools_wait_for_nodes(&server, "/lock/m", 0);
    tools_check_free(lock, "n");
}

static const char *servers_of(const char *address) {
    char *servers = harness_alloc(ZOOKEEPER_SERVERS_SIZE), root[ZOOKEEPER_ROOT_SIZE];
    char what[128] = "";
    if (!zookeeper_address_read(address, servers, root, what, sizeof what))
        FAIL("%s: %s", address, what);
    return servers;
}

static void addresses(void) {
    const char *const bad[][2] = {
        {"", "server 1 is empty; want zookeeper://HOST[:PORT],HOST[:PORT]"},
        {"//", "server 1 is empty"},
        {"//,", "server 1 is empty"},
        {"//h,", "server 2 is empty"},
        {"//h,,g", "server 2 is empty"},
        {"//:2181", "server 1 is empty"},
        {"//h:", "server 1 has a port"},
        {"//h:0", "server 1 has a port"},
        {"//h:65536", "server 1 has a port"},
        {"//h:4294967297", "server 1 has a port"},
        {"//g,h:21x", "server 2 has a port"},
        {"//me:s3cret@h", "server 1 has a user"},
        {"//h g", "server 1 has a character that no host has"},
        {"//h%20g", "server 1 has a character"},
        {"//g,h#frag", "server 2 has a character"},
        {"//h\n", "a control character"},
        {"//[::1", "server 1 has no ]"},
        {"//[::1]2181", "server 1 has a port"},
        {"//h/a/", "the path has a level that is empty"},
        {"//h//a", "the path has a level"},
        {"//h/a/../b", "the path has a level"},
        {"//h/./a", "the path has a level"},
        {"//h/a,g/a", "it stands once, behind the last server"},
        {"//h/a#frag", "a # or an @"},
        {"//h/a b", "the path has a space"},
        {"//h/1/2/3/4/5/6/7/8/9", "the path is too deep"},
        {harness_format("//h/%s", harness_repeat('a', 300)), "the path is too long"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tools_refuse(harness_format("zookeeper:%s", bad[i][0]), NULL, bad[i][1]);
    tools_refuse(harness_format("zookeeper:%s", "//h?ca=/tmp/ca.pem"), NULL, "does not speak TLS");
    tools_refuse(harness_format("zookeeper:%s", "//h?key=s3cret"), NULL, "does not speak TLS");
    CHECK_STR(servers_of("h"), "h:2181");
    CHECK_STR(servers_of("h:1,g,127.0.0.1:00020/a"), "h:1,g:2181,127.0.0.1:20");
    CHECK_STR(servers_of("[::1],[fe80::1%lo]:7"), "::1:2181,fe80::1%lo:7");
    /* No server need be there. */
    struct lock *lock = tools_open(NULL, "zookeeper://127.0.0.1:1,[::1]:1/a/b?ttl=20");
    CHECK(lock_caps(lock) & LOCK_CAN_FENCE_FAILOVER);
}

/* ---- what is left ---- */

static void containers(void) {
    struct lock *lock = open_lock("/tidy"), *other = open_lock("/tidy");
    for (int i = 0; i < 3; i++) {
        struct lock_grant grant = tools_acquire(lock, "a");
        tools_check_held(other, "a");
        CHECK_STR(zookeeper_list(&server, "/tidy/lock"), "a");
        tools_release(lock, &grant);
        tools_wait_for_nodes(&server, "/tidy/lock", 0); /* and it is made again */
    }
}

static void time_out(struct lock *lock, const char *key, int times) {
    struct lock_grant grant;
    for (int i = 0; i < times; i++)
        tools_check_status(lock_acquire(lock, key, tools_in_ms(lock, 1), NULL, &grant), LOCK_TIMEOUT);
}

/* A caller that polls a held lock leaves a watch with its first timeout, which serves all later ones. */
static void watches_are_shared(void) {
    struct lock *lock = open_lock(""), *other = open_lock("");
    struct lock_grant held = tools_acquire(lock, "w");
    time_out(other, "w", 20);
    size_t before = mallinfo2().uordblks;
    time_out(other, "w", 100);
    CHECK(mallinfo2().uordblks < before + 10000); /* nothing, where a sanitizer has its own malloc */
    struct tools_waiter *waiter = tools_wait(other, "w", PATIENCE_MS, NULL);
    tools_wait_for_nodes(&server, "/lock/w", 2);
    CHECK_HAS(zookeeper_ask(&server, "wchs"), "1 connections watching 1 paths");
    tools_release(lock, &held);
    tools_check_status(tools_join(waiter), LOCK_OK);
    tools_release(other, &waiter->grant);
}

static long count_sessions(void) {
    const char *text = zookeeper_ask(&server, "mntr"), *at = strstr(text, "zk_global_sessions\t");
    if (!at)
        FAIL("how many sessions? %s", text);
    return strtol(strchr(at, '\t'), NULL, 10);
}

/* A session that holds nothing ends with its lock, at once; one that does runs out, as a grant does. */
static void closed(void) {
    char error[LOCK_ERROR_SIZE];
    const char *url = harness_format("zookeeper://127.0.0.1:%d?ttl=1000", server.port);
    struct lock *other = open_lock("?ttl=60000"), *lock;
    tools_check_free(other, "closed");
    for (int holds = 0; holds < 2; holds++) {
        long sessions = count_sessions();
        tools_check_status(lock_open(url, NULL, &lock, error, sizeof error), LOCK_OK);
        struct lock_grant grant = tools_acquire(lock, "closed");
        if (!holds)
            tools_release(lock, &grant);
        lock_close(lock);
        CHECK_INT(tools_count_nodes(&server, "/lock/closed"), holds);
        CHECK_INT(count_sessions(), sessions + holds);
        struct lock_grant next = tools_acquire(other, "closed");
        CHECK(!holds || lock_now_ns(other) > grant.deadline_ns);
        CHECK(next.fence > grant.fence);
        tools_release(other, &next);
    }
}

/* ---- waiting ---- */

enum { CROWD = 6 };

/* Each watches the one before it: a release wakes one. */
static void no_herd(void) {
    struct lock *locks[CROWD];
    struct tools_waiter *waiters[CROWD];
    for (int i = 0; i < CROWD; i++)
        locks[i] = open_lock("");
    struct lock_grant held = tools_acquire(locks[0], "herd");
    uint64_t fence = held.fence;
    for (int i = 1; i < CROWD; i++) {
        waiters[i] = tools_wait(locks[i], "herd", PATIENCE_MS, NULL);
        tools_wait_for_nodes(&server, "/lock/herd", i + 1);
    }
    wait_for_watches(harness_format("%d connections watching %d paths\nTotal watches:%d", CROWD - 1,
                                    CROWD - 1, CROWD - 1));
    tools_release(locks[0], &held);
    for (int i = 1; i < CROWD; i++) {
        tools_check_status(tools_join(waiters[i]), LOCK_OK);
        for (int k = i + 1; k < CROWD; k++)
            CHECK(!waiters[k]->done);
        CHECK(waiters[i]->grant.fence > fence);
        fence = waiters[i]->grant.fence;
        wait_for_watches(harness_format("%d paths\nTotal watches:%d", CROWD - 1 - i, CROWD - 1 - i));
        tools_release(locks[i], &waiters[i]->grant);
    }
}

/* ---- threads ---- */

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    zookeeper_start(&server);
    harness_run("names of nodes", names);
    harness_run("below a path", chroot);
    harness_run("addresses", addresses);
    harness_run("the longest names", longest_names);
    harness_run("out of memory", out_of_memory);
    harness_run("containers go", containers);
    harness_run("one watch for all that gave up", watches_are_shared);
    harness_run("closed", closed);
    harness_run("each watches the one before", no_herd);
    return harness_finish();
}
