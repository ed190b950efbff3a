/* The verdict on baskets and transfers. */
#include <string.h>

#include "loadtest/test/receipt.h"
#include "test/harness.h"

enum { ITEMS = 3, LINES = 3, EACH = 100, STEPS = 3 };

static const struct row {
    const char *name;
    struct receipt_step steps[STEPS]; /* a new line is for `asked`, with a new key */
    int change[ITEMS];                /* of the sold units, or of the stock, beyond what was acknowledged */
    const char *want;
} * row;

/* What a new line asks for: a basket of three items, or a transfer from the first to the second. */
enum asked { ONE_OF_EACH, BACKWARDS, TWICE, THERE, ONWARD, AGAIN };
static const uint32_t asked[][LINES] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 1}, {0, 1}, {1, 2}};

static struct options options;
static uint32_t next_key, keys[4];

/* The next key with exactly these items; AGAIN + n: that of line n. */
static uint32_t key_of(uint32_t what) {
    struct planned_request planned;
    if (what >= AGAIN)
        return keys[what - AGAIN];
    do
        plan_of_key(&(struct plan){.options = &options}, next_key++, &planned);
    while (memcmp(planned.items, asked[what], planned.count * sizeof asked[0][0]) != 0);
    return next_key - 1;
}

static void begin(unsigned lines, unsigned transfers) {
    options = (struct options){.items = ITEMS,
                               .quantity = lines ? 1 : 2,
                               .seed = harness_seed(),
                               .basket_lines = lines,
                               .transfers = transfers,
                               .connections = 1};
    next_key = 0;
    receipt_begin(lines);
}

static void play_steps(void) {
    for (const struct receipt_step *step = row->steps; step < row->steps + STEPS && step->what; step++)
        receipt_do(step->what, step->what < MISSING ? key_of(step->of) : step->of);
}

/* ---- baskets: three were sold, the last of one item twice; the orders of basket n are 3 n and the next two
 * ---- */

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
    begin(LINES, 0);
    for (uint32_t i = 0; i < 3; i++)
        receipt_do(WON, keys[i] = key_of(i));
    play_steps();
    for (int i = 0; i < ITEMS; i++) {
        int units = sold[i] + row->change[i];
        before[i] = (struct books){.conserved = true, .stock = EACH, .available = EACH};
        after[i] = (struct books){
            .conserved = true, .stock = EACH, .available = EACH - units, .sold = units, .orders = units};
    }
    CHECK_STR(receipt_verdict(&options, before, after), row->want);
    if (strstr(row->want, "torn")) /* also without an audit */
        CHECK_STR(receipt_verdict(&options, before, NULL), row->want);
}

/* ---- transfers: three moved two units each from item 0 to item 1; one from 1 to 2 was rejected ---- */

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
    begin(0, 100);
    for (uint32_t i = 0; i < 3; i++) {
        receipt_do(WON, keys[i] = key_of(THERE));
        receipt_do(UNCHECKED, i);
    }
    receipt_do(SOLD_OUT, key_of(ONWARD));
    play_steps();
    for (int i = 0; i < ITEMS; i++) {
        int stock = EACH + moved[i] + row->change[i];
        before[i] = (struct books){.conserved = true, .stock = EACH, .available = EACH};
        after[i] = (struct books){.conserved = true, .stock = stock, .available = stock};
    }
    CHECK_STR(receipt_verdict(&options, before, after), row->want);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (row = baskets; row < baskets + sizeof baskets / sizeof *baskets; row++)
        harness_run(harness_format("verdict of baskets: %s", row->name), test_baskets);
    for (row = transfers; row < transfers + sizeof transfers / sizeof *transfers; row++)
        harness_run(harness_format("verdict of transfers: %s", row->name), test_transfers);
    return harness_finish();
}
