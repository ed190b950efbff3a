#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/test/seller.h"
#include "loadtest/test/seller_books.h"

enum { EXTRA = 5 };

void books_say(struct books_answer *answer, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer->body, sizeof answer->body, format, arguments);
    va_end(arguments);
    answer->status = status;
}

void books_print_order(char *text, size_t size, const struct books_order *order) {
    snprintf(text, size,
             "{\"order\":\"%s:%d\",\"item\":\"%s\",\"user\":\"%s\",\"quantity\":%d,\"state\":\"%s\"}",
             order->item->name, order->number, order->item->name, order->user, order->quantity,
             order->cancelled ? "cancelled" : "confirmed");
}

static void say_order(struct books_answer *answer, int status, const struct books_order *order) {
    books_print_order(answer->body, sizeof answer->body, order);
    answer->status = status;
}

void books_write(struct books *books, struct books_order *order) {
    if (books->order_count == ORDERS_MAX)
        return;
    books->orders[books->order_count++] = *order;
    order->item->order_count++;
    order->item->units += order->quantity;
}

void books_sell(struct books *books, struct books_order *order) {
    struct books_item *item = order->item;
    struct books_order written = *order;
    item->available -= order->quantity;
    written.number = order->number = ++item->sold;
    bool tenth = order->number % 10 == 0;
    if (tenth && (item->faults & SELLER_LOSES))
        return;
    if (tenth && (item->faults & SELLER_ALTERS))
        snprintf(written.user, sizeof written.user, "somebody-else");
    written.cancelled = tenth && (item->faults & SELLER_CANCELS);
    books_write(books, &written);
    if (tenth && (item->faults & SELLER_PHANTOM) && item->available >= order->quantity) {
        written.number = ++item->sold;
        written.key[0] = '\0';
        item->available -= order->quantity;
        books_write(books, &written);
    }
}

void books_copy_after(const char *text, const char *before, const char *end, char *value, size_t size) {
    const char *at = strstr(text, before);
    at = at != NULL ? at + strlen(before) : "";
    snprintf(value, size, "%.*s", (int)strcspn(at, end), at);
}

static int to_int(const char *digits) {
    return (int)strtol(digits, NULL, 10);
}

struct books_item *books_find_item(struct books *books, const char *text, const char *before,
                                   const char *end) {
    char name[64];
    books_copy_after(text, before, end, name, sizeof name);
    for (int i = 0; i < books->item_count; i++) {
        if (strcmp(books->items[i].name, name) == 0)
            return &books->items[i];
    }
    return NULL;
}

int books_least(const struct books_item *item) {
    return item->faults & SELLER_OVERSELLS ? -EXTRA : item->faults & SELLER_UNDERSELLS ? EXTRA : 0;
}

static const struct books_order *find_order(const struct books *books, const char *key) {
    const struct books_order *known = NULL;
    for (int i = 0; i < books->order_count; i++) {
        if (strcmp(books->orders[i].key, key) == 0)
            known = &books->orders[i];
    }
    return known;
}

/* Counts an attempt of the request's key, and returns what to do with its answer. */
static enum books_mischief try_key(struct books *books, const char *request, unsigned faults) {
    char text[64];
    books_copy_after(request, "Idempotency-Key: ", "\r", text, sizeof text);
    int key = strlen(text) > 10 ? to_int(text + strlen(text) - 10) % KEYS_MAX : 0;
    bool early = books->tries[key]++ < 2;
    books->requests++;
    if (key % 3 != 0)
        return BOOKS_HONEST;
    if (faults & SELLER_SILENT)
        return BOOKS_SILENCE;
    if (!early)
        return BOOKS_HONEST;
    return faults & SELLER_SAYS_503        ? BOOKS_503
           : faults & SELLER_DROPS_REPLIES ? BOOKS_DROP
           : faults & SELLER_GARBLES       ? BOOKS_GARBLE
                                           : BOOKS_HONEST;
}

static void buy(struct books *books, struct books_item *item, const char *request,
                struct books_answer *answer) {
    struct books_order order = {.item = item};
    char quantity[16];
    books_copy_after(request, "Idempotency-Key: ", "\r", order.key, sizeof order.key);
    books_copy_after(request, "\"user\":\"", "\"", order.user, sizeof order.user);
    books_copy_after(request, "\"quantity\":", "}", quantity, sizeof quantity);
    order.quantity = to_int(quantity);
    const struct books_order *known = item->faults & SELLER_SELLS_TWICE ? NULL : find_order(books, order.key);
    if (known != NULL && known->item != item) {
        books_say(answer, 422, "{\"type\":\"/problems/key-reused\"}");
    } else if (known != NULL && !(item->faults & SELLER_FORGETS)) {
        say_order(answer, 201, known);
        answer->replayed = true;
    } else if (known != NULL || item->available - order.quantity < books_least(item)) {
        books_say(answer, 409, "{\"type\":\"/problems/sold-out\",\"available\":%d}",
                  item->available > 0 ? item->available : 0);
    } else {
        books_sell(books, &order);
        say_order(answer, 201, &order);
    }
}

