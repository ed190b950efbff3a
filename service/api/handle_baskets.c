/* /v1/baskets and /v1/transfers.
 *
 * To make a transaction takes the locks of all its items. It is checked before, without locks, so that
 * neither a retry nor a basket of what is sold out waits for a lock. Locks block, and a loop must not. So a
 * thread of the pool acquires them, has the background thread write with their fencing tokens, waits for
 * that, releases the locks, and has the worker answer. To settle a basket takes no lock: the worker does it
 * on its own loop, and waits for no other basket. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "inventory/transactions.h"
#include "service/api/api.h"
#include "service/api/codec.h"
#include "service/failpoint_hook.h"

/* A request for a transaction, in flight. */
struct call {
    struct inventory_transaction transaction;
    struct http_request *request;
    struct service *service;
    struct worker *worker; /* that got the request */
    bool make;             /* it is made; otherwise settled */
    struct pool_job job;
    struct loop_post post;
    enum inventory_status status;
    enum lock_status locked; /* the outcome of acquiring its locks */
    sem_t done;
};

#define CONTAINER(pointer, member) CONTAINER_OF(pointer, struct call, member)

/* Whether it is a basket, and this service makes them in this way. */
static bool is_basket(const struct call *call, enum config_basket way) {
    return call->transaction.kind == INVENTORY_BASKET && call->service->config.basket == way;
}

/* ---- answers ---- */

static void answer_done(struct call *call) {
    struct inventory_transaction *transaction = &call->transaction;
    char body[CODEC_BASKET_SIZE], location[INVENTORY_DIGEST_SIZE + 16];
    bool basket = transaction->kind == INVENTORY_BASKET, created = basket && call->make;
    bool journalled = !is_basket(call, CONFIG_BASKET_NAIVE);
    size_t length = basket ? codec_write_basket(body, transaction) : codec_write_transfer(body, transaction);
    snprintf(location, sizeof location, "/v1/baskets/%s", transaction->id);
    const char *headers[7] = {NULL};
    int count = 0;
    if (created && journalled) {
        headers[count++] = "Location";
        headers[count++] = location;
    }
    if (call->status == INVENTORY_REPLAYED) {
        headers[count++] = "Idempotent-Replayed";
        headers[count++] = "true";
        /* The first answer stays as it was; beside it stands the state now. */
        if (basket && journalled) {
            headers[count++] = "Order-State";
            headers[count++] = inventory_state_name(transaction->now);
        }
    }
    http_answer(call->request, created ? 201 : 200, "application/json", body, length, headers);
}

/* `terms` is the item whose terms refused a line; NULL if none did, or it is not known. */
static void answer_refusal(const struct call *call, const struct inventory_item *terms) {
    const struct inventory_transaction *transaction = &call->transaction;
    int line = transaction->kind == INVENTORY_BASKET ? transaction->failed : -1;
    if (call->locked != LOCK_OK) {
        problem_answer_lock(call->request, call->locked);
        return;
    }
    switch (call->status) {
    case INVENTORY_SOLD_OUT:
    case INVENTORY_LIMIT:
    case INVENTORY_NOT_STARTED:
    case INVENTORY_ENDED:
    case INVENTORY_UNKNOWN_ITEM:
        problem_answer_refused(call->request, call->status, line,
                               transaction->lines[transaction->failed].item, transaction->available, terms);
        break;
    case INVENTORY_TOO_MANY:
        problem_answer_field(call->request, "quantity",
                             "the stock of the item to which it goes may be 1000000000 at most");
        break;
    default: problem_answer_status(call->request, call->status);
    }
}

static void count(const struct call *call) {
    struct metrics *metrics = &call->worker->thread.metrics;
    bool basket = call->transaction.kind == INVENTORY_BASKET;
    bool good = call->status == INVENTORY_OK || call->status == INVENTORY_REPLAYED;
    if (call->transaction.aborted_ns)
        metrics_time(&metrics->transactions_aborted, call->transaction.aborted_ns);
    if (call->make) {
        int outcome = metrics_outcome(call->status, call->locked);
        metric_add(basket ? &metrics->baskets[outcome] : &metrics->transfers[outcome], 1);
        metrics_time(good ? &metrics->transactions_made : &metrics->transactions_rejected,
                     (int64_t)uv_hrtime() - call->request->arrived_ns);
    }
}

