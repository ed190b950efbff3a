#include "lock/zookeeper/requests.h"

#include <stdlib.h>
#include <string.h>

/* From before the request until it fires, or the session is over: the C client sets it anew on another
 * server.
 */
struct zookeeper_watch {
    struct zookeeper_watch *next;
    struct zookeeper_session *session;
    bool set;
    char name[ZOOKEEPER_NAME_SIZE]; /* of the node: no two have the same, of whatever key */
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

/* ---- calls: with the mutex held ---- */

struct zookeeper_call *zookeeper_call_new(struct zookeeper_session *session, int count) {
    struct zookeeper_call *call = calloc(1, sizeof *call);
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

void zookeeper_call_free(struct zookeeper_call *call) {
    pthread_cond_destroy(&call->done);
    free(call);
}

static void take_out_call(struct zookeeper_call *call) {
    if (call->newer)
        call->newer->older = call->older;
    else
        call->session->calls = call->older;
    if (call->older)
        call->older->newer = call->newer;
}

static void take_out_watch(struct zookeeper_watch *watch) {
    struct zookeeper_watch **at = &watch->session->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
}

/* The last answer may free the call. */
static void answer(struct zookeeper_slot *slot, enum zookeeper_result result) {
    struct zookeeper_call *call = slot->call;
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
        zookeeper_session_end_beat(call->session, call->sent_ns, result == ZOOKEEPER_DONE);
    if (call->session->stop)
        pthread_cond_broadcast(&call->session->changed);
    if (call->waited_for)
        pthread_cond_signal(&call->done);
    else
        zookeeper_call_free(call);
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

static void complete(struct zookeeper_slot *slot, int rc) {
    struct zookeeper_session *session = slot->call->session;
    enum zookeeper_result result = result_of(rc);
    if (result == ZOOKEEPER_LOST || result == ZOOKEEPER_NOT_DONE)
        lock_env_failed(session->env, session->servers, zerror(rc));
    pthread_mutex_lock(&session->mutex);
    answer(slot, result);
    pthread_mutex_unlock(&session->mutex);
}

static void on_done(int rc, const void *slot) {
    complete((struct zookeeper_slot *)slot, rc);
}

static void on_text(int rc, const char *text, const void *slot) {
    (void)text;
    complete((struct zookeeper_slot *)slot, rc);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *slot) {
    (void)value;
    (void)length;
    (void)stat;
    complete((struct zookeeper_slot *)slot, rc);
}

/* Nobody waits for a slot's reply, or reads it, before its call is answered; but a call may be given up. */
static void on_stat(int rc, const struct Stat *stat, const void *data) {
    struct zookeeper_slot *slot = (struct zookeeper_slot *)data;
    if (rc == ZOK)
        slot->reply.czxid = stat->czxid;
    complete(slot, rc);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data) {
    struct zookeeper_slot *slot = (struct zookeeper_slot *)data;
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

static void find_place(struct zookeeper_slot *slot, const struct String_vector *names) {
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
    struct zookeeper_slot *slot = (struct zookeeper_slot *)data;
    if (rc == ZOK)
        find_place(slot, names);
    complete(slot, rc);
}

static void on_gone(zhandle_t *handle, int type, int state, const char *path, void *ctx) {
    (void)handle;
    (void)state;
    (void)path;
    struct zookeeper_watch *watch = ctx;
    struct zookeeper_session *session = watch->session;
    if (type == ZOO_SESSION_EVENT)
        return; /* and it stays */
    pthread_mutex_lock(&session->mutex);
    take_out_watch(watch);
    pthread_mutex_unlock(&session->mutex);
    session->env->wake(session->env->lock, watch->key, watch->owner);
    free(watch);
}

/* ---- requests: with the mutex held ---- */

static struct zookeeper_watch *find_watch(struct zookeeper_session *session, const char *name) {
    struct zookeeper_watch *watch = session->watches;
    while (watch && !(watch->set && strcmp(watch->name, name) == 0))
        watch = watch->next;
    return watch;
}

/* Who gave up has left a watch behind, which does for the next one. True: there is one. */
static bool has_watch(struct zookeeper_session *session, const struct zookeeper_request *request,
                      const char *name) {
    struct zookeeper_watch *watch = find_watch(session, name);
    if (watch)
        memcpy(watch->owner, request->owner, sizeof watch->owner);
    return watch != NULL;
}

static int queue_watch(struct zookeeper_session *session, const struct zookeeper_request *request,
                       struct zookeeper_slot *slot) {
    const char *name = strrchr(request->path, '/') + 1;
    if (has_watch(session, request, name)) {
        answer(slot, ZOOKEEPER_DONE);
        return ZOK;
    }
    struct zookeeper_watch *watch = calloc(1, sizeof *watch);
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
                         struct zookeeper_slot *slot) {
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

void zookeeper_call_queue(struct zookeeper_call *call, const struct zookeeper_request *requests, int count) {
    for (int i = 0; i < count; i++) {
        int rc = queue_request(call->session, &requests[i], &call->slots[i]);
        if (rc == ZOK)
            continue;
        if (rc == ZSYSTEMERROR || rc == ZMARSHALLINGERROR) /* nothing else is told by them here */
            call->no_memory = true;
        else
            lock_env_failed(call->session->env, call->session->servers, zerror(rc));
        answer(&call->slots[i], ZOOKEEPER_NOT_DONE);
    }
}

void zookeeper_call_forget_all(struct zookeeper_session *session) {
    while (session->calls) {
        struct zookeeper_call *call = session->calls;
        for (int i = 0, open = call->open; open > 0; i++) {
            if (call->slots[i].answered)
                continue;
            open--;
            answer(&call->slots[i], ZOOKEEPER_LOST);
        }
    }
    while (session->watches) {
        struct zookeeper_watch *next = session->watches->next;
        free(session->watches);
        session->watches = next;
    }
}
