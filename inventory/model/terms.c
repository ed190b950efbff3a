#include "inventory/model/terms.h"

#include <string.h>

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
