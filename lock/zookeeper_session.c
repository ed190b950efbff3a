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
 * answered. The first ones count from before the session was asked for.
 *
 * T is asked for as one and a half times to live, so that a grant has its full time to live even so: 11/16 of
 * T are left when a beat is due. The server bounds T (to 2 and 20 ticks, of 2 s by default); where it gives
 * less, grants end earlier. */
#define THREADED /* which of its two libraries the header is for */
#include "lock/zookeeper_session.h"

#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "base/clock.h"

enum { BEATS = 5, BEATS_IN_TIMEOUT = 16, ASKED_MIN_MS = 500, CONNECT_MIN_MS = 500 };

static const int64_t ms_ns = 1000000;
/* After the C client could not be started; and for replies under way, at the end. */
static const int64_t retry_ns = 100 * ms_ns, calm_ns = 100 * ms_ns;

struct slot {
    struct call *call;
    struct watch *watch; /* of WATCH */
    bool answered;
    char owner[LOCK_OWNER_SIZE]; /* of PLACE */
    struct zookeeper_reply reply;
};

/* Requests that were sent together. Freed by who waits for it, or by its last answer if nobody does. */
struct call {
    struct call *newer, *older; /* of those that are not answered */
    struct zookeeper_session *session;
    pthread_cond_t done;
    int open; /* requests without an answer */
    bool waited_for, beats;
    int64_t sent_ns; /* of a beat */
    struct slot slots[ZOOKEEPER_REQUESTS_MAX];
};

/* From before the request until it fires, or the session is over: the C client sets it anew on another
 * server.
 */
