/* /v1/baskets and /v1/transfers.
 *
 * To make one takes the locks of all its items. Whether it can be made is asked first, without them, so that
 * neither a retry nor a basket of what is sold out waits for a lock. Locks block and a loop must not. So a
 * thread of the pool acquires them, has the back office carry their tokens to the inventory, waits for that,
 * releases the locks, and has the worker answer. To settle one, or to finish what was left, takes no lock: it
 * is done on the loop where it is asked for, and waits for nobody who makes another. */
#include "service/api/handle_baskets.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/api/json.h"
#include "service/api/problem.h"
#include "service/api/routes.h"
#include "service/container.h"
#include "service/failpoint.h"
#include "service/worker.h"

/* A deal under way. */
struct under_way {
    struct inventory_deal deal;
    struct http_request *request; /* NULL: it was left unfinished, and nobody waits for it */
    struct service *service;
    struct worker *worker; /* whose request it is; NULL likewise */
    bool make;             /* it is to be made, otherwise settled */
    struct pool_job job;
    struct mailbox_post post;
    enum inventory_status status;
    enum lock_status locked; /* how its locks were had */
    sem_t done;
};

/* So long nobody else tries what was claimed. */
enum { CLAIM_MS = 2000 };

#define CONTAINER(pointer, member) CONTAINER_OF(pointer, struct under_way, member)

/* A basket, where they are made in this way. */
static bool is_basket(const struct under_way *under_way, enum config_basket way) {
    return under_way->deal.kind == INVENTORY_BASKET && under_way->service->config.basket == way;
}

/* ---- answers ---- */

static void answer_done(struct under_way *under_way) {
    struct inventory_deal *deal = &under_way->deal;
    char body[CODEC_BASKET_SIZE], location[INVENTORY_DIGEST_SIZE + 16];
    bool basket = deal->kind == INVENTORY_BASKET, created = basket && under_way->make;
    bool journalled = !is_basket(under_way, CONFIG_BASKET_NAIVE);
    size_t length = basket ? codec_write_basket(body, deal) : codec_write_transfer(body, deal);
    snprintf(location, sizeof location, "/v1/baskets/%s", deal->id);
    const char *headers[7] = {NULL};
    int count = 0;
    if (created && journalled) {
        headers[count++] = "Location";
        headers[count++] = location;
    }
    if (under_way->status == INVENTORY_REPLAYED) {
        headers[count++] = "Idempotent-Replayed";
        headers[count++] = "true";
        /* The first answer stays what it was; what has become of the basket since stands beside it. */
        if (basket && journalled) {
            headers[count++] = "Order-State";
            headers[count++] = inventory_state_name(deal->now);
        }
    }
    http_answer(under_way->request, created ? 201 : 200, "application/json", body, length, headers);
}

/* `terms` is that item of which a line was refused by them; NULL where it was not, or they are not known. */
static void answer_refusal(const struct under_way *under_way, const struct inventory_item *terms) {
    const struct inventory_deal *deal = &under_way->deal;
    int line = deal->kind == INVENTORY_BASKET ? deal->failed : -1;
    if (under_way->locked != LOCK_OK) {
        routes_answer_lock(under_way->request, under_way->locked);
        return;
    }
    switch (under_way->status) {
    case INVENTORY_SOLD_OUT:
    case INVENTORY_LIMIT:
    case INVENTORY_NOT_STARTED:
    case INVENTORY_ENDED:
    case INVENTORY_UNKNOWN_ITEM:
        routes_answer_line(under_way->request, under_way->status, line, deal->lines[deal->failed].item,
                           deal->available, terms);
        break;
    case INVENTORY_TOO_MANY:
        problem_answer_field(under_way->request, "quantity",
                             "the stock of the item to which it goes may be 1000000000 at most");
        break;
    default: routes_answer_status(under_way->request, under_way->status);
    }
}

