/* POST /v1/purchases. */
#include <semaphore.h>
#include <string.h>

#include "base/container.h"
#include "service/api/api.h"
#include "service/api/codec.h"

/* A purchase in flight; lives in its request.
 *
 * Strategy `locked` takes three more steps, since a lock may block and the loop must not: a thread of the
 * pool acquires the lock, has the worker sell, waits for that, releases the lock, and has the worker answer.
 * If the process is paused until the lock is lost, it cannot know; the fencing token tells the inventory. */
struct call {
    struct inventory_purchase purchase;
    struct http_request *request;
    struct worker *worker;
    struct pool_job job;
    struct loop_post post;
    enum inventory_status status;
    enum lock_status locked; /* the outcome, if the lock was not acquired */
    sem_t sold;
};

_Static_assert(sizeof(struct call) <= HTTP_CONTEXT_SIZE, "a purchase must fit into its request");

#define CONTAINER(pointer, member) CONTAINER_OF(pointer, struct call, member)

static void answer_order(struct call *call, bool replayed) {
    char body[CODEC_BODY_SIZE], location[INVENTORY_ORDER_SIZE + 16];
    size_t length = codec_write_order(body, &call->purchase.order);
    stpcpy(stpcpy(location, "/v1/orders/"), call->purchase.order.id);
    /* The first answer stays as it was; beside it stands the state now. */
    const char *headers[] = {
        "Location", location,      replayed ? "Idempotent-Replayed" : NULL,
        "true",     "Order-State", replayed ? inventory_state_name(call->purchase.now) : NULL,
        NULL};
    http_answer(call->request, 201, "application/json", body, length, headers);
}

static void count(struct call *call, enum inventory_status status) {
    struct metrics *metrics = &call->worker->thread.metrics;
    bool good = status == INVENTORY_OK || status == INVENTORY_REPLAYED;
    metric_add(&metrics->purchases[metrics_outcome(status, call->locked)], 1);
    metrics_time(good ? &metrics->sold : &metrics->rejected,
                 (int64_t)uv_hrtime() - call->request->arrived_ns);
}

static void on_terms(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    struct call *call = ctx;
    count(call, call->status);
    problem_answer_refused(call->request, call->status, -1, NULL, 0, status == INVENTORY_OK ? item : NULL);
}

/* The script that refuses does not return the terms of the item, which a sale does not need. So they are read
 * for the answer. */
static void answer_by_terms(struct call *call, enum inventory_status status) {
    struct inventory *inventory = call->worker->thread.inventory;
    call->status = status;
    if (inventory)
        inventory_item_get(inventory, call->purchase.item, on_terms, call);
    else
        on_terms(call, INVENTORY_UNAVAILABLE, NULL);
}

static void answer(struct call *call, enum inventory_status status) {
    bool by_terms = problem_is_of_terms(status);
    if (!by_terms)
        count(call, status);
    if (status == INVENTORY_OK || status == INVENTORY_REPLAYED)
        answer_order(call, status == INVENTORY_REPLAYED);
    else if (call->locked != LOCK_OK)
        problem_answer_lock(call->request, call->locked);
    else if (status == INVENTORY_SOLD_OUT)
        problem_answer_refused(call->request, status, -1, NULL, call->purchase.available, NULL);
    else if (by_terms)
        answer_by_terms(call, status);
    else
        problem_answer_status(call->request, status);
}

/* ---- under a lock ---- */

static void answer_on_worker(struct loop_post *post) {
    struct call *call = CONTAINER(post, post);
    sem_destroy(&call->sold);
    answer(call, call->status);
}

static void on_sold_locked(struct inventory_purchase *purchase, enum inventory_status status) {
    struct call *call = CONTAINER(purchase, purchase);
    call->status = status;
    sem_post(&call->sold);
}

static void sell_on_worker(struct loop_post *post) {
    struct call *call = CONTAINER(post, post);
    struct inventory_purchase *purchase = &call->purchase;
    purchase->locked = true;
    purchase->done = on_sold_locked;
    if (call->worker->thread.inventory)
        inventory_purchase_begin(call->worker->thread.inventory, purchase);
    else
        on_sold_locked(purchase, INVENTORY_UNAVAILABLE);
}

static void sell_holding(struct call *call, const struct lock_switch_use *use,
                         const struct lock_grant *grant) {
    call->purchase.token = (struct inventory_fencing_token){.epoch = use->epoch, .fence = grant->fence};
    call->post.run = sell_on_worker;
    loop_thread_post(&call->worker->thread, &call->post);
    while (sem_wait(&call->sold) != 0)
        continue;
}

static void sell_under_lock(struct pool_job *job) {
    struct call *call = CONTAINER(job, job);
    struct service *service = call->worker->thread.service;
    int64_t deadline_ns = job->since_ns + (int64_t)service->config.lock_ttl_ms * 1000000;
    char key[LOCK_NAME_KEY_SIZE];
    const char *keys[] = {key};
    struct lock_switch_use use;
    struct lock_grant grant;
    lock_name_print_key(key, call->purchase.item);
    call->status = INVENTORY_OVERLOADED;
    call->locked = lock_switch_acquire(service->lock_switch, keys, 1, deadline_ns, &use, &grant);
    if (call->locked == LOCK_OK) {
        sell_holding(call, &use, &grant);
        lock_switch_release(service->lock_switch, &use, &grant, 1);
    }
    call->post.run = answer_on_worker;
    loop_thread_post(&call->worker->thread, &call->post);
}

/* ---- */

static void on_done(struct inventory_purchase *purchase, enum inventory_status status) {
    struct call *call = CONTAINER(purchase, purchase);
    if (status == INVENTORY_WANTS_LOCK) {
        call->job.run = sell_under_lock;
        sem_init(&call->sold, 0, 0);
        if (pool_submit(call->worker->thread.service->pool, &call->job))
            return;
        sem_destroy(&call->sold);
        status = INVENTORY_OVERLOADED;
    }
    answer(call, status);
}

void purchases_post(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    struct call *call = request->context;
    struct inventory_purchase *purchase = &call->purchase;
    struct codec_purchase wanted;
    struct codec_error error;
    struct idempotency_key key;
    if (!idempotency_key_read(request, &key))
        return;
    if (!codec_read_plain_purchase(request->body, request->length, &wanted) &&
        !codec_read_purchase(request->body, request->length, &wanted, &error)) {
        problem_answer_field(request, error.field, error.detail);
        return;
    }
    call->request = request;
    call->worker = worker;
    call->locked = LOCK_OK;
    memcpy(purchase->item, wanted.item, sizeof purchase->item);
    memcpy(purchase->user, wanted.user, sizeof purchase->user);
    inventory_key_digest(purchase->user, key.text, key.length, purchase->digest);
    purchase->quantity = wanted.quantity;
    purchase->locked = false;
    purchase->token = (struct inventory_fencing_token){.epoch = 0};
    purchase->done = on_done;
    inventory_purchase_begin(worker->thread.inventory, purchase);
}