struct watch {
    struct watch *next;
    struct zookeeper_session *session;
    bool set;
    char name[ZOOKEEPER_NAME_SIZE]; /* of the node: no two have the same, of whatever key */
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

struct zookeeper_session {
    const struct lock_env *env;
    int64_t ttl_ms;
    char *servers;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below; requests are queued with it, which does not block */
    pthread_cond_t changed;
    bool stop, leave;
    zhandle_t *handle; /* made and closed by the thread alone; NULL: none */
    bool connected, over;
    bool born; /* has been connected: there is a session */
    bool beating;
    uint64_t number;
    int64_t give_up_ns;      /* CLOCK_MONOTONIC: it has not been connected, and is made anew */
    int64_t timeout_ns;      /* T */
    int64_t heard_ns[BEATS]; /* when those that were answered were sent; the newest is the first */
    int64_t beat_at_ns;      /* CLOCK_MONOTONIC */
    struct call *calls;
    struct watch *watches;
};

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

static void wait_for(struct zookeeper_session *session, pthread_cond_t *cond, int64_t until_ns) {
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_cond_clockwait(cond, &session->mutex, CLOCK_MONOTONIC, &until);
}

/* ---- calls: with the mutex held ---- */

static struct call *new_call(struct zookeeper_session *session, int count) {
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->session = session;
    call->open = count;
    pthread_cond_init(&call->done, NULL);
    for (int i = 0; i < count; i++)
        call->slots[i].call = call;
    call->older = session->calls;
    if (call->older)
        call->older->newer = call;
    session->calls = call;
    return call;
}

static void free_call(struct call *call) {
    pthread_cond_destroy(&call->done);
    free(call);
}

static void take_out_call(struct call *call) {
    if (call->newer)
        call->newer->older = call->older;
    else
        call->session->calls = call->older;
    if (call->older)
        call->older->newer = call->newer;
}

static void take_out_watch(struct watch *watch) {
    struct watch **at = &watch->session->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
}

static void end_beat(struct zookeeper_session *session, int64_t sent_ns, bool answered) {
    session->beating = false;
    if (answered) {
        memmove(&session->heard_ns[1], &session->heard_ns[0], (BEATS - 1) * sizeof session->heard_ns[0]);
        session->heard_ns[0] = sent_ns;
    }
    pthread_cond_broadcast(&session->changed);
}

/* The last answer may free the call. */
static void answer(struct slot *slot, enum zookeeper_result result) {
    struct call *call = slot->call;
    slot->answered = true;
    slot->reply.result = result;
    if (slot->watch && result == ZOOKEEPER_DONE) {
        slot->watch->set = true;
    } else if (slot->watch) { /* the C client has not kept it */
        take_out_watch(slot->watch);
        free(slot->watch);
    }
    if (--call->open > 0)
        return;
    take_out_call(call);
    if (call->beats)
        end_beat(call->session, call->sent_ns, result == ZOOKEEPER_DONE);
    if (call->session->stop)
        pthread_cond_broadcast(&call->session->changed);
    if (call->waited_for)
        pthread_cond_signal(&call->done);
    else
        free_call(call);
}

/* ---- completions: on the C client's thread ---- */

static enum zookeeper_result result_of(int rc) {
    switch (rc) {
    case ZOK:
    case ZNODEEXISTS: return ZOOKEEPER_DONE;
    case ZNONODE: return ZOOKEEPER_NO_NODE;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZRUNTIMEINCONSISTENCY:
    case ZCLOSING: return ZOOKEEPER_LOST;
    default: return ZOOKEEPER_NOT_DONE; /* or it is gone, with the session */
    }
}

static void complete(struct slot *slot, int rc) {
    struct zookeeper_session *session = slot->call->session;
    pthread_mutex_lock(&session->mutex);
    answer(slot, result_of(rc));
    pthread_mutex_unlock(&session->mutex);
}

static void on_done(int rc, const void *slot) {
    complete((struct slot *)slot, rc);
}

static void on_text(int rc, const char *text, const void *slot) {
    (void)text;
    complete((struct slot *)slot, rc);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *slot) {
    (void)value;
    (void)length;
    (void)stat;
    complete((struct slot *)slot, rc);
}

/* Nobody waits for a slot's reply, or reads it, before its call is answered; but a call may be given up. */
static void on_stat(int rc, const struct Stat *stat, const void *data) {
    struct slot *slot = (struct slot *)data;
    if (rc == ZOK)
        slot->reply.czxid = stat->czxid;
    complete(slot, rc);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data) {
    struct slot *slot = (struct slot *)data;
    const char *slash = rc == ZOK ? strrchr(path, '/') : NULL;
    if (slash && strlen(slash + 1) < sizeof slot->reply.name) {
        memcpy(slot->reply.name, slash + 1, strlen(slash + 1) + 1);
        slot->reply.czxid = stat->czxid;
    }
    complete(slot, rc);
}

/* OWNER-SEQUENCE. What is not ours has no such name. */
static bool read_sequence(const char *name, int32_t *sequence) {
    size_t length = strlen(name);
    if (length < LOCK_OWNER_SIZE + 1 || length >= ZOOKEEPER_NAME_SIZE || name[LOCK_OWNER_SIZE - 1] != '-')
        return false;
    char *end;
    *sequence = (int32_t)strtol(name + LOCK_OWNER_SIZE, &end, 10);
    return *end == '\0';
}

/* The server counts in 32 bits with a sign, for each parent anew: after 2^31 nodes comes -2^31. Of the few
 * that are there at a time the difference tells which is the older. */
static bool is_before(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}

static void find_place(struct slot *slot, const struct String_vector *names) {
    struct zookeeper_reply *reply = &slot->reply;
    int32_t own = 0, each, best = 0;
    for (int32_t i = 0; i < names->count; i++) {
        if (read_sequence(names->data[i], &each) &&
            memcmp(names->data[i], slot->owner, LOCK_OWNER_SIZE - 1) == 0) {
            memcpy(reply->name, names->data[i], strlen(names->data[i]) + 1);
            own = each;
        }
    }
    for (int32_t i = 0; reply->name[0] && i < names->count; i++) {
        if (read_sequence(names->data[i], &each) && is_before(each, own) &&
            (!reply->before[0] || is_before(best, each))) {
            memcpy(reply->before, names->data[i], strlen(names->data[i]) + 1);
            best = each;
        }
    }
}

static void on_names(int rc, const struct String_vector *names, const void *data) {
    struct slot *slot = (struct slot *)data;
    if (rc == ZOK)
        find_place(slot, names);
    complete(slot, rc);
}

static void on_gone(zhandle_t *handle, int type, int state, const char *path, void *ctx) {
    (void)handle;
    (void)state;
    (void)path;
    struct watch *watch = ctx;
    struct zookeeper_session *session = watch->session;
    if (type == ZOO_SESSION_EVENT)
        return; /* and it stays */
    pthread_mutex_lock(&session->mutex);
    take_out_watch(watch);
    pthread_mutex_unlock(&session->mutex);
    session->env->wake(session->env->layer, watch->key, watch->owner);
    free(watch);
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *ctx) {
    (void)path;
    struct zookeeper_session *session = ctx;
    if (type != ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&session->mutex);
    session->connected = state == ZOO_CONNECTED_STATE;
    session->over = state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
    if (session->connected) {
        session->born = true;
        session->timeout_ns = zoo_recv_timeout(handle) * ms_ns;
    }
    session->number += session->over;
    bool over = session->over;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    if (over)
        session->env->wake(session->env->layer, NULL, NULL);
}

/* ---- requests: with the mutex held ---- */

static struct watch *find_watch(struct zookeeper_session *session, const char *name) {
    struct watch *watch = session->watches;
    while (watch && !(watch->set && strcmp(watch->name, name) == 0))
        watch = watch->next;
    return watch;
}

/* Who gave up has left a watch behind, which does for the next one. True: there is one. */
static bool has_watch(struct zookeeper_session *session, const struct zookeeper_request *request,
                      const char *name) {
    struct watch *watch = find_watch(session, name);
    if (watch)
        memcpy(watch->owner, request->owner, sizeof watch->owner);
    return watch != NULL;
}

static int queue_watch(struct zookeeper_session *session, const struct zookeeper_request *request,
                       struct slot *slot) {
    const char *name = strrchr(request->path, '/') + 1;
    if (has_watch(session, request, name)) {
        answer(slot, ZOOKEEPER_DONE);
        return ZOK;
    }
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return ZSYSTEMERROR;
    watch->session = session;
    memcpy(watch->name, name, strlen(name) + 1);
    memcpy(watch->owner, request->owner, sizeof watch->owner);
    memcpy(watch->key, request->key, strlen(request->key) + 1);
    watch->next = session->watches;
    session->watches = slot->watch = watch;
    /* Not `exists`, which would watch for ever what is gone already. */
    return zoo_awget(session->handle, request->path, on_gone, watch, on_data, slot);
}

static int queue_request(struct zookeeper_session *session, const struct zookeeper_request *request,
                         struct slot *slot) {
    zhandle_t *handle = session->handle;
    const char *path = request->path;
    const struct ACL_vector *all = &ZOO_OPEN_ACL_UNSAFE;
    switch (request->verb) {
    case ZOOKEEPER_SYNC: return zoo_async(handle, path, on_text, slot);
    case ZOOKEEPER_MAKE: return zoo_acreate(handle, path, NULL, -1, all, ZOO_PERSISTENT, on_text, slot);
    case ZOOKEEPER_CONTAINER: return zoo_acreate(handle, path, NULL, -1, all, ZOO_CONTAINER, on_text, slot);
    case ZOOKEEPER_QUEUE:
        return zoo_acreate2(handle, path, NULL, -1, all, ZOO_EPHEMERAL_SEQUENTIAL, on_created, slot);
    case ZOOKEEPER_PLACE:
        memcpy(slot->owner, request->owner, sizeof slot->owner);
        return zoo_aget_children(handle, path, 0, on_names, slot);
    case ZOOKEEPER_STAT: return zoo_aexists(handle, path, 0, on_stat, slot);
    case ZOOKEEPER_WATCH: return queue_watch(session, request, slot);
    case ZOOKEEPER_DELETE: return zoo_adelete(handle, path, -1, on_done, slot);
    }
    return ZBADARGUMENTS;
}

static void queue_requests(struct call *call, const struct zookeeper_request *requests, int count) {
    for (int i = 0; i < count; i++) {
        if (queue_request(call->session, &requests[i], &call->slots[i]) != ZOK)
            answer(&call->slots[i], ZOOKEEPER_NOT_DONE);
    }
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
    for (int i = 0; i < BEATS; i++)
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

static void forget_calls(struct zookeeper_session *session) {
    while (session->calls) {
        struct call *call = session->calls;
        for (int i = 0, open = call->open; open > 0; i++) {
            if (call->slots[i].answered)
                continue;
            open--;
            answer(&call->slots[i], ZOOKEEPER_LOST);
        }
    }
}

static void close_handle(struct zookeeper_session *session) {
    zhandle_t *handle = session->handle;
    bool leave = session->leave;
    session->handle = NULL;
    session->connected = false;
    pthread_mutex_unlock(&session->mutex);
    /* Closed while connected it would end the session, and with it grants that are to run out. The C client
     * leaves a server that is not in its list any more; nobody can be at this address, and no packet is sent. */
    if (handle && leave)
        zoo_set_servers(handle, "255.255.255.255:1");
    if (handle)
        zookeeper_close(handle);
    pthread_mutex_lock(&session->mutex);
    forget_calls(session); /* the C client does not tell all of them */
    while (session->watches) {
        struct watch *next = session->watches->next;
        free(session->watches);
        session->watches = next;
    }
}

static void beat(struct zookeeper_session *session) {
    static const struct zookeeper_request request = {.verb = ZOOKEEPER_SYNC, .path = "/"};
    session->beat_at_ns = now_ns() + session->timeout_ns / BEATS_IN_TIMEOUT;
    struct call *call = new_call(session, 1);
    if (!call)
        return;
    session->beating = call->beats = true;
    call->sent_ns = lock_env_now_ns(session->env);
    queue_requests(call, &request, 1);
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
        } else if (session->over || (!session->born && now >= session->give_up_ns)) {
            close_handle(session);
            continue;
        } else if (!session->born) {
            until_ns = session->give_up_ns;
        } else if (session->connected && !session->beating) {
            if (now >= session->beat_at_ns)
                beat(session);
            until_ns = session->beat_at_ns;
        }
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

/* An eighth of the time to live, but 50 ms if that is no more than a third, and a second at most. */
int64_t zookeeper_session_until_ns(const struct zookeeper_session *session) {
    int64_t least_ms = session->ttl_ms / 3 < 50 ? session->ttl_ms / 3 : 50, ms = session->ttl_ms / 8;
    if (ms < least_ms)
        ms = least_ms;
    return now_ns() + (ms > 1000 ? 1000 : ms) * ms_ns;
}

/* LOCK_OK, LOCK_NOT_OWNER, LOCK_UNAVAILABLE. */
static enum lock_status wait_for_connection(struct zookeeper_session *session, uint64_t *number,
                                            int64_t until_ns) {
    for (;;) {
        if (*number && *number != session->number)
            return LOCK_NOT_OWNER;
        bool in_time = now_ns() < until_ns;
        if (session->handle && session->connected && in_time) {
            *number = session->number;
            return LOCK_OK;
        }
        if (!in_time)
            return LOCK_UNAVAILABLE;
        wait_for(session, &session->changed, until_ns);
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
                                        struct zookeeper_reply *replies, int64_t until_ns) {
    struct call *call = NULL;
    memset(replies, 0, (size_t)count * sizeof *replies);
    pthread_mutex_lock(&session->mutex);
    enum lock_status status = wait_for_connection(session, number, until_ns);
    if (status == LOCK_OK && !(call = new_call(session, count)))
        status = LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        goto unlock;
    call->waited_for = true;
    queue_requests(call, requests, count);
    while (call->open > 0 && now_ns() < until_ns)
        wait_for(session, &call->done, until_ns);
    for (int i = 0; i < count; i++) {
        if (call->slots[i].answered)
            replies[i] = call->slots[i].reply;
    }
    status = status_of(session, *number, replies, count);
    call->waited_for = false;
    if (call->open == 0)
        free_call(call);
unlock:
    pthread_mutex_unlock(&session->mutex);
    return status;
}

int64_t zookeeper_session_deadline_ns(struct zookeeper_session *session, uint64_t number, int64_t sent_ns) {
    pthread_mutex_lock(&session->mutex);
    int64_t timeout_ns = session->timeout_ns, heard_ns = session->heard_ns[BEATS - 1];
    bool good = number == session->number && heard_ns + timeout_ns / 2 >= lock_env_now_ns(session->env);
    pthread_mutex_unlock(&session->mutex);
    /* Less a hundredth for what two clocks may drift apart, and 2 ms, as for other stores. */
    int64_t until_ns = heard_ns + timeout_ns / 100 * 99 - 2 * ms_ns;
    int64_t deadline_ns = sent_ns + session->ttl_ms * 990000 - 2 * ms_ns;
    if (!good)
        return 0;
    return deadline_ns < until_ns ? deadline_ns : until_ns;
}