static void count(const struct under_way *under_way) {
    struct figures *figures =
        under_way->worker ? &under_way->worker->figures : &under_way->service->back.figures;
    bool basket = under_way->deal.kind == INVENTORY_BASKET;
    bool good = under_way->status == INVENTORY_OK || under_way->status == INVENTORY_REPLAYED;
    if (under_way->deal.undone_ns)
        figures_time(&figures->deals_undone, under_way->deal.undone_ns);
    if (!under_way->request) {
        figures_count(&figures->recovered[good || under_way->status == INVENTORY_UNKNOWN_BASKET]);
    } else if (under_way->make) {
        int outcome = figures_outcome(under_way->status, under_way->locked);
        figures_count(basket ? &figures->baskets[outcome] : &figures->transfers[outcome]);
        figures_time(good ? &figures->deals_made : &figures->deals_rejected,
                     (int64_t)uv_hrtime() - http_request_since_ns(under_way->request));
    }
}

/* There is room for the next one. */
static void note_recovered(const struct under_way *under_way) {
    struct back *back = &under_way->service->back;
    back->recovering--;
    if (back->more && back->inventory && !atomic_load(&under_way->service->draining))
        deals_recover(back);
}

static void end(struct under_way *under_way, const struct inventory_item *terms) {
    count(under_way);
    if (!under_way->request)
        note_recovered(under_way);
    else if (under_way->status == INVENTORY_OK || under_way->status == INVENTORY_REPLAYED)
        answer_done(under_way);
    else
        answer_refusal(under_way, terms);
    free(under_way);
}

static void on_terms(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    end(ctx, status == INVENTORY_OK ? item : NULL);
}

/* On the worker, or the back office: the end of it. Who refuses a basket does not tell the terms of the item,
 * as with a purchase. */
static void finish(struct under_way *under_way, enum inventory_status status) {
    const struct inventory_deal *deal = &under_way->deal;
    struct inventory *inventory = under_way->worker ? under_way->worker->inventory : NULL;
    under_way->status = status;
    if (inventory && routes_is_of_terms(status))
        inventory_item_get(inventory, deal->lines[deal->failed].item, on_terms, under_way);
    else
        end(under_way, NULL);
}

/* ---- under the locks ---- */

static void finish_there(struct mailbox_post *post) {
    struct under_way *under_way = CONTAINER(post, post);
    sem_destroy(&under_way->done);
    finish(under_way, under_way->status);
}

static void on_done_locked(struct inventory_deal *deal, enum inventory_status status) {
    struct under_way *under_way = CONTAINER(deal, deal);
    under_way->status = status;
    sem_post(&under_way->done);
}

static void do_in_back(struct mailbox_post *post) {
    struct under_way *under_way = CONTAINER(post, post);
    struct inventory *inventory = under_way->service->back.inventory;
    struct inventory_deal *deal = &under_way->deal;
    deal->done = on_done_locked;
    if (!inventory)
        on_done_locked(deal, INVENTORY_UNAVAILABLE);
    else if (is_basket(under_way, CONFIG_BASKET_NAIVE))
        inventory_deal_make_naive(inventory, deal);
    else
        inventory_deal_make(inventory, deal);
}

/* Has it done with the tokens of these grants, and waits. */
static void do_with(struct under_way *under_way, const struct domain_use *use,
                    const struct lock_grant grants[]) {
    struct inventory_deal *deal = &under_way->deal;
    deal->locked = true;
    deal->lease_ms = under_way->service->config.lock_ttl_ms;
    for (int i = 0; i < deal->count; i++) {
        int64_t left_ms = lock_remaining_ns(use->lock, &grants[i]) / 1000000;
        deal->lines[i].token = (struct inventory_token){.epoch = use->epoch, .fence = grants[i].fence};
        if (left_ms < deal->lease_ms)
            deal->lease_ms = left_ms;
    }
    under_way->post.run = do_in_back;
    mailbox_put(&under_way->service->back.mailbox, &under_way->post);
    while (sem_wait(&under_way->done) != 0)
        continue;
}

