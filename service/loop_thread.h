/* Loop threads: what a worker and the background thread have in common. */
#ifndef SERVICE_LOOP_THREAD_H
#define SERVICE_LOOP_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "service/metrics.h"

struct service;

/* A post: work that any thread hands to a loop thread. Lives in the poster's data until `run` is called. */
struct loop_post {
    struct loop_post *next;
    void (*run)(struct loop_post *post);
};

/* A thread with an event loop, an inventory of its own, and posts from other threads: each worker, and the
 * background thread. All members belong to that thread unless they say otherwise. */
struct loop_thread {
    struct service *service;
    uv_loop_t loop;
    struct inventory *inventory; /* NULL after the drain */
    uv_timer_t housekeeping;     /* four times a second, and more often during the drain */
    int64_t drain_until_ms;      /* by uv_now(); 0: the thread does not drain yet */
    struct metrics metrics;      /* any thread may read these two */
    struct inventory_metrics stock_metrics;
    uint64_t unkept_logged;

    pthread_t id;
    uv_async_t wake;
    pthread_mutex_t mutex; /* of `posts` */
    struct loop_post *posts;
    void (*on_drain)(struct loop_thread *thread);
    _Atomic bool ended; /* for any thread */
};

/* Opens the loop and the inventory. `on_housekeeping` gets `ctx` as the data of the timer. `on_drain` (may
 * be NULL) is called once, on the thread, when the drain begins. False on failure, with the reason in
 * `error`. */
bool loop_thread_open(struct loop_thread *thread, struct service *service, uv_timer_cb on_housekeeping,
                      void (*on_drain)(struct loop_thread *thread), void *ctx, char *error,
                      size_t error_size);

/* Starts the thread, after all loop threads are open: a call such as /metrics reads all of them. False on
 * failure. */
bool loop_thread_start(struct loop_thread *thread);

/* From any thread: has `run` called on the thread. */
void loop_thread_post(struct loop_thread *thread, struct loop_post *post,
                      void (*run)(struct loop_post *post));

/* On the thread: logs that a failover may have lost more than the inventory had kept, if that has happened
 * since the last call. */
void loop_thread_log_unkept(struct loop_thread *thread);

/* From the main thread, after service->draining was set: has the thread see that. */
void loop_thread_drain(struct loop_thread *thread);
/* On the thread, during the drain: true if the time for the drain is up, or if `idle` (nothing is in flight)
 * and all that was acknowledged is on replicas. `open`: how much is on no replica yet. The owner closes the
 * inventory then, which answers what is still in flight (UNKNOWN or UNAVAILABLE). */
bool loop_thread_is_drained(struct loop_thread *thread, bool idle, int *open);
/* On the thread: closes its handles. The loop ends when the owner has closed its own. */
void loop_thread_end(struct loop_thread *thread);
/* From the main thread: waits for the end. No thread may post any more. */
void loop_thread_join(struct loop_thread *thread);

#endif
