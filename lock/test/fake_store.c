#include "lock/test/fake_store.h"

#include <string.h>

struct fake_store fake;

int64_t fake_now_ns(void *ctx) {
    (void)ctx;
    return harness_now_ms() * MS;
}

void fake_on_lost(void *ctx, const struct lock_grant *grant) {
    (void)ctx, (void)grant;
    fake.lost++;
}

static bool is_withdrawn(void *times) {
    return fake.withdrawn >= *(int *)times;
}

static bool is_lost(void *times) {
    return fake.lost >= *(int *)times;
}

void fake_wait_withdrawn(int times) {
    CHECK(harness_wait(is_withdrawn, &times, PATIENCE_MS));
}

void fake_wait_lost(int times) {
    CHECK(harness_wait(is_lost, &times, PATIENCE_MS));
}

static void end(void *arg) {
    (void)arg;
    if (fake.lock.maintenance)
        lock_maintenance_stop(fake.lock.maintenance);
    lock_maintenance_free(fake.lock.maintenance);
    lock_local_queue_free(fake.lock.queue);
}

void fake_begin(const struct lock_backend *backend, int ttl_ms) {
    const struct lock_config config = {.now_ns = fake_now_ns, .on_lost = fake_on_lost};
    struct lock *lock = &fake.lock;
    fake.failures = fake.withdrawn = fake.lost = 0;
    fake.backend = *backend;
    *lock = (struct lock){.backend = &fake.backend, .store = lock, .config = config, .ttl_ns = ttl_ms * MS};
    lock_env_init(&lock->env, &config);
    lock->renews = lock->renews_silent = backend->renews_active;
    lock->queue = lock_local_queue_new(&lock->env, lock->ttl_ns, lock->renews, backend->outlives_deadline);
    lock->maintenance = lock_maintenance_start(lock);
    CHECK(lock->maintenance != NULL);
    harness_defer(end, NULL);
}

enum lock_status fake_grant(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempt->grant.deadline_ns = fake_now_ns(NULL) + PATIENCE_MS * MS;
    return LOCK_OK;
}

enum lock_status fake_grant_for_long(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempt->grant.deadline_ns = fake_now_ns(NULL) + 3LL * PATIENCE_MS * MS;
    return LOCK_OK;
}

enum lock_status fake_withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    (void)until_ns, (void)store, (void)key;
    pthread_mutex_lock(&mutex);
    memcpy(fake.withdrawn_owner, owner, strlen(owner) + 1);
    bool fails = fake.failures > 0;
    if (fails)
        fake.failures--;
    else
        fake.withdrawn++;
    pthread_mutex_unlock(&mutex);
    return fails ? LOCK_UNAVAILABLE : LOCK_OK;
}

void fake_check_gone(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    check->status = LOCK_NOT_OWNER;
}
