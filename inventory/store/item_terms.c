#include "inventory/store/item_terms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const item_fields[ITEM_FIELDS] = {"terms", "restocked", "available", "held", "sold", "shortage"};

void item_terms_print(char out[ITEM_TERMS_SIZE], const struct inventory_item *item) {
    snprintf(out, ITEM_TERMS_SIZE, "%lld %lld %lld %lld %lld %s", (long long)item->initial,
             (long long)item->limit, (long long)item->starts_ms, (long long)item->ends_ms,
             (long long)item->hold_ms, inventory_strategy_name(item->strategy));
}

bool item_terms_read(struct inventory_item *item, const char *terms) {
    int64_t *const numbers[] = {&item->initial, &item->limit, &item->starts_ms, &item->ends_ms,
                                &item->hold_ms};
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
    static const struct {
        const char *word;
        enum inventory_status status;
    } words[] = {{"sold-out", INVENTORY_SOLD_OUT},
                 {"limit", INVENTORY_LIMIT},
                 {"not-started", INVENTORY_NOT_STARTED},
                 {"ended", INVENTORY_ENDED},
                 {"unknown-item", INVENTORY_UNKNOWN_ITEM}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].word, word) == 0) {
            *status = words[i].status;
            return true;
        }
    }
    return false;
}
