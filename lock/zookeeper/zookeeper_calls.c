/* Calls to ZooKeeper: sends requests together, reads their replies, and keeps the watches that wake waiters.
 */
#include "lock/zookeeper/zookeeper_session.h"

#include <stdlib.h>
#include <string.h>

/* Exists from before its request is sent until it fires, or the session is over. When the C client connects
 * to another server it sets the watch anew there. */
struct zookeeper_watch {
    LIST_ENTRY(zookeeper_watch) next;
    struct zookeeper_session *session;
    bool set;
    char name[ZOOKEEPER_NAME_SIZE]; /* of the node: unique, also among all keys */
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
    LIST_INSERT_HEAD(&session->calls, call, in_flight);
    return call;
}

void zookeeper_call_free(struct zookeeper_call *call) {
    pthread_cond_destroy(&call->done);
    free(call);
}

/* Notes the answer to one request. The last one may free the call. */
static void call_answer(struct zookeeper_slot *slot, enum zookeeper_result result) {
    struct zookeeper_call *call = slot->call;
    slot->answered = true;
    slot->reply.result = result;
    if (slot->watch && result == ZOOKEEPER_DONE) {
        slot->watch->set = true;
    } else if (slot->watch) { /* the C client has not kept it */
        LIST_REMOVE(slot->watch, next);
        free(slot->watch);
    }
    if (--call->open > 0)
        return;
    LIST_REMOVE(call, in_flight);
    if (call->on_answered)
        call->on_answered(call, result == ZOOKEEPER_DONE);
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
    default: return ZOOKEEPER_NOT_DONE; /* also when the session is over */
    }
}

static void call_complete(struct zookeeper_slot *slot, int rc) {
    struct zookeeper_session *session = slot->call->session;
    enum zookeeper_result result = result_of(rc);
    if (result == ZOOKEEPER_LOST || result == ZOOKEEPER_NOT_DONE)
        lock_env_failed(session->env, session->servers, zerror(rc));
    pthread_mutex_lock(&session->mutex);
    call_answer(slot, result);
    pthread_mutex_unlock(&session->mutex);
}

static void call_on_done(int rc, const void *slot) {
    call_complete((struct zookeeper_slot *)slot, rc);
}

static void call_on_text(int rc, const char *text, const void *slot) {
    (void)text;
    call_complete((struct zookeeper_slot *)slot, rc);
}

static void call_on_data(int rc, const char *value, int length, const struct Stat *stat, const void *slot) {
    (void)value;
    (void)length;
    (void)stat;
    call_complete((struct zookeeper_slot *)slot, rc);
}

/* A reply is written without the mutex: its thread reads it only after call_answer(). */
static void call_on_created(int rc, const char *path, const struct Stat *stat, const void *data) {
    struct zookeeper_slot *slot = (struct zookeeper_slot *)data;
    const char *slash = rc == ZOK ? strrchr(path, '/') : NULL;
    if (slash && strlen(slash + 1) < sizeof slot->reply.name) {
        memcpy(slot->reply.name, slash + 1, strlen(slash + 1) + 1);
        slot->reply.czxid = stat->czxid;
    }
    call_complete(slot, rc);
}

/* False: the name is not OWNER-SEQUENCE, so another program has made the node. */
static bool read_sequence(const char *name, int32_t *sequence) {
    size_t length = strlen(name);
    if (length < LOCK_OWNER_SIZE + 1 || length >= ZOOKEEPER_NAME_SIZE || name[LOCK_OWNER_SIZE - 1] != '-')
        return false;
    char *end;
    *sequence = (int32_t)strtol(name + LOCK_OWNER_SIZE, &end, 10);
    return *end == '\0';
}

/* The server counts each parent's children in signed 32 bits: after 2^31 - 1 comes -2^31. Of the few that
 * exist at a time the difference tells which is older. */
static bool is_before(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}

static void call_find_place(struct zookeeper_slot *slot, const struct String_vector *names) {
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
            (!reply->predecessor[0] || is_before(best, each))) {
            memcpy(reply->predecessor, names->data[i], strlen(names->data[i]) + 1);
            best = each;
        }
    }
}

static void call_on_names(int rc, const struct String_vector *names, const void *data) {
    struct zookeeper_slot *slot = (struct zookeeper_slot *)data;
    if (rc == ZOK)
        call_find_place(slot, names);
    call_complete(slot, rc);
}

