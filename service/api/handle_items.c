/* /v1/items: create, read, restock, audit; and /v1/audit. */
#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "service/api/http_api.h"

/* Checks the name in the path. If it is not valid, answers and returns false. */
static bool item_check_name(struct http_request *request, const char *name) {
    if (inventory_name_valid(name, strlen(name)))
        return true;
    problem_answer_field(request, "item", "must be 1 to 64 of A-Z a-z 0-9 . _ -");
    return false;
}

static void item_on_read(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    struct http_request *request = ctx;
    char body[CODEC_BODY_SIZE];
    if (status == INVENTORY_OK)
        http_answer(request, 200, "application/json", body, codec_write_item(body, item), NULL);
    else
        problem_answer_status(request, status);
}

void items_get(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    if (item_check_name(request, name))
        inventory_item_get(request_thread(request)->inventory, name, item_on_read, request);
}

/* ---- put ---- */

/* Lives in the request. A restock needs only the item's name. */
struct item_call {
    struct inventory_item item;
    struct http_request *request;
    int status; /* 201: it was put on sale; 200: it was on sale on the same terms; 409: on others */
};

_Static_assert(sizeof(struct item_call) <= HTTP_CONTEXT_SIZE, "an item must fit into its request");

/* Answers with the item as it is now, with restocks and sales if it existed before; or with the terms that
 * differ.
 */
static void item_on_put_read(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    struct item_call *put = ctx;
    char body[CODEC_BODY_SIZE], location[INVENTORY_NAME_MAX + 16];
    snprintf(location, sizeof location, "/v1/items/%s", put->item.item);
    if (status != INVENTORY_OK)
        problem_answer_status(put->request, put->status == 409 ? INVENTORY_EXISTS : status);
    else if (put->status == 409)
        problem_answer_exists(put->request, item, &put->item);
    else
        http_answer(put->request, put->status, "application/json", body, codec_write_item(body, item),
                    (const char *const[]){"Location", location, NULL});
}

static void item_on_put(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    (void)item;
    struct item_call *put = ctx;
    struct inventory *inventory = request_thread(put->request)->inventory;
    put->status = status == INVENTORY_OK ? 201 : status == INVENTORY_REPLAYED ? 200 : 409;
    if (inventory && (put->status != 409 || status == INVENTORY_EXISTS))
        inventory_item_get(inventory, put->item.item, item_on_put_read, put);
    else
        problem_answer_status(put->request, status);
}

void items_put(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    struct item_call *put = request->context;
    if (!item_check_name(request, name))
        return;
    memset(put, 0, sizeof *put);
    put->request = request;
    put->item.strategy = request_thread(request)->service->config.strategy;
    snprintf(put->item.item, sizeof put->item.item, "%s", name);
    if (codec_read_request(request, codec_read_item, &put->item))
        inventory_item_create(request_thread(request)->inventory, &put->item, item_on_put, put);
}

/* ---- restock ---- */

static void item_on_restock(void *ctx, enum inventory_status status, const struct inventory_restock *done) {
    struct item_call *restock = ctx;
    char body[CODEC_BODY_SIZE];
    if (status == INVENTORY_TOO_MANY) {
        snprintf(body, sizeof body, "the stock may be %d at most: %lld more fit", INVENTORY_STOCK_MAX,
                 (long long)done->room);
        problem_answer_field(restock->request, "quantity", body);
    } else if (status == INVENTORY_OK || status == INVENTORY_REPLAYED) {
        size_t length = codec_write_restock(body, restock->item.item, done);
        idempotency_key_answer(restock->request, 200, body, length, NULL, status == INVENTORY_REPLAYED);
    } else {
        problem_answer_status(restock->request, status);
    }
}

void items_restock(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    struct item_call *restock = request->context;
    struct idempotency_key key;
    char digest[INVENTORY_DIGEST_SIZE];
    int64_t quantity;
    if (!item_check_name(request, name) || !idempotency_key_read(request, &key) ||
        !codec_read_request(request, codec_read_restock, &quantity))
        return;
    restock->request = request;
    snprintf(restock->item.item, sizeof restock->item.item, "%s", name);
    inventory_key_digest("", key.text, key.length, digest);
    inventory_item_restock(request_thread(request)->inventory, name, digest, quantity, item_on_restock,
                           restock);
}

/* ---- audits: the background thread reads them, off the purchase path ---- */

struct audit {
    struct http_request *request;
    struct loop_post post;
    enum inventory_status status;
    bool of_all;
    union {
        struct inventory_audit item;
        struct inventory_audit_sum sum;
    } told;
    char item[INVENTORY_NAME_MAX + 1];
};

_Static_assert(sizeof(struct audit) <= HTTP_CONTEXT_SIZE, "an audit must fit into its request");

static void audit_answer(struct loop_post *post) {
    struct audit *audit = CONTAINER_OF(post, struct audit, post);
    char body[CODEC_BODY_SIZE];
    if (audit->status != INVENTORY_OK) {
        problem_answer_status(audit->request, audit->status);
        return;
    }
    size_t length = audit->of_all ? codec_write_audit_sum(body, &audit->told.sum)
                                  : codec_write_audit(body, &audit->told.item);
    http_answer(audit->request, 200, "application/json", body, length, NULL);
}

static void audit_answer_on_worker(struct audit *audit, enum inventory_status status, const void *told,
                                   size_t size) {
    audit->status = status;
    if (told)
        memcpy(&audit->told, told, size);
    loop_thread_post(request_thread(audit->request), &audit->post, audit_answer);
}

static void audit_on_item(void *ctx, enum inventory_status status, const struct inventory_audit *told) {
    audit_answer_on_worker(ctx, status, told, sizeof *told);
}

static void audit_on_all(void *ctx, enum inventory_status status, const struct inventory_audit_sum *sum) {
    audit_answer_on_worker(ctx, status, sum, sizeof *sum);
}

static void audit_begin(struct loop_post *post) {
    struct audit *audit = CONTAINER_OF(post, struct audit, post);
    struct inventory *inventory = request_thread(audit->request)->service->background.thread.inventory;
    if (!inventory)
        audit_answer_on_worker(audit, INVENTORY_UNAVAILABLE, NULL, 0);
    else if (audit->of_all)
        inventory_audit_all(inventory, audit_on_all, audit);
    else
        inventory_item_audit(inventory, audit->item, audit_on_item, audit);
}

static void audit_submit(struct http_request *request, bool of_all, const char *item) {
    struct audit *audit = request->context;
    audit->request = request;
    audit->of_all = of_all;
    snprintf(audit->item, sizeof audit->item, "%s", item);
    loop_thread_post(&request_thread(request)->service->background.thread, &audit->post, audit_begin);
}

void items_audit(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    if (item_check_name(request, name))
        audit_submit(request, false, name);
}

void items_audit_all(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    audit_submit(request, true, name);
}
