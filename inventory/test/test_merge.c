/* What becomes of two records of one order: putback.lua itself is called with each two that may meet, one
 * after the other. */
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/test/fixture.h"
#include "putback.lua.h"

static struct redis_server redis;

#define ORDER "the-key-of-the-order-0"

/* The item of a test. */
static const char *item;

static const char *key(const char *what) {
    return stock_key(harness_format("%s%s", item, what));
}

static void item_open(struct seller *seller, const char *name, int stock, int limit) {
    item = name;
    item_put_with(seller, item, stock, limit, 600000);
}

/* `h`, `c2` and the like, as a record of one unit of ann. `o` is `h` of a hold that is over. What follows a
 * blank are tags. */
static const char *record_of(const char *state) {
    bool is_over = *state == 'o';
    size_t length = strcspn(state, " ");
    return harness_format("%.*s 1 ann 1700000000000 %s%s", (int)length, is_over ? "h" : state,
                          is_over ? "1700000001000" : "32503680000000", state + length);
}

/* What the script says to a record of order `name`. */
static const char *show(const char *name, const char *state, const char *last) {
    struct sale_keys keys;
    sale_keys_make(&keys, item);
    return harness_format("%s", redis_command(&redis, "EVAL", putback_lua, "5", key(""), key(":holds"),
                                              keys.due, key(":shortage"), key(":events"), "order", name,
                                              record_of(state), last, NULL));
}

/* The state and version that it has now. */
static const char *stands(const char *name) {
    char *record = harness_format("%s", redis_command(&redis, "HGET", key(""), name, NULL));
    record[strcspn(record, " ")] = '\0';
    return record;
}

static void check_units(const char *counted, int units) {
    CHECK_INT(redis_integer(&redis, "HGET", key(""), counted, NULL), units);
}

/* What the script says, and what stands then; in words for a table. */
static const char *outcome(const char *name, const char *state, const char *last) {
    const char *said = show(name, state, last);
    CHECK_STR(ledger_audit(&redis, item), "balanced");
    return harness_format("%s: %s", said, stands(name));
}

static struct seller *open_one(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    return seller_open(shop_open(), &redis);
}

/* ---- each two ---- */

enum { STATES = 8, STOCK = 5, LIMIT = 1 };

/* By what stands, and what is shown then. A confirm of version 1 is of an item without holds. NULL: a hold is
 * over or not. */
static const char *const states[STATES] = {"h", "o", "c", "c2", "x2", "e2", "c3", "x3"};
static const char *const first[STATES] = {"back: h",  "back: e",  "back: c",  "back: c2",
                                          "back: x2", "back: e2", "back: c3", "back: x3"};
static const char *const met[STATES][STATES] = {
    /* h */ {"there: h", NULL, "differs: h", "back: c2", "back: x2", "back: e2", "back: c3", "back: x3"},
    /* o */ {NULL, "there: e", "back: c2", "back: c2", "back: x2", "there: e", "back: c3", "back: x3"},
    /* c */
    {"differs: c", "there: c", "there: c", "there: c", "back: x2", "back: e2", "there: c", "back: x3"},
    /* c2 */
    {"there: c2", "there: c2", "there: c2", "there: c2", "differs: c2", "differs: c2", "there: c2",
     "back: x3"},
    /* x2 */
    {"there: x2", "there: x2", "there: x2", "differs: x2", "there: x2", "differs: x2", "back: c3",
     "there: x2"},
    /* e2 */
    {"there: e2", "there: e2", "there: e2", "back: c3", "back: x3", "there: e2", "back: c3", "back: x3"},
    /* c3 */
    {"there: c3", "there: c3", "there: c3", "there: c3", "there: c3", "there: c3", "there: c3",
     "differs: c3"},
    /* x3 */
    {"there: x3", "there: x3", "there: x3", "there: x3", "there: x3", "there: x3", "differs: x3",
     "there: x3"}};

/* Of the counters, which are balanced: what the order that stands does to them. */
static void check_counters(char state) {
    bool has = state == 'h' || state == 'c';
    check_units("available", STOCK - has);
    check_units("held", state == 'h');
    check_units("sold", state == 'c');
    check_units("released", !has);
    CHECK_INT(redis_integer(&redis, "HINCRBY", key(""), "@ann", "0", NULL), has);
    CHECK_INT(redis_integer(&redis, "ZCARD", key(":holds"), NULL), state == 'h');
}

static bool differs(int a, int b) {
    return strncmp(met[a][b], "differs", 7) == 0;
}

/* The state that stands in the end. */
static char meet(struct seller *seller, int a, int b) {
    item_open(seller, harness_format("%s-%s", states[a], states[b]), STOCK, LIMIT);
    CHECK_STR(outcome(ORDER, states[a], "no"), first[a]);
    CHECK_STR(outcome(ORDER, states[b], "no"), met[a][b]);
    const char *state = stands(ORDER);
    check_counters(*state);
    CHECK_STR(harness_format("%s: %s", show(ORDER, states[b], "yes"), stands(ORDER)),
              differs(a, b) ? met[a][b] : harness_format("there: %s", state));
    return *state;
}

