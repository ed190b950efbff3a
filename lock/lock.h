/* liblock: locks in several stores, behind one contract.
 *
 *     #include <lock/lock.h>
 *     #include <stdio.h>
 *
 *     int main(int argc, char **argv) {
 *         char error[LOCK_ERROR_SIZE] = "which lock?";
 *         struct lock *lock;
 *         if (argc < 2 || lock_open(argv[1], NULL, &lock, error, sizeof error) != LOCK_OK)
 *             return fprintf(stderr, "%s\n", error), 2;
 *         struct lock_grant grant;
 *         int64_t deadline_ns = lock_now_ns(lock) + 2000000000;
 *         enum lock_status status = lock_acquire(lock, "basket:7", deadline_ns, NULL, &grant);
 *         if (status == LOCK_OK) {
 *             printf("%s is ours, fence %ju\n", grant.key, (uintmax_t)grant.fence);
 *             // write here, and the fence with it
 *             status = lock_release(lock, &grant);
 *         }
 *         lock_close(lock);
 *         printf("%s\n", lock_status_text(status));
 *         return status != LOCK_OK;
 *     }
 *
 * What a lock gives. At most one holder a key, as long as the store keeps its word and the holder stops
 * before the grant's deadline. A process can be paused past any deadline without noticing it, so a lock alone
 * does not protect a write: the fence does. It grows with each grant of a key; who writes passes it along,
 * and the written-to refuses one that is older than the newest it has seen (M. Kleppmann, "How to do
 * distributed locking", 2016; M. Burrows, "The Chubby lock service", OSDI 2006, section 2.4, where it is
 * called a sequencer).
 *
 * Which locks there are. A URL is SCHEME:[//ADDRESS][?variant=NAME&ttl=MS], where `ttl` is the time to live,
 * 10 to 86,400,000 ms:
 *
 *     redis://HOST[:PORT]          in one Redis, by a unique owner; has a fence, is fair between processes
 *     redis://...?variant=watchdog the same, renewed while its holder reports progress; reentrant
 *     redlock://HOST,HOST,HOST     in most of several independent Redis servers; no fence, not fair
 *     etcd://HOST,HOST,HOST        in etcd, by a lease and the oldest key; has a fence, is fair
 *     etcd://...?variant=fixed-key the same by one key for all; not fair, and all who wait are woken
 *     zookeeper://HOST,HOST[/PATH] in a ZooKeeper, by ephemeral sequential nodes; has a fence, is fair
 *     local:                       within this process; no fence
 *     none:, and the other variants are wrong on purpose, for lessons
 *
 * Ports are 6379, 2379 and 2181 unless said. Before a Redis or all of etcd [USER]:PASSWORD@ may stand, with
 * %XX for a comma and what would end it, and behind a Redis /DATABASE; etcd speaks TLS with ca=FILE, and
 * cert=FILE and key=FILE for a certificate of its own, among the options. lock_caps() tells what a lock can
 * do. Redlock has no fence since its servers know nothing of each other: of N counters none is one number
 * that grows.
 *
 * What is in a Redis: lock:{KEY} while it is held, lock:{KEY}:line while processes wait, and lock:{KEY}:fence
 * for ever, since a fence must not go back; a Redis that has lost it begins anew. In a ZooKeeper:
 * PATH/lock/KEY, a container, which the server removes some time after its last use, and in it a node for
 * the holder and for each process that waits; in KEY %, / and a dot at its begin are written as in URLs. They
 * belong to a session of the process, which is asked to last half as long again as the time to live: so long
 * the others wait for one that dies. Where the server allows less (it bounds sessions), grants are shorter
 * too. In etcd: a key "lock/KEY SESSION.N" (fixed-key: "lock/KEY") for the holder and each process that
 * waits, with its owner as value, and "lock session LEASE" for each process. They belong to a lease of the
 * process, which lives for the time to live and an eighth more and a second, 3 s at least: so long the others
 * wait for one that dies.
 *
 * Many threads of a process that want one key are one contender to the store; they are served first come,
 * first served. What was had from a Redis serves up to 16 of them, each with a fence of its own (so fences
 * jump), before another process has its turn; none begins with less than seven eighths of the time to live.
 * In the others each has its own turn.
 *
 * What else to know. A machine that is suspended stops CLOCK_MONOTONIC and with it the deadlines, while the
 * store goes on: after that a holder believes for too long. A host name is looked up with each connection,
 * for as long as the resolver takes: addresses are better. A Redis that answers that it is a replica
 * (READONLY) is left, and its name looked up anew, at most ten times a second. One thread renews and verifies
 * all that is held. It asks etcd for 64 grants at a time, and keeps up with 10,000 of 4 s; the others for one
 * at a time, which some thousands are the limit of. What could not be released is released by that thread
 * later: up to 4,096 attempts and grants, and beyond that lock_acquire() and lock_try() are LOCK_UNAVAILABLE
 * without asking the store, until it has heard of some of them. A waiter busy-polls a store that is quick for
 * up to 0.2 ms before it sleeps.
 *
 * Whatever the store does, no call returns later than a second after its deadline, or, of those that have
 * none, after it was made (those for several keys: two seconds; lock_close(): five, and what on_lost takes).
 * Nor does one return later than a tenth of a second after lock_cancel(); half a second while a Redis is
 * connected to, while several keys are extended, or a key is released that its last holder in this process
 * forgot; a second with the locks for lessons. (The look-up of a host name is not counted.)
 *
 * Threads: every function may be called from any thread at any time, but lock_open() and lock_close() for the
 * same lock; none may be called by a signal handler. Nothing here logs, exits, or installs such handlers. An
 * open lock has a thread of its own, and one more for each Redis it listens to, or three for ZooKeeper, or
 * those of gRPC and one for etcd; they take no signals. A process that forks opens its locks after that. To
 * link: -llock, or with liblock.a -llock -lhiredis -lzookeeper_mt -letcd -pthread (and what that wants, see
 * etcd.h).
 *
 * Times are nanoseconds of CLOCK_MONOTONIC; keys are 1 to LOCK_KEY_MAX bytes of visible ASCII. */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* liblock.so exports what is declared from here on, and hides the rest (-fvisibility=hidden). */
