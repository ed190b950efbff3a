/* Baskets and transfers of the seller: all or nothing, and every fault of that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/test/seller.h"
#include "loadtest/test/seller_books.h"

enum { LINES_MAX = 32, ORDER_TEXT = 256 };

struct basket {
    struct books_order lines[LINES_MAX];
    int count;
};

static const struct books_deed *find_deed(const struct books *books, const char *key) {
    for (int i = books->deed_count - 1; i >= 0; i--) {
        if (strcmp(books->deeds[i].key, key) == 0)
            return &books->deeds[i];
    }
    return NULL;
}

static void remember(struct books *books, const char *key, const struct books_answer *answer) {
    if (books->deed_count == DEEDS_MAX)
        return;
    struct books_deed *deed = &books->deeds[books->deed_count++];
    snprintf(deed->key, sizeof deed->key, "%s", key);
    deed->told = strdup(answer->body);
    deed->status = answer->status;
}

/* True if the key was carried out before and this is the answer. */
static bool replay(const struct books *books, const char *key, struct books_answer *answer) {
    const struct books_deed *deed = books->faults & SELLER_SELLS_TWICE ? NULL : find_deed(books, key);
    if (deed == NULL)
        return false;
    if (books->faults & SELLER_FORGETS) {
        books_say(answer, 409, "{\"type\":\"/problems/sold-out\",\"available\":0}");
        return true;
    }
    books_say(answer, deed->status, "%.*s%s", (int)strlen(deed->told) - 1, deed->told,
              books->faults & SELLER_RETELLS ? ",\"again\":true}" : "}");
    answer->replayed = true;
    return true;
}

/* The units that the basket requests of a line's item, up to that line. */
static int asked(const struct basket *basket, int line) {
    int units = 0;
    for (int i = 0; i <= line; i++)
        units += basket->lines[i].item == basket->lines[line].item ? basket->lines[i].quantity : 0;
    return units;
}

/* The first line that cannot be sold, or -1. */
static int first_short(const struct basket *basket) {
    for (int i = 0; i < basket->count; i++) {
        const struct books_item *item = basket->lines[i].item;
        if (item->available - asked(basket, i) < books_least(item))
            return i;
    }
    return -1;
}

static bool read_basket(struct books *books, const char *request, const char *key, struct basket *basket) {
    char user[64];
    books_copy_after(request, "\"user\":\"", "\"", user, sizeof user);
    const char *at = strstr(request, "\"lines\":[");
    for (basket->count = 0; at != NULL && (at = strstr(at, "{\"item\"")) != NULL && basket->count < LINES_MAX;
         at++) {
        struct books_order *line = &basket->lines[basket->count++];
        char quantity[16];
        *line = (struct books_order){.item = books_find_item(books, at, "\"item\":\"", "\"")};
        if (line->item == NULL)
            return false;
        books_copy_after(at, "\"quantity\":", "}", quantity, sizeof quantity);
        line->quantity = (int)strtol(quantity, NULL, 10);
        snprintf(line->key, sizeof line->key, "%s", key);
        snprintf(line->user, sizeof line->user, "%s", user);
    }
    return basket->count > 0;
}

/* The line at place `place` of the answer. */
static struct books_order told_line(const struct basket *basket, int place, unsigned faults) {
    struct books_order told = basket->lines[place];
    if (faults & SELLER_MIXES_UP)
        told = basket->lines[basket->count - 1 - place];
    if (faults & SELLER_MISCOUNTS)
        told.quantity += place == 0;
    if ((faults & SELLER_SAME_ORDER) && place > 0)
        told = basket->lines[0];
    if (faults & SELLER_MISNAMES)
        snprintf(told.user, sizeof told.user, "somebody-else");
    return told;
}

static void say_basket(struct books_answer *answer, const struct basket *basket, int number,
                       unsigned faults) {
    char orders[(LINES_MAX + 1) * ORDER_TEXT] = "";
    int count = basket->count - (faults & SELLER_OMITS ? 1 : 0);
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        struct books_order told = told_line(basket, i, faults);
        char text[ORDER_TEXT];
        books_print_order(text, sizeof text, &told);
        bool twice = i == count - 1 && (faults & SELLER_REPEATS);
        length += (size_t)snprintf(orders + length, sizeof orders - length, "%s%s%s%s", i > 0 ? "," : "",
                                   text, twice ? "," : "", twice ? text : "");
    }
    books_say(answer, 201,
              "{\"basket\":\"basket-%d\",\"user\":\"%s\",\"state\":\"confirmed\",\"orders\":[%s]}", number,
              basket->lines[0].user, orders);
}

