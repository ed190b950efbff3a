/* What callers get from a store that fails, loses replies, or is slow: for one key, and for several. */
#include <limits.h>
#include <string.h>

#include "lock/test/fake_store.h"

static int attempts;
static bool sends; /* what is asked reaches the store, which does not answer */

static enum lock_status fail_attempt(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempts++;
    attempt->nothing_left = !sends;
    return sends ? LOCK_UNKNOWN : LOCK_UNAVAILABLE;
}

static enum lock_status release_without_memory(void *store, const char *key, const char *owner) {
    (void)store, (void)key, (void)owner;
    return LOCK_NOMEM;
}

/* A release that fails for want of memory is done later: what it needs was allocated with the grant. */
static void without_memory(void) {
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .attempt = fake_grant,
               .release = release_without_memory);
    struct lock_grant grant;
    tools_check_status(lock_try(&fake.lock, "key", &grant), LOCK_OK);
    tools_check_status(lock_release(&fake.lock, &grant), LOCK_NOMEM);
    fake_wait_withdrawn(1);
    CHECK_STR(fake.withdrawn_owner, grant.owner);
}

static const enum lock_status *answers; /* of the store to releases, the last one for ever */
static int answer_ms;                   /* after which the first comes */
static bool moves;                      /* then another server is the store */

static enum lock_status grant_for_a_while(void *store, struct lock_attempt *attempt) {
    (void)store;
    attempt->grant.deadline_ns = fake_now_ns(NULL) + 200 * MS;
    return LOCK_OK;
}

static enum lock_status release_as_told(void *store, const char *key, const char *owner) {
    (void)store, (void)key, (void)owner;
    harness_pause_ms(answer_ms);
    answer_ms = 0;
    fake.lock.moves += moves;
    moves = false;
    return *answers == LOCK_UNAVAILABLE && answers[1] == LOCK_STATUSES ? *answers : *answers++;
}

/* After a lost reply a release answers no more than can be known. */
static void lost_replies(void) {
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
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .attempt = grant_for_a_while,
               .release = release_as_told);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lock_grant grant;
        answers = cases[i].answers;
        answer_ms = cases[i].first_ms;
        moves = cases[i].moves == MEANWHILE;
        tools_check_status(lock_try(&fake.lock, "key", &grant), LOCK_OK);
        fake.withdrawn = 0;
        fake.lock.moves += cases[i].moves == BEFORE;
        tools_check_status(lock_release(&fake.lock, &grant), cases[i].status);
        if (cases[i].withdrawn)
            fake_wait_withdrawn(1);
        CHECK_INT(fake.withdrawn, cases[i].withdrawn);
    }
}

static _Atomic int verifications;

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
    static const enum lock_status lost_reply[] = {LOCK_UNKNOWN, LOCK_NOT_OWNER};
    FAKE_BEGIN(FAKE_TTL_MS, .caps = LOCK_CAN_EXTEND, .attempt = fake_grant, .release = release_as_told,
               .check = verify_well);
    for (int extends = 0; extends < 2; extends++) {
        struct lock_grant grant = tools_acquire(&fake.lock, "key");
        fake.lock.moves++;
        verifications = 0;
        for (int i = 1; i < 3 && !extends; i++) { /* when it is asked again, the answer before has counted */
            lock_maintenance_doubt(fake.lock.maintenance);
            CHECK(harness_wait(is_verified, &i, PATIENCE_MS));
        }
        if (extends)
            tools_check_status(lock_extend(&fake.lock, &grant), LOCK_OK);
        answers = lost_reply;
        tools_check_status(lock_release(&fake.lock, &grant), LOCK_OK);
    }
}

/* What is known to be gone was not ended by a release: its holder asked, or was told. */
static void lost_replies_after_a_loss(void) {
    static const enum lock_status lost_reply[] = {LOCK_UNKNOWN, LOCK_NOT_OWNER};
    FAKE_BEGIN(3 * PATIENCE_MS, .caps = LOCK_CAN_EXTEND, .attempt = fake_grant_for_long,
               .release = release_as_told, .check = fake_check_gone);
    for (int extends = 0; extends < 2; extends++) {
        struct lock_grant grant = tools_acquire(&fake.lock, "key");
        if (extends) {
            tools_check_status(lock_extend(&fake.lock, &grant), LOCK_LOST);
        } else {
            lock_maintenance_doubt(fake.lock.maintenance);
            fake_wait_lost(1);
        }
        answers = lost_reply;
        enum lock_status status = lock_release(&fake.lock, &grant);
        if (status != LOCK_NOT_OWNER) /* the background thread may have forgotten it by now */
            tools_check_status(status, LOCK_UNKNOWN);
    }
}

/* An attempt that never reached the store needs no release. */
static void never_sent(void) {
    struct lock_grant grant;
    sends = false;
    attempts = 0;
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .attempt = fail_attempt);
    for (int i = 0; i < 10; i++)
        tools_check_status(
            lock_acquire(&fake.lock, "key", lock_now_ns(&fake.lock) + (i == 0 ? 50 * MS : 0), NULL, &grant),
            LOCK_UNAVAILABLE);
    harness_pause_ms(FAKE_TTL_MS);
    CHECK_INT(fake.withdrawn, 0);
}

