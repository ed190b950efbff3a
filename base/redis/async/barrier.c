/* Hands out the replies of a connection (struct redis_config, `hold`) once enough replicas have all that
 * the server had written by then: "acknowledged" means "replicated".
 *
 * - WAIT blocks its connection. So barriers take turns on two connections of their own: a reply that comes
 *   while one barrier is in flight gets the next one at once.
 * - A barrier reads the server's history and offset (INFO replication), waits (WAIT), and reads them
 *   again, with the offsets that the replicas have told. If the history is still that of the connection,
 *   all replies that came before the barrier are below the first offset. That holds for replies to reads,
 *   too: nobody is shown an order that is not safe.
 * - WAIT saves time and proves nothing: what it waits for differs between versions. It needs a write
 *   before it, to a key of this server. Where there is no such key, or the write is refused, the offsets
 *   are polled.
 * - If too few replicas answer in time, the connection breaks: its replies are lost, and what became of the
 *   calls is unknown. It is not up again before enough replicas have everything.
 *
 * WAIT is best effort: of several replicas Redis may promote one that lacks a write. With one replica that
 * cannot happen. */
#include "base/redis/async/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis/info.h"

enum {
    IN_FLIGHT_MAX = 2,
    KEY_SIZE = 48,
    KEYS_TRIED = 1000, /* at a time; each is hashed */
    /* More than there can be: WAIT asks them all, and ends by its time. */
    REPLICAS_NEVER = 1000000,
    POLL_MS = 10
};

/* Since Redis 7.2 WAIT waits for what its own connection wrote last. This is replicated and changes nothing:
 * replicas are told to delete a key that they do not have. The append-only file gets nothing, which would
 * cost an fsync, and a store that is full does not refuse it. Before Redis 7.0 it is refused; there WAIT
 * needs no write. */
static const char mark[] = "#!lua flags=allow-oom\n"
                           "redis.set_repl(redis.REPL_NONE)\n"
                           "redis.call('SET', KEYS[1], '')\n"
                           "redis.set_repl(redis.REPL_REPLICA)\n"
                           "redis.call('DEL', KEYS[1])\n";

/* redis_call(), or redis_greet() on a connection that is not up yet. */
typedef void send_fn(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char *const argv[]);

/* A connection on which one barrier at a time can be in flight. */
struct wait {
    struct barrier *barrier;
    struct redis *redis; /* NULL until the held connection is prepared */
    send_fn *send;
    bool in_flight;
    int64_t offset; /* of the history, which the replicas must have; -1: not told yet */
    int64_t since_ms;
    uint64_t count; /* of replies that were held back before it began */
};

struct barrier {
    const struct server *server;
    struct redis *held; /* the connection to it */
    const struct servers_config *config;
    /* A connection that lacks replicas when it is prepared is kept: the Sentinels' client breaks it when
     * another server is the master. Otherwise it breaks, and the server is looked up anew. */
    bool patient;
    barrier_owns_fn *owns;
    struct wait waits[IN_FLIGHT_MAX];
    struct wait admission; /* on the held connection itself */
    uint64_t waited;       /* the replies up to this one have their barrier */
    uv_prepare_t turn;
    char key[KEY_SIZE]; /* at this server; "": none is known */
    unsigned next_key;
    char too_few[64];
};

/* Ends before the time-out of its connection. */
static int barrier_wait_ms(const struct barrier *barrier) {
    return barrier->config->timeout_ms * 3 / 4;
}

/* ---- the mark ---- */

/* Finds a key that the server has. A server of few slots has few of the keys tried: then the search goes on
 * with the next barrier. */
static bool barrier_find_key(struct barrier *barrier) {
    for (int i = 0; i < KEYS_TRIED && !barrier->key[0]; i++) {
        snprintf(barrier->key, sizeof barrier->key, "%s{barrier:%u}", barrier->config->key_prefix,
                 barrier->next_key++);
        if (!barrier->owns(barrier->server, barrier->key))
            barrier->key[0] = '\0';
    }
    return barrier->key[0];
}

/* If the key is refused, its slot may be moving: another key is looked for. */
static void barrier_on_marked(void *ctx, const struct redis_value *value) {
    struct barrier *barrier = ctx;
    if (value && redis_value_type(value) == REDIS_ERROR)
        barrier->key[0] = '\0';
}

/* ---- one barrier ---- */

static const char another_history[] = "the server's history changed";

/* The text of the reply; NULL: it tells of another history, or there is none. */
static const char *wait_read_history(const struct wait *wait, const struct redis_value *value,
                                     struct replication *now) {
    const char *info = value ? redis_value_text(value) : NULL;
    bool same = info && replication_read(now, info) && now->is_master &&
                strcmp(now->id, redis_history(wait->barrier->held)->id) == 0;
    return same ? info : NULL;
}

static void wait_on_begun(void *ctx, const struct redis_value *value) {
    struct wait *wait = ctx;
    struct replication now;
    if (wait_read_history(wait, value, &now))
        wait->offset = now.offset;
    else if (value && value != redis_unsent && wait != &wait->barrier->admission)
        redis_break(wait->barrier->held, another_history);
}

static void wait_on_polled(void *ctx, const struct redis_value *value);

static void wait_send(struct wait *wait, int replicas, int ms) {
    char count[16], timeout_ms[16];
    snprintf(count, sizeof count, "%d", replicas);
    snprintf(timeout_ms, sizeof timeout_ms, "%d", ms);
    wait->send(wait->redis, NULL, NULL, 3, (const char *[]){"WAIT", count, timeout_ms});
    wait->send(wait->redis, wait_on_polled, wait, 2, (const char *[]){"INFO", "replication"});
}

