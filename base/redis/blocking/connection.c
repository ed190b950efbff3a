#include "base/redis/blocking/connection.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/redis/blocking/driver.h"
#include "base/redis/resp.h"

/* After a failed connect, calls fail at once for so long. */
static const int64_t retry_ns = 100000000;
/* A connection that was not used for so long is tested before it is used. */
static const int64_t idle_ns = 50000000;

STAILQ_HEAD(requests, redis_request);

struct redis_connection {
    struct redis_url url;
    const struct redis_hooks *hooks; /* may be NULL */
    int timeout_ms;
    pthread_mutex_t mutex;       /* of all that follows; not held while the socket is read or written */
    struct redis_named named;    /* its master: the server that was reached last, or could not be */
    struct redis_target reached; /* the server that was reached last; host "": none yet */
    int64_t reached_epoch;       /* the epoch of the newest failover that was heard of by then */
    redisContext *hiredis;       /* NULL: not connected */
    bool has_leader;             /* a thread reads for all, or is appointed to */
    bool writing;                /* a thread writes */
    _Atomic bool quick;          /* the last answer came within redis_dial_busy_poll_ns */
    bool broken;                 /* the last thread that reads or writes closes it */
    bool is_replica;             /* it breaks once all calls in flight are answered; it sends no more */
    int64_t retry_at_ns, used_ns;
    struct requests calls;              /* in flight, the oldest first */
    uint64_t queued, written, answered; /* bytes of commands */
    struct redis_output output;         /* queued, and not being written yet */
};

