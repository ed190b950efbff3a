#include "lock/etcd_batch.h"

#include <semaphore.h>
#include <stdlib.h>

/* Two under way: one is written while the other is on its way. */
enum { FLYING_MAX = 2 };

/* A thread in it. Who comes while fewer are under way leads: sends what has gathered, and its own with it.
 * The rest wait, and hear once: that it is done, or that they are to lead. */
struct item {
    struct item *next;
    const struct etcd_txn *txn;
    const struct etcd_op *plain; /* to be sent instead where it is alone, or NULL */
    bool was_plain;
    void (*read)(void *ctx, const struct etcd_reply *reply);
    void *ctx;
    sem_t heard; /* may go while the one that posts is not yet back */
    bool leads;
    enum etcd_status status;
};

struct etcd_batch {
    struct etcd_session *session;
    pthread_mutex_t mutex;
    int flying;                 /* who leads, or is about to */
    struct item *first, **last; /* who waits */
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

/* With the mutex held. */
static struct item *take_first(struct etcd_batch *batch) {
    struct item *first = batch->first;
    if (!first)
        return NULL;
    batch->first = first->next;
    if (!batch->first)
        batch->last = &batch->first;
    return first;
}

static enum etcd_status send_one(struct etcd_batch *batch, struct item *item) {
    const struct etcd_op op = {ETCD_TXN, .txn = *item->txn};
    const struct etcd_call call = etcd_session_call(batch->session);
    struct etcd_reply *reply;
    item->was_plain = item->plain != NULL;
    enum etcd_status status =
        etcd_do(etcd_session_client(batch->session), item->plain ? item->plain : &op, &call, &reply);
    if (status != ETCD_OK)
        return status;
    item->read(item->ctx, reply);
    etcd_reply_free(reply);
    return ETCD_OK;
}

/* Each within one, which has nothing to compare itself. What is nested compares before anything is done. */
static enum etcd_status send_many(struct etcd_batch *batch, struct item *items[], size_t count) {
    struct etcd_op ops[ETCD_TOGETHER_MAX];
    const struct etcd_call call = etcd_session_call(batch->session);
    struct etcd_reply *reply;
    for (size_t i = 0; i < count; i++)
        ops[i] = (struct etcd_op){ETCD_TXN, .txn = *items[i]->txn};
    const struct etcd_txn all = {.then = ops, .then_count = count};
    enum etcd_status status = etcd_txn(etcd_session_client(batch->session), &all, &call, &reply);
    if (status != ETCD_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        reply->replies[i].revision = reply->revision;
        items[i]->read(items[i]->ctx, &reply->replies[i]);
    }
    etcd_reply_free(reply);
    return ETCD_OK;
}

/* One that is refused (no space to put, no lease) takes the others with it. */
static bool is_refusal(enum etcd_status status) {
    return status == ETCD_NOT_FOUND || status == ETCD_EXHAUSTED || status == ETCD_INVALID ||
           status == ETCD_FAILED || status == ETCD_DENIED;
}

static void send(struct etcd_batch *batch, struct item *items[], size_t count) {
    enum etcd_status status = count > 1 ? send_many(batch, items, count) : ETCD_OK;
    for (size_t i = 0; i < count; i++)
        items[i]->status = count == 1 || is_refusal(status) ? send_one(batch, items[i]) : status;
}

/* Called with the mutex held, which it gives up. */
static void lead(struct etcd_batch *batch, struct item *item) {
    struct item *items[ETCD_TOGETHER_MAX] = {item};
    size_t count = 1;
    while (count < ETCD_TOGETHER_MAX && (items[count] = take_first(batch)))
        count++;
    pthread_mutex_unlock(&batch->mutex);
    send(batch, items, count);
    pthread_mutex_lock(&batch->mutex);
    struct item *next = take_first(batch);
    if (!next)
        batch->flying--;
    pthread_mutex_unlock(&batch->mutex);
    if (next) {
        next->leads = true;
        sem_post(&next->heard);
    }
    for (size_t i = 1; i < count; i++)
        sem_post(&items[i]->heard);
}

static void wait_in_line(struct etcd_batch *batch, struct item *item) {
    sem_init(&item->heard, 0, 0);
    *batch->last = item;
    batch->last = &item->next;
    pthread_mutex_unlock(&batch->mutex);
    while (sem_wait(&item->heard) != 0)
        ; /* interrupted */
    sem_destroy(&item->heard);
    if (!item->leads)
        return;
    pthread_mutex_lock(&batch->mutex);
    lead(batch, item);
}

static void pass(struct etcd_batch *batch, struct item *item) {
    pthread_mutex_lock(&batch->mutex);
    if (batch->flying == FLYING_MAX) {
        wait_in_line(batch, item);
        return;
    }
    batch->flying++;
    lead(batch, item);
}

enum etcd_status etcd_batch_do(struct etcd_batch *batch, const struct etcd_txn *txn,
                               void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx) {
    struct item item = {.txn = txn, .read = read, .ctx = ctx};
    pass(batch, &item);
    return item.status;
}

enum etcd_status etcd_batch_delete(struct etcd_batch *batch, const struct etcd_txn *txn,
                                   const struct etcd_op *plain, bool *was_plain,
                                   void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx) {
    struct item item = {.txn = txn, .plain = plain, .read = read, .ctx = ctx};
    pass(batch, &item);
    *was_plain = item.was_plain;
    return item.status;
}