static void wait_begin(struct wait *wait) {
    struct barrier *barrier = wait->barrier;
    wait->in_flight = true;
    wait->offset = -1;
    wait->since_ms = clock_mono_ms(barrier->config->clock);
    wait->count = barrier->held->held_count;
    wait->send(wait->redis, wait_on_begun, wait, 2, (const char *[]){"INFO", "replication"});
    if (barrier_find_key(barrier))
        wait->send(wait->redis, barrier_on_marked, barrier, 4,
                   (const char *[]){"EVAL", mark, "1", barrier->key});
    wait_send(wait, barrier->config->replicas, barrier_wait_ms(barrier));
}

static void wait_pass(const struct wait *wait, int replicas) {
    if (wait == &wait->barrier->admission)
        redis_admit(wait->barrier->held);
    else
        redis_release(wait->barrier->held, wait->count, replicas);
}

/* The offsets that the server tells of its replicas count, not the end of WAIT: it may have waited for
 * nothing, or for a replica that has left since. */
static void wait_on_polled(void *ctx, const struct redis_value *value) {
    struct wait *wait = ctx;
    struct barrier *barrier = wait->barrier;
    struct replication now;
    const char *same = wait_read_history(wait, value, &now);
    int replicas = same ? replication_count(same, wait->offset) : 0;
    bool over = clock_mono_ms(barrier->config->clock) - wait->since_ms >= barrier_wait_ms(barrier);
    if (same && wait->offset >= 0 && replicas < barrier->config->replicas && !over) {
        wait_send(wait, REPLICAS_NEVER, POLL_MS);
        return;
    }
    wait->in_flight = false;
    const char *fault = !same || wait->offset < 0              ? another_history
                        : replicas < barrier->config->replicas ? barrier->too_few
                                                               : NULL;
    if (!value || value == redis_unsent)
        barrier->waited = 0; /* what is held back still needs a barrier */
    else if (!fault)
        wait_pass(wait, replicas);
    else if (wait == &barrier->admission && (barrier->patient || fault == another_history))
        redis_note_error(barrier->held, fault); /* barrier_admit() is called again */
    else if (wait->offset >= 0)                 /* else the held connection is broken already */
        redis_break(barrier->held, fault);
}

static void barrier_on_turn(uv_prepare_t *turn) {
    struct barrier *barrier = turn->data;
    if (!redis_is_up(barrier->held))
        return; /* nothing is held any more */
    for (int i = 0; i < IN_FLIGHT_MAX && barrier->held->held_count > barrier->waited; i++) {
        struct wait *wait = &barrier->waits[i];
        if (!wait->redis || wait->in_flight || !redis_is_up(wait->redis))
            continue;
        barrier->waited = barrier->held->held_count;
        wait_begin(wait);
        redis_flush(wait->redis);
    }
}

/* ---- connections ---- */

/* Finds the server of the held connection. */
static void wait_find(void *ctx, struct redis *redis) {
    const struct wait *wait = ctx;
    redis_found(redis, redis_address_now(wait->barrier->held), NULL);
}

/* Connects to the server that the held connection has found by now. */
static bool wait_connect(struct wait *wait) {
    const struct barrier *barrier = wait->barrier;
    redis_close(wait->redis);
    wait->redis = redis_open(&(struct redis_config){.loop = barrier->turn.loop,
                                                    .clock = barrier->config->clock,
                                                    .timeout_ms = barrier->config->timeout_ms,
                                                    .find = wait_find,
                                                    .ctx = wait});
    return wait->redis != NULL;
}

void barrier_admit(struct barrier *barrier) {
    if (barrier->admission.in_flight)
        return;
    for (int i = 0; i < IN_FLIGHT_MAX; i++) {
        if (!wait_connect(&barrier->waits[i])) {
            redis_break(barrier->held, "out of memory");
            return;
        }
    }
    wait_begin(&barrier->admission);
}

struct barrier *barrier_open(struct server *server, barrier_owns_fn *owns) {
    const struct servers_config *config = &server->of->config;
    struct barrier *barrier = calloc(1, sizeof *barrier);
    if (!barrier)
        return NULL;
    *barrier = (struct barrier){.server = server,
                                .held = server->redis,
                                .config = config,
                                .patient = server->of->sentinels != NULL,
                                .owns = owns};
    for (int i = 0; i < IN_FLIGHT_MAX; i++)
        barrier->waits[i] = (struct wait){.barrier = barrier, .send = redis_call};
    barrier->admission = (struct wait){.barrier = barrier, .redis = server->redis, .send = redis_greet};
    snprintf(barrier->too_few, sizeof barrier->too_few, "fewer than %d replicas have what was written",
             config->replicas);
    barrier->turn.data = barrier;
    uv_prepare_init(config->loop, &barrier->turn);
    uv_prepare_start(&barrier->turn, barrier_on_turn);
    return barrier;
}

static void barrier_on_closed(uv_handle_t *turn) {
    free(turn->data);
}

void barrier_close(struct barrier *barrier) {
    if (!barrier)
        return;
    for (int i = 0; i < IN_FLIGHT_MAX; i++)
        redis_close(barrier->waits[i].redis);
    uv_close((uv_handle_t *)&barrier->turn, barrier_on_closed);
}
