/* The background thread: it releases grants that their holders forgot, verifies, and does pending releases.
 * The store is made up here: it grants everything, or nothing, and counts what it is asked. */
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/handle.h"
#include "lock/test/tools.h"

enum { TTL_MS = 60 };

static const int64_t MS = 1000000;

static int64_t now_ns(void *ctx) {
    (void)ctx;
    return harness_now_ms() * MS;
}

/* ---- the store ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int failures, withdrawn, lost; /* calls that will fail; calls that did not; on_lost() calls */
static char withdrawn_owner[LOCK_OWNER_SIZE];

static enum lock_status withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    (void)until_ns;
    (void)store;
    (void)key;
    pthread_mutex_lock(&mutex);
    bool fails = failures > 0;
    failures -= fails;
    withdrawn += !fails;
    memcpy(withdrawn_owner, owner, strlen(owner) + 1);
    pthread_mutex_unlock(&mutex);
    return fails ? LOCK_UNAVAILABLE : LOCK_OK;
}

static int read_count(const int *count) {
    pthread_mutex_lock(&mutex);
    int value = *count;
    pthread_mutex_unlock(&mutex);
    return value;
}

static bool is_withdrawn(void *times) {
    return read_count(&withdrawn) >= *(int *)times;
}

static bool has_failed(void *arg) {
    (void)arg;
    return read_count(&failures) == 0;
}

static void on_lost(void *ctx, const struct lock_grant *grant) {
    (void)ctx;
    (void)grant;
    pthread_mutex_lock(&mutex);
    lost++;
    pthread_mutex_unlock(&mutex);
}

/* ---- the tests ---- */

static struct lock lock;
static struct lock_local_queue *queue;
static struct lock_maintenance *maintenance;

static void end(void *arg) {
    (void)arg;
    if (maintenance)
        lock_maintenance_stop(maintenance);
    lock_maintenance_free(maintenance);
    lock_local_queue_free(queue);
}

static void begin_with(const struct lock_backend *backend, int ttl_ms, int that_fail) {
    const struct lock_config config = {.now_ns = now_ns, .on_lost = on_lost};
    failures = that_fail;
    withdrawn = lost = 0;
    lock = (struct lock){.backend = backend, .store = &lock, .config = config, .ttl_ns = ttl_ms * MS};
    lock_env_init(&lock.env, &config);
    queue = lock.queue = lock_local_queue_new(&lock.env, ttl_ms * MS, false, backend->outlives_deadline);
    maintenance = lock.maintenance = lock_maintenance_start(&lock);
    CHECK(maintenance != NULL);
    harness_defer(end, NULL);
}

static void begin(bool outlives_deadline, int that_fail) {
    static struct lock_backend backend;
    backend = (struct lock_backend){.outlives_deadline = outlives_deadline, .withdraw = withdraw};
    begin_with(&backend, TTL_MS, that_fail);
}

/* No store wakes the waiter, so it may go. */
static enum lock_status enter(const char *key, const char *owner, int64_t deadline_ns,
                              struct lock_store_grant *granted) {
    struct lock_waiter waiter;
    lock_waiter_init(&waiter);
    enum lock_status status = lock_local_queue_enter(queue, key, owner, deadline_ns, NULL, &waiter, granted);
    lock_waiter_destroy(&waiter);
    return status;
}

/* The store knows another owner: the grant was passed on to this holder. */
static void hold(const char *key, int ms) {
    struct lock_grant grant = {.deadline_ns = now_ns(NULL) + ms * MS};
    struct lock_store_grant granted;
    strncpy(grant.key, key, LOCK_KEY_MAX);
    memcpy(grant.owner, harness_repeat('a', LOCK_OWNER_SIZE - 1), LOCK_OWNER_SIZE);
    CHECK_INT(enter(key, grant.owner, 0, &granted), LOCK_OK);
    granted = (struct lock_store_grant){.deadline_ns = grant.deadline_ns};
    memcpy(granted.owner, harness_repeat('b', LOCK_OWNER_SIZE - 1), LOCK_OWNER_SIZE);
    CHECK((granted.pending = lock_pending_release_new(key, granted.owner)) != NULL);
    lock_local_queue_set_grant(queue, &grant, &granted);
    lock_maintenance_wake(maintenance, grant.deadline_ns);
}

