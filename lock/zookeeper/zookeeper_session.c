/* The address of an ensemble, and a session with it.
 *
 * How long a session lives. The leader of the ensemble ends a session that it has not heard of for the agreed
 * timeout T. A client may be connected to another server. The leader asks that server every half tick which
 * clients it has heard. So an answer from it proves little: it may be cut off, together with its clients,
 * right after the answer; and what the leader knows of a client is up to half a tick old, and older by as
 * much as the client was silent before.
 *
 * Hence the heartbeat: a `sync` every T/16. It goes to the leader on the same connection by which the server
 * tells the leader which clients it heard. When a heartbeat is answered, all that the server told before it
 * was sent has reached the leader, and that includes a heartbeat that was sent half a tick earlier. T is at
 * least two ticks (unless the server's minSessionTimeout says otherwise), so half a tick is at most T/4,
 * which is four heartbeats. So the session lives until T after the sending of the fourth heartbeat before the
 * last one that was answered. The first ones count from before the session was asked for. If a heartbeat was
 * sent to another server, the leader has heard of the session when it moved; and a new leader starts with all
 * sessions as if it had just heard of them.
 *
 * T is asked for as one and a half times to live, so that a grant gets its full time to live all the same:
 * 11/16 of T are left when a heartbeat is due. The server bounds T (by default to 2 and 20 ticks of 2 s); if
 * it gives less, grants end earlier. */
#include "lock/zookeeper/zookeeper_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url_parts.h"

enum { PORT = 2181 };

enum { PER_TIMEOUT = 16 /* heartbeats in T */, ASKED_MIN_MS = 500, CONNECT_MIN_MS = 500 };

/* A session that is not connected for so many timeouts is given up, though no server has ended it: a server
 * that has lost its data refuses a client that has seen more, for ever. While an ensemble is down its
 * sessions do not end, so it is not given up sooner. */
enum { GIVE_UP_TIMEOUTS = 4 };

static const int64_t ms_ns = 1000000;
/* `retry_ns`: the pause after the C client could not be started. `drain_ns`: how long closing waits for
 * replies in flight. */
static const int64_t retry_ns = 100 * ms_ns, drain_ns = 100 * ms_ns, drain_poll_ns = 5 * ms_ns;

/* ---- the address ---- */

/* Reads HOST[:PORT], and writes HOST:PORT without brackets, as the C client wants it. Returns NULL, or what
 * is wrong. */
static const char *address_append_server(char **out, const char *text, size_t length) {
    struct host host;
    if (memchr(text, '@', length))
        return "has a user: there are none";
    const char *wrong = host_read(&host, text, length, PORT);
    if (!wrong)
        *out += sprintf(*out, "%.*s:%d", (int)host.length, host.name, host.port);
    return wrong;
}

/* Returns NULL, or what is wrong. */
static const char *address_read_chroot(const char *text, char *root) {
    int levels = 0;
    size_t length = strlen(text);
    if (length >= ZOOKEEPER_ROOT_SIZE - sizeof "/lock" + 1)
        return "is too long";
    if (strpbrk(text, " ,#@"))
        return "has a space, a comma, a # or an @ in it; it stands once, behind the last server";
    for (const char *at = text; *at; levels++) {
        size_t level = strcspn(at + 1, "/");
        if (level == 0 || (level == 1 && at[1] == '.') || (level == 2 && at[1] == '.' && at[2] == '.'))
            return "has a level that is empty, . or ..";
        at += 1 + level;
    }
    stpcpy(stpcpy(root, text), "/lock");
    return levels < ZOOKEEPER_LEVELS_MAX ? NULL : "is too deep";
}

bool zookeeper_address_read(const char *address, char servers[ZOOKEEPER_SERVERS_SIZE],
                            char root[ZOOKEEPER_ROOT_SIZE], char *what, size_t size) {
    const char *at = address, *end = address + strcspn(address, "/"), *wrong;
    char *out = servers;
    for (int number = 1;; number++) {
        size_t server = strcspn(at, ",/");
        wrong = address_append_server(&out, at, server);
        if (wrong) {
            snprintf(what, size, "server %d %s", number, wrong);
            return false;
        }
        at += server;
        if (at == end)
            break;
        *out++ = ',';
        at++;
    }
    *out = '\0';
    wrong = address_read_chroot(strcmp(end, "/") == 0 ? "" : end, root);
    if (wrong)
        snprintf(what, size, "the path %s", wrong);
    return !wrong;
}

