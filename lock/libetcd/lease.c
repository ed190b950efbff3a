/* Leases: grant, revoke, time to live; and keepalives, which renew leases over one shared stream.
 *
 * A renewal counts from when it was sent: the lease lives at least its time to live after that. Each lease
 * has at most one renewal in flight. A dropped or lost keepalive stays in the list until its answer has come,
 * so that the answer is not mistaken for that of a later renewal.
 *
 * An answer proves less than it seems to. A deposed leader renews leases until it notices that it is deposed.
 * Cut off from its peers it did so for 340 to 480 ms, at an election time-out of 300 ms; the most is two
 * time-outs, since it checks once per time-out that it heard from a majority. The next leader was elected
 * after 295 to 830 ms, so both answered for some 80 ms. The lease itself outlives the promise, since a new
 * leader counts all leases from the start. But the old leader does not hear of a lease that is revoked at the
 * new one. Code that builds on a lease leaves a margin for that, or makes a request that goes through Raft.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "lock/libetcd/etcd_client.h"

/* ---- leases ---- */

enum etcd_status etcd_lease_grant(struct etcd *etcd, int64_t ttl_s, int64_t id, const struct etcd_call *call,
                                  int64_t *granted_id, int64_t *granted_ttl_s) {
    static const struct etcd_method grant = {.path = "/etcdserverpb.Lease/LeaseGrant",
                                             .response = &pb__lease_grant_response__descriptor};
    Pb__LeaseGrantRequest request = PB__LEASE_GRANT_REQUEST__INIT;
    request.ttl = ttl_s;
    request.id = id;
    struct etcd_answer *answer;
    enum etcd_status status = etcd_rpc(etcd, &grant, &request.base, call, &answer);
    if (status != ETCD_OK)
        return status;
    const Pb__LeaseGrantResponse *response = answer->message;
    if (granted_id)
        *granted_id = response->id;
    if (granted_ttl_s)
        *granted_ttl_s = response->ttl;
    etcd_answer_free(answer);
    return ETCD_OK;
}

enum etcd_status etcd_lease_revoke(struct etcd *etcd, int64_t id, const struct etcd_call *call) {
    static const struct etcd_method revoke = {.path = "/etcdserverpb.Lease/LeaseRevoke"};
    Pb__LeaseRevokeRequest request = PB__LEASE_REVOKE_REQUEST__INIT;
    request.id = id;
    return etcd_rpc(etcd, &revoke, &request.base, call, NULL);
}

enum etcd_status etcd_lease_time_to_live(struct etcd *etcd, int64_t id, bool keys,
                                         const struct etcd_call *call, struct etcd_lease_info **info) {
    static const struct etcd_method time_to_live = {.path = "/etcdserverpb.Lease/LeaseTimeToLive",
                                                    .response = &pb__lease_time_to_live_response__descriptor,
                                                    .result_size = sizeof(struct etcd_lease_info),
                                                    .reads = true};
    Pb__LeaseTimeToLiveRequest request = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    request.id = id;
    request.keys = keys;
    struct etcd_answer *answer;
    enum etcd_status status = etcd_rpc(etcd, &time_to_live, &request.base, call, &answer);
    if (status != ETCD_OK)
        return status;
    const Pb__LeaseTimeToLiveResponse *response = answer->message;
    /* Whole seconds, rounded down: a live lease may have 0. A lease that does not exist has -1. */
    if (response->ttl < 0) {
        etcd_call_explain(call, "there is no such lease");
        etcd_answer_free(answer);
        return ETCD_NOT_FOUND;
    }
    struct etcd_lease_info *made = (void *)answer->result;
    made->keys = etcd_arena_array(&answer->arena, response->n_keys, sizeof *made->keys);
    if (!made->keys) {
        etcd_answer_free(answer);
        return ETCD_NOMEM;
    }
    for (; made->key_count < response->n_keys; made->key_count++)
        made->keys[made->key_count] = etcd_bytes_unpack(response->keys[made->key_count]);
    /* A new leader that has not begun to count yet answers three hundred years. */
    made->ttl_s = response->ttl < response->granted_ttl ? response->ttl : response->granted_ttl;
    made->granted_ttl_s = response->granted_ttl;
    *info = made;
    return ETCD_OK;
}

