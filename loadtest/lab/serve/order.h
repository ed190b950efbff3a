/* Orders as JSON: what a run is to play, and what is to be broken in it. Strict: a member that is unknown,
 * missing or out of range is an error. */
#ifndef LOADTEST_LAB_SERVE_ORDER_H
#define LOADTEST_LAB_SERVE_ORDER_H

#include <jansson.h>

#include "loadtest/lab/serve/desk.h"

enum { ORDER_ERROR_SIZE = 200 };

/* `seed`: if the order has none. False: `error` says what is wrong. */
bool order_read(json_t *json, int64_t seed, struct desk_order *order, char error[ORDER_ERROR_SIZE]);
bool order_read_break(json_t *json, struct desk_break *what, char error[ORDER_ERROR_SIZE]);

/* The order as it was read, with its seed; a new reference. */
json_t *order_write(const struct desk_order *order);
/* "scenario", … */
const char *order_kind_name(enum desk_kind kind);
/* What is played, as the page calls it: "maotai", "redis", "" for a sale. */
const char *order_name(const struct desk_order *order);

#endif
