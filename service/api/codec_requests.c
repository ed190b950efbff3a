/* Reads request bodies. */
#include "service/api/http_api.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/rfc3339.h"

enum { LIMIT_MAX = 1000000, HOLD_SECONDS_MAX = 30 * 24 * 3600 };

/* Writes what is wrong, and returns false. */
__attribute__((format(printf, 3, 4))) static bool codec_refuse(struct codec_error *error, const char *field,
                                                               const char *format, ...) {
    va_list list;
    snprintf(error->field, sizeof error->field, "%s", field);
    va_start(list, format);
    vsnprintf(error->detail, sizeof error->detail, format, list);
    va_end(list);
    return false;
}

/* Says what is wrong with text that is not JSON, or has a field twice. Then jansson puts the name behind its
 * message, as near '"NAME"', if the name is short. */
static void codec_refuse_text(const json_error_t *at, struct codec_error *error) {
    const char *what = "not valid JSON", *near = strstr(at->text, " near '\"");
    char field[sizeof error->field] = "body";
    switch (json_error_code(at)) {
    case json_error_duplicate_key:
        what = "there is a field twice";
        size_t length = near ? strcspn(near + 8, "\"") : 0;
        if (length < sizeof field && near && inventory_name_valid(near + 8, length)) {
            what = "is there twice";
            memcpy(field, near + 8, length);
            field[length] = '\0';
        }
        break;
    case json_error_premature_end_of_input: what = "not valid JSON: it ends too early"; break;
    case json_error_end_of_input_expected: what = "not valid JSON: there is more behind its end"; break;
    case json_error_invalid_utf8: what = "not valid JSON: not UTF-8"; break;
    case json_error_null_character:
    case json_error_null_byte_in_key: what = "a text or a name has a NUL in it"; break;
    case json_error_numeric_overflow: what = "a number is too large"; break;
    case json_error_stack_overflow: what = "nested too deeply"; break;
    default: break;
    }
    codec_refuse(error, field, "%s (line %d, column %d)", what, at->line, at->column);
}

/* ---- tables of fields: each body has one ---- */

enum kind { NAME, USER, PAYMENT, INTEGER, FLAG, INSTANT, STRATEGY, URL, LINES };

/* What a text of this kind may be. */
static const struct {
    bool (*is_valid)(const char *text, size_t length);
    int most;
    const char *of;
} words[] = {
    [NAME] = {inventory_name_valid, INVENTORY_NAME_MAX, "of A-Z a-z 0-9 . _ -"},
    [USER] = {inventory_user_valid, INVENTORY_USER_MAX, "of A-Z a-z 0-9 . _ - @ : | + = ~"},
    [PAYMENT] = {inventory_payment_valid, INVENTORY_PAYMENT_MAX, "visible ASCII characters"},
};

struct field {
    const char *name;
    size_t offset;
    int64_t low, high;
    enum kind kind;
    bool optional; /* if the field is missing, its place is untouched */
};

static bool codec_refuse_unknown(const char *name, const struct field *fields, size_t count,
                                 struct codec_error *error) {
    char field[sizeof error->field], known[96] = "", *end = known;
    size_t i = 0;
    /* The name comes from the client: characters that need escaping become question marks. */
    for (; i < sizeof field - 1 && name[i]; i++)
        field[i] = inventory_name_valid(&name[i], 1) ? name[i] : '?';
    field[i] = '\0';
    for (size_t k = 0; k < count; k++)
        end += snprintf(end, sizeof known - (size_t)(end - known), "%s%s", k ? ", " : "", fields[k].name);
    return codec_refuse(error, *field ? field : "body", "unknown field; %s%s",
                        count ? "there are " : "there are none", known);
}

static bool codec_read_lines(json_t *lines, struct inventory_transaction *basket, struct codec_error *error);

