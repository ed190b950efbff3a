/* liblock: distributed locks in Redis, etcd and ZooKeeper, behind one contract. lock_open() takes a URL, for
 * example "redis://127.0.0.1:6379?ttl=5000" or "etcd://h1,h2,h3". The end of this file has an example, the
 * URLs, and what each lock guarantees.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Keys are 1 to LOCK_KEY_MAX bytes of visible ASCII. */
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

struct lock;
struct lock_config;
struct lock_cancel;

enum { LOCK_KEY_MAX = 255, LOCK_OWNER_SIZE = 33, LOCK_ERROR_SIZE = 512 };

enum lock_status {
    LOCK_OK,
    LOCK_BUSY,      /* lock_try(): another owner holds the lock */
    LOCK_TIMEOUT,   /* not granted before the deadline. Nothing of the attempt is left in the store, or it is
                       removed as soon as the store can be reached */
    LOCK_CANCELLED, /* lock_cancel() was called; otherwise as LOCK_TIMEOUT */
    LOCK_LOST,      /* the grant was lost before its deadline: another owner may hold the lock */
    LOCK_NOT_OWNER, /* the grant is not held, or not any more */
    LOCK_UNKNOWN,   /* the request was sent, its reply was lost, and the store could not be asked about it */
    LOCK_UNAVAILABLE, /* the store cannot be used */
    LOCK_STALE,       /* a write with an older fence was refused; for programs that check fences */
    LOCK_CONFIG,      /* a URL, key or option is not valid */
    LOCK_NOMEM,
    LOCK_STATUSES
};

/* A lock that was granted. A value: copy it as you like; any thread may release it. */
struct lock_grant {
    char key[LOCK_KEY_MAX + 1];
    char owner[LOCK_OWNER_SIZE]; /* unique: one half is random for each lock_open(), one half is counted */
    uint64_t fence;              /* fencing token: grows with each grant of the key; 0: this lock has none */
    int64_t deadline_ns;         /* held until then at most; counted from before the request was sent, less a
                                    margin. INT64_MAX: no end. With ?renew=on see lock_remaining_ns() */
};

/* Opens a lock; `config` may be NULL and is copied. The store need not be there yet. On failure LOCK_CONFIG
 * or LOCK_NOMEM, `*lock` is untouched, and `error` says what is wrong and what exists (never a password). */
enum lock_status lock_open(const char *url, const struct lock_config *config, struct lock **lock, char *error,
                           size_t error_size);

/* No other thread may be inside a call for this lock. Grants that are held are left to expire, and so is what
 * could not be released within half a second. `lock` may be NULL. */
void lock_close(struct lock *lock);

/* Blocks until the lock is granted, `deadline_ns` passes (LOCK_TIMEOUT; at least one attempt is made), or
 * `cancel`, which may be NULL, is called. A store that cannot be reached is LOCK_UNAVAILABLE after at most a
 * second; one that does not answer, after at most three and a half. `*grant` is untouched unless LOCK_OK. */
enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant);

/* The same, with a timeout from now. 0: one attempt. */
enum lock_status lock_acquire_for(struct lock *lock, const char *key, int64_t timeout_ms,
                                  struct lock_grant *grant);

/* One attempt: LOCK_BUSY if another owner holds the lock. Blocks for one round trip to the store, longer only
 * if a reply is lost. `*grant` is untouched unless LOCK_OK. */
enum lock_status lock_try(struct lock *lock, const char *key, struct lock_grant *grant);

/* LOCK_OK; LOCK_NOT_OWNER: it had expired, and perhaps another owner holds it; LOCK_UNKNOWN,
 * LOCK_UNAVAILABLE: it is released later, or expires. In each case the caller does not hold it any more, with
 * one exception: a thread that acquired it several times (LOCK_IS_REENTRANT) holds it until its last release.
 * Each release before that is LOCK_OK, also if the grant is lost. */
enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant);

