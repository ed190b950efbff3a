/* /v1/baskets and /v1/transfers.
 *
 * A transaction is made by a locked job, under the locks of all its items: the background thread writes with
 * their fencing tokens. The worker checks it before, without locks, so that neither a retry nor a basket of
 * what is sold out waits for a lock. Settling a basket takes no lock: the worker does it on its own loop, and
 * waits for no other basket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "inventory/transactions.h"
#include "service/api/http_api.h"

/* A request for a transaction, in flight. */
struct basket_call {
    struct inventory_transaction transaction;
    struct http_request *request;
    bool make;                          /* the request makes it; otherwise `step` is what it asks for */
    char owner[INVENTORY_USER_MAX + 1]; /* another's basket is unknown to the caller; "": none is */
    enum inventory_step step;
    struct locked_job job;
    enum inventory_status status;
};

#define CALL_OF(pointer, member) CONTAINER_OF(pointer, struct basket_call, member)

/* Whether it is a basket, and this service makes them in this way. */
static bool basket_is_made_by(const struct basket_call *call, enum config_basket way) {
    return call->transaction.kind == INVENTORY_BASKET &&
           request_thread(call->request)->service->config.basket == way;
}

/* ---- answers ---- */

static void basket_answer_done(struct basket_call *call) {
    struct inventory_transaction *transaction = &call->transaction;
    char body[CODEC_BASKET_SIZE], location[INVENTORY_DIGEST_SIZE + 16];
    bool basket = transaction->kind == INVENTORY_BASKET, created = basket && call->make;
    bool journalled = !basket_is_made_by(call, CONFIG_BASKET_NAIVE);
    size_t length = basket ? codec_write_basket(body, transaction) : codec_write_transfer(body, transaction);
    snprintf(location, sizeof location, "/v1/baskets/%s", transaction->id);
    idempotency_key_answer(call->request, created ? 201 : 200, body, length,
                           created && journalled ? location : NULL, call->status == INVENTORY_REPLAYED);
}

/* `terms` is the item whose terms refused a line; NULL if none did, or it is not known. */
static void basket_answer(struct basket_call *call, const struct inventory_item *terms) {
    const struct inventory_transaction *transaction = &call->transaction;
    struct metrics *metrics = &request_thread(call->request)->metrics;
    bool basket = transaction->kind == INVENTORY_BASKET;
    if (transaction->aborted_ns)
        metrics_time(&metrics->transactions_aborted, transaction->aborted_ns);
    if (call->make)
        metrics_count(basket ? metrics->baskets : metrics->transfers, &metrics->transactions_made,
                      &metrics->transactions_rejected, call->status, call->job.locked,
                      call->request->arrived_ns);
    if (call->status == INVENTORY_OK || call->status == INVENTORY_REPLAYED)
        basket_answer_done(call);
    else if (call->job.locked != LOCK_OK)
        problem_answer_lock(call->request, call->job.locked);
    else if (call->status == INVENTORY_TOO_MANY)
        problem_answer_field(call->request, "quantity",
                             "the stock of the receiving item may be 1000000000 at most");
    else
        problem_answer_refused(call->request, call->status, basket ? transaction->failed : -1,
                               transaction->lines[transaction->failed].item, transaction->available, terms);
    free(call);
}

static void basket_on_terms(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    basket_answer(ctx, status == INVENTORY_OK ? item : NULL);
}

/* The end, on the worker. A refusal by a term does not bring the term with it, so the item is read for the
 * answer. */
static void basket_finish(struct basket_call *call, enum inventory_status status) {
    const struct inventory_transaction *transaction = &call->transaction;
    struct inventory *inventory = request_thread(call->request)->inventory;
    call->status = status;
    if (inventory && problem_is_of_terms(status))
        inventory_item_get(inventory, transaction->lines[transaction->failed].item, basket_on_terms, call);
    else
        basket_answer(call, NULL);
}

/* ---- under the locks ---- */

static const char *basket_item(const struct locked_job *job, size_t i) {
    return CALL_OF(job, job)->transaction.lines[i].item;
}

static void basket_on_done_locked(struct inventory_transaction *transaction, enum inventory_status status) {
    struct basket_call *call = CALL_OF(transaction, transaction);
    call->status = status;
    locked_job_done(&call->job);
}

/* On the background thread: makes the transaction with the fencing tokens of the grants. */
static void basket_work(struct locked_job *job) {
    struct basket_call *call = CALL_OF(job, job);
    struct inventory *inventory = job->at->inventory;
    struct inventory_transaction *transaction = &call->transaction;
    transaction->locked = true;
    transaction->lease_ms = job->at->service->config.lock_ttl_ms;
    for (int i = 0; i < transaction->count; i++) {
        int64_t left_ms = lock_remaining_ns(job->use.lock, &job->grants[i]) / 1000000;
        transaction->lines[i].token =
            (struct inventory_fencing_token){.epoch = job->use.epoch, .fence = job->grants[i].fence};
        if (left_ms < transaction->lease_ms)
            transaction->lease_ms = left_ms;
    }
    transaction->done = basket_on_done_locked;
    if (!inventory)
        basket_on_done_locked(transaction, INVENTORY_UNAVAILABLE);
    else if (basket_is_made_by(call, CONFIG_BASKET_NAIVE))
        inventory_transaction_make_naive(inventory, transaction);
    else
        inventory_transaction_make(inventory, transaction);
}

