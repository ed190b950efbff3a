/* Turns that are forgotten: they end with the deadline of the grant, and the next in line has it then. */
#include <pthread.h>
#include <string.h>

#include "lock/core/local_queue.h"
#include "test/harness.h"

enum { PATIENCE_MS = 20000 };

static const int64_t MS = 1000000;

static int64_t ahead_ns;

static int64_t now_ns(void *ctx) {
    (void)ctx;
    return harness_now_ms() * MS + ahead_ns;
}

static const struct lock_env env = {.now_ns = now_ns};

struct comer {
    pthread_t thread;
    struct lock_lines *lines;
    const char *owner;
    int64_t deadline_ns;
    enum lock_status status;
    _Atomic int64_t came_ns; /* 0: not yet */
};

/* Owners have a fixed size. */
static const char *owner_named(char c) {
    return harness_repeat(c, LOCK_OWNER_SIZE - 1);
}

static void *come(void *arg) {
    struct comer *comer = arg;
    struct lock_held held;
    comer->status = lock_lines_enter(comer->lines, "key", comer->owner, comer->deadline_ns, NULL, &held);
    comer->came_ns = now_ns(NULL);
    return NULL;
}

static void start(struct comer *comer, struct lock_lines *lines, char owner, int64_t deadline_ns) {
    *comer = (struct comer){.lines = lines, .owner = owner_named(owner), .deadline_ns = deadline_ns};
    CHECK_INT(pthread_create(&comer->thread, NULL, come, comer), 0);
    harness_pause_ms(20); /* so that they stand in this order */
}

static enum lock_status end(struct comer *comer) {
    pthread_join(comer->thread, NULL);
    return comer->status;
}

static enum lock_status enter(struct lock_lines *lines, char owner) {
    struct lock_held held;
    return lock_lines_enter(lines, "key", owner_named(owner), 0, NULL, &held);
}

static void hold(struct lock_lines *lines, char owner, int64_t deadline_ns) {
    struct lock_grant grant = {.key = "key", .deadline_ns = deadline_ns};
    struct lock_held held = {.deadline_ns = deadline_ns};
    memcpy(grant.owner, owner_named(owner), sizeof grant.owner);
    lock_lines_hold(lines, &grant, &held);
}

static bool leave(struct lock_lines *lines, char owner) {
    struct lock_held held;
    if (lock_lines_leave(lines, "key", owner_named(owner), false, &held) != LOCK_TURN_LAST)
        return false;
    lock_lines_end(lines, "key", owner_named(owner));
    return true;
}

/* `a` has the turn and forgets it `ms` from now. */
static struct lock_lines *open_forgotten(int64_t ms, int64_t *until_ns) {
    struct lock_lines *lines = lock_lines_new(&env, 10000 * MS, false, false);
    CHECK(lines != NULL);
    CHECK_INT(enter(lines, 'a'), LOCK_OK);
    *until_ns = now_ns(NULL) + ms * MS;
    hold(lines, 'a', *until_ns);
    return lines;
}

static void forgotten(void) {
    int64_t until_ns;
    struct lock_lines *lines = open_forgotten(100, &until_ns);
    struct comer next, behind;
    start(&next, lines, 'b', INT64_MAX);
    start(&behind, lines, 'c', INT64_MAX);
    CHECK_INT(end(&next), LOCK_OK);
    CHECK(next.came_ns >= until_ns);
    /* Who had it comes late, and ends nobody's turn but its own. */
    CHECK(!leave(lines, 'a'));
    CHECK_INT(behind.came_ns, 0);
    CHECK(leave(lines, 'b'));
    CHECK_INT(end(&behind), LOCK_OK);
    CHECK(leave(lines, 'c'));
    CHECK(!leave(lines, 'c'));
    lock_lines_free(lines);
}

/* The first in line gives up; the second does not wait past the deadline of the turn for that. */
static void the_first_gives_up(void) {
    int64_t until_ns;
    struct lock_lines *lines = open_forgotten(200, &until_ns);
    struct comer first, second;
    start(&first, lines, 'b', now_ns(NULL) + 50 * MS);
    start(&second, lines, 'c', now_ns(NULL) + PATIENCE_MS * MS);
    CHECK_INT(end(&first), LOCK_TIMEOUT);
    CHECK_INT(end(&second), LOCK_OK);
    CHECK(second.came_ns >= until_ns);
    CHECK(second.came_ns < second.deadline_ns - PATIENCE_MS / 2 * MS);
    lock_lines_free(lines);
}

/* The deadline is set, and moved, while somebody waits. */
static void moved(void) {
    int64_t until_ns;
    struct lock_lines *lines = open_forgotten(PATIENCE_MS, &until_ns);
    struct comer next;
    start(&next, lines, 'b', INT64_MAX);
    until_ns = now_ns(NULL) + 30 * MS;
    hold(lines, 'x', 0); /* not its own */
    hold(lines, 'a', until_ns);
    hold(lines, 'a', until_ns + 50 * MS);
    CHECK_INT(end(&next), LOCK_OK);
    CHECK(next.came_ns >= until_ns + 50 * MS);
    lock_lines_free(lines);
}

/* By the clock that was handed in. */
static void turned_clock(void) {
    int64_t until_ns;
    struct lock_lines *lines = open_forgotten(PATIENCE_MS, &until_ns);
    CHECK_INT(enter(lines, 'b'), LOCK_TIMEOUT);
    ahead_ns = PATIENCE_MS * MS;
    CHECK_INT(enter(lines, 'b'), LOCK_OK);
    ahead_ns = 0;
    lock_lines_free(lines);
    lock_lines_free(NULL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a forgotten turn", forgotten);
    harness_run("the first in line gives up", the_first_gives_up);
    harness_run("the deadline moves", moved);
    harness_run("a clock that is turned", turned_clock);
    return harness_finish();
}
