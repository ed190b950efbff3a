/* The verdict: on purchases of one item, and of several, where faults that cancel out in the sum must be
 * found; on baskets, and on transfers. */
#include <string.h>

#include "loadtest/judge/request_log.h"
#include "loadtest/judge/sale_verdict.h"
#include "test/harness.h"

enum { STEPS = 3, ITEMS = 3, EACH = 4, LINES = 3, UNITS = 100 };

/* ---- a request log that the test writes step by step, and the verdict on it ---- */

enum what {
    NOTHING,
    /* A new line of this key, sent and answered after the line before: */
    WON,           /* an acknowledged order that was found in the books: order-KEY */
    WON_B,         /* order-KEY-b */
    WON_C,         /* order-KEY-c */
    SOLD_OUT,      /* rejected */
    LATE_SOLD_OUT, /* rejected, but sent before the order with the number of the key was acknowledged */
    LIMIT,         /* rejected for another reason */
    UNKNOWN,
    UNSENT,
    /* The order with this number, counted from 0: */
    MISSING,
    DIFFERENT,
    RETURNED,
    UNCHECKED,
    OTHER_CONTENT,
    SAME_ID,   /* as the order two before it */
    ABSENT,    /* in the answer */
    MISSTATED, /* in the answer */
    SURPLUS,   /* the answer has one order too many */
};

struct step {
    enum what what;
    uint32_t of;
};

static struct request_log request_log;
static uint64_t clock_ns;
static unsigned orders_each;

static void free_log(void *unused) {
    (void)unused;
    request_log_free(&request_log);
}

/* Empties the request log. From now on WON has so many orders, one for each line of a basket: order-KEY-PART;
 * 0: one, of a purchase or transfer. */
static void begin_log(unsigned basket_lines) {
    request_log_free(&request_log);
    request_log_init(&request_log);
    clock_ns = 1000;
    orders_each = basket_lines;
    harness_defer(free_log, NULL);
}

static void acknowledge(struct log_line *line, unsigned part, const char *id) {
    struct log_order *order = request_log_acknowledge(&request_log, line, (uint8_t)part, id, strlen(id));
    CHECK(order);
    order->content = line->key;
    order->check = ORDER_FOUND;
}

static uint8_t reason(const char *name) {
    return request_log_reason(&request_log, name, strlen(name));
}

static void add(enum what what, uint32_t key) {
    struct log_line *line = request_log_add(&request_log);
    CHECK(line);
    line->key = key;
    line->intended_ns = ++clock_ns;
    line->sent_ns = ++clock_ns;
    line->answered_ns = ++clock_ns;
    if (key >= request_log.key_count)
        request_log.key_count = key + 1;
    switch (what) {
    case LATE_SOLD_OUT: line->sent_ns = request_log.orders[key].answered_ns; /* fall through */
    case SOLD_OUT:
    case LIMIT:
        line->outcome = OUTCOME_REJECTED;
        line->reason = reason(what == LIMIT ? "purchase-limit" : "sold-out");
        return;
    case UNKNOWN:
        line->outcome = OUTCOME_UNKNOWN;
        line->cause = reason("timed-out");
        return;
    case UNSENT: line->outcome = OUTCOME_NOT_SENT; return;
    default: break;
    }
    line->outcome = OUTCOME_ACCEPTED;
    for (unsigned part = 0; part < orders_each; part++)
        acknowledge(line, part, harness_format("order-%u-%u", key, part));
    if (orders_each == 0)
        acknowledge(line, 0,
                    harness_format("order-%u%s", key,
                                   what == WON_B   ? "-b"
                                   : what == WON_C ? "-c"
                                                   : ""));
}

static void amend(struct log_order *order, enum what what) {
    switch (what) {
    case MISSING: order->check = ORDER_MISSING; break;
    case DIFFERENT: order->check = ORDER_DIFFERENT; break;
    case RETURNED: order->check = ORDER_RETURNED; break;
    case UNCHECKED: order->check = ORDER_UNCHECKED; break;
    case ABSENT:
        order->absent = true;
        order->check = ORDER_UNCHECKED;
        order->id = strlen(request_log.ids); /* "" */
        break;
    case MISSTATED: order->misstated = true; break;
    case SURPLUS: order->surplus = true; break;
    case OTHER_CONTENT: order->content++; break;
    default: order->id = order[-2].id; break;
    }
}

/* Adds a line of key `of`, or amends order `of`. */
static void take(enum what what, uint32_t of) {
    CHECK(what < MISSING || of < request_log.order_count);
    if (what >= MISSING)
        amend(&request_log.orders[of], what);
    else if (what != NOTHING)
        add(what, of);
}

