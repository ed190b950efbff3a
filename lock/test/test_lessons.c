/* The wrong Redis locks: each fails in the way that its file says, on every run, and in no other; the right
 * one in none. The failures are brought about at the points where these locks break (lock_config.at_point)
 * and by the clock (lock_config.now_ns), not by luck. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/test/takers.h"

enum { CROWD = 6 };

static struct taker a, b, c, crowd[CROWD];

static void open_takers(void) {
    taker_open(&a);
    taker_open(&b);
    taker_open(&c);
}

/* The state of the store: owner, value, expiry. */
static const char *value(void) {
    return redis_command(&stage.redis, "GET", "lock:{k}", NULL);
}

static const char *state(void) {
    return harness_format("%s until %s", value(),
                          redis_command(&stage.redis, "PEXPIRETIME", "lock:{k}", NULL));
}

/* ---- the five failures, each brought about for every lock ---- */

/* If a lock has no point inside its attempt, `meanwhile` happens after the attempt. */
static void a_tries_while(void (*other)(struct taker *i)) {
    a.meanwhile = other;
    taker_try(&a);
    if (a.meanwhile)
        taker_at_point(&a, NULL, "k");
}

/* A holder did not release, and its time is over. */
static void left_by_one_who_died(void) {
    CHECK(taker_try(&c));
    stage_time_passes();
}

static void b_tries(struct taker *i) {
    (void)i;
    taker_try(&b);
}

static bool two_hold_it(void) {
    open_takers();
    left_by_one_who_died();
    a_tries_while(b_tries);
    CHECK(a.got || b.got);
    return a.got && b.got;
}

static void die(struct taker *i) {
    (void)i;
    kill(getpid(), SIGKILL);
}

/* A process that dies in the middle of taking it, or, where there is no middle, as soon as it has it. A
 * failed check here would end the test, and its server, twice. */
