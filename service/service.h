/* The service: its workers, its admin token, and what its threads share. */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "service/auth/auth.h"
#include "service/background/background.h"
#include "service/background/lock_switch.h"
#include "service/config.h"
#include "service/http/http_server.h"
#include "service/loop_thread.h"

/* ---- workers (worker.c): the threads that serve HTTP ---- */

/* The state of the store when a worker saw it last. */
enum worker_store { WORKER_STORE_UNTRIED, WORKER_STORE_UP, WORKER_STORE_DOWN };

enum { WORKER_DOORS = 2, WORKER_OPERATORS_MAX = 1024 /* connections at --operator-listen */ };

/* A worker: a loop thread with an HTTP server, or two. Workers share the listening addresses, and nothing
 * else. */
struct worker {
    struct loop_thread thread;
    int index;
    /* The address of buyers, and that of operators; without --operator-listen the second is NULL, and the
     * first serves everything. */
    struct http_server *doors[WORKER_DOORS];
    struct auth_view *auth; /* who calls it */
    uv_prepare_t prepare;
    uv_check_t check;
    int64_t opens_ms;                /* by uv_now(): see worker_is_open() */
    _Atomic enum worker_store store; /* for any thread */
    _Atomic int connections;         /* for any thread */
    uint64_t put_back;               /* the counter when housekeeping came last */
    uint64_t put_back_logged;
};

/* Opens everything on the listening sockets, which the worker owns from then on; `operator_fd` -1: there is
 * none. False on failure, with the reason in `error`. */
bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, int operator_fd,
                 char *error, size_t error_size);

/* ---- the service ---- */

struct service {
    struct config config;
    struct auth *auth;
    struct store_clock clock;
    struct lock_switch *lock_switch;
    struct pool *pool; /* for jobs that block */
    _Atomic bool draining;
    struct worker *workers; /* config.workers of them */
    struct background background;
    struct purchases_first purchases_first;
    struct store_health health;
    _Atomic bool put_back; /* a record of the journal was put back: the background thread is to compare the
                            * journal with the items */
};

/* Returns the loop thread with this number: the workers come first, and the background thread, whose number
 * is config.workers, comes last. */
static inline struct loop_thread *service_thread(struct service *service, int i) {
    return i < service->config.workers ? &service->workers[i].thread : &service->background.thread;
}

/* ---- the admin token (admin_token.c) ---- */

/* If the operator has chosen no token, makes one up and returns true: without one nobody could make the calls
 * of operators, or all could. */
bool admin_token_make_up(struct config *config);
/* Keeps a made-up token in a file that only this user can read, and logs its path: many read the log itself.
 * A terminal shows the token, too, unless the log is in JSON. To be called once this process serves `listen`,
 * so that it takes no other process's file. */
void admin_token_keep(const char *token, const char *listen);

/* ---- failpoints of transactions and locks, for tests (loop_thread.c) ---- */

/* Called before and after each lock, write and unlock of a transaction, with the name of the step, on the
 * thread that does it. NULL, unless a program is linked with a definition of its own: that of test/stops.c
 * ends or stops the process at a step. */
extern void (*service_at_failpoint)(void *ctx, const char *step);

#endif
