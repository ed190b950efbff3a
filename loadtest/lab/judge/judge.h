/* The judge: computes from the events of a play what went wrong, and says it in a verdict. It knows nothing
 * of scenarios: the same events give the same judgement. */
#ifndef LOADTEST_LAB_JUDGE_JUDGE_H
#define LOADTEST_LAB_JUDGE_JUDGE_H

#include "loadtest/lab/events/event.h"

/* ---- lock holds (lock_holds.c): for each grant, how long its client believed that it held the lock, and
 * where two beliefs overlap ---- */

/* A client believes from the answer to its request until it sends the release, hears that the grant is lost,
 * or the deadline passes. A request whose answer is unknown may have been granted: its client may hold the
 * lock for a time to live. */
struct lock_hold {
    const char *who, *key;
    bool possible;    /* it is not known whether the lock was granted */
    uint64_t grant;   /* 0 if the hold is only possible */
    uint64_t begun_n; /* the event acquire.ok or acquire.unknown */
    uint64_t ended_n; /* 0: the deadline passed, or the play ended */
    int64_t from_ns, to_ns;
    int64_t until_ns; /* the deadline, as the last renewal moved it */
};

/* Two clients held one key at the same time. */
struct lock_overlap {
    const struct lock_hold *one, *other; /* `other` began later */
    int64_t from_ns, to_ns;
};

struct lock_holds {
    struct lock_hold *holds; /* in the order of their grants */
    size_t count;
    struct lock_overlap *overlaps; /* of what clients believe, sorted by key and begin */
    size_t overlap_count;
    int64_t overlap_ns; /* the time in which two clients or more believed, summed over all keys */
};

/* Returns false when out of memory. The holds point into the log. */
bool lock_holds_find(const struct event_log *log, struct lock_holds *holds);
void lock_holds_free(struct lock_holds *holds);

/* Returns NULL if no hold has this grant. */
struct lock_hold *lock_holds_of_grant(const struct lock_holds *holds, uint64_t grant);

/* ---- the judgement ---- */

enum {
    /* A client is starved if it waited for longer than this, and nobody was granted the lock meanwhile. */
    JUDGE_STARVED_TTLS = 6,
    /* With a queue a hand-over costs some six requests, whatever the number of waiters. If it costs more than
     * JUDGE_HERD_REQUESTS on average over at least JUDGE_HERD_HAND_OVERS, waiters ask in vain: a herd. */
    JUDGE_HERD_REQUESTS = 12,
    JUDGE_HERD_HAND_OVERS = 16,
    JUDGE_SENTENCE_SIZE = 500
};

/* What the stock acknowledged, compared with what it says that it has sold and has left; over all items. */
struct stock_audit {
    int64_t oversold;     /* units that were sold beyond the initial stock */
    int64_t lost_updates; /* units that were sold and are still on the shelf: a later write was computed
                             without them */
    int64_t vanished;     /* units whose sale was acknowledged, and is not in the stock at the end */
    int64_t torn;         /* requests for several items of which some were sold and others were not */
};

/* How long clients waited for the lock, and what the waiting cost the store. */
struct lock_waits {
    int64_t starved_ns;          /* the longest time that a client waited while nobody was granted the lock */
    const struct event *starved; /* that client's request; NULL: nobody waited */
    /* Counted only for keys that each holder released in time, since all waiters have to ask when a lease
     * runs out: grants after the first one, and the requests of all who asked (0: not known). */
    int64_t hand_overs, requests;
};

struct judgement {
    struct lock_holds holds;
    struct stock_audit stock;
    struct lock_waits waits;
    int64_t double_writes; /* accepted writes of a client that believed in its lock while another did too */
    int64_t refused_stale; /* writes refused because a newer holder had read or written */
    /* Grants that the store dropped before their deadline: the client was told so when it released, or
     * another client was granted the lock. A client that releases early has not lost its grant. */
    int64_t lost_grants;
    const struct event *first_loss; /* NULL: no grant was lost */
    /* If the stock is wrong: a write that was accepted after its grant had ended and another client had been
     * granted the lock. NULL: there is none. */
    const struct event *late_write;
    bool starved, herd;
    uint64_t evidence[EVENT_EVIDENCE]; /* as in struct event */
    bool fault; /* the play shows something that no right lock and no right sale shows */
};

/* Judges the events before the verdict, if there is one. Returns false when out of memory. */
bool judgement_make(const struct event_log *log, struct judgement *judgement);
void judgement_free(struct judgement *judgement);

/* Makes the verdict: `reproduced` or `not-reproduced` if the play is broken, `held` or `violated` if it is
 * fixed. It points to `sentence`, which is ASCII whatever the names in the events. The caller fills in `n`,
 * `t_ns` and `who`. */
void judgement_verdict(const struct judgement *judgement, const struct event_log *log, struct event *verdict,
                       char sentence[JUDGE_SENTENCE_SIZE]);

/* A recorded play, and what it shows. */
struct judged_play {
    struct event_log log; /* without its verdict */
    struct judgement judgement;
    struct event verdict; /* the recorded one; if there is none, that of the judgement */
};

/* Each reads a file of events and judges it. Returns false, and the reason in `error`, if that fails. */
bool judged_play_read(FILE *in, struct judged_play *play, char *error, size_t error_size);
bool judged_play_read_file(const char *path, struct judged_play *play, char *error, size_t error_size);
void judged_play_free(struct judged_play *play);

#endif
