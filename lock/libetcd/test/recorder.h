/* Records the callbacks of a watch; finds the member that serves a stream. */
#ifndef LOCK_LIBETCD_TEST_RECORDER_H
#define LOCK_LIBETCD_TEST_RECORDER_H

#include <pthread.h>

#include "lock/libetcd/test/tools.h"

/* One watch. Lives until the program ends: a client that is closed when the test ends still calls it. */
struct recorder {
    struct etcd_watch *watch;
    int64_t base; /* revisions are written as so many after this one */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char text[4096]; /* what came but progress: "created@0 a=1@1 -a@2(1) compacted@3 ended:denied" */
    size_t used;
    size_t calls, events, progress;
    int64_t progress_revision;
    bool held;                       /* the next call waits in the callback until this is false */
    bool holds;                      /* it does */
    bool closed;                     /* nothing may come any more */
    void (*then)(struct recorder *); /* after it was written down, from the callback */
    void *arg;
};

/* Begins a watch as `config` says, but for the callback. */
struct recorder *recorder_watch(struct etcd *etcd, const struct etcd_watch_config *config, int64_t base);
/* Waits until exactly this was told, and a moment longer. */
void recorder_is(struct recorder *recorder, const char *text);
/* … until something with this in it was. */
void recorder_has(struct recorder *recorder, const char *text);
void recorder_created(struct recorder *recorder);
size_t recorder_events(struct recorder *recorder);
/* Cancels it; whatever comes after that fails the test. */
void recorder_cancel(struct recorder *recorder);
/* From now on this is called at the end of each callback. */
void recorder_then(struct recorder *recorder, void (*then)(struct recorder *), void *arg);
/* The client's loop comes to a halt in the next callback of this watch. */
void recorder_hold(struct recorder *recorder);
void recorder_wait_held(struct recorder *recorder);
void recorder_release(struct recorder *recorder);

/* Of this key. */
struct etcd_watch_config recorder_key(const char *key);
/* The store's. */
int64_t recorder_revision(struct etcd *etcd);
void recorder_delete(struct etcd *etcd, const char *key);

/* A number that the server tells at /metrics, by the start of its line; -1: it is not there. */
int64_t recorder_metric(const struct etcd_server *server, const char *start);
/* Which of them serves a stream of this method ("Watch", "LeaseKeepAlive"); waits until one does. */
int recorder_serving(const struct etcd_server *servers, int count, const char *method);

#endif
