/* The journal of transactions: what was decided. It is spread over a few slots of the store, by a
 * transaction's id, so that no server of a cluster has all of it.
 *
 * A transaction goes on by one move of its record at a time (journal.lua), which compares phase and nonce: of
 * two that decide about it one is first. A record is PHASE NONCE CREATED_MS EXPIRES_MS USER ITEM:QUANTITY,...
 */
#ifndef INVENTORY_TRANSACTIONS_JOURNAL_H
#define INVENTORY_TRANSACTIONS_JOURNAL_H

#include "inventory/model/keys.h"
#include "inventory/model/phases.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"

enum { JOURNAL_FIELD_SIZE = INVENTORY_DIGEST_SIZE + 2, JOURNAL_RECORD_SIZE = 2560 };

/* The transaction's field in the journal: its kind and id. */
void journal_field(char out[JOURNAL_FIELD_SIZE], const struct inventory_transaction *transaction);
/* ITEM:QUANTITY,... */
void journal_print_lines(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction);
void journal_print(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction);
/* Reads a record. Kind, id and what belongs to the caller are not in it and stay as they are. False: it is
 * not a record, and `transaction` is untouched. */
bool journal_read(struct inventory_transaction *transaction, const char *record);

/* Reads a field and its record into `transaction`, which is made anew. False: they are none that this version
 * knows, and what is in `transaction` means nothing. */
bool journal_read_entry(struct inventory_transaction *transaction, const char *field, const char *record);

/* Whether both ask for the same. */
bool journal_is_same(const struct inventory_transaction *a, const struct inventory_transaction *b);

/* inventory_transaction_find() and inventory_transaction_claim(). */
void journal_find(struct transactions *transactions, struct inventory_transaction *transaction);
void journal_claim(struct transactions *transactions, int most, int64_t claim_ms, inventory_claim_fn *fn,
                   void *ctx);

/* Asks for the record. */
void journal_ask(struct transactions *transactions, const struct inventory_transaction *transaction,
                 redis_reply_fn *fn, void *ctx);
/* Replaces what the journal has by the transaction in phase `to`; PHASE_NONE removes it. Others may finish it
 * from `due_ms` on; 0: there is nothing to finish. The reply: 1, or the record that stands there instead, or
 * -1: the lock epoch is newer than the transaction's. */
void journal_move(struct transactions *transactions, const struct inventory_transaction *transaction,
                  enum phase to, int64_t due_ms, redis_reply_fn *fn, void *ctx);

/* The journal has the transaction in this phase: a failover that loses it is noticed. */
void journal_keep(struct transactions *transactions, const struct inventory_transaction *transaction,
                  enum phase phase, int64_t due_ms);

/* The same of what was read in the journal, in the callback of the reply: it is told to somebody, and its
 * maker may be gone. What is not decided is its maker's. */
void journal_keep_found(struct transactions *transactions, const struct inventory_transaction *transaction);

/* Has a part refuse grants of older lock epochs from now on. */
void journal_raise_epoch(struct transactions *transactions, unsigned part, uint64_t epoch, redis_reply_fn *fn,
                         void *ctx);

#endif