/* ---- on the C client's thread ---- */

static void session_on_event(zhandle_t *handle, int type, int state, const char *path, void *ctx) {
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
        session->give_up_ns = clock_now_ns() + GIVE_UP_TIMEOUTS * session->timeout_ns;
    }
    session->number += session->over;
    bool over = session->over;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    if (over)
        session->env->wake(session->env->lock, NULL, NULL);
}

static void session_on_heartbeat(const struct zookeeper_call *call, bool answered) {
    struct zookeeper_session *session = call->session;
    session->heartbeat_in_flight = false;
    if (answered) {
        memmove(&session->heard_ns[1], &session->heard_ns[0],
                (ZOOKEEPER_HEARTBEATS - 1) * sizeof session->heard_ns[0]);
        session->heard_ns[0] = call->sent_ns;
    }
    pthread_cond_broadcast(&session->changed);
}

/* ---- the thread: with the mutex held, except where it may block ---- */

static void log_nothing(const char *message) {
    (void)message;
}

static void open_handle(struct zookeeper_session *session) {
    int64_t asked_ms = session->ttl_ms * 3 / 2 > ASKED_MIN_MS ? session->ttl_ms * 3 / 2 : ASKED_MIN_MS;
    int64_t connect_ms = asked_ms / 4 > CONNECT_MIN_MS ? asked_ms / 4 : CONNECT_MIN_MS;
    int64_t began_ns = lock_env_now_ns(session->env);
    session->give_up_ns = clock_now_ns() + connect_ms * ms_ns;
    session->heartbeat_at_ns = 0;
    session->born = session->over = session->connected = session->heartbeat_in_flight = false;
    for (int i = 0; i < ZOOKEEPER_HEARTBEATS; i++)
        session->heard_ns[i] = began_ns;
    pthread_mutex_unlock(&session->mutex);
    /* Its threads inherit that this one takes no signals. */
    zhandle_t *handle = zookeeper_init2(session->servers, session_on_event, (int)asked_ms, NULL, session,
                                        ZOO_NO_LOG_CLIENTENV, log_nothing);
    if (handle) /* by default the C client looks up all names with each message */
        zoo_set_servers_resolution_delay(handle, -1);
    pthread_mutex_lock(&session->mutex);
    session->handle = handle;
    pthread_cond_broadcast(&session->changed);
}

static void close_handle(struct zookeeper_session *session) {
    zhandle_t *handle = session->handle;
    bool expire = session->expire;
    session->handle = NULL;
    session->connected = false;
    pthread_mutex_unlock(&session->mutex);
    /* Closing while connected would end the session, and with it grants that are to expire. The C client
     * leaves a server that is not in its list any more; no server can have this address, and no packet is
     * sent to it. */
    if (handle && expire)
        zoo_set_servers(handle, "255.255.255.255:1");
    if (handle)
        zookeeper_close(handle);
    pthread_mutex_lock(&session->mutex);
    zookeeper_session_drop_calls(session); /* the C client does not report all of them */
}

static void send_heartbeat(struct zookeeper_session *session) {
    static const struct zookeeper_request request = {.verb = ZOOKEEPER_SYNC, .path = "/"};
    session->heartbeat_at_ns = clock_now_ns() + session->timeout_ns / PER_TIMEOUT;
    struct zookeeper_call *call = zookeeper_call_new(session, 1);
    if (!call)
        return;
    session->heartbeat_in_flight = true;
    call->on_answered = session_on_heartbeat;
    call->sent_ns = lock_env_now_ns(session->env);
    zookeeper_call_send(call, &request, 1);
}

/* Leaves the session to expire on the servers, and its nodes with it. */
static void give_up(struct zookeeper_session *session) {
    bool born = session->born;
    session->number += born;
    close_handle(session);
    pthread_mutex_unlock(&session->mutex);
    if (born)
        session->env->wake(session->env->lock, NULL, NULL);
    pthread_mutex_lock(&session->mutex);
}

