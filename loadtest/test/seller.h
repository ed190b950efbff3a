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
    SELLER_CANCELS = 1 << 15,     /* every tenth order is told as confirmed, but cancelled in the books */

    /* Of baskets; but for RETELLS and KEEPS_LINE every tenth of those that are sold. Those above hold for
       each line. */
    SELLER_RETELLS = 1 << 16,      /* the answer to a repeated key has a member more than the first */
    SELLER_KEEPS_LINE = 1 << 17,   /* of every tenth basket that is refused one line stays sold */
    SELLER_DOUBLES_LINE = 1 << 18, /* the order of one line is written twice */
    SELLER_MIXES_UP = 1 << 19,     /* the orders are told in another sequence than the lines' */
    SELLER_MISCOUNTS = 1 << 20,    /* one order is told with a unit more; a transfer likewise */
    SELLER_MISNAMES = 1 << 21,     /* told as another user's; a transfer, as one to where it came from */
    SELLER_OMITS = 1 << 22,        /* the last order is not told */
    SELLER_REPEATS = 1 << 23,      /* the last order is told twice */
    SELLER_SAME_ORDER = 1 << 24,   /* the first order is told for all lines */

    /* Every tenth transfer: */
    SELLER_DRAINS = 1 << 25,        /* arrives nowhere */
    SELLER_MOVES_TWICE = 1 << 26,   /* is carried out twice */
    SELLER_MOVES_ASTRAY = 1 << 27,  /* arrives at a third item */
    SELLER_MOVES_NOTHING = 1 << 28, /* is acknowledged, but not carried out */
    SELLER_MOVES_REFUSED = 1 << 29, /* is carried out, but refused */

    SELLER_INEXACT =
        1 << 30, /* the second and third audits are not exact; with AUDITS_ONCE none but the first is */
};
/* SELLS_TWICE, FORGETS and RETELLS hold for all baskets and transfers. DROPS_REPLIES, SAYS_503 and GARBLES
 * spare the third try of a key. */

struct seller;

/* Ends when the test ends. */
struct seller *seller_start(unsigned faults, int stock);
/* With the items demo-0 to demo-(items-1), each of that stock; the faults meet only item `faulty`, or, where
 * that is `items`, all (AWKWARD, and what baskets and transfers do: all). */
struct seller *seller_start_many(int items, int faulty, unsigned faults, int stock);
int seller_port(const struct seller *seller);
/* How many requests to buy or transfer it heard of, and how many orders it has. */
int seller_requests(struct seller *seller);
int seller_orders(struct seller *seller);

#endif
