#include "inventory/store/item_terms.h"

#include <stdio.h>
#include <string.h>

const char *const item_fields[ITEM_FIELDS] = {"initial", "restocked", "available", "held",
                                              "sold",    "limit",     "starts",    "ends",
                                              "hold",    "shortage",  "strategy"};

void item_command(const char *argv[ITEM_ARGC], const char *key) {
    argv[0] = "HMGET";
    argv[1] = key;
    memcpy(argv + 2, item_fields, sizeof item_fields);
}

bool item_read(struct inventory_item *item, const char *name, const struct redis_value *value) {
    if (redis_value_count(value) != ITEM_FIELDS || redis_value_type(redis_value_at(value, 0)) == REDIS_NIL)
        return false;
    struct inventory_item read = {.initial = 0};
    int64_t *const numbers[] = {&read.initial, &read.restocked, &read.available, &read.held,
                                &read.sold,    &read.limit,     &read.starts_ms, &read.ends_ms,
                                &read.hold_ms, &read.shortage};
    for (size_t i = 0; i < ITEM_FIELDS - 1; i++)
        *numbers[i] = redis_value_integer(redis_value_at(value, i), 0);
    const char *strategy = redis_value_text(redis_value_at(value, ITEM_FIELDS - 1));
    if (!strategy || !inventory_strategy_find(strategy, &read.strategy))
        return false;
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