void etcd_lease_info_free(struct etcd_lease_info *info) {
    etcd_answer_free_result(info);
}

/* ---- keepalives ---- */

/* The client leaves a member that does not answer a renewal within a quarter of the time to live, or within
 * this time: so it can try three members before a lease expires. */
static const int64_t answer_limit_max_ns = 2000000000;

struct etcd_keep {
    LIST_ENTRY(etcd_keep) next;
    struct etcd_shared_stream *shared;
    int64_t id, ttl_ns, every_ns;
    int64_t sent_ns;             /* when the renewal in flight was sent; 0: none is in flight */
    int64_t next_ns;             /* when to send the next renewal */
    _Atomic int64_t deadline_ns; /* 0: lost or dropped */
    bool is_dropped;             /* it stays only until its answer comes */
    void (*on_lost)(void *ctx, int64_t id);
    void *ctx;
};

struct etcd_keepalive_stream {
    struct etcd_shared_stream shared; /* first */
    LIST_HEAD(etcd_keeps, etcd_keep) keeps;
};

static struct etcd_keeps *keeps_of(const struct etcd_shared_stream *shared) {
    return &((struct etcd_keepalive_stream *)(uintptr_t)shared)->keeps;
}

static bool keep_is_lost(const struct etcd_keep *keep) {
    return atomic_load(&keep->deadline_ns) == 0;
}

/* With the mutex held. */
static void keep_delete(struct etcd_keep *keep) {
    LIST_REMOVE(keep, next);
    free(keep);
}

static void keepalive_reset(struct etcd_shared_stream *shared) {
    for (struct etcd_keep *keep = LIST_FIRST(keeps_of(shared)), *next; keep; keep = next) {
        next = LIST_NEXT(keep, next);
        keep->sent_ns = 0;
        keep->next_ns = 0;
        if (keep->is_dropped)
            keep_delete(keep);
    }
}

static void keep_send(struct etcd_shared_stream *shared, struct etcd_keep *keep, int64_t now_ns) {
    Pb__LeaseKeepAliveRequest request = PB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    request.id = keep->id;
    keep->sent_ns = now_ns;
    keep->next_ns = now_ns + keep->every_ns;
    etcd_shared_stream_send(shared, &request.base);
}

/* The mutex is held before and after, but not during the callback. `keep` may be gone afterwards. */
static void keep_lose(struct etcd_shared_stream *shared, struct etcd_keep *keep) {
    atomic_store(&keep->deadline_ns, 0);
    shared->wanted--;
    if (!keep->on_lost)
        return;
    etcd_shared_stream_enter_user(shared, keep);
    keep->on_lost(keep->ctx, keep->id);
    etcd_shared_stream_leave_user(shared);
}

static void keepalive_lose_expired(struct etcd_shared_stream *shared, int64_t now_ns) {
    struct etcd_keep *keep = LIST_FIRST(keeps_of(shared));
    while (keep && !shared->stopping) {
        bool over = !keep_is_lost(keep) && atomic_load(&keep->deadline_ns) <= now_ns;
        if (over)
            keep_lose(shared, keep);
        keep = over ? LIST_FIRST(keeps_of(shared)) : LIST_NEXT(keep, next);
    }
}

static int64_t keepalive_tick(struct etcd_shared_stream *shared, int64_t now_ns) {
    int64_t next_ns = INT64_MAX;
    bool stuck = false;
    keepalive_lose_expired(shared, now_ns);
    bool open = etcd_shared_stream_is_open(shared);
    for (struct etcd_keep *keep = LIST_FIRST(keeps_of(shared)); keep; keep = LIST_NEXT(keep, next)) {
        if (keep_is_lost(keep))
            continue;
        if (open && keep->sent_ns == 0 && keep->next_ns <= now_ns)
            keep_send(shared, keep, now_ns);
        int64_t limit_ns = keep->ttl_ns / 4 < answer_limit_max_ns ? keep->ttl_ns / 4 : answer_limit_max_ns;
        int64_t due_ns = !open ? INT64_MAX : keep->sent_ns ? keep->sent_ns + limit_ns : keep->next_ns;
        stuck = stuck || due_ns <= now_ns;
        if (atomic_load(&keep->deadline_ns) < due_ns)
            due_ns = atomic_load(&keep->deadline_ns);
        if (due_ns < next_ns)
            next_ns = due_ns;
    }
    if (stuck) {
        etcd_endpoints_fail(&shared->etcd->endpoints, shared->endpoint, true);
        etcd_loop_wake(&shared->etcd->loop); /* the watches leave the member too */
        etcd_shared_stream_break(shared);
    }
    return next_ns;
}

