#include <math.h>
#include <stdlib.h>
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
    check_zipf(0, 1000); /* evenly */
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

/* Of each kind there is its share, within four percent; a basket's lines are any items, a transfer is between
 * two different ones, whatever their weights. */
static void test_kinds(void) {
    enum { KEYS = 10000 };
    static const struct {
        unsigned items, basket_lines, purchases, transfers;
        double zipf;
        int shares[REQUEST_KINDS]; /* percent */
    } cases[] = {
        {0, 0, 0, 0, 0, {[REQUEST_PURCHASE] = 100}},
        {3, 5, 0, 0, 0, {[REQUEST_BASKET] = 100}},
        {2, 0, 0, 30, 5, {[REQUEST_PURCHASE] = 70, [REQUEST_TRANSFER] = 30}},
        {2, 0, 0, 100, 5, {[REQUEST_TRANSFER] = 100}},
        {5, 4, 50, 20, 0, {[REQUEST_PURCHASE] = 50, [REQUEST_BASKET] = 30, [REQUEST_TRANSFER] = 20}},
        {5, 4, 80, 20, 0, {[REQUEST_PURCHASE] = 80, [REQUEST_TRANSFER] = 20}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options = {.item = "demo",
                                  .items = cases[i].items,
                                  .seed = harness_seed(),
                                  .basket_lines = cases[i].basket_lines,
                                  .purchases = cases[i].purchases,
                                  .transfers = cases[i].transfers,
                                  .zipf = cases[i].zipf};
        const unsigned lines[REQUEST_KINDS] = {1, cases[i].basket_lines, 2};
        int counts[REQUEST_KINDS] = {0};
        begin(&options);
        for (uint32_t key = 0; key < KEYS; key++) {
            struct planned_request planned = planned_for(key);
            counts[planned.kind]++;
            CHECK_INT(planned.count, lines[planned.kind]);
            for (unsigned line = 0; line < planned.count; line++)
                CHECK(planned.items[line] < item_count(&options));
            CHECK(planned.kind != REQUEST_TRANSFER || planned.items[0] != planned.items[1]);
        }
        for (int kind = 0; kind < REQUEST_KINDS; kind++) {
            int share = cases[i].shares[kind];
            CHECK_INT(plan_has(&plan, (enum request_kind)kind), share > 0);
            CHECK(share % 100 == 0 ? counts[kind] == share * KEYS / 100
                                   : abs(counts[kind] - share * KEYS / 100) < KEYS / 25);
        }
        plan_free(&plan);
    }
}

/* The lines of a basket are drawn one by one, also twice the same; and transfers by weight, too. */
static void test_lines(void) {
    struct options options = {.items = 3, .seed = harness_seed(), .basket_lines = 5};
    int seen[3] = {0}, twice = 0, from_first = 0;
    begin(&options);
    for (uint32_t key = 0; key < 1000; key++) {
        struct planned_request planned = planned_for(key);
        for (unsigned i = 0; i < planned.count; i++) {
            seen[planned.items[i]]++;
            twice += i > 0 && planned.items[i] == planned.items[i - 1];
        }
    }
    CHECK(seen[0] > 1000 && seen[1] > 1000 && seen[2] > 1000 && twice > 500);
    plan_free(&plan);
    options = (struct options){.items = 2, .seed = harness_seed(), .transfers = 100, .zipf = 5};
    begin(&options);
    for (uint32_t key = 0; key < 1000; key++)
        from_first += planned_for(key).items[0] == 0;
    CHECK(from_first > 900);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("plan: names of items", test_names);
    harness_run("plan: items as often as their weights say", test_zipf);
    harness_run("plan: the seed decides", test_seed);
    harness_run("plan: kinds of requests, and their lines", test_kinds);
    harness_run("plan: the items of lines and transfers", test_lines);
    return harness_finish();
}