static void taken_back(void) {
    int once = 1, twice = 2;
    begin(true, 0);
    hold("key", TTL_MS);
    CHECK(harness_wait(is_withdrawn, &once, PATIENCE_MS));
    CHECK_STR(withdrawn_owner, harness_repeat('b', LOCK_OWNER_SIZE - 1));
    /* Once; and an expired grant is not reported as lost. */
    hold("another", TTL_MS);
    CHECK(harness_wait(is_withdrawn, &twice, PATIENCE_MS));
    harness_pause_ms(TTL_MS);
    CHECK_INT(read_count(&withdrawn), 2);
    CHECK_INT(read_count(&lost), 0);
}

/* A store in which keys expire is not asked to release each expired grant. */
static void left_alone(void) {
    begin(false, 0);
    hold("key", TTL_MS);
    harness_pause_ms(2 * TTL_MS);
    CHECK_INT(read_count(&withdrawn), 0);
}

/* For longer than a store in which keys expire would be asked. */
static void not_given_up(void) {
    int once = 1;
    begin(true, 2); /* 2 ttl are over before the third */
    hold("key", TTL_MS);
    CHECK(harness_wait(has_failed, NULL, PATIENCE_MS));
    CHECK(harness_wait(is_withdrawn, &once, PATIENCE_MS));
}

/* A store that fails is asked at once, then after 0.1, 0.2, 0.4, 0.8 s. */
static void asked_less_often(void) {
    int once = 1;
    begin(true, 4);
    int64_t began_ms = harness_now_ms();
    hold("key", 0);
    CHECK(harness_wait(is_withdrawn, &once, PATIENCE_MS));
    CHECK(harness_now_ms() - began_ms >= 200 + 400 + 800);
}

/* A waiter takes over the forgotten grant, and is responsible for its release. */
static void taken_over(void) {
    begin(true, 0);
    hold("key", 500);
    struct lock_store_grant granted;
    const char *owner = harness_repeat('c', LOCK_OWNER_SIZE - 1);
    CHECK_INT(enter("key", owner, now_ns(NULL) + PATIENCE_MS * MS, &granted), LOCK_OK);
    CHECK_STR(granted.owner, harness_repeat('b', LOCK_OWNER_SIZE - 1));
    harness_pause_ms(TTL_MS);
    CHECK_INT(read_count(&withdrawn), 0);
    free(granted.pending);
    lock_local_queue_end(queue, "key", owner);
}

/* ---- what is granted, and what is to be released ---- */

static enum lock_status withdraw_slowly(void *store, const char *key, const char *owner, int64_t until_ns) {
    harness_pause_ms(5);
    return withdraw(store, key, owner, until_ns);
}

static void verify_gone(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    check->status = LOCK_NOT_OWNER;
}

static bool is_lost(void *times) {
    return read_count(&lost) >= *(int *)times;
}

/* However many releases are pending, a holder is told of a loss before its deadline. */
static void verified_first(void) {
    enum { PENDING = 400, LONG_MS = 600, SLOW_MS = 5 };
    static struct lock_backend slow = {
        .outlives_deadline = true, .withdraw = withdraw_slowly, .check = verify_gone};
    int once = 1;
    begin_with(&slow, LONG_MS, 0);
    for (int i = 0; i < PENDING; i++)
        lock_maintenance_release(maintenance, lock_pending_release_new(harness_format("left-%d", i), "owner"),
                                 NULL);
    hold("key", LONG_MS);
    CHECK(harness_wait(is_lost, &once, PATIENCE_MS));
    CHECK(read_count(&withdrawn) < PENDING); /* not even half of it */
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
    static struct lock_backend slow = {
        .outlives_deadline = true, .withdraw = withdraw, .check = verify_slowly};
    begin_with(&slow, LONG_MS, 0);
    for (int i = 0; i < KEYS; i++)
        hold(harness_format("key-%d", i), 3 * PATIENCE_MS);
    for (verifications = 0; verifications < 2 * KEYS;)
        harness_pause_ms(1);
    for (int i = 0; i < PENDING; i++)
        lock_maintenance_release(maintenance, lock_pending_release_new(harness_format("left-%d", i), "owner"),
                                 NULL);
    CHECK(harness_wait(is_withdrawn, &(int){PENDING}, PATIENCE_MS));
}

