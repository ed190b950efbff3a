#include "inventory/model/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "inventory/model/keys.h"

/* ---- names ---- */

static const char *const strategies[INVENTORY_STRATEGIES] = {
    [INVENTORY_BATCH] = "batch",           [INVENTORY_LUA] = "lua",     [INVENTORY_DECR] = "decr",
    [INVENTORY_OPTIMISTIC] = "optimistic", [INVENTORY_NAIVE] = "naive", [INVENTORY_LOCKED] = "locked",
};

const char *inventory_strategy_name(enum inventory_strategy strategy) {
    return strategies[strategy];
}

bool inventory_strategy_teaches(enum inventory_strategy strategy) {
    return strategy == INVENTORY_NAIVE || strategy == INVENTORY_LOCKED;
}

bool inventory_strategy_find(const char *name, enum inventory_strategy *strategy) {
    int i = text_index(strategies, INVENTORY_STRATEGIES, name);
    if (i >= 0)
        *strategy = (enum inventory_strategy)i;
    return i >= 0;
}

const char *inventory_state_name(enum inventory_state state) {
    static const char *const names[] = {"held",      "paying",  "confirmed", "returned",
                                        "cancelled", "expired", "aborted"};
    return names[state];
}

/* ---- the record of an order ---- */

/* The letter of each enum inventory_state; the last letter is of a held order of a basket. */
static const char state_letters[] = "hpcrxeub";
enum { STATE_OF_BASKET = INVENTORY_STATES };

static char *record_append_tag(char *at, char tag, int64_t number) {
    if (number == 0)
        return at;
    *at++ = ' ';
    *at++ = tag;
    *at++ = '=';
    return decimal_append(at, (uint64_t)number);
}

void record_print(char out[RECORD_SIZE], const struct inventory_order *order) {
    char *at = out;
    *at++ = state_letters[order->pending ? STATE_OF_BASKET : (int)order->state];
    if (order->version > 1)
        at = decimal_append(at, (uint64_t)order->version);
    *at++ = ' ';
    at = decimal_append(at, (uint64_t)order->quantity);
    at = stpcpy(stpcpy(stpcpy(at, " "), order->user), " ");
    at = decimal_append(at, (uint64_t)order->created_ms);
    if (order->expires_ms || order->basket[0])
        at = decimal_append(stpcpy(at, " "), (uint64_t)order->expires_ms);
    if (order->basket[0])
        at = stpcpy(stpcpy(at, " "), order->basket);
    if (order->payment[0])
        at = stpcpy(stpcpy(at, " p="), order->payment);
    at = record_append_tag(at, 's', order->settled_ms);
    at = record_append_tag(at, 'l', order->late);
    at = record_append_tag(at, 'r', order->returned);
    record_append_tag(at, 'd', order->refund_due);
}

/* Reads digits up to a blank or the end, and skips the blank. False: no digits, too many, or nothing after
 * the blank. */
static bool record_read_number(const char **at, int64_t *number) {
    const char *start = *at, *p = start;
    int64_t value = 0;
    while (*p >= '0' && *p <= '9' && p - start < 16)
        value = value * 10 + (*p++ - '0');
    if (p == start || (*p && (*p != ' ' || !p[1])))
        return false;
    *number = value;
    *at = *p ? p + 1 : p;
    return true;
}

/* After the letter: the version, which is left out while it is 1, and a blank. */
static bool record_read_version(const char **at, int64_t *version) {
    *version = 1;
    if (**at == ' ')
        return *++*at != '\0';
    return record_read_number(at, version) && *version > 1 && **at;
}

/* Copies a word of at most `most` characters up to a blank or the end, and skips the blank. False: it is
 * empty or too long, or nothing follows the blank. */
static bool record_read_word(const char **at, char *word, size_t most) {
    size_t length = strcspn(*at, " ");
    if (length == 0 || length > most || ((*at)[length] && !(*at)[length + 1]))
        return false;
    memcpy(word, *at, length);
    word[length] = '\0';
    *at += length + ((*at)[length] == ' ');
    return true;
}

static bool record_has_tag(const char *at) {
    return *at && at[1] == '=';
}

/* False if the tag is there and its value is wrong, or not from 1 to `most`. */
static bool record_read_tag(const char **at, char tag, int64_t most, int64_t *number) {
    if (**at != tag || !record_has_tag(*at))
        return true;
    *at += 2;
    return record_read_number(at, number) && *number >= 1 && *number <= most;
}

static bool record_read_tags(const char *at, struct inventory_order *order) {
    int64_t late = 0, due = 0;
    if (*at == 'p' && record_has_tag(at)) {
        at += 2;
        if (!record_read_word(&at, order->payment, INVENTORY_PAYMENT_MAX) ||
            !inventory_payment_valid(order->payment, strlen(order->payment)))
            return false;
    }
    if (!record_read_tag(&at, 's', INT64_MAX, &order->settled_ms) || !record_read_tag(&at, 'l', 1, &late) ||
        !record_read_tag(&at, 'r', order->quantity, &order->returned) || !record_read_tag(&at, 'd', 1, &due))
        return false;
    order->late = late;
    order->refund_due = due;
    return *at == '\0';
}

