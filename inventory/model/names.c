/* Names and texts of statuses, strategies and states; and which texts are valid names. */
#include <string.h>

#include "inventory/inventory.h"

const char *inventory_status_text(enum inventory_status status) {
    static const char *const texts[] = {
        [INVENTORY_OK] = "done",
        [INVENTORY_REPLAYED] = "done before by the same key",
        [INVENTORY_SOLD_OUT] = "sold out",
        [INVENTORY_LIMIT] = "over the user's limit",
        [INVENTORY_NOT_STARTED] = "the sale has not started",
        [INVENTORY_ENDED] = "the sale has ended",
        [INVENTORY_UNKNOWN_ITEM] = "no such item",
        [INVENTORY_UNKNOWN_ORDER] = "no such order",
        [INVENTORY_UNKNOWN_BASKET] = "no such basket",
        [INVENTORY_OF_BASKET] = "the order is its basket's to settle",
        [INVENTORY_PENDING] = "in flight, or left unfinished",
        [INVENTORY_CROSS_SLOT] = "the items lie in several slots",
        [INVENTORY_EXISTS] = "the item exists otherwise",
        [INVENTORY_KEY_REUSED] = "the key belongs to another request",
        [INVENTORY_TOO_MANY] = "the stock would be too large",
        [INVENTORY_CONFIRMED] = "the order was confirmed",
        [INVENTORY_CANCELLED] = "the order was cancelled",
        [INVENTORY_EXPIRED] = "the order has expired",
        [INVENTORY_WANTS_LOCK] = "the item is sold under a lock",
        [INVENTORY_REFUSED] = "the item's strategy needs teaching mode",
        [INVENTORY_STALE] = "a newer holder of the lock was seen",
        [INVENTORY_OVERLOADED] = "too many wait already",
        [INVENTORY_UNAVAILABLE] = "the store cannot be used",
        [INVENTORY_UNKNOWN] = "sent, but no reply came",
    };
    return texts[status];
}

static const struct {
    const char *name;
    bool teaches;
} strategies[INVENTORY_STRATEGIES] = {
    [INVENTORY_BATCH] = {"batch", false}, [INVENTORY_LUA] = {"lua", false},
    [INVENTORY_DECR] = {"decr", false},   [INVENTORY_OPTIMISTIC] = {"optimistic", false},
    [INVENTORY_NAIVE] = {"naive", true},  [INVENTORY_LOCKED] = {"locked", true},
};

const char *inventory_strategy_name(enum inventory_strategy strategy) {
    return strategies[strategy].name;
}

bool inventory_strategy_teaches(enum inventory_strategy strategy) {
    return strategies[strategy].teaches;
}

bool inventory_strategy_find(const char *name, enum inventory_strategy *strategy) {
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        if (strcmp(strategies[i].name, name) == 0) {
            *strategy = (enum inventory_strategy)i;
            return true;
        }
    }
    return false;
}

const char *inventory_state_name(enum inventory_state state) {
    static const char *const names[] = {"held", "confirmed", "cancelled", "expired", "aborted"};
    return names[state];
}

bool inventory_name_valid(const char *name, size_t length) {
    if (length < 1 || length > INVENTORY_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
              c == '_' || c == '-'))
            return false;
    }
    return true;
}
