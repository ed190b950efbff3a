#include "service/api/codec.h"
#include "inventory/transactions.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "service/rfc3339.h"

enum { LIMIT_MAX = 1000000, HOLD_SECONDS_MAX = 30 * 24 * 3600 };

static bool refuse(struct codec_error *error, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(struct codec_error *error, const char *field, const char *format, ...) {
    va_list list;
    snprintf(error->field, sizeof error->field, "%s", field);
    va_start(list, format);
    vsnprintf(error->detail, sizeof error->detail, format, list);
    va_end(list);
    return false;
}

/* Tells what is wrong with text that is not JSON, or has a field twice: then jansson puts the name behind its
 * message, as near '"NAME"', if it is short. */
static void refuse_text(const json_error_t *at, struct codec_error *error) {
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
    refuse(error, field, "%s (line %d, column %d)", what, at->line, at->column);
}

/* ---- requests ----
 * Each body has a table of its fields. */

enum kind { NAME, INTEGER, INSTANT, STRATEGY, URL, LINES };

struct field {
    const char *name;
    size_t offset;
    int64_t low, high;
    enum kind kind;
    bool optional; /* if it is missing, its place is untouched */
};

static bool refuse_unknown(const char *name, const struct field *fields, size_t count,
                           struct codec_error *error) {
    char field[sizeof error->field], known[96] = "", *end = known;
    size_t i = 0;
    /* It comes from the client: characters that need escaping become question marks. */
    for (; i < sizeof field - 1 && name[i]; i++)
        field[i] = inventory_name_valid(&name[i], 1) ? name[i] : '?';
    field[i] = '\0';
    for (size_t k = 0; k < count; k++)
        end += snprintf(end, sizeof known - (size_t)(end - known), "%s%s", k ? ", " : "", fields[k].name);
    return refuse(error, *field ? field : "body", "unknown field; %s%s",
                  count ? "there are " : "there are none", known);
}

static bool read_lines(json_t *lines, struct inventory_transaction *basket, struct codec_error *error);

static bool read_field(json_t *value, const struct field *field, void *into, struct codec_error *error) {
    char *at = (char *)into + field->offset;
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    int64_t number;
    switch (field->kind) {
    case NAME:
        if (!text || !inventory_name_valid(text, length))
            return refuse(error, field->name, "must be 1 to %d of A-Z a-z 0-9 . _ -", INVENTORY_NAME_MAX);
        memcpy(at, text, length + 1);
        return true;
    case INTEGER:
        number = json_integer_value(value);
        if (!json_is_integer(value) || number < field->low || number > field->high)
            return refuse(error, field->name, "must be an integer from %lld to %lld", (long long)field->low,
                          (long long)field->high);
        memcpy(at, &number, sizeof number);
        return true;
    case INSTANT:
        /* 0 means none; an end of 0 would turn a sale that is over into one without end. */
        if (!text || !rfc3339_read(text, &number) || number == 0)
            return refuse(error, field->name, "must be an RFC 3339 time such as 2030-01-31T20:00:00Z");
        memcpy(at, &number, sizeof number);
        return true;
    case STRATEGY:
        if (!text || !inventory_strategy_find(text, (enum inventory_strategy *)(void *)at))
            return refuse(error, field->name, "must be batch, lua, decr, optimistic, naive or locked");
        return true;
    case URL:
        if (!text || length >= CODEC_URL_SIZE || strlen(text) != length)
            return refuse(error, field->name, "must be the URL of a lock, of at most %d bytes",
                          CODEC_URL_SIZE - 1);
        memcpy(at, text, length + 1);
        return true;
    case LINES: break;
    }
    return read_lines(value, into, error);
}

/* Unknown fields first: a misspelt field is missing, too. */
static bool read_fields(json_t *object, const struct field *fields, size_t count, void *into,
                        struct codec_error *error) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        size_t known = 0;
        while (known < count && strcmp(fields[known].name, name) != 0)
            known++;
        if (known == count)
            return refuse_unknown(name, fields, count, error);
    }
    for (size_t i = 0; i < count; i++) {
        value = json_object_get(object, fields[i].name);
        if ((value || !fields[i].optional) && !read_field(value, &fields[i], into, error))
            return false;
    }
    return true;
}

/* Reads an object that has only these fields. On failure `into` may be half filled in. */
static bool read_body(const char *body, size_t length, const struct field *fields, size_t count, void *into,
                      struct codec_error *error) {
    json_error_t at;
    json_t *object = json_loadb(body, length, JSON_REJECT_DUPLICATES, &at);
    bool good = false;
    if (!object)
        refuse_text(&at, error);
    else if (!json_is_object(object))
        refuse(error, "body", "must be a JSON object");
    else
        good = read_fields(object, fields, count, into, error);
    json_decref(object);
    return good;
}

