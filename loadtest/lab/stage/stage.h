/* The stage of one play: its events, its directory, its time. A scenario calls it from the main thread, and
 * reads from top to bottom without a check after each line: the stage keeps the first failure, and every call
 * after that does nothing. Such a play is `setup-failed`. */
#ifndef LOADTEST_LAB_STAGE_STAGE_H
#define LOADTEST_LAB_STAGE_STAGE_H

#include "loadtest/lab/events/event.h"

struct stage;

struct stage_options {
    struct event_play play; /* the stage sets `servers` */
    const char *directory;  /* of the play; it exists and is empty */
    const char *programs;   /* where seckill-lab, seckilld and the clock library are */
    FILE *events;           /* where the events go */
    void *ctx;              /* of a live play; NULL for all scenarios */
};

/* NULL when out of memory. */
struct stage *stage_open(const struct stage_options *options);

/* Ends all processes of the play, and writes what was recorded. Returns NULL, or what failed, valid until
 * stage_free(). */
const char *stage_end(struct stage *stage);
/* Copies the logs of its servers, NAME.log, to the directory `to`, which is made. What cannot be copied is
 * left. */
void stage_copy_logs(const struct stage *stage, const char *to);
/* Writes the verdict, the last line. False: the events could not be written. */
bool stage_tell_verdict(struct stage *stage, const struct event *verdict);
void stage_free(struct stage *stage);

/* ---- what failed ---- */

__attribute__((format(printf, 2, 3))) void stage_fail(struct stage *stage, const char *format, ...);
bool stage_failed(const struct stage *stage);

/* ---- time, and choice ---- */

/* The play begins: time 0. Before it servers and clients are started. */
void stage_begin(struct stage *stage);
/* Blocks until `t_ms` after the begin; returns at once if that is over. */
void stage_until(struct stage *stage, int64_t t_ms);
/* Blocks. */
void stage_pause(struct stage *stage, int64_t ms);
/* Milliseconds since the begin. */
int64_t stage_now_ms(const struct stage *stage);
/* A random number of the play's seed, from `least` to `most`. */
int64_t stage_random(struct stage *stage, int64_t least, int64_t most);
int64_t stage_ttl_ms(const struct stage *stage);

/* ---- events ---- */

/* From any thread. */
void stage_record(struct stage *stage, const struct event *event);
void stage_note(struct stage *stage, const char *text);
/* Records what the stock says of an item. */
void stage_record_stock(struct stage *stage, const char *item, int64_t initial, int64_t available,
                        int64_t sold);
/* stage_fault() records that a fault begins at `target`, stage_fault_over() that it ends, and
 * stage_record_fault() an event of another kind with the same members. */
void stage_record_fault(struct stage *stage, enum event_kind kind, const char *target, const char *what);
void stage_fault(struct stage *stage, const char *target, const char *what);
void stage_fault_over(struct stage *stage, const char *target, const char *what);

/* ---- for the parts of the stage ---- */

/* Adds a part, which ends before the stage: stage_end() calls end(part), the last added first. */
void stage_add(struct stage *stage, void (*end)(void *part), void *part);
const struct stage_options *stage_options(const struct stage *stage);
/* Sets the version of a server for the first line: "redis", "7.0.15". Before stage_begin(). */
void stage_add_version(struct stage *stage, const char *server, const char *version);
/* For loops that ask whether something is ready: sleeps a little and returns true, until the deadline has
 * passed or the stage has failed. */
bool stage_patience(struct stage *stage, int64_t deadline_ns);
/* The monotonic time in `ms` from now, in nanoseconds. */
int64_t stage_in_ms(int64_t ms);

/* For how long a server may take to be ready, and a client to answer, on a busy machine. */
enum { STAGE_PATIENCE_MS = 30000 };

#endif
