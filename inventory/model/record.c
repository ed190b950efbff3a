#include "inventory/model/record.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

/* The letter of each enum inventory_state; the last letter is of a held order of a basket. */
static const char state_letters[] = "hcxeub";
enum { STATE_OF_BASKET = INVENTORY_STATES };

void inventory_key_digest(const char *user, const char *key, size_t length,
                          char digest[INVENTORY_DIGEST_SIZE]) {
    unsigned char hash[16];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    if (*user) /* and its NUL, which neither a user nor a key can have */
        crypto_generichash_update(&state, (const unsigned char *)user, strlen(user) + 1);
    crypto_generichash_update(&state, (const unsigned char *)key, length);
    crypto_generichash_final(&state, hash, sizeof hash);
    sodium_bin2base64(digest, INVENTORY_DIGEST_SIZE, hash, sizeof hash,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

bool inventory_digest_valid(const char *text) {
    static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return strspn(text, base64url) == INVENTORY_DIGEST_SIZE - 1 && text[INVENTORY_DIGEST_SIZE - 1] == '\0';
}

void record_print(char out[RECORD_SIZE], const struct inventory_order *order) {
    char *at = out;
    *at++ = state_letters[order->pending ? STATE_OF_BASKET : (int)order->state];
    if (order->version > 1)
        at = decimal_append(at, (uint64_t)order->version);
    *at++ = ' ';
    at = decimal_append(at, (uint64_t)order->quantity);
    at = stpcpy(stpcpy(stpcpy(at, " "), order->user), " ");
    at = decimal_append(at, (uint64_t)order->created_ms);
    if (order->expires_ms || order->basket[0])
        at = decimal_append(stpcpy(at, " "), (uint64_t)order->expires_ms);
    if (order->basket[0])
        stpcpy(stpcpy(at, " "), order->basket);
}

/* Reads digits up to a blank or the end, and skips the blank. False: no digits, too many, or nothing after
 * the blank. */
static bool record_read_number(const char **at, int64_t *number) {
    const char *start = *at, *p = start;
    int64_t value = 0;
    while (*p >= '0' && *p <= '9' && p - start < 16)
        value = value * 10 + (*p++ - '0');
    if (p == start || (*p && (*p != ' ' || !p[1])))
        return false;
    *number = value;
    *at = *p ? p + 1 : p;
    return true;
}

/* After the letter: the version, which is left out while it is 1, and a blank. */
static bool record_read_version(const char **at, int64_t *version) {
    *version = 1;
    if (**at == ' ')
        return *++*at != '\0';
    return record_read_number(at, version) && *version > 1 && **at;
}

/* What follows CREATED_MS: nothing, EXPIRES_MS, or EXPIRES_MS and BASKET. */
static bool record_read_rest(const char *at, struct inventory_order *order) {
    if (*at && !record_read_number(&at, &order->expires_ms))
        return false;
    if (*at && !inventory_digest_valid(at))
        return false;
    snprintf(order->basket, sizeof order->basket, "%s", at);
    return true;
}

bool record_read(struct inventory_order *order, const char *item, const char *digest, const char *record) {
    struct inventory_order read = {.quantity = 0};
    const char *letter = record[0] ? strchr(state_letters, record[0]) : NULL;
    const char *at = record + 1;
    if (!letter || !record_read_version(&at, &read.version))
        return false;
    read.pending = letter - state_letters == STATE_OF_BASKET;
    read.state = read.pending ? INVENTORY_STATE_HELD : (enum inventory_state)(letter - state_letters);
    if (!record_read_number(&at, &read.quantity))
        return false;
    size_t user_length = strcspn(at, " ");
    if (user_length == 0 || user_length > INVENTORY_NAME_MAX || at[user_length] != ' ')
        return false;
    memcpy(read.user, at, user_length);
    at += user_length + 1;
    if (!record_read_number(&at, &read.created_ms) || !record_read_rest(at, &read))
        return false;
    /* Only a confirmed order, or a line of a basket, may lack the time at which its hold expires. */
    if (read.expires_ms == 0 && read.state != INVENTORY_STATE_CONFIRMED && !read.basket[0])
        return false;
    bool by_basket = read.pending || read.state == INVENTORY_STATE_ABORTED;
    bool by_itself = read.state == INVENTORY_STATE_HELD && !read.pending;
    if (read.basket[0] ? by_itself : by_basket)
        return false;
    snprintf(read.item, sizeof read.item, "%s", item);
    snprintf(read.id, sizeof read.id, "%s:%s", item, digest);
    *order = read;
    return true;
}
