/* What watches tell, written down; and which member serves. */
#ifndef LOCK_LIBETCD_TEST_SEEN_H
#define LOCK_LIBETCD_TEST_SEEN_H

#include <pthread.h>

#include "lock/libetcd/test/tools.h"

/* One watch. Lives until the program ends: a client that is closed when the test ends still calls it. */
struct seen {
    struct etcd_watch *watch;
    int64_t base; /* revisions are written as so many after this one */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char text[4096]; /* what came but progress: "created@0 a=1@1 -a@2(1) compacted@3 ended:denied" */
    size_t used;
    size_t calls, events, progress;
    int64_t progress_revision;
    bool held;                   /* the next call waits in the callback until this is false */
    bool holds;                  /* it does */
    bool closed;                 /* nothing may come any more */
    void (*then)(struct seen *); /* after it was written down, from the callback */
    void *arg;
};

/* Begins a watch as `config` says, but for the callback. */
struct seen *seen_watch(struct etcd *etcd, const struct etcd_watch_config *config, int64_t base);
/* Waits until exactly this was told, and a moment longer. */
void seen_is(struct seen *seen, const char *text);
/* … until something with this in it was. */
void seen_has(struct seen *seen, const char *text);
void seen_created(struct seen *seen);
size_t seen_events(struct seen *seen);
/* Cancels it; whatever comes after that fails the test. */
void seen_cancel(struct seen *seen);
/* From now on this is called at the end of each callback. */
void seen_then(struct seen *seen, void (*then)(struct seen *), void *arg);
/* The client's loop comes to a halt in the next callback of this watch. */
void seen_hold(struct seen *seen);
void seen_wait_held(struct seen *seen);
void seen_release(struct seen *seen);

/* Of this key. */
struct etcd_watch_config seen_key(const char *key);
/* The store's. */
int64_t seen_revision(struct etcd *etcd);
void seen_delete(struct etcd *etcd, const char *key);

/* A number that the server tells at /metrics, by the start of its line; -1: it is not there. */
int64_t seen_metric(const struct etcd_server *server, const char *start);
/* Which of them serves a stream of this method ("Watch", "LeaseKeepAlive"); waits until one does. */
int seen_serving(const struct etcd_server *servers, int count, const char *method);

#endif