static void at_step(const char *step) {
    if (service_at_step)
        service_at_step(NULL, step);
}

static enum lock_status lock_and_do(struct under_way *under_way) {
    struct service *service = under_way->service;
    const struct inventory_deal *deal = &under_way->deal;
    size_t count = (size_t)deal->count;
    char names[INVENTORY_LINES_MAX][ROUTES_LOCK_KEY_SIZE];
    const char *keys[INVENTORY_LINES_MAX];
    struct lock_grant grants[INVENTORY_LINES_MAX];
    struct domain_use use;
    for (size_t i = 0; i < count; i++) {
        routes_lock_key(names[i], deal->lines[i].item);
        keys[i] = names[i];
    }
    int64_t deadline_ns = under_way->job.since_ns + (int64_t)service->config.lock_ttl_ms * 1000000;
    at_step("before locks");
    enum lock_status status = domain_acquire(service->domain, keys, count, deadline_ns, &use, grants);
    if (status != LOCK_OK)
        return status;
    at_step("after locks");
    do_with(under_way, &use, grants);
    at_step("before unlock");
    domain_release(service->domain, &use, grants, count);
    at_step("after unlock");
    return LOCK_OK;
}

static void run(struct pool_job *job) {
    struct under_way *under_way = CONTAINER(job, job);
    under_way->status = INVENTORY_OVERLOADED;
    under_way->locked = lock_and_do(under_way);
    under_way->post.run = finish_there;
    mailbox_put(&under_way->worker->mailbox, &under_way->post);
}

static void submit(struct under_way *under_way) {
    under_way->job.run = run;
    sem_init(&under_way->done, 0, 0);
    if (pool_submit(under_way->service->pool, &under_way->job))
        return;
    sem_destroy(&under_way->done);
    finish(under_way, INVENTORY_OVERLOADED);
}

/* ---- the calls ---- */

static struct under_way *under_way_new(struct worker *worker, struct http_request *request) {
    struct under_way *under_way = calloc(1, sizeof *under_way);
    if (!under_way) {
        routes_answer_status(request, INVENTORY_OVERLOADED);
        return NULL;
    }
    under_way->service = worker->service;
    under_way->worker = worker;
    under_way->request = request;
    return under_way;
}

/* What others began in steps is finished, and then made, under its locks. */
static void on_tried(struct inventory_deal *deal, enum inventory_status status) {
    struct under_way *under_way = CONTAINER(deal, deal);
    if (status == INVENTORY_WANTS_LOCK || status == INVENTORY_PENDING)
        submit(under_way);
    else
        finish(under_way, status);
}

static void make(struct under_way *under_way) {
    struct inventory *inventory = under_way->worker->inventory;
    struct inventory_deal *deal = &under_way->deal;
    under_way->make = true;
    deal->done = on_tried;
    if (is_basket(under_way, CONFIG_BASKET_SCRIPT))
        inventory_deal_make_at_once(inventory, deal);
    else if (is_basket(under_way, CONFIG_BASKET_NAIVE))
        submit(under_way); /* the journal does not know it */
    else
        inventory_deal_check(inventory, deal);
}

static void post(struct worker *worker, struct http_request *request,
                 bool (*read)(const char *body, size_t length, struct inventory_deal *deal,
                              struct codec_error *error)) {
    struct codec_error error;
    char digest[INVENTORY_DIGEST_SIZE];
    size_t length;
    const char *body = http_request_body(request, &length);
    if (!routes_read_key(request, digest))
        return;
    struct under_way *under_way = under_way_new(worker, request);
    if (!under_way)
        return;
    if (!read(body, length, &under_way->deal, &error)) {
        problem_answer_field(request, error.field, error.detail);
        free(under_way);
        return;
    }
    memcpy(under_way->deal.id, digest, sizeof digest);
    make(under_way);
}