/* Holds it for another full time to live, and moves `grant->deadline_ns`. LOCK_LOST: it is not held any more;
 * LOCK_UNKNOWN, LOCK_UNAVAILABLE: held as long as before; LOCK_CONFIG: this lock cannot extend. */
enum lock_status lock_extend(struct lock *lock, struct lock_grant *grant);

/* Until the grant's deadline as it is now, since it may have been renewed; 0: it has passed, or the grant is
 * lost. */
int64_t lock_remaining_ns(const struct lock *lock, const struct lock_grant *grant);

/* A holder that works for long reports that it is alive. The store is not asked. LOCK_OK:
 * `grant->deadline_ns` is as it is now; LOCK_LOST: the grant is over, stop. variant=watchdog renews a grant
 * only if this or lock_extend() was called for it within the last three times to live. */
enum lock_status lock_progress(struct lock *lock, struct lock_grant *grant);

/* Acquires all of `keys` or none. They are taken in one order, whatever the order given, so that no two
 * callers wait for each other; a key that is given twice is taken once. `grants` has room for `count`, and is
 * filled in the order of `keys`; untouched unless LOCK_OK. All are held then: those that were granted early
 * are extended if the lock can do that, and acquired again if they expired meanwhile. A cancelled call does
 * not wait until its grants are released. For each key at least one attempt is made, but none begins later
 * than a second after the deadline: then it is LOCK_TIMEOUT. */
enum lock_status lock_acquire_all(struct lock *lock, const char *const keys[], size_t count,
                                  int64_t deadline_ns, struct lock_cancel *cancel,
                                  struct lock_grant grants[]);
/* Releases each key once, and returns the first status that is not LOCK_OK. After the store has failed, or a
 * second has passed, the rest is released later, which is LOCK_UNAVAILABLE. */
enum lock_status lock_release_all(struct lock *lock, const struct lock_grant grants[], size_t count);

/* Ends waits from another thread (not from a signal handler). One lock_cancel may serve many calls; once
 * called it stays so. NULL when out of memory. */
struct lock_cancel *lock_cancel_new(void);
void lock_cancel(struct lock_cancel *cancel);
void lock_cancel_free(struct lock_cancel *cancel);

/* Options of lock_open(); every field may be 0. */
struct lock_config {
    /* A grant was lost before its deadline: it is not in the store any more (which is verified every third of
     * the time to live); or it is renewed, and could not be in time, or its holder has been silent. Not
     * called for other grants when their deadline passes: their holders know it. One thread of the library
     * at a time calls this, and does nothing else meanwhile: while it runs no other loss is told.
     * lock_progress() and lock_remaining_ns() know of a renewal that was missed all the same. It may call
     * every function but lock_close(). It may be called while the holder releases, but not after lock_close()
     * has returned. It may be called before the call that acquires the grant has returned; in
     * lock_acquire_all() also for a grant that no caller gets in the end. If on_lost() looks for the grant in
     * a list of yours, put each grant into the list, and then call lock_progress(): it is LOCK_LOST if
     * on_lost() came too early to find it. */
    void (*on_lost)(void *ctx, const struct lock_grant *grant);
    /* Clock and random numbers, for tests that control them. NULL: CLOCK_MONOTONIC, getrandom(). */
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    /* Called at the points where locks break, so that a lesson can break them there; each backend's file
     * names its points. Also called at "acquire", "acquired" (or not), "release" and "released", for tests of
     * what a crash there leaves behind. */
    void (*at_point)(void *ctx, const char *point, const char *key);
    void *ctx; /* of all four */
    /* The time to live if the URL has none (`ttl=`, milliseconds); 0: 10,000. */
    int64_t ttl_ms;
    /* Allow the locks that are wrong on purpose. Without it they are LOCK_CONFIG. */
    bool teaching;
};