static void *session_run(void *arg) {
    struct zookeeper_session *session = arg;
    pthread_mutex_lock(&session->mutex);
    while (!session->stop) {
        int64_t now = clock_now_ns(), until_ns = now + 1000 * ms_ns;
        if (!session->handle) {
            open_handle(session);
            if (session->handle)
                continue;
            until_ns = clock_now_ns() + retry_ns;
        } else if (session->over) {
            close_handle(session);
            continue;
        } else if (!session->connected) {
            if (now >= session->give_up_ns)
                give_up(session);
            until_ns = session->give_up_ns;
        } else if (!session->heartbeat_in_flight) {
            if (now >= session->heartbeat_at_ns)
                send_heartbeat(session);
            until_ns = session->heartbeat_at_ns;
        }
        if (until_ns > now)
            cond_wait_until(&session->changed, &session->mutex, until_ns);
    }
    for (int64_t until_ns = clock_now_ns() + drain_ns;
         !LIST_EMPTY(&session->calls) && clock_now_ns() < until_ns;)
        cond_wait_until(&session->changed, &session->mutex, clock_now_ns() + drain_poll_ns);
    close_handle(session);
    pthread_mutex_unlock(&session->mutex);
    return NULL;
}

/* ---- opening and closing ---- */

static void free_session(struct zookeeper_session *session) {
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session->servers);
    free(session);
}

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
    if (session->servers && thread_start(&session->thread, session_run, session))
        return session;
    free_session(session);
    return NULL;
}

void zookeeper_session_close(struct zookeeper_session *session, uint64_t owning) {
    pthread_mutex_lock(&session->mutex);
    session->stop = true;
    session->expire = owning == session->number;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    pthread_join(session->thread, NULL);
    free_session(session);
}

int64_t zookeeper_session_until_ns(const struct zookeeper_session *session) {
    return clock_now_ns() + lock_env_timeout_ms(session->ttl_ms, 8) * ms_ns;
}

/* ---- calls ---- */

/* Reports a time-out as well as it can: the C client writes only into its log why there is no connection. */
static void report_late(const struct zookeeper_session *session) {
    zhandle_t *handle = session->handle;
    const char *why = "no connection: refused, not to be reached, or an unknown name";
    if (handle && session->connected)
        why = "no answer came in time";
    else if (handle && zoo_state(handle) == ZOO_ASSOCIATING_STATE)
        why = "connected, but no answer came in time";
    /* Nor does the C client say which of its servers it was. */
    lock_env_failed(session->env, session->servers, why);
}

/* LOCK_OK, LOCK_NOT_OWNER, LOCK_UNAVAILABLE. */
static enum lock_status wait_for_connection(struct zookeeper_session *session, uint64_t *number,
                                            const struct lock_limit *limit) {
    while (*number == 0 || *number == session->number) {
        if (lock_limit_is_over(limit)) {
            if (!cancel_called(limit->cancel)) /* that would say nothing of the server */
                report_late(session);
            return LOCK_UNAVAILABLE;
        }
        if (session->handle && session->connected) {
            *number = session->number;
            return LOCK_OK;
        }
        lock_limit_wait(limit, &session->changed, &session->mutex);
    }
    return LOCK_NOT_OWNER;
}

static enum lock_status status_of(const struct zookeeper_session *session, uint64_t number,
                                  const struct zookeeper_reply *replies, int count) {
    int done = 0;
    if (number != session->number)
        return LOCK_NOT_OWNER; /* what lost requests may have created is gone with the session */
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
    zookeeper_call_send(call, requests, count);
    while (call->open > 0 && !lock_limit_is_over(limit))
        lock_limit_wait(limit, &call->done, &session->mutex);
    for (int i = 0; i < count; i++) {
        if (call->slots[i].answered)
            replies[i] = call->slots[i].reply;
    }
    if (call->open > 0 && !cancel_called(limit->cancel))
        lock_env_failed(session->env, session->servers, "no answer came in time");
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
    int64_t timeout_ns = session->timeout_ns, heard_ns = session->heard_ns[ZOOKEEPER_HEARTBEATS - 1];
    bool good = number == session->number && heard_ns + timeout_ns / 2 >= lock_env_now_ns(session->env);
    pthread_mutex_unlock(&session->mutex);
    /* Less a hundredth for what two clocks may drift apart, and 2 ms, as for other stores. */
    int64_t until_ns = heard_ns + timeout_ns / 100 * 99 - 2 * ms_ns;
    int64_t deadline_ns = sent_ns + session->ttl_ms * 990000 - 2 * ms_ns;
    if (!good)
        return 0;
    return deadline_ns < until_ns ? deadline_ns : until_ns;
}