static void audit(struct books_item *item, const char *request, struct books_answer *answer) {
    item->audits++;
    if (strstr(request, "Authorization: Bearer test-token\r\n") == NULL) {
        books_say(answer, 401, "{\"type\":\"/problems/unauthorized\"}");
        return;
    }
    bool once = (item->faults & SELLER_AUDITS_ONCE) != 0, inexact = (item->faults & SELLER_INEXACT) != 0;
    if (inexact && item->audits > 1 && (once || item->audits < 4)) {
        books_say(answer, 200,
                  "{\"conserved\":true,\"exact\":false,\"off_by\":1,\"stock\":%d,\"available\":0,\"held\":0,"
                  "\"sold\":0,\"orders\":0,\"oversold\":0}",
                  item->stock);
        return;
    }
    if (item->audits > 1 && once) {
        books_say(answer, 503, "{\"type\":\"/problems/store-unavailable\"}");
        return;
    }
    bool lies = (item->faults & SELLER_LIES) != 0, unbalanced = (item->faults & SELLER_UNBALANCED) != 0;
    char counters[64] = ""; /* not all sellers have them */
    if (unbalanced)
        snprintf(counters, sizeof counters, ",\"counters\":{\"held\":0,\"sold\":%d}", item->units + 7);
    books_say(answer, 200,
              "{\"conserved\":%s,\"stock\":%d,\"available\":%d,\"held\":0,\"sold\":%d,\"orders\":%d,"
              "\"oversold\":%d,\"pending\":0%s}",
              unbalanced ? "false" : "true", item->stock, item->available > 0 ? item->available : 0,
              lies ? item->sold : item->units, lies ? item->sold : item->order_count,
              lies || item->available > 0 ? 0 : -item->available, counters);
}

static void show_order(const struct books *books, const struct books_item *item, const char *request,
                       struct books_answer *answer) {
    int number = to_int(strchr(request, ':') + 1);
    books_say(answer, 404, "{\"type\":\"/problems/unknown-order\"}");
    for (int i = 0; i < books->order_count; i++) {
        if (books->orders[i].item == item && books->orders[i].number == number)
            say_order(answer, 200, &books->orders[i]);
    }
}

static enum books_mischief sell(struct books *books, const char *request, struct books_answer *answer) {
    bool basket = strncmp(request, "POST /v1/baskets ", 17) == 0;
    bool transfer = strncmp(request, "POST /v1/transfers ", 19) == 0;
    struct books_item *item = books_find_item(books, request, "\"item\":\"", "\"");
    if (item == NULL && !transfer) {
        books_say(answer, 404, "{\"type\":\"/problems/unknown-item\"}");
        return BOOKS_HONEST;
    }
    enum books_mischief mischief = try_key(books, request, basket || transfer ? books->faults : item->faults);
    if (mischief == BOOKS_SILENCE)
        return mischief;
    if (basket)
        books_basket(books, request, answer);
    else if (transfer)
        books_transfer(books, request, answer);
    else
        buy(books, item, request, answer);
    if (mischief == BOOKS_503)
        books_say(answer, 503, "{\"type\":\"/problems/overloaded\"}");
    return mischief;
}

enum books_mischief books_decide(struct books *books, const char *request, struct books_answer *answer) {
    struct books_item *item = NULL;
    if (strncmp(request, "POST ", 5) == 0)
        return sell(books, request, answer);
    if (strncmp(request, "GET /v1/orders/", 15) == 0) {
        item = books_find_item(books, request, "GET /v1/orders/", ":");
        if (item != NULL)
            show_order(books, item, request, answer);
    } else {
        item = books_find_item(books, request, "GET /v1/items/", "/");
        if (item != NULL)
            audit(item, request, answer);
    }
    if (item == NULL)
        books_say(answer, 404, "{\"type\":\"/problems/unknown-item\"}");
    return BOOKS_HONEST;
}

void books_close(struct books *books) {
    for (int i = 0; i < books->deed_count; i++)
        free(books->deeds[i].told);
}