/* The capabilities of a lock. */
enum lock_caps {
    LOCK_CAN_FENCE = 1, /* grants have a fence. Not those of redlock: its servers know nothing of each other,
                           so there is no one number that grows, see redlock.c */
    LOCK_CAN_FENCE_FAILOVER = 2, /* the fence does not go backwards when the store fails over */
    LOCK_CAN_EXTEND = 4,         /* lock_extend() */
    LOCK_IS_FAIR = 8,            /* waiters are served in order, also those of other processes */
    LOCK_CAN_WAKE = 16,          /* the store wakes waiters; otherwise they poll */
    LOCK_IS_REENTRANT = 32,      /* the thread that holds it may acquire it again: it gets the same grant with
                                    the same fence, and releases it as often. By thread: mind event loops */
    LOCK_IS_SHARED = 64,         /* it holds between processes */
    LOCK_IS_SAFE = 128,          /* it is right, up to the flaw that its documentation names */
    LOCK_RENEWS = 256,           /* grants are extended without lock_extend(): variant=watchdog, renew=on */
};
unsigned lock_caps(const struct lock *lock);

/* The time to live: a grant that nobody extends lasts at most so long, and the lock of a process that died
 * stays held at most so long (ZooKeeper and etcd: see below). With variant=watchdog a holder that reports no
 * progress keeps it for four times as long; with renew=on a live process keeps it until it releases. Grants
 * of `local:` and `none:` have no end. */
int64_t lock_ttl_ns(const struct lock *lock);
/* The clock of the deadlines. */
int64_t lock_now_ns(const struct lock *lock);

/* "ok", "busy", … */
const char *lock_status_text(enum lock_status status);

/* Why the store could not be used the last time: "HOST:PORT: REASON", where the reason is the system's
 * ("Connection refused"), the server's ("READONLY You can't write …"), or that it did not answer; "": it
 * could always be used since lock_open(). For people, after LOCK_UNAVAILABLE or LOCK_UNKNOWN: it may be about
 * another thread's call, it stays when the store can be used again, and it never contains a password. */
void lock_last_error(struct lock *lock, char *error, size_t error_size);

/* Since lock_open(). */
struct lock_metrics {
    uint64_t acquired, busy, timeouts, cancelled, failed, released, extended, lost;
    uint64_t passed;  /* of `acquired`: passed on within this process, without a request to the store */
    uint64_t waiting; /* threads, now */
    uint64_t wait_ns; /* of `acquired`, added up */
    uint64_t hold_ns; /* of `released`, added up; 0 for the lessons, which do not record it */
    /* Sent to the store to acquire, wait, verify, extend and release: commands of a Redis, RPCs of etcd,
     * operations of ZooKeeper; a script is one. Not counted: connecting, asking Sentinels, heartbeats of
     * leases, sessions and subscriptions. */
    uint64_t requests;
};
void lock_read_metrics(const struct lock *lock, struct lock_metrics *metrics);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

