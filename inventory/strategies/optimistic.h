/* Strategy `optimistic`: WATCH, MULTI, EXEC. */
#ifndef INVENTORY_STRATEGIES_OPTIMISTIC_H
#define INVENTORY_STRATEGIES_OPTIMISTIC_H

#include "inventory/context.h"

/* Ends purchases that have waited too long for a connection. */
void optimistic_tick(struct inventory *inventory);
/* Ends all, and closes the connections. */
void optimistic_close(struct inventory *inventory);

#endif
