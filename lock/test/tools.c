#include "lock/test/tools.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void close_lock(void *lock) {
    lock_close(lock);
}

struct lock *tools_open(const struct lock_config *config, const char *url) {
    char error[LOCK_ERROR_SIZE];
    struct lock *lock = NULL;
    if (lock_open(url, config, &lock, error, sizeof error) != LOCK_OK)
        FAIL("%s: %s", url, error);
    harness_defer(close_lock, lock);
    return lock;
}

void tools_refuse(const char *url, const struct lock_config *config, const char *says) {
    char error[LOCK_ERROR_SIZE] = "";
    struct lock *lock = NULL;
    if (lock_open(url, config, &lock, error, sizeof error) != LOCK_CONFIG || lock)
        FAIL("%s is not refused", url);
    CHECK_HAS(error, says);
    CHECK(!strstr(error, "s3cret"));
}

const char *tools_redis_url(int port, const char *options) {
    return harness_format("redis://127.0.0.1:%d%s%s", port, options[0] ? "?" : "", options);
}

int64_t tools_in_ms(const struct lock *lock, int64_t ms) {
    return lock_now_ns(lock) + ms * 1000000;
}

void tools_check_status(enum lock_status got, enum lock_status want) {
    CHECK_STR(lock_status_text(got), lock_status_text(want));
}

struct lock_grant tools_acquire(struct lock *lock, const char *key) {
    struct lock_grant grant;
    tools_check_status(lock_acquire(lock, key, tools_in_ms(lock, PATIENCE_MS), NULL, &grant), LOCK_OK);
    CHECK_STR(grant.key, key);
    CHECK(lock_remaining_ns(lock, &grant) > 0);
    return grant;
}

/* A store that shares its machine with much else may now and then take longer than a call waits: a node of
 * Redlock that has a twentieth of a short time to live. */
static bool was_slow(struct lock *lock, enum lock_status status) {
    static int count;
    char error[LOCK_ERROR_SIZE];
    lock_last_error(lock, error, sizeof error);
    bool slow = status == LOCK_UNKNOWN || (status == LOCK_UNAVAILABLE && strstr(error, "no answer within"));
    CHECK(!slow || ++count <= 3);
    return slow;
}

void tools_release(struct lock *lock, const struct lock_grant *grant) {
    enum lock_status status = lock_release(lock, grant);
    if (was_slow(lock, status)) {
        struct lock_grant next = tools_acquire(lock, grant->key);
        tools_release(lock, &next);
        return;
    }
    tools_check_status(status, LOCK_OK);
}

struct lock_grant tools_use(struct lock *lock, const char *key) {
    struct lock_grant grant = tools_acquire(lock, key);
    tools_release(lock, &grant);
    return grant;
}

struct use {
    struct lock *lock;
    const char *key;
};

static bool is_used(void *arg) {
    struct use *use = arg;
    struct lock_grant grant;
    return lock_acquire_for(use->lock, use->key, PATIENCE_MS, &grant) == LOCK_OK &&
           lock_release(use->lock, &grant) == LOCK_OK;
}

void tools_use_at_last(struct lock *lock, const char *key) {
    CHECK(harness_wait(is_used, &(struct use){lock, key}, PATIENCE_MS));
}

void tools_check_free(struct lock *lock, const char *key) {
    struct lock_grant grant;
    enum lock_status status;
    do
        status = lock_try(lock, key, &grant);
    while (was_slow(lock, status));
    tools_check_status(status, LOCK_OK);
    tools_release(lock, &grant);
}

static void *try_it(void *arg) {
    struct tools_waiter *waiter = arg;
    waiter->status = lock_try(waiter->lock, waiter->key, &waiter->grant);
    return NULL;
}

void tools_check_held(struct lock *lock, const char *key) {
    struct tools_waiter waiter = {.lock = lock, .key = key};
    CHECK_INT(pthread_create(&waiter.thread, NULL, try_it, &waiter), 0);
    tools_check_status(tools_join(&waiter), LOCK_BUSY);
}

struct lock_grant tools_acquire_elsewhere(struct lock *lock, const char *key) {
    struct tools_waiter *waiter = tools_wait(lock, key, PATIENCE_MS, NULL);
    tools_check_status(tools_join(waiter), LOCK_OK);
    return waiter->grant;
}

static void *wait_for_it(void *arg) {
    struct tools_waiter *waiter = arg;
    waiter->status =
        lock_acquire(waiter->lock, waiter->key, waiter->deadline_ns, waiter->cancel, &waiter->grant);
    waiter->done = true;
    return NULL;
}

static void free_cancel(void *cancel) {
    lock_cancel_free(cancel);
}

struct lock_cancel *tools_new_cancel(void) {
    struct lock_cancel *cancel = lock_cancel_new();
    harness_defer(free_cancel, cancel);
    return cancel;
}

static void leave(void *arg) {
    struct tools_waiter *waiter = arg;
    if (waiter->joined)
        return;
    lock_cancel(waiter->cancel);
    tools_join(waiter);
}

