/* The background thread: it releases grants that their holders forgot, verifies, and does pending releases.
 */
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "lock/test/fake_store.h"

static void begin(bool outlives_deadline, int that_fail) {
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = outlives_deadline);
    fake.failures = that_fail;
}

/* No store wakes the waiter, so it may go. */
static enum lock_status enter(const char *key, const char *owner, int64_t deadline_ns,
                              struct lock_store_grant *granted) {
    struct waiter waiter;
    waiter_init(&waiter);
    enum lock_status status =
        lock_local_queue_enter(fake.lock.queue, key, owner, deadline_ns, NULL, &waiter, granted);
    waiter_destroy(&waiter);
    return status;
}

/* The store knows another owner: the grant was passed on to this holder. */
static void hold(const char *key, int ms) {
    struct lock_grant grant = {.deadline_ns = fake_now_ns(NULL) + ms * MS};
    struct lock_store_grant granted;
    strncpy(grant.key, key, LOCK_KEY_MAX);
    memcpy(grant.owner, harness_repeat('a', LOCK_OWNER_SIZE - 1), LOCK_OWNER_SIZE);
    CHECK_INT(enter(key, grant.owner, 0, &granted), LOCK_OK);
    granted = (struct lock_store_grant){.deadline_ns = grant.deadline_ns};
    memcpy(granted.owner, harness_repeat('b', LOCK_OWNER_SIZE - 1), LOCK_OWNER_SIZE);
    CHECK((granted.pending = lock_pending_release_new(key, granted.owner)) != NULL);
    lock_local_queue_set_grant(fake.lock.queue, &grant, &granted);
    lock_maintenance_wake(fake.lock.maintenance, grant.deadline_ns);
}

static void taken_back(void) {
    begin(true, 0);
    hold("key", FAKE_TTL_MS);
    fake_wait_withdrawn(1);
    CHECK_STR(fake.withdrawn_owner, harness_repeat('b', LOCK_OWNER_SIZE - 1));
    /* Once; and an expired grant is not reported as lost. */
    hold("another", FAKE_TTL_MS);
    fake_wait_withdrawn(2);
    harness_pause_ms(FAKE_TTL_MS);
    CHECK_INT(fake.withdrawn, 2);
    CHECK_INT(fake.lost, 0);
}

/* A store in which keys expire is not asked to release each expired grant. */
static void left_alone(void) {
    begin(false, 0);
    hold("key", FAKE_TTL_MS);
    harness_pause_ms(2 * FAKE_TTL_MS);
    CHECK_INT(fake.withdrawn, 0);
}

/* A store that fails is asked at once, then after 0.1, 0.2, 0.4, 0.8 s. */
static void asked_less_often(void) {
    begin(true, 4);
    int64_t began_ms = harness_now_ms();
    hold("key", 0);
    fake_wait_withdrawn(1);
    CHECK(harness_now_ms() - began_ms >= 200 + 400 + 800);
}

/* A waiter takes over the forgotten grant, and is responsible for its release. */
static void taken_over(void) {
    begin(true, 0);
    hold("key", 500);
    struct lock_store_grant granted;
    const char *owner = harness_repeat('c', LOCK_OWNER_SIZE - 1);
    CHECK_INT(enter("key", owner, fake_now_ns(NULL) + PATIENCE_MS * MS, &granted), LOCK_OK);
    CHECK_STR(granted.owner, harness_repeat('b', LOCK_OWNER_SIZE - 1));
    harness_pause_ms(FAKE_TTL_MS);
    CHECK_INT(fake.withdrawn, 0);
    free(granted.pending);
    lock_local_queue_end(fake.lock.queue, "key", owner);
}

/* ---- what is granted, and what is to be released ---- */

static enum lock_status withdraw_slowly(void *store, const char *key, const char *owner, int64_t until_ns) {
    harness_pause_ms(5);
    return fake_withdraw(store, key, owner, until_ns);
}

/* However many releases are pending, a holder is told of a loss before its deadline. */
static void verified_first(void) {
    enum { PENDING = 400, LONG_MS = 600, SLOW_MS = 5 };
    FAKE_BEGIN(LONG_MS, .outlives_deadline = true, .withdraw = withdraw_slowly, .check = fake_check_gone);
    for (int i = 0; i < PENDING; i++)
        lock_maintenance_release(fake.lock.maintenance,
                                 lock_pending_release_new(harness_format("left-%d", i), "owner"), NULL);
    hold("key", LONG_MS);
    fake_wait_lost(1);
    CHECK(fake.withdrawn < PENDING); /* not even half of it */
}

