/* Run control: one run at a time. Threads of the HTTP server begin a run, inject a fault into it, or stop it.
 * The main thread takes the run and plays it, since processes must be started there (see
 * base/servers/proc.h). Safe from all threads. */
#ifndef LOADTEST_LAB_SERVE_RUN_CONTROL_H
#define LOADTEST_LAB_SERVE_RUN_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

struct run_control;
struct scenario;
struct live_way;
struct live_lock;

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
    RUN_FAULT_PAUSE,
    RUN_FAULT_RESUME,
    RUN_FAULT_KILL,
    RUN_FAULT_REVIVE,
    RUN_FAULT_CUT,
    RUN_FAULT_HEAL,
    RUN_FAULT_KILL_MASTER,
    RUN_FAULT_JUMP
};
enum { RUN_FAULTS = RUN_FAULT_JUMP + 1 };
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

/* ---- for the threads of the server ---- */

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

/* ---- for the main thread ---- */

/* Blocks until a run has been begun, and copies it. */
void run_control_take(struct run_control *control, struct lab_run *run);
void run_control_end(struct run_control *control);
/* Returns whether the run is to end early. */
bool run_control_stopping(struct run_control *control);
/* Waits for at most `wait_ms`. Returns true if `what` is to be injected; run_control_answer() must follow. */
bool run_control_next_injection(struct run_control *control, int64_t wait_ms, struct run_injection *what);
/* `why` NULL: it is done; otherwise the reason for the refusal. */
void run_control_answer(struct run_control *control, const char *why);

#endif
