/* The stock of the seller for tests, and its answers. The caller ensures that one thread uses the books at a
 * time. */
#ifndef LOADTEST_TEST_SELLER_BOOKS_H
#define LOADTEST_TEST_SELLER_BOOKS_H

#include <stdbool.h>
#include <stddef.h>

enum { ORDERS_MAX = 8000, KEYS_MAX = 100000, ANSWER = 8192 };

struct books_item {
    char name[32];
    unsigned faults;
    int stock;
    int available; /* below zero once oversold */
    int audits;
    int sold;        /* orders acknowledged; numbers them */
    int order_count; /* of these: written */
    int units;       /* in them */
};

struct books_order {
    struct books_item *item;
    int number;
    int quantity;
    bool cancelled;
    char user[64];
};

/* A request that was carried out, and the answer to it. */
struct books_deed {
    char key[64];
    char *asked, *told; /* the bodies */
    int status;
};

struct books {
    unsigned faults; /* of baskets and transfers */
    struct books_item *items;
    int item_count;
    int requests;
    int order_count;
    int deed_count;
    int moved; /* transfers */
    struct books_order orders[ORDERS_MAX];
    struct books_deed deeds[ORDERS_MAX];
    unsigned char tries[KEYS_MAX];
};

struct books_answer {
    int status;
    bool replayed;
    char body[ANSWER];
};

/* What to do instead of sending the answer; the answer of a 503 is already that of the 503. */
enum books_mischief { BOOKS_HONEST, BOOKS_503, BOOKS_DROP, BOOKS_GARBLE, BOOKS_SILENCE };

enum books_mischief books_decide(struct books *books, const char *request, struct books_answer *answer);
void books_close(struct books *books);

/* The text between `before` and the first of the characters `end`; "" without `before`. */
void books_copy_after(const char *text, const char *before, const char *end, char *value, size_t size);

#endif
