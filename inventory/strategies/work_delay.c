#include "inventory/strategies/work_delay.h"

#include <stddef.h>

enum { DELAY_TICK_MS = 1 };

void work_delay_init(struct work_delay *delay, uv_loop_t *loop, const struct clock *clock, int ms) {
    *delay = (struct work_delay){.ms = ms, .clock = clock};
    delay->timer.data = delay;
    uv_timer_init(loop, &delay->timer);
}

static struct delayed *work_delay_take_first(struct work_delay *delay) {
    struct delayed *first = delay->first;
    delay->first = first->next;
    return first;
}

static void work_delay_on_tick(uv_timer_t *timer) {
    struct work_delay *delay = timer->data;
    int64_t now_ms = clock_mono_ms(delay->clock);
    while (delay->first && delay->first->due_ms <= now_ms) {
        struct delayed *delayed = work_delay_take_first(delay);
        delayed->fn(delayed->ctx, false);
    }
    if (!delay->first)
        uv_timer_stop(timer);
}

void work_delay_begin(struct work_delay *delay, struct delayed *delayed, void (*fn)(void *ctx, bool closing),
                      void *ctx) {
    if (delay->ms == 0) {
        fn(ctx, false);
        return;
    }
    *delayed = (struct delayed){.due_ms = clock_mono_ms(delay->clock) + delay->ms, .fn = fn, .ctx = ctx};
    if (delay->first)
        delay->last->next = delayed;
    else
        delay->first = delayed;
    delay->last = delayed;
    if (!uv_is_active((const uv_handle_t *)&delay->timer)) /* a new start would put it off */
        uv_timer_start(&delay->timer, work_delay_on_tick, DELAY_TICK_MS, DELAY_TICK_MS);
}

void work_delay_end(struct work_delay *delay) {
    while (delay->first) {
        struct delayed *delayed = work_delay_take_first(delay);
        delayed->fn(delayed->ctx, true);
    }
}
