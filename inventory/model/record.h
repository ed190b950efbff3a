/* The texts that the store keeps of an item and its orders. stock.lua tells where.
 *
 * The record of an order stands under the digest of its key:
 *
 *     STATE[VERSION] QUANTITY USER CREATED_MS [EXPIRES_MS][ TAG=VALUE]…        an order by itself
 *     STATE[VERSION] QUANTITY USER CREATED_MS EXPIRES_MS BASKET[ TAG=VALUE]…   a line of a basket
 *
 * STATE is h held, p paying, c confirmed, r returned, x cancelled or e expired; of a line also b held by its
 * basket or not decided yet, or u aborted, but not h. VERSION counts the order's changes from 1, and is left
 * out while it is 1: of two records of an order, the one with the higher version is the newer one. The tags,
 * each at most once and in this order:
 *
 *     p  the reference of the payment
 *     s  when the order was confirmed, cancelled or expired (ms); left out where it was born confirmed
 *     l  1: confirmed late, after it had expired
 *     r  units that were returned
 *     d  1: a confirm came too late, and was refused for good: its payment is to be refunded */
#ifndef INVENTORY_MODEL_RECORD_H
#define INVENTORY_MODEL_RECORD_H

#include "base/redis/resp.h"
#include "inventory/inventory.h"

enum { RECORD_SIZE = 400 };

void record_print(char out[RECORD_SIZE], const struct inventory_order *order);
/* Reads a record of `item` and `digest` into `order`; false if the text is not a record. */
bool record_read(struct inventory_order *order, const char *item, const char *digest, const char *record);

/* ---- an item: the terms of its sale, and its counters ---- */

/* INITIAL LIMIT STARTS ENDS HOLD PAY STRATEGY */
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