/* `after` may be NULL. The kind of the verdict and all counters that are not 0, as one text: so a check
 * covers also those that should be 0. */
static const char *verdict(const struct options *options, const struct books *before,
                           const struct books *after) {
    static const char *const kinds[] = {"clean", "violated", "inconclusive"};
    struct verdict v;
    struct plan plan;
    CHECK(request_log_match(&request_log));
    CHECK(plan_init(&plan, options));
    bool reached = verdict_reach(&request_log, &plan, before, after, &v);
    plan_free(&plan);
    CHECK(reached && v.audited == (after != NULL));
    const struct {
        const char *name;
        long long count;
    } counters[] = {{"over", v.oversold},
                    {"lost", v.lost},
                    {"dup", v.duplicated},
                    {"phantom", v.phantom},
                    {"under", v.undersold},
                    {"unresolved", v.unresolved},
                    {"unchecked", v.unchecked},
                    {"torn", v.torn},
                    {"unbalanced", v.unbalanced},
                    {"unsent", v.unsent},
                    {"not conserved", after && !v.conserved}};
    const char *text = kinds[v.kind];
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        if (counters[i].count != 0)
            text = harness_format("%s %s %lld", text, counters[i].name, counters[i].count);
    }
    return text;
}

#define BOOKS(stock, available, held, sold, orders)                                                          \
    { true, stock, available, held, sold, orders, 0, true, false, 0 }

/* ---- one item: ten units, all sold to keys 0 to 9; key 10 was told sold-out ---- */

#define TEN        BOOKS(10, 10, 0, 0, 0)
#define TWENTY     BOOKS(20, 10, 0, 0, 0)
#define SOLD(n)    BOOKS(10, 0, 0, n, n)
#define SOLD_20(n) BOOKS(20, 0, 0, n, n)
#define FOURTEEN   BOOKS(14, 10, 0, 0, 0)
#define FOUR_LEFT  BOOKS(14, 4, 0, 10, 10)

static const struct sale {
    const char *name;
    struct step steps[STEPS];
    struct books before, after;
    const char *want;
} sales[] = {
    {"clean", {{0}}, TEN, SOLD(10), "clean"},
    {"earlier sales do not count", {{0}}, BOOKS(15, 10, 0, 5, 5), BOOKS(15, 0, 0, 15, 15), "clean"},
    {"duplicates with the first answer are clean", {{WON, 3}, {WON, 3}}, TEN, SOLD(10), "clean"},
    {"a rejected key may win after a restock", {{WON, 10}}, TEN, BOOKS(12, 1, 0, 11, 11), "clean"},
    {"oversold, by the audit", {{0}}, TEN, {true, 10, 0, 0, 10, 10, 3, true, false, 0}, "violated over 3"},
    {"oversold, by the receipts", {{WON, 11}, {WON, 12}}, TEN, SOLD(12), "violated over 2"},
    {"missing or different orders", {{MISSING, 4}, {DIFFERENT, 5}}, TEN, SOLD(10), "violated lost 2"},
    {"lost from the audit's count", {{0}}, TEN, SOLD(9), "violated lost 1"},
    {"one order for two keys", {{WON, 11}, {SAME_ID, 10}}, TWENTY, SOLD_20(10), "violated lost 1"},
    {"three orders for a key", {{WON_B, 3}, {WON_B, 3}, {WON_C, 3}}, TWENTY, SOLD_20(12), "violated dup 2"},
    {"the same order with other content", {{WON, 3}, {OTHER_CONTENT, 10}}, TEN, SOLD(10), "violated dup 1"},
    {"duplicated, a winner is told sold-out", {{SOLD_OUT, 3}}, TEN, SOLD(10), "violated dup 1"},
    {"a rejection in flight while its key wins is clean", {{LATE_SOLD_OUT, 3}}, TEN, SOLD(10), "clean"},
    {"phantom units", {{0}}, TWENTY, BOOKS(20, 0, 0, 12, 11), "violated phantom 2"},
    {"phantom orders", {{0}}, TWENTY, BOOKS(20, 0, 0, 10, 11), "violated phantom 1"},
    {"unresolved, and in the books", {{UNKNOWN, 11}}, TWENTY, SOLD_20(11), "inconclusive unresolved 1"},
    {"unresolved, and one more", {{UNKNOWN, 11}}, TWENTY, SOLD_20(12), "violated phantom 1 unresolved 1"},
    {"undersold", {{0}}, FOURTEEN, FOUR_LEFT, "violated under 1"},
    {"undersold, two were told", {{SOLD_OUT, 11}, {LIMIT, 12}}, FOURTEEN, FOUR_LEFT, "violated under 2"},
    {"expired holds are clean", {{RETURNED, 2}}, TEN, BOOKS(10, 1, 0, 9, 10), "clean"},
    {"expired holds that the audit counted as held are clean", {{RETURNED, 2}}, TEN, SOLD(10), "clean"},
    {"expired earlier holds are clean", {{0}}, BOOKS(15, 10, 5, 0, 5), BOOKS(15, 5, 0, 10, 15), "clean"},
    {"not conserved", {{0}}, TEN, {false, 10, 0, 0, 10, 10, 0, true, false, 0}, "violated not conserved 1"},
    {"one could not be checked", {{UNCHECKED, 7}}, TEN, SOLD(10), "inconclusive unchecked 1"},
    {"one was not sent", {{UNSENT, 11}}, TEN, SOLD(10), "inconclusive unsent 1"},
    {"no audit", {{0}}, TEN, BOOKS(0, 0, 0, 0, 0), "inconclusive"},
    {"violated also without an audit", {{WON_B, 3}}, TEN, BOOKS(0, 0, 0, 0, 0), "violated dup 1"},
};
static const struct sale *sale; /* of the running test */

