/* Every lock that is safe, each with its store: tests of what holds for all of them. */
#ifndef LOCK_TEST_EVERY_LOCK_H
#define LOCK_TEST_EVERY_LOCK_H

#include "lock/test/tools.h"

/* The lock under test. */
extern struct every_lock {
    const char *url;
    void (*forget)(
        const char *key);     /* makes the store lose the grant of a key; NULL: the lock has no store */
    void (*hang)(bool hangs); /* pauses or resumes the store; NULL: the lock has no store */
    int slowness;             /* of the store: tests of a slow store make fewer calls */
    /* What an acquisition and its release cost that nothing disturbs. */
    int requests_least, requests_most;
} every_lock;

struct every_lock_test {
    const char *name;
    void (*test)(void);
};

/* Starts all stores, and runs every test with every lock. */
void every_lock_run(const struct every_lock_test tests[], size_t count);

#endif