/* The newest stands, whoever is first; where both are as new, the first one does, and that is told. */
static void test_each_two(void) {
    struct seller *seller = open_one();
    char last[STATES][STATES];
    for (int a = 0; a < STATES; a++) {
        for (int b = 0; b < STATES; b++)
            last[a][b] = met[a][b] ? meet(seller, a, b) : '-';
    }
    for (int a = 0; a < STATES; a++) {
        for (int b = 0; b < a; b++)
            CHECK(last[a][b] == last[b][a] || (differs(a, b) && differs(b, a)));
    }
}

/* ---- payment, refund and return ---- */

#define PAYING "p2 p=pi"
#define REFUND "e3 p=pi s=1700000002000 d=1"
#define LATE   "c4 p=pi s=1700000002000 l=1"

/* What stands, what is shown then, and what comes of it; then where the unit is, and what was released. */
static void test_paid(void) {
    static const struct {
        const char *stands, *shown, *outcome, *place;
        int released;
    } cases[] = {{"", PAYING, "back: p2", "held", 0},
                 {"h", PAYING, "back: p2", "held", 0},
                 {PAYING, "h", "there: p2", "held", 0},
                 {PAYING, PAYING, "there: p2", "held", 0},
                 {"o", PAYING, "back: p2", "held", 0},  /* taken for expired, which it was not */
                 {"e2", PAYING, "back: p3", "held", 0}, /* the same, and as old */
                 {"c2", PAYING, "differs: c2", "sold", 0},
                 {PAYING, "c3 p=pi s=1700000002000", "back: c3", "sold", 0},
                 {PAYING, REFUND, "back: e3", "available", 1},
                 {"", REFUND, "back: e3", "available", 1},
                 {"e2", REFUND, "back: e3", "available", 1},
                 {"e3", REFUND, "back: e4", "available", 1}, /* the refund was promised */
                 {"c2", "x3 d=1", "differs: c2", "sold", 0}, /* both were told */
                 {"c2", "x3 p=pi", "differs: c2", "sold", 0},
                 {"c2 p=pi", "c2 p=pi-2", "differs: c2", "sold", 0},
                 {PAYING, "p2 p=pi-2", "differs: p2", "held", 0},
                 {"c2", "c2 p=pi", "back: c3", "sold", 0}, /* its payment is known again */
                 {"c2", "c3 p=pi", "back: c3", "sold", 0},
                 {"c2 p=pi", "c2", "there: c2", "sold", 0},
                 {PAYING, "c2 p=pi", "back: c3", "sold", 0},
                 {PAYING, "c2", "back: c3", "sold", 0},
                 {PAYING, "x2", "back: x3", "available", 1},
                 {PAYING, "c2 p=pi-2", "differs: p2", "held", 0},
                 {PAYING, "e2", "differs: p2", "held", 0},
                 {REFUND, "e2", "there: e3", "available", 1},
                 {REFUND, "c2", "differs: e3", "available", 1},
                 {REFUND, LATE, "differs: e3", "available", 1},
                 {"x2", "x3 d=1", "back: x3", "available", 1},
                 {"", LATE, "back: c4", "sold", 1},
                 {"h", LATE, "back: c4", "sold", 1},
                 {"e3", LATE, "back: c4", "sold", 1},
                 {LATE, LATE, "there: c4", "sold", 1},
                 {"c2", LATE, "back: c4", "sold", 1}};
    struct seller *seller = open_one();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        item_open(seller, harness_format("paid-%zu", i), STOCK, LIMIT);
        if (*cases[i].stands)
            CHECK_STR(show(ORDER, cases[i].stands, "no"), "back");
        CHECK_STR(outcome(ORDER, cases[i].shown, "no"), cases[i].outcome);
        check_units(cases[i].place, strcmp(cases[i].place, "available") == 0 ? STOCK : 1);
        check_units("released", cases[i].released);
    }
}

static const char *show_return(const char *note, const char *last) {
    struct sale_keys keys;
    sale_keys_make(&keys, item);
    const char *said =
        harness_format("%s", redis_command(&redis, "EVAL", putback_lua, "5", key(""), key(":holds"), keys.due,
                                           key(":shortage"), key(":events"), "move", "the-key-of-the-returns",
                                           note, last, NULL));
    CHECK_STR(ledger_audit(&redis, item), "balanced");
    return said;
}

/* A return is put back once, after its order. */
static void test_returned(void) {
    struct seller *seller = open_one();
    for (int restock = 0; restock < 2; restock++) {
        const char *note = harness_format("return 1 %d " ORDER, restock);
        item_open(seller, harness_format("returned-%d", restock), STOCK, LIMIT);
        CHECK_STR(show_return(note, "no"), "short");
        CHECK_STR(show_return(note, "yes"), "differs");
        CHECK_STR(show(ORDER, "h", "no"), "back");
        CHECK_STR(show_return(note, "no"), "short");
        CHECK_STR(show(ORDER, "c2", "no"), "back");
        for (int i = 0; i < 2; i++) {
            CHECK_STR(show_return(note, "no"), i ? "there" : "back");
            CHECK_STR(stands(ORDER), "r3");
            check_units("available", STOCK - !restock);
            check_units("restocked", -!restock);
            check_units("returned", 1);
            check_units("sold", 0);
            CHECK_STR(outcome(ORDER, "c2", "no"), "there: r3");
            CHECK_STR(outcome(ORDER, "c3", "no"), "differs: r3");
        }
    }
}