static const char *judge(unsigned quantity) {
    begin_log(0);
    for (uint32_t key = 0; key < 10; key++)
        take(WON, key);
    take(SOLD_OUT, 10);
    for (int i = 0; i < STEPS; i++)
        take(sale->steps[i].what, sale->steps[i].of);
    return verdict(&(struct options){.quantity = quantity}, &sale->before,
                   sale->after.stock ? &sale->after : NULL);
}

static void test_sale(void) {
    CHECK_STR(judge(1), sale->want);
}

static void test_rest_too_small(void) {
    static const struct sale threes[] = {
        {"", {{0}}, BOOKS(32, 32, 0, 0, 0), BOOKS(32, 2, 0, 30, 10), "clean"},
        {"", {{0}}, BOOKS(34, 34, 0, 0, 0), BOOKS(34, 4, 0, 30, 10), "violated under 3"}};
    for (sale = threes; sale < threes + 2; sale++)
        CHECK_STR(judge(3), sale->want);
}

static void test_nothing_answered(void) {
    const struct books books = TEN;
    begin_log(0);
    CHECK_STR(verdict(&(struct options){.quantity = 1}, &books, &books), "inconclusive");
}

/* ---- several items: four units of each, all sold; one buyer of each was told sold-out ---- */

static const struct shop {
    const char *name;
    enum what last;                /* what the buyer of item 2 was told */
    struct step steps[2];          /* a new line is for an item, with a new key */
    int stock[ITEMS], sold[ITEMS]; /* beyond four; the units that are not taken are left */
    const char *want;
} shops[] = {
    /* The audit of item 0 hides it; one unit of item 2 is left. */
    {"one oversold", LIMIT, {{WON, 0}}, {0, 0, 1}, {1}, "violated over 1"},
    {"one lost and one phantom", SOLD_OUT, {{0}}, {0, 0, 1}, {0, -1, 1}, "violated lost 1 phantom 1"},
    {"units left, and nobody was told sold-out", LIMIT, {{0}}, {0, 0, 2}, {0}, "clean"},
    {"one undersold", LIMIT, {{SOLD_OUT, 2}}, {0, 0, 2}, {0}, "violated under 1"},
    /* What is unresolved or returned of one item does not excuse the books of another. */
    {"unresolved beside phantom",
     SOLD_OUT,
     {{UNKNOWN, 0}},
     {0, 1},
     {0, 1},
     "violated phantom 1 unresolved 1"},
    {"one returned", SOLD_OUT, {{RETURNED, 0}}, {0}, {-1}, "clean"},
    {"one returned, another undersold", SOLD_OUT, {{RETURNED, 0}}, {0, 1}, {-1}, "violated under 1"},
};
static const struct shop *shop; /* of the running test */

static struct options options;
static uint32_t next_key;

static void begin(struct options of) {
    options = of;
    options.items = ITEMS;
    options.seed = harness_seed();
    next_key = 0;
    begin_log(options.basket_lines);
}

/* The next key that plans exactly these items. */
static uint32_t key_of(const uint32_t items[]) {
    struct planned_request planned;
    do
        plan_of_key(&(struct plan){.options = &options}, next_key++, &planned);
    while (memcmp(planned.items, items, planned.count * sizeof *items) != 0);
    return next_key - 1;
}

