/* The runs of the page: what it can play, the control of the run that is going on, and the orders of the page
 * as JSON. */
#ifndef LOADTEST_LAB_SERVE_RUN_CONTROL_H
#define LOADTEST_LAB_SERVE_RUN_CONTROL_H

#include <jansson.h>

#include "loadtest/lab/scenarios/scenarios.h"

struct run_control;
struct run_order;
struct server;

/* ---- live plays (live_sale.c, live_lock.c) ----
 * A sale in the ways that the user has chosen, and a lock that the user breaks. They are played like
 * scenarios, and end when their time is up or somebody stops them. */

/* What a live play finds in stage_options.ctx. */
struct live {
    struct run_control *control;
    const struct run_order *order;
};

/* A way to sell: a strategy of seckilld, or its teaching strategy under a lock. */
struct live_way {
    const char *id; /* and the name of the item */
    const char *name, *about;
    bool safe; /* it does not oversell */
    const char *strategy;
    const char *lock; /* "redis", "etcd" or "zookeeper"; NULL: none */
};

/* The last one has the `id` NULL. */
extern const struct live_way live_ways[];
extern const struct scenario live_sale;

enum { LIVE_STOCK_MAX = 100000, LIVE_BUYERS_MAX = 512, LIVE_SECONDS_MAX = 30, LIVE_SERVERS = 3 };

/* A lock that the user can break. */
struct live_lock {
    const char *id, *name, *about;
    bool fence;                            /* its grants have a fencing token */
    bool clock;                            /* the clocks of its servers can be moved */
    const char *servers[LIVE_SERVERS + 1]; /* their names; NULL at the end */
    const char *master;                    /* the server that can be killed; NULL: none */
    const char *scheme, *options;          /* of the lock's URL; `options` may be NULL */
    struct server *(*start)(struct stage *stage, const char *name); /* one of its servers */
};

/* The last one has the `id` NULL. */
extern const struct live_lock live_locks[];
extern const struct scenario live_lock_scenario;

/* The clients of a live lock; NULL at the end. */
extern const char *const live_clients[];

/* ---- run control (run_control.c) ----
 * One run at a time. Threads of the HTTP server begin a run, inject a fault into it, or stop it. The main
 * thread takes the run and plays it, since processes must be started there (see base/servers/proc.h). Safe
 * from all threads. */

enum {
    RUN_ID_SIZE = 32,
    RUNS_KEPT = 16, /* with their events; the oldest makes room */
    RUN_PATH_SIZE = 300,
    RUN_WAYS = 2,
    RUN_TARGET_SIZE = 32,
    RUN_WHY_SIZE = 120
};

enum run_kind { RUN_SCENARIO, RUN_SALE, RUN_LOCK };

/* What is to be played. */
struct run_order {
    enum run_kind kind;
    int64_t seed;
    bool broken;                     /* a scenario: its broken play; a live play: its choices are not safe */
    const struct scenario *scenario; /* the scenario itself, or live_sale, or live_lock_scenario */
    /* Only for a sale: */
    const struct live_way *ways[RUN_WAYS]; /* the second may be NULL */
    int64_t stock, buyers, seconds;
    /* Only for a lock: */
    const struct live_lock *lock;
    bool fencing;
};

struct lab_run {
    char id[RUN_ID_SIZE]; /* unique over this server and earlier ones */
    char events[RUN_PATH_SIZE], logs[RUN_PATH_SIZE];
    struct run_order order;
    bool ended;
};

enum run_fault {
    RUN_FAULT_PAUSE, /* of a client */
    RUN_FAULT_RESUME,
    RUN_FAULT_KILL,
    RUN_FAULT_REVIVE,
    RUN_FAULT_CUT, /* of a server */
    RUN_FAULT_HEAL,
    RUN_FAULT_KILL_MASTER,
    RUN_FAULT_JUMP,
    RUN_FAULTS
};
extern const char *const run_fault_names[RUN_FAULTS];

/* A fault to inject, or to mend. */
struct run_injection {
    enum run_fault fault;
    char target[RUN_TARGET_SIZE]; /* a client or a server */
};

enum run_status {
    RUN_OK,
    RUN_BUSY,     /* another run is going on */
    RUN_UNKNOWN,  /* there is no such run, or it is not kept any more */
    RUN_ENDED,    /* the run has ended */
    RUN_REFUSED,  /* the fault makes no sense now */
    RUN_TIMED_OUT /* the main thread did not answer in time */
};

/* `directory` is where the events go; `session` begins the ids of runs. Returns NULL when out of memory. */
struct run_control *run_control_open(const char *directory, const char *session);
/* No thread may use it any more. */
void run_control_close(struct run_control *control);

/* For the threads of the server: */

/* Returns RUN_OK with the new run in `run`, or RUN_BUSY with the one that is going on. */
enum run_status run_control_begin(struct run_control *control, const struct run_order *order,
                                  struct lab_run *run);
/* Copies a run; `id` NULL: the newest. Returns false if there is none. */
bool run_control_find(struct run_control *control, const char *id, struct lab_run *run);
/* Blocks until the main thread has injected the fault, for ten seconds at most. With RUN_REFUSED, `why` has
 * the reason. */
enum run_status run_control_inject(struct run_control *control, const char *id,
                                   const struct run_injection *what, char why[RUN_WHY_SIZE]);
/* Asks the run to end early; does not wait for its end. */
enum run_status run_control_stop(struct run_control *control, const char *id);

/* For the main thread: */

/* Blocks until a run has been begun, and copies it. */
void run_control_take(struct run_control *control, struct lab_run *run);
void run_control_end(struct run_control *control);
/* Returns whether the run is to end early. */
bool run_control_stopping(struct run_control *control);
/* Waits for at most `wait_ms`. Returns true if `what` is to be injected; run_control_answer() must follow. */
bool run_control_next_injection(struct run_control *control, int64_t wait_ms, struct run_injection *what);
/* `why` NULL: it is done; otherwise the reason for the refusal. */
void run_control_answer(struct run_control *control, const char *why);

/* ---- orders as JSON (run_orders.c) ----
 * The catalogue of what the lab can play, which the page shows, and the orders and faults that the page
 * sends. Reading is strict: a member that is unknown, missing or out of range is an error. */

enum { RUN_ORDER_ERROR_SIZE = 200 };

/* "scenarios", "ways", "locks" and "limits" (of a sale). A new reference. */
json_t *run_orders_catalogue(void);

/* `seed` is taken if the order has none. Returns false, and what is wrong in `error`. */
bool run_order_read(json_t *json, int64_t seed, struct run_order *order, char error[RUN_ORDER_ERROR_SIZE]);
bool run_order_read_injection(json_t *json, struct run_injection *what, char error[RUN_ORDER_ERROR_SIZE]);

/* The order as it was read, with its seed; a new reference. */
json_t *run_order_write(const struct run_order *order);
/* "scenario", … */
const char *run_order_kind_name(enum run_kind kind);
/* The name that the page uses: "maotai", "redis", "" for a sale. */
const char *run_order_name(const struct run_order *order);

#endif
