#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/test/seller.h"
#include "loadtest/test/seller_books.h"

enum { EXTRA = 5, LINES_MAX = 32, ORDER_TEXT = 256 };

/* ---- requests and answers ---- */

static void say(struct books_answer *answer, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct books_answer *answer, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer->body, sizeof answer->body, format, arguments);
    va_end(arguments);
    answer->status = status;
}

static int print_order(char text[ORDER_TEXT], const struct books_order *order) {
    return snprintf(text, ORDER_TEXT,
                    "{\"order\":\"%s:%d\",\"item\":\"%s\",\"user\":\"%s\",\"quantity\":%d,\"state\":\"%s\"}",
                    order->item->name, order->number, order->item->name, order->user, order->quantity,
                    order->cancelled ? "cancelled" : "confirmed");
}

void books_copy_after(const char *text, const char *before, const char *end, char *value, size_t size) {
    const char *at = strstr(text, before);
    at = at ? at + strlen(before) : "";
    snprintf(value, size, "%.*s", (int)strcspn(at, end), at);
}

static int number_after(const char *text, const char *before) {
    char digits[16];
    books_copy_after(text, before, "}", digits, sizeof digits);
    return (int)strtol(digits, NULL, 10);
}

/* The item with the name between them; NULL: none. */
static struct books_item *find_item(struct books *books, const char *text, const char *before,
                                    const char *end) {
    char name[64];
    books_copy_after(text, before, end, name, sizeof name);
    for (int i = 0; i < books->item_count; i++) {
        if (strcmp(books->items[i].name, name) == 0)
            return &books->items[i];
    }
    return NULL;
}

/* ---- repeated keys ---- */