struct redis_connection *redis_connection_open(const struct redis_url *url, int timeout_ms,
                                               const struct redis_hooks *hooks) {
    struct redis_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->url = *url;
    connection->named.master = url->servers[0];
    connection->hooks = hooks;
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

void redis_report(const struct redis_hooks *hooks, const struct redis_target *server, const char *why) {
    char name[sizeof server->host + 16];
    if (!hooks || !hooks->failed)
        return;
    snprintf(name, sizeof name, strchr(server->host, ':') ? "[%s]:%d" : "%s:%d", server->host, server->port);
    hooks->failed(hooks->ctx, name, why);
}

void redis_report_move(const struct redis_hooks *hooks) {
    if (hooks && hooks->moved)
        hooks->moved(hooks->ctx);
}

/* With the mutex held. About the server that was reached, or the one that could not be: a Sentinel, too. */
static void connection_report(const struct redis_connection *connection, const char *why) {
    redis_report(connection->hooks, &connection->named.master, why);
}

/* ---- calls in flight: with the mutex held ---- */

/* Adds the call to `done` if its thread must be woken. The leader's own call and an abandoned one need no
 * wake-up. */
static void connection_finish_oldest(struct redis_connection *connection, enum redis_status status,
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

/* Better without the mutex, so that woken threads do not run into it. A call is gone once its thread is
 * woken.
 */
static void requests_wake(struct requests *done) {
    for (struct redis_request *call; (call = STAILQ_FIRST(done));) {
        STAILQ_REMOVE_HEAD(done, next);
        waiter_wake(&call->waiter);
    }
}

/* A copy replaces the call, which has no answer yet, so that its caller may go. False: out of memory. */
static bool connection_abandon(struct redis_connection *connection, struct redis_request *call) {
    struct {
        struct redis_request call;
        struct redis_answer answer;
    } *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    copy->call = (struct redis_request){.answer = &copy->answer, .ends_at = call->ends_at, .abandoned = true};
    STAILQ_INSERT_AFTER(&connection->calls, call, &copy->call, next);
    STAILQ_REMOVE(&connection->calls, call, redis_request, next);
    call->status = REDIS_UNKNOWN;
    call->done = true;
    return true;
}

/* ---- connecting and closing: with the mutex held ---- */

static void connection_close_if_unused(struct redis_connection *connection) {
    if (!connection->broken || connection->has_leader || connection->writing)
        return;
    redisFree(connection->hiredis);
    connection->hiredis = NULL;
    connection->broken = connection->is_replica = false;
    connection->output.length = 0;
    connection->queued = connection->written = connection->answered = 0;
}

/* Fails all calls. A command that was not written to its end was not carried out. */
static void connection_break_because(struct redis_connection *connection, const char *why) {
    struct requests failed = STAILQ_HEAD_INITIALIZER(failed);
    const struct redis_request *oldest = STAILQ_FIRST(&connection->calls);
    if (!connection->broken && connection->hiredis) {
        connection->broken = true;
        if (oldest) /* otherwise it was closed while nothing was in flight */
            connection_report(connection, why);
        shutdown(connection->hiredis->fd, SHUT_RDWR);
        for (; oldest; oldest = STAILQ_FIRST(&connection->calls)) {
            bool written = oldest->ends_at <= connection->written;
            connection_finish_oldest(connection, written ? REDIS_UNKNOWN : REDIS_UNAVAILABLE, NULL, &failed);
        }
        requests_wake(&failed);
    }
    connection_close_if_unused(connection);
}

/* `why` is an errno; 0: the other side closed the connection. */
static void connection_break(struct redis_connection *connection, int why) {
    char text[128];
    if (why == ETIMEDOUT)
        snprintf(text, sizeof text, "no answer within %d ms", connection->timeout_ms);
    else
        snprintf(text, sizeof text, "%s", why ? strerror(why) : "it closed the connection");
    connection_break_because(connection, text);
}

/* Reports a move before the server is asked for anything. It may lack what was written to another server. It
 * may also lack its own writes from before a failover that was not seen: another one was the master in
 * between. */
static void connection_note_reached(struct redis_connection *connection) {
    const struct redis_named *named = &connection->named;
    struct redis_target before = connection->reached;
    bool unseen = named->election.epoch > connection->reached_epoch;
    connection->reached = named->master;
    connection->reached_epoch = named->election.epoch;
    if (before.host[0] && (unseen || !redis_target_is_same(&before, &connection->reached)))
        redis_report_move(connection->hooks);
}

/* Keeps the mutex meanwhile: other callers need the connection too. */
static bool connection_connect(struct redis_connection *connection) {
    if (clock_now_ns() < connection->retry_at_ns)
        return false;
    char why[REDIS_WHY_SIZE];
    connection->hiredis =
        redis_master_dial(&connection->url, connection->timeout_ms, &connection->named, why, sizeof why);
    if (connection->hiredis) {
        connection_note_reached(connection);
    } else {
        connection->retry_at_ns = clock_now_ns() + retry_ns;
        connection_report(connection, why);
    }
    return connection->hiredis != NULL;
}

/* The server may have closed a connection that was idle. If that is noticed now, the next command is not lost
 * with it. */
static void connection_test_idle(struct redis_connection *connection) {
    char byte;
    int64_t now = clock_now_ns();
    bool idle =
        connection->hiredis && STAILQ_EMPTY(&connection->calls) && now - connection->used_ns > idle_ns;
    connection->used_ns = now;
    if (idle && (recv(connection->hiredis->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        connection_break(connection, 0);
}

static void connection_leave_replica(struct redis_connection *connection) {
    if (!connection->is_replica || !STAILQ_EMPTY(&connection->calls))
        return;
    connection->retry_at_ns = clock_now_ns() + retry_ns; /* the name may still mean the replica */
    connection_break(connection, 0);
}

/* ---- what the Sentinels say ---- */

bool redis_connection_was_reached(struct redis_connection *connection, int64_t *epoch) {
    pthread_mutex_lock(&connection->mutex);
    bool was_reached = connection->reached.host[0];
    if (connection->named.election.epoch > *epoch)
        *epoch = connection->named.election.epoch;
    pthread_mutex_unlock(&connection->mutex);
    return was_reached;
}

bool redis_connection_follow(struct redis_connection *connection, const struct redis_named *named) {
    bool replacing = named->election.replacing, leaves = false;
    pthread_mutex_lock(&connection->mutex);
    struct redis_election *known = &connection->named.election;
    if (named->election.epoch < known->epoch && known->epoch > named->asked_epoch)
        goto unlock;
    known->epoch = named->election.epoch;
    known->older_since_ms = named->election.older_since_ms;
    leaves =
        connection->hiredis && (replacing || !redis_target_is_same(&named->master, &connection->reached));
    if (leaves)
        connection_break_because(connection, replacing ? redis_elected_text(REDIS_ELECTION_REPLACING)
                                                       : "the Sentinels name another master");
    else if (connection->hiredis)
        connection_note_reached(connection);
    if (!replacing && !connection->hiredis)
        connection_connect(connection);
unlock:
    pthread_mutex_unlock(&connection->mutex);
    return leaves;
}

/* ---- writing ---- */

/* The queued commands are written when none are in flight, or when they are as long as those in flight: then
 * the server works on one batch while the answers to the other travel, and neither is small. */
static bool connection_may_write(const struct redis_connection *connection) {
    return connection->output.length > 0 && !connection->broken &&
           connection->output.length >= connection->written - connection->answered;
}

/* Writes the queued commands of all callers, unless another thread is writing and will do it. Called, and
 * returns, with the mutex held. */
static void connection_write(struct redis_connection *connection, int64_t until_ns) {
    if (connection->writing || !connection_may_write(connection))
        return;
    connection->writing = true;
    while (connection_may_write(connection)) {
        struct redis_output output = connection->output;
        size_t sent = 0;
        int fd = connection->hiredis->fd;
        connection->output = (struct redis_output){.length = 0};
        /* Counted before it is done: another thread that breaks the connection meanwhile must not answer
         * REDIS_UNAVAILABLE. */
        connection->written += output.length;
        pthread_mutex_unlock(&connection->mutex);
        int why = redis_dial_write(fd, output.bytes, output.length, until_ns, &sent);
        pthread_mutex_lock(&connection->mutex);
        connection->written -= output.length - sent;
        free(output.bytes);
        if (why)
            connection_break(connection, why);
    }
    connection->writing = false;
    connection_close_if_unused(connection);
}

/* ---- reading: the leader ---- */

static void connection_read_answer(struct redis_connection *connection, struct redis_answer *answer,
                                   const struct redis_value *value) {
    const char *text = redis_value_text(value);
    answer->type = redis_value_type(value);
    answer->integer = answer->type == REDIS_INTEGER ? redis_value_integer(value, 0) : 0;
    answer->text[0] = '\0';
    if (text)
        snprintf(answer->text, sizeof answer->text, "%s", text);
    if (answer->type != REDIS_ERROR)
        return;
    enum redis_meaning meaning = redis_answer_meaning(answer, "", NULL);
    if (meaning != REDIS_NO_SCRIPT) /* that is no failure: the script's text is sent then */
        connection_report(connection, answer->text);
    connection->is_replica |= meaning == REDIS_IS_REPLICA;
}

/* Delivers the answers, and lists in `done` the calls whose threads must be woken. False: the bytes break the
 * protocol, or there was no call for an answer. */
static bool connection_deliver(struct redis_connection *connection, const char *bytes, size_t length,
                               const struct redis_request *leader, struct requests *done) {
    redisReader *reader = connection->hiredis->reader;
    void *reply = NULL;
    bool good = redisReaderFeed(reader, bytes, length) == REDIS_OK;
    while (good && (good = redisReaderGetReply(reader, &reply) == REDIS_OK) && reply) {
        const struct redis_request *oldest = STAILQ_FIRST(&connection->calls);
        good = oldest != NULL;
        if (good) {
            connection_read_answer(connection, oldest->answer, redis_value_of(reply));
            connection_finish_oldest(connection, REDIS_ANSWERED, leader, done);
        }
        freeReplyObject(reply);
        reply = NULL;
    }
    return good;
}

/* A leader that is done appoints the thread whose answer comes next. */
static void connection_appoint_leader(struct redis_connection *connection) {
    struct redis_request *next = STAILQ_FIRST(&connection->calls);
    while (next && next->abandoned)
        next = STAILQ_NEXT(next, next);
    connection->has_leader = next != NULL;
    if (next) {
        next->leads = true;
        waiter_wake(&next->waiter);
    }
    connection_close_if_unused(connection);
}

/* Reads for all threads until its own call is done or abandoned. Called, and returns, with the mutex held. */
static void connection_lead(struct redis_connection *connection, struct redis_request *call,
                            const struct cancel *cancel) {
    char bytes[16384];
    bool appointed = false;
    while (!call->done) {
        struct requests done = STAILQ_HEAD_INITIALIZER(done);
        assert(connection->hiredis); /* a connection that breaks leaves no call that is not done */
        int fd = connection->hiredis->fd;
        pthread_mutex_unlock(&connection->mutex);
        int64_t until_ns = cancel_poll_ns(cancel, clock_now_ns(), call->until_ns);
        ssize_t n = redis_dial_read(fd, bytes, sizeof bytes, until_ns, &connection->quick);
        int why = n < 0 ? errno : 0;
        bool nothing_yet = why == EINTR || why == EAGAIN || (why == ETIMEDOUT && until_ns < call->until_ns);
        pthread_mutex_lock(&connection->mutex);
        if (n > 0 && !connection->broken && !connection_deliver(connection, bytes, (size_t)n, call, &done))
            connection_break(connection, EPROTO);
        else if (n <= 0 && !nothing_yet)
            connection_break(connection, why);
        connection_write(connection, call->until_ns);
        connection_leave_replica(connection);
        if (!call->done && cancel_called(cancel))
            connection_abandon(connection, call);
        appointed = call->done;
        if (appointed)
            connection_appoint_leader(connection);
        pthread_mutex_unlock(&connection->mutex);
        requests_wake(&done);
        pthread_mutex_lock(&connection->mutex);
    }
    if (!appointed) /* the connection broke while the mutex was not held */
        connection_appoint_leader(connection);
}

/* ---- waiting: the followers ---- */

/* Without the mutex. Waits until woken, and breaks the connection when the call's time is up. False: it was
 * cancelled and is abandoned. */
static bool connection_wait(struct redis_connection *connection, struct redis_request *call,
                            struct cancel *cancel) {
    int64_t until_ns = call->until_ns, sleep_ns = clock_now_ns() + redis_dial_busy_poll_ns;
    enum waiter_end end;
    while (atomic_load(&connection->quick) && !atomic_load(&call->waiter.woken) && clock_now_ns() < sleep_ns)
        sched_yield();
    while ((end = waiter_wait(&call->waiter, until_ns, cancel)) != WAITER_WOKEN) {
        bool abandoned = false;
        pthread_mutex_lock(&connection->mutex);
        if (end == WAITER_TIMEOUT && !call->done)
            connection_break(connection, ETIMEDOUT);
        else if (end == WAITER_CANCELLED && !call->done && !call->leads)
            abandoned = connection_abandon(connection, call);
        pthread_mutex_unlock(&connection->mutex);
        if (abandoned)
            return false;
        if (end == WAITER_TIMEOUT)
            until_ns = INT64_MAX; /* it is woken by now, or in a moment */
        cancel = NULL;
    }
    return true;
}

/* ---- calls ---- */

static int64_t connection_until_ns(const struct redis_connection *connection) {
    return clock_now_ns() + (int64_t)connection->timeout_ms * 1000000;
}

/* At least a third of the timeout must be left after connecting. Otherwise only later calls use the
 * connection.
 */
static bool connection_has_time(const struct redis_connection *connection, int64_t until_ns) {
    bool has = until_ns - clock_now_ns() >= (int64_t)connection->timeout_ms * 1000000 / 3;
    if (!has)
        connection_report(connection, "connected, but too late for what was to be sent");
    return has;
}

void redis_connection_begin(struct redis_connection *connection, struct redis_request *call, int argc,
                            const char *const argv[], struct redis_answer *answer, int64_t until_ns) {
    *call = (struct redis_request){.answer = answer, .status = REDIS_UNAVAILABLE, .done = true};
    waiter_init(&call->waiter);
    pthread_mutex_lock(&connection->mutex);
    connection_test_idle(connection);
    if (connection->is_replica && !connection->has_leader) /* all calls were abandoned */
        connection_break(connection, 0);
    if (!connection->broken && !connection->is_replica &&
        (connection->hiredis || connection_connect(connection)) &&
        (!until_ns || connection_has_time(connection, until_ns))) {
        call->until_ns = until_ns ? until_ns : connection_until_ns(connection);
        size_t length = redis_output_append(&connection->output, argc, argv);
        connection->queued += length;
        if (length > 0) {
            if (connection->hooks && connection->hooks->requests)
                atomic_fetch_add_explicit(connection->hooks->requests, 1, memory_order_relaxed);
            call->done = false;
            call->ends_at = connection->queued;
            STAILQ_INSERT_TAIL(&connection->calls, call, next);
        } else {
            call->status = REDIS_NOMEM;
        }
    }
    if (call->done)
        waiter_wake(&call->waiter);
    pthread_mutex_unlock(&connection->mutex);
}

enum redis_status redis_connection_end(struct redis_connection *connection, struct redis_request *call,
                                       struct cancel *cancel) {
    pthread_mutex_lock(&connection->mutex);
    if (!call->done)
        connection_write(connection, call->until_ns);
    bool leads = !call->done && !connection->has_leader;
    if (!leads) {
        pthread_mutex_unlock(&connection->mutex);
        leads = connection_wait(connection, call, cancel) && call->leads;
        if (!leads)
            goto done;
        pthread_mutex_lock(&connection->mutex);
    }
    connection->has_leader = true;
    if (!call->done)
        connection_lead(connection, call, cancel);
    else
        connection_appoint_leader(connection); /* it was appointed, and then the connection broke */
    pthread_mutex_unlock(&connection->mutex);
done:
    waiter_destroy(&call->waiter);
    return call->status;
}

enum redis_status redis_connection_call(struct redis_connection *connection, int argc,
                                        const char *const argv[], struct redis_answer *answer,
                                        struct cancel *cancel) {
    struct redis_request call;
    redis_connection_begin(connection, &call, argc, argv, answer, connection_until_ns(connection));
    return redis_connection_end(connection, &call, cancel);
}