static void end(struct call *call, const struct inventory_item *terms) {
    count(call);
    if (call->status == INVENTORY_OK || call->status == INVENTORY_REPLAYED)
        answer_done(call);
    else
        answer_refusal(call, terms);
    free(call);
}

static void on_terms(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    end(ctx, status == INVENTORY_OK ? item : NULL);
}

/* The end, on the worker. A refusal by a term does not bring the term with it, so the item is read for the
 * answer. */
static void finish(struct call *call, enum inventory_status status) {
    const struct inventory_transaction *transaction = &call->transaction;
    struct inventory *inventory = call->worker->thread.inventory;
    call->status = status;
    if (inventory && problem_is_of_terms(status))
        inventory_item_get(inventory, transaction->lines[transaction->failed].item, on_terms, call);
    else
        end(call, NULL);
}

/* ---- under the locks ---- */

static void finish_there(struct loop_post *post) {
    struct call *call = CONTAINER(post, post);
    sem_destroy(&call->done);
    finish(call, call->status);
}

static void on_done_locked(struct inventory_transaction *transaction, enum inventory_status status) {
    struct call *call = CONTAINER(transaction, transaction);
    call->status = status;
    sem_post(&call->done);
}

static void do_in_background(struct loop_post *post) {
    struct call *call = CONTAINER(post, post);
    struct inventory *inventory = call->service->background.thread.inventory;
    struct inventory_transaction *transaction = &call->transaction;
    transaction->done = on_done_locked;
    if (!inventory)
        on_done_locked(transaction, INVENTORY_UNAVAILABLE);
    else if (is_basket(call, CONFIG_BASKET_NAIVE))
        inventory_transaction_make_naive(inventory, transaction);
    else
        inventory_transaction_make(inventory, transaction);
}

/* Has the background thread make it with the fencing tokens of these grants, and waits. */
static void do_with(struct call *call, const struct lock_switch_use *use, const struct lock_grant grants[]) {
    struct inventory_transaction *transaction = &call->transaction;
    transaction->locked = true;
    transaction->lease_ms = call->service->config.lock_ttl_ms;
    for (int i = 0; i < transaction->count; i++) {
        int64_t left_ms = lock_remaining_ns(use->lock, &grants[i]) / 1000000;
        transaction->lines[i].token =
            (struct inventory_fencing_token){.epoch = use->epoch, .fence = grants[i].fence};
        if (left_ms < transaction->lease_ms)
            transaction->lease_ms = left_ms;
    }
    call->post.run = do_in_background;
    loop_thread_post(&call->service->background.thread, &call->post);
    while (sem_wait(&call->done) != 0)
        continue;
}

static void at_failpoint(const char *step) {
    if (service_at_failpoint)
        service_at_failpoint(NULL, step);
}

static enum lock_status lock_and_do(struct call *call) {
    struct service *service = call->service;
    const struct inventory_transaction *transaction = &call->transaction;
    size_t count = (size_t)transaction->count;
    char names[INVENTORY_LINES_MAX][LOCK_NAME_KEY_SIZE];
    const char *keys[INVENTORY_LINES_MAX];
    struct lock_grant grants[INVENTORY_LINES_MAX];
    struct lock_switch_use use;
    for (size_t i = 0; i < count; i++) {
        lock_name_print_key(names[i], transaction->lines[i].item);
        keys[i] = names[i];
    }
    int64_t deadline_ns = call->job.since_ns + (int64_t)service->config.lock_ttl_ms * 1000000;
    at_failpoint("before locks");
    enum lock_status status =
        lock_switch_acquire(service->lock_switch, keys, count, deadline_ns, &use, grants);
    if (status != LOCK_OK)
        return status;
    at_failpoint("after locks");
    do_with(call, &use, grants);
    at_failpoint("before unlock");
    lock_switch_release(service->lock_switch, &use, grants, count);
    at_failpoint("after unlock");
    return LOCK_OK;
}

static void run(struct pool_job *job) {
    struct call *call = CONTAINER(job, job);
    call->status = INVENTORY_OVERLOADED;
    call->locked = lock_and_do(call);
    call->post.run = finish_there;
    loop_thread_post(&call->worker->thread, &call->post);
}

static void submit(struct call *call) {
    call->job.run = run;
    sem_init(&call->done, 0, 0);
    if (pool_submit(call->service->pool, &call->job))
        return;
    sem_destroy(&call->done);
    finish(call, INVENTORY_OVERLOADED);
}

/* ---- the calls ---- */