#pragma GCC visibility push(default)

enum { LOCK_KEY_MAX = 255, LOCK_OWNER_SIZE = 33, LOCK_ERROR_SIZE = 512 };

enum lock_status {
    LOCK_OK,
    LOCK_BUSY,    /* lock_try(): somebody else has it */
    LOCK_TIMEOUT, /* not had before the deadline; nothing of the attempt is left in the store, or it is taken
                     back as soon as the store can be reached */
    LOCK_CANCELLED,   /* lock_cancel() was called; the same */
    LOCK_LOST,        /* the grant was lost before its time: another may hold it */
    LOCK_NOT_OWNER,   /* the grant is not, or no longer, the holder's */
    LOCK_UNKNOWN,     /* sent, no reply, and the store could not be asked what came of it, or not in time */
    LOCK_UNAVAILABLE, /* the store cannot be used */
    LOCK_STALE,       /* a write with an older fence was refused; for those who check fences */
    LOCK_CONFIG,      /* a URL, key or option that is not valid */
    LOCK_NOMEM,
    LOCK_STATUSES
};

/* "ok", "busy", … */
const char *lock_status_text(enum lock_status status);

/* What a lock can do. */
enum lock_caps {
    LOCK_CAN_FENCE = 1, /* grants carry a fence. Those of redlock cannot: nodes that know nothing of each
                           other have no one number that grows, see redlock.c */
    LOCK_CAN_FENCE_FAILOVER = 2, /* which does not go backwards when the store fails over */
    LOCK_CAN_EXTEND = 4,         /* lock_extend() */
    LOCK_IS_FAIR = 8,            /* waiters are served in turn, also those of other processes */
    LOCK_CAN_WAKE = 16,          /* waiters are told, and do not poll */
    LOCK_IS_REENTRANT = 32,      /* the thread that has it may acquire it again: the same grant, with the same
                                    fence, to be released as often (mind event loops: it is by thread) */
    LOCK_IS_SHARED = 64,         /* it holds between processes */
    LOCK_IS_SAFE = 128,          /* it is right, up to the flaw that its documentation names */
    LOCK_RENEWS = 256,           /* grants are extended by themselves, see lock_progress() */
};

struct lock;
struct lock_cancel;

/* Had from lock_acquire() or lock_try(); a value, to be copied at will. Any thread may release it. */
struct lock_grant {
    char key[LOCK_KEY_MAX + 1];
    char owner[LOCK_OWNER_SIZE]; /* of this grant alone: one half is random with each lock_open(), one counted
                                  */
    uint64_t fence;              /* grows with each grant of the key, by one or more; 0: this lock has none */
    int64_t deadline_ns; /* holds until then, at the longest; counted from before the request was sent, less a
                            margin. INT64_MAX: no end */
};

/* What may be given to lock_open(); all of it may be 0. */
struct lock_config {
    /* A grant was lost before its deadline: it is gone from the store (looked for every third of the time to
     * live), or it is one that is renewed and cannot be in time, or will not be since its holder is silent.
     * Not when a grant of another kind simply runs out: its holder knows when. From a thread of the library,
     * which does nothing else meanwhile; it may call anything but lock_close(). It may come while the holder
     * releases, but not once lock_close() has returned. */
    void (*on_lost)(void *ctx, const struct lock_grant *grant);
    /* Time and chance, for tests that turn them. 0: CLOCK_MONOTONIC, getrandom(). */
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    /* Called at the points where locks break, so that a lesson can break them there; the points stand in the
     * file of each lock. And at "acquire", "acquired" (or not), "release" and "released", for those who test
     * what a death there leaves behind. */
    void (*at_point)(void *ctx, const char *point, const char *key);
    void *ctx; /* of all four */
    /* The time to live of URLs that name none (`ttl=`, milliseconds); 0: 10,000. */
    int64_t ttl_ms;
    /* Allow the locks that are wrong on purpose. Without it they are LOCK_CONFIG. */
    bool teaching;
};