static void test_shop(void) {
    struct books before[ITEMS], after[ITEMS];
    begin((struct options){.quantity = 1});
    for (uint32_t item = 0; item < ITEMS; item++) {
        for (int i = 0; i < EACH; i++)
            take(WON, key_of(&item));
        take(item == 2 ? shop->last : SOLD_OUT, key_of(&item));
        int stock = EACH + shop->stock[item], sold = EACH + shop->sold[item];
        int left = stock - (sold > EACH ? sold : EACH);
        before[item] = (struct books)BOOKS(stock, stock, 0, 0, 0);
        after[item] = (struct books)BOOKS(stock, left > 0 ? left : 0, 0, sold, sold);
    }
    for (const struct step *step = shop->steps; step < shop->steps + 2 && step->what; step++)
        take(step->what, step->what < MISSING ? key_of(&step->of) : step->of);
    CHECK_STR(verdict(&options, before, after), shop->want);
}

static void test_sum(void) {
    struct books books[] = {{true, 10, 1, 2, 7, 8, 0, true, true, 9},
                            {true, 100, 20, 30, 50, 60, 4, true, true, 81}};
    struct books sum = books_sum(books, 2);
    CHECK_STR(harness_format("%d %d %d %d %d %d %d", sum.conserved, (int)sum.stock, (int)sum.available,
                             (int)sum.held, (int)sum.sold, (int)sum.orders, (int)sum.oversold),
              "1 110 21 32 57 68 4");
    CHECK(sum.has_counters);
    CHECK_INT(sum.counted, 90);
    books[1].has_counters = books[1].conserved = false;
    sum = books_sum(books, 2);
    CHECK(!sum.has_counters && !sum.conserved);
}

/* ---- baskets and transfers ---- */

static const struct row {
    const char *name;
    struct step steps[STEPS]; /* a new line is for `asked`, with a new key */
    int change[ITEMS];        /* of the sold units, or of the stock, beyond what was acknowledged */
    const char *want;
} * row;

/* What a new line asks for: a basket of three items, or a transfer from the first to the second. */
enum asked { ONE_OF_EACH, BACKWARDS, TWICE, THERE, ONWARD, AGAIN };
static const uint32_t asked[][LINES] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 1}, {0, 1}, {1, 2}};

static uint32_t keys[3]; /* of the lines that both kinds of test begin with */

static void play_row(void) {
    for (const struct step *step = row->steps; step < row->steps + STEPS && step->what; step++)
        take(step->what, step->what >= MISSING ? step->of
                         : step->of >= AGAIN   ? keys[step->of - AGAIN]
                                               : key_of(asked[step->of]));
}

/* Three baskets were sold, the last of one item twice. The orders of basket n are 3 n and the next two. */
static const struct row baskets[] = {
    {"clean", {{0}}, {0}, "clean"},
    {"a repeated key with the first answer", {{WON, AGAIN + 1}}, {0}, "clean"},
    {"torn", {{MISSING, 1}}, {0}, "violated lost 1 torn 1"},
    {"torn with two lines missing", {{MISSING, 3}, {MISSING, 5}}, {0}, "violated lost 2 torn 1"},
    {"lost as a whole, but not torn", {{MISSING, 0}, {MISSING, 1}, {MISSING, 2}}, {0}, "violated lost 3"},
    {"an order missing in the answer", {{ABSENT, 8}}, {0}, "violated torn 1"},
    {"an order missing in a later answer", {{WON, AGAIN + 2}, {ABSENT, 11}}, {0}, "violated dup 1"},
    {"the answer differs from the request", {{MISSTATED, 2}}, {0}, "violated lost 1"},
    {"an order too many in the answer", {{MISSTATED, 2}, {SURPLUS, 0}}, {0}, "violated lost 1 dup 1"},
    {"one order for two lines", {{SAME_ID, 8}}, {0}, "violated lost 1"},
    {"another order for one line of a key", {{WON, AGAIN}, {SAME_ID, 11}}, {0, 0, 1}, "violated dup 1"},
    {"a line of a rejected basket", {{SOLD_OUT, ONE_OF_EACH}}, {1}, "violated phantom 1"},
    {"unresolved requests may be in the books", {{UNKNOWN, TWICE}}, {1, 2}, "inconclusive unresolved 1"},
    {"or not", {{UNKNOWN, TWICE}}, {0}, "inconclusive unresolved 1"},
    {"but no others", {{UNKNOWN, TWICE}}, {1, 2, 1}, "violated phantom 1 unresolved 1"},
    /* A basket may have held the units for a moment: buyers who were told sold-out were told the truth. */
    {"undersold is not judged", {{SOLD_OUT, ONE_OF_EACH}}, {0}, "clean"},
};

