#include "inventory/model/keys.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* ---- names and digests ---- */

/* Whether the text has 1 to `max` letters, digits and characters of `others`. */
static bool name_consists_of(const char *name, size_t length, size_t max, const char *others) {
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c && strchr(others, c))))
            return false;
    }
    return length >= 1 && length <= max;
}

bool inventory_name_valid(const char *name, size_t length) {
    return name_consists_of(name, length, INVENTORY_NAME_MAX, "._-");
}

bool inventory_user_valid(const char *user, size_t length) {
    return name_consists_of(user, length, INVENTORY_USER_MAX, "._-@:|+=~");
}

bool inventory_payment_valid(const char *payment, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (payment[i] < 0x21 || payment[i] > 0x7e)
            return false;
    }
    return length >= 1 && length <= INVENTORY_PAYMENT_MAX;
}

enum { DIGEST_BYTES = 16 };

static void digest_print(char digest[INVENTORY_DIGEST_SIZE], const unsigned char bytes[DIGEST_BYTES]) {
    sodium_bin2base64(digest, INVENTORY_DIGEST_SIZE, bytes, DIGEST_BYTES,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

void inventory_key_digest(const char *user, const char *key, size_t length,
                          char digest[INVENTORY_DIGEST_SIZE]) {
    unsigned char hash[DIGEST_BYTES];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    if (*user) /* and its NUL, which neither a user nor a key can have */
        crypto_generichash_update(&state, (const unsigned char *)user, strlen(user) + 1);
    crypto_generichash_update(&state, (const unsigned char *)key, length);
    crypto_generichash_final(&state, hash, sizeof hash);
    digest_print(digest, hash);
}

void digest_draw(char digest[INVENTORY_DIGEST_SIZE]) {
    unsigned char random[DIGEST_BYTES];
    randombytes_buf(random, sizeof random);
    digest_print(digest, random);
}

bool inventory_digest_valid(const char *text) {
    static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return strspn(text, base64url) == INVENTORY_DIGEST_SIZE - 1 && text[INVENTORY_DIGEST_SIZE - 1] == '\0';
}

int text_index(const char *const texts[], int count, const char *text) {
    int i = count - 1;
    while (i >= 0 && !(texts[i] && strcmp(texts[i], text) == 0))
        i--;
    return i;
}

/* ---- keys ---- */

/* FNV-1a: the same in all processes. */
static uint32_t keys_hash(const char *name) {
    uint32_t hash = 2166136261U;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return hash;
}

unsigned item_part(const char *item) {
    return keys_hash(item) % ITEM_PARTS;
}

unsigned key_part(const char *name) {
    return keys_hash(name) % KEY_PARTS;
}

void sale_keys_make(struct sale_keys *keys, const char *item) {
    keys->part = item_part(item);
    snprintf(keys->item, SALE_KEY_SIZE, "seckill:{%u}:%s", keys->part, item);
    snprintf(keys->holds, SALE_KEY_SIZE, "seckill:{%u}:%s:holds", keys->part, item);
    snprintf(keys->events, SALE_KEY_SIZE, "seckill:{%u}:%s:events", keys->part, item);
    snprintf(keys->shortage, SALE_KEY_SIZE, "seckill:{%u}:%s:shortage", keys->part, item);
    snprintf(keys->token, SALE_KEY_SIZE, "seckill:{%u}:%s:token", keys->part, item);
    due_key_make(keys->due, keys->part);
}

void due_key_make(char key[DUE_KEY_SIZE], unsigned part) {
    snprintf(key, DUE_KEY_SIZE, "seckill:due:{%u}", part);
}

const char *item_of_key(const char *key) {
    const char *item = strstr(key, "}:");
    struct sale_keys keys;
    if (!item || !inventory_name_valid(item + 2, strlen(item + 2)))
        return NULL;
    sale_keys_make(&keys, item + 2);
    return strcmp(keys.item, key) == 0 ? item + 2 : NULL;
}

void move_field_make(char field[FIELD_SIZE], const char *digest) {
    snprintf(field, FIELD_SIZE, MOVE_FIELD "%s", digest);
}

struct number number_of(int64_t number) {
    struct number out;
    snprintf(out.text, sizeof out.text, "%lld", (long long)number);
    return out;
}

void fencing_token_print(char out[FENCING_TOKEN_SIZE], const struct inventory_fencing_token *token) {
    snprintf(out, FENCING_TOKEN_SIZE, "%020llu:%020llu", (unsigned long long)token->epoch,
             (unsigned long long)token->fence);
}

void journal_keys_make(struct journal_keys *keys, unsigned part) {
    snprintf(keys->journal, sizeof keys->journal, "seckill:{baskets:%u}:journal", part);
    snprintf(keys->open, sizeof keys->open, "seckill:{baskets:%u}:open", part);
    snprintf(keys->epoch, sizeof keys->epoch, "seckill:{baskets:%u}:epoch", part);
}
