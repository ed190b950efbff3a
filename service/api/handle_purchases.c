/* POST /v1/purchases. */
#include <string.h>

#include "base/container.h"
#include "service/api/http_api.h"

/* A purchase in flight; lives in its request. Strategy `locked` sells it by a locked job. If the process is
 * paused until the lock is lost, it cannot know; the fencing token tells the inventory. */
struct purchase_call {
    struct inventory_purchase purchase;
    struct http_request *request;
    struct locked_job job;
    enum inventory_status status;
};

_Static_assert(sizeof(struct purchase_call) <= HTTP_CONTEXT_SIZE, "a purchase must fit into its request");

#define CALL_OF(pointer, member) CONTAINER_OF(pointer, struct purchase_call, member)

/* ---- answers ---- */

/* `terms` is the item whose terms refused the purchase; NULL if none did, or it is not known. */
static void purchase_answer(struct purchase_call *call, const struct inventory_item *terms) {
    struct metrics *metrics = &request_thread(call->request)->metrics;
    bool replayed = call->status == INVENTORY_REPLAYED;
    char body[CODEC_BODY_SIZE], location[INVENTORY_ORDER_SIZE + 16];
    metrics_count(metrics->purchases, &metrics->sold, &metrics->rejected, call->status, call->job.locked,
                  call->request->arrived_ns);
    if (call->status == INVENTORY_OK || replayed) {
        size_t length = codec_write_order(body, &call->purchase.order);
        stpcpy(stpcpy(location, "/v1/orders/"), call->purchase.order.id);
        idempotency_key_answer(call->request, 201, body, length, location, replayed);
    } else if (call->job.locked != LOCK_OK) {
        problem_answer_lock(call->request, call->job.locked);
    } else {
        problem_answer_refused(call->request, call->status, -1, NULL, call->purchase.available, terms);
    }
}

static void purchase_on_terms(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    purchase_answer(ctx, status == INVENTORY_OK ? item : NULL);
}

/* The script that refuses does not return the terms of the item, which a sale does not need. So they are read
 * for the answer. */
static void purchase_finish(struct purchase_call *call, enum inventory_status status) {
    struct inventory *inventory = request_thread(call->request)->inventory;
    call->status = status;
    if (inventory && problem_is_of_terms(status))
        inventory_item_get(inventory, call->purchase.item, purchase_on_terms, call);
    else
        purchase_answer(call, NULL);
}

/* ---- under a lock ---- */

static const char *purchase_item(const struct locked_job *job, size_t i) {
    (void)i;
    return CALL_OF(job, job)->purchase.item;
}

static void purchase_on_done_locked(struct inventory_purchase *purchase, enum inventory_status status) {
    struct purchase_call *call = CALL_OF(purchase, purchase);
    call->status = status;
    locked_job_done(&call->job);
}

static void purchase_work(struct locked_job *job) {
    struct purchase_call *call = CALL_OF(job, job);
    struct inventory_purchase *purchase = &call->purchase;
    purchase->token = (struct inventory_fencing_token){.epoch = job->use.epoch, .fence = job->grants->fence};
    purchase->locked = true;
    purchase->done = purchase_on_done_locked;
    if (job->at->inventory)
        inventory_purchase_begin(job->at->inventory, purchase);
    else
        purchase_on_done_locked(purchase, INVENTORY_UNAVAILABLE);
}

static void purchase_end(struct locked_job *job) {
    struct purchase_call *call = CALL_OF(job, job);
    purchase_finish(call, call->status);
}

/* ---- the call ---- */

static void purchase_on_done(struct inventory_purchase *purchase, enum inventory_status status) {
    struct purchase_call *call = CALL_OF(purchase, purchase);
    if (status == INVENTORY_WANTS_LOCK) {
        call->job.worker = request_thread(call->request);
        call->job.at = call->job.worker;
        call->job.count = 1;
        call->job.item = purchase_item;
        call->job.work = purchase_work;
        call->job.end = purchase_end;
        status = call->status = INVENTORY_OVERLOADED;
        if (locked_job_submit(&call->job))
            return;
    }
    purchase_finish(call, status);
}

void purchases_post(struct http_request *request, const char *name, const struct caller *caller) {
    (void)name;
    struct purchase_call *call = request->context;
    struct inventory_purchase *purchase = &call->purchase;
    struct codec_purchase wanted;
    struct idempotency_key key;
    if (!idempotency_key_read(request, &key))
        return;
    if (!codec_read_plain_purchase(request->body, request->length, &wanted) &&
        !codec_read_request(request, codec_read_purchase, &wanted))
        return;
    if (!buyer_complete_user(request, caller, wanted.user) || !buyer_check_item(request, caller, wanted.item))
        return;
    call->request = request;
    call->job.locked = LOCK_OK;
    memcpy(purchase->item, wanted.item, sizeof purchase->item);
    memcpy(purchase->user, wanted.user, sizeof purchase->user);
    inventory_key_digest(purchase->user, key.text, key.length, purchase->digest);
    purchase->quantity = wanted.quantity;
    purchase->available = 0;
    purchase->locked = false;
    purchase->token = (struct inventory_fencing_token){.epoch = 0};
    purchase->done = purchase_on_done;
    inventory_purchase_begin(request_thread(request)->inventory, purchase);
}
