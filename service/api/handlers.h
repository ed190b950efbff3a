/* The routes, and their handlers: one file for each resource. */
#ifndef SERVICE_API_HANDLERS_H
#define SERVICE_API_HANDLERS_H

#include "service/http/http.h"

struct worker;

/* Answers a request, now or later; `ctx` is the worker. */
void routes_handle(void *ctx, struct http_request *request);

/* `name` is the segment of the path at the * of the route; "" if the route has none. Valid until the handler
 * returns. */
typedef void routes_fn(struct worker *worker, struct http_request *request, const char *name);

/* handle_purchases.c */
routes_fn purchases_post;
/* handle_items.c */
routes_fn items_put, items_get, items_restock, items_audit, items_audit_all;
/* handle_orders.c */
routes_fn orders_get, orders_confirm, orders_cancel;
/* handle_baskets.c */
routes_fn baskets_post, baskets_get, baskets_confirm, baskets_cancel, transfers_post;
/* handle_operations.c */
routes_fn operations_live, operations_ready, operations_metrics, operations_openapi;

/* handle_lock.c */
routes_fn locks_put, locks_get;

#endif
