/* A worker: one thread with its loop, its HTTP server and its inventory. Workers share the listening address
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
    struct inventory *inventory; /* NULL once it has drained, or the time for that is up */
    uv_prepare_t prepare;
    uv_check_t check;
    struct mailbox mailbox;
    uv_timer_t housekeeping; /* watches the drain */
    int64_t drain_until_ms;
    _Atomic enum worker_store store; /* for other threads to see */
    _Atomic int connections;
    struct store_health_seen health; /* as it was told here last */
    struct metrics metrics;
    struct inventory_metrics stock_metrics;
};

/* Opens all that the worker needs on `listen_fd`, which is its own from then on. False on failure, with the
 * reason in `error`. */
bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, char *error,
                 size_t error_size);

/* Starts its thread, once all workers are open: a call such as /metrics looks at all of them. False on
 * failure. */
bool worker_start(struct worker *worker);

/* After service->draining was set: has the worker notice. worker_join() waits until it has ended. */
void worker_drain(struct worker *worker);
void worker_join(struct worker *worker);

#endif