/* Stopping does not wait until everything is verified. */
static void stopped_at_once(void) {
    enum { KEYS = 60 };
    static struct lock_backend slow = {
        .outlives_deadline = true, .withdraw = withdraw, .check = verify_slowly};
    begin_with(&slow, TTL_MS, 0);
    verifications = 0;
    for (int i = 0; i < KEYS; i++)
        hold(harness_format("key-%d", i), PATIENCE_MS);
    while (verifications == 0)
        harness_pause_ms(1);
    int before = verifications;
    lock_maintenance_stop(maintenance);
    CHECK(verifications - before < KEYS / 2);
    lock_maintenance_free(maintenance);
    maintenance = NULL;
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
    static struct lock_backend together = {
        .checks_together = true, .withdraw = withdraw, .check = verify_all_gone};
    begin_with(&together, LONG_MS, 0);
    calls = 0;
    for (int i = 0; i < KEYS; i++)
        hold(harness_format("key-%d", i), LONG_MS);
    CHECK(harness_wait(is_lost, &(int){KEYS}, PATIENCE_MS));
    CHECK(calls < KEYS / 4);
}

/* ---- a grant that was passed on, and is lost ---- */

static sem_t is_asked, may_answer;
static char told_owner[LOCK_OWNER_SIZE];

static enum lock_status grant_to_many(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempt->grant.deadline_ns = now_ns(NULL) + 3LL * PATIENCE_MS * MS;
    return LOCK_OK;
}

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
    on_lost(ctx, grant);
}

static bool is_waiting(void *arg) {
    (void)arg;
    return lock_local_queue_count_waiting(queue) > 0;
}

/* The store is asked for a grant, and answers that it is gone, when another thread has taken it over: that is
 * told, and not a third of the time to live later. */
static void lost_by_its_heir(void) {
    static struct lock_backend backend = {.fences_per_grant = 16,
                                          .attempt_releases = true,
                                          .attempt = grant_to_many,
                                          .withdraw = withdraw,
                                          .check = verify_late};
    sem_init(&is_asked, 0, 0);
    sem_init(&may_answer, 0, 0);
    begin_with(&backend, 3 * PATIENCE_MS, 0);
    harness_defer(let_answer, NULL);
    lock.config.on_lost = on_lost_by;
    struct lock_grant first = tools_acquire(&lock, "key");
    struct tools_waiter *heir = tools_wait(&lock, "key", PATIENCE_MS, NULL);
    CHECK(harness_wait(is_waiting, NULL, PATIENCE_MS));
    lock_maintenance_doubt(maintenance);
    sem_wait(&is_asked);
    tools_check_status(lock_release(&lock, &first), LOCK_OK);
    tools_check_status(tools_join(heir), LOCK_OK);
    CHECK_INT(lock.metrics.passed, 1);
    sem_post(&may_answer);
    CHECK(harness_wait(is_lost, &(int){1}, PATIENCE_MS / 2));
    CHECK_STR(told_owner, heir->grant.owner);
    tools_check_status(lock_progress(&lock, &heir->grant), LOCK_LOST);
}

/* ---- a grant that is passed on, and the store has moved ---- */

static uint64_t newest_fence; /* that the store has given */
static char released_owner[LOCK_OWNER_SIZE];

static enum lock_status grant_with_fence(void *store, struct lock_attempt *attempt) {
    memcpy(released_owner, attempt->releasing, sizeof released_owner);
    attempt->releasing[0] = '\0';
    attempt->grant.fence = ++newest_fence;
    return grant_to_many(store, attempt);
}

static void verify_held(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    check->status = LOCK_OK;
}

