/* The hash of an item: its counters, the terms of its sale, and the reasons by which the terms refuse. */
#ifndef INVENTORY_STORE_ITEM_TERMS_H
#define INVENTORY_STORE_ITEM_TERMS_H

#include "base/redis/async/connection.h"
#include "inventory/inventory.h"

/* INITIAL LIMIT STARTS ENDS HOLD STRATEGY */
enum { ITEM_TERMS_SIZE = 160 };
void item_terms_print(char out[ITEM_TERMS_SIZE], const struct inventory_item *item);
/* Sets only the terms of `item`. False: the text is not the terms of an item. */
bool item_terms_read(struct inventory_item *item, const char *terms);

enum { ITEM_FIELDS = 6 };
/* The fields that item_read() reads, in its order. */
extern const char *const item_fields[ITEM_FIELDS];

/* Prints the HMGET whose reply item_read() reads. */
enum { ITEM_ARGC = 2 + ITEM_FIELDS };
void item_command(const char *argv[ITEM_ARGC], const char *key);
/* Reads the reply to an HMGET of item_fields; false if there is no such item. */
bool item_read(struct inventory_item *item, const char *name, const struct redis_value *value);

/* OK, NOT_STARTED or ENDED; a bound of 0 is none. */
enum inventory_status terms_judge_time(int64_t now_ms, int64_t starts_ms, int64_t ends_ms);
/* The status for a script's word that refuses a line; false: the word is unknown. */
bool terms_refusal(const char *word, enum inventory_status *status);

#endif
