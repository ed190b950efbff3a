#include "lock/redis/connection.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lock/redis/dial.h"
#include "lock/redis/sentinels.h"

/* After a failed connect, calls fail at once for so long. */
static const int64_t retry_ns = 100000000;
/* A connection that was not used for so long is tested before it is used. */
static const int64_t idle_ns = 50000000;
STAILQ_HEAD(requests, redis_request);

struct redis_connection {
    struct redis_url url;
    const struct lock_env *env; /* may be NULL */
    int timeout_ms;
    pthread_mutex_t mutex;       /* not held while the socket is read or written; for all that follows */
    struct redis_named named;    /* its master: which server was reached last, or could not be */
    struct redis_target reached; /* that was reached last; host "": none yet */
    int64_t reached_epoch;       /* of the newest failover that had been heard of when it was */
    redisContext *hiredis;       /* NULL: not connected */
    bool has_leader;             /* a thread reads, or is appointed to */
    bool writing;                /* a thread writes */
    _Atomic bool quick;          /* the last answer came within redis_dial_busy_poll_ns */
    bool broken;                 /* to be closed by the last thread that reads or writes */
    bool is_replica; /* broken as soon as all calls in flight are answered; no more commands are sent */
    int64_t retry_at_ns, used_ns;
    struct requests calls;              /* in flight, the oldest first */
    uint64_t queued, written, answered; /* bytes of commands */
    struct redis_output output;         /* queued, and not being written yet */
};

struct redis_connection *redis_connection_open(const struct redis_url *url, int timeout_ms,
                                               const struct lock_env *env) {
    struct redis_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->url = *url;
    connection->named.master = url->servers[0];
    connection->env = env;
    connection->timeout_ms = timeout_ms;
    STAILQ_INIT(&connection->calls);
    pthread_mutex_init(&connection->mutex, NULL);
    return connection;
}

void redis_connection_close(struct redis_connection *connection) {
    if (!connection)
        return;
    redisFree(connection->hiredis);
    for (struct redis_request *abandoned; (abandoned = STAILQ_FIRST(&connection->calls));) {
        STAILQ_REMOVE_HEAD(&connection->calls, next);
        free(abandoned);
    }
    pthread_mutex_destroy(&connection->mutex);
    free(connection->output.bytes);
    free(connection);
}

static void report(const struct redis_connection *connection, const struct redis_target *target,
                   const char *why) {
    char server[sizeof target->host + 16];
    snprintf(server, sizeof server, strchr(target->host, ':') ? "[%s]:%d" : "%s:%d", target->host,
             target->port);
    lock_env_failed(connection->env, server, why);
}

void redis_connection_report(const struct redis_connection *connection, const char *why) {
    report(connection, &connection->url.servers[0], why);
}

/* With the mutex held. */
static void report_reached(const struct redis_connection *connection, const char *why) {
    report(connection, &connection->named.master, why);
}

/* ---- calls in flight: with the mutex held ---- */

/* Adds the call to `done` if its thread must be woken: not the leader's own call, nor an abandoned one. */
static void finish_oldest(struct redis_connection *connection, enum lock_status status,
                          const struct redis_request *leader, struct requests *done) {
    struct redis_request *call = STAILQ_FIRST(&connection->calls);
    STAILQ_REMOVE_HEAD(&connection->calls, next);
    connection->answered = call->ends_at;
    if (call->abandoned) {
        free(call);
        return;
    }
    call->status = status;
    call->done = true;
    if (call != leader)
        STAILQ_INSERT_TAIL(done, call, next);
}

/* Needs no mutex; without it woken threads do not run into it. A call is gone once its thread is woken. */
static void wake_all(struct requests *done) {
    for (struct redis_request *call; (call = STAILQ_FIRST(done));) {
        STAILQ_REMOVE_HEAD(done, next);
        lock_waiter_wake(&call->waiter);
    }
}

/* A copy replaces the call, which has no answer yet, so that its caller may go. False: out of memory. */
static bool abandon(struct redis_connection *connection, struct redis_request *call) {
    struct {
        struct redis_request call;
        struct redis_answer answer;
    } *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    copy->call = (struct redis_request){.answer = &copy->answer, .ends_at = call->ends_at, .abandoned = true};
    STAILQ_INSERT_AFTER(&connection->calls, call, &copy->call, next);
    STAILQ_REMOVE(&connection->calls, call, redis_request, next);
    call->status = LOCK_UNKNOWN;
    call->done = true;
    return true;
}

/* ---- connecting and closing: with the mutex held ---- */

