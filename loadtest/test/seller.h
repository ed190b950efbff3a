/* A seller for tests, in threads of the test itself: stock in memory, one item named demo (or several),
 * admin token test-token. It is honest but for the faults it is started with. */
#ifndef LOADTEST_TEST_SELLER_H
#define LOADTEST_TEST_SELLER_H

enum seller_fault {
    SELLER_OVERSELLS = 1 << 0,     /* sells 5 units more than there are */
    SELLER_LIES = 1 << 1,          /* its audit says what it would like to be true */
    SELLER_LOSES = 1 << 2,         /* every tenth order is acknowledged, but not written */
    SELLER_ALTERS = 1 << 3,        /* every tenth order is written for another user */
    SELLER_SELLS_TWICE = 1 << 4,   /* takes a repeated key for a new purchase */
    SELLER_FORGETS = 1 << 5,       /* tells the repeated key of a winner that it is sold out */
    SELLER_PHANTOM = 1 << 6,       /* writes every tenth order twice, the second for nobody */
    SELLER_UNDERSELLS = 1 << 7,    /* is sold out with 5 units left */
    SELLER_UNBALANCED = 1 << 8,    /* its audit says that it is not conserved */
    SELLER_DROPS_REPLIES = 1 << 9, /* carries out every third purchase, then closes instead of answering */
    SELLER_SAYS_503 = 1 << 10,     /* carries out every third purchase, then says 503 */
    SELLER_GARBLES = 1 << 11,      /* carries out every third purchase, then answers no HTTP */
    SELLER_SILENT = 1 << 12,       /* never answers every third purchase */
    SELLER_AWKWARD = 1 << 13, /* answers in chunks, in pieces, after a 100, without a length, and closes */
    SELLER_AUDITS_ONCE = 1 << 14, /* the second audit is refused with a 503 */
};
/* DROPS_REPLIES, SAYS_503 and GARBLES spare the third try of a key. */

struct seller;

/* Ends when the test ends. */
struct seller *seller_start(unsigned faults, int stock);
/* With the items demo-0 to demo-(items-1), each of that stock; the faults meet only item `faulty` (AWKWARD:
 * all). */
struct seller *seller_start_many(int items, int faulty, unsigned faults, int stock);
int seller_port(const struct seller *seller);
/* How many purchases it heard of, and how many orders it has. */
int seller_requests(struct seller *seller);
int seller_orders(struct seller *seller);

#endif
