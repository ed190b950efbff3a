/* What a reply of the store means. */
#ifndef INVENTORY_STORE_STATUS_H
#define INVENTORY_STORE_STATUS_H

#include "inventory/context.h"

/* UNKNOWN: the reply was lost (`value` is NULL). UNAVAILABLE: the store refused; the error's text is kept.
 * OK: anything else. */
enum inventory_status store_status(struct inventory *inventory, const struct redis_value *value);

/* The reply to TIME in ms; 0 if it is something else. */
int64_t store_time_ms(const struct redis_value *value);

#endif
