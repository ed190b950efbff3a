#include "inventory/store/barrier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT_MAX = 2 };

/* Where one barrier can be in flight. */
struct wait {
    struct barrier *barrier;
    struct redis *redis; /* NULL until the held connection was made */
    bool in_flight;
    bool same_history; /* as the held connection's */
    uint64_t count;    /* of replies held by then */
};

struct barrier {
    struct redis *held;
    const struct clock *clock;
    int replicas, timeout_ms;
    struct wait waits[IN_FLIGHT_MAX];
    uint64_t waited; /* the replies up to this one have their barrier */
    uv_prepare_t turn;
    bool admitting;
    char too_few[64];
};

/* Ends before the time-out of its connection. */
static int wait_ms(const struct barrier *barrier) {
    return barrier->timeout_ms * 3 / 4;
}

static void on_info(void *ctx, const struct redis_value *value) {
    struct wait *wait = ctx;
    const char *info = value ? redis_value_text(value) : NULL;
    struct replication now;
    wait->same_history = info && replication_read(&now, info) && now.is_master &&
                         strcmp(now.id, redis_history(wait->barrier->held)->id) == 0;
}

static void on_waited(void *ctx, const struct redis_value *value) {
    struct wait *wait = ctx;
    struct barrier *barrier = wait->barrier;
    wait->in_flight = false;
    if (!value || value == redis_unsent)
        barrier->waited = 0; /* those that are held still need another one */
    else if (!wait->same_history)
        redis_break(barrier->held, "the server's history changed");
    else if (redis_value_integer(value, 0) < barrier->replicas)
        redis_break(barrier->held, barrier->too_few);
    else
        redis_release(barrier->held, wait->count);
}

static void on_turn(uv_prepare_t *turn) {
    struct barrier *barrier = turn->data;
    for (int i = 0; i < IN_FLIGHT_MAX && redis_held(barrier->held) > barrier->waited; i++) {
        struct wait *wait = &barrier->waits[i];
        if (!wait->redis || wait->in_flight || !redis_is_up(wait->redis))
            continue;
        wait->in_flight = true;
        wait->count = barrier->waited = redis_held(barrier->held);
        redis_callf(wait->redis, on_info, wait, "INFO replication");
        redis_callf(wait->redis, on_waited, wait, "WAIT %d %d", barrier->replicas, wait_ms(barrier));
        redis_flush(wait->redis);
    }
}

static void on_enough(void *ctx, const struct redis_value *value) {
    struct barrier *barrier = ctx;
    barrier->admitting = false;
    if (value && redis_value_integer(value, 0) >= barrier->replicas)
        redis_admit(barrier->held);
    else if (value)
        redis_break(barrier->held, barrier->too_few);
}

/* The same server as the held connection's. */
static void find_same(void *ctx, struct redis *redis) {
    const struct wait *wait = ctx;
    redis_found(redis, redis_address_now(wait->barrier->held), NULL);
}

/* To the server that the held connection has found by now. */
static bool connect_anew(struct wait *wait) {
    const struct barrier *barrier = wait->barrier;
    redis_close(wait->redis);
    wait->redis = redis_open(&(struct redis_config){.loop = barrier->turn.loop,
                                                    .clock = barrier->clock,
                                                    .timeout_ms = barrier->timeout_ms,
                                                    .find = find_same,
                                                    .ctx = wait});
    return wait->redis != NULL;
}

void barrier_admit(struct barrier *barrier) {
    char replicas[16], timeout_ms[16];
    if (barrier->admitting)
        return;
    barrier->admitting = true;
    for (int i = 0; i < IN_FLIGHT_MAX; i++) {
        if (!connect_anew(&barrier->waits[i])) {
            barrier->admitting = false;
            redis_break(barrier->held, "out of memory");
            return;
        }
    }
    snprintf(replicas, sizeof replicas, "%d", barrier->replicas);
    snprintf(timeout_ms, sizeof timeout_ms, "%d", wait_ms(barrier));
    redis_greet(barrier->held, on_enough, barrier, 3, (const char *[]){"WAIT", replicas, timeout_ms});
}

struct barrier *barrier_open(uv_loop_t *loop, const struct clock *clock, int timeout_ms, int replicas,
                             struct redis *held) {
    struct barrier *barrier = calloc(1, sizeof *barrier);
    if (!barrier)
        return NULL;
    barrier->held = held;
    barrier->clock = clock;
    barrier->replicas = replicas;
    barrier->timeout_ms = timeout_ms;
    for (int i = 0; i < IN_FLIGHT_MAX; i++)
        barrier->waits[i].barrier = barrier;
    snprintf(barrier->too_few, sizeof barrier->too_few, "fewer than %d replicas have what was written",
             replicas);
    barrier->turn.data = barrier;
    uv_prepare_init(loop, &barrier->turn);
    uv_prepare_start(&barrier->turn, on_turn);
    return barrier;
}

static void on_closed(uv_handle_t *turn) {
    free(turn->data);
}

void barrier_close(struct barrier *barrier) {
    if (!barrier)
        return;
    for (int i = 0; i < IN_FLIGHT_MAX; i++)
        redis_close(barrier->waits[i].redis);
    uv_close((uv_handle_t *)&barrier->turn, on_closed);
}
