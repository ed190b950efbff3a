#include <stdlib.h>

#include "base/random.h"
#include "loadtest/http/connection_pool.h"

#define TICK_MS        5
#define BACKOFF_MIN_NS UINT64_C(5000000)    /* before the second attempt */
#define BACKOFF_MAX_NS UINT64_C(1000000000) /* before any later one */
#define PAUSE_MAX_NS   UINT64_C(100000000)  /* before a new job, if the last one could not be sent */

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_WAITING };

/* One connection, and the job it works on. */
struct slot {
    struct connection connection; /* first: a struct connection * is a struct slot * */
    struct connection_pool *pool;
    enum slot_state state;
    unsigned target;
    uint64_t job;
    unsigned tries; /* attempts of the job; 0: the slot waits without a job */
    uint64_t wake_ns;
    unsigned refused; /* attempts in a row that were not sent */
};

struct connection_pool {
    uv_loop_t loop;
    uv_timer_t ticker;
    struct connection_shared shared;
    const struct target *targets;
    unsigned target_count;
    unsigned slot_count;
    unsigned busy; /* slots that are not free */
    uint64_t random;
    const struct pool_work *work;
    struct slot slots[];
};

static bool stopped(const struct connection_pool *pool, uint64_t now_ns) {
    const struct pool_work *work = pool->work;
    return now_ns >= work->deadline_ns || (work->stop != NULL && *work->stop != 0);
}

static void release(struct slot *slot) {
    slot->state = SLOT_FREE;
    slot->pool->busy--;
}

static void send_job(struct slot *slot, uint64_t now_ns) {
    struct connection_pool *pool = slot->pool;
    const struct pool_work *work = pool->work;
    const struct target *target = &pool->targets[slot->target];
    size_t length = work->render(work->self, slot->job, target, slot->connection.request);
    slot->tries++;
    slot->state = SLOT_RUNNING;
    connection_send(&slot->connection, target, length, now_ns + work->timeout_ns);
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

/* Doubles each time. Half of it is random, so that connections that failed together do not return together.
 */
static void back_off(struct slot *slot, unsigned times, uint64_t max_ns, uint64_t now_ns) {
    uint64_t wait = times < 9 ? BACKOFF_MIN_NS << (times - 1) : max_ns;
    if (wait > max_ns)
        wait = max_ns;
    slot->wake_ns = now_ns + wait / 2 + random_next(&slot->pool->random) % (wait / 2);
    slot->state = SLOT_WAITING;
}

static void on_done(struct connection *connection, enum connection_result result) {
    struct slot *slot = (struct slot *)connection;
    struct connection_pool *pool = slot->pool;
    uint64_t now_ns = result == CONNECTION_ANSWERED ? connection->answered_ns : uv_hrtime();
    struct pool_answer answer = {
        .job = slot->job,
        .tries = slot->tries,
        .result = result,
        .response = result == CONNECTION_ANSWERED ? &connection->response : NULL,
        .sent_ns = connection->sent_ns,
        .answered_ns = now_ns,
    };
    bool over = pool->work->answered(pool->work->self, &answer);
    slot->refused = result == CONNECTION_NOT_SENT ? slot->refused + 1 : 0;
    if (over && slot->refused == 0) {
        take_job(slot, now_ns);
        return;
    }
    slot->target = (slot->target + 1) % pool->target_count;
    back_off(slot, over ? slot->refused : slot->tries, over ? PAUSE_MAX_NS : BACKOFF_MAX_NS, now_ns);
    slot->tries = over ? 0 : slot->tries;
}

static void on_tick(uv_timer_t *ticker) {
    struct connection_pool *pool = ticker->data;
    uint64_t now_ns = uv_hrtime();
    bool stop = stopped(pool, now_ns);
    for (unsigned i = 0; i < pool->slot_count; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot->state == SLOT_RUNNING) {
            connection_check(&slot->connection, now_ns);
        } else if (slot->state == SLOT_WAITING && stop) {
            release(slot);
        } else if (slot->state == SLOT_WAITING && now_ns >= slot->wake_ns) {
            if (slot->tries == 0)
                take_job(slot, now_ns);
            else
                send_job(slot, now_ns);
        }
    }
    pool->work->tick(pool->work->self, now_ns);
}

struct connection_pool *connection_pool_open(const struct target *targets, unsigned target_count,
                                             unsigned connections, uint64_t seed) {
    struct connection_pool *pool = calloc(1, sizeof *pool + connections * sizeof pool->slots[0]);
    if (pool == NULL || uv_loop_init(&pool->loop) != 0) {
        free(pool);
        return NULL;
    }
    pool->loop.data = &pool->shared;
    uv_timer_init(&pool->loop, &pool->ticker);
    pool->ticker.data = pool;
    pool->targets = targets;
    pool->target_count = target_count;
    pool->slot_count = connections;
    pool->random = seed;
    for (unsigned i = 0; i < connections; i++) {
        struct slot *slot = &pool->slots[i];
        connection_init(&slot->connection, &pool->loop, on_done);
        slot->pool = pool;
        slot->target = i % target_count;
    }
    return pool;
}

void connection_pool_run(struct connection_pool *pool, const struct pool_work *work) {
    pool->work = work;
    pool->busy = pool->slot_count;
    uint64_t now_ns = uv_hrtime();
    uv_timer_start(&pool->ticker, on_tick, TICK_MS, TICK_MS);
    for (unsigned i = 0; i < pool->slot_count; i++) {
        pool->slots[i].refused = 0;
        take_job(&pool->slots[i], now_ns);
    }
    while (pool->busy > 0)
        uv_run(&pool->loop, UV_RUN_ONCE);
    uv_timer_stop(&pool->ticker);
}

void connection_pool_close(struct connection_pool *pool) {
    if (pool == NULL)
        return;
    for (unsigned i = 0; i < pool->slot_count; i++)
        connection_close(&pool->slots[i].connection);
    uv_close((uv_handle_t *)&pool->ticker, NULL);
    uv_run(&pool->loop, UV_RUN_DEFAULT);
    uv_loop_close(&pool->loop);
    free(pool);
}

uint64_t connection_pool_connects(const struct connection_pool *pool) {
    return pool->shared.connects;
}