static struct lock_grant pass_on(const struct lock_grant *grant) {
    struct tools_waiter *heir = tools_wait(&lock, "key", PATIENCE_MS, NULL);
    CHECK(harness_wait(is_waiting, NULL, PATIENCE_MS));
    tools_check_status(lock_release(&lock, grant), LOCK_OK);
    tools_check_status(tools_join(heir), LOCK_OK);
    return heir->grant;
}

/* The server that is the store now may have granted the key to others, with higher fences. So a grant is not
 * passed on before this server was asked about it; the next thread asks for its own. */
static void passed_on_after_a_move(void) {
    enum { GIVEN = 1000 };
    static struct lock_backend backend = {.caps = LOCK_CAN_EXTEND,
                                          .fences_per_grant = 16,
                                          .attempt_releases = true,
                                          .attempt = grant_with_fence,
                                          .withdraw = withdraw,
                                          .check = verify_held};
    begin_with(&backend, 3 * PATIENCE_MS, 0);
    newest_fence = 0;
    struct lock_grant first = tools_acquire(&lock, "key");
    lock.moves++;
    newest_fence = GIVEN;
    struct lock_grant second = pass_on(&first);
    CHECK_INT(second.fence, GIVEN + 1);
    CHECK_STR(released_owner, first.owner);
    CHECK_INT(lock.metrics.passed, 0);
    lock.moves++;
    tools_check_status(lock_extend(&lock, &second), LOCK_OK); /* so this server has it */
    struct lock_grant third = pass_on(&second);
    CHECK_INT(third.fence, GIVEN + 2);
    CHECK_INT(lock.metrics.passed, 1);
}

/* ---- a whole lock with a store that fails ---- */

static int attempts;
static bool sends; /* what is asked reaches the store, which does not answer */

static enum lock_status fail_attempt(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempts++;
    attempt->nothing_left = !sends;
    return sends ? LOCK_UNKNOWN : LOCK_UNAVAILABLE;
}

static enum lock_status grant_attempt(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempt->grant.deadline_ns = now_ns(NULL) + PATIENCE_MS * MS;
    return LOCK_OK;
}

static enum lock_status release_without_memory(void *store, const char *key, const char *owner) {
    (void)store;
    (void)key;
    (void)owner;
    return LOCK_NOMEM;
}

static void open_with(struct lock_backend *backend, int that_fail) {
    begin_with(backend, TTL_MS, that_fail);
    attempts = 0;
}

/* A release that fails for want of memory is done later: what it needs was allocated with the grant. */
static void without_memory(void) {
    static struct lock_backend backend = {.outlives_deadline = true,
                                          .attempt = grant_attempt,
                                          .release = release_without_memory,
                                          .withdraw = withdraw};
    open_with(&backend, 0);
    struct lock_grant grant;
    tools_check_status(lock_try(&lock, "key", &grant), LOCK_OK);
    tools_check_status(lock_release(&lock, &grant), LOCK_NOMEM);
    CHECK(harness_wait(is_withdrawn, &(int){1}, PATIENCE_MS));
    CHECK_STR(withdrawn_owner, grant.owner);
}

static const enum lock_status *answers; /* of the store to releases, the last one for ever */
static int answer_ms;                   /* after which the first comes */
static bool moves;                      /* then another server is the store */

static enum lock_status grant_for_a_while(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempt->grant.deadline_ns = now_ns(NULL) + 200 * MS;
    return LOCK_OK;
}

static enum lock_status release_as_told(void *store, const char *key, const char *owner) {
    (void)store;
    (void)key;
    (void)owner;
    harness_pause_ms(answer_ms);
    answer_ms = 0;
    lock.moves += moves;
    moves = false;
    return *answers == LOCK_UNAVAILABLE && answers[1] == LOCK_STATUSES ? *answers : *answers++;
}

