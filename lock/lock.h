/* liblock: distributed locks in Redis, etcd and ZooKeeper, behind one contract. lock_open() takes a URL, for
 * example "redis://127.0.0.1:6379?ttl=5000" or "etcd://h1,h2,h3". The end of this file has an example, the
 * URLs, and what each lock guarantees.
 *
 * - Times are nanoseconds of CLOCK_MONOTONIC, unless their name ends in _ms.
 * - Keys are 1 to LOCK_KEY_MAX bytes of visible ASCII. Other keys are LOCK_CONFIG.
 * - Any thread may call any function at any time, except lock_open() and lock_close() for the same lock.
 *   No signal handler may call any.
 * - Functions that can fail return an enum lock_status. The lock or grant that they would write is
 *   untouched unless LOCK_OK. Those that allocate can return LOCK_NOMEM. */
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
    LOCK_STALE,  /* a write with an older fence was refused. No function of this library returns it: it is
                    for programs that check fences, so that one enum has all outcomes */
    LOCK_CONFIG, /* a URL, key or option is not valid, or the lock cannot do this */
    LOCK_NOMEM,
    LOCK_STATUSES /* how many there are; not a status */
};

/* A lock that was granted. It is a value: copy it as you like; any thread may release it. */
struct lock_grant {
    char key[LOCK_KEY_MAX + 1];
    char owner[LOCK_OWNER_SIZE]; /* unique: one half is random for each lock_open(), one half is counted */
    uint64_t fence;              /* fencing token: grows with each grant of the key; 0: this lock has none */
    int64_t deadline_ns;         /* held until then at most; counted from before the request was sent, less a
                                    margin. INT64_MAX: no end. With ?renew=on see lock_remaining_ns() */
};

/* ---- opening and closing ---- */

/* Opens a lock; the store need not be there yet. `config` may be NULL and is copied. The caller owns `*lock`,
 * and frees it with lock_close(). LOCK_CONFIG or LOCK_NOMEM: `error` says what is wrong and what exists, and
 * never contains a password. */
enum lock_status lock_open(const char *url, const struct lock_config *config, struct lock **lock, char *error,
                           size_t error_size);

/* Frees the lock, which may be NULL. No other thread may be inside a call for it. Tries for half a second to
 * release what is still to be released, and leaves the rest to expire, as it does with the grants that are
 * held. Blocks for at most five seconds, and for as long as on_lost() takes. */
void lock_close(struct lock *lock);

/* ---- acquiring and releasing one key ---- */

/* Blocks until the lock is granted (LOCK_OK, with `*grant`), `deadline_ns` passes (LOCK_TIMEOUT), or
 * `cancel`, which may be NULL, is called (LOCK_CANCELLED). Makes at least one attempt. LOCK_UNAVAILABLE after
 * at most a second: the store cannot be reached; after at most three and a half: it does not answer.
 * LOCK_UNKNOWN: the store may have granted it. That is withdrawn as soon as the store answers; until then, or
 * until it expires, the key may stay locked. */
enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant);

/* As lock_acquire(), with a deadline `timeout_ms` from now. 0 or less: one attempt. */
enum lock_status lock_acquire_for(struct lock *lock, const char *key, int64_t timeout_ms,
                                  struct lock_grant *grant);

/* Makes one attempt: LOCK_BUSY if another owner holds the lock. Blocks for one round trip to the store,
 * longer only if a reply is lost. */
enum lock_status lock_try(struct lock *lock, const char *key, struct lock_grant *grant);

/* Releases a grant. Blocks for one round trip to the store, longer only if a reply is lost.
 * - LOCK_OK: it was held, and is released.
 * - LOCK_NOT_OWNER: it had expired or was lost; another owner may hold the lock.
 * - LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_NOMEM: it is released later, or expires.
 * In each case the caller does not hold it any more, with one exception: a thread that acquired it several
 * times (LOCK_IS_REENTRANT) holds it until its last release. Each release before that is LOCK_OK, also if the
 * grant is lost. */
enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant);

/* ---- while a grant is held ---- */

/* Holds the grant for another full time to live, and moves `grant->deadline_ns`. Blocks for one round trip to
 * the store.
 * - LOCK_LOST: it is not held any more.
 * - LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_NOMEM: it is held as long as before.
 * - LOCK_CONFIG: this lock cannot extend. */
enum lock_status lock_extend(struct lock *lock, struct lock_grant *grant);

/* Returns the time until the grant's current deadline, which may have been renewed; 0: the deadline has
 * passed, or the grant is lost. Does not ask the store. */
int64_t lock_remaining_ns(const struct lock *lock, const struct lock_grant *grant);

/* Reports that a holder that works for long is alive. Does not ask the store. LOCK_OK: `grant->deadline_ns`
 * becomes the current deadline. LOCK_LOST: the grant is over, stop. variant=watchdog renews a grant only if
 * this function or lock_extend() was called for it within the last three times to live. */
enum lock_status lock_progress(struct lock *lock, struct lock_grant *grant);

/* ---- several keys ---- */

/* Acquires all of `keys` or none. `grants` has room for `count`, and is filled in the order of `keys`.
 * - The keys are taken in one order, whatever the order given, so that no two callers wait for each other.
 *   A key that is given twice is taken once.
 * - All are held when this returns LOCK_OK. Those that were granted early are extended if the lock can do
 *   that, and acquired again if they expired meanwhile.
 * - At least one attempt is made for each key, but none begins later than a second after the deadline:
 *   then it is LOCK_TIMEOUT.
 * - A cancelled call does not wait until its grants are released.
 * Otherwise as lock_acquire(). */
enum lock_status lock_acquire_all(struct lock *lock, const char *const keys[], size_t count,
                                  int64_t deadline_ns, struct lock_cancel *cancel,
                                  struct lock_grant grants[]);
/* Releases each key once, and returns the first status that is not LOCK_OK. After the store has failed, or a
 * second has passed, it does not ask the store any more: the rest is LOCK_UNAVAILABLE, and released later. */
enum lock_status lock_release_all(struct lock *lock, const struct lock_grant grants[], size_t count);

/* ---- cancelling ---- */

/* lock_cancel() ends the waits of all calls that were given `cancel`, from another thread. It stays so: a
 * later call with it does not wait. One lock_cancel may serve many calls. lock_cancel_new() returns NULL when
 * out of memory. The caller owns it, and frees it when no call uses it any more; lock_cancel_free() accepts
 * NULL. */
struct lock_cancel *lock_cancel_new(void);
void lock_cancel(struct lock_cancel *cancel);
void lock_cancel_free(struct lock_cancel *cancel);

/* ---- options and capabilities ---- */

/* Options of lock_open(); every field may be 0. */
struct lock_config {
    /* Called when a grant was lost before its deadline. May be NULL.
     *
     * Which losses:
     * - the grant is not in the store any more, which is verified every third of the time to live;
     * - the grant is renewed, and could not be in time, or its holder has been silent.
     *
     * Other grants end at their deadline without a call: their holders know it. lock_progress() and
     * lock_remaining_ns() know of a missed renewal at once, also before this is called.
     *
     * Rules:
     * - One thread of the library at a time calls it. While it runs no other loss is told.
     * - It may call every function but lock_close().
     * - It may be called while the holder releases, but not after lock_close() has returned.
     * - It may be called before the call that acquires the grant has returned; in lock_acquire_all() also
     *   for a grant that no caller gets in the end. If it looks for the grant in a list of yours, put each
     *   grant into the list, and then call lock_progress(): that is LOCK_LOST if on_lost() came too early
     *   to find the grant. */
    void (*on_lost)(void *ctx, const struct lock_grant *grant);
    /* Clock and random numbers, for tests that control them. NULL: CLOCK_MONOTONIC, getrandom(). */
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    /* Called at the points where locks break, so that a lesson can break them there; each backend's file
     * names its points. Also called at "acquire", "acquired" (or not), "release" and "released", for tests of
     * what a crash there leaves behind. NULL: not called. */
    void (*at_point)(void *ctx, const char *point, const char *key);
    void *ctx; /* of all four */
    /* The time to live if the URL has none (`ttl=`, milliseconds); 0: 10,000. */
    int64_t ttl_ms;
    /* Allow the locks that are wrong on purpose. Without it they are LOCK_CONFIG. */
    bool teaching;
};

