/* One connection to a Redis, shared by the threads that call over it. Not for users.
 *
 * Commands are answered in the order in which they were written; one of those who wait for an answer reads
 * for all of them (D. C. Schmidt et al., "Leader/Followers", PLoP 2000). While answers are under way commands
 * gather, and then leave as one. So a lone caller costs one write and one read, with no thread in between,
 * and a crowd shares both. */
#ifndef LOCK_REDIS_CONNECTION_H
#define LOCK_REDIS_CONNECTION_H

#include <semaphore.h>

#include "base/redis_target.h"
#include "lock/core/env.h"

enum redis_answer_type {
    REDIS_ANSWER_NIL,
    REDIS_ANSWER_INTEGER,
    REDIS_ANSWER_TEXT,
    REDIS_ANSWER_LIST, /* no command of ours is answered by one, and it is not kept */
    REDIS_ANSWER_ERROR
};

enum { REDIS_ANSWER_TEXT_SIZE = 160 };

/* A reply, as far as locks need it. */
struct redis_answer {
    enum redis_answer_type type;
    int64_t integer;                   /* INTEGER */
    char text[REDIS_ANSWER_TEXT_SIZE]; /* TEXT and ERROR, cut where it is longer */
};

/* A call under way; the caller's own. */
struct redis_call {
    struct redis_call *next;
    struct redis_answer *answer;
    int64_t until_ns; /* answered by then, or the connection is given up */
    uint64_t ends_at; /* where in the stream of bytes written its command ends */
    enum lock_status status;
    bool done;
    bool told;  /* another thread has finished it, and posts */
    bool leads; /* named by whoever led before, who has posted */
    bool left;  /* its caller has gone, and this is a copy; its answer is thrown away */
    sem_t ready;
    /* Counts the posts. What is written before one is read after it: the semaphore sees to that as well, but
     * thread sanitizers do not know sem_clockwait(). */
    _Atomic int posts;
};

struct redis_link;

/* Connects with the first call. A call that is not answered within `timeout_ms` breaks the connection, and
 * with it all calls behind it. `env` is told what fails, and may be NULL. NULL when out of memory. */
struct redis_link *redis_link_open(const struct redis_target *target, int timeout_ms,
                                   const struct lock_env *env);
/* Nobody may be in a call. */
void redis_link_close(struct redis_link *link);

/* The server is a replica, which cannot write: its name may mean another one by now. So the connection is
 * left once nobody waits on it, and nothing is sent by it any more. */
bool redis_answer_is_replica(const struct redis_answer *answer);

/* Tells `env` that this server failed, where only the caller knows. */
void redis_link_tell(const struct redis_link *link, const char *why);

/* LOCK_OK: answered, if perhaps with an ERROR. LOCK_UNKNOWN: the command may have been carried out or not,
 * also soon after `cancel` (which may be NULL) was called: the answer, which others behind it wait for as
 * well, is read without the caller. LOCK_UNAVAILABLE: it was not. LOCK_NOMEM: the same. Blocks for the
 * time-out, also where it has to connect: if that leaves too little of it, the command is not sent. */
enum lock_status redis_link_call(struct redis_link *link, int argc, const char *const argv[],
                                 struct redis_answer *answer, const struct lock_cancel *cancel);

/* The two halves, for a thread that has several things to say at once: what is begun leaves with the first
 * call that is waited for. Each that was begun must be ended, the first first. To connect may take another
 * time-out, since what is begun must not be sent out of turn. */
void redis_link_begin(struct redis_link *link, struct redis_call *call, int argc, const char *const argv[],
                      struct redis_answer *answer);
enum lock_status redis_link_end(struct redis_link *link, struct redis_call *call);

#endif
