/* A seller for tests, in threads of the test: stock in memory, one item named demo (or several), admin token
 * test-token. It is right except for the faults that it is started with. */
#ifndef LOADTEST_TEST_SELLER_H
#define LOADTEST_TEST_SELLER_H

enum seller_fault {
    SELLER_OVERSELLS = 1 << 0,     /* sells 5 units more than there are */
    SELLER_LIES = 1 << 1,          /* its audit hides the faults */
    SELLER_LOSES = 1 << 2,         /* every tenth order is acknowledged, but not written */
    SELLER_ALTERS = 1 << 3,        /* every tenth order is written for another user */
    SELLER_SELLS_TWICE = 1 << 4,   /* sells again for a repeated key */
    SELLER_PHANTOM = 1 << 5,       /* writes every tenth order twice, the second without an acknowledgement */
    SELLER_UNDERSELLS = 1 << 6,    /* answers sold-out with 5 units left */
    SELLER_UNBALANCED = 1 << 7,    /* its audit says that it is not conserved */
    SELLER_DROPS_REPLIES = 1 << 8, /* carries out every third request, then closes instead of answering */
    SELLER_SAYS_503 = 1 << 9,      /* carries out every third request, then answers 503 */
    SELLER_GARBLES = 1 << 10,      /* carries out every third request, then answers garbage */
    SELLER_SILENT = 1 << 11,       /* never answers every third request */
    SELLER_AWKWARD = 1 << 12, /* answers in chunks, in pieces, after a 100, without a length, and closes */
    SELLER_AUDITS_ONCE = 1 << 13, /* the second audit is refused with a 503 */
    SELLER_INEXACT =
        1 << 14, /* the second and third audits are inexact; with AUDITS_ONCE all but the first */
    SELLER_CANCELS = 1 << 15, /* every tenth order is acknowledged as confirmed, but cancelled in the books */
    SELLER_RETELLS = 1 << 16, /* the answer to a repeated key has one more member than the first */
    SELLER_DRAINS = 1 << 17,  /* every tenth transfer arrives nowhere */
};
/* DROPS_REPLIES, SAYS_503 and GARBLES spare the third attempt of a key. */

struct seller;

/* Ends when the test ends. */
struct seller *seller_start(unsigned faults, int stock);
/* Sells two or more items, demo-0 to demo-(items-1), each with this stock. The faults apply to item `faulty`,
 * or to all if that is `items`; AWKWARD, and all faults in baskets and transfers, always apply to all. */
struct seller *seller_start_many(int items, int faulty, unsigned faults, int stock);
int seller_port(const struct seller *seller);
/* From now on its thread calls this before it answers a request. */
void seller_before_answer(struct seller *seller, void (*call)(void));
/* The number of requests to buy or transfer that it received, and of its orders. */
int seller_requests(struct seller *seller);
int seller_orders(struct seller *seller);

#endif
