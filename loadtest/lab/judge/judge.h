/* The judge: what the events show. It knows nothing of scenarios: the same events, the same judgement. */
#ifndef LOADTEST_LAB_JUDGE_JUDGE_H
#define LOADTEST_LAB_JUDGE_JUDGE_H

#include "loadtest/lab/judge/holds.h"

/* A client that waited for so many times to live, while nobody else was granted the lock, is starved. */
enum { JUDGE_STARVED_TTLS = 6, JUDGE_SENTENCE_SIZE = 400 };

struct judgement {
    struct holds holds;
    int64_t oversold; /* units that were sold and were not there */
    int64_t
        lost_updates; /* units that were sold and are still there: a later write was computed without them */
    int64_t double_writes; /* writes accepted from one of two holders, while both believed */
    int64_t refused_stale; /* writes refused, since a newer holder had written */
    int64_t lost_grants;   /* grants lost before their deadline */
    int64_t longest_wait_ns;
    int64_t starved_ns;          /* the longest time that a client waited, and nobody was granted the lock */
    const struct event *starved; /* its request; NULL: nobody waited */
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
