/* Every lock that is safe, each with its store: tests of what holds for all of them. */
#ifndef LOCK_TEST_EVERY_LOCK_H
#define LOCK_TEST_EVERY_LOCK_H

#include "lock/test/tools.h"

/* The lock under test. */
extern struct every_lock {
    const char *url;
    bool first; /* of the locks with this kind of store; the others differ in what they renew, or in how they
                   find it */
    int slowness;                      /* of the store: tests of a slow store make fewer calls */
    int requests_least, requests_most; /* what an acquisition and its release cost that nothing disturbs */
    void (*forget)(const char *key);   /* makes the store lose the grant of a key; NULL: local: */
    void (*hang)(bool hangs);          /* pauses or resumes the store */
    /* With `first` only: */
    int (*count)(const char *key); /* how many hold the key in the store, or wait there; -1: fewer than a
                                      quorum of redlock's nodes have a holder */
    const char *marker;            /* in each request that acquires or releases the key "a" */
    bool multiplexes;              /* other replies share the connection with the key's */
    const char *proxied;           /* the URL of the same store, by proxies */
} every_lock;

/* A URL with one more option. */
const char *every_lock_url_with(const char *url, const char *option);
/* As proxy_set(), for all servers of the store; and how many connections that has cut. */
void every_lock_disturb(enum proxy_mode mode, int n, const char *after);
int every_lock_cuts(void);

struct every_lock_test {
    const char *name;
    void (*test)(void);
    bool once; /* with the first lock of each kind of store only: it is about what they share */
};

/* Starts all stores, and runs every test with every lock that has a store, or also with local:. */
void every_lock_run(const struct every_lock_test tests[], size_t count, bool also_local);

#endif
