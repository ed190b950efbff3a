/* Reads request bodies (codec_requests.c) and writes those of answers (codec_answers.c); only these two files
 * include jansson. The reader is strict: it refuses unknown or doubled fields, fractions and trailing text,
 * and its error names the field. */
#ifndef SERVICE_API_CODEC_H
#define SERVICE_API_CODEC_H

#include <stdbool.h>
#include <stddef.h>

#include "inventory/inventory.h"
#include "inventory/transactions.h"

struct codec_error {
    char field[32]; /* "body" if no field is wrong, but the whole; the name of an unknown field, with ? for
                       odd characters */
    char detail[160];
};

enum {
    CODEC_BODY_SIZE = 1024,
    CODEC_HEALTH_SIZE = 8192, /* with all servers of the store */
    CODEC_BASKET_SIZE = 512 + INVENTORY_LINES_MAX * (INVENTORY_ORDER_SIZE + 2 * INVENTORY_NAME_MAX + 160)
};

struct codec_purchase {
    char item[INVENTORY_NAME_MAX + 1], user[INVENTORY_NAME_MAX + 1];
    int64_t quantity;
};

bool codec_read_purchase(const char *body, size_t length, struct codec_purchase *purchase,
                         struct codec_error *error);

/* Reads the plain form of a purchase, which nearly all clients send: an object of the three fields, in any
 * order, without escapes and fractions. That takes 60 ns; codec_read_purchase() takes 970. It reads a plain
 * body to the same result, and all others, above all wrong ones. False: the body is not plain, and `purchase`
 * is untouched. */
bool codec_read_plain_purchase(const char *body, size_t length, struct codec_purchase *purchase);

/* Reads the terms of a sale, without the name. Defaults: no limit, no hold, no window, and `strategy`. */
bool codec_read_item(const char *body, size_t length, enum inventory_strategy strategy,
                     struct inventory_item *item, struct codec_error *error);

bool codec_read_restock(const char *body, size_t length, int64_t *quantity, struct codec_error *error);

/* Reads the user and the lines of a basket, or the two lines of a transfer. */
bool codec_read_basket(const char *body, size_t length, struct inventory_transaction *basket,
                       struct codec_error *error);
bool codec_read_transfer(const char *body, size_t length, struct inventory_transaction *transfer,
                         struct codec_error *error);

/* The URL in {"lock":URL}, as text. */
enum { CODEC_URL_SIZE = 512 };
bool codec_read_lock(const char *body, size_t length, char url[CODEC_URL_SIZE], struct codec_error *error);

/* Confirm and cancel take no body; {} is allowed. */
bool codec_read_nothing(const char *body, size_t length, struct codec_error *error);

/* Each returns the length of what it wrote. */
size_t codec_write_order(char out[CODEC_BODY_SIZE], const struct inventory_order *order);
/* Writes the basket in the state transaction->state, and its orders in the same state. */
size_t codec_write_basket(char out[CODEC_BASKET_SIZE], const struct inventory_transaction *basket);
size_t codec_write_transfer(char out[CODEC_BODY_SIZE], const struct inventory_transaction *transfer);
size_t codec_write_item(char out[CODEC_BODY_SIZE], const struct inventory_item *item);
size_t codec_write_restock(char out[CODEC_BODY_SIZE], const char *item,
                           const struct inventory_restock *restock);
size_t codec_write_audit(char out[CODEC_BODY_SIZE], const struct inventory_audit *audit);
size_t codec_write_audit_sum(char out[CODEC_BODY_SIZE], const struct inventory_audit_sum *sum);
/* `baskets` and `transfers` say whether they can be made. */
size_t codec_write_health(char out[CODEC_HEALTH_SIZE], const struct inventory_health *health, bool draining,
                          const char *baskets, const char *transfers);

#endif