/* ---- units that others have by now ---- */

/* A hold that is over takes none, be there some or not. */
static void test_hold_is_over(void) {
    struct seller *seller = open_one();
    for (int stock = 1; stock <= 2; stock++) {
        item_open(seller, harness_format("of%d", stock), stock, 0);
        CHECK_STATUS(buy(seller, item, "bob", "b", 1)->status, INVENTORY_OK);
        CHECK_STR(outcome(ORDER, "o", "yes"), "back: e");
        check_units("available", stock - 1);
        check_units("held", 1);
        check_units("released", 1);
        CHECK_INT(redis_integer(&redis, "EXISTS", key(":shortage"), NULL), 0);
    }
}

/* Somebody has the only unit, or ann has all that she may, when a state is shown that takes one. It is noted
 * at the end, once, and not any more when it fits. */
static void check_short(struct seller *seller, const char *before, const char *state, const char *standing,
                        const char *fits, bool by_limit) {
    item_open(seller, harness_format("%s-%s-%d", before, state, by_limit), by_limit ? 10 : 1, by_limit);
    if (*before)
        CHECK_STR(show(ORDER, before, "no"), "back");
    struct buy *taker = buy(seller, item, by_limit ? "ann" : "bob", "b", 1);
    CHECK_STATUS(taker->status, INVENTORY_OK);
    CHECK_STR(outcome(ORDER, state, "no"), harness_format("short: %s", standing));
    CHECK_INT(redis_integer(&redis, "EXISTS", key(":shortage"), NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_STR(outcome(ORDER, state, "yes"), harness_format("short: %s", standing));
        check_units("shortage", 1);
        CHECK_STR(redis_command(&redis, "HGET", key(":shortage"), ORDER, NULL), record_of(state));
    }
    CHECK_STATUS(order_step(seller, taker->id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    CHECK_STR(outcome(ORDER, state, "no"), harness_format("back: %s", fits));
    check_units("shortage", 0);
    CHECK_INT(redis_integer(&redis, "EXISTS", key(":shortage"), NULL), 0);
}

/* `e2`: it was confirmed, that was lost, and then another one took it for expired. */
static void test_short(void) {
    struct seller *seller = open_one();
    for (int by_limit = 0; by_limit < 2; by_limit++) {
        check_short(seller, "", "h", "(nil)", "h", by_limit);
        check_short(seller, "", "c", "(nil)", "c", by_limit);
        check_short(seller, "", "c2", "(nil)", "c2", by_limit);
        check_short(seller, "o", "c2", "e", "c2", by_limit);
        check_short(seller, "e2", "c2", "e2", "c3", by_limit);
        check_short(seller, "x2", "c3", "x2", "c3", by_limit);
    }
}

/* What takes no unit fits always. */
static void test_no_units_left(void) {
    static const char *const takes_none[][4] = {/* stands, is shown, then stands */
                                                {"", "x2", "x2"},   {"", "e2", "e2"},  {"e2", "x2", "x3"},
                                                {"h", "c2", "c2"},  {"h", "x2", "x2"}, {"h", "e2", "e2"},
                                                {"c2", "x3", "x3"}, {"o", "x2", "x2"}};
    struct seller *seller = open_one();
    for (size_t i = 0; i < sizeof takes_none / sizeof *takes_none; i++) {
        const char *before = takes_none[i][0];
        bool has = *before == 'h' || *before == 'c';
        item_open(seller, harness_format("none-%zu", i), 1 + has, 0);
        if (*before)
            CHECK_STR(show(ORDER, before, "no"), "back");
        CHECK_STATUS(buy(seller, item, "bob", "b", 1)->status, INVENTORY_OK);
        check_units("available", 0);
        CHECK_STR(outcome(ORDER, takes_none[i][1], "no"), harness_format("back: %s", takes_none[i][2]));
    }
}

/* ---- the item is gone ---- */

static void test_unknown_item(void) {
    open_one();
    item = "gone";
    for (int i = 0; i < STATES; i++)
        CHECK_STR(show(ORDER, states[i], "yes"), "unknown-item");
    CHECK_STR(redis_command(&redis, "KEYS", "*{gone}*", NULL), "[]");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("each two states of an order", test_each_two);
    harness_run("payment and refund", test_paid);
    harness_run("returns", test_returned);
    harness_run("a hold that is over", test_hold_is_over);
    harness_run("what does not fit", test_short);
    harness_run("what takes no units", test_no_units_left);
    harness_run("an item that is gone", test_unknown_item);
    return harness_finish();
}
