/* The time of the store. */
#include <stdlib.h>

#include "inventory/store/shared.h"
#include "inventory/store/status.h"

struct time_asked {
    struct shared *shared;
    inventory_time_fn *fn;
    void *ctx;
};

static void on_time(void *ctx, const struct redis_value *value) {
    struct time_asked asked = *(struct time_asked *)ctx;
    enum inventory_status status = store_status(asked.shared, value);
    free(ctx);
    asked.fn(asked.ctx, status, status == INVENTORY_OK ? store_time_ms(value) : 0);
}

void store_time_read(struct shared *shared, inventory_time_fn *fn, void *ctx) {
    struct redis *redis = router_any(shared->store);
    struct time_asked *asked = redis ? malloc(sizeof *asked) : NULL;
    if (!asked) {
        fn(ctx, INVENTORY_UNAVAILABLE, 0);
        return;
    }
    *asked = (struct time_asked){shared, fn, ctx};
    redis_callf(redis, on_time, asked, "TIME");
}
