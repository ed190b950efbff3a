#include "lock/etcd/txn_batch.h"

#include <stdlib.h>

#include "base/clock.h"
#include "lock/core/waiter.h"

/* Two under way: one is written while the other is on its way. */
enum { FLYING_MAX = 2 };

/* So long to read what is sent takes at most. */
static const int64_t read_ns = 5000000;

enum state {
    QUEUED,
    TAKEN, /* a leader reads it */
    SENT,  /* whoever put it in may leave */
    LEADS, /* whoever put it in is to lead, and hears so */
    DONE   /* the same */
};

/* A thread in it. Who comes while fewer are under way leads: sends what has gathered, and its own with it.
 * The rest wait until it is done, they are to lead, or they have no more time. */
struct item {
    struct item *next, **link; /* while it is queued */
    struct item **seat;        /* while it is under way: where the leader has it */
    const struct etcd_txn *txn;
    const struct etcd_op *plain; /* to be sent instead where it is alone, or NULL */
    bool was_plain;
    void (*read)(void *ctx, const struct etcd_reply *reply);
    void *ctx;
    struct lock_limit limit;
    struct lock_waiter waiter;
    enum state state; /* with the mutex, and `status` */
    enum etcd_status status;
};

struct etcd_batch {
    struct etcd_session *session;
    pthread_mutex_t mutex;
    int flying;                 /* who leads, or is about to */
    struct item *first, **last; /* who waits */
};

/* What one leader sends. With the mutex an item is there as long as its thread waits for it. */
struct flight {
    struct etcd_patience patience; /* the leader's; first, for the callbacks of its calls */
    struct etcd_batch *batch;
    struct item *items[ETCD_TOGETHER_MAX];
    size_t count;
};

struct etcd_batch *etcd_batch_new(struct etcd_session *session) {
    struct etcd_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    batch->session = session;
    batch->last = &batch->first;
    pthread_mutex_init(&batch->mutex, NULL);
    return batch;
}

void etcd_batch_free(struct etcd_batch *batch) {
    if (!batch)
        return;
    pthread_mutex_destroy(&batch->mutex);
    free(batch);
}

/* ---- with the mutex held ---- */

static void append(struct etcd_batch *batch, struct item *item) {
    item->state = QUEUED;
    item->next = NULL;
    item->link = batch->last;
    *batch->last = item;
    batch->last = &item->next;
}

static void take_out(struct etcd_batch *batch, struct item *item) {
    *item->link = item->next;
    if (item->next)
        item->next->link = item->link;
    else
        batch->last = item->link;
}

static struct item *take_first(struct etcd_batch *batch) {
    struct item *first = batch->first;
    if (first)
        take_out(batch, first);
    return first;
}

/* The next to lead, who is to be woken without the mutex; NULL: nobody waits. */
static struct item *pass_on(struct etcd_batch *batch) {
    struct item *next = take_first(batch);
    if (next)
        next->state = LEADS;
    else
        batch->flying--;
    return next;
}

/* An answer, also for one who has left: `reply` NULL where there is none. */
static void finish(struct item *item, enum etcd_status status, const struct etcd_reply *reply) {
    if (!item)
        return;
    if (status == ETCD_OK)
        item->read(item->ctx, reply);
    item->status = status;
    item->state = DONE;
}

/* ---- sending ---- */

static void wake(struct item *item) {
    if (item)
        lock_waiter_wake(&item->waiter);
}

static void on_read(void *ctx) {
    struct flight *flight = ctx;
    pthread_mutex_lock(&flight->batch->mutex);
    for (size_t i = 0; i < flight->count; i++) {
        if (flight->items[i] && flight->items[i]->state == TAKEN)
            flight->items[i]->state = SENT;
    }
    pthread_mutex_unlock(&flight->batch->mutex);
}

/* A leader that is cancelled stays as long as others wait for what it sends. */
static bool gives_up(void *ctx) {
    struct flight *flight = ctx;
    if (!etcd_session_gives_up(&flight->patience))
        return false;
    bool is_alone = true;
    pthread_mutex_lock(&flight->batch->mutex);
    for (size_t i = 1; i < flight->count && is_alone; i++)
        is_alone = !flight->items[i] || flight->items[i]->state == DONE;
    pthread_mutex_unlock(&flight->batch->mutex);
    return is_alone;
}

static struct etcd_call make_call(struct flight *flight) {
    struct etcd_call call = etcd_session_call_within(flight->batch->session, &flight->patience);
    call.gives_up = call.gives_up ? gives_up : NULL;
    call.on_read = on_read;
    call.ctx = flight;
    return call;
}

/* False: its thread has left. */
static bool take_again(struct flight *flight, size_t i) {
    pthread_mutex_lock(&flight->batch->mutex);
    struct item *item = flight->items[i];
    if (item)
        item->state = TAKEN;
    pthread_mutex_unlock(&flight->batch->mutex);
    return item;
}

/* Whoever put it in does not wait for the rest; nor does the leader, once it is cancelled, send it. */
static void send_one(struct flight *flight, size_t i) {
    struct etcd_batch *batch = flight->batch;
    const struct etcd_call call = make_call(flight);
    struct etcd_reply *reply = NULL;
    enum etcd_status status = ETCD_UNAVAILABLE;
    if (!take_again(flight, i))
        return;
    struct item *item = flight->items[i];
    const struct etcd_op txn = {ETCD_TXN, .txn = *item->txn};
    if (etcd_session_may_call(batch->session, &flight->patience.limit)) {
        item->was_plain = item->plain != NULL;
        status =
            etcd_do(etcd_session_client(batch->session), item->plain ? item->plain : &txn, &call, &reply);
    }
    pthread_mutex_lock(&batch->mutex);
    item = flight->items[i];
    flight->items[i] = NULL;
    finish(item, status, reply);
    pthread_mutex_unlock(&batch->mutex);
    if (i > 0)
        wake(item);
    etcd_reply_free(reply);
}

