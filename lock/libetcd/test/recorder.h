/* Records the callbacks of a watch. */
#ifndef LOCK_LIBETCD_TEST_RECORDER_H
#define LOCK_LIBETCD_TEST_RECORDER_H

#include <pthread.h>

#include "lock/libetcd/test/tools.h"

/* One watch. Lives as long as the program: a client that is closed when the test ends still calls it. */
struct recorder {
    struct etcd_watch *watch;
    int64_t base; /* revisions in `text` are relative to it */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char text[4096]; /* the callbacks except progress: "created@0 a=1@1 -a@2(1) compacted@3 ended:denied" */
    size_t used;
    size_t calls, events, progress;
    int64_t progress_revision;
    bool held;                       /* the next call waits in the callback until this is false */
    bool holds;                      /* a callback waits */
    bool closed;                     /* no callback may follow */
    void (*then)(struct recorder *); /* called at the end of the callback */
    void *arg;
};

/* A client of the server, and the store's revision, from which a test counts. */
struct recorder_start {
    struct etcd *etcd;
    int64_t base;
};

struct recorder_start recorder_begin(const struct etcd_server *server);

/* Starts a watch with `config`, except its callback. */
struct recorder *recorder_watch(struct etcd *etcd, const struct etcd_watch_config *config, int64_t base);
/* The same for one key, and nothing else. */
struct recorder *recorder_watch_key(struct etcd *etcd, const char *key, int64_t base);
/* Waits until the text is exactly this, and a moment longer. */
void recorder_is(struct recorder *recorder, const char *text);
/* Waits until the text contains this. */
void recorder_has(struct recorder *recorder, const char *text);
void recorder_created(struct recorder *recorder);
size_t recorder_events(struct recorder *recorder);
/* Cancels the watch; a later callback fails the test. */
void recorder_cancel(struct recorder *recorder);
/* Calls `then` at the end of each later callback. */
void recorder_then(struct recorder *recorder, void (*then)(struct recorder *), void *arg);
/* The next callback of this watch blocks the client's loop. */
void recorder_hold(struct recorder *recorder);
void recorder_wait_held(struct recorder *recorder);
void recorder_release(struct recorder *recorder);

/* A configuration for this key. */
struct etcd_watch_config recorder_key(const char *key);
/* The store's. */
int64_t recorder_revision(struct etcd *etcd);
void recorder_delete(struct etcd *etcd, const char *key);

/* A value of the server's /metrics, by the start of its line; -1: absent. */
int64_t recorder_metric(const struct etcd_server *server, const char *start);

#endif
