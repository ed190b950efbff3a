/* How long a session lives. The leader of the ensemble ends it when it has not heard of it for the time-out T
 * that was agreed on. A client may be connected to another server, which tells the leader whom it heard when
 * the leader asks, every half tick. So an answer proves little by itself: that server may be cut off,
 * together with us, right after it; what the leader has heard of us is up to half a tick older, and as much
 * older still as we had been silent before.
 *
 * Hence the beat: every T/16 a `sync`, which goes through the leader, on the connection by which that server
 * also tells it whom it heard. When a beat was answered, all that was told before the beat was sent has
 * reached the leader; and a beat that was sent half a tick earlier was told by then. T is at least two ticks
 * unless the server was set up otherwise (minSessionTimeout), so half a tick is at most T/4, which is four
 * beats: the session lives until T after the sending of the fourth beat before the last one that was
 * answered. The first ones count from before the session was asked for. Where one of them was sent to another
 * server, the leader has heard of the session when it moved; and a new leader begins with all sessions as if
 * it had just heard of them.
 *
 * T is asked for as one and a half times to live, so that a grant has its full time to live even so: 11/16 of
 * T are left when a beat is due. The server bounds T (to 2 and 20 ticks, of 2 s by default); where it gives
 * less, grants end earlier. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/core/waiter.h"
#include "lock/zookeeper/requests.h"

enum { BEATS_IN_TIMEOUT = 16, ASKED_MIN_MS = 500, CONNECT_MIN_MS = 500 };

/* A session that was away for so many of its time-outs is given up, though nobody has said that it is over: a
 * server that knows less than we have seen, since it has lost its data, turns it away for ever. While an
 * ensemble is down its sessions do not end, so it is not given up sooner. */
enum { GIVE_UP_TIMEOUTS = 4 };

static const int64_t ms_ns = 1000000;
/* After the C client could not be started; and for replies under way, at the end. */
static const int64_t retry_ns = 100 * ms_ns, calm_ns = 100 * ms_ns;

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

static void wait_for(struct zookeeper_session *session, pthread_cond_t *cond, int64_t until_ns) {
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_cond_clockwait(cond, &session->mutex, CLOCK_MONOTONIC, &until);
}

/* ---- on the C client's thread ---- */

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *ctx) {
    (void)path;
    struct zookeeper_session *session = ctx;
    if (type != ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&session->mutex);
    bool was_connected = session->connected;
    session->connected = state == ZOO_CONNECTED_STATE;
    session->over = state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
    if (session->connected) {
        session->born = true;
        session->timeout_ns = zoo_recv_timeout(handle) * ms_ns;
    } else if (was_connected) {
        session->give_up_ns = now_ns() + GIVE_UP_TIMEOUTS * session->timeout_ns;
    }
    session->number += session->over;
    bool over = session->over;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    if (over)
        session->env->wake(session->env->lock, NULL, NULL);
}

void zookeeper_session_end_beat(struct zookeeper_session *session, int64_t sent_ns, bool answered) {
    session->beating = false;
    if (answered) {
        memmove(&session->heard_ns[1], &session->heard_ns[0],
                (ZOOKEEPER_BEATS - 1) * sizeof session->heard_ns[0]);
        session->heard_ns[0] = sent_ns;
    }
    pthread_cond_broadcast(&session->changed);
}

/* ---- the thread: with the mutex held, which it gives away where it may block ---- */

static void log_nothing(const char *message) {
    (void)message;
}

static void open_handle(struct zookeeper_session *session) {
    int64_t asked_ms = session->ttl_ms * 3 / 2 > ASKED_MIN_MS ? session->ttl_ms * 3 / 2 : ASKED_MIN_MS;
    int64_t connect_ms = asked_ms / 4 > CONNECT_MIN_MS ? asked_ms / 4 : CONNECT_MIN_MS;
    int64_t began_ns = lock_env_now_ns(session->env);
    session->give_up_ns = now_ns() + connect_ms * ms_ns;
    session->beat_at_ns = 0;
    session->born = session->over = session->connected = session->beating = false;
    for (int i = 0; i < ZOOKEEPER_BEATS; i++)
        session->heard_ns[i] = began_ns;
    pthread_mutex_unlock(&session->mutex);
    /* Its threads take no signals, as this one does not. */
    zhandle_t *handle = zookeeper_init2(session->servers, on_session, (int)asked_ms, NULL, session,
                                        ZOO_NO_LOG_CLIENTENV, log_nothing);
    if (handle) /* else all names would be looked up with each message */
        zoo_set_servers_resolution_delay(handle, -1);
    pthread_mutex_lock(&session->mutex);
    session->handle = handle;
    pthread_cond_broadcast(&session->changed);
}

