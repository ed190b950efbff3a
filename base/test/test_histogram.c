#include <stdlib.h>

#include "base/histogram.h"
#include "test/harness.h"

static struct histogram *empty(void) {
    return harness_alloc(sizeof(struct histogram));
}

static void test_empty(void) {
    struct histogram *h = empty();
    CHECK_INT(histogram_quantile(h, 0.5), 0);
    CHECK_INT(h->max, 0);
}

static void test_one(void) {
    struct histogram *h = empty();
    histogram_record(h, 123456789);
    CHECK_INT(histogram_quantile(h, 0), 123456789);
    CHECK_INT(histogram_quantile(h, 0.5), 123456789);
    CHECK_INT(histogram_quantile(h, 1), 123456789);
}

static void test_small_are_exact(void) {
    struct histogram *h = empty();
    for (uint64_t value = 0; value < 256; value++)
        histogram_record(h, value);
    CHECK_INT(histogram_quantile(h, 0.5), 127);
    CHECK_INT(histogram_quantile(h, 0.25), 63);
    CHECK_INT(histogram_quantile(h, 1), 255);
}

static void test_ends_of_range(void) {
    struct histogram *h = empty();
    histogram_record(h, 0);
    histogram_record(h, UINT64_MAX);
    CHECK_INT(histogram_quantile(h, 0.5), 0);
    CHECK(histogram_quantile(h, 1) == UINT64_MAX);
}

/* Each value alone, below a far larger one that keeps the maximum out of the way. */
static void test_every_power(void) {
    for (unsigned bit = 0; bit < 63; bit++) {
        for (int64_t by = -1; by <= 1; by++) {
            struct histogram *h = empty();
            uint64_t value = (UINT64_C(1) << bit) + (uint64_t)by;
            histogram_record(h, value);
            histogram_record(h, UINT64_MAX);
            uint64_t read = histogram_quantile(h, 0.5);
            CHECK(read >= value);
            CHECK(read - value <= value / 100);
        }
    }
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_against_sorting(void) {
    enum { COUNT = 20000 };
    static const double fractions[] = {0.01, 0.5, 0.9, 0.99, 0.999, 1};
    uint64_t state = harness_seed();
    uint64_t *values = harness_alloc(COUNT * sizeof *values);
    struct histogram *h = empty();
    for (int i = 0; i < COUNT; i++) {
        values[i] = harness_random(&state) >> (harness_random(&state) % 50);
        histogram_record(h, values[i]);
    }
    qsort(values, COUNT, sizeof *values, compare);
    for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; i++) {
        size_t rank = (size_t)(fractions[i] * COUNT);
        uint64_t exact = values[rank - 1];
        uint64_t read = histogram_quantile(h, fractions[i]);
        CHECK(read >= exact);
        CHECK(read - exact <= exact / 100);
    }
    CHECK(h->max == values[COUNT - 1]);
    CHECK_INT(h->total, COUNT);
}

static void test_add(void) {
    struct histogram *odd = empty(), *even = empty();
    for (uint64_t value = 1; value <= 100000; value++)
        histogram_record(value % 2 ? odd : even, value);
    histogram_add(odd, even);
    CHECK_INT(odd->total, 100000);
    CHECK_INT(odd->max, 100000);
    for (int percent = 1; percent <= 99; percent++) {
        uint64_t exact = (uint64_t)percent * 1000, read = histogram_quantile(odd, percent / 100.0);
        CHECK(read >= exact && read <= exact + exact / 128 + 1);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("histogram: empty", test_empty);
    harness_run("histogram: one value is every quantile", test_one);
    harness_run("histogram: small values are exact", test_small_are_exact);
    harness_run("histogram: nothing and the largest number", test_ends_of_range);
    harness_run("histogram: at most 1 % off around every power of two", test_every_power);
    harness_run("histogram: quantiles as by sorting, at most 1 % off", test_against_sorting);
    harness_run("histogram: two added up", test_add);
    return harness_finish();
}