static bool may_ask(void *arg) {
    struct lock_grant grant;
    int before = attempts;
    (void)arg;
    lock_try(&fake.lock, "another", &grant);
    return attempts > before;
}

/* The number of pending releases is bounded: beyond that the store is not asked for more grants until some
 * are done. */
static void remembered(void) {
    enum { MOST = 4096, MORE = 1000 };
    struct lock_grant grant;
    sends = true;
    attempts = 0;
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .attempt = fail_attempt);
    fake.failures = INT_MAX;
    for (int i = 0; i < MOST + MORE; i++) {
        enum lock_status status = lock_try(&fake.lock, "key", &grant);
        tools_check_status(status, i < MOST ? LOCK_UNKNOWN : LOCK_UNAVAILABLE);
    }
    CHECK_INT(attempts, 2 * MOST); /* each again, as its reply is lost */
    sends = false;
    fake.failures = 0;
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
    return fake_grant(store, attempt);
}

static enum lock_status release_slowly(void *store, const char *key, const char *owner) {
    (void)store, (void)key, (void)owner;
    asked_to_release++;
    harness_pause_ms(SLOW_MS);
    return LOCK_OK;
}

static void name_several(void) {
    granted = asked_to_release = extended = 0;
    for (int i = 0; i < SEVERAL; i++)
        several[i] = harness_format("key-%02d", i);
}

/* All keys are granted but the last, which is busy. */
static enum lock_status grant_all_but_last(void *store, struct lock_attempt *attempt) {
    granted++;
    attempt->retry_ns = fake_now_ns(NULL) + PATIENCE_MS * MS;
    return strcmp(attempt->grant.key, several[SEVERAL - 1]) == 0 ? LOCK_BUSY : fake_grant(store, attempt);
}

static bool all_are_asked_for(void *arg) {
    (void)arg;
    return granted == SEVERAL;
}

static void *acquire_several(void *arg) {
    struct tools_waiter *waiter = arg;
    waiter->status =
        lock_acquire_all(&fake.lock, several, SEVERAL, waiter->deadline_ns, waiter->cancel, grants);
    return NULL;
}

/* A cancelled call does not wait until its grants are released: the background thread does it. */
static void cancelled_among_several(void) {
    name_several();
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .attempt = grant_all_but_last,
               .release = release_slowly);
    struct tools_waiter *waiter = tools_wait_by(acquire_several, &fake.lock, NULL, PATIENCE_MS, NULL);
    CHECK(harness_wait(all_are_asked_for, NULL, PATIENCE_MS));
    lock_cancel(waiter->cancel);
    tools_check_status(tools_join(waiter), LOCK_CANCELLED);
    CHECK_INT(asked_to_release, 0);
    fake_wait_withdrawn(SEVERAL); /* and the attempt */
}

/* A slow store does not delay a call for several keys by its slowness times their number. */
static void late_with_several(void) {
    name_several();
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .attempt = grant_slowly, .release = release_slowly);
    tools_check_status(lock_acquire_all(&fake.lock, several, SEVERAL, lock_now_ns(&fake.lock), NULL, grants),
                       LOCK_TIMEOUT);
    int had = granted;
    CHECK(had > 1 && had < SEVERAL / 2);
    CHECK_INT(asked_to_release, 0);
    fake_wait_withdrawn(had);
}

static void slow_to_release_several(void) {
    name_several();
    FAKE_BEGIN(FAKE_TTL_MS, .outlives_deadline = true, .attempt = fake_grant, .release = release_slowly);
    tools_check_status(
        lock_acquire_all(&fake.lock, several, SEVERAL, tools_in_ms(&fake.lock, PATIENCE_MS), NULL, grants),
        LOCK_OK);
    tools_check_status(lock_release_all(&fake.lock, grants, SEVERAL), LOCK_UNAVAILABLE);
    int asked = asked_to_release;
    CHECK(asked > 1 && asked < SEVERAL / 2);
    fake_wait_withdrawn(SEVERAL - asked);
}

/* The last grant has a much later deadline than the others. */
static enum lock_status grant_last_for_long(void *store, struct lock_attempt *attempt) {
    bool is_last = strcmp(attempt->grant.key, several[SEVERAL - 1]) == 0;
    (void)store;
    attempt->grant.deadline_ns = fake_now_ns(NULL) + (is_last ? 10LL : 1LL) * PATIENCE_MS * MS;
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
    name_several();
    FAKE_BEGIN(FAKE_TTL_MS, .caps = LOCK_CAN_EXTEND, .outlives_deadline = true,
               .attempt = grant_last_for_long, .release = release_slowly, .check = fail_to_extend);
    tools_check_status(
        lock_acquire_all(&fake.lock, several, SEVERAL, tools_in_ms(&fake.lock, PATIENCE_MS), NULL, grants),
        LOCK_OK);
    CHECK_INT(extended, 1);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
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
