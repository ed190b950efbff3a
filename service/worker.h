/* A worker: one thread with its loop, its HTTP server and its inventory. Workers share the listening address,
 * and nothing else. */
#ifndef SERVICE_WORKER_H
#define SERVICE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "inventory/inventory.h"
#include "service/background/mailbox.h"
#include "service/background/store_health.h"
#include "service/http/http.h"
#include "service/metrics.h"
#include "service/service.h"

/* The store, as a worker last saw it. */
enum worker_store { WORKER_STORE_UNTRIED, WORKER_STORE_UP, WORKER_STORE_DOWN };

struct worker {
    struct service *service;
    int index;
    pthread_t thread;
    uv_loop_t loop;
    struct http_server *http;
    struct inventory *inventory; /* NULL after the drain */
    uv_prepare_t prepare;
    uv_check_t check;
    struct mailbox mailbox;
    uv_timer_t housekeeping; /* watches the drain, and what is put back */
    int64_t opens_ms;        /* at the latest: the door */
    int64_t drain_until_ms;
    _Atomic enum worker_store store; /* for other threads */
    _Atomic int connections;
    struct metrics metrics;
    struct inventory_metrics stock_metrics;
    uint64_t put_back; /* when housekeeping came last */
    uint64_t put_back_logged, unkept_logged;
};

/* Opens everything on `listen_fd`, which the worker owns from then on. False on failure, with the reason in
 * `error`. */
bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, char *error,
                 size_t error_size);

/* Starts the thread, after all workers are open: a call such as /metrics reads all of them. False on failure.
 */
bool worker_start(struct worker *worker);

/* To be called after service->draining was set. worker_join() waits until the thread has ended. */
void worker_drain(struct worker *worker);
void worker_join(struct worker *worker);

#endif