#define COUNT(fields) (sizeof(fields) / sizeof *(fields))

bool codec_read_purchase(const char *body, size_t length, struct codec_purchase *purchase,
                         struct codec_error *error) {
    static const struct field fields[] = {
        {"item", offsetof(struct codec_purchase, item), 0, 0, NAME, false},
        {"user", offsetof(struct codec_purchase, user), 0, 0, NAME, false},
        {"quantity", offsetof(struct codec_purchase, quantity), 1, INVENTORY_QUANTITY_MAX, INTEGER, false}};
    struct codec_purchase read;
    bool good = read_body(body, length, fields, COUNT(fields), &read, error);
    if (good)
        *purchase = read;
    return good;
}

static bool read_lines(json_t *lines, struct inventory_transaction *basket, struct codec_error *error) {
    static const struct field fields[] = {
        {"item", offsetof(struct inventory_line, item), 0, 0, NAME, false},
        {"quantity", offsetof(struct inventory_line, quantity), 1, INVENTORY_QUANTITY_MAX, INTEGER, false}};
    json_t *line;
    size_t i;
    if (!json_is_array(lines) || json_array_size(lines) < 1 || json_array_size(lines) > INVENTORY_LINES_MAX)
        return refuse(error, "lines", "must be an array of 1 to %d lines", INVENTORY_LINES_MAX);
    basket->count = (int)json_array_size(lines);
    json_array_foreach(lines, i, line) {
        struct codec_error inner = {.field = ""};
        if (json_is_object(line) && read_fields(line, fields, COUNT(fields), &basket->lines[i], &inner))
            continue;
        char field[sizeof error->field];
        snprintf(field, sizeof field, inner.field[0] ? "lines[%zu].%.20s" : "lines[%zu]", i, inner.field);
        return refuse(error, field, "%s",
                      inner.field[0] ? inner.detail : "must be an object with item and quantity");
    }
    return true;
}

bool codec_read_basket(const char *body, size_t length, struct inventory_transaction *basket,
                       struct codec_error *error) {
    static const struct field fields[] = {
        {"user", offsetof(struct inventory_transaction, user), 0, 0, NAME, false},
        {"lines", 0, 0, 0, LINES, false}};
    basket->kind = INVENTORY_BASKET;
    return read_body(body, length, fields, COUNT(fields), basket, error);
}

bool codec_read_transfer(const char *body, size_t length, struct inventory_transaction *transfer,
                         struct codec_error *error) {
    static const struct field fields[] = {
        {"from", offsetof(struct inventory_transaction, lines[0].item), 0, 0, NAME, false},
        {"to", offsetof(struct inventory_transaction, lines[1].item), 0, 0, NAME, false},
        {"quantity", offsetof(struct inventory_transaction, lines[0].quantity), 1, INVENTORY_QUANTITY_MAX,
         INTEGER, false}};
    struct inventory_line *lines = transfer->lines;
    transfer->count = 2;
    transfer->kind = INVENTORY_TRANSFER;
    if (!read_body(body, length, fields, COUNT(fields), transfer, error))
        return false;
    lines[1].quantity = lines[0].quantity;
    return strcmp(lines[0].item, lines[1].item) != 0 || refuse(error, "to", "must be another item than from");
}

bool codec_read_item(const char *body, size_t length, enum inventory_strategy strategy,
                     struct inventory_item *item, struct codec_error *error) {
    static const struct field fields[] = {
        {"stock", offsetof(struct inventory_item, initial), 0, INVENTORY_STOCK_MAX, INTEGER, false},
        {"per_user_limit", offsetof(struct inventory_item, limit), 0, LIMIT_MAX, INTEGER, true},
        {"starts_at", offsetof(struct inventory_item, starts_ms), 0, 0, INSTANT, true},
        {"ends_at", offsetof(struct inventory_item, ends_ms), 0, 0, INSTANT, true},
        {"hold_seconds", offsetof(struct inventory_item, hold_ms), 0, HOLD_SECONDS_MAX, INTEGER, true},
        {"strategy", offsetof(struct inventory_item, strategy), 0, 0, STRATEGY, true}};
    struct inventory_item read = *item;
    read.strategy = strategy;
    read.limit = read.starts_ms = read.ends_ms = read.hold_ms = 0;
    if (!read_body(body, length, fields, COUNT(fields), &read, error))
        return false;
    if (read.starts_ms && read.ends_ms && read.ends_ms <= read.starts_ms)
        return refuse(error, "ends_at", "must be after starts_at");
    read.hold_ms *= 1000;
    *item = read;
    return true;
}

