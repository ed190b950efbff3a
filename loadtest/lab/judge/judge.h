/* The judge: what the events show. It knows nothing of scenarios: the same events, the same judgement. */
#ifndef LOADTEST_LAB_JUDGE_JUDGE_H
#define LOADTEST_LAB_JUDGE_JUDGE_H

#include "loadtest/lab/judge/books.h"
#include "loadtest/lab/judge/holds.h"
#include "loadtest/lab/judge/waits.h"

enum {
    /* A client that waited for so many times to live, while nobody else was granted the lock, is starved. */
    JUDGE_STARVED_TTLS = 6,
    /* With a queue a hand-over costs some six requests, whatever the number of waiters. If it costs more than
     * this, on average of so many hand-overs, waiters ask in vain: a herd. */
    JUDGE_HERD_REQUESTS = 12,
    JUDGE_HERD_HAND_OVERS = 16,
    JUDGE_SENTENCE_SIZE = 500
};

struct judgement {
    struct holds holds;
    struct books books;
    struct waits waits;
    int64_t double_writes; /* writes accepted from one of two holders, while both believed */
    int64_t refused_stale; /* writes refused, since a newer holder had read or written */
    /* Grants that the store did not have any more before their deadline: their client was told so when it
     * released, or another was granted the lock. A client that gives a grant up early has not lost it. */
    int64_t lost_grants;
    const struct event *first_loss; /* NULL: there is none */
    /* If the books are wrong: a write that was accepted though its grant had ended, and another had been
     * granted the lock since. NULL: there is none. */
    const struct event *late_write;
    bool starved, herd;
    uint64_t evidence[EVENT_EVIDENCE]; /* as in struct event */
    bool fault;                        /* one that no right lock, and no right sale, shows */
};

/* Judges the events before the verdict, if there is one. False when out of memory. */
bool judgement_make(const struct event_log *log, struct judgement *judgement);
void judgement_free(struct judgement *judgement);

/* The verdict: `reproduced` or `not-reproduced` if the play is broken, `held` or `violated` if it is fixed.
 * The caller fills in `n`, `t_ns` and `who`. `sentence` is part of it. */
void judgement_verdict(const struct judgement *judgement, const struct event_log *log, struct event *verdict,
                       char sentence[JUDGE_SENTENCE_SIZE]);

/* A play that was recorded, and what it shows. */
struct judged_play {
    struct event_log log; /* without its verdict */
    struct judgement judgement;
    struct event verdict; /* the recorded one; if there is none, that of the judgement */
};

/* Reads a file of events and judges it. False: `error` says why. */
bool judged_play_read(FILE *in, struct judged_play *play, char *error, size_t error_size);
void judged_play_free(struct judged_play *play);

#endif
