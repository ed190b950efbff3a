/* What a transaction does to its items, by line.lua: one call an item, all in flight at once.
 *
 * Each of the calls here ends with `then`. run->status is OK, or the reason for a refusal
 * (transaction->failed says which line), or UNKNOWN: a reply was lost. */
#ifndef INVENTORY_TRANSACTIONS_LINES_H
#define INVENTORY_TRANSACTIONS_LINES_H

#include "inventory/model/record.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"

/* Fills in the parts of a run, which has room for one part a line. */
void lines_make_parts(struct transaction_run *run);
/* The number of a line's part. */
int lines_part_of(const struct transaction_run *run, int line);
/* The digest under which the line's order is kept. */
void lines_digest(const struct inventory_transaction *transaction, int line,
                  char digest[INVENTORY_DIGEST_SIZE]);

/* Reads every item; run->hold_ms is the shortest hold. `fenced`: from then on older fencing tokens are
 * refused. The caller ends it with lines_count_down(run, true), so that it can add calls of its own to
 * run->pending. */
void lines_read(struct transaction_run *run, bool fenced, void (*then)(struct transaction_run *run));
/* The same without what the user has. Runs that ask for one item at the same time share a reply, so that a
 * crowd that is refused costs the store little. */
void lines_check(struct transaction_run *run, void (*then)(struct transaction_run *run));
/* Writes to every item. */
void lines_write(struct transaction_run *run, enum line_write write,
                 void (*then)(struct transaction_run *run));
/* Has `fn` send a call for each item. Each part is counted down once; what `fn` sends besides it adds to
 * run->pending. */
void lines_each_part(struct transaction_run *run, enum line_write write, const char *failpoint_name,
                     void (*fn)(struct transaction_part *part), void (*then)(struct transaction_run *run));
/* The line's order was written in this state: a failover that loses it is noticed. */
void lines_keep(struct transactions *transactions, const struct inventory_transaction *transaction, int line,
                enum line_write write);
/* What a write leaves in the store: the line's order; of a transfer the move of its units (WORD QUANTITY ID).
 */
void lines_print_order(char out[RECORD_SIZE], const struct inventory_transaction *transaction, int line,
                       enum line_write write);
void lines_print_move(char out[RECORD_SIZE], const struct inventory_transaction *transaction, int line,
                      enum line_write write);
/* One reply is there, or was lost: then it is not `good`. */
void lines_count_down(struct transaction_run *run, bool good);

#endif