static void close_handle(struct zookeeper_session *session) {
    zhandle_t *handle = session->handle;
    bool leave = session->leave;
    session->handle = NULL;
    session->connected = false;
    pthread_mutex_unlock(&session->mutex);
    /* Closed while connected it would end the session, and with it grants that are to run out. The C client
     * leaves a server that is not in its list any more; nobody can be at this address, and no packet is sent.
     */
    if (handle && leave)
        zoo_set_servers(handle, "255.255.255.255:1");
    if (handle)
        zookeeper_close(handle);
    pthread_mutex_lock(&session->mutex);
    zookeeper_call_forget_all(session); /* the C client does not tell all of them */
}

static void beat(struct zookeeper_session *session) {
    static const struct zookeeper_request request = {.verb = ZOOKEEPER_SYNC, .path = "/"};
    session->beat_at_ns = now_ns() + session->timeout_ns / BEATS_IN_TIMEOUT;
    struct zookeeper_call *call = zookeeper_call_new(session, 1);
    if (!call)
        return;
    session->beating = call->beats = true;
    call->sent_ns = lock_env_now_ns(session->env);
    zookeeper_call_queue(call, &request, 1);
}

/* Its nodes, if there are any left, run out. */
static void give_up(struct zookeeper_session *session) {
    bool born = session->born;
    session->number += born;
    close_handle(session);
    pthread_mutex_unlock(&session->mutex);
    if (born)
        session->env->wake(session->env->lock, NULL, NULL);
    pthread_mutex_lock(&session->mutex);
}

static void *run(void *arg) {
    struct zookeeper_session *session = arg;
    pthread_mutex_lock(&session->mutex);
    while (!session->stop) {
        int64_t now = now_ns(), until_ns = now + 1000 * ms_ns;
        if (!session->handle) {
            open_handle(session);
            if (session->handle)
                continue;
            until_ns = now_ns() + retry_ns;
        } else if (session->over) {
            close_handle(session);
            continue;
        } else if (!session->connected) {
            if (now >= session->give_up_ns)
                give_up(session);
            until_ns = session->give_up_ns;
        } else if (!session->beating) {
            if (now >= session->beat_at_ns)
                beat(session);
            until_ns = session->beat_at_ns;
        }
        if (until_ns > now)
            wait_for(session, &session->changed, until_ns);
    }
    for (int64_t until_ns = now_ns() + calm_ns; session->calls && now_ns() < until_ns;)
        wait_for(session, &session->changed, until_ns);
    close_handle(session);
    pthread_mutex_unlock(&session->mutex);
    return NULL;
}

/* ---- */

struct zookeeper_session *zookeeper_session_open(const char *servers, int64_t ttl_ms,
                                                 const struct lock_env *env) {
    struct zookeeper_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->env = env;
    session->ttl_ms = ttl_ms;
    session->number = 1;
    session->servers = strdup(servers);
    pthread_mutex_init(&session->mutex, NULL);
    pthread_cond_init(&session->changed, NULL);
    if (session->servers && lock_env_start_thread(&session->thread, run, session))
        return session;
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session->servers);
    free(session);
    return NULL;
}

void zookeeper_session_close(struct zookeeper_session *session, bool leave) {
    pthread_mutex_lock(&session->mutex);
    session->stop = true;
    session->leave = leave;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    pthread_join(session->thread, NULL);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session->servers);
    free(session);
}

uint64_t zookeeper_session_number(struct zookeeper_session *session) {
    pthread_mutex_lock(&session->mutex);
    uint64_t number = session->number;
    pthread_mutex_unlock(&session->mutex);
    return number;
}

int64_t zookeeper_session_until_ns(const struct zookeeper_session *session) {
    return now_ns() + lock_env_timeout_ms(session->ttl_ms, 8) * ms_ns;
}

/* Which of its servers it was the C client does not say. */
static void tell(const struct zookeeper_session *session, const char *why) {
    lock_env_failed(session->env, session->servers, why);
}

