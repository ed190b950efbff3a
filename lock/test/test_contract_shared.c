/* The contract of lock.h between processes that share a store, and by a network that fails: for each kind of
 * store. Two handles are two processes to the store. */
#include "lock/test/every_lock.h"

static struct lock *open_lock(const char *options) {
    return tools_open(NULL, every_lock_url_with(every_lock.url, options));
}

static struct lock *open_by_proxy(const char *options) {
    return tools_open(NULL, every_lock_url_with(every_lock.proxied, options));
}

static bool is_counted(void *count) {
    return every_lock.count("a") == *(int *)count;
}

/* Waits until so many hold the key "a", or wait for it in the store. */
static void wait_for_count(int count) {
    if (!harness_wait(is_counted, &count, PATIENCE_MS))
        FAIL("there are %d, not %d", every_lock.count("a"), count);
}

static bool queues(const struct lock *lock) {
    return lock_caps(lock) & LOCK_IS_FAIR;
}

/* ---- one holds, others wait ---- */

/* Who tries in vain, gives up or is cancelled leaves nothing. */
static void leaves_nothing(void) {
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_cancel *cancel = tools_new_cancel();
    struct lock_grant held = tools_acquire(holder, "a"), none;
    wait_for_count(1);
    tools_check_status(lock_try(other, "a", &none), LOCK_BUSY);
    wait_for_count(1);
    tools_check_status(lock_acquire(other, "a", tools_in_ms(other, 100), NULL, &none), LOCK_TIMEOUT);
    wait_for_count(1);
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, cancel);
    if (queues(other))
        wait_for_count(2);
    lock_cancel(cancel);
    tools_check_status(tools_join(waiter), LOCK_CANCELLED);
    wait_for_count(1);
    tools_release(holder, &held);
    wait_for_count(0);
}

static uint64_t count_requests(struct lock **locks, int count) {
    uint64_t requests = 0;
    for (int i = 0; i < count; i++)
        requests += tools_metrics(locks[i]).requests;
    return requests;
}

/* They queue one after the other, and are served in that order; one in the middle gives up. A hand-over costs
 * as much as a release and an acquisition, however many wait; and each waiter asks once a second. */
static void in_turn(void) {
    enum { MANY = 9, GIVES_UP = 3 };
    struct lock *locks[MANY];
    struct tools_waiter *waiters[MANY];
    struct lock_cancel *cancel = tools_new_cancel();
    locks[0] = open_lock("ttl=60000");
    if (!queues(locks[0]))
        return;
    struct lock_grant held = tools_acquire(locks[0], "a");
    for (int i = 1; i < MANY; i++) {
        locks[i] = open_lock("ttl=60000");
        waiters[i] = tools_wait(locks[i], "a", PATIENCE_MS, i == GIVES_UP ? cancel : NULL);
        wait_for_count(i + 1);
    }
    lock_cancel(cancel);
    tools_check_status(tools_join(waiters[GIVES_UP]), LOCK_CANCELLED);
    harness_pause_ms(100); /* until they have seen that their watches are there */
    uint64_t fence = held.fence, before = count_requests(locks, MANY);
    int64_t began_ms = harness_now_ms();
    tools_release(locks[0], &held);
    for (int i = 1; i < MANY; i++) {
        if (i == GIVES_UP)
            continue;
        tools_check_status(tools_join(waiters[i]), LOCK_OK);
        CHECK(waiters[i]->grant.fence > fence);
        fence = waiters[i]->grant.fence;
        for (int k = i + 1; k < MANY; k++)
            CHECK(k == GIVES_UP || !waiters[k]->done);
        tools_release(locks[i], &waiters[i]->grant);
    }
    uint64_t polls = (uint64_t)((harness_now_ms() - began_ms) / 1000 + 1) * MANY;
    CHECK(count_requests(locks, MANY) - before <= (uint64_t)every_lock.requests_most * MANY + polls);
    wait_for_count(0);
}

