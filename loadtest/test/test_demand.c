#include <math.h>
#include <string.h>

#include "loadtest/request_plan.h"
#include "test/harness.h"

static struct plan plan;

static void forget(void *unused) {
    (void)unused;
    plan_free(&plan);
}

static struct planned_request planned_for(uint32_t key) {
    struct planned_request planned;
    plan_of_key(&plan, key, &planned);
    return planned;
}

static void begin(const struct options *options) {
    CHECK(plan_init(&plan, options));
    harness_defer(forget, NULL);
}

static void test_names(void) {
    static const struct {
        unsigned items;
        uint32_t item, count;
        const char *name;
    } cases[] = {{0, 0, 1, "demo"}, {100000, 0, 100000, "demo-0"}, {100000, 99999, 100000, "demo-99999"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options = {.item = "demo", .items = cases[i].items};
        char name[ITEM_NAME_SIZE];
        CHECK_INT(item_count(&options), cases[i].count);
        item_name(&options, cases[i].item, name);
        CHECK_STR(name, cases[i].name);
        CHECK(item_is(&options, cases[i].item, name, strlen(name)));
        CHECK(!item_is(&options, cases[i].item, "demo-99999", strlen(name) - 1));
        CHECK(!item_is(&options, cases[i].item, "demo-999999", strlen(name) + 1));
        CHECK(!item_is(&options, cases[i].item, NULL, 0));
    }
}

static void test_one(void) {
    struct options options = {.item = "demo", .seed = harness_seed()};
    begin(&options);
    for (uint32_t key = 0; key < 100; key++) {
        struct planned_request planned = planned_for(key);
        CHECK_INT(planned.kind, REQUEST_PURCHASE);
        CHECK_INT(planned.count, 1);
        CHECK_INT(planned.items[0], 0);
    }
}

/* Each item gets its share of the keys: 400, within ten standard deviations. */
static void test_even(void) {
    enum { ITEMS = 1000, SHARE = 400, SLACK = 200 };
    struct options options = {.item = "demo", .items = ITEMS, .seed = harness_seed()};
    unsigned *counts = harness_alloc(ITEMS * sizeof *counts);
    begin(&options);
    for (uint32_t key = 0; key < ITEMS * SHARE; key++)
        counts[planned_for(key).items[0]]++;
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
        counts[planned_for(key).items[0]]++;
    for (uint32_t i = 0; i < items; i++) {
        double expected = KEYS * pow(i + 1.0, -exponent) / sum;
        if (fabs(counts[i] - expected) > 7 * sqrt(expected) + 7)
            FAIL("item %u of %u, exponent %g: drawn %u times, expected %g", i, items, exponent, counts[i],
                 expected);
    }
    plan_free(&plan);
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
    struct plan other;
    int equal = 0;
    begin(&options);
    struct options next = options;
    next.seed++;
    CHECK(plan_init(&other, &next));
    for (uint32_t key = 0; key < KEYS; key++) {
        struct planned_request again = {.count = 0};
        struct planned_request elsewhere;
        struct planned_request first = planned_for(key);
        planned_for(key + 1);
        plan_of_key(&plan, key, &again);
        CHECK_INT(again.kind, first.kind);
        CHECK_INT(again.count, first.count);
        CHECK(memcmp(again.items, first.items, first.count * sizeof first.items[0]) == 0);
        plan_of_key(&other, key, &elsewhere);
        equal += elsewhere.kind == first.kind && elsewhere.items[0] == first.items[0];
    }
    plan_free(&plan);
    plan_free(&other);
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
        struct planned_request planned = planned_for(key);
        CHECK_INT(planned.kind, REQUEST_BASKET);
        CHECK_INT(planned.count, 5);
        for (unsigned i = 0; i < planned.count; i++) {
            CHECK(planned.items[i] < 3);
            seen[planned.items[i]]++;
            twice += i > 0 && planned.items[i] == planned.items[i - 1];
        }
    }
    CHECK(seen[0] > 1000 && seen[1] > 1000 && seen[2] > 1000 && twice > 500);
    CHECK(plan_has(&plan, REQUEST_BASKET) && !plan_has(&plan, REQUEST_PURCHASE) &&
          !plan_has(&plan, REQUEST_TRANSFER));
}

/* Three of ten requests, between two different items, whatever their weights. */
static void test_transfers(void) {
    struct options options = {.items = 2, .seed = harness_seed(), .transfers = 30, .zipf = 5};
    int transfers = 0;
    int from_first = 0;
    begin(&options);
    for (uint32_t key = 0; key < 10000; key++) {
        struct planned_request planned = planned_for(key);
        CHECK(planned.kind == REQUEST_TRANSFER || planned.kind == REQUEST_PURCHASE);
        if (planned.kind == REQUEST_PURCHASE)
            continue;
        CHECK_INT(planned.count, 2);
        CHECK_INT(planned.items[0] + planned.items[1], 1);
        transfers++;
        from_first += planned.items[0] == 0;
    }
    CHECK(transfers > 2600 && transfers < 3400);
    CHECK(from_first > transfers * 9 / 10);
    CHECK(plan_has(&plan, REQUEST_PURCHASE) && plan_has(&plan, REQUEST_TRANSFER));
    options.transfers = 100;
    CHECK(!plan_has(&plan, REQUEST_PURCHASE));
    CHECK_INT(planned_for(5).kind, REQUEST_TRANSFER);
}

/* Of ten five purchases, two transfers and three baskets. */
static void test_mixture(void) {
    struct options options = {
        .items = 5, .seed = harness_seed(), .basket_lines = 4, .purchases = 50, .transfers = 20};
    int counts[REQUEST_KINDS] = {0};
    begin(&options);
    for (uint32_t key = 0; key < 10000; key++) {
        static const unsigned lines[REQUEST_KINDS] = {1, 4, 2};
        struct planned_request planned = planned_for(key);
        CHECK_INT(planned.count, lines[planned.kind]);
        counts[planned.kind]++;
    }
    CHECK(counts[REQUEST_PURCHASE] > 4600 && counts[REQUEST_PURCHASE] < 5400);
    CHECK(counts[REQUEST_TRANSFER] > 1600 && counts[REQUEST_TRANSFER] < 2400);
    for (int i = 0; i < REQUEST_KINDS; i++)
        CHECK(plan_has(&plan, (enum request_kind)i));
    options.purchases = 80;
    CHECK(plan_has(&plan, REQUEST_PURCHASE) && !plan_has(&plan, REQUEST_BASKET));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("plan: names of items", test_names);
    harness_run("plan: of one item", test_one);
    harness_run("plan: keys are spread evenly", test_even);
    harness_run("plan: by Zipf as often as the weights say", test_zipf);
    harness_run("plan: the seed decides", test_seed);
    harness_run("plan: baskets", test_baskets);
    harness_run("plan: transfers", test_transfers);
    harness_run("plan: a mixture", test_mixture);
    return harness_finish();
}