/* Counts an attempt of the request's key, and returns what to do with its answer. */
static enum books_mischief try_key(struct books *books, const char *key_text, unsigned faults) {
    size_t length = strlen(key_text);
    int key = length > 10 ? (int)(strtol(key_text + length - 10, NULL, 10) % KEYS_MAX) : 0;
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

static void remember(struct books *books, const char *key, const char *body,
                     const struct books_answer *answer) {
    if (books->deed_count == ORDERS_MAX)
        return;
    struct books_deed *deed = &books->deeds[books->deed_count++];
    *deed =
        (struct books_deed){.asked = strdup(body), .told = strdup(answer->body), .status = answer->status};
    snprintf(deed->key, sizeof deed->key, "%s", key);
}

/* True if the key was carried out before and this is the answer. */
static bool replay(const struct books *books, unsigned faults, const char *key, const char *body,
                   struct books_answer *answer) {
    int i = faults & SELLER_SELLS_TWICE ? -1 : books->deed_count - 1;
    while (i >= 0 && strcmp(books->deeds[i].key, key) != 0)
        i--;
    if (i < 0)
        return false;
    const struct books_deed *deed = &books->deeds[i];
    if (strcmp(deed->asked, body) != 0) {
        say(answer, 422, "{\"type\":\"/problems/key-reused\"}");
    } else {
        say(answer, deed->status, "%.*s%s", (int)strlen(deed->told) - 1, deed->told,
            faults & SELLER_RETELLS ? ",\"again\":true}" : "}");
        answer->replayed = true;
    }
    return true;
}

/* ---- purchases and baskets: a purchase is a basket of one line ---- */

struct basket {
    bool is_purchase;
    struct books_order lines[LINES_MAX];
    int count;
};

static bool read_basket(struct books *books, const char *body, struct basket *basket) {
    basket->count = 0;
    for (const char *at = body; (at = strstr(at, "{\"item\"")) && basket->count < LINES_MAX; at++) {
        struct books_order *line = &basket->lines[basket->count++];
        *line = (struct books_order){.item = find_item(books, at, "\"item\":\"", "\""),
                                     .quantity = number_after(at, "\"quantity\":")};
        books_copy_after(body, "\"user\":\"", "\"", line->user, sizeof line->user);
        if (!line->item)
            return false;
    }
    return basket->count > 0;
}

/* The first line that cannot be sold, or -1. */
static int first_short(const struct basket *basket) {
    for (int i = 0; i < basket->count; i++) {
        const struct books_item *item = basket->lines[i].item;
        int left = item->available;
        for (int k = 0; k <= i; k++)
            left -= basket->lines[k].item == item ? basket->lines[k].quantity : 0;
        int least = item->faults & SELLER_OVERSELLS ? -EXTRA : item->faults & SELLER_UNDERSELLS ? EXTRA : 0;
        if (left < least)
            return i;
    }
    return -1;
}

static void write_order(struct books *books, const struct books_order *order) {
    if (books->order_count == ORDERS_MAX)
        return;
    books->orders[books->order_count++] = *order;
    order->item->order_count++;
    order->item->units += order->quantity;
}

/* Takes the units and writes the order, unless the item's faults prevent it. Numbers the order. */
static void sell_line(struct books *books, struct books_order *order) {
    struct books_item *item = order->item;
    item->available -= order->quantity;
    order->number = ++item->sold;
    struct books_order written = *order;
    unsigned faults = order->number % 10 == 0 ? item->faults : 0;
    if (faults & SELLER_LOSES)
        return;
    if (faults & SELLER_ALTERS)
        snprintf(written.user, sizeof written.user, "somebody-else");
    written.cancelled = faults & SELLER_CANCELS;
    write_order(books, &written);
    if ((faults & SELLER_PHANTOM) && item->available >= order->quantity) {
        written.number = ++item->sold;
        item->available -= order->quantity;
        write_order(books, &written);
    }
}

static void say_sold(struct books_answer *answer, const struct basket *basket, int number) {
    char orders[LINES_MAX * ORDER_TEXT] = "";
    size_t length = 0;
    for (int i = 0; i < basket->count; i++) {
        orders[length] = ',';
        length += i > 0;
        length += (size_t)print_order(orders + length, &basket->lines[i]);
    }
    if (basket->is_purchase)
        say(answer, 201, "%s", orders);
    else
        say(answer, 201, "{\"basket\":\"basket-%d\",\"user\":\"%s\",\"state\":\"confirmed\",\"orders\":[%s]}",
            number, basket->lines[0].user, orders);
}

static void sell(struct books *books, struct basket *basket, struct books_answer *answer) {
    int missing = first_short(basket);
    if (missing >= 0) {
        const struct books_item *item = basket->lines[missing].item;
        say(answer, 409, "{\"type\":\"/problems/sold-out\",\"line\":%d,\"item\":\"%s\",\"available\":%d}",
            missing, item->name, item->available > 0 ? item->available : 0);
        return;
    }
    for (int i = 0; i < basket->count; i++)
        sell_line(books, &basket->lines[i]);
    say_sold(answer, basket, books->deed_count + 1);
}

/* ---- transfers ---- */

static void transfer(struct books *books, struct books_item *from, struct books_item *to, int units,
                     struct books_answer *answer) {
    if (from->available < units) {
        say(answer, 409, "{\"type\":\"/problems/sold-out\",\"available\":%d}",
            from->available > 0 ? from->available : 0);
        return;
    }
    from->stock -= units;
    from->available -= units;
    if (++books->moved % 10 != 0 || !(books->faults & SELLER_DRAINS)) {
        to->stock += units;
        to->available += units;
    }
    say(answer, 200, "{\"transfer\":\"transfer-%d\",\"from\":\"%s\",\"to\":\"%s\",\"quantity\":%d}",
        books->deed_count + 1, from->name, to->name, units);
}

static enum books_mischief carry_out(struct books *books, const char *request, struct books_answer *answer) {
    bool is_transfer = strncmp(request, "POST /v1/transfers ", 19) == 0;
    const char *body = strstr(request, "\r\n\r\n") + 4;
    struct basket basket = {.is_purchase = strncmp(request, "POST /v1/purchases ", 19) == 0};
    struct books_item *from = find_item(books, body, "\"from\":\"", "\"");
    struct books_item *to = find_item(books, body, "\"to\":\"", "\"");
    if (is_transfer ? !from || !to || from == to : !read_basket(books, body, &basket)) {
        say(answer, 404, "{\"type\":\"/problems/unknown-item\"}");
        return BOOKS_HONEST;
    }
    if (is_transfer && !strstr(request, "Authorization: Bearer test-token\r\n")) {
        say(answer, 401, "{\"type\":\"/problems/unauthorized\"}");
        return BOOKS_HONEST;
    }
    char key[64];
    books_copy_after(request, "Idempotency-Key: ", "\r", key, sizeof key);
    unsigned faults = basket.is_purchase ? basket.lines[0].item->faults : books->faults;
    enum books_mischief mischief = try_key(books, key, faults);
    if (mischief == BOOKS_SILENCE)
        return mischief;
    if (!replay(books, faults, key, body, answer)) {
        if (is_transfer)
            transfer(books, from, to, number_after(body, "\"quantity\":"), answer);
        else
            sell(books, &basket, answer);
        if (answer->status < 400)
            remember(books, key, body, answer);
    }
    if (mischief == BOOKS_503)
        say(answer, 503, "{\"type\":\"/problems/overloaded\"}");
    return mischief;
}

/* ---- the books are read ---- */

static void audit(struct books_item *item, const char *request, struct books_answer *answer) {
    bool once = item->faults & SELLER_AUDITS_ONCE, inexact = item->faults & SELLER_INEXACT;
    bool lies = item->faults & SELLER_LIES, unbalanced = item->faults & SELLER_UNBALANCED;
    item->audits++;
    if (!strstr(request, "Authorization: Bearer test-token\r\n")) {
        say(answer, 401, "{\"type\":\"/problems/unauthorized\"}");
        return;
    }
    if (inexact && item->audits > 1 && (once || item->audits < 4)) {
        say(answer, 200,
            "{\"conserved\":true,\"exact\":false,\"off_by\":1,\"stock\":%d,\"available\":0,\"held\":0,"
            "\"sold\":0,\"orders\":0,\"oversold\":0}",
            item->stock);
        return;
    }
    if (once && item->audits > 1) {
        say(answer, 503, "{\"type\":\"/problems/store-unavailable\"}");
        return;
    }
    char counters[64] = ""; /* not all sellers have them */
    if (unbalanced)
        snprintf(counters, sizeof counters, ",\"counters\":{\"held\":0,\"sold\":%d}", item->units + 7);
    say(answer, 200,
        "{\"conserved\":%s,\"stock\":%d,\"available\":%d,\"held\":0,\"sold\":%d,\"orders\":%d,"
        "\"oversold\":%d,\"pending\":0%s}",
        unbalanced ? "false" : "true", item->stock, item->available > 0 ? item->available : 0,
        lies ? item->sold : item->units, lies ? item->sold : item->order_count,
        lies || item->available > 0 ? 0 : -item->available, counters);
}

static void show_order(const struct books *books, const struct books_item *item, const char *request,
                       struct books_answer *answer) {
    long number = strtol(strchr(request, ':') + 1, NULL, 10);
    say(answer, 404, "{\"type\":\"/problems/unknown-order\"}");
    for (int i = 0; i < books->order_count; i++) {
        if (books->orders[i].item == item && books->orders[i].number == number) {
            print_order(answer->body, &books->orders[i]);
            answer->status = 200;
        }
    }
}

enum books_mischief books_decide(struct books *books, const char *request, struct books_answer *answer) {
    if (strncmp(request, "POST ", 5) == 0)
        return carry_out(books, request, answer);
    struct books_item *ordered = find_item(books, request, "GET /v1/orders/", ":");
    struct books_item *audited = find_item(books, request, "GET /v1/items/", "/");
    if (ordered)
        show_order(books, ordered, request, answer);
    else if (audited)
        audit(audited, request, answer);
    else
        say(answer, 404, "{\"type\":\"/problems/unknown-item\"}");
    return BOOKS_HONEST;
}

void books_close(struct books *books) {
    for (int i = 0; i < books->deed_count; i++) {
        free(books->deeds[i].asked);
        free(books->deeds[i].told);
    }
}
