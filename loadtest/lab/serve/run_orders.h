/* Run orders as JSON: the catalogue of what the lab can play, which the page shows, and the orders and faults
 * that the page sends. Reading is strict: a member that is unknown, missing or out of range is an error. */
#ifndef LOADTEST_LAB_SERVE_RUN_ORDERS_H
#define LOADTEST_LAB_SERVE_RUN_ORDERS_H

#include <jansson.h>

#include "loadtest/lab/serve/run_control.h"

enum { RUN_ORDER_ERROR_SIZE = 200 };

/* "scenarios", "ways", "locks" and "limits" (of a sale). A new reference. */
json_t *run_orders_catalogue(void);

/* `seed` is taken if the order has none. Returns false, and what is wrong in `error`. */
bool run_order_read(json_t *json, int64_t seed, struct run_order *order, char error[RUN_ORDER_ERROR_SIZE]);
bool run_order_read_injection(json_t *json, struct run_injection *what, char error[RUN_ORDER_ERROR_SIZE]);

/* The order as it was read, with its seed; a new reference. */
json_t *run_order_write(const struct run_order *order);
/* "scenario", … */
const char *run_order_kind_name(enum run_kind kind);
/* The name that the page uses: "maotai", "redis", "" for a sale. */
const char *run_order_name(const struct run_order *order);

#endif
