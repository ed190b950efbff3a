/* The books of an item as Redis has them, read without the service and without the load generator. */
#ifndef LOADTEST_TEST_TORTURE_BOOKS_H
#define LOADTEST_TEST_TORTURE_BOOKS_H

#include <stdbool.h>

#include "test/harness.h"

struct torture_books {
    /* The counters of the item. */
    long long initial, restocked, available, held, sold;
    /* Counted from the orders: all of them, and the units of those that are held or confirmed. */
    long long orders, held_units, confirmed_units;
    /* By the ledger: the most units that were held or confirmed at once. */
    long long most_units;
    /* Entries that disagree with the orders. */
    long long unreadable;  /* records that are no orders */
    long long over_limit;  /* users whose orders are for more units than the item allows */
    long long wrong_users; /* users' counters */
    long long wrong_holds; /* entries of the expiry list */
    long long wrong_steps; /* entries of the ledger, and orders without theirs: each order is born once, and
                              settled at most once if it was held */
};

/* Reads all at one moment. */
struct torture_books torture_books_read(const struct redis_server *redis, const char *item);

/* Checks what must hold after any fault: no more units in orders than in stock, nor than a user may have.
 * With `whole` (an order and its units are written in one step) also: every unit is in exactly one place, and
 * everything agrees with the orders. */
void torture_books_check(const struct torture_books *books, bool whole);

#endif
