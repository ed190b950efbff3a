/* The local queue: a holder that forgets to release keeps the key until its deadline, and the next in the
 * queue gets it then. */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "lock/core/handle.h"
#include "test/harness.h"

enum { PATIENCE_MS = 20000 };

static const int64_t MS = 1000000;

static int64_t ahead_ns;

static int64_t now_ns(void *ctx) {
    (void)ctx;
    return harness_now_ms() * MS + ahead_ns;
}

static const struct lock_env env = {.now_ns = now_ns};

struct entrant {
    pthread_t thread;
    struct lock_local_queue *queue;
    const char *owner;
    int64_t deadline_ns;
    uint64_t before; /* so many waited */
    enum lock_status status;
    _Atomic int64_t entered_ns; /* 0: not yet */
};

/* Owners have a fixed size. */
static const char *owner_named(char c) {
    return harness_repeat(c, LOCK_OWNER_SIZE - 1);
}

/* No store wakes the waiter, so it may go. */
static enum lock_status enter_until(struct lock_local_queue *queue, const char *owner, int64_t deadline_ns) {
    struct lock_store_grant granted;
    struct waiter waiter;
    waiter_init(&waiter);
    enum lock_status status =
        lock_local_queue_enter(queue, "key", owner, deadline_ns, NULL, &waiter, &granted);
    waiter_destroy(&waiter);
    return status;
}

static void *enter_and_note(void *arg) {
    struct entrant *entrant = arg;
    entrant->status = enter_until(entrant->queue, entrant->owner, entrant->deadline_ns);
    entrant->entered_ns = now_ns(NULL);
    return NULL;
}

static bool is_in_queue(void *arg) {
    struct entrant *entrant = arg;
    return entrant->entered_ns || lock_local_queue_count_waiting(entrant->queue) > entrant->before;
}

/* Returns once it waits, so they enter in this order; or has waited. */
static void start(struct entrant *entrant, struct lock_local_queue *queue, char owner, int64_t deadline_ns) {
    *entrant = (struct entrant){.queue = queue,
                                .owner = owner_named(owner),
                                .deadline_ns = deadline_ns,
                                .before = lock_local_queue_count_waiting(queue)};
    CHECK_INT(pthread_create(&entrant->thread, NULL, enter_and_note, entrant), 0);
    CHECK(harness_wait(is_in_queue, entrant, PATIENCE_MS));
}

static enum lock_status end(struct entrant *entrant) {
    pthread_join(entrant->thread, NULL);
    return entrant->status;
}

static enum lock_status enter(struct lock_local_queue *queue, char owner) {
    return enter_until(queue, owner_named(owner), 0);
}

/* Out of what the store granted to that `store_owner`. */
static bool hold_of_store(struct lock_local_queue *queue, char owner, int64_t deadline_ns, char store_owner) {
    struct lock_grant grant = {.key = "key", .deadline_ns = deadline_ns};
    struct lock_store_grant granted = {.deadline_ns = deadline_ns};
    memcpy(grant.owner, owner_named(owner), sizeof grant.owner);
    memcpy(granted.owner, owner_named(store_owner), sizeof granted.owner);
    return lock_local_queue_set_grant(queue, &grant, &granted);
}

static void hold(struct lock_local_queue *queue, char owner, int64_t deadline_ns) {
    hold_of_store(queue, owner, deadline_ns, owner);
}

static bool leave(struct lock_local_queue *queue, char owner) {
    struct lock_store_grant granted;
    if (lock_local_queue_leave(queue, "key", owner_named(owner), false, &granted) != LOCK_LOCAL_TO_STORE)
        return false;
    lock_local_queue_end(queue, "key", owner_named(owner));
    return true;
}

/* `a` holds the key until `ms` from now, and does not release it. */
static struct lock_local_queue *open_forgotten(int64_t ms, int64_t *until_ns) {
    struct lock_local_queue *queue = lock_local_queue_new(&env, 10000 * MS, false, false);
    CHECK(queue != NULL);
    CHECK_INT(enter(queue, 'a'), LOCK_OK);
    *until_ns = now_ns(NULL) + ms * MS;
    hold(queue, 'a', *until_ns);
    return queue;
}

static void forgotten(void) {
    int64_t until_ns;
    struct lock_local_queue *queue = open_forgotten(100, &until_ns);
    struct entrant next, behind;
    start(&next, queue, 'b', INT64_MAX);
    start(&behind, queue, 'c', INT64_MAX);
    CHECK_INT(end(&next), LOCK_OK);
    CHECK(next.entered_ns >= until_ns);
    /* Its late release ends no other holder's time. */
    CHECK(!leave(queue, 'a'));
    CHECK_INT(behind.entered_ns, 0);
    CHECK(leave(queue, 'b'));
    CHECK_INT(end(&behind), LOCK_OK);
    CHECK(leave(queue, 'c'));
    CHECK(!leave(queue, 'c'));
    lock_local_queue_free(queue);
}