/* After a lost reply a release answers no more than can be known. */
static void lost_replies(void) {
    static struct lock_backend backend = {.outlives_deadline = true,
                                          .attempt = grant_for_a_while,
                                          .release = release_as_told,
                                          .withdraw = withdraw};
    enum when { NEVER, BEFORE, MEANWHILE };
    static const struct {
        enum lock_status answers[5], status;
        int first_ms, withdrawn;
        enum when moves;
    } cases[] = {
        {{LOCK_UNKNOWN, LOCK_OK}, LOCK_OK, 0, 0, NEVER},
        {{LOCK_UNKNOWN, LOCK_NOT_OWNER}, LOCK_OK, 0, 0, NEVER},
        {{LOCK_UNKNOWN, LOCK_NOT_OWNER}, LOCK_UNKNOWN, 0, 0, MEANWHILE}, /* or the new server never had it */
        {{LOCK_UNKNOWN, LOCK_NOT_OWNER}, LOCK_UNKNOWN, 0, 0, BEFORE},    /* or another had got it there */
        {{LOCK_UNKNOWN, LOCK_NOT_OWNER}, LOCK_UNKNOWN, 250, 0, NEVER},   /* or it had run out before */
        {{LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_UNKNOWN, LOCK_OK}, LOCK_OK, 0, 0, NEVER},
        {{LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_STATUSES}, LOCK_UNKNOWN, 0, 1, NEVER},
        {{LOCK_UNAVAILABLE, LOCK_OK},
         LOCK_UNAVAILABLE,
         0,
         1,
         NEVER}, /* nothing was sent: it is released later */
        {{LOCK_NOT_OWNER}, LOCK_NOT_OWNER, 0, 0, NEVER},
    };
    open_with(&backend, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lock_grant grant;
        answers = cases[i].answers;
        answer_ms = cases[i].first_ms;
        moves = cases[i].moves == MEANWHILE;
        tools_check_status(lock_try(&lock, "key", &grant), LOCK_OK);
        withdrawn = 0;
        lock.moves += cases[i].moves == BEFORE;
        tools_check_status(lock_release(&lock, &grant), cases[i].status);
        if (cases[i].withdrawn)
            CHECK(harness_wait(is_withdrawn, &(int){1}, PATIENCE_MS));
        CHECK_INT(read_count(&withdrawn), cases[i].withdrawn);
    }
}

static void verify_well(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    verifications++;
    check->status = LOCK_OK;
}

static bool is_verified(void *times) {
    return verifications >= *(int *)times;
}

/* After the move the store was asked, and had it: then it is only the first release that can have ended it.
 */
static void lost_replies_after_a_move(void) {
    static struct lock_backend backend = {.caps = LOCK_CAN_EXTEND,
                                          .attempt = grant_attempt,
                                          .release = release_as_told,
                                          .withdraw = withdraw,
                                          .check = verify_well};
    static const enum lock_status lost_reply[] = {LOCK_UNKNOWN, LOCK_NOT_OWNER};
    open_with(&backend, 0);
    for (int extends = 0; extends < 2; extends++) {
        struct lock_grant grant = tools_acquire(&lock, "key");
        lock.moves++;
        verifications = 0;
        for (int i = 1; i < 3 && !extends; i++) { /* when it is asked again, the answer before has counted */
            lock_maintenance_doubt(maintenance);
            CHECK(harness_wait(is_verified, &i, PATIENCE_MS));
        }
        if (extends)
            tools_check_status(lock_extend(&lock, &grant), LOCK_OK);
        answers = lost_reply;
        tools_check_status(lock_release(&lock, &grant), LOCK_OK);
    }
}

/* What is known to be gone was not ended by a release: its holder asked, or was told. */
static void lost_replies_after_a_loss(void) {
    static struct lock_backend backend = {.caps = LOCK_CAN_EXTEND,
                                          .attempt = grant_to_many,
                                          .release = release_as_told,
                                          .withdraw = withdraw,
                                          .check = verify_gone};
    static const enum lock_status lost_reply[] = {LOCK_UNKNOWN, LOCK_NOT_OWNER};
    begin_with(&backend, 3 * PATIENCE_MS, 0);
    for (int extends = 0; extends < 2; extends++) {
        struct lock_grant grant = tools_acquire(&lock, "key");
        if (extends) {
            tools_check_status(lock_extend(&lock, &grant), LOCK_LOST);
        } else {
            lock_maintenance_doubt(maintenance);
            CHECK(harness_wait(is_lost, &(int){1}, PATIENCE_MS));
        }
        answers = lost_reply;
        enum lock_status status = lock_release(&lock, &grant);
        if (status != LOCK_NOT_OWNER) /* the background thread may have forgotten it by now */
            tools_check_status(status, LOCK_UNKNOWN);
    }
}

