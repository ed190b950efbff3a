/* What a reply of the store means, and what an inventory asks the store about itself. */
#ifndef INVENTORY_STORE_STATUS_H
#define INVENTORY_STORE_STATUS_H

#include "inventory/store/shared.h"

/* UNKNOWN: the reply was lost (`value` is NULL). UNAVAILABLE: the store refused; the error's text is kept.
 * OK: anything else. */
enum inventory_status store_status(struct shared *shared, const struct redis_value *value);

/* The last reason why the store could not be used; "" if there was none. */
const char *store_last_error(const struct shared *shared);

/* Asks one of the store's masters that is there for its time. */
void store_time_read(struct shared *shared, inventory_time_fn *fn, void *ctx);

/* Asks the store what it can promise (health.c). */
void health_read(struct shared *shared, inventory_health_fn *fn, void *ctx);

/* The reply to TIME in ms; 0 if it is something else. */
int64_t store_time_ms(const struct redis_value *value);

#endif