static struct call *call_new(struct worker *worker, struct http_request *request) {
    struct call *call = calloc(1, sizeof *call);
    if (!call) {
        problem_answer_status(request, INVENTORY_OVERLOADED);
        return NULL;
    }
    call->service = worker->thread.service;
    call->worker = worker;
    call->request = request;
    return call;
}

/* An attempt of another process is finished first, and this one made, under the locks. */
static void on_tried(struct inventory_transaction *transaction, enum inventory_status status) {
    struct call *call = CONTAINER(transaction, transaction);
    if (status == INVENTORY_WANTS_LOCK || status == INVENTORY_PENDING)
        submit(call);
    else
        finish(call, status);
}

static void make(struct call *call) {
    struct inventory *inventory = call->worker->thread.inventory;
    struct inventory_transaction *transaction = &call->transaction;
    call->make = true;
    transaction->done = on_tried;
    if (is_basket(call, CONFIG_BASKET_SCRIPT))
        inventory_transaction_make_at_once(inventory, transaction);
    else if (is_basket(call, CONFIG_BASKET_NAIVE))
        submit(call); /* it is not in the journal */
    else
        inventory_transaction_check(inventory, transaction);
}

static void post(struct worker *worker, struct http_request *request,
                 bool (*read)(const char *body, size_t length, struct inventory_transaction *transaction,
                              struct codec_error *error)) {
    struct codec_error error;
    struct idempotency_key key;
    if (!idempotency_key_read(request, &key))
        return;
    struct call *call = call_new(worker, request);
    if (!call)
        return;
    if (!read(request->body, request->length, &call->transaction, &error)) {
        problem_answer_field(request, error.field, error.detail);
        free(call);
        return;
    }
    inventory_key_digest(call->transaction.user, key.text, key.length, call->transaction.id);
    make(call);
}

void baskets_post(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    post(worker, request, codec_read_basket);
}

void transfers_post(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    post(worker, request, codec_read_transfer);
}

static void on_found(struct inventory_transaction *transaction, enum inventory_status status) {
    struct call *call = CONTAINER(transaction, transaction);
    if (status == INVENTORY_PENDING)
        status = transaction->state == INVENTORY_STATE_ABORTED ? INVENTORY_UNKNOWN_BASKET : INVENTORY_OK;
    finish(call, status);
}

static void on_settled(struct inventory_transaction *transaction, enum inventory_status status) {
    finish(CONTAINER(transaction, transaction), status);
}

static void settle(struct inventory_transaction *transaction, enum inventory_status found,
                   enum inventory_step step) {
    struct call *call = CONTAINER(transaction, transaction);
    transaction->done = on_settled;
    if (found == INVENTORY_OK || found == INVENTORY_PENDING)
        inventory_transaction_settle(call->worker->thread.inventory, transaction, step);
    else
        finish(call, found);
}

static void on_found_to_confirm(struct inventory_transaction *transaction, enum inventory_status status) {
    settle(transaction, status, INVENTORY_CONFIRM);
}

static void on_found_to_cancel(struct inventory_transaction *transaction, enum inventory_status status) {
    settle(transaction, status, INVENTORY_CANCEL);
}

static void look_up(struct worker *worker, struct http_request *request, const char *name,
                    void (*then)(struct inventory_transaction *transaction, enum inventory_status status)) {
    struct codec_error error;
    if (!inventory_digest_valid(name)) {
        problem_answer_status(request, INVENTORY_UNKNOWN_BASKET);
        return;
    }
    if (then != on_found && !codec_read_nothing(request->body, request->length, &error)) {
        problem_answer_field(request, error.field, error.detail);
        return;
    }
    struct call *call = call_new(worker, request);
    if (!call)
        return;
    call->transaction.kind = INVENTORY_BASKET;
    call->transaction.arrived_ns = request->arrived_ns;
    memcpy(call->transaction.id, name, sizeof call->transaction.id);
    call->transaction.done = then;
    inventory_transaction_find(worker->thread.inventory, &call->transaction);
}

void baskets_get(struct worker *worker, struct http_request *request, const char *name) {
    look_up(worker, request, name, on_found);
}

void baskets_confirm(struct worker *worker, struct http_request *request, const char *name) {
    look_up(worker, request, name, on_found_to_confirm);
}

void baskets_cancel(struct worker *worker, struct http_request *request, const char *name) {
    look_up(worker, request, name, on_found_to_cancel);
}