/* An example.
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
 *         enum lock_status status = lock_acquire_for(lock, "basket:7", 2000, &grant);
 *         if (status == LOCK_OK) {
 *             printf("%s is ours, fence %ju\n", grant.key, (uintmax_t)grant.fence);
 *             // write here, and send the fence with it
 *             status = lock_release(lock, &grant);
 *         }
 *         lock_close(lock);
 *         printf("%s\n", lock_status_text(status));
 *         return status != LOCK_OK;
 *     }
 *
 * Guarantee. A key has at most one holder, as long as the store keeps its promises and the holder stops
 * before the grant's deadline. A process can be paused past any deadline without noticing it, so a lock alone
 * does not protect a write. The fence does: it grows with each grant of a key; the writer sends it along, and
 * the storage refuses a fence that is older than the newest it has seen (M. Kleppmann, "How to do distributed
 * locking", 2016; M. Burrows, "The Chubby lock service", OSDI 2006, section 2.4, where it is called a
 * sequencer).
 *
 * URLs: SCHEME:[//ADDRESS][?variant=NAME&ttl=MS&renew=on]. `ttl` is the time to live, 10 to 86,400,000 ms.
 *
 *     redis://HOST[:PORT]          one Redis, a unique owner; has a fence, is fair between processes
 *     redis://...?variant=watchdog the same, renewed while its holder reports progress; reentrant
 *     redis-sentinel://HOST,HOST/MASTER, redis-cluster://HOST,HOST   the same two, at the master that
 *                                  Sentinels name, and in a Redis Cluster: each at its slot's server
 *     redlock://HOST,HOST,HOST     a majority of independent Redis servers; no fence, not fair
 *     etcd://HOST,HOST,HOST        etcd: a lease, and the oldest key wins; has a fence, is fair
 *     etcd://...?variant=fixed-key the same with one key for all; not fair, and all waiters are woken
 *     zookeeper://HOST,HOST[/PATH] ZooKeeper: ephemeral sequential nodes; has a fence, is fair
 *     local:                       within this process; no fence
 *     none: and the other variants are wrong on purpose, for lessons
 *
 * The default ports are 6379, 26379 (Sentinel), 2379 and 2181. Before a Redis, or before all hosts of etcd,
 * [USER]:PASSWORD@ may stand, with %XX for a comma and for what would end it; behind a Redis, /DATABASE. etcd
 * speaks TLS with the option ca=FILE, and with cert=FILE and key=FILE for a client certificate. Redlock has
 * no fence since its servers know nothing of each other: of N counters none is one number that grows.
 *
 * renew=on. A grant is held until it is released, or until its process is silent: dead, paused, or cut off
 * from the store. (As the Mutex of etcd's concurrency package, and Curator's for ZooKeeper.) The background
 * thread extends every grant when a third of its time has passed: of the time from when it was granted, or
 * extended last, to its deadline. That is the time to live less what the store took to answer, and much less
 * if the server bounds sessions (see below). `deadline_ns` in the grant is the first deadline;
 * lock_remaining_ns() and lock_progress() have the current one, and the holder may work until that. A renewal
 * that fails is repeated until a third of its time is left. Then the grant counts as lost, also if the store
 * has not answered the last renewal yet: on_lost() is called, lock_progress() and lock_extend() are
 * LOCK_LOST, lock_remaining_ns() is 0. No other owner gets the key before the current deadline, unless the
 * store has lost the grant. The holder must stop then, and still releases. variant=watchdog differs: it
 * renews a grant only as long as its holder reports progress, so a hung thread in a live process loses its
 * lock after four times to live; with renew=on it keeps it for ever. On locks that cannot extend, and on
 * those for lessons, renew is LOCK_CONFIG.
 *
 * In the store. Redis: lock:{KEY} while it is held; lock:{KEY}:line while processes wait; lock:{KEY}:fence
 * for ever, since a fence must not go back; before a KEY that begins with } stands a space. ZooKeeper:
 * PATH/lock/KEY, a container, which the server removes some time after its last use, and in it a node for the
 * holder and for each process that waits; in KEY the characters %, / and a leading dot are written as %XX.
 * etcd: a key "lock/KEY SESSION.N" (fixed-key: "lock/KEY") for the holder and each process that waits, with
 * its owner as value, and "lock session LEASE" for each process.
 *
 * When a process dies, ZooKeeper and etcd hold its locks as long as its session or lease. The session is
 * asked to last one and a half times to live; if the server allows less (it bounds sessions), grants are
 * shorter too. The lease lives for the time to live, an eighth more, and a second, at least 3 s.
 *
 * Many threads of a process that want one key are one contender to the store; they are served first come,
 * first served. One grant of a Redis serves up to 16 of them, each with its own fence (so fences jump),
 * before another process gets it; none begins with less than seven eighths of the time to live. In the other
 * stores each thread gets its own grant.
 *
 * When a Redis fails over. Its replication is asynchronous: a grant that the replica had not got when it was
 * promoted is lost, so that another owner may get the key. The fence still grows: it is the server's clock,
 * in microseconds, or counted on where that is behind. It can be given twice only if the servers' clocks
 * differ by more than a failover takes (until the clock of the server has caught up with the last fence); or
 * while both grant, cut off from each other (see below). It can fall in the same cases, and when a process
 * that has not reached the new master yet passes its grant on to another of its threads. The clocks must
 * agree to well below the time to live, and be slewed, not stepped: expiries are replicated as times of day,
 * so where the new server's clock is ahead by some time, a grant that has less left has expired and is lost,
 * and where it is behind by that, the lock of a dead process stays held so much longer. Below Sentinels a
 * failover is noticed at once: they are asked again 250 ms after the slowest answer, and each has 450 ms for
 * it (less with a time to live below 3.6 s). So one that hangs makes it 0.7 s, and what the others say
 * counts. Who is connected to another server than the master that they name leaves it, though it may take
 * commands for another ten seconds. Once a process has heard that they are replacing the master, which takes
 * up to 0.7 s as well, the store grants it nothing until they name one. Then all that is held is verified at
 * the new master. What it has is held as long as before; the rest is lost, and on_lost() is called. A server
 * that is the master again, after another one was, counts as a new master. In a cluster a failover is noticed
 * when a call goes to another server than before, at the latest when the grant is verified. So two owners
 * believe in grants of one key for less than a time to live. But a process that hears only Sentinels that
 * still name the old master (one that is cut off with it is enough), or none, goes on there as long as that
 * takes commands, which is without end while no other Sentinel reaches it. So does, in a cluster, a process
 * that is cut off together with the old master: until the old master hears of a TAKEOVER, or, after an
 * automatic failover, for little longer than cluster-node-timeout. Give the servers min-replicas-to-write 1,
 * with min-replicas-max-lag: that ends it. Sentinels that know only of older failovers than before are
 * believed after ten seconds, if half of the URL's say so, or at once, if all do: they were made anew. With
 * redis://NAME it is not noticed that the name leads to another server now: that a grant is lost is told when
 * it is verified next, and a release whose reply was lost can be LOCK_OK although the new server never had
 * the grant.
 *
 * Limits. A machine that is suspended stops CLOCK_MONOTONIC and with it the deadlines, while the store goes
 * on: after that a holder believes in its grant for too long. A host name is looked up with each connection,
 * for as long as the resolver takes: addresses are better. A Redis that answers that it is a replica
 * (READONLY) is left, and its name looked up anew, at most ten times a second. One background thread renews
 * and verifies all that is held: from etcd 64 grants with one request, so it keeps up with 10,000 grants of 4
 * s; from the others one at a time, some thousands at most. It also releases later what could not be released
 * at once: up to 4,096 attempts and grants. Beyond that lock_acquire() and lock_try() are LOCK_UNAVAILABLE,
 * without asking the store, until some of them are done. A waiter busy-polls a store that is quick for up to
 * 0.2 ms before it sleeps.
 *
 * How long calls take. Whatever the store does, no call returns later than a second after its deadline, or,
 * if it has none, after it began. Calls for several keys: two seconds. lock_close(): five, and what on_lost()
 * takes. After lock_cancel() a call returns within a tenth of a second; within half a second while a Redis is
 * connected to, several keys are extended, or a key is released that its last holder in this process forgot;
 * within a second for the locks for lessons. The look-up of a host name is not counted.
 *
 * Threads. Every function may be called from any thread at any time, except lock_open() and lock_close() for
 * the same lock; no function may be called by a signal handler. The library does not log, exit, or install
 * signal handlers. An open lock has a background thread, a second one if it renews, and one more for each
 * Redis it subscribes to, and one that asks Sentinels and has a short-lived one for each of them, or three
 * for ZooKeeper, or those of gRPC and one for etcd; they take no signals. A process that forks opens its
 * locks after that.
 *
 * To link: -llock, or with liblock.a -llock -lhiredis -lzookeeper_mt -letcd -pthread (and what libetcd wants,
 * see etcd.h). */
#endif