bool codec_read_restock(const char *body, size_t length, int64_t *quantity, struct codec_error *error) {
    static const struct field fields[] = {{"quantity", 0, 1, INVENTORY_STOCK_MAX, INTEGER, false}};
    return read_body(body, length, fields, COUNT(fields), quantity, error);
}

bool codec_read_lock(const char *body, size_t length, char url[CODEC_URL_SIZE], struct codec_error *error) {
    static const struct field fields[] = {{"lock", 0, 0, 0, URL, false}};
    return read_body(body, length, fields, COUNT(fields), url, error);
}

bool codec_read_nothing(const char *body, size_t length, struct codec_error *error) {
    return length == 0 || read_body(body, length, NULL, 0, NULL, error);
}

/* ---- answers ----
 * Most are printed, since each purchase goes this way, and names need no escaping (see
 * inventory_name_valid()). */

static size_t print(char out[CODEC_BODY_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));

static size_t print(char out[CODEC_BODY_SIZE], const char *format, ...) {
    va_list list;
    va_start(list, format);
    int length = vsnprintf(out, CODEC_BODY_SIZE, format, list);
    va_end(list);
    return length < CODEC_BODY_SIZE ? (size_t)length : CODEC_BODY_SIZE - 1;
}

static size_t print_instant(char *out, const char *name, int64_t ms) {
    char text[RFC3339_SIZE];
    if (ms == 0)
        return 0;
    rfc3339_print(ms, text);
    return (size_t)sprintf(out, ",\"%s\":\"%s\"", name, text);
}

static char *append_order(char *at, const struct inventory_order *order) {
    at = stpcpy(at, "{\"order\":\"");
    at = stpcpy(stpcpy(at, order->id), "\",\"item\":\"");
    at = stpcpy(stpcpy(at, order->item), "\",\"user\":\"");
    at = stpcpy(stpcpy(at, order->user), "\",\"quantity\":");
    at = stpcpy(decimal_append(at, (uint64_t)order->quantity), ",\"state\":\"");
    at = stpcpy(stpcpy(at, inventory_state_name(order->state)), "\"");
    at += print_instant(at, "expires_at", order->expires_ms);
    return stpcpy(at, "}");
}

size_t codec_write_order(char out[CODEC_BODY_SIZE], const struct inventory_order *order) {
    return (size_t)(append_order(out, order) - out);
}

size_t codec_write_basket(char out[CODEC_BASKET_SIZE], const struct inventory_transaction *basket) {
    char *at = stpcpy(stpcpy(out, "{\"basket\":\""), basket->id);
    at = stpcpy(stpcpy(at, "\",\"user\":\""), basket->user);
    at = stpcpy(stpcpy(at, "\",\"state\":\""), inventory_state_name(basket->state));
    at = stpcpy(at, "\"");
    at += print_instant(at, "expires_at", basket->expires_ms);
    at = stpcpy(at, ",\"orders\":[");
    for (int i = 0; i < basket->count; i++) {
        struct inventory_order order;
        inventory_transaction_order(basket, i, &order);
        at = append_order(i ? stpcpy(at, ",") : at, &order);
    }
    return (size_t)(stpcpy(at, "]}") - out);
}

size_t codec_write_transfer(char out[CODEC_BODY_SIZE], const struct inventory_transaction *transfer) {
    return print(out, "{\"transfer\":\"%s\",\"from\":\"%s\",\"to\":\"%s\",\"quantity\":%lld}", transfer->id,
                 transfer->lines[0].item, transfer->lines[1].item, (long long)transfer->lines[0].quantity);
}

size_t codec_write_item(char out[CODEC_BODY_SIZE], const struct inventory_item *item) {
    size_t length =
        print(out,
              "{\"item\":\"%s\",\"stock\":%lld,\"available\":%lld,\"held\":%lld,\"sold\":%lld,"
              "\"strategy\":\"%s\",\"per_user_limit\":%lld,\"hold_seconds\":%lld",
              item->item, (long long)(item->initial + item->restocked), (long long)item->available,
              (long long)item->held, (long long)item->sold, inventory_strategy_name(item->strategy),
              (long long)item->limit, (long long)item->hold_ms / 1000);
    length += print_instant(out + length, "starts_at", item->starts_ms);
    length += print_instant(out + length, "ends_at", item->ends_ms);
    out[length++] = '}';
    return length;
}

size_t codec_write_restock(char out[CODEC_BODY_SIZE], const char *item,
                           const struct inventory_restock *restock) {
    return print(out, "{\"item\":\"%s\",\"quantity\":%lld,\"stock\":%lld,\"available\":%lld}", item,
                 (long long)restock->quantity, (long long)restock->stock, (long long)restock->available);
}

