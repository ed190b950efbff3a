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
    SELLER_FORGETS = 1 << 5,       /* answers sold-out to the repeated key of a winner */
    SELLER_PHANTOM = 1 << 6,       /* writes every tenth order twice, the second without an acknowledgement */
    SELLER_UNDERSELLS = 1 << 7,    /* answers sold-out with 5 units left */
    SELLER_UNBALANCED = 1 << 8,    /* its audit says that it is not conserved */
    SELLER_DROPS_REPLIES = 1 << 9, /* carries out every third purchase, then closes instead of answering */
    SELLER_SAYS_503 = 1 << 10,     /* carries out every third purchase, then answers 503 */
    SELLER_GARBLES = 1 << 11,      /* carries out every third purchase, then answers garbage */
    SELLER_SILENT = 1 << 12,       /* never answers every third purchase */
    SELLER_AWKWARD = 1 << 13, /* answers in chunks, in pieces, after a 100, without a length, and closes */
    SELLER_AUDITS_ONCE = 1 << 14, /* the second audit is refused with a 503 */
    SELLER_CANCELS = 1 << 15, /* every tenth order is acknowledged as confirmed, but cancelled in the books */

    /* Faults of baskets, in every tenth basket that is sold, except RETELLS and KEEPS_LINE. The faults above
       apply to each line. */
    SELLER_RETELLS = 1 << 16,      /* the answer to a repeated key has one more member than the first */
    SELLER_KEEPS_LINE = 1 << 17,   /* one line of every tenth rejected basket stays sold */
    SELLER_DOUBLES_LINE = 1 << 18, /* the order of one line is written twice */
    SELLER_MIXES_UP = 1 << 19,     /* the answer has the orders in another sequence than the lines */
    SELLER_MISCOUNTS = 1 << 20,    /* the answer has one unit more for an order; a transfer likewise */
    SELLER_MISNAMES =
        1 << 21,            /* the answer names another user; of a transfer, the source as its destination */
    SELLER_OMITS = 1 << 22, /* the answer lacks the last order */
    SELLER_REPEATS = 1 << 23,    /* the answer has the last order twice */
    SELLER_SAME_ORDER = 1 << 24, /* the answer has the first order for all lines */

    /* Every tenth transfer: */
    SELLER_DRAINS = 1 << 25,        /* arrives nowhere */
    SELLER_MOVES_TWICE = 1 << 26,   /* is carried out twice */
    SELLER_MOVES_ASTRAY = 1 << 27,  /* arrives at a third item */
    SELLER_MOVES_NOTHING = 1 << 28, /* is acknowledged, but not carried out */
    SELLER_MOVES_REFUSED = 1 << 29, /* is carried out, but rejected */

    SELLER_INEXACT =
        1 << 30, /* the second and third audits are inexact; with AUDITS_ONCE all but the first */
};
/* SELLS_TWICE, FORGETS and RETELLS apply to all baskets and transfers. DROPS_REPLIES, SAYS_503 and GARBLES
 * spare the third attempt of a key. */

struct seller;

/* Ends when the test ends. */
struct seller *seller_start(unsigned faults, int stock);
/* Sells the items demo-0 to demo-(items-1), each with this stock. The faults apply to item `faulty`, or to
 * all if that is `items`; AWKWARD and the faults of baskets and transfers always apply to all. */
struct seller *seller_start_many(int items, int faulty, unsigned faults, int stock);
int seller_port(const struct seller *seller);
/* The number of requests to buy or transfer that it received, and of its orders. */
int seller_requests(struct seller *seller);
int seller_orders(struct seller *seller);

#endif
