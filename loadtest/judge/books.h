/* The seller's books of an item: its audit. */
#ifndef LOADTEST_JUDGE_BOOKS_H
#define LOADTEST_JUDGE_BOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct books {
    bool conserved;
    long long stock, available, held, sold;
    long long orders; /* with or without those that were returned */
    long long oversold;
    bool exact; /* nothing changed while the audit counted */
    /* What the item's own counters say, beside its orders, which the audit adds up. Not all sellers have
     * them. */
    bool has_counters;
    long long counted; /* units held or sold */
};

/* Reads the JSON answer to GET /v1/items/{item}/audit. */
bool books_read(const char *json, size_t length, struct books *books);

/* The books of `count` items as one: conserved only if each is. */
struct books books_sum(const struct books *books, uint32_t count);

#endif
