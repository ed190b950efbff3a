/* Baskets and transfers under test. */
#ifndef INVENTORY_TEST_DEALS_H
#define INVENTORY_TEST_DEALS_H

#include "inventory/test/fixture.h"
#include "inventory/transactions.h"

/* How baskets are made, and all transfers in steps; run_ways() runs `test` with each in turn, up to `last`.
 */
enum way { IN_STEPS, AT_ONCE, NAIVELY, WAYS };
extern enum way way;
void run_ways(const char *what, void (*test)(void), enum way last);

struct bargain {
    struct inventory_transaction transaction;
    struct till *till;
    int answers;
    enum inventory_status status;
};

/* A basket of ann's with `lines`, "phone:1 lamp:2"; a transfer where the key begins with `t`. Its locks have
 * the till's fence, or none if the till has none. */
struct bargain *bargain_new(struct till *till, const char *key, const char *lines);

enum bargain_call {
    BARGAIN_MAKE,
    BARGAIN_CHECK,
    BARGAIN_FIND,
    BARGAIN_FINISH,
    BARGAIN_CONFIRM,
    BARGAIN_CANCEL
};

/* Begins the call; the answer comes while the loop turns. */
void bargain_begin(struct bargain *bargain, enum bargain_call call);
enum inventory_status bargain_wait(struct bargain *bargain);
enum inventory_status bargain_do(struct bargain *bargain, enum bargain_call call);
/* A new one, made. */
enum inventory_status bargain_make(struct till *till, const char *key, const char *lines);

/* Claims what is due and finishes it, until nothing is; returns how many there were. */
int bargains_recover(struct till *till);

/* What the journal has of the transaction: its phase, "none" if there is none. */
const char *bargain_phase(const struct redis_server *redis, const struct bargain *bargain);

#endif