static struct lock_backend failing = {
    .outlives_deadline = true, .attempt = fail_attempt, .withdraw = withdraw};

/* An attempt that never reached the store needs no release. */
static void never_sent(void) {
    struct lock_grant grant;
    sends = false;
    open_with(&failing, 0);
    for (int i = 0; i < 10; i++)
        tools_check_status(
            lock_acquire(&lock, "key", lock_now_ns(&lock) + (i == 0 ? 50 * MS : 0), NULL, &grant),
            LOCK_UNAVAILABLE);
    harness_pause_ms(TTL_MS);
    CHECK_INT(read_count(&withdrawn), 0);
}

static bool may_ask(void *arg) {
    struct lock_grant grant;
    int before = attempts;
    (void)arg;
    lock_try(&lock, "another", &grant);
    return attempts > before;
}

/* The number of pending releases is bounded: beyond that the store is not asked for more grants until some
 * are done. */
static void remembered(void) {
    enum { MOST = 4096, MORE = 1000 };
    struct lock_grant grant;
    sends = true;
    open_with(&failing, INT_MAX);
    for (int i = 0; i < MOST + MORE; i++) {
        enum lock_status status = lock_try(&lock, "key", &grant);
        tools_check_status(status, i < MOST ? LOCK_UNKNOWN : LOCK_UNAVAILABLE);
    }
    CHECK_INT(attempts, 2 * MOST); /* each again, as its reply is lost */
    sends = false;
    pthread_mutex_lock(&mutex);
    failures = 0;
    pthread_mutex_unlock(&mutex);
    CHECK(harness_wait(may_ask, NULL, PATIENCE_MS));
}

/* ---- several keys with a store that is slow, or fails ---- */

enum { SEVERAL = 12, SLOW_MS = 300 };

static _Atomic int granted, asked_to_release, extended;

static const char *several[SEVERAL];
static struct lock_grant grants[SEVERAL];

static enum lock_status grant_slowly(void *store, struct lock_attempt *attempt) {
    granted++;
    harness_pause_ms(SLOW_MS);
    return grant_attempt(store, attempt);
}

static enum lock_status release_slowly(void *store, const char *key, const char *owner) {
    (void)store;
    (void)key;
    (void)owner;
    asked_to_release++;
    harness_pause_ms(SLOW_MS);
    return LOCK_OK;
}

static void open_several(struct lock_backend *backend) {
    granted = asked_to_release = extended = 0;
    for (int i = 0; i < SEVERAL; i++)
        several[i] = harness_format("key-%02d", i);
    open_with(backend, 0);
}

/* All keys are granted but the last, which is busy. */
static enum lock_status grant_all_but_last(void *store, struct lock_attempt *attempt) {
    granted++;
    attempt->retry_ns = now_ns(NULL) + PATIENCE_MS * MS;
    return strcmp(attempt->grant.key, several[SEVERAL - 1]) == 0 ? LOCK_BUSY : grant_attempt(store, attempt);
}

static bool all_are_asked_for(void *arg) {
    (void)arg;
    return granted == SEVERAL;
}

static void *acquire_several(void *arg) {
    struct tools_waiter *waiter = arg;
    waiter->status = lock_acquire_all(&lock, several, SEVERAL, waiter->deadline_ns, waiter->cancel, grants);
    return NULL;
}

/* A cancelled call does not wait until its grants are released: the background thread does it. */
static void cancelled_among_several(void) {
    static struct lock_backend backend = {.outlives_deadline = true,
                                          .attempt = grant_all_but_last,
                                          .release = release_slowly,
                                          .withdraw = withdraw};
    open_several(&backend);
    struct tools_waiter *waiter = tools_wait_by(acquire_several, &lock, NULL, PATIENCE_MS, NULL);
    CHECK(harness_wait(all_are_asked_for, NULL, PATIENCE_MS));
    lock_cancel(waiter->cancel);
    tools_check_status(tools_join(waiter), LOCK_CANCELLED);
    CHECK_INT(asked_to_release, 0);
    CHECK(harness_wait(is_withdrawn, &(int){SEVERAL}, PATIENCE_MS)); /* and the attempt */
}

