#include <stdlib.h>

#include "base/random.h"
#include "loadtest/http/client_pool.h"

#define TICK_MS        5
#define BACKOFF_MIN_NS UINT64_C(5000000)    /* before the second try */
#define BACKOFF_MAX_NS UINT64_C(1000000000) /* before any later one */
#define PAUSE_MAX_NS   UINT64_C(100000000)  /* before a new job, where the last one could not be sent */

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_WAITING };

/* One connection, and the job it works on. */
struct slot {
    struct client client; /* first: a struct client * is a struct slot * */
    struct pool *pool;
    enum slot_state state;
    unsigned target;
    uint64_t job;
    unsigned tries; /* of the job; 0 when a waiting slot has none */
    uint64_t wake_ns;
    unsigned refused; /* in a row */
};

struct pool {
    uv_loop_t loop;
    uv_timer_t ticker;
    struct client_buffer buffer;
    const struct client_target *targets;
    unsigned target_count;
    struct slot *slots;
    unsigned slot_count;
    unsigned busy; /* slots that are not free */
    uint64_t random;
    const struct pool_work *work;
};

static bool stopped(const struct pool *pool, uint64_t now_ns) {
    const struct pool_work *work = pool->work;
    return now_ns >= work->deadline_ns || (work->stop != NULL && *work->stop != 0);
}

static void release(struct slot *slot) {
    slot->state = SLOT_FREE;
    slot->pool->busy--;
}

static void send_job(struct slot *slot, uint64_t now_ns) {
    struct pool *pool = slot->pool;
    const struct pool_work *work = pool->work;
    size_t length = work->render(work->self, slot->job, slot->target, slot->client.request);
    slot->tries++;
    slot->state = SLOT_RUNNING;
    client_send(&slot->client, &pool->targets[slot->target], length, now_ns + work->timeout_ns);
}

static void take_job(struct slot *slot, uint64_t now_ns) {
    const struct pool_work *work = slot->pool->work;
    if (stopped(slot->pool, now_ns) || !work->next(work->self, now_ns, &slot->job)) {
        release(slot);
        return;
    }
    slot->tries = 0;
    send_job(slot, now_ns);
}

/* Doubles each time; half of it is left to chance, so that those who failed together do not come back so. */
static void back_off(struct slot *slot, unsigned times, uint64_t max_ns, uint64_t now_ns) {
    uint64_t wait = times < 9 ? BACKOFF_MIN_NS << (times - 1) : max_ns;
    if (wait > max_ns) {
        wait = max_ns;
    }
    slot->wake_ns = now_ns + wait / 2 + random_next(&slot->pool->random) % (wait / 2);
    slot->state = SLOT_WAITING;
}

static void on_done(struct client *client, enum client_result result) {
    struct slot *slot = (struct slot *)client;
    struct pool *pool = slot->pool;
    uint64_t now_ns = result == CLIENT_ANSWERED ? client->answered_ns : uv_hrtime();
    struct pool_answer answer = {
        .job = slot->job,
        .tries = slot->tries,
        .target = slot->target,
        .result = result,
        .response = result == CLIENT_ANSWERED ? &client->response : NULL,
        .sent_ns = client->sent_ns,
        .answered_ns = now_ns,
    };
    bool over = pool->work->answered(pool->work->self, &answer);
    slot->refused = result == CLIENT_NOT_SENT ? slot->refused + 1 : 0;
    if (over && slot->refused == 0) {
        take_job(slot, now_ns);
        return;
    }
    slot->target = (slot->target + 1) % pool->target_count;
    if (over) {
        back_off(slot, slot->refused, PAUSE_MAX_NS, now_ns);
        slot->tries = 0;
    } else {
        back_off(slot, slot->tries, BACKOFF_MAX_NS, now_ns);
    }
}

static void on_tick(uv_timer_t *ticker) {
    struct pool *pool = ticker->data;
    uint64_t now_ns = uv_hrtime();
    bool stop = stopped(pool, now_ns);
    for (unsigned i = 0; i < pool->slot_count; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot->state == SLOT_RUNNING) {
            client_check(&slot->client, now_ns);
        } else if (slot->state == SLOT_WAITING && stop) {
            release(slot);
        } else if (slot->state == SLOT_WAITING && now_ns >= slot->wake_ns) {
            if (slot->tries == 0) {
                take_job(slot, now_ns);
            } else {
                send_job(slot, now_ns);
            }
        }
    }
    if (pool->work->tick != NULL) {
        pool->work->tick(pool->work->self, now_ns);
    }
}

struct pool *pool_open(const struct client_target *targets, unsigned target_count, unsigned connections,
                       uint64_t seed) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return NULL;
    }
    pool->slots = calloc(connections, sizeof *pool->slots);
    if (pool->slots == NULL || uv_loop_init(&pool->loop) != 0) {
        free(pool->slots);
        free(pool);
        return NULL;
    }
    pool->loop.data = &pool->buffer;
    uv_timer_init(&pool->loop, &pool->ticker);
    pool->ticker.data = pool;
    pool->targets = targets;
    pool->target_count = target_count;
    pool->slot_count = connections;
    pool->random = seed;
    for (unsigned i = 0; i < connections; i++) {
        struct slot *slot = &pool->slots[i];
        client_init(&slot->client, &pool->loop, on_done);
        slot->pool = pool;
        slot->target = i % target_count;
    }
    return pool;
}

void pool_run(struct pool *pool, const struct pool_work *work) {
    pool->work = work;
    pool->busy = pool->slot_count;
    uint64_t now_ns = uv_hrtime();
    uv_timer_start(&pool->ticker, on_tick, TICK_MS, TICK_MS);
    for (unsigned i = 0; i < pool->slot_count; i++) {
        pool->slots[i].refused = 0;
        take_job(&pool->slots[i], now_ns);
    }
    while (pool->busy > 0) {
        uv_run(&pool->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&pool->ticker);
    pool->work = NULL;
}

void pool_close(struct pool *pool) {
    if (pool == NULL) {
        return;
    }
    for (unsigned i = 0; i < pool->slot_count; i++) {
        client_close(&pool->slots[i].client);
    }
    uv_close((uv_handle_t *)&pool->ticker, NULL);
    uv_run(&pool->loop, UV_RUN_DEFAULT);
    uv_loop_close(&pool->loop);
    free(pool->slots);
    free(pool);
}

uint64_t pool_connects(const struct pool *pool) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < pool->slot_count; i++) {
        sum += pool->slots[i].client.connects;
    }
    return sum;
}
