/* Audits: the books of an item, counted from its orders. This is not a script on purpose: the code that
 * counts shares nothing with the code that sells.
 *
 * The counters are read at one moment, then the whole item in pages (HSCAN), then the counters once more;
 * audit_judge.c defines what must agree. A page keeps Redis busy for less than a millisecond, and a pause
 * follows: a purchase may wait for one page, never for all. Audits take turns of one page, so that a small
 * item does not wait for a large one. They have connections of their own, so that no purchase is lost if one
 * breaks. An item that moves to another server of a cluster is read from the beginning: a cursor of HSCAN
 * means something only to the server that gave it.
 *
 * HSCAN returns each field that is there all the time at least once. Here it returns it exactly once: the
 * cursor counts the buckets of the hash table with their bits in reverse order, so if the table doubles, both
 * halves of a bucket were returned, or neither. Only a table that shrinks can return a bucket twice. Redis
 * shrinks it when fields are deleted, and nothing here deletes a field of an item. A small hash has no table
 * and is returned in one page. The audit still compares the number of fields with HLEN. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/purchases.h"

enum { PAGE = 500, CURSOR_SIZE = 24, PAUSE_MOST_MS = 100, WAITING_MOST = 1024 };
/* How often an item may move while it is read, and the pause after each move. */
enum { MOVES_MOST = 50, MOVED_PAUSE_MS = 20 };

/* The parts of a reply, by index. */
enum { AT_ITEM, AT_GIVEN_BACK, AT_FIELDS, AT_HOLDS, AT_PAGE };

struct waiter {
    STAILQ_ENTRY(waiter) next;
    inventory_audit_fn *fn;
    void *ctx;
};

enum stage { STAGE_QUEUED, STAGE_FIRST, STAGE_PAGES, STAGE_LAST, STAGE_DONE };

struct audit_run {
    STAILQ_ENTRY(audit_run) next;
    STAILQ_HEAD(waiters, waiter) waiters;
    enum stage stage;
    int64_t asked_ns;
    size_t read;         /* fields in the last reply */
    struct redis *redis; /* the server that is read; NULL at the beginning */
    bool moved;          /* the item is on another server now, or is moving there */
    int moves;           /* how many times it moved */
    char name[INVENTORY_NAME_MAX + 1];
    struct sale_keys keys;
    char cursor[CURSOR_SIZE];
    struct audit_count count;
};

/* ---- the end ---- */

static void audit_answer(struct purchases *purchases, struct audit_run *run, enum inventory_status status) {
    for (struct waiter *waiter; (waiter = STAILQ_FIRST(&run->waiters));) {
        STAILQ_REMOVE_HEAD(&run->waiters, next);
        purchases->audits.waiting--;
        waiter->fn(waiter->ctx, status, status == INVENTORY_OK ? &run->count.audit : NULL);
        free(waiter);
    }
    free(run);
}

void audit_abandon(struct purchases *purchases) {
    struct audits *audits = &purchases->audits;
    struct router *store = audits->store;
    struct audit_runs runs = STAILQ_HEAD_INITIALIZER(runs);
    STAILQ_CONCAT(&runs, &audits->runs);
    audits->running = false;
    audits->store = NULL;
    uv_timer_stop(&audits->pause);
    router_close(store);
    for (struct audit_run *run; (run = STAILQ_FIRST(&runs));) {
        STAILQ_REMOVE_HEAD(&runs, next);
        audit_answer(purchases, run, INVENTORY_UNAVAILABLE);
    }
}

/* ---- calls ---- */

static void audit_on_reply(void *ctx, const struct redis_value *value);

/* Notes whether this error means that the item must be read from the beginning. */
static void audit_note_move(struct audits *audits, struct audit_run *run, const struct redis_value *error) {
    run->moved |= router_note(audits->store, run->redis, error) != ROUTER_STAYS;
}

static void audit_ask_page(struct redis *redis, const char *key, const char *cursor, redis_reply_fn *fn,
                           void *ctx) {
    redis_callf(redis, fn, ctx, "HSCAN %s %s COUNT %d", key, cursor, PAGE);
}

