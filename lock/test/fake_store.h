/* A lock whose store is made up: its backend grants everything, or nothing, and counts what it is asked. */
#ifndef LOCK_TEST_FAKE_STORE_H
#define LOCK_TEST_FAKE_STORE_H

#include "lock/core/handle.h"
#include "lock/test/tools.h"

enum { FAKE_TTL_MS = 60 };

static const int64_t MS = 1000000;

extern struct fake_store {
    struct lock lock;
    struct lock_backend backend;
    _Atomic int failures;  /* so many calls of fake_withdraw() will fail, */
    _Atomic int withdrawn; /* and so many did not */
    _Atomic int lost;      /* calls of on_lost() */
    char withdrawn_owner[LOCK_OWNER_SIZE];
} fake;

/* Makes fake.lock, until the test ends, with a copy of the backend; `renews_active` counts as renew=on. */
void fake_begin(const struct lock_backend *backend, int ttl_ms);
/* With these fields of the backend, and fake_withdraw(), unless they have another. */
#define FAKE_BEGIN(ttl_ms, ...)                                                                              \
    do {                                                                                                     \
        struct lock_backend backend = {__VA_ARGS__};                                                         \
        if (!backend.withdraw)                                                                               \
            backend.withdraw = fake_withdraw;                                                                \
        fake_begin(&backend, ttl_ms);                                                                        \
    } while (0)

int64_t fake_now_ns(void *ctx);
void fake_on_lost(void *ctx, const struct lock_grant *grant);

/* Waits until at least so many are withdrawn, or lost. */
void fake_wait_withdrawn(int times);
void fake_wait_lost(int times);

/* Functions for a backend. */
enum lock_status fake_grant(void *store, struct lock_attempt *attempt);
enum lock_status fake_grant_for_long(void *store, struct lock_attempt *attempt);
enum lock_status fake_withdraw(void *store, const char *key, const char *owner, int64_t until_ns);
void fake_check_gone(void *store, struct lock_check *check, size_t count);

#endif