/* Opens a lock; `config` may be NULL and is copied. The store need not be there yet. On failure LOCK_CONFIG
 * or LOCK_NOMEM, `*lock` untouched, and in `error` what is wrong and what exists (never a password). */
enum lock_status lock_open(const char *url, const struct lock_config *config, struct lock **lock, char *error,
                           size_t error_size);

/* Nobody may be in a call. Grants that are held are left to run out, and so is what is still to be released
 * after half a second. NULL is fine. */
void lock_close(struct lock *lock);

/* What it can: of enum lock_caps. */
unsigned lock_caps(const struct lock *lock);
/* Its time to live: so long a grant lasts at most that nobody extends. With LOCK_RENEWS that is four times as
 * long, if its holder reports no progress. Those of `local:` and `none:` have no end. */
int64_t lock_ttl_ns(const struct lock *lock);
/* The clock that deadlines are counted by. */
int64_t lock_now_ns(const struct lock *lock);

/* One attempt: LOCK_BUSY where somebody has it. Blocks for one round trip to the store, more only where a
 * reply is lost. `*grant` is untouched unless LOCK_OK. */
enum lock_status lock_try(struct lock *lock, const char *key, struct lock_grant *grant);

/* Blocks until the lock is had, `deadline_ns` has passed (LOCK_TIMEOUT; one attempt is made in any case), or
 * `cancel` is called; `cancel` may be NULL. A store that is not there is LOCK_UNAVAILABLE after a second, if
 * not before, and one that does not answer within three and a half. `*grant` is untouched unless LOCK_OK. */
enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant);

/* For a holder that works long: it is alive. Costs the store nothing. LOCK_OK, and `grant->deadline_ns` is as
 * it is now; LOCK_LOST: it is over, stop. A lock that renews (variant=watchdog) does so only as long as this
 * or lock_extend() is called for the grant at least every three times to live. */
enum lock_status lock_progress(struct lock *lock, struct lock_grant *grant);

/* Gives it back. LOCK_OK; LOCK_NOT_OWNER: it had run out, and perhaps somebody else has it; LOCK_UNKNOWN,
 * LOCK_UNAVAILABLE: it runs out by itself. In each case it is not held any more. */
enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant);

/* Holds it for another full time to live; `grant->deadline_ns` is moved. LOCK_LOST: it is not held any more;
 * LOCK_UNKNOWN, LOCK_UNAVAILABLE: held as long as it was; LOCK_CONFIG: this lock cannot. */
enum lock_status lock_extend(struct lock *lock, struct lock_grant *grant);

/* Until the deadline as it is now (it may have been renewed); 0: it is over, or lost. */
int64_t lock_remaining_ns(const struct lock *lock, const struct lock_grant *grant);

/* All of `keys` or none. They are taken in one order, whatever the order given, so that nobody waits for each
 * other; a key that is there twice is taken once. `grants` has room for `count`, and is filled in the order
 * of `keys`, twice where the key is; untouched unless LOCK_OK. All are held then; those that were had early
 * are extended where the lock and the store can do that, and are taken anew where they ran out meanwhile.
 * Whoever is cancelled does not wait for the release of what was had. One attempt a key is made in any case,
 * but none begins later than a second after the deadline: then it is LOCK_TIMEOUT. */
enum lock_status lock_acquire_all(struct lock *lock, const char *const keys[], size_t count,
                                  int64_t deadline_ns, struct lock_cancel *cancel,
                                  struct lock_grant grants[]);
/* Gives all back, each key once, and answers the first status that is not LOCK_OK. Once the store has failed,
 * or has taken a second, the rest is released later, which is LOCK_UNAVAILABLE. */
enum lock_status lock_release_all(struct lock *lock, const struct lock_grant grants[], size_t count);

/* To give up waiting from another thread (not from a signal handler). One may serve many calls; once
 * cancelled it stays so. NULL when out of memory. */
struct lock_cancel *lock_cancel_new(void);
void lock_cancel(struct lock_cancel *cancel);
void lock_cancel_free(struct lock_cancel *cancel);

/* Why the store could not be used the last time: "HOST:PORT: REASON", where the reason is the system's
 * ("Connection refused"), the server's ("READONLY You can't write …"), or that it did not answer; "" if it
 * could always be used since lock_open(). For people, after LOCK_UNAVAILABLE or LOCK_UNKNOWN: it may be of
 * another thread's call, it stays when the store can be used again, and it never has a password in it. */
void lock_last_error(struct lock *lock, char *error, size_t error_size);

/* Since lock_open(). */
struct lock_metrics {
    uint64_t acquired, busy, timeouts, cancelled, failed, released, extended, lost;
    uint64_t passed;  /* of `acquired`: handed over within this process, without a call to the store */
    uint64_t waiting; /* now */
    uint64_t wait_ns; /* of `acquired`, added up */
    uint64_t hold_ns; /* of `released`, added up; 0 for the locks for lessons, which do not keep it */
};
void lock_read_metrics(const struct lock *lock, struct lock_metrics *metrics);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
