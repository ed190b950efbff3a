/* Leases that are kept alive.
 *
 * A renewal counts from when it was sent: the lease lives for its time to live from some moment after that.
 * So at most one is under way for each keep, and what is dropped or lost stays until its answer has come,
 * lest that be taken for a later one's. A member that does not answer for too long is left for another one.
 *
 * An answer says less than it seems to: a leader that has been deposed and does not know it yet renews leases
 * too. Cut off from its peers it was seen to for 340 to 480 ms at an election time-out of 300 ms (it looks
 * once in each whether it heard of a majority, so two are the most), and the next one was elected after 295
 * to 830 ms, so for some 80 ms both answered. The lease itself outlives what was said, as a new leader begins
 * to count all leases anew; but who revokes it with the new one is not heard of by the old one. Who builds on
 * a lease leaves a margin for that, or asks for something that goes through Raft. */
#include <stdatomic.h>
#include <stdlib.h>

#include "etcd.pb-c.h"
#include "lock/libetcd/hub.h"

static const int64_t patience_most_ns = 2000000000;

struct etcd_keep {
    struct etcd_keep *next;
    struct etcd_keeper *keeper;
    int64_t id, ttl_ns, every_ns;
    int64_t sent_ns;             /* the renewal that is under way; 0: none */
    int64_t next_ns;             /* when to send one */
    _Atomic int64_t deadline_ns; /* 0: lost, or dropped */
    bool is_dropped;             /* only its answer is waited for */
    void (*on_lost)(void *ctx, int64_t id);
    void *ctx;
};

struct etcd_keeper {
    struct etcd_hub hub;
    struct etcd_keep *keeps;
};

static struct etcd_keeper *keeper_of(const struct etcd_hub *hub) {
    return (struct etcd_keeper *)((char *)(uintptr_t)hub - offsetof(struct etcd_keeper, hub));
}

static bool is_lost(const struct etcd_keep *keep) {
    return atomic_load(&keep->deadline_ns) == 0;
}

static bool is_wanted(const struct etcd_hub *hub) {
    for (const struct etcd_keep *keep = keeper_of(hub)->keeps; keep; keep = keep->next) {
        if (!is_lost(keep))
            return true;
    }
    return false;
}

/* With the mutex held. */
static void take_out(struct etcd_keep *keep) {
    struct etcd_keep **at = &keep->keeper->keeps;
    while (*at != keep)
        at = &(*at)->next;
    *at = keep->next;
}

static void forget_sent(struct etcd_hub *hub) {
    for (struct etcd_keep *keep = keeper_of(hub)->keeps, *next; keep; keep = next) {
        next = keep->next;
        keep->sent_ns = 0;
        keep->next_ns = 0;
        if (keep->is_dropped) {
            take_out(keep);
            free(keep);
        }
    }
}

static void send(struct etcd_hub *hub, struct etcd_keep *keep, int64_t now_ns) {
    Pb__LeaseKeepAliveRequest request = PB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    request.id = keep->id;
    keep->sent_ns = now_ns;
    keep->next_ns = now_ns + keep->every_ns;
    etcd_stream_send(hub->stream, &request.base);
}

/* Called, and returns, with the mutex held. Afterwards `keep` may be gone. */
static void lose(struct etcd_hub *hub, struct etcd_keep *keep) {
    atomic_store(&keep->deadline_ns, 0);
    void (*on_lost)(void *ctx, int64_t id) = keep->on_lost;
    void *ctx = keep->ctx;
    int64_t id = keep->id;
    if (!on_lost)
        return;
    etcd_loop_enter(hub->etcd->loop, keep);
    pthread_mutex_unlock(&hub->mutex);
    on_lost(ctx, id);
    etcd_loop_leave(hub->etcd->loop);
    pthread_mutex_lock(&hub->mutex);
}

static void lose_overdue(struct etcd_hub *hub, int64_t now_ns) {
    struct etcd_keep *keep = keeper_of(hub)->keeps;
    while (keep && !hub->stopping) {
        bool over = !is_lost(keep) && atomic_load(&keep->deadline_ns) <= now_ns;
        if (over)
            lose(hub, keep);
        keep = over ? keeper_of(hub)->keeps : keep->next;
    }
}

/* How long an answer may take: three members can be tried in the time to live. */
static int64_t patience_ns(const struct etcd_keep *keep) {
    return keep->ttl_ns / 4 < patience_most_ns ? keep->ttl_ns / 4 : patience_most_ns;
}

static int64_t tick(struct etcd_hub *hub, int64_t now_ns) {
    int64_t next_ns = INT64_MAX;
    bool stuck = false;
    lose_overdue(hub, now_ns);
    bool open = etcd_hub_stream(hub);
    for (struct etcd_keep *keep = keeper_of(hub)->keeps; keep; keep = keep->next) {
        if (is_lost(keep))
            continue;
        if (open && keep->sent_ns == 0 && keep->next_ns <= now_ns)
            send(hub, keep, now_ns);
        int64_t due_ns = !open           ? INT64_MAX
                         : keep->sent_ns ? keep->sent_ns + patience_ns(keep)
                                         : keep->next_ns;
        stuck = stuck || due_ns <= now_ns;
        if (atomic_load(&keep->deadline_ns) < due_ns)
            due_ns = atomic_load(&keep->deadline_ns);
        if (due_ns < next_ns)
            next_ns = due_ns;
    }
    if (stuck) {
        etcd_endpoints_fail(&hub->etcd->endpoints, hub->endpoint, true);
        etcd_hub_wake(hub); /* the watches leave it too */
        etcd_hub_break(hub);
    }
    return next_ns;
}

