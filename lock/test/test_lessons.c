/* The wrong Redis locks: each fails in the way that its file says, on every run, and in no other; the right
 * one in none. The failures are brought about at the points where these locks break (lock_config.at_point)
 * and by the clock (lock_config.now_ns), not by luck. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/lock.h"
#include "test/harness.h"

/* TTL_MS: no test takes so long; time passes where a test says so. */
enum { TTL_MS = 60000, SHORT_TTL_MS = 50, CROWD = 6 };

static struct redis_server redis;
static const char *variant;
static int port; /* the server's, or that of a proxy before it */
static _Atomic int64_t clock_ns;

/* Who wants the lock: with a lock_open() and a connection of its own, so a process of its own, as far as the
 * store can tell. */
struct taker {
    struct lock *lock;
    struct lock_grant grant;
    bool got;
    const char *point;                  /* the last that it came to */
    void (*meanwhile)(struct taker *i); /* what happens at the next point, once */
};

static struct taker a, b, c, crowd[CROWD];

static int64_t read_clock(void *ctx) {
    (void)ctx;
    return clock_ns;
}

static void at_point(void *ctx, const char *point, const char *key) {
    struct taker *taker = ctx;
    void (*meanwhile)(struct taker * i) = taker->meanwhile;
    CHECK_INT(strlen(key), 1);
    taker->point = point;
    taker->meanwhile = NULL;
    if (meanwhile)
        meanwhile(taker);
}

static const char *url_of(const char *which, int ttl_ms) {
    return harness_format("redis://127.0.0.1:%d?variant=%s&ttl=%d", port, which, ttl_ms);
}

static bool open_lock(struct taker *taker, const char *url) {
    struct lock_config config = {.now_ns = read_clock, .at_point = at_point, .ctx = taker, .teaching = true};
    char error[LOCK_ERROR_SIZE];
    *taker = (struct taker){.got = false};
    return lock_open(url, &config, &taker->lock, error, sizeof error) == LOCK_OK;
}

static void close_taker(void *taker) {
    lock_close(((struct taker *)taker)->lock);
}

static void open_taker(struct taker *taker) {
    CHECK(open_lock(taker, url_of(variant, TTL_MS)));
    harness_defer(close_taker, taker);
}

static void open_takers(void) {
    open_taker(&a);
    open_taker(&b);
    open_taker(&c);
}

static void check_status(enum lock_status got, enum lock_status want) {
    CHECK_STR(lock_status_text(got), lock_status_text(want));
}

static bool try_lock(struct taker *taker) {
    enum lock_status status = lock_try(taker->lock, "k", &taker->grant);
    taker->got = status == LOCK_OK;
    if (!taker->got)
        check_status(status, LOCK_BUSY);
    return taker->got;
}

static enum lock_status give_back(struct taker *taker) {
    taker->got = false;
    return lock_release(taker->lock, &taker->grant);
}

static void begin(void) {
    port = redis.port;
    clock_ns = 1000000000000;
    redis_command(&redis, "FLUSHALL", NULL);
}

/* What is in the store: whose, or what, and until when. */
static const char *value(void) {
    return redis_command(&redis, "GET", "lock:{k}", NULL);
}

static const char *state(void) {
    return harness_format("%s until %s", value(), redis_command(&redis, "PEXPIRETIME", "lock:{k}", NULL));
}

/* A time to live passes, in the store. What has no end there stays. */
static void expire(void) {
    if (redis_integer(&redis, "PTTL", "lock:{k}", NULL) >= 0)
        redis_command(&redis, "PEXPIRE", "lock:{k}", "0", NULL);
}

static void time_passes(void) {
    clock_ns += (int64_t)TTL_MS * 1000000;
    expire();
}

/* ---- the five failures, each brought about for every lock ---- */

/* Where a lock has no point in its attempt, what would happen there happens after it. */
static void a_tries_while(void (*other)(struct taker *i)) {
    a.meanwhile = other;
    try_lock(&a);
    if (a.meanwhile)
        at_point(&a, NULL, "k");
}