static void watch_on_gone(zhandle_t *handle, int type, int state, const char *path, void *ctx) {
    (void)handle;
    (void)state;
    (void)path;
    struct zookeeper_watch *watch = ctx;
    struct zookeeper_session *session = watch->session;
    if (type == ZOO_SESSION_EVENT)
        return; /* the watch stays */
    pthread_mutex_lock(&session->mutex);
    LIST_REMOVE(watch, next);
    pthread_mutex_unlock(&session->mutex);
    session->env->wake(session->env->lock, watch->key, watch->owner);
    free(watch);
}

/* ---- requests: with the mutex held ---- */

static int watch_send(struct zookeeper_session *session, const struct zookeeper_request *request,
                      struct zookeeper_slot *slot) {
    const char *name = strrchr(request->path, '/') + 1;
    struct zookeeper_watch *watch = LIST_FIRST(&session->watches);
    while (watch && !(watch->set && strcmp(watch->name, name) == 0))
        watch = LIST_NEXT(watch, next);
    if (watch) { /* it was set for a waiter that has given up */
        memcpy(watch->owner, request->owner, sizeof watch->owner);
        call_answer(slot, ZOOKEEPER_DONE);
        return ZOK;
    }
    watch = calloc(1, sizeof *watch);
    if (!watch)
        return ZSYSTEMERROR;
    watch->session = session;
    memcpy(watch->name, name, strlen(name) + 1);
    memcpy(watch->owner, request->owner, sizeof watch->owner);
    memcpy(watch->key, request->key, strlen(request->key) + 1);
    LIST_INSERT_HEAD(&session->watches, watch, next);
    slot->watch = watch;
    /* Not `exists`: it would watch for ever a node that is gone already. */
    return zoo_awget(session->handle, request->path, watch_on_gone, watch, call_on_data, slot);
}

static int request_send(struct zookeeper_session *session, const struct zookeeper_request *request,
                        struct zookeeper_slot *slot) {
    zhandle_t *handle = session->handle;
    const char *path = request->path;
    const struct ACL_vector *all = &ZOO_OPEN_ACL_UNSAFE;
    switch (request->verb) {
    case ZOOKEEPER_SYNC: return zoo_async(handle, path, call_on_text, slot);
    case ZOOKEEPER_CREATE:
        return zoo_acreate(handle, path, NULL, -1, all, ZOO_PERSISTENT, call_on_text, slot);
    case ZOOKEEPER_CONTAINER:
        return zoo_acreate(handle, path, NULL, -1, all, ZOO_CONTAINER, call_on_text, slot);
    case ZOOKEEPER_QUEUE:
        return zoo_acreate2(handle, path, NULL, -1, all, ZOO_EPHEMERAL_SEQUENTIAL, call_on_created, slot);
    case ZOOKEEPER_FIND_PLACE:
        memcpy(slot->owner, request->owner, sizeof slot->owner);
        return zoo_aget_children(handle, path, 0, call_on_names, slot);
    case ZOOKEEPER_WATCH: return watch_send(session, request, slot);
    case ZOOKEEPER_DELETE: return zoo_adelete(handle, path, -1, call_on_done, slot);
    }
    return ZBADARGUMENTS;
}

void zookeeper_call_send(struct zookeeper_call *call, const struct zookeeper_request *requests, int count) {
    for (int i = 0; i < count; i++) {
        int rc = request_send(call->session, &requests[i], &call->slots[i]);
        if (rc == ZOK)
            continue;
        if (rc == ZSYSTEMERROR || rc == ZMARSHALLINGERROR) /* here they mean nothing else */
            call->no_memory = true;
        else
            lock_env_failed(call->session->env, call->session->servers, zerror(rc));
        call_answer(&call->slots[i], ZOOKEEPER_NOT_DONE);
    }
}

void zookeeper_session_drop_calls(struct zookeeper_session *session) {
    for (struct zookeeper_call *call; (call = LIST_FIRST(&session->calls));) {
        for (int i = 0, open = call->open; open > 0; i++) {
            if (call->slots[i].answered)
                continue;
            open--;
            call_answer(&call->slots[i], ZOOKEEPER_LOST);
        }
    }
    for (struct zookeeper_watch *watch; (watch = LIST_FIRST(&session->watches));) {
        LIST_REMOVE(watch, next);
        free(watch);
    }
}