/* A slow store does not delay a call for several keys by its slowness times their number. */
static void late_with_several(void) {
    static struct lock_backend backend = {
        .outlives_deadline = true, .attempt = grant_slowly, .release = release_slowly, .withdraw = withdraw};
    open_several(&backend);
    tools_check_status(lock_acquire_all(&lock, several, SEVERAL, lock_now_ns(&lock), NULL, grants),
                       LOCK_TIMEOUT);
    int had = granted;
    CHECK(had > 1 && had < SEVERAL / 2);
    CHECK_INT(asked_to_release, 0);
    CHECK(harness_wait(is_withdrawn, &had, PATIENCE_MS));
}

static void slow_to_release_several(void) {
    static struct lock_backend backend = {
        .outlives_deadline = true, .attempt = grant_attempt, .release = release_slowly, .withdraw = withdraw};
    open_several(&backend);
    tools_check_status(
        lock_acquire_all(&lock, several, SEVERAL, tools_in_ms(&lock, PATIENCE_MS), NULL, grants), LOCK_OK);
    tools_check_status(lock_release_all(&lock, grants, SEVERAL), LOCK_UNAVAILABLE);
    int asked = asked_to_release;
    CHECK(asked > 1 && asked < SEVERAL / 2);
    CHECK(harness_wait(is_withdrawn, &(int){SEVERAL - asked}, PATIENCE_MS));
}

/* The last grant has a much later deadline than the others. */
static enum lock_status grant_last_for_long(void *store, struct lock_attempt *attempt) {
    bool is_last = strcmp(attempt->grant.key, several[SEVERAL - 1]) == 0;
    (void)store;
    attempt->grant.deadline_ns = now_ns(NULL) + (is_last ? 10LL : 1LL) * PATIENCE_MS * MS;
    return LOCK_OK;
}

static void fail_to_extend(void *store, struct lock_check *check, size_t count) {
    (void)store;
    CHECK_INT(count, 1);
    extended += check->extends;
    check->status = check->extends ? LOCK_UNAVAILABLE : LOCK_OK;
}

/* A store that does not answer is not asked to extend each of them. */
static void several_that_cannot_be_extended(void) {
    static struct lock_backend backend = {.caps = LOCK_CAN_EXTEND,
                                          .outlives_deadline = true,
                                          .attempt = grant_last_for_long,
                                          .release = release_slowly,
                                          .withdraw = withdraw,
                                          .check = fail_to_extend};
    open_several(&backend);
    tools_check_status(
        lock_acquire_all(&lock, several, SEVERAL, tools_in_ms(&lock, PATIENCE_MS), NULL, grants), LOCK_OK);
    CHECK_INT(extended, 1);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a forgotten grant is released", taken_back);
    harness_run("an expired grant is not", left_alone);
    harness_run("a release is tried until it is done", not_given_up);
    harness_run("tries become rarer", asked_less_often);
    harness_run("a waiter takes over a forgotten grant", taken_over);
    harness_run("verifying comes before releasing", verified_first);
    harness_run("releases are done all the same", released_all_the_same);
    harness_run("stopped at once", stopped_at_once);
    harness_run("many grants are verified together", verified_together);
    harness_run("a grant that was passed on is lost", lost_by_its_heir);
    harness_run("passed on after a move", passed_on_after_a_move);
    harness_run("a release without memory", without_memory);
    harness_run("lost replies to releases", lost_replies);
    harness_run("lost replies after a move", lost_replies_after_a_move);
    harness_run("lost replies after a loss", lost_replies_after_a_loss);
    harness_run("an attempt that was never sent", never_sent);
    harness_run("pending releases are bounded", remembered);
    harness_run("cancelled among several", cancelled_among_several);
    harness_run("late with several", late_with_several);
    harness_run("slow to release several", slow_to_release_several);
    harness_run("several that cannot be extended", several_that_cannot_be_extended);
    return harness_finish();
}
