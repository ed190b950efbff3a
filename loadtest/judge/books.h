/* Asks the seller for its books: each item's audit, and every order that was acknowledged. */
#ifndef LOADTEST_JUDGE_BOOKS_H
#define LOADTEST_JUDGE_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "loadtest/http/client_pool.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/judge/verdict.h"
#include "loadtest/options.h"
#include "loadtest/plan/demand.h"
#include "loadtest/report/progress.h"

enum audit_status {
    AUDIT_OK,
    AUDIT_NO_CONNECTION,
    AUDIT_UNAUTHORIZED,
    AUDIT_NO_ITEM,
    AUDIT_REFUSED, /* any other answer than 200 */
    AUDIT_NO_ANSWER,
    AUDIT_UNREADABLE,
    AUDIT_INEXACT, /* orders changed while they were counted */
};

/* What went wrong and what to do about it, as half a sentence. */
const char *audit_text(enum audit_status status);

/* Reads the books of each item, on all connections at once. One that is not answered is tried again, on all
 * targets in turn, until nothing was read for `patience_ns`; and so is one that is not exact, for so long.
 * `books` has room for all items. */
enum audit_status audit_fetch(struct pool *pool, const struct options *options,
                              const struct client_target *targets, uint64_t patience_ns,
                              struct progress *progress, struct books *books);

/* Asks for every acknowledged order (a transfer is none) and writes what it is told into the ledger, which
 * was matched before. Gives up when no order was answered for 30 s; the others then stay unchecked. */
void audit_check_orders(struct pool *pool, const struct demand *demand, const struct client_target *targets,
                        struct ledger *ledger, struct progress *progress);

#endif