/* Somebody had it, did not give it back, and its time is over. */
static void left_by_one_who_died(void) {
    CHECK(try_lock(&c));
    time_passes();
}

static void b_tries(struct taker *i) {
    (void)i;
    try_lock(&b);
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
        if (!open_lock(&a, url))
            _exit(1);
        a.meanwhile = die;
        if (lock_try(a.lock, "k", &a.grant) == LOCK_OK)
            die(&a);
        _exit(2);
    }
    int status;
    CHECK(child > 0);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static bool shut_for_ever(void) {
    take_and_die(url_of(variant, TTL_MS));
    open_taker(&b);
    for (int i = 0; i < 5; i++) {
        time_passes();
        if (try_lock(&b))
            return false;
    }
    return true;
}

static const char *state_of_b;

static void b_tries_and_is_seen(struct taker *i) {
    (void)i;
    const char *before = state();
    try_lock(&b);
    state_of_b = state();
    CHECK(b.got || strcmp(state_of_b, before) == 0); /* or it moved what is a's */
    clock_ns += 7000000;
}

static bool a_loser_moves_the_time(void) {
    open_takers();
    left_by_one_who_died();
    a_tries_while(b_tries_and_is_seen);
    return !a.got && strcmp(state_of_b, state()) != 0;
}

static void b_takes_and_gives_back(struct taker *i) {
    (void)i;
    if (try_lock(&b))
        check_status(give_back(&b), LOCK_OK);
}

static bool nobody_has_it(void) {
    open_takers();
    left_by_one_who_died();
    a_tries_while(b_takes_and_gives_back);
    return !a.got && !try_lock(&b);
}

/* b takes it once a's time is over in the store, and then a gives back. Does c get in beside b? */
static bool late_release_lets_in(void (*pass)(void)) {
    CHECK(try_lock(&a));
    pass();
    try_lock(&b);
    give_back(&a);
    return b.got && try_lock(&c);
}

static bool anothers_is_deleted(void) {
    open_takers();
    return late_release_lets_in(time_passes);
}