size_t codec_write_audit(char out[CODEC_BODY_SIZE], const struct inventory_audit *audit) {
    const struct inventory_item *item = &audit->item;
    const int64_t *orders = audit->orders, *units = audit->units;
    return print(
        out,
        "{\"item\":\"%s\",\"conserved\":%s,\"exact\":%s,\"off_by\":%lld,\"stock\":%lld,\"available\":%lld,"
        "\"held\":%lld,\"sold\":%lld,\"orders\":%lld,\"oversold\":%lld,\"cancelled\":%lld,\"expired\":%lld,"
        "\"over_limit\":%lld,"
        "\"unreadable\":%lld,\"pending\":%lld,\"shortage\":%lld,"
        "\"counters\":{\"held\":%lld,\"sold\":%lld,\"holds\":%lld,\"users\":%lld}}",
        item->item, audit->conserved ? "true" : "false", audit->exact ? "true" : "false",
        (long long)audit->off_by, (long long)(item->initial + item->restocked), (long long)item->available,
        (long long)units[INVENTORY_STATE_HELD], (long long)units[INVENTORY_STATE_CONFIRMED],
        (long long)(orders[INVENTORY_STATE_HELD] + orders[INVENTORY_STATE_CONFIRMED]),
        (long long)audit->oversold, (long long)orders[INVENTORY_STATE_CANCELLED],
        (long long)orders[INVENTORY_STATE_EXPIRED], (long long)audit->over_limit,
        (long long)audit->unreadable, (long long)audit->pending, (long long)item->shortage,
        (long long)item->held, (long long)item->sold, (long long)audit->holds, (long long)audit->user_units);
}

size_t codec_write_audit_sum(char out[CODEC_BODY_SIZE], const struct inventory_audit_sum *sum) {
    const struct inventory_reconciled *journal = &sum->journal;
    return print(out,
                 "{\"conserved\":%s,\"items\":%lld,\"unbalanced\":%lld,\"stock\":%lld,\"available\":%lld,"
                 "\"held\":%lld,\"sold\":%lld,\"oversold\":%lld,\"shortage\":%lld,\"transactions\":%lld,"
                 "\"in_flight\":%lld,\"torn\":%lld,\"lacking\":%lld,\"unknown\":%lld}",
                 sum->conserved ? "true" : "false", (long long)sum->items, (long long)sum->unbalanced,
                 (long long)sum->stock, (long long)sum->available, (long long)sum->held, (long long)sum->sold,
                 (long long)sum->oversold, (long long)sum->shortage, (long long)journal->transactions,
                 (long long)journal->in_flight, (long long)journal->torn, (long long)journal->lacking,
                 (long long)sum->unknown);
}

/* What the death of a server loses, now. */
static const char *loss(const struct inventory_health *health, const struct inventory_server *server) {
    if (server->replicas == 0)
        return "what its disk does not give back: no replica follows it";
    if (health->replicas == 0 || server->proven < health->replicas)
        return "what its replicas have not got yet; the instances that sold it put back what they can";
    if (server->replicas > health->replicas)
        return "nothing that was acknowledged, unless a replica is promoted that had not got it";
    return "nothing that was acknowledged";
}

static json_t *pack_losses(const struct inventory_health *health) {
    json_t *list = json_array();
    for (int i = 0; i < health->server_count; i++) {
        const struct inventory_server *server = &health->servers[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:s}", "server", server->address, "replicas",
                                              server->replicas, "proven", server->proven, "its_death_loses",
                                              loss(health, server)));
    }
    return list;
}

size_t codec_write_health(char out[CODEC_HEALTH_SIZE], const struct inventory_health *health, bool draining,
                          const char *baskets, const char *transfers) {
    /* The text may come from a server that is not Redis: then it may be no plain text, or too long for the
     * answer. */
    char reason[sizeof health->reason];
    size_t i = 0;
    for (; health->reason[i]; i++)
        reason[i] = health->reason[i] >= ' ' && health->reason[i] < 0x7f ? health->reason[i] : '?';
    reason[i] = '\0';
    json_t *body = json_pack("{s:b, s:s?, s:s, s:s, s:{s:s, s:s, s:i, s:o}, s:s, s:s, s:s}", "ready",
                             health->ready && !draining, "reason",
                             draining    ? "the service is shutting down"
                             : reason[0] ? reason
                                         : NULL,
                             "store_version", health->version, "store_role", health->role, "durability",
                             "appendonly", health->appendonly, "appendfsync", health->appendfsync, "replicas",
                             health->replicas, "servers", pack_losses(health), "maxmemory_policy",
                             health->eviction, "baskets", baskets, "transfers", transfers);
    size_t length = body ? json_dumpb(body, out, CODEC_HEALTH_SIZE, JSON_COMPACT) : 0;
    json_decref(body);
    return length <= CODEC_HEALTH_SIZE ? length : 0;
}
