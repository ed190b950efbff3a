/* Fetches the seller's books: each item's audit, and every acknowledged order. */
#ifndef LOADTEST_JUDGE_FETCH_BOOKS_H
#define LOADTEST_JUDGE_FETCH_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/progress.h"
#include "loadtest/request_plan.h"

/* The books of an item, as its audit says. */
struct books {
    bool conserved;
    long long stock, available, held, sold;
    long long orders; /* with or without those that were returned */
    long long oversold;
    bool exact; /* nothing changed while the audit counted */
    /* The audit adds up the orders. Beside this sum, some sellers also report what the item's own counters
     * say. */
    bool has_counters;
    long long counted; /* units held or sold, by the counters */
};

/* The books of `count` items as one: conserved only if each is. */
struct books books_sum(const struct books *books, uint32_t count);

enum fetch_status {
    FETCH_OK,
    FETCH_NO_CONNECTION,
    FETCH_UNAUTHORIZED,
    FETCH_NO_ITEM,
    FETCH_REFUSED, /* any other status than 200 */
    FETCH_NO_ANSWER,
    FETCH_UNREADABLE,
    FETCH_INEXACT, /* orders changed while the audit counted them */
};

/* Says what went wrong and what to do about it. */
const char *fetch_text(enum fetch_status status);

/* Fetches the books of each item, on all connections at once. An audit without an answer is requested again,
 * from all targets in turn, until no audit was read for `limit_ns`; an inexact one is requested again for so
 * long. `books` has room for all items. */
enum fetch_status fetch_books(struct connection_pool *pool, const struct options *options, uint64_t limit_ns,
                              struct progress *progress, struct books *books);

/* Fetches every acknowledged order (a transfer has none), and records in the request log what the seller says
 * of it. request_log_match() was called before. Ends when --settle has passed without an answer: the
 * remaining orders stay unchecked. */
void fetch_orders(struct connection_pool *pool, const struct plan *plan, struct request_log *log,
                  struct progress *progress);

#endif