void baskets_post(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    post(worker, request, codec_read_basket);
}

void transfers_post(struct worker *worker, struct http_request *request, const char *name) {
    (void)name;
    post(worker, request, codec_read_transfer);
}

static void on_looked_up(struct inventory_deal *deal, enum inventory_status status) {
    struct under_way *under_way = CONTAINER(deal, deal);
    if (status == INVENTORY_PENDING)
        status = deal->state == INVENTORY_STATE_UNDONE ? INVENTORY_UNKNOWN_BASKET : INVENTORY_OK;
    finish(under_way, status);
}

static void on_settled(struct inventory_deal *deal, enum inventory_status status) {
    finish(CONTAINER(deal, deal), status);
}

static void settle(struct inventory_deal *deal, enum inventory_status found, enum inventory_step step) {
    struct under_way *under_way = CONTAINER(deal, deal);
    deal->done = on_settled;
    if (found == INVENTORY_OK || found == INVENTORY_PENDING)
        inventory_deal_settle(under_way->worker->inventory, deal, step);
    else
        finish(under_way, found);
}

static void on_found_to_confirm(struct inventory_deal *deal, enum inventory_status status) {
    settle(deal, status, INVENTORY_CONFIRM);
}

static void on_found_to_cancel(struct inventory_deal *deal, enum inventory_status status) {
    settle(deal, status, INVENTORY_CANCEL);
}

static void look_up(struct worker *worker, struct http_request *request, const char *name,
                    void (*then)(struct inventory_deal *deal, enum inventory_status status)) {
    struct codec_error error;
    size_t length;
    const char *body = http_request_body(request, &length);
    if (!inventory_digest_valid(name)) {
        routes_answer_status(request, INVENTORY_UNKNOWN_BASKET);
        return;
    }
    if (then != on_looked_up && !codec_read_nothing(body, length, &error)) {
        problem_answer_field(request, error.field, error.detail);
        return;
    }
    struct under_way *under_way = under_way_new(worker, request);
    if (!under_way)
        return;
    under_way->deal.kind = INVENTORY_BASKET;
    under_way->deal.arrived_ns = http_request_since_ns(request);
    memcpy(under_way->deal.id, name, sizeof under_way->deal.id);
    under_way->deal.done = then;
    inventory_deal_find(worker->inventory, &under_way->deal);
}

void baskets_get(struct worker *worker, struct http_request *request, const char *name) {
    look_up(worker, request, name, on_looked_up);
}

void baskets_confirm(struct worker *worker, struct http_request *request, const char *name) {
    look_up(worker, request, name, on_found_to_confirm);
}

void baskets_cancel(struct worker *worker, struct http_request *request, const char *name) {
    look_up(worker, request, name, on_found_to_cancel);
}

/* ---- what was left unfinished ---- */

static void on_claimed(void *ctx, enum inventory_status status, const struct inventory_deal *deals,
                       size_t found) {
    struct back *back = ctx;
    back->more = status == INVENTORY_OK && (int)found == back->claiming;
    for (size_t i = 0; status == INVENTORY_OK && i < found; i++) {
        struct under_way *under_way = calloc(1, sizeof *under_way);
        if (!under_way)
            break; /* they come again when the claim is over */
        under_way->service = back->service;
        under_way->deal = deals[i];
        under_way->deal.done = on_settled;
        back->recovering++;
        inventory_deal_settle(back->inventory, &under_way->deal, INVENTORY_LOOK);
    }
    back->claiming = 0; /* only now it is known how much room is left */
}

void deals_recover(struct back *back) {
    int room = DEALS_RECOVERING - back->recovering;
    if (back->claiming || room == 0 || !store_clock_is_known(&back->service->clock))
        return;
    back->claiming = room;
    inventory_deal_claim(back->inventory, room, CLAIM_MS, on_claimed, back);
}