/* What follows CREATED_MS: [EXPIRES_MS [BASKET]] and tags. */
static bool record_read_rest(const char *at, struct inventory_order *order) {
    if (*at && !record_has_tag(at) && !record_read_number(&at, &order->expires_ms))
        return false;
    if (*at && !record_has_tag(at) &&
        (!record_read_word(&at, order->basket, INVENTORY_DIGEST_SIZE - 1) ||
         !inventory_digest_valid(order->basket)))
        return false;
    return record_read_tags(at, order);
}

/* Whether an order may have this state and these marks. */
static bool record_is_plausible(const struct inventory_order *order) {
    bool is_confirmed = order->state == INVENTORY_STATE_CONFIRMED || order->state == INVENTORY_STATE_RETURNED;
    bool of_basket = order->pending || order->state == INVENTORY_STATE_ABORTED;
    bool of_none =
        (order->state == INVENTORY_STATE_HELD && !order->pending) || order->state == INVENTORY_STATE_PAYING;
    /* Only a confirmed order, or a line of a basket, may lack the time at which its hold expires. */
    if (order->expires_ms == 0 && !is_confirmed && !order->basket[0])
        return false;
    if (order->basket[0] ? of_none : of_basket)
        return false;
    if ((order->late || order->returned) && !is_confirmed)
        return false;
    return (order->state == INVENTORY_STATE_RETURNED) == (is_confirmed && order->returned == order->quantity);
}

bool record_read(struct inventory_order *order, const char *item, const char *digest, const char *record) {
    struct inventory_order read = {.quantity = 0};
    const char *letter = record[0] ? strchr(state_letters, record[0]) : NULL;
    const char *at = record + 1;
    if (!letter || !record_read_version(&at, &read.version))
        return false;
    read.pending = letter - state_letters == STATE_OF_BASKET;
    read.state = read.pending ? INVENTORY_STATE_HELD : (enum inventory_state)(letter - state_letters);
    if (!record_read_number(&at, &read.quantity))
        return false;
    if (!record_read_word(&at, read.user, INVENTORY_USER_MAX) || !*at ||
        !record_read_number(&at, &read.created_ms) || !record_read_rest(at, &read) ||
        !record_is_plausible(&read))
        return false;
    snprintf(read.item, sizeof read.item, "%s", item);
    snprintf(read.id, sizeof read.id, "%s:%s", item, digest);
    *order = read;
    return true;
}

/* ---- an item ---- */

const char *const item_fields[ITEM_FIELDS] = {"terms", "restocked", "available", "held", "sold", "shortage"};

void item_terms_print(char out[ITEM_TERMS_SIZE], const struct inventory_item *item) {
    snprintf(out, ITEM_TERMS_SIZE, "%lld %lld %lld %lld %lld %lld %s", (long long)item->initial,
             (long long)item->limit, (long long)item->starts_ms, (long long)item->ends_ms,
             (long long)item->hold_ms, (long long)item->pay_ms, inventory_strategy_name(item->strategy));
}

bool item_terms_read(struct inventory_item *item, const char *terms) {
    int64_t *const numbers[] = {&item->initial, &item->limit,   &item->starts_ms,
                                &item->ends_ms, &item->hold_ms, &item->pay_ms};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char *end;
        *numbers[i] = strtoll(terms, &end, 10);
        if (end == terms || *end != ' ')
            return false;
        terms = end + 1;
    }
    return inventory_strategy_find(terms, &item->strategy);
}

void item_command(const char *argv[ITEM_ARGC], const char *key) {
    argv[0] = "HMGET";
    argv[1] = key;
    memcpy(argv + 2, item_fields, sizeof item_fields);
}

bool item_read(struct inventory_item *item, const char *name, const struct redis_value *value) {
    const char *terms =
        redis_value_count(value) == ITEM_FIELDS ? redis_value_text(redis_value_at(value, 0)) : NULL;
    struct inventory_item read = {.initial = 0};
    int64_t *const numbers[] = {&read.restocked, &read.available, &read.held, &read.sold, &read.shortage};
    if (!terms || !item_terms_read(&read, terms))
        return false;
    for (size_t i = 1; i < ITEM_FIELDS; i++)
        *numbers[i - 1] = redis_value_integer(redis_value_at(value, i), 0);
    snprintf(read.item, sizeof read.item, "%s", name);
    *item = read;
    return true;
}

enum inventory_status terms_judge_time(int64_t now_ms, int64_t starts_ms, int64_t ends_ms) {
    if (starts_ms && now_ms < starts_ms)
        return INVENTORY_NOT_STARTED;
    return ends_ms && now_ms >= ends_ms ? INVENTORY_ENDED : INVENTORY_OK;
}

bool terms_refusal(const char *word, enum inventory_status *status) {
    static const char *const words[] = {[INVENTORY_SOLD_OUT] = "sold-out",
                                        [INVENTORY_LIMIT] = "limit",
                                        [INVENTORY_NOT_STARTED] = "not-started",
                                        [INVENTORY_ENDED] = "ended",
                                        [INVENTORY_UNKNOWN_ITEM] = "unknown-item"};
    int i = text_index(words, sizeof words / sizeof *words, word);
    if (i >= 0)
        *status = (enum inventory_status)i;
    return i >= 0;
}