static void close_if_unused(struct redis_connection *connection) {
    if (!connection->broken || connection->has_leader || connection->writing)
        return;
    redisFree(connection->hiredis);
    connection->hiredis = NULL;
    connection->broken = connection->is_replica = false;
    connection->output.length = 0;
    connection->queued = connection->written = connection->answered = 0;
}

/* Fails all calls. Those whose command was not written to its end were not carried out. */
static void break_because(struct redis_connection *connection, const char *why) {
    struct requests failed = STAILQ_HEAD_INITIALIZER(failed);
    const struct redis_request *oldest = STAILQ_FIRST(&connection->calls);
    if (!connection->broken && connection->hiredis) {
        connection->broken = true;
        if (oldest) /* otherwise it was closed while nothing was in flight */
            report_reached(connection, why);
        shutdown(connection->hiredis->fd, SHUT_RDWR);
        for (; oldest; oldest = STAILQ_FIRST(&connection->calls)) {
            bool written = oldest->ends_at <= connection->written;
            finish_oldest(connection, written ? LOCK_UNKNOWN : LOCK_UNAVAILABLE, NULL, &failed);
        }
        wake_all(&failed);
    }
    close_if_unused(connection);
}

/* `why` is an errno; 0: the other side closed the connection. */
static void break_connection(struct redis_connection *connection, int why) {
    char text[128];
    if (why == ETIMEDOUT)
        snprintf(text, sizeof text, "no answer within %d ms", connection->timeout_ms);
    else
        snprintf(text, sizeof text, "%s", why ? strerror(why) : "it closed the connection");
    break_because(connection, text);
}

/* What another server granted this one may not have; nor what it granted itself before a failover that was
 * not seen, since another was the master in between. Before it is asked for anything, this is told. */
static void note_reached(struct redis_connection *connection) {
    const struct redis_named *named = &connection->named;
    struct redis_target before = connection->reached;
    bool unseen = named->election.epoch > connection->reached_epoch;
    connection->reached = named->master;
    connection->reached_epoch = named->election.epoch;
    if (before.host[0] && (unseen || !redis_target_is_same(&before, &connection->reached)))
        lock_env_moved(connection->env);
}

/* Keeps the mutex: other callers need the connection too. */
static bool connect_now(struct redis_connection *connection) {
    if (lock_mono_ns() < connection->retry_at_ns)
        return false;
    char why[LOCK_ERROR_SIZE];
    connection->hiredis =
        redis_master_dial(&connection->url, connection->timeout_ms, &connection->named, why, sizeof why);
    if (connection->hiredis) {
        note_reached(connection);
    } else {
        connection->retry_at_ns = lock_mono_ns() + retry_ns;
        report_reached(connection, why);
    }
    return connection->hiredis != NULL;
}

/* The server may have closed a connection that was idle. If that is noticed now, the next command need not
 * end as unknown. */