static void take_and_die(const char *url) {
    pid_t child = fork();
    if (child == 0) {
        if (!taker_open_url(&a, url))
            _exit(1);
        a.meanwhile = die;
        if (lock_acquire_for(a.lock, "k", PATIENCE_MS, &a.grant) == LOCK_OK) /* also of a slow store */
            die(&a);
        _exit(2);
    }
    int status;
    CHECK(child > 0);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static bool shut_for_ever(void) {
    take_and_die(stage_url(stage.variant, TTL_MS));
    taker_open(&b);
    for (int i = 0; i < 5; i++) {
        stage_time_passes();
        if (taker_try(&b))
            return false;
    }
    return true;
}

static const char *state_of_b;

static void b_tries_and_is_seen(struct taker *i) {
    (void)i;
    const char *before = state();
    taker_try(&b);
    state_of_b = state();
    CHECK(b.got || strcmp(state_of_b, before) == 0); /* or it moved what is a's */
    stage.clock_ns += 7000000;
}

static bool a_loser_moves_the_time(void) {
    open_takers();
    left_by_one_who_died();
    a_tries_while(b_tries_and_is_seen);
    return !a.got && strcmp(state_of_b, state()) != 0;
}

static void b_acquires_and_releases(struct taker *i) {
    (void)i;
    if (taker_try(&b))
        tools_check_status(taker_release(&b), LOCK_OK);
}

static bool nobody_has_it(void) {
    open_takers();
    left_by_one_who_died();
    a_tries_while(b_acquires_and_releases);
    return !a.got && !taker_try(&b);
}

/* b acquires it once a's time is over in the store, and then a releases. Does c acquire it beside b? */
static bool late_release_lets_in(void (*pass)(void)) {
    CHECK(taker_try(&a));
    pass();
    taker_try(&b);
    taker_release(&a);
    return b.got && taker_try(&c);
}

static bool anothers_is_deleted(void) {
    open_takers();
    return late_release_lets_in(stage_time_passes);
}

/* b's clock is behind by as much as passes: it reads what a's read. */
static bool equal_times_are_one(void) {
    open_takers();
    if (!late_release_lets_in(stage_expire))
        return false;
    redis_command(&stage.redis, "FLUSHALL", NULL);
    return !late_release_lets_in(stage_time_passes);
}

enum { SITUATIONS = 6 };

static const struct situation {
    const char *name;
    bool (*fails)(void);
} situations[SITUATIONS] = {
    {"two hold it", two_hold_it},
    {"shut for ever after a crash", shut_for_ever},
    {"a loser moves the winner's time", a_loser_moves_the_time},
    {"nobody has it, and nobody gets it", nobody_has_it},
    {"another's is deleted", anothers_is_deleted},
    {"equal times are taken for one", equal_times_are_one},
};

/* The lesson: which lock fails in which situation. */
static const struct lesson {
    const char *variant;
    bool fails[SITUATIONS];
} lessons[] = {
    /* clang-format off */
    /*                  two ever move nobody del equal */
    {"get-set",        {1,  0,   0,   0,     0,  0}},
    {"setnx-expire",   {0,  1,   0,   0,     0,  0}},
    {"getset",         {0,  0,   1,   1,     0,  0}},
    {"set-del",        {0,  0,   0,   0,     1,  0}},
    {"timestamp",      {0,  0,   0,   0,     0,  1}},
    {"owner",          {0,  0,   0,   0,     0,  0}},
    /* clang-format on */
};

enum { LESSONS = sizeof lessons / sizeof *lessons };

static const struct situation *situation;
static bool expected;

static void in_situation(void) {
    stage_begin();
    CHECK_INT(situation->fails(), expected);
}

/* ---- each failure in detail ---- */

static void two_holders(void) {
    stage.variant = "get-set";
    stage_begin();
    open_takers();
    a_tries_while(b_tries);
    CHECK_STR(a.point, "between GET and SET");
    CHECK(a.got && b.got);
    CHECK(lock_remaining_ns(a.lock, &a.grant) > 0);
    CHECK(lock_remaining_ns(b.lock, &b.grant) > 0);
    CHECK_STR(value(), a.grant.owner); /* the last to write; b does not notice before it releases */
    tools_check_status(taker_release(&b), LOCK_NOT_OWNER);
    tools_check_status(taker_release(&a), LOCK_OK);
}

/* Killed after SETNX, with the machine's clock and a time to live that can be waited for. */
static void locked_for_ever(void) {
    stage_begin();
    struct lock *lock;
    struct lock_config config = {.teaching = true};
    struct lock_grant grant;
    char error[LOCK_ERROR_SIZE];
    take_and_die(stage_url("setnx-expire", SHORT_TTL_MS));
    CHECK_INT(redis_integer(&stage.redis, "PTTL", "lock:{k}", NULL), -1);
    tools_check_status(
        lock_open(stage_url("setnx-expire", SHORT_TTL_MS), &config, &lock, error, sizeof error), LOCK_OK);
    tools_check_status(lock_acquire(lock, "k", lock_now_ns(lock) + 2000000LL * SHORT_TTL_MS, NULL, &grant),
                       LOCK_TIMEOUT);
    lock_close(lock);

    redis_command(&stage.redis, "FLUSHALL", NULL);
    take_and_die(stage_url("owner", SHORT_TTL_MS));
    tools_check_status(lock_open(stage_url("owner", SHORT_TTL_MS), &config, &lock, error, sizeof error),
                       LOCK_OK);
    tools_check_status(lock_acquire(lock, "k", lock_now_ns(lock) + 20000000000, NULL, &grant), LOCK_OK);
    lock_close(lock);
}

static void moved_time(void) {
    stage.variant = "getset";
    stage_begin();
    open_takers();
    left_by_one_who_died();
    int64_t won_ms = stage.clock_ns / 1000000;
    a_tries_while(b_tries_and_is_seen);
    CHECK_STR(a.point, "between GET and GETSET");
    CHECK(b.got && !a.got);
    CHECK_HAS(state_of_b, harness_format("%lld until", (long long)won_ms + TTL_MS));
    CHECK_STR(value(), harness_format("%lld", (long long)won_ms + 7 + TTL_MS));
    tools_check_status(taker_release(&b), LOCK_NOT_OWNER); /* in time, and yet */
    stage.clock_ns = (won_ms + 6 + TTL_MS) * 1000000;
    CHECK(!taker_try(&c));
    stage.clock_ns = (won_ms + 7 + TTL_MS) * 1000000;
    CHECK(taker_try(&c));
}

/* All have read the same time in the past. The last of them is the first to write, and releases at once. */
static void next_tries(struct taker *i) {
    struct taker *next = i + 1;
    if (next < crowd + CROWD - 1)
        next->meanwhile = next_tries;
    stage.clock_ns += 1000000;
    if (taker_try(next))
        tools_check_status(taker_release(next), LOCK_OK);
    CHECK(next->point != NULL);
}

static void nobody_gets_it(void) {
    stage.variant = "getset";
    stage_begin();
    open_takers();
    left_by_one_who_died();
    for (int i = 0; i < CROWD; i++)
        taker_open(&crowd[i]);
    crowd[0].meanwhile = next_tries;
    CHECK(!taker_try(&crowd[0]));
    struct lock_metrics metrics;
    for (int i = 0; i < CROWD; i++) {
        lock_read_metrics(crowd[i].lock, &metrics);
        CHECK_INT(metrics.acquired, i == CROWD - 1);
        CHECK_INT(metrics.released, i == CROWD - 1);
    }
    for (int i = 0; i < CROWD; i++)
        CHECK(!taker_try(&crowd[i]));
    stage.clock_ns += (TTL_MS - 1) * 1000000LL;
    CHECK(!taker_try(&crowd[0]));
    stage.clock_ns += 1000000;
    CHECK(taker_try(&crowd[0]));
}

static void b_takes_over(struct taker *i) {
    (void)i;
    stage_time_passes();
    CHECK(taker_try(&b));
}

/* It had the lock when it made up its mind to delete it. */
static void deletes_anothers(void) {
    stage.variant = "set-del";
    stage_begin();
    open_takers();
    CHECK(taker_try(&a));
    a.meanwhile = b_takes_over;
    tools_check_status(taker_release(&a), LOCK_OK); /* so it says */
    CHECK_STR(a.point, "before DEL");
    CHECK_STR(value(), "(nil)");
    CHECK(taker_try(&c));
    CHECK(lock_remaining_ns(b.lock, &b.grant) > 0);
    tools_check_status(taker_release(&b), LOCK_OK); /* and this was c's */
    tools_check_status(taker_release(&c), LOCK_NOT_OWNER);
}

static void equal_timestamps(void) {
    stage.variant = "timestamp";
    stage_begin();
    open_takers();
    CHECK(taker_try(&a));
    tools_check_status(taker_release(&a), LOCK_OK);
    stage.clock_ns += 999999; /* of one millisecond */
    CHECK(taker_try(&b));
    CHECK_STR(b.grant.owner, a.grant.owner);
    tools_check_status(taker_release(&a), LOCK_OK); /* once more, as after a lost reply */
    CHECK(taker_try(&c));
    CHECK(lock_remaining_ns(b.lock, &b.grant) > 0);
    tools_check_status(taker_release(&c), LOCK_OK);

    CHECK(taker_try(&a));
    tools_check_status(taker_release(&a), LOCK_OK);
    stage.clock_ns += 1;
    CHECK(taker_try(&b));
    tools_check_status(taker_release(&a), LOCK_NOT_OWNER); /* the next millisecond */
    tools_check_status(taker_release(&b), LOCK_OK);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_start(&stage.redis, NULL);
    for (int i = 0; i < LESSONS; i++) {
        for (int k = 0; k < SITUATIONS; k++) {
            char name[128];
            stage.variant = lessons[i].variant;
            situation = &situations[k];
            expected = lessons[i].fails[k];
            snprintf(name, sizeof name, "%s: %s? %s", stage.variant, situation->name,
                     expected ? "yes" : "no");
            harness_run(name, in_situation);
        }
    }
    harness_run("get-set: both are sure", two_holders);
    harness_run("setnx-expire: nobody waits long enough", locked_for_ever);
    harness_run("getset: the winner cannot release", moved_time);
    harness_run("getset: a crowd, and nobody gets it", nobody_gets_it);
    harness_run("set-del: and so on", deletes_anothers);
    harness_run("timestamp: released twice", equal_timestamps);
    return harness_finish();
}
