#include "inventory/strategies/work_delay.h"

enum { DELAY_TICK_MS = 1 };

static void on_delay(uv_timer_t *timer) {
    struct inventory *inventory = timer->data;
    int64_t now_ms = clock_mono_ms(inventory->config.clock);
    while (inventory->delayed && inventory->delayed->due_ms <= now_ms) {
        struct delayed *delayed = inventory->delayed;
        inventory->delayed = delayed->next;
        delayed->fn(delayed->ctx, false);
    }
    if (!inventory->delayed)
        uv_timer_stop(timer);
}

void work_delay_begin(struct inventory *inventory, struct delayed *delayed,
                      void (*fn)(void *ctx, bool closing), void *ctx) {
    int delay_ms = inventory->config.work_delay_ms;
    if (delay_ms == 0) {
        fn(ctx, false);
        return;
    }
    *delayed =
        (struct delayed){.due_ms = clock_mono_ms(inventory->config.clock) + delay_ms, .fn = fn, .ctx = ctx};
    if (inventory->delayed)
        inventory->delayed_last->next = delayed;
    else
        inventory->delayed = delayed;
    inventory->delayed_last = delayed;
    if (!uv_is_active((const uv_handle_t *)&inventory->delay)) /* a new start would put it off */
        uv_timer_start(&inventory->delay, on_delay, DELAY_TICK_MS, DELAY_TICK_MS);
}

void work_delay_close(struct inventory *inventory) {
    while (inventory->delayed) {
        struct delayed *delayed = inventory->delayed;
        inventory->delayed = delayed->next;
        delayed->fn(delayed->ctx, true);
    }
}