struct tools_waiter *tools_wait(struct lock *lock, const char *key, int64_t ms, struct lock_cancel *cancel) {
    return tools_wait_by(wait_for_it, lock, key, ms, cancel);
}

struct tools_waiter *tools_wait_by(void *(*thread)(void *waiter), struct lock *lock, const char *key,
                                   int64_t ms, struct lock_cancel *cancel) {
    struct tools_waiter *waiter = harness_alloc(sizeof *waiter);
    *waiter = (struct tools_waiter){.lock = lock,
                                    .key = key,
                                    .deadline_ns = tools_in_ms(lock, ms),
                                    .cancel = cancel ? cancel : tools_new_cancel()};
    CHECK_INT(pthread_create(&waiter->thread, NULL, thread, waiter), 0);
    harness_defer(leave, waiter);
    return waiter;
}

enum lock_status tools_join(struct tools_waiter *waiter) {
    pthread_join(waiter->thread, NULL);
    waiter->joined = true;
    return waiter->status;
}

uint64_t tools_serve(struct tools_waiter *waiter) {
    tools_check_status(tools_join(waiter), LOCK_OK);
    tools_release(waiter->lock, &waiter->grant);
    return waiter->grant.fence;
}

/* ---- what a lock counts, and tells ---- */

struct lock_metrics tools_metrics(const struct lock *lock) {
    struct lock_metrics metrics;
    lock_read_metrics(lock, &metrics);
    return metrics;
}

struct crowd {
    const struct lock *lock;
    uint64_t count;
};

static bool that_many_wait(void *arg) {
    const struct crowd *crowd = arg;
    return tools_metrics(crowd->lock).waiting == crowd->count;
}

void tools_wait_for_waiters(const struct lock *lock, uint64_t count) {
    CHECK(harness_wait(that_many_wait, &(struct crowd){lock, count}, PATIENCE_MS));
}

struct tools_told told;

void tools_on_lost(void *ctx, const struct lock_grant *grant) {
    (void)ctx;
    told.grant = *grant;
    told.at_ns = clock_mono_ns(&clock_system);
    told.times++;
}

struct lock *tools_open_told(const char *url) {
    static const struct lock_config config = {.on_lost = tools_on_lost};
    told.times = 0;
    return tools_open(&config, url);
}

static bool is_told(void *times) {
    return told.times >= *(int *)times;
}

void tools_wait_told(int times) {
    CHECK(harness_wait(is_told, &times, PATIENCE_MS));
}

/* ---- threads ---- */

static bool blocks_signals(const char *task) {
    char line[256];
    unsigned long long blocked = 0;
    FILE *status = fopen(harness_format("/proc/self/task/%s/status", task), "re");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "SigBlk:", 7) == 0)
            blocked = strtoull(line + 7, NULL, 16);
    }
    if (status)
        fclose(status);
    /* Less SIGKILL, SIGSTOP, and the two that glibc keeps to itself. */
    return (blocked | 0x1ULL << 8 | 0x1ULL << 18 | 0x3ULL << 31) == ~0ULL;
}

void tools_count_new_threads(struct tools_threads *known, int *taking, int *blocking) {
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    *taking = *blocking = 0;
    for (const struct dirent *task; (task = readdir(tasks));) {
        int id = (int)strtol(task->d_name, NULL, 10), i = 0;
        while (i < known->count && known->ids[i] != id)
            i++;
        if (id == 0 || i < known->count)
            continue;
        CHECK(known->count < (int)(sizeof known->ids / sizeof *known->ids));
        known->ids[known->count++] = id;
        ++*(blocks_signals(task->d_name) ? blocking : taking);
    }
    closedir(tasks);
}

/* ---- what is in a store ---- */

static const struct redis_server *line_redis;
static const char *line_key;

static bool has_that_many(void *count) {
    return redis_integer(line_redis, "LLEN", harness_format("lock:{%s}:line", line_key), NULL) ==
           *(int *)count;
}

void tools_wait_for_queue(const struct redis_server *redis, const char *key, int count) {
    line_redis = redis;
    line_key = key;
    CHECK(harness_wait(has_that_many, &count, PATIENCE_MS));
}

int tools_count_nodes(const struct zookeeper_server *server, const char *path) {
    const char *text = zookeeper_list(server, path);
    int count = *text && strcmp(text, "(none)") != 0;
    for (; *text; text++)
        count += *text == ' ';
    return count;
}

static const struct zookeeper_server *nodes_server;
static const char *nodes_path;

static bool has_so_many_nodes(void *count) {
    return tools_count_nodes(nodes_server, nodes_path) == *(int *)count;
}

void tools_wait_for_nodes(const struct zookeeper_server *server, const char *path, int count) {
    nodes_server = server;
    nodes_path = path;
    CHECK(harness_wait(has_so_many_nodes, &count, PATIENCE_MS));
}

void tools_check_no_trace(const struct redis_server *redis, const char *key) {
    CHECK_STR(redis_command(redis, "EXISTS", harness_format("lock:{%s}", key), NULL), "0");
    CHECK_STR(redis_command(redis, "EXISTS", harness_format("lock:{%s}:line", key), NULL), "0");
}
