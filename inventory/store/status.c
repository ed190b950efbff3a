#include "inventory/store/status.h"

#include <stdio.h>
#include <string.h>

enum inventory_status store_status(struct shared *shared, const struct redis_value *value) {
    if (!value)
        return INVENTORY_UNKNOWN;
    if (redis_value_type(value) != REDIS_ERROR)
        return INVENTORY_OK;
    if (value == redis_unsent)
        return INVENTORY_UNAVAILABLE;
    const char *text = redis_value_text(value);
    metric_add(&shared->metrics->store_errors, 1);
    snprintf(shared->error, sizeof shared->error, "%s", text);
    return INVENTORY_UNAVAILABLE;
}

int64_t store_time_ms(const struct redis_value *value) {
    if (redis_value_count(value) != 2)
        return 0;
    return redis_value_integer(redis_value_at(value, 0), 0) * 1000 +
           redis_value_integer(redis_value_at(value, 1), 0) / 1000;
}

const char *store_last_error(const struct shared *shared) {
    const char *error = router_error(shared->store);
    return *error ? error : shared->error;
}
