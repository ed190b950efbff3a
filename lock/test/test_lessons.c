/* The wrong Redis locks: each fails in the way that its file says, on every run, and in no other; the right
 * one in none. The failures are brought about at the points where these locks break (lock_config.at_point)
 * and by the clock (lock_config.now_ns), not by luck. Beyond their flaws they are locks: in calm, with
 * somebody who waits, with lost replies. And nobody gets one who did not ask for it. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/test/tools.h"

/* TTL_MS: no test takes so long; time passes where a test says so. */
enum { TTL_MS = 60000, SHORT_TTL_MS = 450 };

/* ---- the clients of a lesson, and its stage: one Redis, one clock that tests control, one key "k" ---- */

/* With a lock_open() and a connection of its own, so a process of its own, as far as the store can tell. */
struct taker {
    struct lock *lock;
    struct lock_grant grant;
    bool got;
    const char *point;                  /* the last that it came to */
    void (*meanwhile)(struct taker *i); /* what happens at the next point, once */
};

static struct taker a, b, c;

static struct stage {
    struct redis_server redis;
    const char *variant;
    int port; /* where locks find it: the server's, or that of a proxy before it */
    _Atomic int64_t clock_ns;
} stage;

static int64_t read_clock(void *ctx) {
    (void)ctx;
    return stage.clock_ns;
}

/* For lock_config.at_point. */
static void taker_at_point(void *ctx, const char *point, const char *key) {
    struct taker *taker = ctx;
    void (*meanwhile)(struct taker * i) = taker->meanwhile;
    if (point && !strchr(point, ' ')) /* where none breaks */
        return;
    CHECK_INT(strlen(key), 1);
    taker->point = point;
    taker->meanwhile = NULL;
    if (meanwhile)
        meanwhile(taker);
}

static const char *stage_url(const char *variant, int ttl_ms) {
    return harness_format("redis://127.0.0.1:%d?variant=%s&ttl=%d", stage.port, variant, ttl_ms);
}

/* False where it is refused; not closed by itself. */
static bool taker_open_url(struct taker *taker, const char *url) {
    struct lock_config config = {
        .now_ns = read_clock, .at_point = taker_at_point, .ctx = taker, .teaching = true};
    char error[LOCK_ERROR_SIZE];
    *taker = (struct taker){.got = false};
    return lock_open(url, &config, &taker->lock, error, sizeof error) == LOCK_OK;
}

static void close_taker(void *taker) {
    lock_close(((struct taker *)taker)->lock);
}

static void taker_open(struct taker *taker) {
    CHECK(taker_open_url(taker, stage_url(stage.variant, TTL_MS)));
    harness_defer(close_taker, taker);
}

static bool taker_try(struct taker *taker) {
    enum lock_status status = lock_try(taker->lock, "k", &taker->grant);
    taker->got = status == LOCK_OK;
    if (!taker->got)
        tools_check_status(status, LOCK_BUSY);
    return taker->got;
}

static enum lock_status taker_release(struct taker *taker) {
    taker->got = false;
    return lock_release(taker->lock, &taker->grant);
}

/* An empty store, and the clock at its beginning. */
static void stage_begin(void) {
    stage.port = stage.redis.port;
    stage.clock_ns = 1000000000000;
    redis_command(&stage.redis, "FLUSHALL", NULL);
}

/* A time to live passes in the store; what has no end there stays. */
static void stage_expire(void) {
    if (redis_integer(&stage.redis, "PTTL", "lock:{k}", NULL) >= 0)
        redis_command(&stage.redis, "PEXPIRE", "lock:{k}", "0", NULL);
}

/* And by the clock too. */
static void stage_time_passes(void) {
    stage.clock_ns += (int64_t)TTL_MS * 1000000;
    stage_expire();
}

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
    const char *flaw; /* a piece of what it says when it is refused; NULL: it is right */
} lessons[] = {
    /* clang-format off */
    /*                  two ever move nobody del equal */
    {"get-set",        {1,  0,   0,   0,     0,  0}, "lets two hold it at once"},
    {"setnx-expire",   {0,  1,   0,   0,     0,  0}, "stays locked for ever"},
    {"getset",         {0,  0,   1,   1,     0,  0}, "replace the winner's time"},
    {"set-del",        {0,  0,   0,   0,     1,  0}, "deletes another's lock"},
    {"timestamp",      {0,  0,   0,   0,     0,  1}, "two grants of the same millisecond"},
    {"owner",          {0,  0,   0,   0,     0,  0}, NULL},
    /* clang-format on */
};

enum { LESSONS = sizeof lessons / sizeof *lessons };

static const struct situation *situation;
static bool expected;

static void in_situation(void) {
    stage_begin();
    CHECK_INT(situation->fails(), expected);
}

/* ---- two of the failures in detail ---- */

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

/* ---- beyond their flaws ---- */

