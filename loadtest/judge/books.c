#include <jansson.h>

#include "loadtest/judge/books.h"

bool books_read(const char *json, size_t length, struct books *books) {
    json_t *root = json_loadb(json, length, 0, NULL);
    struct books read = {0};
    int conserved = 0;
    int exact = 1; /* other sellers may not have it */
    long long held = 0;
    long long sold = 0;
    bool good =
        json_unpack(root, "{s:b, s?b, s:I, s:I, s:I, s:I, s:I, s:I}", "conserved", &conserved, "exact",
                    &exact, "stock", &read.stock, "available", &read.available, "held", &read.held, "sold",
                    &read.sold, "orders", &read.orders, "oversold", &read.oversold) == 0;
    read.has_counters =
        json_unpack(json_object_get(root, "counters"), "{s:I, s:I}", "held", &held, "sold", &sold) == 0;
    read.conserved = conserved != 0;
    read.exact = exact != 0;
    read.counted = held + sold;
    json_decref(root);
    if (good)
        *books = read;
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