static bool codec_read_field(json_t *value, const struct field *field, void *into,
                             struct codec_error *error) {
    char *at = (char *)into + field->offset;
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    int64_t number;
    switch (field->kind) {
    case NAME:
    case USER:
    case PAYMENT:
        if (!text || !words[field->kind].is_valid(text, length))
            return codec_refuse(error, field->name, "must be 1 to %d %s", words[field->kind].most,
                                words[field->kind].of);
        memcpy(at, text, length + 1);
        return true;
    case FLAG:
        if (!json_is_boolean(value))
            return codec_refuse(error, field->name, "must be true or false");
        *(bool *)at = json_is_true(value);
        return true;
    case INTEGER:
        number = json_integer_value(value);
        if (!json_is_integer(value) || number < field->low || number > field->high)
            return codec_refuse(error, field->name, "must be an integer from %lld to %lld",
                                (long long)field->low, (long long)field->high);
        memcpy(at, &number, sizeof number);
        return true;
    case INSTANT:
        /* 0 means that there is none: an end of 0 would turn a sale that is over into one without end. */
        if (!text || !rfc3339_read(text, &number) || number == 0)
            return codec_refuse(error, field->name, "must be an RFC 3339 time such as 2030-01-31T20:00:00Z");
        memcpy(at, &number, sizeof number);
        return true;
    case STRATEGY:
        if (!text || !inventory_strategy_find(text, (enum inventory_strategy *)(void *)at))
            return codec_refuse(error, field->name, "must be batch, lua, decr, optimistic, naive or locked");
        return true;
    case URL:
        if (!text || length >= CODEC_URL_SIZE || strlen(text) != length)
            return codec_refuse(error, field->name, "must be the URL of a lock, of at most %d bytes",
                                CODEC_URL_SIZE - 1);
        memcpy(at, text, length + 1);
        return true;
    case LINES: break;
    }
    return codec_read_lines(value, into, error);
}

/* Looks for unknown fields first: a misspelt field is a missing one, too. */
static bool codec_read_fields(json_t *object, const struct field *fields, size_t count, void *into,
                              struct codec_error *error) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        size_t known = 0;
        while (known < count && strcmp(fields[known].name, name) != 0)
            known++;
        if (known == count)
            return codec_refuse_unknown(name, fields, count, error);
    }
    for (size_t i = 0; i < count; i++) {
        value = json_object_get(object, fields[i].name);
        if ((value || !fields[i].optional) && !codec_read_field(value, &fields[i], into, error))
            return false;
    }
    return true;
}

/* Reads an object that has only these fields. On failure `into` may be half filled in. */
static bool codec_read_body(const char *body, size_t length, const struct field *fields, size_t count,
                            void *into, struct codec_error *error) {
    json_error_t at;
    json_t *object = json_loadb(body, length, JSON_REJECT_DUPLICATES, &at);
    bool good = false;
    if (!object)
        codec_refuse_text(&at, error);
    else if (!json_is_object(object))
        codec_refuse(error, "body", "must be a JSON object");
    else
        good = codec_read_fields(object, fields, count, into, error);
    json_decref(object);
    return good;
}

#define COUNT(fields) (sizeof(fields) / sizeof *(fields))

bool codec_read_purchase(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {
        {"item", offsetof(struct codec_purchase, item), 0, 0, NAME, false},
        {"user", offsetof(struct codec_purchase, user), 0, 0, USER, true},
        {"quantity", offsetof(struct codec_purchase, quantity), 1, INVENTORY_QUANTITY_MAX, INTEGER, false}};
    struct codec_purchase read = {.user = ""};
    bool good = codec_read_body(body, length, fields, COUNT(fields), &read, error);
    if (good)
        *(struct codec_purchase *)into = read;
    return good;
}