static void in_calm(void) {
    stage_begin();
    open_takers();
    CHECK(taker_try(&a));
    CHECK(!taker_try(&b));
    CHECK(lock_remaining_ns(a.lock, &a.grant) > TTL_MS * 900000LL);
    tools_check_status(taker_release(&a), LOCK_OK);
    tools_check_status(taker_release(&a), LOCK_NOT_OWNER);
    CHECK(taker_try(&b));
    CHECK(!taker_try(&a));
    stage_time_passes();
    CHECK_INT(lock_remaining_ns(b.lock, &b.grant), 0);
    CHECK(taker_try(&a));
    tools_check_status(taker_release(&a), LOCK_OK);
    if (strcmp(stage.variant, "owner") != 0) {
        CHECK_INT(lock_caps(a.lock), LOCK_IS_SHARED);
        CHECK_INT(a.grant.fence, 0);
        tools_check_status(lock_extend(a.lock, &a.grant), LOCK_CONFIG);
    }
    /* If the owner is a time, two grants of one instant have the same owner; each is released all the same.
     */
    const char *const names[] = {"k", "l", "k", "m"};
    struct lock_grant grants[4];
    tools_check_status(lock_acquire_all(a.lock, names, 4, 0, NULL, grants), LOCK_OK);
    tools_check_status(lock_release_all(a.lock, grants, 4), LOCK_OK);
    CHECK_STR(redis_command(&stage.redis, "EXISTS", "lock:{k}", "lock:{l}", "lock:{m}", NULL), "0");
}

/* A waiter polls until it gets the lock: here, until the time of a dead holder is over. */
static void waiting(void) {
    stage_begin();
    const struct lock_config config = {.teaching = true};
    struct lock *lock = tools_open(&config, stage_url(stage.variant, SHORT_TTL_MS));
    int64_t began_ns = lock_now_ns(lock);
    tools_acquire(lock, "w");
    struct lock_grant next = tools_acquire(lock, "w");
    CHECK(lock_now_ns(lock) - began_ns >= SHORT_TTL_MS * 900000LL);
    tools_release(lock, &next);
}

static struct proxy *proxy;

/* a's replies can be lost, b's not. */
static void open_behind_proxy(void) {
    stage_begin();
    proxy = proxy_start(stage.redis.port);
    stage.port = proxy_port(proxy);
    taker_open(&a);
    stage.port = stage.redis.port;
    taker_open(&b);
}

/* getset: a time does not name its writer: after a lost reply nobody holds the lock until the time is over.
 */
static void lost_and_not_found(void) {
    static const char *const takes[] = {"SETNX", "GETSET"};
    open_behind_proxy();
    for (int i = 0; i < 2; i++) {
        proxy_set(proxy, PROXY_CUT, 0, takes[i]);
        CHECK(!taker_try(&a));
        CHECK_INT(proxy_faults(proxy), i + 1);
        CHECK(!taker_try(&b));
        stage_time_passes();
    }
    CHECK(taker_try(&a));
    proxy_set(proxy, PROXY_CUT, 0, "EVALSHA");
    tools_check_status(taker_release(&a), LOCK_OK);
    CHECK_INT(proxy_faults(proxy), 3);
    CHECK(taker_try(&b));
    proxy_stop(proxy);
}

/* The store did it, and its reply is lost: what was taken is found to be had, and what was given back to be
 * gone. */
static void lost_replies(void) {
    static const char *const takes[] = {"\r\nGET\r\n", "\r\nSET\r\n", "SETNX", "PEXPIRE", "EVALSHA"};
    int count = sizeof takes / sizeof *takes;
    if (strcmp(stage.variant, "getset") == 0) {
        lost_and_not_found();
        return;
    }
    open_behind_proxy();
    for (int i = 0; i < count; i++) {
        proxy_set(proxy, PROXY_CUT, 0, takes[i]);
        CHECK(taker_try(&a));
        CHECK(!taker_try(&b));
        CHECK(redis_integer(&stage.redis, "PTTL", "lock:{k}", NULL) > 0);
        proxy_set(proxy, PROXY_CUT, 0, "lock:{k}");
        tools_check_status(taker_release(&a), LOCK_OK);
        CHECK(taker_try(&b));
        tools_check_status(taker_release(&b), LOCK_OK);
    }
    CHECK(proxy_faults(proxy) > count);
    proxy_stop(proxy);
}

static void refused_unless_asked_for(void) {
    stage.port = stage.redis.port;
    for (int i = 0; i < LESSONS; i++) {
        const char *url = stage_url(lessons[i].variant, TTL_MS);
        if (!lessons[i].flaw) {
            tools_open(NULL, url);
            continue;
        }
        tools_refuse(url, NULL, "this lock is for lessons: it ");
        tools_refuse(url, NULL, lessons[i].flaw);
    }
}

static void run_for_each(const char *name, void (*test)(void)) {
    for (int i = 0; i < LESSONS; i++) {
        stage.variant = lessons[i].variant;
        harness_run(harness_format("%s: %s", stage.variant, name), test);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_start(&stage.redis, NULL);
    for (int i = 0; i < LESSONS; i++) {
        for (int k = 0; k < SITUATIONS; k++) {
            stage.variant = lessons[i].variant;
            situation = &situations[k];
            expected = lessons[i].fails[k];
            harness_run(harness_format("%s: %s? %s", stage.variant, situation->name, expected ? "yes" : "no"),
                        in_situation);
        }
    }
    harness_run("getset: the winner cannot release", moved_time);
    harness_run("set-del: and so on", deletes_anothers);
    run_for_each("a lock in calm", in_calm);
    run_for_each("waiting", waiting);
    run_for_each("lost replies", lost_replies);
    harness_run("refused unless asked for", refused_unless_asked_for);
    return harness_finish();
}