/* One that is refused (no space to put, no lease) takes the others with it. */
static bool is_refusal(enum etcd_status status) {
    return status == ETCD_NOT_FOUND || status == ETCD_EXHAUSTED || status == ETCD_INVALID ||
           status == ETCD_FAILED || status == ETCD_DENIED;
}

/* Each within one, which has nothing to compare itself. What is nested compares before anything is done.
 * False: they are to be sent one by one. */
static bool send_many(struct flight *flight) {
    struct etcd_batch *batch = flight->batch;
    struct etcd_op ops[ETCD_TOGETHER_MAX];
    const struct etcd_call call = make_call(flight);
    struct etcd_reply *reply = NULL;
    for (size_t i = 0; i < flight->count; i++)
        ops[i] = (struct etcd_op){ETCD_TXN, .txn = *flight->items[i]->txn};
    const struct etcd_txn all = {.then = ops, .then_count = flight->count};
    enum etcd_status status = etcd_txn(etcd_session_client(batch->session), &all, &call, &reply);
    if (is_refusal(status))
        return false;
    pthread_mutex_lock(&batch->mutex);
    for (size_t i = 0; i < flight->count; i++) {
        if (status == ETCD_OK)
            reply->replies[i].revision = reply->revision;
        finish(flight->items[i], status, status == ETCD_OK ? &reply->replies[i] : NULL);
    }
    pthread_mutex_unlock(&batch->mutex);
    etcd_reply_free(reply);
    return true;
}

/* Called with the mutex held, which it gives up. */
static void lead(struct etcd_batch *batch, struct item *item) {
    struct flight flight = {.patience.limit = item->limit, .batch = batch};
    for (struct item *each = item; each; each = flight.count < ETCD_TOGETHER_MAX ? take_first(batch) : NULL) {
        each->state = TAKEN;
        each->seat = &flight.items[flight.count];
        flight.items[flight.count++] = each;
    }
    pthread_mutex_unlock(&batch->mutex);
    if (flight.count == 1 || !send_many(&flight)) {
        for (size_t i = 0; i < flight.count; i++)
            send_one(&flight, i);
    }
    pthread_mutex_lock(&batch->mutex);
    struct item *next = pass_on(batch);
    pthread_mutex_unlock(&batch->mutex);
    wake(next);
    for (size_t i = 1; i < flight.count; i++)
        wake(flight.items[i]); /* it waits for that, as it is done; who went alone has been woken */
}

/* ---- waiting ---- */

/* Its time is up. False: something is about to happen to it, for which it must wait until `*until_ns`. */
static bool leave(struct etcd_batch *batch, struct item *item, int64_t *until_ns) {
    bool left = item->state == QUEUED || item->state == SENT;
    if (item->state == QUEUED)
        take_out(batch, item);
    else if (item->state == SENT)
        *item->seat = NULL;
    if (left)
        item->status = item->state == SENT ? ETCD_UNKNOWN : ETCD_UNAVAILABLE;
    *until_ns = item->state == TAKEN ? clock_mono_ns(&clock_system) + read_ns : INT64_MAX;
    return left;
}

/* Without the mutex. */
static void wait_in_line(struct etcd_batch *batch, struct item *item) {
    struct lock_cancel *cancel = item->limit.cancel;
    int64_t until_ns = item->limit.until_ns;
    enum lock_status status;
    while ((status = lock_waiter_wait(&item->waiter, until_ns, cancel)) != LOCK_OK) {
        int64_t soon_ns = clock_mono_ns(&clock_system) + etcd_session_grace_ns;
        pthread_mutex_lock(&batch->mutex);
        bool waits = status == LOCK_CANCELLED && item->state != QUEUED;
        bool left = !waits && leave(batch, item, &until_ns);
        pthread_mutex_unlock(&batch->mutex);
        if (left)
            return;
        cancel = NULL;
        if (waits)
            until_ns = soon_ns < until_ns ? soon_ns : until_ns;
    }
    if (item->state == DONE)
        return;
    pthread_mutex_lock(&batch->mutex);
    if (etcd_session_may_call(batch->session, &item->limit)) {
        lead(batch, item);
        return;
    }
    struct item *next = pass_on(batch);
    pthread_mutex_unlock(&batch->mutex);
    item->status = ETCD_UNAVAILABLE;
    wake(next);
}

static void pass(struct etcd_batch *batch, struct item *item) {
    item->status = ETCD_UNAVAILABLE;
    if (!etcd_session_may_call(batch->session, &item->limit))
        return;
    pthread_mutex_lock(&batch->mutex);
    if (batch->flying < FLYING_MAX) {
        batch->flying++;
        lead(batch, item);
        return;
    }
    lock_waiter_init(&item->waiter);
    append(batch, item);
    pthread_mutex_unlock(&batch->mutex);
    wait_in_line(batch, item);
    lock_waiter_destroy(&item->waiter);
}

enum etcd_status etcd_batch_do(struct etcd_batch *batch, const struct etcd_txn *txn,
                               const struct lock_limit *limit,
                               void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx) {
    struct item item = {.txn = txn, .limit = *limit, .read = read, .ctx = ctx};
    pass(batch, &item);
    return item.status;
}

enum etcd_status etcd_batch_delete(struct etcd_batch *batch, const struct etcd_txn *txn,
                                   const struct etcd_op *plain, bool *was_plain,
                                   const struct lock_limit *limit,
                                   void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx) {
    struct item item = {.txn = txn, .plain = plain, .limit = *limit, .read = read, .ctx = ctx};
    pass(batch, &item);
    *was_plain = item.was_plain;
    return item.status;
}
