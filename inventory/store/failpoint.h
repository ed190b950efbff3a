/* Failpoints: named places at which a test stops or ends the process. */
#ifndef INVENTORY_STORE_FAILPOINT_H
#define INVENTORY_STORE_FAILPOINT_H

#include "inventory/store/shared.h"

void failpoint(const struct shared *shared, const char *name);
/* The failpoint "WHEN NAME N", or "WHEN NAME" if `n` is negative. What was queued before is written first, so
 * that a process that dies here has sent exactly that. */
void failpoint_write(struct shared *shared, const char *when, const char *name, int n);

#endif