/* The transaction reads one slot: if the first command is refused, so is EXEC. */
static void audit_on_queued(void *ctx, const struct redis_value *value) {
    struct purchases *purchases = ctx;
    struct audits *audits = &purchases->audits;
    if (audits->running && value && redis_value_type(value) == REDIS_ERROR)
        audit_note_move(audits, STAILQ_FIRST(&audits->runs), value);
}

/* Reads the counters at one moment. The first page comes with them, so that a small item is read in one step.
 */
static void audit_ask_moment(struct purchases *purchases, struct redis *redis, const struct sale_keys *keys,
                             bool page) {
    const char *argv[ITEM_ARGC];
    item_command(argv, keys->item);
    redis_callf(redis, NULL, NULL, "MULTI");
    redis_call(redis, audit_on_queued, purchases, ITEM_ARGC, argv);
    redis_callf(redis, NULL, NULL, "HMGET %s released returned", keys->item);
    redis_callf(redis, NULL, NULL, "HLEN %s", keys->item);
    redis_callf(redis, NULL, NULL, "ZCOUNT %s -inf (+inf", keys->holds);
    if (page)
        audit_ask_page(redis, keys->item, "0", NULL, NULL);
    redis_callf(redis, audit_on_reply, purchases, "EXEC");
}

static void audit_begin(struct audit_run *run) {
    run->stage = STAGE_QUEUED;
    run->redis = NULL;
    run->moved = false;
    audit_count_init(&run->count);
}

static void audit_ask(struct purchases *purchases) {
    struct audit_run *run = STAILQ_FIRST(&purchases->audits.runs);
    struct redis *redis = router_connection(purchases->audits.store, run->keys.item);
    if (redis != run->redis)
        audit_begin(run);
    if (run->stage == STAGE_QUEUED)
        run->stage = STAGE_FIRST;
    run->redis = redis;
    if (!redis) {
        audit_on_reply(purchases, redis_unsent);
        return;
    }
    run->asked_ns = clock_mono_ns(purchases->shared->config.clock);
    if (run->stage == STAGE_PAGES)
        audit_ask_page(redis, run->keys.item, run->cursor, audit_on_reply, purchases);
    else
        audit_ask_moment(purchases, redis, &run->keys, run->stage == STAGE_FIRST);
}

/* Starts the first audit. If its server is not connected yet, audit_on_state() or the next tick starts it. */
static void audit_start(struct purchases *purchases);

static void audit_on_pause(uv_timer_t *timer) {
    struct purchases *purchases = timer->data;
    purchases->audits.running = false;
    audit_start(purchases);
}

/* ---- replies ---- */

static enum inventory_status audit_read_moment(struct audit_moment *moment, const char *name,
                                               const struct redis_value *value) {
    for (size_t i = 0; i < redis_value_count(value); i++) {
        if (redis_value_type(redis_value_at(value, i)) == REDIS_ERROR)
            return INVENTORY_UNAVAILABLE;
    }
    if (redis_value_count(value) <= AT_HOLDS)
        return INVENTORY_UNAVAILABLE;
    if (!item_read(&moment->item, name, redis_value_at(value, AT_ITEM)))
        return INVENTORY_UNKNOWN_ITEM;
    const struct redis_value *given_back = redis_value_at(value, AT_GIVEN_BACK);
    if (redis_value_count(given_back) != 2)
        return INVENTORY_UNAVAILABLE;
    moment->released = redis_value_integer(redis_value_at(given_back, 0), 0);
    moment->returned = redis_value_integer(redis_value_at(given_back, 1), 0);
    moment->fields = redis_value_integer(redis_value_at(value, AT_FIELDS), 0);
    moment->holds = redis_value_integer(redis_value_at(value, AT_HOLDS), 0);
    return INVENTORY_OK;
}