/* The store loses the holder's grant while another waits, which gets it. */
static void dead_holder(void) {
    struct lock *holder = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    wait_for_count(1);
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    if (queues(other))
        wait_for_count(2);
    every_lock.forget("a");
    tools_check_status(tools_join(waiter), LOCK_OK);
    CHECK(waiter->grant.fence > held.fence || !queues(other));
    tools_check_status(lock_release(holder, &held), LOCK_NOT_OWNER);
    tools_check_held(holder, "a");
    tools_release(other, &waiter->grant);
    wait_for_count(0);
}

/* A grant that is not released is over for its holder at its deadline, and in the store; also where another
 * waits for it, in another process or in the same. */
static void forgotten(void) {
    struct lock *lock = open_lock("ttl=500"), *other = open_lock("ttl=60000"),
                *looker = open_lock("ttl=60000");
    for (int who = 0; who < 3; who++) {
        struct lock *next_lock = who < 2 ? other : lock;
        struct lock_grant held = tools_acquire(lock, "a");
        if (who == 0)
            wait_for_count(0);
        struct lock_grant next = tools_acquire_elsewhere(next_lock, "a");
        CHECK(lock_now_ns(lock) >= held.deadline_ns);
        CHECK(next.fence > held.fence || !(lock_caps(lock) & LOCK_CAN_FENCE));
        CHECK_INT(lock_remaining_ns(lock, &held), 0);
        tools_check_status(lock_release(lock, &held), LOCK_NOT_OWNER);
        wait_for_count(1);
        if (next_lock == other)
            tools_check_held(looker, "a");
        tools_release(next_lock, &next);
        wait_for_count(0);
    }
}

/* All of them at the same time: no two keys are one in the store. */
static void odd_keys(void) {
    static const char *const odd[] = {"..",  "...",  "a/b",   "a/",        "/a", "a//b", "a.b",    "../..",
                                      "%2F", "%2E",  "%%",    "%252F",     "}x", "}x}y", "}{a}",   "{}",
                                      "{}x", "{a}b", "a}b{c", "zookeeper", "a*", "a?",   "a:line", "a:fence"};
    enum { ODD = sizeof odd / sizeof *odd, FIRST = '!', LAST = '~', KEYS = ODD + LAST - FIRST + 3 };
    static struct lock_grant grants[KEYS];
    const char *keys[KEYS];
    int count = 0;
    while (count < ODD) {
        keys[count] = odd[count];
        count++;
    }
    for (int c = FIRST; c <= LAST; c++)
        keys[count++] = harness_format("%c", c);
    keys[count++] = harness_repeat('/', LOCK_KEY_MAX);
    keys[count++] = harness_repeat('/', LOCK_KEY_MAX - 1);
    CHECK_INT(count, KEYS);
    struct lock *lock = open_lock("ttl=60000"), *other = open_lock("ttl=60000");
    for (int i = 0; i < KEYS; i++)
        grants[i] = tools_acquire(lock, keys[i]);
    for (int i = 0; i < KEYS; i++)
        tools_check_held(other, keys[i]);
    for (int i = 0; i < KEYS; i++) {
        tools_release(lock, &grants[i]);
        tools_check_free(other, keys[i]);
    }
    wait_for_count(0);
}

/* The library's threads take no signals: those are the program's. */
static void signals(void) {
    struct tools_threads known = {.count = 0};
    int taking, blocking;
    tools_count_new_threads(&known, &taking, &blocking);
    struct lock *holder = open_lock("ttl=60000"), *lock = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a"), none;
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 50), NULL, &none), LOCK_TIMEOUT);
    tools_count_new_threads(&known, &taking, &blocking);
    CHECK_INT(taking, 0);
    CHECK(blocking > 0);
    tools_release(holder, &held);
}

/* ---- a network that fails ---- */