static void refuse_basket(struct books *books, struct basket *basket, int line, struct books_answer *answer) {
    const struct books_item *item = basket->lines[line].item;
    books_say(answer, 409, "{\"type\":\"/problems/sold-out\",\"line\":%d,\"item\":\"%s\",\"available\":%d}",
              line, item->name, item->available > 0 ? item->available : 0);
    if (++books->refused % 10 == 0 && (books->faults & SELLER_KEEPS_LINE) && line > 0)
        books_sell(books, &basket->lines[0]);
}

static void buy_basket(struct books *books, const char *key, struct basket *basket,
                       struct books_answer *answer) {
    int missing = first_short(basket);
    if (missing >= 0) {
        refuse_basket(books, basket, missing, answer);
        return;
    }
    unsigned faults = (books->deed_count + 1) % 10 == 0 ? books->faults : 0;
    for (int i = 0; i < basket->count; i++)
        books_sell(books, &basket->lines[i]);
    if ((faults & SELLER_DOUBLES_LINE) && basket->lines[0].item->available >= basket->lines[0].quantity) {
        struct books_order again = basket->lines[0];
        books_sell(books, &again);
    }
    say_basket(answer, basket, books->deed_count + 1, faults);
    remember(books, key, answer);
}

void books_basket(struct books *books, const char *request, struct books_answer *answer) {
    struct basket basket;
    char key[64];
    books_copy_after(request, "Idempotency-Key: ", "\r", key, sizeof key);
    if (!read_basket(books, request, key, &basket))
        books_say(answer, 404, "{\"type\":\"/problems/unknown-item\"}");
    else if (!replay(books, key, answer))
        buy_basket(books, key, &basket, answer);
}

static void move(struct books_item *item, int units) {
    item->stock += units;
    item->available += units;
}

static void transfer(struct books *books, struct books_item *from, struct books_item *to, int units,
                     unsigned faults) {
    struct books_item *third = books->items;
    while (third == from || third == to)
        third++;
    if (faults & SELLER_MOVES_NOTHING)
        return;
    move(from, -units);
    if (faults & SELLER_MOVES_ASTRAY)
        move(third, units);
    else if (!(faults & SELLER_DRAINS))
        move(to, units);
    if ((faults & SELLER_MOVES_TWICE) && from->available >= units) {
        move(from, -units);
        move(to, units);
    }
}

static void do_transfer(struct books *books, const char *key, struct books_item *from, struct books_item *to,
                        int units, struct books_answer *answer) {
    if (from->available < units) {
        books_say(answer, 409, "{\"type\":\"/problems/sold-out\",\"available\":%d}",
                  from->available > 0 ? from->available : 0);
        return;
    }
    unsigned faults = ++books->moved % 10 == 0 ? books->faults : 0;
    transfer(books, from, to, units, faults);
    if (faults & SELLER_MOVES_REFUSED) {
        books_say(answer, 409, "{\"type\":\"/problems/sold-out\",\"available\":0}");
        return;
    }
    books_say(answer, 200, "{\"transfer\":\"transfer-%d\",\"from\":\"%s\",\"to\":\"%s\",\"quantity\":%d}",
              books->deed_count + 1, from->name, faults & SELLER_MISNAMES ? from->name : to->name,
              units + (faults & SELLER_MISCOUNTS ? 1 : 0));
    remember(books, key, answer);
}

void books_transfer(struct books *books, const char *request, struct books_answer *answer) {
    struct books_item *from = books_find_item(books, request, "\"from\":\"", "\"");
    struct books_item *to = books_find_item(books, request, "\"to\":\"", "\"");
    char key[64];
    char quantity[16];
    books_copy_after(request, "Idempotency-Key: ", "\r", key, sizeof key);
    books_copy_after(request, "\"quantity\":", "}", quantity, sizeof quantity);
    if (strstr(request, "Authorization: Bearer test-token\r\n") == NULL)
        books_say(answer, 401, "{\"type\":\"/problems/unauthorized\"}");
    else if (from == NULL || to == NULL || from == to)
        books_say(answer, 400, "{\"type\":\"/problems/invalid-request\"}");
    else if (!replay(books, key, answer))
        do_transfer(books, key, from, to, (int)strtol(quantity, NULL, 10), answer);
}
