/* seller.py, a seller for tests: stock in memory, one item named demo (or several), admin token test-token.
 */
#ifndef LOADTEST_TEST_SELLER_H
#define LOADTEST_TEST_SELLER_H

#include "test/harness.h"

struct seller {
    struct proc proc;
    int port;
};

/* Starts it with these faults, which seller.py explains: "oversells lies". It ends when the test ends. */
struct seller *seller_start(const char *faults, int stock);
/* Sells two or more items, demo-0 to demo-(items-1), each with this stock. The faults apply to item `faulty`,
 * or to all if that is `items`. */
struct seller *seller_start_many(int items, int faulty, const char *faults, int stock);
/* The number of requests to buy or transfer that it received, and of its orders. */
int seller_requests(const struct seller *seller);
int seller_orders(const struct seller *seller);

#endif