/* It was done, and the reply is lost: it is found again by its owner. */
static void lost_replies(void) {
    if (every_lock.multiplexes)
        return;
    struct lock *lock = open_by_proxy("ttl=4000");
    struct lock_grant grant = tools_use(lock, "a");
    for (int cut = 0; cut < 4; cut++) {
        uint64_t before = grant.fence;
        int cuts = every_lock_cuts();
        every_lock_disturb(PROXY_CUT, cut, every_lock.marker);
        tools_check_status(cut % 2 ? lock_try(lock, "a", &grant)
                                   : lock_acquire_for(lock, "a", PATIENCE_MS, &grant),
                           LOCK_OK);
        CHECK(every_lock_cuts() > cuts);
        CHECK(grant.fence > before || !queues(lock));
        wait_for_count(1);
        tools_check_status(lock_extend(lock, &grant), LOCK_OK); /* what it was told is what is there */
        cuts = every_lock_cuts();
        every_lock_disturb(PROXY_CUT, cut, every_lock.marker);
        tools_release(lock, &grant);
        CHECK(every_lock_cuts() > cuts);
        wait_for_count(0);
        every_lock_disturb(PROXY_PASS, 0, NULL);
    }
}

static bool is_unknown(enum lock_status status) {
    return status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
}

/* The store granted it and could not be reached any more: it is withdrawn as soon as the store can be
 * reached, long before it runs out. */
static void withdrawn_later(void) {
    struct lock *lock = open_by_proxy("ttl=60000");
    tools_use(lock, "a");
    wait_for_count(0);
    every_lock_disturb(PROXY_DELAY, 60000, every_lock.marker);
    struct tools_waiter *waiter = tools_wait(lock, "a", 100, NULL);
    wait_for_count(1);
    every_lock_disturb(PROXY_REFUSE, 0, NULL);
    CHECK(is_unknown(tools_join(waiter)));
    harness_pause_ms(200); /* the first tries are in vain */
    wait_for_count(1);
    every_lock_disturb(PROXY_PASS, 0, NULL);
    wait_for_count(0);
    tools_use_at_last(lock, "a");
}

/* Each call reports that the store is away, before its deadline. What was to be released is released later.
 */
static void not_there(void) {
    struct lock *lock = open_by_proxy("ttl=60000");
    struct lock_grant held = tools_acquire(lock, "a"), none;
    wait_for_count(1);
    every_lock_disturb(PROXY_REFUSE, 0, NULL);
    harness_pause_ms(100); /* a connection that was idle is looked at: nothing is sent, nothing is unknown */
    tools_check_status(lock_try(lock, "b", &none), LOCK_UNAVAILABLE);
    tools_check_status(lock_acquire_for(lock, "b", 50, &none), LOCK_UNAVAILABLE);
    tools_check_status(lock_acquire_for(lock, "b", 600000, &none), LOCK_UNAVAILABLE);
    tools_check_status(lock_release(lock, &held), LOCK_UNAVAILABLE);
    struct lock *late = open_by_proxy("ttl=60000");
    tools_check_status(lock_try(late, "b", &none), LOCK_UNAVAILABLE);
    every_lock_disturb(PROXY_PASS, 0, NULL);
    wait_for_count(0);
    tools_use_at_last(lock, "b");
    tools_use_at_last(late, "b");
}

int main(int argc, char **argv) {
    static const struct every_lock_test tests[] = {
        {"who gives up leaves nothing", leaves_nothing, true},
        {"in turn among processes", in_turn, true},
        {"a dead holder", dead_holder, true},
        {"forgotten", forgotten, true},
        {"odd keys", odd_keys, true},
        {"signals", signals, true},
        {"lost replies", lost_replies, true},
        {"withdrawn later", withdrawn_later, true},
        {"not there", not_there, true},
    };
    harness_begin(argc, argv);
    every_lock_run(tests, sizeof tests / sizeof *tests, false);
    return harness_finish();
}