/* The capabilities of a lock. */
enum lock_caps {
    LOCK_CAN_FENCE = 1, /* grants have a fence. Those of redlock have none: its servers know nothing of each
                           other, so there is no one number that grows, see redlock.c */
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
/* Returns a set of enum lock_caps. */
unsigned lock_caps(const struct lock *lock);

/* Returns the time to live. A grant that nobody extends lasts at most so long, and the lock of a process that
 * died stays held at most so long (ZooKeeper and etcd: see below).
 * - variant=watchdog: a holder that reports no progress keeps it for four times as long.
 * - renew=on: a live process keeps it until it releases.
 * - local: and none: grants have no end. */
int64_t lock_ttl_ns(const struct lock *lock);
/* Returns the time on the clock of the deadlines. */
int64_t lock_now_ns(const struct lock *lock);

/* Returns a constant text: "ok", "busy", … */
const char *lock_status_text(enum lock_status status);

/* ---- errors and metrics ---- */

/* Writes why the store could not be used the last time: "HOST:PORT: REASON", where the reason is the system's
 * ("Connection refused"), the server's ("READONLY You can't write …"), or that it did not answer; "": it
 * could always be used since lock_open(). For people, after LOCK_UNAVAILABLE or LOCK_UNKNOWN.
 * - It may be about another thread's call.
 * - It stays when the store can be used again.
 * - It never contains a password. */
void lock_last_error(struct lock *lock, char *error, size_t error_size);

/* Counted since lock_open(). */
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
/* Writes the metrics. They are read one after the other while calls go on. */
void lock_read_metrics(const struct lock *lock, struct lock_metrics *metrics);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

/* EXAMPLE.
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
 * GUARANTEE. A key has at most one holder, as long as the store keeps its promises and the holder stops
 * before the grant's deadline. A process can be paused past any deadline without noticing it, so a lock alone
 * does not protect a write. The fence does: it grows with each grant of a key; the writer sends it along, and
 * the storage refuses a fence that is older than the newest it has seen (M. Kleppmann, "How to do distributed
 * locking", 2016; M. Burrows, "The Chubby lock service", OSDI 2006, section 2.4, where it is called a
 * sequencer).
 *
 * URLS. SCHEME:[//ADDRESS][?variant=NAME&ttl=MS&renew=on]. `ttl` is the time to live, 10 to 86,400,000 ms.
 *
 *     redis://HOST[:PORT]             one Redis, a unique owner; has a fence, is fair between processes
 *     redis://...?variant=watchdog    the same, renewed while its holder reports progress; reentrant
 *     redis-sentinel://HOST,HOST/MASTER   the same two, at the master that Sentinels name
 *     redis-cluster://HOST,HOST       the same two, in a Redis Cluster: each key at its slot's server
 *     redlock://HOST,HOST,HOST        a majority of independent Redis servers; no fence, not fair
 *     etcd://HOST,HOST,HOST           a lease, and the oldest key wins; has a fence, is fair
 *     etcd://...?variant=fixed-key    the same with one key for all; not fair, and all waiters are woken
 *     zookeeper://HOST,HOST[/PATH]    ephemeral sequential nodes; has a fence, is fair
 *     local:                          within this process; no fence, is fair
 *     none:, and the other variants   wrong on purpose, for lessons
 *
 * - The default ports are 6379, 26379 (Sentinel), 2379 (etcd) and 2181 (ZooKeeper).
 * - Before a Redis, or before all hosts of etcd, [USER]:PASSWORD@ may stand, with %XX for a comma and for
 *   what would end it. Behind a Redis, /DATABASE may stand.
 * - etcd speaks TLS with the option ca=FILE, and with cert=FILE and key=FILE for a client certificate.
 * - Redlock has no fence since its servers know nothing of each other: of N counters none is one number
 *   that grows.
 *
 * RENEW=ON. A grant is held until it is released, or until its process is silent: dead, paused, or cut off
 * from the store (as the Mutex of etcd's concurrency package, and Curator's for ZooKeeper).
 *
 * - The background thread extends every grant when a third of its time has passed. Its time is counted
 *   from when it was granted, or extended last, to its deadline: that is the time to live less what the
 *   store took to answer, and much less if the server bounds sessions (see below).
 * - `deadline_ns` in the grant is the first deadline. lock_remaining_ns() and lock_progress() have the
 *   current one, and the holder may work until that.
 * - A renewal that fails is repeated until a third of the grant's time is left. Then the grant counts as
 *   lost, also if the store has not answered the last renewal yet: on_lost() is called, lock_progress()
 *   and lock_extend() are LOCK_LOST, lock_remaining_ns() is 0. No other owner gets the key before the
 *   current deadline, unless the store has lost the grant. The holder must stop then, and still releases.
 * - variant=watchdog differs: it renews a grant only as long as its holder reports progress, so a hung
 *   thread in a live process loses its lock after four times to live. With renew=on it keeps it for ever.
 * - renew is LOCK_CONFIG for locks that cannot extend, and for those for lessons.
 *
 * IN THE STORE.
 *
 * - Redis: lock:{KEY} while it is held; lock:{KEY}:line while processes wait; lock:{KEY}:fence for ever,
 *   since a fence must not go back. A space stands before a KEY that begins with }.
 * - ZooKeeper: PATH/lock/KEY, a container, which the server removes some time after its last use; in it a
 *   node for the holder and for each process that waits. In KEY the characters %, / and a leading dot are
 *   written as %XX.
 * - etcd: a key "lock/KEY SESSION.N" (fixed-key: "lock/KEY") for the holder and for each process that
 *   waits, with its owner as value; and "lock session LEASE" for each process.
 *
 * When a process dies, ZooKeeper and etcd hold its locks as long as its session or lease. The session is
 * asked to last one and a half times to live; if the server allows less (it bounds sessions), grants are
 * shorter too. The lease lives for the time to live, an eighth more, and a second, at least 3 s.
 *
 * MANY THREADS of a process that want one key are one contender to the store; they are served first come,
 * first served. One grant of a Redis serves up to 16 of them, each with its own fence (so fences jump),
 * before another process gets it; none begins with less than seven eighths of the time to live. In the other
 * stores each thread gets its own grant.
 *
 * WHEN A REDIS FAILS OVER. Its replication is asynchronous: a grant that the replica had not got when it was
 * promoted is lost, so that another owner may get the key.
 *
 * - The fence still grows: it is the server's clock, in microseconds, or counted on where that is behind.
 *   It can be given twice only if the servers' clocks differ by more than a failover takes (until the
 *   clock of the server has caught up with the last fence), or while two servers grant that are cut off
 *   from each other (see below). It can fall in the same cases, and when a process that has not reached
 *   the new master yet passes its grant on to another of its threads.
 * - The clocks must agree to well below the time to live, and be slewed, not stepped, since expiries are
 *   replicated as times of day. Where the new server's clock is ahead by some time, a grant that has less
 *   left has expired and is lost. Where it is behind by that, the lock of a dead process stays held so
 *   much longer.
 * - Below Sentinels a failover is noticed at once: they are asked again 250 ms after the slowest answer,
 *   and each has 450 ms for it (less with a time to live below 3.6 s). So a Sentinel that hangs makes it
 *   0.7 s, and what the others say counts. A process that is connected to another server than the master
 *   that they name leaves that server, though it may take commands for another ten seconds. Once a process
 *   has heard that they are replacing the master, which takes up to 0.7 s as well, the store grants it
 *   nothing until they name one. A server that is the master again, after another one was, counts as a new
 *   master.
 * - In a cluster a failover is noticed when a call goes to another server than before, at the latest when
 *   the grant is verified.
 * - After a failover all that is held is verified at the new master. What the new master has is held as
 *   long as before; the rest is lost, and on_lost() is called. So two owners believe in grants of one key
 *   for less than a time to live.
 * - There are exceptions. A process that hears only Sentinels that still name the old master (one Sentinel
 *   that is cut off with it is enough), or none, goes on there as long as the old master takes commands,
 *   which is without end while no other Sentinel reaches it. So does, in a cluster, a process that is cut
 *   off together with the old master: until the old master hears of a TAKEOVER, or, after an automatic
 *   failover, for little longer than cluster-node-timeout. Give the servers min-replicas-to-write 1, with
 *   min-replicas-max-lag: that ends it.
 * - Sentinels that know only of older failovers than before were made anew. They are believed after ten
 *   seconds if half of the URL's say so, or at once if all do.
 * - With redis://NAME nobody notices that the name leads to another server now: a lost grant is told when
 *   it is verified next, and a release whose reply was lost can be LOCK_OK although the new server never
 *   had the grant.
 *
 * LIMITS.
 *
 * - A machine that is suspended stops CLOCK_MONOTONIC and with it the deadlines, while the store goes on:
 *   after that a holder believes in its grant for too long.
 * - A host name is looked up with each connection, for as long as the resolver takes: addresses are
 *   better.
 * - A Redis that answers that it is a replica (READONLY) is left, and its name looked up anew, at most ten
 *   times a second.
 * - One background thread renews and verifies all that is held: from etcd 64 grants with one request, so
 *   it keeps up with 10,000 grants of 4 s; from the others one at a time, some thousands at most.
 * - The same thread releases later what could not be released at once: up to 4,096 attempts and grants.
 *   Beyond that lock_acquire() and lock_try() are LOCK_UNAVAILABLE, without asking the store, until some
 *   are done.
 * - A waiter busy-polls a store that is quick for up to 0.2 ms before it sleeps.
 *
 * HOW LONG CALLS TAKE at most, whatever the store does. The look-up of a host name is not counted.
 *
 * - Calls for one key: a second after their deadline, or, if they have none, a second after they began.
 * - Calls for several keys: two seconds.
 * - lock_close(): five seconds, and what on_lost() takes.
 * - After lock_cancel(): a tenth of a second. Half a second while a Redis is connected to, while several
 *   keys are extended, or while a key is released that its last holder in this process forgot. A second
 *   for the locks for lessons.
 *
 * THREADS. The library does not log, exit, or install signal handlers. An open lock has a background thread,
 * a second one if it renews, and those of its store:
 *
 * - Redis: one for each Redis it subscribes to; with Sentinels one that asks them, and has a short-lived
 *   one for each of them;
 * - redlock: one for each of its servers;
 * - ZooKeeper: three;
 * - etcd: those of gRPC, and one more.
 *
 * They take no signals, with one exception: under load gRPC can add threads within a call, and these take the
 * signals that the calling thread takes. (If the program itself has started gRPC before, gRPC's threads are
 * as the program started them.) A process that forks must open its locks after the fork.
 *
 * TO LINK: -llock, or with liblock.a -llock -lhiredis -lzookeeper_mt -letcd -pthread (and what libetcd wants,
 * see etcd.h). */
#endif