static void test_baskets(void) {
    static const int sold[ITEMS] = {3, 4, 2};
    struct books before[ITEMS], after[ITEMS];
    begin((struct options){.quantity = 1, .basket_lines = LINES, .connections = 1});
    for (uint32_t i = 0; i < 3; i++)
        take(WON, keys[i] = key_of(asked[i]));
    play_row();
    for (int i = 0; i < ITEMS; i++) {
        int units = sold[i] + row->change[i];
        before[i] = (struct books){.conserved = true, .stock = UNITS, .available = UNITS};
        after[i] = (struct books){
            .conserved = true, .stock = UNITS, .available = UNITS - units, .sold = units, .orders = units};
    }
    CHECK_STR(verdict(&options, before, after), row->want);
    if (strstr(row->want, "torn")) /* also without an audit */
        CHECK_STR(verdict(&options, before, NULL), row->want);
}

/* Three transfers moved two units each from item 0 to item 1; one from 1 to 2 was rejected. */
static const struct row transfers[] = {
    {"balanced", {{0}}, {0}, "clean"},
    {"a repeated key", {{WON, AGAIN + 1}}, {0}, "clean"},
    {"units that arrived nowhere", {{0}}, {0, -2}, "violated unbalanced 2"},
    {"units that were made", {{0}}, {0, 2}, "violated unbalanced 2"},
    {"one carried out twice", {{0}}, {-2, 2}, "violated unbalanced 2"},
    {"one not carried out", {{0}}, {2, -2}, "violated unbalanced 2"},
    {"two to another item", {{0}}, {0, -4, 4}, "violated unbalanced 4"},
    {"the rejected one was carried out", {{0}}, {0, -2, 2}, "violated unbalanced 2"},
    {"one unresolved", {{UNKNOWN, ONWARD}}, {0}, "inconclusive unresolved 1"},
    {"one unresolved, carried out", {{UNKNOWN, ONWARD}}, {0, -2, 2}, "inconclusive unresolved 1"},
    {"one unresolved, in part", {{UNKNOWN, ONWARD}}, {0, -2}, "violated unresolved 1 unbalanced 2"},
    {"one unresolved, twice", {{UNKNOWN, ONWARD}}, {0, -4, 4}, "violated unresolved 1 unbalanced 2"},
    {"one unresolved, to another item", {{UNKNOWN, ONWARD}}, {2, -2}, "violated unresolved 1 unbalanced 2"},
    {"two for one key", {{WON_B, AGAIN}}, {-2, 2}, "violated dup 1"},
    {"the answer differs from the request", {{MISSTATED, 1}}, {0}, "violated lost 1"},
    {"undersold is not judged", {{SOLD_OUT, ONWARD}}, {0}, "clean"},
};

static void test_transfers(void) {
    static const int moved[ITEMS] = {-6, 6, 0};
    struct books before[ITEMS], after[ITEMS];
    begin((struct options){.quantity = 2, .transfers = 100, .connections = 1});
    for (uint32_t i = 0; i < 3; i++) {
        take(WON, keys[i] = key_of(asked[THERE]));
        take(UNCHECKED, i);
    }
    take(SOLD_OUT, key_of(asked[ONWARD]));
    play_row();
    for (int i = 0; i < ITEMS; i++) {
        int stock = UNITS + moved[i] + row->change[i];
        before[i] = (struct books){.conserved = true, .stock = UNITS, .available = UNITS};
        after[i] = (struct books){.conserved = true, .stock = stock, .available = stock};
    }
    CHECK_STR(verdict(&options, before, after), row->want);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (sale = sales; sale < sales + sizeof sales / sizeof *sales; sale++)
        harness_run(harness_format("verdict: %s", sale->name), test_sale);
    harness_run("verdict: units left for less than a purchase are not undersold", test_rest_too_small);
    harness_run("verdict: nothing answered is not clean", test_nothing_answered);
    for (shop = shops; shop < shops + sizeof shops / sizeof *shops; shop++)
        harness_run(harness_format("verdict of several items: %s", shop->name), test_shop);
    harness_run("verdict of several items: the sum of the books", test_sum);
    for (row = baskets; row < baskets + sizeof baskets / sizeof *baskets; row++)
        harness_run(harness_format("verdict of baskets: %s", row->name), test_baskets);
    for (row = transfers; row < transfers + sizeof transfers / sizeof *transfers; row++)
        harness_run(harness_format("verdict of transfers: %s", row->name), test_transfers);
    return harness_finish();
}