static void test_idle(struct redis_connection *connection) {
    char byte;
    int64_t now = lock_mono_ns();
    bool idle =
        connection->hiredis && STAILQ_EMPTY(&connection->calls) && now - connection->used_ns > idle_ns;
    connection->used_ns = now;
    if (idle && (recv(connection->hiredis->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        break_connection(connection, 0);
}

static void leave_replica(struct redis_connection *connection) {
    if (!connection->is_replica || !STAILQ_EMPTY(&connection->calls))
        return;
    connection->retry_at_ns = lock_mono_ns() + retry_ns; /* the name may still mean the replica */
    break_connection(connection, 0);
}

bool redis_connection_was_reached(struct redis_connection *connection, int64_t *epoch) {
    pthread_mutex_lock(&connection->mutex);
    bool was_reached = connection->reached.host[0];
    if (connection->named.election.epoch > *epoch)
        *epoch = connection->named.election.epoch;
    pthread_mutex_unlock(&connection->mutex);
    return was_reached;
}

/* With the mutex held. */
static bool follow_named(struct redis_connection *connection, const struct redis_named *named) {
    bool replacing = named->election.replacing;
    struct redis_election *known = &connection->named.election;
    if (named->election.epoch < known->epoch && known->epoch > named->asked_epoch)
        return false;
    known->epoch = named->election.epoch;
    known->older_since_ms = named->election.older_since_ms;
    bool leaves =
        connection->hiredis && (replacing || !redis_target_is_same(&named->master, &connection->reached));
    if (leaves)
        break_because(connection, replacing ? redis_elected_text(REDIS_ELECTION_REPLACING)
                                            : "the Sentinels name another master");
    else if (connection->hiredis)
        note_reached(connection);
    if (!replacing && !connection->hiredis)
        connect_now(connection);
    return leaves;
}

bool redis_connection_follow(struct redis_connection *connection, const struct redis_named *named) {
    pthread_mutex_lock(&connection->mutex);
    bool leaves = follow_named(connection, named);
    pthread_mutex_unlock(&connection->mutex);
    return leaves;
}

/* ---- writing ---- */

/* The queued commands are written when no others are in flight, or when they are as many as those: then the
 * store works on one batch while the answers to the other travel, and neither is small. */
static bool may_write(const struct redis_connection *connection) {
    return connection->output.length > 0 && !connection->broken &&
           connection->output.length >= connection->written - connection->answered;
}

/* Writes the queued commands of all callers, unless another thread is writing and will do it. Called, and
 * returns, with the mutex held. */
static void write_queued(struct redis_connection *connection, int64_t until_ns) {
    if (connection->writing || !may_write(connection))
        return;
    connection->writing = true;
    while (may_write(connection)) {
        struct redis_output output = connection->output;
        size_t sent = 0;
        int fd = connection->hiredis->fd;
        connection->output = (struct redis_output){.length = 0};
        /* Counted before it is known: another thread that breaks the connection meanwhile must not answer
           UNAVAILABLE. */
        connection->written += output.length;
        pthread_mutex_unlock(&connection->mutex);
        int why = redis_dial_write(fd, output.bytes, output.length, until_ns, &sent);
        pthread_mutex_lock(&connection->mutex);
        connection->written -= output.length - sent;
        free(output.bytes);
        if (why)
            break_connection(connection, why);
    }
    connection->writing = false;
    close_if_unused(connection);
}

/* ---- reading: the leader ---- */

/* A missing script is no failure: its text is sent then. */
static void note_error(struct redis_connection *connection, const struct redis_answer *answer) {
    enum redis_meaning meaning = redis_answer_meaning(answer);
    if (answer->type == REDIS_ANSWER_ERROR && meaning != REDIS_NO_SCRIPT)
        report_reached(connection, answer->text);
    connection->is_replica = connection->is_replica || meaning == REDIS_IS_REPLICA;
}

/* Delivers the answers, and lists in `done` the calls whose threads must be woken. False: the bytes are not
 * the protocol, or there was no call for an answer. */
static bool deliver(struct redis_connection *connection, const char *bytes, size_t length,
                    const struct redis_request *leader, struct requests *done) {
    redisReader *reader = connection->hiredis->reader;
    void *reply = NULL;
    bool good = redisReaderFeed(reader, bytes, length) == REDIS_OK;
    while (good && (good = redisReaderGetReply(reader, &reply) == REDIS_OK) && reply) {
        const struct redis_request *oldest = STAILQ_FIRST(&connection->calls);
        good = oldest != NULL;
        if (good) {
            redis_answer_read(oldest->answer, reply);
            note_error(connection, oldest->answer);
            finish_oldest(connection, LOCK_OK, leader, done);
        }
        freeReplyObject(reply);
        reply = NULL;
    }
    return good;
}

/* A leader that is done appoints the next: the thread whose answer comes next. */
static void appoint_leader(struct redis_connection *connection) {
    struct redis_request *next = STAILQ_FIRST(&connection->calls);
    while (next && next->abandoned)
        next = STAILQ_NEXT(next, next);
    connection->has_leader = next != NULL;
    if (next) {
        next->leads = true;
        lock_waiter_wake(&next->waiter);
    }
    close_if_unused(connection);
}

/* Reads for all threads until its own call is done or abandoned. Called, and returns, with the mutex held. */
static void lead(struct redis_connection *connection, struct redis_request *call,
                 const struct lock_cancel *cancel) {
    char bytes[16384];
    bool appointed = false;
    while (!call->done) {
        struct requests done = STAILQ_HEAD_INITIALIZER(done);
        assert(connection->hiredis); /* break_connection() leaves no call that is not done */
        int fd = connection->hiredis->fd;
        pthread_mutex_unlock(&connection->mutex);
        int64_t until_ns = lock_cancel_poll_ns(cancel, lock_mono_ns(), call->until_ns);
        ssize_t n = redis_dial_read(fd, bytes, sizeof bytes, until_ns, &connection->quick);
        int why = n < 0 ? errno : 0;
        bool nothing_yet = why == EINTR || why == EAGAIN || (why == ETIMEDOUT && until_ns < call->until_ns);
        pthread_mutex_lock(&connection->mutex);
        if (n > 0 && !connection->broken && !deliver(connection, bytes, (size_t)n, call, &done))
            break_connection(connection, EPROTO);
        else if (n <= 0 && !nothing_yet)
            break_connection(connection, why);
        write_queued(connection, call->until_ns);
        leave_replica(connection);
        if (!call->done && lock_cancel_called(cancel))
            abandon(connection, call);
        appointed = call->done;
        if (appointed)
            appoint_leader(connection);
        pthread_mutex_unlock(&connection->mutex);
        wake_all(&done);
        pthread_mutex_lock(&connection->mutex);
    }
    if (!appointed) /* the connection broke while the mutex was not held */
        appoint_leader(connection);
}

/* ---- waiting: the followers ---- */

/* Without the mutex. Waits until woken, and breaks the connection when the call's time is up. False: it was
 * cancelled and is abandoned. */
static bool follow(struct redis_connection *connection, struct redis_request *call,
                   struct lock_cancel *cancel) {
    int64_t until_ns = call->until_ns, sleep_ns = lock_mono_ns() + redis_dial_busy_poll_ns;
    enum lock_status status;
    while (atomic_load(&connection->quick) && !atomic_load(&call->waiter.woken) && lock_mono_ns() < sleep_ns)
        sched_yield();
    while ((status = lock_waiter_wait(&call->waiter, until_ns, cancel)) != LOCK_OK) {
        bool abandoned = false;
        pthread_mutex_lock(&connection->mutex);
        if (status == LOCK_TIMEOUT && !call->done)
            break_connection(connection, ETIMEDOUT);
        else if (status == LOCK_CANCELLED && !call->done && !call->leads)
            abandoned = abandon(connection, call);
        pthread_mutex_unlock(&connection->mutex);
        if (abandoned)
            return false;
        if (status == LOCK_TIMEOUT)
            until_ns = INT64_MAX; /* it is woken by now, or in a moment */
        cancel = NULL;
    }
    return true;
}

/* ---- calls ---- */

static int64_t timeout_from_now_ns(const struct redis_connection *connection) {
    return lock_mono_ns() + (int64_t)connection->timeout_ms * 1000000;
}

/* At least a third of the timeout must be left after connecting. Otherwise the next call has it. */
static bool has_time(const struct redis_connection *connection, int64_t until_ns) {
    bool has = until_ns - lock_mono_ns() >= (int64_t)connection->timeout_ms * 1000000 / 3;
    if (!has)
        report_reached(connection, "connected, but too late for what was to be sent");
    return has;
}

void redis_connection_begin(struct redis_connection *connection, struct redis_request *call, int argc,
                            const char *const argv[], struct redis_answer *answer, int64_t until_ns) {
    *call = (struct redis_request){.answer = answer, .status = LOCK_UNAVAILABLE, .done = true};
    lock_waiter_init(&call->waiter);
    pthread_mutex_lock(&connection->mutex);
    test_idle(connection);
    if (connection->is_replica && !connection->has_leader) /* all calls were abandoned */
        break_connection(connection, 0);
    if (!connection->broken && !connection->is_replica && (connection->hiredis || connect_now(connection)) &&
        (!until_ns || has_time(connection, until_ns))) {
        call->until_ns = until_ns ? until_ns : timeout_from_now_ns(connection);
        size_t length = redis_output_append(&connection->output, argc, argv);
        connection->queued += length;
        if (length > 0) {
            lock_env_count_requests(connection->env, 1);
            call->done = false;
            call->ends_at = connection->queued;
            STAILQ_INSERT_TAIL(&connection->calls, call, next);
        } else {
            call->status = LOCK_NOMEM;
        }
    }
    if (call->done)
        lock_waiter_wake(&call->waiter);
    pthread_mutex_unlock(&connection->mutex);
}

enum lock_status redis_connection_end(struct redis_connection *connection, struct redis_request *call,
                                      struct lock_cancel *cancel) {
    pthread_mutex_lock(&connection->mutex);
    if (!call->done)
        write_queued(connection, call->until_ns);
    bool leads = !call->done && !connection->has_leader;
    if (!leads) {
        pthread_mutex_unlock(&connection->mutex);
        leads = follow(connection, call, cancel) && call->leads;
        if (!leads)
            goto done;
        pthread_mutex_lock(&connection->mutex);
    }
    connection->has_leader = true;
    if (!call->done)
        lead(connection, call, cancel);
    else
        appoint_leader(connection); /* it was appointed, and then the connection broke */
    pthread_mutex_unlock(&connection->mutex);
done:
    lock_waiter_destroy(&call->waiter);
    return call->status;
}

enum lock_status redis_connection_call(struct redis_connection *connection, int argc,
                                       const char *const argv[], struct redis_answer *answer,
                                       struct lock_cancel *cancel) {
    struct redis_request call;
    redis_connection_begin(connection, &call, argc, argv, answer, timeout_from_now_ns(connection));
    return redis_connection_end(connection, &call, cancel);
}