static void basket_on_end(struct locked_job *job) {
    struct basket_call *call = CALL_OF(job, job);
    basket_finish(call, call->status);
}

static void basket_submit(struct basket_call *call) {
    call->job.worker = request_thread(call->request);
    call->job.at = &call->job.worker->service->background.thread;
    call->job.count = (size_t)call->transaction.count;
    call->job.item = basket_item;
    call->job.work = basket_work;
    call->job.end = basket_on_end;
    call->status = INVENTORY_OVERLOADED;
    if (!locked_job_submit(&call->job))
        basket_finish(call, INVENTORY_OVERLOADED);
}

/* ---- the calls ---- */

static struct basket_call *basket_call_new(struct http_request *request) {
    struct basket_call *call = calloc(1, sizeof *call);
    if (!call) {
        problem_answer_status(request, INVENTORY_OVERLOADED);
        return NULL;
    }
    call->request = request;
    return call;
}

/* If another process has left an attempt unfinished, that is finished first, under the locks. */
static void basket_on_tried(struct inventory_transaction *transaction, enum inventory_status status) {
    struct basket_call *call = CALL_OF(transaction, transaction);
    if (status == INVENTORY_WANTS_LOCK || status == INVENTORY_PENDING)
        basket_submit(call);
    else
        basket_finish(call, status);
}

/* Whether the caller may make the transaction, which was read. If not, answers. A transfer has no user. */
static bool basket_check_buyer(struct basket_call *call, const struct caller *caller) {
    struct inventory_transaction *transaction = &call->transaction;
    if (transaction->kind != INVENTORY_BASKET)
        return true;
    if (!buyer_complete_user(call->request, caller, transaction->user))
        return false;
    for (int i = 0; i < transaction->count; i++)
        if (!buyer_check_item(call->request, caller, transaction->lines[i].item))
            return false;
    return true;
}

static void basket_post(struct http_request *request, codec_reader *read, const struct caller *caller) {
    struct idempotency_key key;
    if (!idempotency_key_read(request, &key))
        return;
    struct basket_call *call = basket_call_new(request);
    if (!call)
        return;
    struct inventory_transaction *transaction = &call->transaction;
    if (!codec_read_request(request, read, transaction) || !basket_check_buyer(call, caller)) {
        free(call);
        return;
    }
    inventory_key_digest(transaction->user, key.text, key.length, transaction->id);
    call->make = true;
    transaction->done = basket_on_tried;
    if (basket_is_made_by(call, CONFIG_BASKET_SCRIPT))
        inventory_transaction_make_at_once(request_thread(request)->inventory, transaction);
    else if (basket_is_made_by(call, CONFIG_BASKET_NAIVE))
        basket_submit(call); /* it is not in the journal */
    else
        inventory_transaction_check(request_thread(request)->inventory, transaction);
}

void baskets_post(struct http_request *request, const char *name, const struct caller *caller) {
    (void)name;
    basket_post(request, codec_read_basket, caller);
}

void transfers_post(struct http_request *request, const char *name, const struct caller *caller) {
    (void)name;
    basket_post(request, codec_read_transfer, caller);
}

static void basket_on_settled(struct inventory_transaction *transaction, enum inventory_status status) {
    basket_finish(CALL_OF(transaction, transaction), status);
}

static void basket_on_found(struct inventory_transaction *transaction, enum inventory_status status) {
    struct basket_call *call = CALL_OF(transaction, transaction);
    bool found = status == INVENTORY_OK || status == INVENTORY_PENDING;
    if (found && call->owner[0] && strcmp(call->owner, transaction->user) != 0) {
        basket_finish(call, INVENTORY_UNKNOWN_BASKET);
        return;
    }
    if (call->step != INVENTORY_READ && found) {
        transaction->done = basket_on_settled;
        inventory_transaction_settle(request_thread(call->request)->inventory, transaction, call->step);
        return;
    }
    if (status == INVENTORY_PENDING)
        status = transaction->state == INVENTORY_STATE_ABORTED ? INVENTORY_UNKNOWN_BASKET : INVENTORY_OK;
    basket_finish(call, status);
}

static void basket_find(struct http_request *request, const char *name, enum inventory_step step,
                        const struct caller *caller) {
    if (!inventory_digest_valid(name)) {
        problem_answer_status(request, INVENTORY_UNKNOWN_BASKET);
        return;
    }
    if (step != INVENTORY_READ && !codec_read_request(request, codec_read_nothing, NULL))
        return;
    struct basket_call *call = basket_call_new(request);
    if (!call)
        return;
    call->step = step;
    memcpy(call->owner, caller->user, sizeof call->owner);
    call->transaction.kind = INVENTORY_BASKET;
    call->transaction.arrived_ns = request->arrived_ns;
    memcpy(call->transaction.id, name, sizeof call->transaction.id);
    call->transaction.done = basket_on_found;
    inventory_transaction_find(request_thread(request)->inventory, &call->transaction);
}

void baskets_get(struct http_request *request, const char *name, const struct caller *caller) {
    basket_find(request, name, INVENTORY_READ, caller);
}

void baskets_confirm(struct http_request *request, const char *name, const struct caller *caller) {
    basket_find(request, name, INVENTORY_CONFIRM, caller);
}

void baskets_cancel(struct http_request *request, const char *name, const struct caller *caller) {
    basket_find(request, name, INVENTORY_CANCEL, caller);
}
