#include "loadtest/item.h"
#include "test/harness.h"

static void test_one(void) {
    struct options options = {.item = "demo", .seed = harness_seed()};
    char name[ITEM_NAME];
    CHECK_INT(item_count(&options), 1);
    for (uint32_t key = 0; key < 100; key++)
        CHECK_INT(item_of_key(&options, key), 0);
    item_name(&options, 0, name);
    CHECK_STR(name, "demo");
}

static void test_names(void) {
    struct options options = {.item = "demo", .items = 100000};
    char name[ITEM_NAME];
    CHECK_INT(item_count(&options), 100000);
    item_name(&options, 0, name);
    CHECK_STR(name, "demo-0");
    item_name(&options, 99999, name);
    CHECK_STR(name, "demo-99999");
}

/* Each item gets its share of the keys: 400 of them give or take ten standard deviations. */
static void test_even(void) {
    enum { ITEMS = 1000, SHARE = 400, SLACK = 200 };
    struct options options = {.item = "demo", .items = ITEMS, .seed = harness_seed()};
    unsigned *counts = harness_alloc(ITEMS * sizeof *counts);
    for (uint32_t key = 0; key < ITEMS * SHARE; key++)
        counts[item_of_key(&options, key)]++;
    for (int i = 0; i < ITEMS; i++)
        CHECK(counts[i] > SHARE - SLACK && counts[i] < SHARE + SLACK);
}

/* The same seed chooses the same, another one not. */
static void test_seed(void) {
    enum { KEYS = 1000 };
    struct options options = {.item = "demo", .items = 100, .seed = harness_seed()};
    struct options same = options;
    struct options other = options;
    other.seed++;
    int equal = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        CHECK_INT(item_of_key(&same, key), item_of_key(&options, key));
        equal += item_of_key(&other, key) == item_of_key(&options, key);
    }
    CHECK(equal < KEYS / 10);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("item: without --items there is one", test_one);
    harness_run("item: names", test_names);
    harness_run("item: keys are spread evenly", test_even);
    harness_run("item: the seed decides", test_seed);
    return harness_finish();
}