/* Answers come in the order of the requests: if a lease is kept twice, the answer belongs to the renewal that
 * was sent first. */
static struct etcd_keep *keepalive_find_sent(const struct etcd_shared_stream *shared, int64_t id) {
    struct etcd_keep *found = NULL;
    for (struct etcd_keep *keep = LIST_FIRST(keeps_of(shared)); keep; keep = LIST_NEXT(keep, next)) {
        if (keep->id == id && keep->sent_ns && (!found || keep->sent_ns <= found->sent_ns))
            found = keep;
    }
    return found;
}

static void keepalive_on_message(struct etcd_shared_stream *shared, struct etcd_answer *answer) {
    const Pb__LeaseKeepAliveResponse *response =
        etcd_answer_unpack(answer, &pb__lease_keep_alive_response__descriptor);
    struct etcd_keep *keep = response ? keepalive_find_sent(shared, response->id) : NULL;
    shared->ticker.next_ns = 0;
    if (!keep)
        return;
    int64_t deadline_ns = keep->sent_ns + response->ttl * 1000000000;
    keep->sent_ns = 0;
    if (keep->is_dropped)
        keep_delete(keep);
    else if (!keep_is_lost(keep) && response->ttl <= 0)
        keep_lose(shared, keep);
    else if (!keep_is_lost(keep) && deadline_ns > atomic_load(&keep->deadline_ns))
        atomic_store(&keep->deadline_ns, deadline_ns);
}

static void keepalive_destroy(struct etcd_shared_stream *shared) {
    for (struct etcd_keep *keep = LIST_FIRST(keeps_of(shared)), *next; keep; keep = next) {
        next = LIST_NEXT(keep, next);
        free(keep);
    }
}

const struct etcd_shared_stream_kind etcd_keepalive_stream_kind = {
    .path = "/etcdserverpb.Lease/LeaseKeepAlive",
    .size = sizeof(struct etcd_keepalive_stream),
    .on_open = keepalive_reset,
    .on_broken = keepalive_reset,
    .on_message = keepalive_on_message,
    .tick = keepalive_tick,
    .destroy = keepalive_destroy,
};

enum etcd_status etcd_keep(struct etcd *etcd, int64_t id, int64_t ttl_s, int64_t granted_ns, int64_t every_ms,
                           void (*on_lost)(void *ctx, int64_t id), void *ctx, struct etcd_keep **keep) {
    struct etcd_shared_stream *shared = etcd->keepalives;
    struct etcd_keep *made = calloc(1, sizeof *made);
    if (!made)
        return ETCD_NOMEM;
    made->shared = shared;
    made->id = id;
    made->ttl_ns = ttl_s * 1000000000;
    made->every_ns = (every_ms < 10 ? 10 : every_ms) * 1000000;
    made->next_ns = granted_ns + made->every_ns;
    atomic_store(&made->deadline_ns, granted_ns + made->ttl_ns);
    made->on_lost = on_lost;
    made->ctx = ctx;
    pthread_mutex_lock(&shared->mutex);
    LIST_INSERT_HEAD(keeps_of(shared), made, next);
    shared->wanted++;
    *keep = made; /* before on_lost() can be called */
    pthread_mutex_unlock(&shared->mutex);
    etcd_loop_wake(&shared->etcd->loop);
    return ETCD_OK;
}

int64_t etcd_keep_deadline_ns(const struct etcd_keep *keep) {
    return atomic_load(&keep->deadline_ns);
}

void etcd_keep_drop(struct etcd_keep *keep) {
    if (!keep)
        return;
    struct etcd_shared_stream *shared = keep->shared;
    pthread_mutex_lock(&shared->mutex);
    shared->wanted -= keep_is_lost(keep) ? 0 : 1;
    atomic_store(&keep->deadline_ns, 0);
    etcd_shared_stream_quiesce(shared, keep);
    keep->is_dropped = true;
    if (keep->sent_ns == 0)
        keep_delete(keep);
    pthread_mutex_unlock(&shared->mutex);
}
