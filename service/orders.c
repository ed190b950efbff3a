/* /v1/orders: look, confirm, cancel. */
#include "service/codec.h"
#include "service/problem.h"
#include "service/routes.h"
#include "service/worker.h"

static void on_order(void *ctx, enum inventory_status status, const struct inventory_order *order) {
    struct http_request *request = ctx;
    char body[CODEC_BODY_SIZE];
    if (status == INVENTORY_OK)
        http_answer(request, 200, "application/json", body, codec_write_order(body, order), NULL);
    else
        routes_answer_status(request, status);
}

void orders_get(struct worker *worker, struct http_request *request, const char *name) {
    inventory_order_step(worker->inventory, name, INVENTORY_LOOK, on_order, request);
}

static void settle(struct worker *worker, struct http_request *request, const char *name,
                   enum inventory_step step) {
    struct codec_error error;
    size_t length;
    const char *body = http_request_body(request, &length);
    if (codec_read_nothing(body, length, &error))
        inventory_order_step(worker->inventory, name, step, on_order, request);
    else
        problem_answer_field(request, error.field, error.detail);
}

void orders_confirm(struct worker *worker, struct http_request *request, const char *name) {
    settle(worker, request, name, INVENTORY_CONFIRM);
}

void orders_cancel(struct worker *worker, struct http_request *request, const char *name) {
    settle(worker, request, name, INVENTORY_CANCEL);
}
