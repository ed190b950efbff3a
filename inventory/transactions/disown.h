/* What was made here, and again by another process. */
#ifndef INVENTORY_TRANSACTIONS_DISOWN_H
#define INVENTORY_TRANSACTIONS_DISOWN_H

struct transactions;

/* Undoes a few of the transactions of which putback.c found that the journal has another attempt. */
void disown_tick(struct transactions *transactions);

#endif
