/* Sends the transactions of many threads as one request: what comes while two requests are in flight gathers,
 * and goes together, which costs the store one entry of its log.
 *
 * A thread that comes while fewer than FLIGHTS_MAX requests are in flight leads: it sends its own
 * transaction, and those that have gathered. The others wait until theirs is done, until they are appointed
 * leader, or until their time is up. */
#include <stdlib.h>

#include "lock/etcd/etcd_store.h"

/* etcd allows 128 operations in a transaction. It counts those of a nested transaction separately. */
enum { FLIGHTS_MAX = 2, TOGETHER_MAX = 64 };

/* libetcd takes at most so long to read a request that it is given. */
static const int64_t read_ns = 5000000;

enum state {
    QUEUED,
    TAKEN, /* a leader reads it, for a moment: its thread must stay */
    SENT,  /* its thread may leave */
    LEADS, /* its thread is appointed leader, and is woken */
    DONE   /* its thread is woken */
};

/* A thread's transaction; lives on its stack. */
struct item {
    TAILQ_ENTRY(item) queued;
    struct item **seat; /* while it is in flight: the leader's pointer to it */
    const struct etcd_txn *txn;
    void (*read)(void *ctx, const struct etcd_reply *reply);
    void *ctx;
    struct lock_limit limit;
    struct waiter waiter;
    enum state state; /* this and `status`: with the mutex held */
    enum etcd_status status;
};

struct etcd_batch {
    struct etcd_session *session;
    pthread_mutex_t mutex;
    int leaders; /* those that are appointed count too */
    TAILQ_HEAD(queued_items, item) queue;
};

/* The items that one leader sends; its own is the first. An item is set to NULL when its thread leaves. */
struct flight {
    struct etcd_call_limit call_limit; /* the leader's */
    struct etcd_batch *batch;
    struct item *items[TOGETHER_MAX];
    size_t count;
};

