/* POST /v1/purchases. */
#include <semaphore.h>
#include <string.h>

#include "service/api/json.h"
#include "service/api/plain_purchase.h"
#include "service/api/problem.h"
#include "service/api/routes.h"
#include "service/container.h"
#include "service/worker.h"

/* A purchase under way; lives in its request.
 *
 * Strategy `locked` takes three more steps, since a lock may block and the loop must not: a thread of the
 * pool acquires the lock, has the worker sell, waits for that, releases the lock, and has the worker answer.
 * Should the process be paused until the lock is lost, it cannot know: the grant's fence tells the inventory.
 */
struct under_way {
    struct inventory_purchase purchase;
    struct http_request *request;
    struct worker *worker;
    struct pool_job job;
    struct mailbox_post post;
    enum inventory_status status;
    enum lock_status locked; /* how that was, where the lock was not had */
    sem_t sold;
};

_Static_assert(sizeof(struct under_way) <= HTTP_CONTEXT_SIZE, "a purchase must fit into its request");

#define CONTAINER(pointer, member) CONTAINER_OF(pointer, struct under_way, member)

static void answer_order(struct under_way *under_way, bool replayed) {
    char body[CODEC_BODY_SIZE], location[INVENTORY_ORDER_SIZE + 16];
    size_t length = codec_write_order(body, &under_way->purchase.order);
    stpcpy(stpcpy(location, "/v1/orders/"), under_way->purchase.order.id);
    /* The first answer stays what it was; what has become of the order since stands beside it. */
    const char *headers[] = {
        "Location", location,      replayed ? "Idempotent-Replayed" : NULL,
        "true",     "Order-State", replayed ? inventory_state_name(under_way->purchase.now) : NULL,
        NULL};
    http_answer(under_way->request, 201, "application/json", body, length, headers);
}

static void count(struct under_way *under_way, enum inventory_status status) {
    struct figures *figures = &under_way->worker->figures;
    bool good = status == INVENTORY_OK || status == INVENTORY_REPLAYED;
    figures_count(&figures->purchases[figures_outcome(status, under_way->locked)]);
    figures_time(good ? &figures->sold : &figures->rejected,
                 (int64_t)uv_hrtime() - http_request_since_ns(under_way->request));
}

static void on_terms(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    struct under_way *under_way = ctx;
    count(under_way, under_way->status);
    routes_answer_terms(under_way->request, under_way->status, status == INVENTORY_OK ? item : NULL);
}

/* The script that refuses does not tell the item's terms, since it tells nothing that a sale has no use for.
 */
static void answer_by_terms(struct under_way *under_way, enum inventory_status status) {
    struct inventory *inventory = under_way->worker->inventory;
    under_way->status = status;
    if (inventory)
        inventory_item_get(inventory, under_way->purchase.item, on_terms, under_way);
    else
        on_terms(under_way, INVENTORY_UNAVAILABLE, NULL);
}

static void answer(struct under_way *under_way, enum inventory_status status) {
    bool by_terms = routes_is_of_terms(status);
    if (!by_terms)
        count(under_way, status);
    if (status == INVENTORY_OK || status == INVENTORY_REPLAYED)
        answer_order(under_way, status == INVENTORY_REPLAYED);
    else if (under_way->locked != LOCK_OK)
        routes_answer_lock(under_way->request, under_way->locked);
    else if (status == INVENTORY_SOLD_OUT)
        problem_answer_sold_out(under_way->request, under_way->purchase.available);
    else if (by_terms)
        answer_by_terms(under_way, status);
    else
        routes_answer_status(under_way->request, status);
}

/* ---- under a lock ---- */

static void answer_on_worker(struct mailbox_post *post) {
    struct under_way *under_way = CONTAINER(post, post);
    sem_destroy(&under_way->sold);
    answer(under_way, under_way->status);
}

static void on_sold_locked(struct inventory_purchase *purchase, enum inventory_status status) {
    struct under_way *under_way = CONTAINER(purchase, purchase);
    under_way->status = status;
    sem_post(&under_way->sold);
}

static void sell_on_worker(struct mailbox_post *post) {
    struct under_way *under_way = CONTAINER(post, post);
    struct inventory_purchase *purchase = &under_way->purchase;
    purchase->locked = true;
    purchase->done = on_sold_locked;
    if (under_way->worker->inventory)
        inventory_purchase(under_way->worker->inventory, purchase);
    else
        on_sold_locked(purchase, INVENTORY_UNAVAILABLE);
}

static void sell_holding(struct under_way *under_way, const struct domain_use *use,
                         const struct lock_grant *grant) {
    under_way->purchase.token = (struct inventory_token){.epoch = use->epoch, .fence = grant->fence};
    under_way->post.run = sell_on_worker;
    mailbox_put(&under_way->worker->mailbox, &under_way->post);
    while (sem_wait(&under_way->sold) != 0)
        continue;
}

static void sell_under_lock(struct pool_job *job) {
    struct under_way *under_way = CONTAINER(job, job);
    struct service *service = under_way->worker->service;
    int64_t deadline_ns = job->since_ns + (int64_t)service->config.lock_ttl_ms * 1000000;
    char key[ROUTES_LOCK_KEY_SIZE];
    const char *keys[] = {key};
    struct domain_use use;
    struct lock_grant grant;
    routes_lock_key(key, under_way->purchase.item);
    under_way->status = INVENTORY_OVERLOADED;
    under_way->locked = domain_acquire(service->domain, keys, 1, deadline_ns, &use, &grant);
    if (under_way->locked == LOCK_OK) {
        sell_holding(under_way, &use, &grant);
        domain_release(service->domain, &use, &grant, 1);
    }
    under_way->post.run = answer_on_worker;
    mailbox_put(&under_way->worker->mailbox, &under_way->post);
}

/* ---- */

static void on_done(struct inventory_purchase *purchase, enum inventory_status status) {
    struct under_way *under_way = CONTAINER(purchase, purchase);
    if (status == INVENTORY_WANTS_LOCK) {
        under_way->job.run = sell_under_lock;
        sem_init(&under_way->sold, 0, 0);
        if (pool_submit(under_way->worker->service->pool, &under_way->job))
            return;
        sem_destroy(&under_way->sold);
        status = INVENTORY_OVERLOADED;
    }
    answer(under_way, status);
}

void purchases_post(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    struct under_way *under_way = http_request_context(request);
    struct inventory_purchase *purchase = &under_way->purchase;
    struct codec_purchase wanted;
    struct codec_error error;
    size_t length;
    const char *body = http_request_body(request, &length);
    if (!routes_read_key(request, purchase->digest))
        return;
    if (!plain_read_purchase(body, length, &wanted) && !codec_read_purchase(body, length, &wanted, &error)) {
        problem_answer_field(request, error.field, error.detail);
        return;
    }
    under_way->request = request;
    under_way->worker = worker;
    under_way->locked = LOCK_OK;
    memcpy(purchase->item, wanted.item, sizeof purchase->item);
    memcpy(purchase->user, wanted.user, sizeof purchase->user);
    purchase->quantity = wanted.quantity;
    purchase->locked = false;
    purchase->token = (struct inventory_token){.epoch = 0};
    purchase->done = on_done;
    inventory_purchase(worker->inventory, purchase);
}
