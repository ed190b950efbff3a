#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "loadtest/http/request.h"
#include "loadtest/plan/item.h"

/* The largest request: host and names of the greatest length, less than 256 characters for the rest of the
 * head, and for each line `{"item":"","quantity":1000},` less than 32. */
_Static_assert(sizeof((struct target *)0)->host + 256 + (size_t)OPTIONS_LINES * (OPTIONS_ITEM + 32) <=
                   REQUEST_SIZE,
               "a basket must fit");

__attribute__((format(printf, 2, 3))) static void add(struct request_form *form, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    form->length +=
        (size_t)vsnprintf(form->text + form->length, sizeof form->text - form->length, format, arguments);
    va_end(arguments);
}

/* Adds a member with the longest item name. */
static void add_item(struct request_form *form, const char *member, const char *item) {
    add(form, "\"%s\":\"%s", member, item);
    form->item_at[form->item_count++] = form->length - form->item_digits;
    add(form, "\"");
}

static void add_user(struct request_form *form) {
    add(form, "\"user\":\"u");
    form->user_at = form->length;
    add(form, "%0*u\"", REQUEST_USER_DIGITS, 0u);
}

static void add_body(struct request_form *form, enum demand_kind kind, const struct options *options) {
    char item[ITEM_NAME];
    item_name(options, item_count(options) - 1, item);
    add(form, "{");
    switch (kind) {
    case DEMAND_BASKET:
        add_user(form);
        for (unsigned i = 0; i < options->basket_lines; i++) {
            add(form, i > 0 ? "},{" : ",\"lines\":[{");
            add_item(form, "item", item);
            add(form, ",\"quantity\":%u", options->quantity);
        }
        add(form, "}]}");
        return;
    case DEMAND_TRANSFER:
        add_item(form, "from", item);
        add(form, ",");
        add_item(form, "to", item);
        break;
    default:
        add_item(form, "item", item);
        add(form, ",");
        add_user(form);
        break;
    }
    add(form, ",\"quantity\":%u}", options->quantity);
}

void request_form_init(struct request_form *form, enum demand_kind kind, const char *host,
                       const struct options *options, const char *run) {
    unsigned digits = options->items > 0 ? (unsigned)snprintf(NULL, 0, "%u", options->items - 1) : 0;
    bool admin = kind == DEMAND_TRANSFER && options->token != NULL;
    *form = (struct request_form){.item_digits = digits};
    add_body(form, kind, options);
    size_t body_length = form->length;
    *form = (struct request_form){.item_digits = digits};
    add(form,
        "POST /v1/%s HTTP/1.1\r\n"
        "Host: %s\r\n"
        "Content-Type: application/json\r\n"
        "Content-Length: %zu\r\n"
        "%s%s%s"
        "Idempotency-Key: sl-%s-",
        demand_kind_names[kind], host, body_length, admin ? "Authorization: Bearer " : "",
        admin ? options->token : "", admin ? "\r\n" : "", run);
    form->key_at = form->length;
    add(form, "%0*u\r\n\r\n", REQUEST_KEY_DIGITS, 0u);
    add_body(form, kind, options);
}

static void write_digits(char *at, unsigned count, uint32_t value) {
    while (count > 0) {
        at[--count] = (char)('0' + value % 10);
        value /= 10;
    }
}

size_t request_render(const struct request_form *form, uint32_t key, uint32_t user, const struct wish *wish,
                      char *request) {
    memcpy(request, form->text, form->length);
    write_digits(request + form->key_at, REQUEST_KEY_DIGITS, key);
    for (unsigned i = 0; form->item_digits > 0 && i < form->item_count; i++) {
        char *at = request + form->item_at[i];
        char *end = decimal_append(at, wish->items[i]);
        *end++ = '"';
        memset(end, ' ', form->item_digits + 1 - (size_t)(end - at));
    }
    if (form->user_at > 0)
        write_digits(request + form->user_at, REQUEST_USER_DIGITS, user);
    return form->length;
}

void request_user(uint32_t user, char name[REQUEST_USER_DIGITS + 2]) {
    name[0] = 'u';
    write_digits(name + 1, REQUEST_USER_DIGITS, user);
    name[REQUEST_USER_DIGITS + 1] = '\0';
}
