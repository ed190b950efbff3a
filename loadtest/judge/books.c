#include <jansson.h>

#include "loadtest/judge/books.h"

static bool read_integer(const json_t *object, const char *name, int64_t *number) {
    const json_t *value = json_object_get(object, name);
    *number = json_integer_value(value);
    return json_is_integer(value);
}

bool books_read(const char *json, size_t length, struct books *books) {
    json_t *root = json_loadb(json, length, 0, NULL);
    const json_t *conserved = json_object_get(root, "conserved");
    const json_t *exact = json_object_get(root, "exact"); /* other sellers may not have it */
    struct books read = {.conserved = json_is_true(conserved), .exact = exact == NULL || json_is_true(exact)};
    bool good = json_is_boolean(conserved) && (exact == NULL || json_is_boolean(exact)) &&
                read_integer(root, "stock", &read.stock) &&
                read_integer(root, "available", &read.available) && read_integer(root, "held", &read.held) &&
                read_integer(root, "sold", &read.sold) && read_integer(root, "orders", &read.orders) &&
                read_integer(root, "oversold", &read.oversold);
    const json_t *counters = json_object_get(root, "counters");
    int64_t held = 0;
    int64_t sold = 0;
    read.has_counters = read_integer(counters, "held", &held) && read_integer(counters, "sold", &sold);
    read.counted = held + sold;
    json_decref(root);
    if (good) {
        *books = read;
    }
    return good;
}

struct books books_sum(const struct books *books, uint32_t count) {
    struct books sum = {.conserved = true, .has_counters = true};
    for (uint32_t i = 0; i < count; i++) {
        sum.conserved = sum.conserved && books[i].conserved;
        sum.stock += books[i].stock;
        sum.available += books[i].available;
        sum.held += books[i].held;
        sum.sold += books[i].sold;
        sum.orders += books[i].orders;
        sum.oversold += books[i].oversold;
        sum.has_counters = sum.has_counters && books[i].has_counters;
        sum.counted += books[i].counted;
    }
    return sum;
}