static bool codec_read_lines(json_t *lines, struct inventory_transaction *basket, struct codec_error *error) {
    static const struct field fields[] = {
        {"item", offsetof(struct inventory_line, item), 0, 0, NAME, false},
        {"quantity", offsetof(struct inventory_line, quantity), 1, INVENTORY_QUANTITY_MAX, INTEGER, false}};
    json_t *line;
    size_t i;
    if (!json_is_array(lines) || json_array_size(lines) < 1 || json_array_size(lines) > INVENTORY_LINES_MAX)
        return codec_refuse(error, "lines", "must be an array of 1 to %d lines", INVENTORY_LINES_MAX);
    basket->count = (int)json_array_size(lines);
    json_array_foreach(lines, i, line) {
        struct codec_error inner = {.field = ""};
        if (json_is_object(line) && codec_read_fields(line, fields, COUNT(fields), &basket->lines[i], &inner))
            continue;
        char field[sizeof error->field];
        snprintf(field, sizeof field, inner.field[0] ? "lines[%zu].%.20s" : "lines[%zu]", i, inner.field);
        return codec_refuse(error, field, "%s",
                            inner.field[0] ? inner.detail : "must be an object with item and quantity");
    }
    return true;
}

bool codec_read_basket(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {
        {"user", offsetof(struct inventory_transaction, user), 0, 0, USER, true},
        {"lines", 0, 0, 0, LINES, false}};
    struct inventory_transaction *basket = into;
    basket->kind = INVENTORY_BASKET;
    basket->user[0] = '\0';
    return codec_read_body(body, length, fields, COUNT(fields), into, error);
}

bool codec_read_transfer(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {
        {"from", offsetof(struct inventory_transaction, lines[0].item), 0, 0, NAME, false},
        {"to", offsetof(struct inventory_transaction, lines[1].item), 0, 0, NAME, false},
        {"quantity", offsetof(struct inventory_transaction, lines[0].quantity), 1, INVENTORY_QUANTITY_MAX,
         INTEGER, false}};
    struct inventory_transaction *transfer = into;
    struct inventory_line *lines = transfer->lines;
    transfer->count = 2;
    transfer->kind = INVENTORY_TRANSFER;
    if (!codec_read_body(body, length, fields, COUNT(fields), transfer, error))
        return false;
    lines[1].quantity = lines[0].quantity;
    return strcmp(lines[0].item, lines[1].item) != 0 ||
           codec_refuse(error, "to", "must be another item than from");
}

bool codec_read_item(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {
        {"stock", offsetof(struct inventory_item, initial), 0, INVENTORY_STOCK_MAX, INTEGER, false},
        {"per_user_limit", offsetof(struct inventory_item, limit), 0, LIMIT_MAX, INTEGER, true},
        {"starts_at", offsetof(struct inventory_item, starts_ms), 0, 0, INSTANT, true},
        {"ends_at", offsetof(struct inventory_item, ends_ms), 0, 0, INSTANT, true},
        {"hold_seconds", offsetof(struct inventory_item, hold_ms), 0, HOLD_SECONDS_MAX, INTEGER, true},
        {"pay_seconds", offsetof(struct inventory_item, pay_ms), 0, HOLD_SECONDS_MAX, INTEGER, true},
        {"strategy", offsetof(struct inventory_item, strategy), 0, 0, STRATEGY, true}};
    struct inventory_item *item = into, read = *item;
    read.limit = read.starts_ms = read.ends_ms = read.hold_ms = read.pay_ms = 0;
    if (!codec_read_body(body, length, fields, COUNT(fields), &read, error))
        return false;
    if (read.starts_ms && read.ends_ms && read.ends_ms <= read.starts_ms)
        return codec_refuse(error, "ends_at", "must be after starts_at");
    read.hold_ms *= 1000;
    read.pay_ms *= 1000;
    *item = read;
    return true;
}

bool codec_read_restock(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {{"quantity", 0, 1, INVENTORY_STOCK_MAX, INTEGER, false}};
    return codec_read_body(body, length, fields, COUNT(fields), into, error);
}

bool codec_read_lock(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {{"lock", 0, 0, 0, URL, false}};
    return codec_read_body(body, length, fields, COUNT(fields), into, error);
}

bool codec_read_nothing(const char *body, size_t length, void *into, struct codec_error *error) {
    return length == 0 || codec_read_body(body, length, NULL, 0, into, error);
}

