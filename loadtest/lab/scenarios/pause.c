#include "loadtest/lab/scenarios/pause.h"

enum { WAIT_TTLS = 20 };

void pause_holder(struct cast *cast, void (*observe)(struct cast *cast)) {
    struct stage *stage = cast->stage;
    int64_t ttl_ms = stage_ttl_ms(stage);
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    observe(cast);
    stage_until(stage, 40 + stage_random(stage, 0, 40));
    client_acquire(a, CAST_ITEM, WAIT_TTLS * ttl_ms);
    client_read_stock(a, CAST_ITEM);
    client_pause(a, "stopped beyond its lease");
    stage_pause(stage, ttl_ms / 10);
    client_begin_acquire(b, CAST_ITEM, WAIT_TTLS * ttl_ms);
    cast_sell(b);
    stage_pause(stage, ttl_ms / 10);
    client_resume(a);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    observer_read_stock(cast->shop, CAST_ITEM);
}

void pause_observe_redis(struct cast *cast) {
    observer_watch_redis(cast->clients, cast->shop, CAST_ITEM);
}
