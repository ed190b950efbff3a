/* Fetches the seller's books: each item's audit, and every acknowledged order. */
#ifndef LOADTEST_JUDGE_FETCH_H
#define LOADTEST_JUDGE_FETCH_H

#include <stdint.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/judge/books.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/options.h"
#include "loadtest/plan/demand.h"
#include "loadtest/progress.h"

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

/* What went wrong and what to do about it. */
const char *fetch_text(enum fetch_status status);

/* Fetches the books of each item, on all connections at once. An audit without an answer is requested again,
 * from all targets in turn, until no audit was read for `limit_ns`; an inexact one is requested again for so
 * long. `books` has room for all items. */
enum fetch_status fetch_books(struct connection_pool *pool, const struct options *options, uint64_t limit_ns,
                              struct progress *progress, struct books *books);

/* Fetches every acknowledged order (a transfer has none) and records in the request log, which was matched
 * before, what the seller says of it. Ends after --settle without an answer; the other orders stay unchecked.
 */
void fetch_orders(struct connection_pool *pool, const struct demand *demand, struct request_log *log,
                  struct progress *progress);

#endif