static _Atomic int verifications;

static void verify_slowly(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    verifications++;
    harness_pause_ms(20);
    check->status = LOCK_UNAVAILABLE; /* so it is verified again, and soon */
}

/* Pending releases are done although a grant is due at any time. */
static void released_all_the_same(void) {
    enum { KEYS = 8, LONG_MS = 600, PENDING = 3 };
    FAKE_BEGIN(LONG_MS, .outlives_deadline = true, .check = verify_slowly);
    for (int i = 0; i < KEYS; i++)
        hold(harness_format("key-%d", i), 3 * PATIENCE_MS);
    for (verifications = 0; verifications < 2 * KEYS;)
        harness_pause_ms(1);
    for (int i = 0; i < PENDING; i++)
        lock_maintenance_release(fake.lock.maintenance,
                                 lock_pending_release_new(harness_format("left-%d", i), "owner"), NULL);
    fake_wait_withdrawn(PENDING);
}

static _Atomic int renewals, refusals;

enum { RENEWED_MS = 1500 };

static enum lock_status grant_for_a_while(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempt->grant.deadline_ns = fake_now_ns(NULL) + RENEWED_MS * MS;
    return LOCK_OK;
}

static void renew_at_last(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK(count == 1 && check->extends);
    if (refusals > 0) {
        refusals--;
        check->status = LOCK_UNAVAILABLE;
        return;
    }
    renewals++;
    check->grant.deadline_ns = fake_now_ns(NULL) + RENEWED_MS * MS;
    check->status = LOCK_OK;
}

static bool is_renewed_twice(void *arg) {
    (void)arg;
    return renewals >= 2 || fake.lost > 0;
}

/* A renewal that fails, since the store is away for a moment, is repeated before the holder is told. */
static void renewal_is_repeated(void) {
    FAKE_BEGIN(RENEWED_MS, .caps = LOCK_CAN_EXTEND, .renews_active = true, .attempt = grant_for_a_while,
               .check = renew_at_last);
    renewals = 0;
    refusals = 2;
    struct lock_grant grant = tools_acquire(&fake.lock, "key");
    CHECK(harness_wait(is_renewed_twice, NULL, PATIENCE_MS));
    CHECK_INT(fake.lost, 0);
    CHECK_INT(refusals, 0);
    tools_check_status(lock_progress(&fake.lock, &grant), LOCK_OK);
}

/* Stopping does not wait until everything is verified. */
static void stopped_at_once(void) {
    enum { KEYS = 60 };
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .check = verify_slowly);
    verifications = 0;
    for (int i = 0; i < KEYS; i++)
        hold(harness_format("key-%d", i), PATIENCE_MS);
    while (verifications == 0)
        harness_pause_ms(1);
    int before = verifications;
    lock_maintenance_stop(fake.lock.maintenance);
    CHECK(verifications - before < KEYS / 2);
    lock_maintenance_free(fake.lock.maintenance);
    fake.lock.maintenance = NULL;
}

static int calls;

static void verify_all_gone(void *store, struct lock_check checks[], size_t count) {
    (void)store;
    calls++;
    for (size_t i = 0; i < count; i++)
        checks[i].status = LOCK_NOT_OWNER;
}

/* If the backend can verify many grants with one call, it is used. */
static void verified_together(void) {
    enum { KEYS = 500, LONG_MS = 1500 };
    FAKE_BEGIN(LONG_MS, .checks_together = true, .check = verify_all_gone);
    calls = 0;
    for (int i = 0; i < KEYS; i++)
        hold(harness_format("key-%d", i), LONG_MS);
    fake_wait_lost(KEYS);
    CHECK(calls < KEYS / 4);
}

/* ---- a grant that was passed on, and is lost ---- */

static sem_t is_asked, may_answer;
static char told_owner[LOCK_OWNER_SIZE];

static void verify_late(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    sem_post(&is_asked);
    sem_wait(&may_answer);
    check->status = LOCK_NOT_OWNER;
}

static void let_answer(void *arg) {
    (void)arg;
    for (int i = 0; i < 10; i++)
        sem_post(&may_answer);
}

