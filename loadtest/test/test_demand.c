#include <math.h>
#include <string.h>

#include "loadtest/plan/demand.h"
#include "test/harness.h"

static struct demand demand;

static void forget(void *unused) {
    (void)unused;
    demand_free(&demand);
}

static struct wish wish_of(uint32_t key) {
    struct wish wish;
    demand_of_key(&demand, key, &wish);
    return wish;
}

static void begin(const struct options *options) {
    CHECK(demand_init(&demand, options));
    harness_defer(forget, NULL);
}

static void test_one(void) {
    struct options options = {.item = "demo", .seed = harness_seed()};
    begin(&options);
    for (uint32_t key = 0; key < 100; key++) {
        struct wish wish = wish_of(key);
        CHECK_INT(wish.kind, DEMAND_PURCHASE);
        CHECK_INT(wish.count, 1);
        CHECK_INT(wish.items[0], 0);
    }
}

/* Each item gets its share of the keys: 400, within ten standard deviations. */
static void test_even(void) {
    enum { ITEMS = 1000, SHARE = 400, SLACK = 200 };
    struct options options = {.item = "demo", .items = ITEMS, .seed = harness_seed()};
    unsigned *counts = harness_alloc(ITEMS * sizeof *counts);
    begin(&options);
    for (uint32_t key = 0; key < ITEMS * SHARE; key++)
        counts[wish_of(key).items[0]]++;
    for (int i = 0; i < ITEMS; i++)
        CHECK(counts[i] > SHARE - SLACK && counts[i] < SHARE + SLACK);
}

/* Each item is drawn by its weight, within seven standard deviations. */
static void check_zipf(double exponent, uint32_t items) {
    enum { KEYS = 400000 };
    struct options options = {.item = "demo", .items = items, .zipf = exponent, .seed = harness_seed()};
    unsigned *counts = harness_alloc(items * sizeof *counts);
    double sum = 0;
    begin(&options);
    for (uint32_t i = 0; i < items; i++)
        sum += pow(i + 1.0, -exponent);
    for (uint32_t key = 0; key < KEYS; key++)
        counts[wish_of(key).items[0]]++;
    for (uint32_t i = 0; i < items; i++) {
        double expected = KEYS * pow(i + 1.0, -exponent) / sum;
        if (fabs(counts[i] - expected) > 7 * sqrt(expected) + 7)
            FAIL("item %u of %u, exponent %g: drawn %u times, expected %g", i, items, exponent, counts[i],
                 expected);
    }
    demand_free(&demand);
}

static void test_zipf(void) {
    check_zipf(1, 1);
    check_zipf(1, 2);
    check_zipf(0.01, 10);
    check_zipf(0.8, 1000);
    check_zipf(1.2, 100000);
    check_zipf(5, 100);
}

/* The same seed draws the same items, another seed others. */
static void check_seed(struct options options) {
    enum { KEYS = 1000 };
    struct demand other;
    int equal = 0;
    begin(&options);
    struct options next = options;
    next.seed++;
    CHECK(demand_init(&other, &next));
    for (uint32_t key = 0; key < KEYS; key++) {
        struct wish again = {.count = 0};
        struct wish elsewhere;
        struct wish first = wish_of(key);
        wish_of(key + 1);
        demand_of_key(&demand, key, &again);
        CHECK_INT(again.kind, first.kind);
        CHECK_INT(again.count, first.count);
        CHECK(memcmp(again.items, first.items, first.count * sizeof first.items[0]) == 0);
        demand_of_key(&other, key, &elsewhere);
        equal += elsewhere.kind == first.kind && elsewhere.items[0] == first.items[0];
    }
    demand_free(&demand);
    demand_free(&other);
    CHECK(equal < KEYS / 10);
}

static void test_seed(void) {
    uint64_t seed = harness_seed();
    check_seed((struct options){.items = 100, .seed = seed});
    check_seed((struct options){.items = 1000, .seed = seed, .zipf = 0.5});
    check_seed((struct options){.items = 100, .seed = seed, .basket_lines = 32, .transfers = 30});
}

static void test_baskets(void) {
    struct options options = {.items = 3, .seed = harness_seed(), .basket_lines = 5};
    int seen[3] = {0};
    int twice = 0;
    begin(&options);
    for (uint32_t key = 0; key < 1000; key++) {
        struct wish wish = wish_of(key);
        CHECK_INT(wish.kind, DEMAND_BASKET);
        CHECK_INT(wish.count, 5);
        for (unsigned i = 0; i < wish.count; i++) {
            CHECK(wish.items[i] < 3);
            seen[wish.items[i]]++;
            twice += i > 0 && wish.items[i] == wish.items[i - 1];
        }
    }
    CHECK(seen[0] > 1000 && seen[1] > 1000 && seen[2] > 1000 && twice > 500);
    CHECK(demand_has(&demand, DEMAND_BASKET) && !demand_has(&demand, DEMAND_PURCHASE) &&
          !demand_has(&demand, DEMAND_TRANSFER));
}

/* Three of ten requests, between two different items, whatever their weights. */
static void test_transfers(void) {
    struct options options = {.items = 2, .seed = harness_seed(), .transfers = 30, .zipf = 5};
    int transfers = 0;
    int from_first = 0;
    begin(&options);
    for (uint32_t key = 0; key < 10000; key++) {
        struct wish wish = wish_of(key);
        CHECK(wish.kind == DEMAND_TRANSFER || wish.kind == DEMAND_PURCHASE);
        if (wish.kind == DEMAND_PURCHASE)
            continue;
        CHECK_INT(wish.count, 2);
        CHECK_INT(wish.items[0] + wish.items[1], 1);
        transfers++;
        from_first += wish.items[0] == 0;
    }
    CHECK(transfers > 2600 && transfers < 3400);
    CHECK(from_first > transfers * 9 / 10);
    CHECK(demand_has(&demand, DEMAND_PURCHASE) && demand_has(&demand, DEMAND_TRANSFER));
    options.transfers = 100;
    CHECK(!demand_has(&demand, DEMAND_PURCHASE));
    CHECK_INT(wish_of(5).kind, DEMAND_TRANSFER);
}

/* Of ten five purchases, two transfers and three baskets. */
static void test_mixture(void) {
    struct options options = {
        .items = 5, .seed = harness_seed(), .basket_lines = 4, .purchases = 50, .transfers = 20};
    int counts[DEMAND_KINDS] = {0};
    begin(&options);
    for (uint32_t key = 0; key < 10000; key++) {
        static const unsigned lines[DEMAND_KINDS] = {1, 4, 2};
        struct wish wish = wish_of(key);
        CHECK_INT(wish.count, lines[wish.kind]);
        counts[wish.kind]++;
    }
    CHECK(counts[DEMAND_PURCHASE] > 4600 && counts[DEMAND_PURCHASE] < 5400);
    CHECK(counts[DEMAND_TRANSFER] > 1600 && counts[DEMAND_TRANSFER] < 2400);
    for (int i = 0; i < DEMAND_KINDS; i++)
        CHECK(demand_has(&demand, (enum demand_kind)i));
    options.purchases = 80;
    CHECK(demand_has(&demand, DEMAND_PURCHASE) && !demand_has(&demand, DEMAND_BASKET));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("demand: of one item", test_one);
    harness_run("demand: keys are spread evenly", test_even);
    harness_run("demand: by Zipf as often as the weights say", test_zipf);
    harness_run("demand: the seed decides", test_seed);
    harness_run("demand: baskets", test_baskets);
    harness_run("demand: transfers", test_transfers);
    harness_run("demand: a mixture", test_mixture);
    return harness_finish();
}