/* Answers come in the order of the requests: if a lease is kept twice this is for the one that was sent
 * first. */
static struct etcd_keep *find_sent(const struct etcd_hub *hub, int64_t id) {
    struct etcd_keep *found = NULL;
    for (struct etcd_keep *keep = keeper_of(hub)->keeps; keep; keep = keep->next) {
        if (keep->id == id && keep->sent_ns && (!found || keep->sent_ns <= found->sent_ns))
            found = keep;
    }
    return found;
}

/* Called, and returns, with the mutex held. Afterwards `keep` may be gone. */
static void renew(struct etcd_hub *hub, struct etcd_keep *keep, int64_t ttl_s) {
    int64_t deadline_ns = keep->sent_ns + ttl_s * 1000000000;
    keep->sent_ns = 0;
    if (keep->is_dropped) {
        take_out(keep);
        free(keep);
    } else if (is_lost(keep)) {
        return;
    } else if (ttl_s <= 0) {
        lose(hub, keep);
    } else if (deadline_ns > atomic_load(&keep->deadline_ns)) {
        atomic_store(&keep->deadline_ns, deadline_ns);
    }
}

static void on_message(struct etcd_hub *hub, struct etcd_answer *answer) {
    const Pb__LeaseKeepAliveResponse *response =
        etcd_answer_unpack(answer, &pb__lease_keep_alive_response__descriptor);
    pthread_mutex_lock(&hub->mutex);
    struct etcd_keep *keep = response ? find_sent(hub, response->id) : NULL;
    if (keep)
        renew(hub, keep, response->ttl);
    hub->ticker.next_ns = 0;
    pthread_mutex_unlock(&hub->mutex);
}

static const struct etcd_hub_kind kind = {
    .path = "/etcdserverpb.Lease/LeaseKeepAlive",
    .is_wanted = is_wanted,
    .on_open = forget_sent,
    .on_broken = forget_sent,
    .on_message = on_message,
    .tick = tick,
};

struct etcd_keeper *etcd_keeper_new(struct etcd *etcd) {
    struct etcd_keeper *keeper = calloc(1, sizeof *keeper);
    if (keeper)
        etcd_hub_init(&keeper->hub, etcd, &kind);
    return keeper;
}

void etcd_keeper_stop(struct etcd_keeper *keeper) {
    etcd_hub_stop(&keeper->hub);
}

void etcd_keeper_free(struct etcd_keeper *keeper) {
    if (!keeper)
        return;
    while (keeper->keeps) {
        struct etcd_keep *next = keeper->keeps->next;
        free(keeper->keeps);
        keeper->keeps = next;
    }
    etcd_hub_destroy(&keeper->hub);
    free(keeper);
}

enum etcd_status etcd_keep(struct etcd *etcd, int64_t id, int64_t ttl_s, int64_t granted_ns, int64_t every_ms,
                           void (*on_lost)(void *ctx, int64_t id), void *ctx, struct etcd_keep **keep) {
    struct etcd_hub *hub = &etcd->keeper->hub;
    struct etcd_keep *made = calloc(1, sizeof *made);
    if (!made)
        return ETCD_NOMEM;
    made->keeper = etcd->keeper;
    made->id = id;
    made->ttl_ns = ttl_s * 1000000000;
    made->every_ns = (every_ms < 10 ? 10 : every_ms) * 1000000;
    made->next_ns = granted_ns + made->every_ns;
    atomic_store(&made->deadline_ns, granted_ns + made->ttl_ns);
    made->on_lost = on_lost;
    made->ctx = ctx;
    pthread_mutex_lock(&hub->mutex);
    made->next = etcd->keeper->keeps;
    etcd->keeper->keeps = made;
    *keep = made; /* before it is lost */
    pthread_mutex_unlock(&hub->mutex);
    etcd_hub_wake(hub);
    return ETCD_OK;
}

int64_t etcd_keep_deadline_ns(const struct etcd_keep *keep) {
    return atomic_load(&keep->deadline_ns);
}

void etcd_keep_drop(struct etcd_keep *keep) {
    if (!keep)
        return;
    struct etcd_hub *hub = &keep->keeper->hub;
    pthread_mutex_lock(&hub->mutex);
    bool stays = keep->sent_ns != 0;
    if (stays)
        keep->is_dropped = true;
    else
        take_out(keep);
    atomic_store(&keep->deadline_ns, 0);
    pthread_mutex_unlock(&hub->mutex);
    etcd_loop_quiesce(hub->etcd->loop, keep); /* which does not look into it */
    if (!stays)
        free(keep);
}
