/* The desk: one run at a time. Threads of the server order a run, break something in it, or stop it; the main
 * thread takes the order and plays it, since processes must be started there (see base/servers/proc.h). Safe
 * from all threads. */
#ifndef LOADTEST_LAB_SERVE_DESK_H
#define LOADTEST_LAB_SERVE_DESK_H

#include <stdbool.h>
#include <stdint.h>

struct desk;
struct scenario;
struct live_way;
struct live_lock;

enum {
    DESK_ID_SIZE = 32,
    DESK_RUNS = 16, /* so many are kept, with their events */
    DESK_PATH_SIZE = 300,
    DESK_WAYS = 2,
    DESK_TARGET_SIZE = 32,
    DESK_WHY_SIZE = 120
};

enum desk_kind { DESK_SCENARIO, DESK_SALE, DESK_LOCK };

/* What is to be played. */
struct desk_order {
    enum desk_kind kind;
    int64_t seed;
    bool broken;                     /* it may go wrong: of a scenario its broken play, else by its choices */
    const struct scenario *scenario; /* of a scenario, or the live one of a sale or a lock */
    /* Of a sale: */
    const struct live_way *ways[DESK_WAYS]; /* the second may be NULL */
    int64_t stock, buyers, seconds;
    /* Of a lock: */
    const struct live_lock *lock;
    bool fencing;
};

struct desk_run {
    char id[DESK_ID_SIZE]; /* no other run has it, of this server or of an earlier one */
    char events[DESK_PATH_SIZE], logs[DESK_PATH_SIZE];
    struct desk_order order;
    bool ended;
};

enum desk_fault {
    DESK_PAUSE,
    DESK_RESUME,
    DESK_KILL,
    DESK_REVIVE,
    DESK_CUT,
    DESK_HEAL,
    DESK_KILL_MASTER,
    DESK_JUMP
};
enum { DESK_FAULTS = DESK_JUMP + 1 };
extern const char *const desk_fault_names[DESK_FAULTS];

/* What is to be broken, or mended. */
struct desk_break {
    enum desk_fault fault;
    char target[DESK_TARGET_SIZE]; /* a client or a server */
};

enum desk_status {
    DESK_OK,
    DESK_BUSY,     /* another run is going on */
    DESK_UNKNOWN,  /* there is no such run, or not any more */
    DESK_ENDED,    /* the run has ended */
    DESK_REFUSED,  /* it makes no sense now */
    DESK_TIMED_OUT /* it was not done in time */
};

/* Events are kept in `directory`, `session` begins the names of runs. NULL when out of memory. */
struct desk *desk_open(const char *directory, const char *session);
/* Nobody uses it any more. */
void desk_close(struct desk *desk);

/* ---- for the threads of the server ---- */

/* DESK_OK or DESK_BUSY; `run` is the new one, or the one that goes on. */
enum desk_status desk_begin(struct desk *desk, const struct desk_order *order, struct desk_run *run);
/* `id` NULL: the newest. False: there is none. */
bool desk_find(struct desk *desk, const char *id, struct desk_run *run);
/* Blocks until it is done, for ten seconds at most. DESK_REFUSED: `why` says why. */
enum desk_status desk_break(struct desk *desk, const char *id, const struct desk_break *what,
                            char why[DESK_WHY_SIZE]);
enum desk_status desk_stop(struct desk *desk, const char *id);

/* ---- for the main thread ---- */

/* Blocks until there is an order. */
void desk_take(struct desk *desk, struct desk_run *run);
void desk_end(struct desk *desk);
/* The run is to end early. */
bool desk_stopping(struct desk *desk);
/* Waits for so long. True: `what` is to be done, and desk_answer() must follow. */
bool desk_next_break(struct desk *desk, int64_t wait_ms, struct desk_break *what);
/* `why` NULL: it is done. */
void desk_answer(struct desk *desk, const char *why);

#endif
