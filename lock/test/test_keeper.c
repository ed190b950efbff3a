/* What its holder forgets lasts in some stores: the keeper takes it back. The store is made up here, and lets
 * everybody in; what it is asked is counted. */
#include <pthread.h>
#include <string.h>

#include "lock/keeper.h"
#include "lock/test/tools.h"

enum { TTL_MS = 60 };

static const int64_t MS = 1000000;

static int64_t now_ns(void *ctx) {
    (void)ctx;
    return harness_now_ms() * MS;
}

static const struct lock_env env = {.now_ns = now_ns};

/* ---- the store ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int failures, withdrawn, lost; /* how many calls will fail; did not */
static char withdrawn_owner[LOCK_OWNER_SIZE];

static enum lock_status withdraw(void *store, const char *key, const char *owner) {
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

static void on_lost(void *layer, const struct lock_grant *grant) {
    (void)layer;
    (void)grant;
    lost++;
}

/* ---- the tests ---- */

static struct lock_lines *lines;
static struct lock_keeper *keeper;

static void end(void *arg) {
    (void)arg;
    lock_keeper_stop(keeper);
    lock_keeper_free(keeper);
    lock_lines_free(lines);
}

static void begin(bool lasts, int that_fail) {
    static struct lock_backend backend;
    backend = (struct lock_backend){.lasts = lasts, .withdraw = withdraw};
    failures = that_fail;
    withdrawn = lost = 0;
    lines = lock_lines_new(&env, TTL_MS * MS, false, lasts);
    struct lock_keeper_config config = {
        .backend = &backend, .env = &env, .lines = lines, .ttl_ns = TTL_MS * MS, .on_lost = on_lost};
    keeper = lock_keeper_open(&config);
    CHECK(keeper != NULL);
    harness_defer(end, NULL);
}

/* The store knows the holder by another name: it has had the turn passed on to it. */
static void hold(const char *key, int ms) {
    struct lock_grant grant = {.deadline_ns = now_ns(NULL) + ms * MS};
    struct lock_held held;
    strncpy(grant.key, key, LOCK_KEY_MAX);
    memcpy(grant.owner, harness_repeat('a', LOCK_OWNER_SIZE - 1), LOCK_OWNER_SIZE);
    CHECK_INT(lock_lines_enter(lines, key, grant.owner, 0, NULL, &held), LOCK_OK);
    held = (struct lock_held){.deadline_ns = grant.deadline_ns};
    memcpy(held.owner, harness_repeat('b', LOCK_OWNER_SIZE - 1), LOCK_OWNER_SIZE);
    lock_lines_hold(lines, &grant, &held);
    lock_keeper_rouse(keeper);
}

static void taken_back(void) {
    int once = 1, twice = 2;
    begin(true, 0);
    hold("key", TTL_MS);
    CHECK(harness_wait(is_withdrawn, &once, PATIENCE_MS));
    CHECK_STR(withdrawn_owner, harness_repeat('b', LOCK_OWNER_SIZE - 1));
    /* Once, and nobody is told that a grant was lost which simply ran out. */
    hold("another", TTL_MS);
    CHECK(harness_wait(is_withdrawn, &twice, PATIENCE_MS));
    harness_pause_ms(TTL_MS);
    CHECK_INT(read_count(&withdrawn), 2);
    CHECK_INT(lost, 0);
}

/* A store that forgets by itself is not asked for each grant that ran out. */
static void left_alone(void) {
    begin(false, 0);
    hold("key", TTL_MS);
    harness_pause_ms(2 * TTL_MS);
    CHECK_INT(read_count(&withdrawn), 0);
}

/* For longer than other stores would be asked. */
static void not_given_up(void) {
    int once = 1;
    begin(true, 2); /* 2 ttl are over before the third */
    hold("key", TTL_MS);
    CHECK(harness_wait(has_failed, NULL, PATIENCE_MS));
    CHECK(harness_wait(is_withdrawn, &once, PATIENCE_MS));
}

/* A store that will not is not asked ten times a second for ever: at once, then after 0.1, 0.2, 0.4, 0.8 s.
 */
static void asked_less_often(void) {
    int once = 1;
    begin(true, 4);
    int64_t began_ms = harness_now_ms();
    hold("key", 0);
    CHECK(harness_wait(is_withdrawn, &once, PATIENCE_MS));
    CHECK(harness_now_ms() - began_ms >= 200 + 400 + 800);
}

/* Who waits takes over what is held, and has to give it back. */
static void taken_over(void) {
    begin(true, 0);
    hold("key", 500);
    struct lock_held held;
    const char *owner = harness_repeat('c', LOCK_OWNER_SIZE - 1);
    CHECK_INT(lock_lines_enter(lines, "key", owner, now_ns(NULL) + PATIENCE_MS * MS, NULL, &held), LOCK_OK);
    CHECK_STR(held.owner, harness_repeat('b', LOCK_OWNER_SIZE - 1));
    harness_pause_ms(TTL_MS);
    CHECK_INT(read_count(&withdrawn), 0);
    lock_lines_end(lines, "key", owner);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("what is forgotten is taken back", taken_back);
    harness_run("what the store forgets is not", left_alone);
    harness_run("it is tried until it is done", not_given_up);
    harness_run("but less and less often", asked_less_often);
    harness_run("who waits takes it over", taken_over);
    return harness_finish();
}