/* The first in the queue gives up; the second still gets the key at the holder's deadline. */
static void the_first_gives_up(void) {
    int64_t until_ns;
    struct lock_local_queue *queue = open_forgotten(200, &until_ns);
    struct entrant first, second;
    start(&first, queue, 'b', now_ns(NULL) + 50 * MS);
    start(&second, queue, 'c', now_ns(NULL) + PATIENCE_MS * MS);
    CHECK_INT(end(&first), LOCK_TIMEOUT);
    CHECK_INT(end(&second), LOCK_OK);
    CHECK(second.entered_ns >= until_ns);
    CHECK(second.entered_ns < second.deadline_ns - PATIENCE_MS / 2 * MS);
    lock_local_queue_free(queue);
}

/* The deadline is set, and moved, while another thread waits. */
static void moved(void) {
    int64_t until_ns;
    struct lock_local_queue *queue = open_forgotten(PATIENCE_MS, &until_ns);
    struct entrant next;
    start(&next, queue, 'b', INT64_MAX);
    until_ns = now_ns(NULL) + 30 * MS;
    hold(queue, 'x', 0); /* not the holder */
    hold(queue, 'a', until_ns);
    hold(queue, 'a', until_ns + 50 * MS);
    CHECK_INT(end(&next), LOCK_OK);
    CHECK(next.entered_ns >= until_ns + 50 * MS);
    lock_local_queue_free(queue);
}

/* What a thread takes over is lost before it has got it: it gets nothing, but what the store grants it then.
 */
static void lost_while_taken_over(void) {
    int64_t until_ns;
    struct lock_local_queue *queue = open_forgotten(PATIENCE_MS, &until_ns);
    struct lock_due due = {.grant.key = "key"};
    struct lock_store_grant granted;
    struct entrant next;
    memcpy(due.grant.owner, owner_named('a'), sizeof due.grant.owner);
    hold_of_store(queue, 'a', until_ns, 's');
    CHECK(lock_local_queue_find(queue, &due));
    start(&next, queue, 'b', INT64_MAX);
    CHECK_INT(lock_local_queue_leave(queue, "key", due.grant.owner, true, &granted), LOCK_LOCAL_PASSED_ON);
    CHECK_INT(end(&next), LOCK_OK);
    CHECK(!lock_local_queue_set_lost(queue, &due, true));
    CHECK(!hold_of_store(queue, 'b', until_ns, 's'));
    CHECK(hold_of_store(queue, 'b', until_ns, 'b'));
    CHECK(leave(queue, 'b'));
    lock_local_queue_free(queue);
}

/* The queue uses the clock of its env. */
static void turned_clock(void) {
    int64_t until_ns;
    struct lock_local_queue *queue = open_forgotten(PATIENCE_MS, &until_ns);
    CHECK_INT(enter(queue, 'b'), LOCK_TIMEOUT);
    ahead_ns = PATIENCE_MS * MS;
    CHECK_INT(enter(queue, 'b'), LOCK_OK);
    ahead_ns = 0;
    lock_local_queue_free(queue);
    lock_local_queue_free(NULL);
}

static int looks_left; /* at the clock, before it goes on */

static int64_t now_or_later_ns(void *ctx) {
    (void)ctx;
    return looks_left-- > 0 ? 1000 * MS : 9000 * MS;
}

/* A grant that was not renewed becomes late while its holder reports progress: it is told so, or has the
 * deadline, whenever that was. */
static void late_within_progress(void) {
    enum { DEADLINE_MS = 11000, TTL_MS = 10000, LOOKS = 8 };
    static struct lock lock = {.env = {.now_ns = now_or_later_ns}};
    lock.queue = lock_local_queue_new(&lock.env, TTL_MS * MS, true, false);
    looks_left = INT_MAX;
    CHECK_INT(enter(lock.queue, 'a'), LOCK_OK);
    hold(lock.queue, 'a', DEADLINE_MS * MS);
    for (int looks = 0; looks < LOOKS; looks++) {
        struct lock_grant grant = {.key = "key", .deadline_ns = 1};
        memcpy(grant.owner, owner_named('a'), sizeof grant.owner);
        looks_left = looks;
        enum lock_status status = lock_progress(&lock, &grant);
        CHECK(status == (looks == 0 ? LOCK_LOST : LOCK_OK));
        CHECK_INT(grant.deadline_ns, status == LOCK_OK ? DEADLINE_MS * MS : 1);
    }
    lock_local_queue_free(lock.queue);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a forgotten release", forgotten);
    harness_run("the first in the queue gives up", the_first_gives_up);
    harness_run("the deadline moves", moved);
    harness_run("lost while it is taken over", lost_while_taken_over);
    harness_run("a clock that is turned", turned_clock);
    harness_run("late while progress is reported", late_within_progress);
    return harness_finish();
}
