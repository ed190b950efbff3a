/* Workers: the threads that serve HTTP. */
#ifndef SERVICE_WORKER_H
#define SERVICE_WORKER_H

#include "service/http/http_server.h"
#include "service/loop_thread.h"

/* The state of the store when a worker saw it last. */
enum worker_store { WORKER_STORE_UNTRIED, WORKER_STORE_UP, WORKER_STORE_DOWN };

/* A worker: a loop thread with an HTTP server. Workers share the listening address, and nothing else. */
struct worker {
    struct loop_thread thread;
    int index;
    struct http_server *http;
    uv_prepare_t prepare;
    uv_check_t check;
    int64_t opens_ms;                /* by uv_now(): see worker_is_open() */
    _Atomic enum worker_store store; /* for any thread */
    _Atomic int connections;         /* for any thread */
    uint64_t put_back;               /* the counter when housekeeping came last */
    uint64_t put_back_logged;
};

/* Opens everything on `listen_fd`, which the worker owns from then on. False on failure, with the reason in
 * `error`. */
bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, char *error,
                 size_t error_size);

#endif