struct etcd_batch *etcd_batch_new(struct etcd_session *session) {
    struct etcd_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    batch->session = session;
    TAILQ_INIT(&batch->queue);
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

static struct item *batch_take_first(struct etcd_batch *batch) {
    struct item *first = TAILQ_FIRST(&batch->queue);
    if (first)
        TAILQ_REMOVE(&batch->queue, first, queued);
    return first;
}

/* A leader is done. Returns the next, whom the caller wakes without the mutex; NULL: no thread waits. */
static struct item *batch_appoint_leader(struct etcd_batch *batch) {
    struct item *next = batch_take_first(batch);
    if (next)
        next->state = LEADS;
    else
        batch->leaders--;
    return next;
}

/* `item` NULL: its thread has left. `reply` is only for ETCD_OK. */
static void item_finish(struct item *item, enum etcd_status status, const struct etcd_reply *reply) {
    if (!item)
        return;
    if (status == ETCD_OK)
        item->read(item->ctx, reply);
    item->status = status;
    item->state = DONE;
}

/* The thread's time is up. False: it must still wait, until `*until_ns`, for what is about to happen. */
static bool item_leave(struct etcd_batch *batch, struct item *item, int64_t *until_ns) {
    bool left = item->state == QUEUED || item->state == SENT;
    if (item->state == QUEUED)
        TAILQ_REMOVE(&batch->queue, item, queued);
    else if (item->state == SENT)
        *item->seat = NULL;
    if (left)
        item->status = item->state == SENT ? ETCD_UNKNOWN : ETCD_UNAVAILABLE;
    *until_ns = item->state == TAKEN ? clock_now_ns() + read_ns : INT64_MAX;
    return left;
}

/* ---- sending ---- */

static void item_wake(struct item *item) {
    if (item)
        waiter_wake(&item->waiter);
}

/* libetcd has read the request: the threads need not stay for that any more. */
static void flight_on_read(void *ctx) {
    struct flight *flight = ctx;
    pthread_mutex_lock(&flight->batch->mutex);
    for (size_t i = 0; i < flight->count; i++) {
        if (flight->items[i] && flight->items[i]->state == TAKEN)
            flight->items[i]->state = SENT;
    }
    pthread_mutex_unlock(&flight->batch->mutex);
}

/* A leader that is cancelled stays as long as other threads wait for its request. */
static bool flight_gives_up(void *ctx) {
    struct flight *flight = ctx;
    if (!etcd_session_gives_up(&flight->call_limit))
        return false;
    bool is_alone = true;
    pthread_mutex_lock(&flight->batch->mutex);
    for (size_t i = 1; i < flight->count && is_alone; i++)
        is_alone = !flight->items[i] || flight->items[i]->state == DONE;
    pthread_mutex_unlock(&flight->batch->mutex);
    return is_alone;
}

static struct etcd_call flight_call(struct flight *flight) {
    struct etcd_call call = etcd_session_call_within(flight->batch->session, &flight->call_limit);
    call.gives_up = call.gives_up ? flight_gives_up : NULL;
    call.on_read = flight_on_read;
    call.ctx = flight;
    return call;
}

/* Sends one item. Wakes its thread at once, so that it does not wait for the other items. A leader that is
 * cancelled sends nothing more. */
static void batch_send_one(struct flight *flight, size_t i) {
    struct etcd_batch *batch = flight->batch;
    struct etcd_reply *reply = NULL;
    enum etcd_status status = ETCD_UNAVAILABLE;
    pthread_mutex_lock(&batch->mutex);
    struct item *item = flight->items[i];
    if (item)
        item->state = TAKEN;
    pthread_mutex_unlock(&batch->mutex);
    if (!item) /* its thread has left */
        return;
    if (etcd_session_may_call(batch->session, &flight->call_limit.limit)) {
        const struct etcd_op op = {ETCD_TXN, .txn = *item->txn};
        const struct etcd_call call = flight_call(flight);
        status = etcd_do(batch->session->etcd, &op, &call, &reply);
    }
    pthread_mutex_lock(&batch->mutex);
    item = flight->items[i];
    flight->items[i] = NULL;
    item_finish(item, status, reply);
    pthread_mutex_unlock(&batch->mutex);
    if (i > 0)
        item_wake(item);
    etcd_reply_free(reply);
}

/* One transaction that is refused (no space left, no such lease) makes etcd refuse all. */
static bool batch_is_refusal(enum etcd_status status) {
    return status == ETCD_NOT_FOUND || status == ETCD_EXHAUSTED || status == ETCD_INVALID ||
           status == ETCD_FAILED || status == ETCD_DENIED;
}

/* Sends the transactions nested in one that compares nothing. etcd evaluates all compares before it writes
 * anything. False: the items must be sent one by one. */
static bool batch_send_many(struct flight *flight) {
    struct etcd_batch *batch = flight->batch;
    struct etcd_op ops[TOGETHER_MAX];
    const struct etcd_call call = flight_call(flight);
    struct etcd_reply *reply = NULL;
    for (size_t i = 0; i < flight->count; i++)
        ops[i] = (struct etcd_op){ETCD_TXN, .txn = *flight->items[i]->txn};
    const struct etcd_op all = {ETCD_TXN, .txn = {.then = ops, .then_count = flight->count}};
    enum etcd_status status = etcd_do(batch->session->etcd, &all, &call, &reply);
    if (batch_is_refusal(status))
        return false;
    pthread_mutex_lock(&batch->mutex);
    for (size_t i = 0; i < flight->count; i++) {
        if (status == ETCD_OK)
            reply->replies[i].revision = reply->revision;
        item_finish(flight->items[i], status, status == ETCD_OK ? &reply->replies[i] : NULL);
    }
    pthread_mutex_unlock(&batch->mutex);
    etcd_reply_free(reply);
    return true;
}

/* ---- waiting ---- */

/* Waits until the item is done, its thread leaves (false), or its thread must lead (true). */
static bool item_wait(struct etcd_batch *batch, struct item *item) {
    struct cancel *cancel = item->limit.cancel;
    int64_t until_ns = item->limit.until_ns;
    enum waiter_end end;
    while ((end = waiter_wait(&item->waiter, until_ns, cancel)) != WAITER_WOKEN) {
        int64_t soon_ns = clock_now_ns() + etcd_session_grace_ns;
        pthread_mutex_lock(&batch->mutex);
        bool waits = end == WAITER_CANCELLED && item->state != QUEUED;
        bool left = !waits && item_leave(batch, item, &until_ns);
        pthread_mutex_unlock(&batch->mutex);
        if (left)
            return false;
        cancel = NULL;
        if (waits)
            until_ns = soon_ns < until_ns ? soon_ns : until_ns;
    }
    return item->state == LEADS;
}

enum etcd_status etcd_batch_do(struct etcd_batch *batch, const struct etcd_txn *txn,
                               const struct lock_limit *limit,
                               void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx) {
    struct item item = {.txn = txn, .limit = *limit, .read = read, .ctx = ctx, .status = ETCD_UNAVAILABLE};
    struct flight flight = {.call_limit.limit = *limit, .batch = batch};
    if (!etcd_session_may_call(batch->session, limit))
        return ETCD_UNAVAILABLE;
    pthread_mutex_lock(&batch->mutex);
    const bool queues = batch->leaders == FLIGHTS_MAX;
    if (queues) {
        waiter_init(&item.waiter);
        TAILQ_INSERT_TAIL(&batch->queue, &item, queued);
        pthread_mutex_unlock(&batch->mutex);
        if (!item_wait(batch, &item)) {
            waiter_destroy(&item.waiter);
            return item.status;
        }
        pthread_mutex_lock(&batch->mutex);
    } else {
        batch->leaders++;
    }
    /* This thread leads. */
    if (!queues || etcd_session_may_call(batch->session, limit)) {
        for (struct item *each = &item; each;
             each = flight.count < TOGETHER_MAX ? batch_take_first(batch) : NULL) {
            each->state = TAKEN;
            each->seat = &flight.items[flight.count];
            flight.items[flight.count++] = each;
        }
        pthread_mutex_unlock(&batch->mutex);
        if (flight.count == 1 || !batch_send_many(&flight)) {
            for (size_t i = 0; i < flight.count; i++)
                batch_send_one(&flight, i);
        }
        pthread_mutex_lock(&batch->mutex);
    }
    struct item *next = batch_appoint_leader(batch);
    pthread_mutex_unlock(&batch->mutex);
    item_wake(next);
    for (size_t i = 1; i < flight.count; i++) /* those that went alone are NULL here */
        item_wake(flight.items[i]);
    if (queues)
        waiter_destroy(&item.waiter);
    return item.status;
}