bool codec_read_payment(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {
        {"payment", offsetof(struct codec_payment, payment), 0, 0, PAYMENT, false},
        {"seconds", offsetof(struct codec_payment, seconds), 0, HOLD_SECONDS_MAX, INTEGER, true}};
    ((struct codec_payment *)into)->seconds = -1;
    return codec_read_body(body, length, fields, COUNT(fields), into, error);
}

bool codec_read_confirm(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {
        {"payment", offsetof(struct codec_payment, payment), 0, 0, PAYMENT, true}};
    *(struct codec_payment *)into = (struct codec_payment){.seconds = -1};
    return length == 0 || codec_read_body(body, length, fields, COUNT(fields), into, error);
}

bool codec_read_return(const char *body, size_t length, void *into, struct codec_error *error) {
    static const struct field fields[] = {
        {"quantity", offsetof(struct codec_return, quantity), 1, INVENTORY_QUANTITY_MAX, INTEGER, false},
        {"restock", offsetof(struct codec_return, restock), 0, 0, FLAG, false}};
    return codec_read_body(body, length, fields, COUNT(fields), into, error);
}

bool codec_read_request(struct http_request *request, codec_reader *read, void *into) {
    struct codec_error error;
    bool good = read(request->body, request->length, into, &error);
    if (!good)
        problem_answer_field(request, error.field, error.detail);
    return good;
}

/* ---- the plain form of a purchase ---- */

struct plain_reader {
    const char *at, *end;
};

static bool plain_at_end(struct plain_reader *reader) {
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
    return reader->at == reader->end;
}

static bool plain_take(struct plain_reader *reader, char c) {
    if (plain_at_end(reader) || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* Reads a string that is valid, so it has no escapes. */
static bool plain_take_text(struct plain_reader *reader, bool (*is_valid)(const char *text, size_t length),
                            char *out) {
    if (!plain_take(reader, '"'))
        return false;
    const char *quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
    if (!quote || !is_valid(reader->at, (size_t)(quote - reader->at)))
        return false;
    size_t length = (size_t)(quote - reader->at);
    memcpy(out, reader->at, length);
    out[length] = '\0';
    reader->at = quote + 1;
    return true;
}

/* Reads digits that do not begin with 0. A comma or brace must follow, so no digit is left out. */
static bool plain_take_quantity(struct plain_reader *reader, int64_t *out) {
    int64_t quantity = 0;
    if (plain_at_end(reader) || *reader->at == '0')
        return false;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        quantity = quantity * 10 + (*reader->at - '0');
        if (quantity > INVENTORY_QUANTITY_MAX)
            return false;
    }
    *out = quantity;
    return quantity > 0;
}

bool codec_read_plain_purchase(const char *body, size_t length, struct codec_purchase *purchase) {
    struct plain_reader reader = {body, body + length};
    struct codec_purchase read;
    read.user[0] = '\0';
    enum { HAS_ITEM = 1, HAS_USER = 2, HAS_QUANTITY = 4 };
    unsigned int seen = 0;
    for (int i = 0; i == 0 || !plain_take(&reader, '}'); i++) {
        char name[INVENTORY_NAME_MAX + 1];
        if (!plain_take(&reader, i == 0 ? '{' : ',') ||
            !plain_take_text(&reader, inventory_name_valid, name) || !plain_take(&reader, ':'))
            return false;
        unsigned int field;
        if (strcmp(name, "item") == 0 && plain_take_text(&reader, inventory_name_valid, read.item))
            field = HAS_ITEM;
        else if (strcmp(name, "user") == 0 && plain_take_text(&reader, inventory_user_valid, read.user))
            field = HAS_USER;
        else if (strcmp(name, "quantity") == 0 && plain_take_quantity(&reader, &read.quantity))
            field = HAS_QUANTITY;
        else
            return false;
        if (seen & field)
            return false;
        seen |= field;
    }
    if ((seen | HAS_USER) != (HAS_ITEM | HAS_USER | HAS_QUANTITY) || !plain_at_end(&reader))
        return false;
    *purchase = read;
    return true;
}
