/* zookeeper: what is in the store, and what is left there. Two handles are two processes to the store. */
#include <dlfcn.h>
#include <malloc.h>
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

/* Below a path. The longest path of all: of the longest chroot, a key of which each character takes three,
 * and a node in it. */
static void names(void) {
    const char *chroot = harness_format("/some/%s", harness_repeat('r', 252)), *path = "";
    struct lock *lock = open_lock(chroot), *same = open_lock(chroot), *none = open_lock("/");
    const char *keys[] = {"c", harness_repeat('/', LOCK_KEY_MAX)};
    for (int i = 0; i < LOCK_KEY_MAX; i++)
        path = harness_format("%s%%2F", path);
    const char *const nodes[] = {"c", path};
    for (int i = 0; i < 2; i++) {
        struct lock_grant grant = tools_acquire(lock, keys[i]);
        CHECK_HAS(zookeeper_list(&server, harness_format("%s/lock/%s", chroot, nodes[i])),
                  harness_format("%s-000000000", grant.owner)); /* and the last digit of the first tries */
        tools_check_held(same, keys[i]);
        tools_check_free(none, keys[i]);
        tools_check_status(lock_extend(lock, &grant), LOCK_OK);
        tools_release(lock, &grant);
    }
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
    tools_serve(waiter);
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

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    zookeeper_start(&server);
    harness_run("names of nodes", names);
    harness_run("out of memory", out_of_memory);
    harness_run("containers go", containers);
    harness_run("one watch for all that gave up", watches_are_shared);
    harness_run("closed", closed);
    harness_run("each watches the one before", no_herd);
    return harness_finish();
}
