/* Events: what clients, stores, faults and the stock did, in one stream with one clock. A file of events has
 * one JSON object a line: first the play, then the events, and the verdict at the end ("seckill-events/1").
 * Verdict, picture, page and trace are computed from these lines alone. */
#ifndef LOADTEST_LAB_EVENTS_EVENT_H
#define LOADTEST_LAB_EVENTS_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum event_kind {
    EVENT_ACQUIRE_SENT,
    EVENT_ACQUIRE_OK,
    EVENT_ACQUIRE_BUSY,
    EVENT_ACQUIRE_TIMEOUT,
    EVENT_ACQUIRE_UNKNOWN,
    EVENT_RENEW_SENT,
    EVENT_RENEW_OK,
    EVENT_RENEW_LOST,
    EVENT_RENEW_UNKNOWN,
    EVENT_RELEASE_SENT,
    EVENT_RELEASE_OK,
    EVENT_RELEASE_NOT_OWNER,
    EVENT_RELEASE_UNKNOWN,
    EVENT_WRITE_SENT,
    EVENT_WRITE_ACCEPTED,
    EVENT_WRITE_REFUSED,
    EVENT_WRITE_UNKNOWN,
    EVENT_HOLDER_PAUSED,
    EVENT_HOLDER_RESUMED,
    EVENT_FAULT_START,
    EVENT_FAULT_END,
    EVENT_STORE_KEY,
    EVENT_SERVER_ROLE,
    EVENT_SERVER_CLOCK,
    EVENT_SERVER_DOWN,
    EVENT_SERVER_UP,
    EVENT_SALE_STOCK,
    EVENT_SALE_CROWD,
    EVENT_NOTE,
    EVENT_VERDICT,
    EVENT_KINDS
};

/* "acquire.sent", … */
const char *event_kind_name(enum event_kind kind);

enum { EVENT_EVIDENCE = 32, EVENT_TEXTS = 12 };

/* A member that the kind does not have is 0 or NULL. */
struct event {
    uint64_t n;   /* counts from 1 */
    int64_t t_ns; /* since the play began */
    enum event_kind kind;
    uint64_t cause; /* the event that led to this one; 0: none */
    uint64_t op;    /* ties a request to its answer; 0: none */
    uint64_t grant; /* 0: none */
    uint64_t fence;
    int64_t until_ns; /* the grant's deadline */
    int64_t requests; /* to the store, between acquire.sent and this answer; 0: not known */
    int64_t quantity, initial, available, sold, jump_ms;
    /* sale.crowd: the totals so far, and speed and latencies since the last such event. */
    int64_t accepted, rejected, unknown, per_second, p50_us, p99_us;
    union {
        struct {
            const char *who, *key, *item, *text;
            const char *reason;                /* of a refused write */
            const char *what, *target;         /* of a fault or a pause */
            const char *server, *owner, *role; /* owner "": nobody */
            const char *outcome, *sentence;    /* of the verdict */
        };
        const char *texts[EVENT_TEXTS]; /* the same, for who copies them all */
    };
    /* The verdict. */
    int64_t overlap_ms, oversold, double_writes, refused_stale;
    uint64_t evidence[EVENT_EVIDENCE]; /* the `n` of events; ends with a 0, or is full */
};

/* The first line. */
struct event_play {
    const char *scenario;
    const char *play; /* "broken" or "fixed" */
    int64_t seed, ttl_ms;
    struct json_t *servers; /* of jansson; name: version */
};

struct event_log {
    struct event_play play;
    struct event *events; /* in the order of the file, which is that of `n`; times may go back a little */
    size_t count;
    struct json_t *lines; /* of jansson; owns all texts */
};

/* Each writes one line and flushes it. Returns false if it could not be written. */
bool event_play_write(FILE *out, const struct event_play *play);
bool event_write(FILE *out, const struct event *event);

/* Reads a file. Returns false if a line is wrong; then `error` says which and how, and the log is empty. */
bool event_log_read(FILE *in, struct event_log *log, char *error, size_t error_size);
void event_log_free(struct event_log *log);

/* ---- the recorder (event_recorder.c) ----
 * It takes events from every thread of the lab, sorts them by time, numbers them, and writes them. */

struct recorder;

/* For how long an event is held back: an earlier one of another process may still be in flight. An event that
 * comes later than that is written out of order. */
enum { RECORDER_HOLD_MS = 40 };

/* Writes the first line, and events to `out` from then on. `start_ns`: the time of the play's begin,
 * monotonic. NULL when out of memory. */
struct recorder *recorder_new(FILE *out, const struct event_play *play, int64_t start_ns);

/* Copies the event. Its times are monotonic; `t_ns` 0 is now. The recorder sets `n`, and in an answer without
 * a `cause` it sets that to the number of the request. From any thread. */
void recorder_add(struct recorder *recorder, const struct event *event);

/* Writes the events that have been held back for long enough; with `all`, every event. */
void recorder_flush(struct recorder *recorder, bool all);

/* Writes all events, then the verdict. False: something could not be written. */
bool recorder_end(struct recorder *recorder, const struct event *verdict);
void recorder_free(struct recorder *recorder);

#endif
