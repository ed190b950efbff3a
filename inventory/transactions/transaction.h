/* Transactions (baskets and transfers), phase by phase; see transaction.c. */
#ifndef INVENTORY_TRANSACTIONS_TRANSACTION_H
#define INVENTORY_TRANSACTIONS_TRANSACTION_H

#include "inventory/transactions.h"
#include "inventory/transactions/run.h"

/* As transactions.h says of the functions of these names. */
void transaction_make(struct transactions *transactions, struct inventory_transaction *transaction);
void transaction_check(struct transactions *transactions, struct inventory_transaction *transaction);
void transaction_settle(struct transactions *transactions, struct inventory_transaction *transaction,
                        enum inventory_step step);
void transaction_make_at_once(struct transactions *transactions, struct inventory_transaction *transaction);
void transaction_make_naive(struct transactions *transactions, struct inventory_transaction *transaction);

/* Begins a run: makes the transaction by `make`, or settles it if that is NULL. */
void transaction_begin(struct transactions *transactions, struct inventory_transaction *transaction,
                       void (*make)(struct transaction_run *run), enum inventory_step step);
/* A new nonce: what is written from now on is this run's. */
void transaction_begin_attempt(struct transaction_run *run);
/* Ends the run: transaction->phase is at rest, and says what to answer. */
void transaction_conclude(struct transaction_run *run);
void transaction_finish(struct transaction_run *run, enum inventory_status status);

/* The run goes on from what the journal says, or ends. */
void transaction_resume(struct transaction_run *run, const struct redis_value *value);
/* A reply was lost, or the store is not there: the run begins again from the journal when the store is. */
void transaction_lost(struct transaction_run *run);

/* Begins lost runs again if the store is there, and ends those that have waited for too long, or all. */
void transaction_tick(struct transactions *transactions, bool all);

#endif
