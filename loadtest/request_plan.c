#include "loadtest/request_plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/random.h"

#define KEY_DIGITS 10

const char *const request_kind_names[REQUEST_KINDS] = {"purchases", "baskets", "transfers"};

bool plan_init(struct plan *plan, const struct options *options) {
    struct plan made = {.options = options};
    if (options->zipf > 0) {
        uint32_t count = item_count(options);
        double sum = 0;
        made.shares = calloc(count, sizeof *made.shares);
        if (!made.shares)
            return false;
        for (uint32_t i = 0; i < count; i++) {
            sum += pow(i + 1.0, -options->zipf);
            made.shares[i] = sum;
        }
    }
    *plan = made;
    return true;
}

void plan_free(struct plan *plan) {
    free(plan->shares);
    plan->shares = NULL;
}

static uint32_t plan_draw(const struct plan *plan, uint64_t *random) {
    const double *shares = plan->shares;
    uint32_t count = item_count(plan->options);
    if (!shares)
        return (uint32_t)(random_next(random) % count);
    /* A number below the sum of all shares, and the first item whose cumulative share exceeds it. */
    double drawn = (double)(random_next(random) >> 11) * 0x1p-53 * shares[count - 1];
    uint32_t low = 0;
    uint32_t high = count - 1; /* also if the product was rounded up to the sum */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shares[middle] > drawn)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void plan_of_key(const struct plan *plan, uint32_t key, struct planned_request *planned) {
    const struct options *o = plan->options;
    uint64_t random = o->seed;
    random = random_next(&random) ^ key; /* another sequence than the one that chooses duplicates */
    uint64_t percent = o->purchases + o->transfers > 0 ? random_next(&random) % 100 : 0;
    if (percent < o->transfers) {
        planned->kind = REQUEST_TRANSFER;
        planned->count = 2;
        planned->items[0] = plan_draw(plan, &random);
        do {
            planned->items[1] = plan_draw(plan, &random);
        } while (planned->items[1] == planned->items[0]);
        return;
    }
    bool basket = o->basket_lines > 0 && percent >= o->transfers + o->purchases;
    planned->kind = basket ? REQUEST_BASKET : REQUEST_PURCHASE;
    planned->count = basket ? o->basket_lines : 1;
    for (unsigned i = 0; i < planned->count; i++)
        planned->items[i] = plan_draw(plan, &random);
}

bool plan_has(const struct plan *plan, enum request_kind kind) {
    const struct options *o = plan->options;
    switch (kind) {
    case REQUEST_TRANSFER: return o->transfers > 0;
    case REQUEST_BASKET: return o->transfers + o->purchases < 100 && o->basket_lines > 0;
    default: return o->basket_lines > 0 ? o->purchases > 0 : o->transfers < 100;
    }
}

/* ---- names ---- */

uint32_t item_count(const struct options *options) {
    return options->items > 0 ? options->items : 1;
}

void item_name(const struct options *options, uint32_t item, char name[ITEM_NAME_SIZE]) {
    if (options->items > 0)
        snprintf(name, ITEM_NAME_SIZE, "%s-%u", options->item, item);
    else
        snprintf(name, ITEM_NAME_SIZE, "%s", options->item);
}

bool item_is(const struct options *options, uint32_t item, const char *text, size_t length) {
    char name[ITEM_NAME_SIZE];
    item_name(options, item, name);
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

static void write_digits(char *at, unsigned count, uint32_t value) {
    while (count > 0) {
        at[--count] = (char)('0' + value % 10);
        value /= 10;
    }
}

void user_name(uint32_t user, char name[USER_NAME_SIZE]) {
    name[0] = 'u';
    write_digits(name + 1, USER_DIGITS, user);
    name[USER_DIGITS + 1] = '\0';
}

/* ---- the bytes of a request ---- */

/* The largest request: host and names of the greatest length, less than 256 characters for the rest of the
 * head, and for each line `{"item":"","quantity":1000},` less than 32. */
_Static_assert(sizeof((struct target *)0)->host + 256 + (size_t)OPTIONS_LINES * (OPTIONS_ITEM + 32) <=
                   POOL_REQUEST_SIZE,
               "a basket must fit");

__attribute__((format(printf, 2, 3))) static void template_add(struct request_template *template,
                                                               const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    template->length += (size_t)vsnprintf(template->text + template->length,
                                          sizeof template->text - template->length, format, arguments);
    va_end(arguments);
}

/* Adds a member with the longest item name. */
static void template_add_item(struct request_template *template, const char *member, const char *item) {
    template_add(template, "\"%s\":\"%s", member, item);
    template->item_at[template->item_count++] = template->length - template->item_digits;
    template_add(template, "\"");
}

static void template_add_user(struct request_template *template) {
    template_add(template, "\"user\":\"u");
    template->user_at = template->length;
    template_add(template, "%0*u\"", USER_DIGITS, 0u);
}

static void template_add_body(struct request_template *template, enum request_kind kind,
                              const struct options *options) {
    char item[ITEM_NAME_SIZE];
    item_name(options, item_count(options) - 1, item);
    template_add(template, "{");
    switch (kind) {
    case REQUEST_BASKET:
        template_add_user(template);
        for (unsigned i = 0; i < options->basket_lines; i++) {
            template_add(template, i > 0 ? "},{" : ",\"lines\":[{");
            template_add_item(template, "item", item);
            template_add(template, ",\"quantity\":%u", options->quantity);
        }
        template_add(template, "}]}");
        return;
    case REQUEST_TRANSFER:
        template_add_item(template, "from", item);
        template_add(template, ",");
        template_add_item(template, "to", item);
        break;
    default:
        template_add_item(template, "item", item);
        template_add(template, ",");
        template_add_user(template);
        break;
    }
    template_add(template, ",\"quantity\":%u}", options->quantity);
}

void request_template_init(struct request_template *template, enum request_kind kind, const char *host,
                           const struct options *options, const char *run) {
    unsigned digits = options->items > 0 ? (unsigned)snprintf(NULL, 0, "%u", options->items - 1) : 0;
    bool admin = kind == REQUEST_TRANSFER && options->token;
    *template = (struct request_template){.item_digits = digits};
    template_add_body(template, kind, options);
    size_t body_length = template->length;
    *template = (struct request_template){.item_digits = digits};
    template_add(template,
                 "POST /v1/%s HTTP/1.1\r\n"
                 "Host: %s\r\n"
                 "Content-Type: application/json\r\n"
                 "Content-Length: %zu\r\n"
                 "%s%s%s"
                 "Idempotency-Key: sl-%s-",
                 request_kind_names[kind], host, body_length, admin ? "Authorization: Bearer " : "",
                 admin ? options->token : "", admin ? "\r\n" : "", run);
    template->key_at = template->length;
    template_add(template, "%0*u\r\n\r\n", KEY_DIGITS, 0u);
    template_add_body(template, kind, options);
}

size_t request_render(const struct request_template *template, uint32_t key, uint32_t user,
                      const struct planned_request *planned, char *request) {
    memcpy(request, template->text, template->length);
    write_digits(request + template->key_at, KEY_DIGITS, key);
    for (unsigned i = 0; template->item_digits > 0 && i < template->item_count; i++) {
        char *at = request + template->item_at[i];
        char *end = decimal_append(at, planned->items[i]);
        *end++ = '"';
        memset(end, ' ', template->item_digits + 1 - (size_t)(end - at));
    }
    if (template->user_at > 0)
        write_digits(request + template->user_at, USER_DIGITS, user);
    return template->length;
}
