/* /v1/orders: read, pay, confirm, cancel, return. */
#include <stdlib.h>
#include <string.h>

#include "inventory/transactions.h"
#include "service/api/http_api.h"

static void order_answer(struct http_request *request, enum inventory_status status,
                         const struct inventory_order *order) {
    char body[CODEC_BODY_SIZE];
    if (status == INVENTORY_OK || status == INVENTORY_REPLAYED)
        idempotency_key_answer(request, 200, body, codec_write_order(body, order), NULL,
                               status == INVENTORY_REPLAYED);
    else
        problem_answer_order(request, status, order);
}

/* A line of a basket, which is settled with the basket. */
struct of_basket {
    struct inventory_transaction transaction;
    struct inventory_order order;
    struct http_request *request;
};

/* The orders of a basket that is not decided yet are unknown: no client was told of them. */
static void order_on_basket(struct inventory_transaction *transaction, enum inventory_status status) {
    struct of_basket *of_basket = (struct of_basket *)(void *)transaction;
    bool found = status == INVENTORY_OK || status == INVENTORY_PENDING;
    of_basket->order.state = transaction->state;
    if (status == INVENTORY_UNKNOWN_BASKET ||
        (found && (transaction->state == INVENTORY_STATE_ABORTED ||
                   !inventory_transaction_has_order(transaction, &of_basket->order))))
        status = INVENTORY_UNKNOWN_ORDER;
    else if (found)
        status = INVENTORY_OK;
    order_answer(of_basket->request, status, &of_basket->order);
    free(of_basket);
}

/* Asks the journal for the state of the basket. The record of the order may be older: a basket is decided in
 * the journal, and then written item by item. */
static void order_find_basket(struct http_request *request, const struct inventory_order *order) {
    struct of_basket *of_basket = calloc(1, sizeof *of_basket);
    if (!of_basket) {
        problem_answer_status(request, INVENTORY_OVERLOADED);
        return;
    }
    of_basket->transaction.kind = INVENTORY_BASKET;
    of_basket->transaction.done = order_on_basket;
    of_basket->order = *order;
    of_basket->request = request;
    memcpy(of_basket->transaction.id, order->basket, sizeof of_basket->transaction.id);
    inventory_transaction_find(request_thread(request)->inventory, &of_basket->transaction);
}

static void order_on_step(void *ctx, enum inventory_status status, const struct inventory_order *order) {
    if (status == INVENTORY_OK && order->pending)
        order_find_basket(ctx, order);
    else
        order_answer(ctx, status, order);
}

static void order_step(struct http_request *request, const char *name, const struct caller *caller,
                       struct inventory_order_call call) {
    call.owner = caller_owner(caller);
    call.arrived_ns = request->arrived_ns;
    inventory_order_step(request_thread(request)->inventory, name, &call, order_on_step, request);
}

void orders_get(struct http_request *request, const char *name, const struct caller *caller) {
    order_step(request, name, caller, (struct inventory_order_call){.step = INVENTORY_READ});
}

void orders_cancel(struct http_request *request, const char *name, const struct caller *caller) {
    if (codec_read_request(request, codec_read_nothing, NULL))
        order_step(request, name, caller, (struct inventory_order_call){.step = INVENTORY_CANCEL});
}

void orders_confirm(struct http_request *request, const char *name, const struct caller *caller) {
    struct codec_payment wanted;
    if (codec_read_request(request, codec_read_confirm, &wanted))
        order_step(request, name, caller,
                   (struct inventory_order_call){.step = INVENTORY_CONFIRM, .payment = wanted.payment});
}

void orders_pay(struct http_request *request, const char *name, const struct caller *caller) {
    struct codec_payment wanted;
    if (codec_read_request(request, codec_read_payment, &wanted))
        order_step(request, name, caller,
                   (struct inventory_order_call){.step = INVENTORY_PAY,
                                                 .payment = wanted.payment,
                                                 .pay_ms = wanted.seconds < 0 ? -1 : wanted.seconds * 1000});
}

void orders_return(struct http_request *request, const char *name, const struct caller *caller) {
    struct codec_return wanted;
    struct idempotency_key key;
    struct inventory_order_call call = {.step = INVENTORY_RETURN};
    if (!idempotency_key_read(request, &key) || !codec_read_request(request, codec_read_return, &wanted))
        return;
    inventory_key_digest(name, key.text, key.length, call.digest);
    call.quantity = wanted.quantity;
    call.restock = wanted.restock;
    order_step(request, name, caller, call);
}