static void on_lost_by(void *ctx, const struct lock_grant *grant) {
    memcpy(told_owner, grant->owner, sizeof told_owner);
    fake_on_lost(ctx, grant);
}

static bool is_waiting(void *arg) {
    (void)arg;
    return lock_local_queue_count_waiting(fake.lock.queue) > 0;
}

/* The store is asked for a grant, and answers that it is gone, when another thread has taken it over: that is
 * told, and not a third of the time to live later. */
static void lost_by_its_heir(void) {
    sem_init(&is_asked, 0, 0);
    sem_init(&may_answer, 0, 0);
    FAKE_BEGIN(3 * PATIENCE_MS, .fences_per_grant = 16, .attempt_releases = true,
               .attempt = fake_grant_for_long, .check = verify_late);
    harness_defer(let_answer, NULL);
    fake.lock.config.on_lost = on_lost_by;
    struct lock_grant first = tools_acquire(&fake.lock, "key");
    struct tools_waiter *heir = tools_wait(&fake.lock, "key", PATIENCE_MS, NULL);
    CHECK(harness_wait(is_waiting, NULL, PATIENCE_MS));
    lock_maintenance_doubt(fake.lock.maintenance);
    sem_wait(&is_asked);
    tools_check_status(lock_release(&fake.lock, &first), LOCK_OK);
    tools_check_status(tools_join(heir), LOCK_OK);
    CHECK_INT(fake.lock.metrics.passed, 1);
    sem_post(&may_answer);
    fake_wait_lost(1);
    CHECK_STR(told_owner, heir->grant.owner);
    tools_check_status(lock_progress(&fake.lock, &heir->grant), LOCK_LOST);
}

/* ---- a grant that is passed on, and the store has moved ---- */

static uint64_t newest_fence; /* that the store has given */
static char released_owner[LOCK_OWNER_SIZE];

static enum lock_status grant_with_fence(void *store, struct lock_attempt *attempt) {
    memcpy(released_owner, attempt->releasing, sizeof released_owner);
    attempt->releasing[0] = '\0';
    attempt->grant.fence = ++newest_fence;
    return fake_grant_for_long(store, attempt);
}

static void verify_held(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    check->status = LOCK_OK;
}

static struct lock_grant pass_on(const struct lock_grant *grant) {
    struct tools_waiter *heir = tools_wait(&fake.lock, "key", PATIENCE_MS, NULL);
    CHECK(harness_wait(is_waiting, NULL, PATIENCE_MS));
    tools_check_status(lock_release(&fake.lock, grant), LOCK_OK);
    tools_check_status(tools_join(heir), LOCK_OK);
    return heir->grant;
}

/* The server that is the store now may have granted the key to others, with higher fences. So a grant is not
 * passed on before this server was asked about it; the next thread asks for its own. */
static void passed_on_after_a_move(void) {
    enum { GIVEN = 1000 };
    FAKE_BEGIN(3 * PATIENCE_MS, .caps = LOCK_CAN_EXTEND, .fences_per_grant = 16, .attempt_releases = true,
               .attempt = grant_with_fence, .check = verify_held);
    newest_fence = 0;
    struct lock_grant first = tools_acquire(&fake.lock, "key");
    fake.lock.moves++;
    newest_fence = GIVEN;
    struct lock_grant second = pass_on(&first);
    CHECK_INT(second.fence, GIVEN + 1);
    CHECK_STR(released_owner, first.owner);
    CHECK_INT(fake.lock.metrics.passed, 0);
    fake.lock.moves++;
    tools_check_status(lock_extend(&fake.lock, &second), LOCK_OK); /* so this server has it */
    struct lock_grant third = pass_on(&second);
    CHECK_INT(third.fence, GIVEN + 2);
    CHECK_INT(fake.lock.metrics.passed, 1);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a forgotten grant is released", taken_back);
    harness_run("an expired grant is not", left_alone);
    harness_run("tries become rarer", asked_less_often);
    harness_run("a waiter takes over a forgotten grant", taken_over);
    harness_run("verifying comes before releasing", verified_first);
    harness_run("releases are done all the same", released_all_the_same);
    harness_run("a renewal that fails is repeated", renewal_is_repeated);
    harness_run("stopped at once", stopped_at_once);
    harness_run("many grants are verified together", verified_together);
    harness_run("a grant that was passed on is lost", lost_by_its_heir);
    harness_run("passed on after a move", passed_on_after_a_move);
    return harness_finish();
}