/* False: it is not a page. */
static bool audit_read_page(struct audit_run *run, const struct redis_value *value) {
    const char *next = redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    if (!next)
        return false;
    snprintf(run->cursor, CURSOR_SIZE, "%s", next);
    audit_count_page(&run->count, redis_value_at(value, 1));
    run->read += redis_value_count(redis_value_at(value, 1)) / 2;
    return true;
}

static enum inventory_status audit_read_reply(struct audit_run *run, const struct redis_value *value) {
    struct audit_count *count = &run->count;
    run->read = 0;
    if (run->stage == STAGE_LAST)
        return audit_read_moment(&count->last, run->name, value);
    if (run->stage == STAGE_FIRST) {
        enum inventory_status status = audit_read_moment(&count->first, run->name, value);
        if (status != INVENTORY_OK)
            return status;
        count->last = count->first; /* if there is nothing more to read */
        if (redis_value_count(value) <= AT_PAGE)
            return INVENTORY_UNAVAILABLE;
        value = redis_value_at(value, AT_PAGE);
    }
    return audit_read_page(run, value) ? INVENTORY_OK : INVENTORY_UNAVAILABLE;
}

static enum stage audit_next_stage(const struct audit_run *run) {
    if (strcmp(run->cursor, "0") != 0)
        return STAGE_PAGES;
    return run->stage == STAGE_FIRST || run->stage == STAGE_LAST ? STAGE_DONE : STAGE_LAST;
}

/* The pause is three times as long as a full page took, and shorter in proportion for a smaller page. Pauses
 * too short for the timer add up. An audit costs a sale CPU, so it takes a quarter of a core of Redis at
 * most, less while a sale makes its pages slow; and ten thousand items with few orders hardly pause. */
static uint64_t audit_pause_ms(struct audits *audits, const struct audit_run *run, int64_t took_ns) {
    audits->pause_ns += 3 * took_ns * (int64_t)run->read / PAGE;
    int64_t pause_ms = audits->pause_ns / 1000000;
    audits->pause_ns %= 1000000;
    return pause_ms > PAUSE_MOST_MS ? PAUSE_MOST_MS : (uint64_t)pause_ms;
}

/* Callers that asked for this item meanwhile share the result, since more pages and the last counters are
 * still to come. */
static void audit_share_run(struct audits *audits) {
    struct audit_run *run = STAILQ_FIRST(&audits->runs), *same = STAILQ_NEXT(run, next);
    while (same && strcmp(same->name, run->name) != 0)
        same = STAILQ_NEXT(same, next);
    if (!same)
        return;
    STAILQ_REMOVE(&audits->runs, same, audit_run, next);
    STAILQ_CONCAT(&run->waiters, &same->waiters);
    free(same);
}

static void audit_on_reply(void *ctx, const struct redis_value *value) {
    struct purchases *purchases = ctx;
    struct audits *audits = &purchases->audits;
    if (!audits->running) /* the audits were abandoned */
        return;
    if (!value || value == redis_unsent) {
        audit_abandon(purchases);
        return;
    }
    struct audit_run *run = STAILQ_FIRST(&audits->runs);
    if (redis_value_type(value) == REDIS_ERROR)
        audit_note_move(audits, run, value);
    if (run->moved && ++run->moves <= MOVES_MOST) {
        audit_begin(run);
        uv_timer_start(&audits->pause, audit_on_pause, MOVED_PAUSE_MS, 0);
        return;
    }
    int64_t took_ns = clock_mono_ns(purchases->shared->config.clock) - run->asked_ns;
    enum inventory_status status = store_status(purchases->shared, value);
    if (status == INVENTORY_OK)
        status = audit_read_reply(run, value);
    if (status == INVENTORY_OK) {
        bool began = run->stage == STAGE_FIRST;
        run->stage = audit_next_stage(run);
        if (began && run->stage != STAGE_DONE)
            audit_share_run(audits);
        if (run->stage == STAGE_DONE && !audit_judge(&run->count))
            status = INVENTORY_UNAVAILABLE;
    }
    uint64_t pause = audit_pause_ms(audits, run, took_ns);
    STAILQ_REMOVE_HEAD(&audits->runs, next);
    if (status != INVENTORY_OK || run->stage == STAGE_DONE)
        audit_answer(purchases, run, status);
    else
        STAILQ_INSERT_TAIL(&audits->runs, run, next);
    audits->running = !STAILQ_EMPTY(&audits->runs);
    if (audits->running)
        uv_timer_start(&audits->pause, audit_on_pause, pause, 0);
}