/* b's clock is behind by as much as passes: it reads what a's read. */
static bool equal_times_are_one(void) {
    open_takers();
    if (!late_release_lets_in(expire))
        return false;
    redis_command(&redis, "FLUSHALL", NULL);
    return !late_release_lets_in(time_passes);
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

/* The lesson: which lock fails in which situation. `flaw` is a piece of what it says when it is refused. */
static const struct lesson {
    const char *variant, *flaw;
    bool fails[SITUATIONS];
} lessons[] = {
    /*                                                           two  ever move nobody del equal */
    {"get-set", "lets two hold it at once", /*                */ {1, 0, 0, 0, 0, 0}},
    {"setnx-expire", "stays locked for ever", /*              */ {0, 1, 0, 0, 0, 0}},
    {"getset", "move the winner's time", /*                   */ {0, 0, 1, 1, 0, 0}},
    {"set-del", "deletes another's lock", /*                  */ {0, 0, 0, 0, 1, 0}},
    {"timestamp", "two grants of the same millisecond", /*    */ {0, 0, 0, 0, 0, 1}},
    {"owner", NULL, /*                                        */ {0, 0, 0, 0, 0, 0}},
};

enum { LESSONS = sizeof lessons / sizeof *lessons };

static const struct situation *situation;
static bool expected;

static void in_situation(void) {
    begin();
    CHECK_INT(situation->fails(), expected);
}

/* ---- each failure in detail ---- */

static void two_holders(void) {
    variant = "get-set";
    begin();
    open_takers();
    a_tries_while(b_tries);
    CHECK_STR(a.point, "between GET and SET");
    CHECK(a.got && b.got);
    CHECK(lock_remaining_ns(a.lock, &a.grant) > 0);
    CHECK(lock_remaining_ns(b.lock, &b.grant) > 0);
    CHECK_STR(value(), a.grant.owner); /* who wrote last; b does not hear of it before it gives back */
    check_status(give_back(&b), LOCK_NOT_OWNER);
    check_status(give_back(&a), LOCK_OK);
}

/* Killed after SETNX, with the machine's clock and a time to live that can be waited for. */
static void locked_for_ever(void) {
    begin();
    struct lock *lock;
    struct lock_config config = {.teaching = true};
    struct lock_grant grant;
    char error[LOCK_ERROR_SIZE];
    take_and_die(url_of("setnx-expire", SHORT_TTL_MS));
    CHECK_INT(redis_integer(&redis, "PTTL", "lock:{k}", NULL), -1);
    check_status(lock_open(url_of("setnx-expire", SHORT_TTL_MS), &config, &lock, error, sizeof error),
                 LOCK_OK);
    check_status(lock_acquire(lock, "k", lock_now_ns(lock) + 5000000LL * SHORT_TTL_MS, NULL, &grant),
                 LOCK_TIMEOUT);
    lock_close(lock);

    redis_command(&redis, "FLUSHALL", NULL);
    take_and_die(url_of("owner", SHORT_TTL_MS));
    check_status(lock_open(url_of("owner", SHORT_TTL_MS), &config, &lock, error, sizeof error), LOCK_OK);
    check_status(lock_acquire(lock, "k", lock_now_ns(lock) + 20000000000, NULL, &grant), LOCK_OK);
    lock_close(lock);
}

static void moved_time(void) {
    variant = "getset";
    begin();
    open_takers();
    left_by_one_who_died();
    int64_t won_ms = clock_ns / 1000000;
    a_tries_while(b_tries_and_is_seen);
    CHECK_STR(a.point, "between GET and GETSET");
    CHECK(b.got && !a.got);
    CHECK_HAS(state_of_b, harness_format("%lld until", (long long)won_ms + TTL_MS));
    CHECK_STR(value(), harness_format("%lld", (long long)won_ms + 7 + TTL_MS));
    check_status(give_back(&b), LOCK_NOT_OWNER); /* in time, and yet */
    clock_ns = (won_ms + 6 + TTL_MS) * 1000000;
    CHECK(!try_lock(&c));
    clock_ns = (won_ms + 7 + TTL_MS) * 1000000;
    CHECK(try_lock(&c));
}

/* All have read the same time that is over. The last is the first to write, and gives back at once. */
static void next_tries(struct taker *i) {
    struct taker *next = i + 1;
    if (next < crowd + CROWD - 1)
        next->meanwhile = next_tries;
    clock_ns += 1000000;
    if (try_lock(next))
        check_status(give_back(next), LOCK_OK);
    CHECK(next->point != NULL);
}

static void nobody_gets_it(void) {
    variant = "getset";
    begin();
    open_takers();
    left_by_one_who_died();
    for (int i = 0; i < CROWD; i++)
        open_taker(&crowd[i]);
    crowd[0].meanwhile = next_tries;
    CHECK(!try_lock(&crowd[0]));
    struct lock_metrics metrics;
    for (int i = 0; i < CROWD; i++) {
        lock_read_metrics(crowd[i].lock, &metrics);
        CHECK_INT(metrics.acquired, i == CROWD - 1);
        CHECK_INT(metrics.released, i == CROWD - 1);
    }
    for (int i = 0; i < CROWD; i++)
        CHECK(!try_lock(&crowd[i]));
    clock_ns += (TTL_MS - 1) * 1000000LL;
    CHECK(!try_lock(&crowd[0]));
    clock_ns += 1000000;
    CHECK(try_lock(&crowd[0]));
}

static void b_takes_over(struct taker *i) {
    (void)i;
    time_passes();
    CHECK(try_lock(&b));
}

/* It had the lock when it made up its mind to delete it. */
static void deletes_anothers(void) {
    variant = "set-del";
    begin();
    open_takers();
    CHECK(try_lock(&a));
    a.meanwhile = b_takes_over;
    check_status(give_back(&a), LOCK_OK); /* so it says */
    CHECK_STR(a.point, "before DEL");
    CHECK_STR(value(), "(nil)");
    CHECK(try_lock(&c));
    CHECK(lock_remaining_ns(b.lock, &b.grant) > 0);
    check_status(give_back(&b), LOCK_OK); /* and this was c's */
    check_status(give_back(&c), LOCK_NOT_OWNER);
}

static void equal_timestamps(void) {
    variant = "timestamp";
    begin();
    open_takers();
    CHECK(try_lock(&a));
    check_status(give_back(&a), LOCK_OK);
    clock_ns += 999999; /* of one millisecond */
    CHECK(try_lock(&b));
    CHECK_STR(b.grant.owner, a.grant.owner);
    check_status(give_back(&a), LOCK_OK); /* once more, as after a lost reply */
    CHECK(try_lock(&c));
    CHECK(lock_remaining_ns(b.lock, &b.grant) > 0);
    check_status(give_back(&c), LOCK_OK);

    CHECK(try_lock(&a));
    check_status(give_back(&a), LOCK_OK);
    clock_ns += 1;
    CHECK(try_lock(&b));
    check_status(give_back(&a), LOCK_NOT_OWNER); /* the next millisecond */
    check_status(give_back(&b), LOCK_OK);
}

/* ---- and beyond their flaws they are locks ---- */

static void in_calm(void) {
    begin();
    open_takers();
    CHECK(try_lock(&a));
    CHECK(!try_lock(&b));
    CHECK(lock_remaining_ns(a.lock, &a.grant) > TTL_MS * 900000LL);
    check_status(give_back(&a), LOCK_OK);
    check_status(give_back(&a), LOCK_NOT_OWNER);
    CHECK(try_lock(&b));
    CHECK(!try_lock(&a));
    time_passes();
    CHECK_INT(lock_remaining_ns(b.lock, &b.grant), 0);
    CHECK(try_lock(&a));
    check_status(give_back(&a), LOCK_OK);
    if (strcmp(variant, "owner") != 0) {
        CHECK_INT(lock_caps(a.lock), LOCK_IS_SHARED);
        CHECK_INT(a.grant.fence, 0);
        check_status(lock_extend(a.lock, &a.grant), LOCK_CONFIG);
    }
    /* Taken in one instant they have one owner where the owner is a time; each is given back all the same. */
    const char *const names[] = {"k", "l", "k", "m"};
    struct lock_grant grants[4];
    check_status(lock_acquire_all(a.lock, names, 4, 0, NULL, grants), LOCK_OK);
    check_status(lock_release_all(a.lock, grants, 4), LOCK_OK);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{k}", "lock:{l}", "lock:{m}", NULL), "0");
}

/* Whoever waits looks again until it has it: here, until the time of one that died is over. */
static void waiting(void) {
    begin();
    struct lock *lock;
    struct lock_config config = {.teaching = true};
    struct lock_grant grant, next;
    char error[LOCK_ERROR_SIZE];
    check_status(lock_open(url_of(variant, SHORT_TTL_MS), &config, &lock, error, sizeof error), LOCK_OK);
    int64_t began_ns = lock_now_ns(lock);
    check_status(lock_acquire(lock, "w", began_ns, NULL, &grant), LOCK_OK);
    check_status(lock_acquire(lock, "w", began_ns + 20000000000, NULL, &next), LOCK_OK);
    CHECK(lock_now_ns(lock) - began_ns >= SHORT_TTL_MS * 900000LL);
    check_status(lock_release(lock, &next), LOCK_OK);
    lock_close(lock);
}

static struct proxy *proxy;

/* a's replies can be lost, b's not. */
static void open_behind_proxy(void) {
    begin();
    proxy = proxy_start(redis.port);
    port = proxy_port(proxy);
    open_taker(&a);
    port = redis.port;
    open_taker(&b);
}

/* getset: a time does not say who wrote it: had or not, nobody has it, until it is over. */
static void lost_and_not_found(void) {
    static const char *const takes[] = {"SETNX", "GETSET"};
    open_behind_proxy();
    for (int i = 0; i < 2; i++) {
        proxy_set(proxy, PROXY_CUT, 0, takes[i]);
        CHECK(!try_lock(&a));
        CHECK_INT(proxy_faults(proxy), i + 1);
        CHECK(!try_lock(&b));
        time_passes();
    }
    CHECK(try_lock(&a));
    proxy_set(proxy, PROXY_CUT, 0, "EVALSHA");
    check_status(give_back(&a), LOCK_OK);
    CHECK_INT(proxy_faults(proxy), 3);
    CHECK(try_lock(&b));
    proxy_stop(proxy);
}

/* The store did it, and its reply is lost: what was taken is found to be had, and what was given back to be
 * gone. */
static void lost_replies(void) {
    static const char *const takes[] = {"\r\nGET\r\n", "\r\nSET\r\n", "SETNX", "PEXPIRE", "EVALSHA"};
    int count = sizeof takes / sizeof *takes;
    if (strcmp(variant, "getset") == 0) {
        lost_and_not_found();
        return;
    }
    open_behind_proxy();
    for (int i = 0; i < count; i++) {
        proxy_set(proxy, PROXY_CUT, 0, takes[i]);
        CHECK(try_lock(&a));
        CHECK(!try_lock(&b));
        CHECK(redis_integer(&redis, "PTTL", "lock:{k}", NULL) > 0);
        proxy_set(proxy, PROXY_CUT, 0, "lock:{k}");
        check_status(give_back(&a), LOCK_OK);
        CHECK(try_lock(&b));
        check_status(give_back(&b), LOCK_OK);
    }
    CHECK(proxy_faults(proxy) > count);
    proxy_stop(proxy);
}

static void refused_unless_asked_for(void) {
    port = redis.port;
    for (int i = 0; i < LESSONS; i++) {
        struct lock *lock = NULL;
        char error[LOCK_ERROR_SIZE] = "";
        const char *url = url_of(lessons[i].variant, TTL_MS);
        enum lock_status status = lock_open(url, NULL, &lock, error, sizeof error);
        check_status(status, lessons[i].flaw ? LOCK_CONFIG : LOCK_OK);
        if (lessons[i].flaw) {
            CHECK_HAS(error, "this lock is for lessons: it ");
            CHECK_HAS(error, lessons[i].flaw);
            CHECK(open_lock(&a, url));
            lock_close(a.lock);
        }
        lock_close(lock);
    }
}

static void run_for_each(const char *name, void (*test)(void)) {
    for (int i = 0; i < LESSONS; i++) {
        variant = lessons[i].variant;
        char full[128];
        snprintf(full, sizeof full, "%s: %s", variant, name);
        harness_run(full, test);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_start(&redis, NULL);
    for (int i = 0; i < LESSONS; i++) {
        for (int k = 0; k < SITUATIONS; k++) {
            char name[128];
            variant = lessons[i].variant;
            situation = &situations[k];
            expected = lessons[i].fails[k];
            snprintf(name, sizeof name, "%s: %s? %s", variant, situation->name, expected ? "yes" : "no");
            harness_run(name, in_situation);
        }
    }
    harness_run("get-set: both are sure", two_holders);
    harness_run("setnx-expire: nobody waits long enough", locked_for_ever);
    harness_run("getset: the winner cannot give back", moved_time);
    harness_run("getset: a crowd, and nobody gets it", nobody_gets_it);
    harness_run("set-del: and so on", deletes_anothers);
    harness_run("timestamp: given back twice", equal_timestamps);
    run_for_each("a lock in calm", in_calm);
    run_for_each("waiting", waiting);
    run_for_each("lost replies", lost_replies);
    harness_run("refused unless asked for", refused_unless_asked_for);
    return harness_finish();
}