/* The C client has the reason in its log alone. */
static void tell_no_connection(const struct zookeeper_session *session) {
    bool associates = session->handle && zoo_state(session->handle) == ZOO_ASSOCIATING_STATE;
    tell(session, associates ? "connected, but no answer came in time"
                             : "no connection: refused, not to be reached, or an unknown name");
}

static bool is_over(const struct lock_limit *limit) {
    return now_ns() >= limit->until_ns || lock_cancel_called(limit->cancel);
}

static void wait_within(struct zookeeper_session *session, pthread_cond_t *cond,
                        const struct lock_limit *limit) {
    wait_for(session, cond, lock_cancel_poll_ns(limit->cancel, now_ns(), limit->until_ns));
}

/* LOCK_OK, LOCK_NOT_OWNER, LOCK_UNAVAILABLE. */
static enum lock_status wait_for_connection(struct zookeeper_session *session, uint64_t *number,
                                            const struct lock_limit *limit) {
    for (;;) {
        if (*number && *number != session->number)
            return LOCK_NOT_OWNER;
        bool in_time = !is_over(limit);
        if (session->handle && session->connected && in_time) {
            *number = session->number;
            return LOCK_OK;
        }
        if (!in_time) {
            if (lock_cancel_called(limit->cancel))
                return LOCK_UNAVAILABLE; /* which says nothing of the server */
            if (session->handle && session->connected)
                tell(session, "no answer came in time");
            else
                tell_no_connection(session);
            return LOCK_UNAVAILABLE;
        }
        wait_within(session, &session->changed, limit);
    }
}

static enum lock_status status_of(const struct zookeeper_session *session, uint64_t number,
                                  const struct zookeeper_reply *replies, int count) {
    int done = 0;
    if (number != session->number)
        return LOCK_NOT_OWNER; /* whatever was lost is gone with the session */
    for (int i = 0; i < count; i++) {
        if (replies[i].result == ZOOKEEPER_LOST)
            return LOCK_UNKNOWN;
        done += replies[i].result != ZOOKEEPER_NOT_DONE;
    }
    return done > 0 ? LOCK_OK : LOCK_UNAVAILABLE;
}

enum lock_status zookeeper_session_call(struct zookeeper_session *session, uint64_t *number,
                                        const struct zookeeper_request *requests, int count,
                                        struct zookeeper_reply *replies, const struct lock_limit *limit) {
    struct zookeeper_call *call = NULL;
    memset(replies, 0, (size_t)count * sizeof *replies);
    pthread_mutex_lock(&session->mutex);
    enum lock_status status = wait_for_connection(session, number, limit);
    if (status == LOCK_OK && !(call = zookeeper_call_new(session, count)))
        status = LOCK_NOMEM;
    if (status != LOCK_OK)
        goto unlock;
    call->waited_for = true;
    lock_env_count_requests(session->env, count);
    zookeeper_call_queue(call, requests, count);
    while (call->open > 0 && !is_over(limit))
        wait_within(session, &call->done, limit);
    for (int i = 0; i < count; i++) {
        if (call->slots[i].answered)
            replies[i] = call->slots[i].reply;
    }
    if (call->open > 0 && !lock_cancel_called(limit->cancel))
        tell(session, "no answer came in time");
    status = status_of(session, *number, replies, count);
    if (status == LOCK_UNAVAILABLE && call->no_memory)
        status = LOCK_NOMEM;
    call->waited_for = false;
    if (call->open == 0)
        zookeeper_call_free(call);
unlock:
    pthread_mutex_unlock(&session->mutex);
    return status;
}

int64_t zookeeper_session_deadline_ns(struct zookeeper_session *session, uint64_t number, int64_t sent_ns) {
    pthread_mutex_lock(&session->mutex);
    int64_t timeout_ns = session->timeout_ns, heard_ns = session->heard_ns[ZOOKEEPER_BEATS - 1];
    bool good = number == session->number && heard_ns + timeout_ns / 2 >= lock_env_now_ns(session->env);
    pthread_mutex_unlock(&session->mutex);
    /* Less a hundredth for what two clocks may drift apart, and 2 ms, as for other stores. */
    int64_t until_ns = heard_ns + timeout_ns / 100 * 99 - 2 * ms_ns;
    int64_t deadline_ns = sent_ns + session->ttl_ms * 990000 - 2 * ms_ns;
    if (!good)
        return 0;
    return deadline_ns < until_ns ? deadline_ns : until_ns;
}
