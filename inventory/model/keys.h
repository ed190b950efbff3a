/* The keys in the store. An item belongs to one of ITEM_PARTS parts, by its name; all keys of a part share a
 * hash tag, so that on Redis Cluster one script reaches several items. stock.lua tells what is under them.
 * And other texts of calls: fields, tokens, numbers. */
#ifndef INVENTORY_MODEL_KEYS_H
#define INVENTORY_MODEL_KEYS_H

#include "inventory/inventory.h"

/* Neither number must change: they decide in which part a name is. */
enum { ITEM_PARTS = 64, KEY_PARTS = 8 };

unsigned item_part(const char *item);
/* The part of a transaction: the journal's keys are spread over KEY_PARTS slots. */
unsigned key_part(const char *name);

enum { SALE_KEY_SIZE = INVENTORY_NAME_MAX + 24, DUE_KEY_SIZE = 24, FIELD_SIZE = INVENTORY_DIGEST_SIZE + 1 };

struct sale_keys {
    unsigned part;
    char item[SALE_KEY_SIZE];     /* hash: the item itself */
    char holds[SALE_KEY_SIZE];    /* sorted set: digest by expiry */
    char due[DUE_KEY_SIZE];       /* sorted set: the keys of the part's items by their next expiry */
    char events[SALE_KEY_SIZE];   /* stream: every change of an order, and every restock */
    char shortage[SALE_KEY_SIZE]; /* hash: digest -> record of an order that does not fit; see putback.lua */
    char token[SALE_KEY_SIZE];    /* the newest fencing token seen */
};

void sale_keys_make(struct sale_keys *keys, const char *item);
/* Prints keys->due of a part. */
void due_key_make(char key[DUE_KEY_SIZE], unsigned part);
/* The item's name in its key, into which it points; NULL: the key is not an item's. */
const char *item_of_key(const char *key);

/* Prefixes of fields of an item: a user's units; what a restock or a transfer did. */
#define USER_FIELD "@"
#define MOVE_FIELD "+"
void move_field_make(char field[FIELD_SIZE], const char *digest);

/* A random name, in the form of a digest. */
void digest_draw(char digest[INVENTORY_DIGEST_SIZE]);
/* The index of the text among these, some of which may be NULL; -1: it is not there. */
int text_index(const char *const texts[], int count, const char *text);

/* A number as an argument of a call. */
struct number {
    char text[24];
};
struct number number_of(int64_t number);

enum { FENCING_TOKEN_SIZE = 42 };
/* Prints EPOCH:FENCE, each with leading zeros, so that the texts sort as the tokens do. */
void fencing_token_print(char out[FENCING_TOKEN_SIZE], const struct inventory_fencing_token *token);

/* The keys of one part of the journal of transactions; see journal.lua. */
struct journal_keys {
    char journal[32], open[32], epoch[32];
};

void journal_keys_make(struct journal_keys *keys, unsigned part);

#endif