/* ---- the queue ---- */

/* A broken connection ends the audits, since the next one may lead to another server. */
static void audit_on_state(void *ctx, bool up) {
    struct purchases *purchases = ctx;
    if (up)
        audit_start(purchases);
    else if (purchases->audits.running)
        audit_abandon(purchases);
}

static void audit_start(struct purchases *purchases) {
    struct audits *audits = &purchases->audits;
    if (audits->running || STAILQ_EMPTY(&audits->runs))
        return;
    if (!audits->store) {
        audits->asked_ms = shared_now_ms(purchases->shared);
        audits->store = router_open_another(purchases->shared->store, audit_on_state, purchases);
    }
    if (!audits->store) {
        audit_abandon(purchases);
    } else if (router_is_up(audits->store, STAILQ_FIRST(&audits->runs)->keys.item)) {
        audits->running = true;
        audits->asked_ms = shared_now_ms(purchases->shared);
        audit_ask(purchases);
    }
}

/* An audit of the item that will read its last counters after this call, so that its result is of a moment
 * after it. */
static struct audit_run *audit_find_run(const struct audits *audits, const char *name) {
    for (struct audit_run *run = STAILQ_FIRST(&audits->runs); run; run = STAILQ_NEXT(run, next)) {
        if (run->stage != STAGE_FIRST && run->stage != STAGE_LAST && strcmp(run->name, name) == 0)
            return run;
    }
    return NULL;
}

static struct audit_run *audit_add_run(struct audits *audits, const char *name) {
    struct audit_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    snprintf(run->name, sizeof run->name, "%s", name);
    sale_keys_make(&run->keys, name);
    audit_begin(run);
    STAILQ_INIT(&run->waiters);
    STAILQ_INSERT_TAIL(&audits->runs, run, next);
    return run;
}

void inventory_item_audit(struct inventory *inventory, const char *name, inventory_audit_fn *fn, void *ctx) {
    struct purchases *purchases = inventory->purchases;
    struct audits *audits = &purchases->audits;
    struct waiter *waiter = audits->waiting < WAITING_MOST ? malloc(sizeof *waiter) : NULL;
    struct audit_run *run = NULL;
    if (waiter && !(run = audit_find_run(audits, name)))
        run = audit_add_run(audits, name);
    if (!run) {
        free(waiter);
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *waiter = (struct waiter){.fn = fn, .ctx = ctx};
    STAILQ_INSERT_TAIL(&run->waiters, waiter, next);
    audits->waiting++;
    audit_start(purchases);
}

/* A server that is lost is waited for, until it is tried in vain. In a cluster another one may have the item
 * soon. */
static bool audit_is_in_vain(const struct purchases *purchases, const char *key) {
    int64_t since_ms = shared_now_ms(purchases->shared) - purchases->audits.asked_ms;
    return since_ms > purchases->shared->config.call_timeout_ms ||
           (router_is_one(purchases->shared->store) && router_is_gone(purchases->shared->store, key));
}

void audit_init(struct purchases *purchases) {
    STAILQ_INIT(&purchases->audits.runs);
    purchases->audits.pause.data = purchases;
    uv_timer_init(purchases->shared->loop, &purchases->audits.pause);
}

void audit_tick(struct purchases *purchases) {
    struct audits *audits = &purchases->audits;
    const struct audit_run *first = STAILQ_FIRST(&audits->runs);
    if (!audits->store)
        return;
    if (!first ||
        (!router_is_up(audits->store, first->keys.item) && audit_is_in_vain(purchases, first->keys.item)))
        audit_abandon(purchases);
    else
        audit_start(purchases);
}
