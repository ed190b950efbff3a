/* Baskets and transfers under test. */
#ifndef INVENTORY_TEST_TRANSACTIONS_H
#define INVENTORY_TEST_TRANSACTIONS_H

#include "inventory/test/fixture.h"
#include "inventory/transactions.h"

/* How baskets are made, and all transfers in steps; run_ways() runs `test` with each in turn, up to `last`.
 */
enum way { IN_STEPS, AT_ONCE, NAIVELY, WAYS };
extern enum way way;
void run_ways(const char *what, void (*test)(void), enum way last);

struct txn {
    struct inventory_transaction transaction;
    struct seller *seller;
    int answers;
    enum inventory_status status;
};

/* A basket of ann's with `lines`, "phone:1 lamp:2"; a transfer where the key begins with `t`. Its locks have
 * the seller's fence, or none if the seller has none. */
struct txn *txn_new(struct seller *seller, const char *key, const char *lines);
struct txn *txn_new_of(struct seller *seller, const char *user, const char *key, const char *lines);

enum txn_call { TXN_MAKE, TXN_CHECK, TXN_FIND, TXN_FINISH, TXN_CONFIRM, TXN_CANCEL };

/* Begins the call; the answer comes while the loop turns. */
void txn_begin(struct txn *txn, enum txn_call call);
enum inventory_status txn_wait(struct txn *txn);
enum inventory_status txn_do(struct txn *txn, enum txn_call call);
/* A new one, made. */
enum inventory_status txn_make(struct seller *seller, const char *key, const char *lines);

/* Claims what is due and finishes it, until nothing is; returns how many there were. */
int txns_recover(struct seller *seller);

/* Compares the journal with the items, again until all could be asked. */
struct inventory_reconciled txns_reconcile(struct seller *seller, bool mend);

/* The same once, whether or not all could be asked. */
enum inventory_status txns_reconcile_once(struct seller *seller, bool mend,
                                          struct inventory_reconciled *told);

/* What the journal has of the transaction. */
const char *txn_record(const struct redis_server *redis, const struct txn *txn);
/* Puts it there; `open`: it is due. */
void txn_set_record(const struct redis_server *redis, const struct txn *txn, const char *record, bool open);
/* Its phase in the journal, "none" if there is none. */
const char *txn_phase(const struct redis_server *redis, const struct txn *txn);

/* Phone and lamp, and held, whose orders are held for ten minutes; a hundred of each. */
void items_put_three(struct seller *seller);
/* The same transaction, asked for by another seller. */
struct txn *txn_same(struct seller *seller, const struct txn *of);
void txn_check_order(struct seller *seller, const struct txn *txn, int line, const char *state);
/* The server loses a line, whose units were counted as `held` or `sold`: they are available again. */
void txn_lose_line(const struct redis_server *redis, const struct txn *txn, int line, const char *counted);
/* The audit of all items; a second one at the same time is refused. */
struct inventory_audit_sum txns_audit_all(struct seller *seller);

#endif
