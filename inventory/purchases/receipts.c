#include "inventory/purchases/receipts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/context.h"
#include "inventory/model/record.h"
#include "inventory/purchases/due.h"
#include "inventory/store/servers.h"
#include "inventory/store/status.h"
#include "putback.lua.h"

/* OUTAGE_MS is shorter than any failover, and longer than a lost connection needs to be made anew.
 *
 * Another instance takes at most a call's time-out to notice that its server is gone, and REACH_MS to ask in
 * the first place, to pass over Sentinels that are gone too, and to connect. */
enum {
    REACH_MS = 2000,
    IN_FLIGHT_MAX = 256,
    AGAIN_MS = 100,
    INDEX_AT_ONCE = 256,
    ASK_MS = 500,
    OUTAGE_MS = 250
};

/* ---- the receipts ---- */

void receipts_init(struct inventory *inventory) {
    struct receipts *receipts = &inventory->receipts;
    STAILQ_INIT(&receipts->list);
    receipts->kept = inventory->url.kind != REDIS_URL_ONE || inventory->config.replicas > 0;
}

static void drop_first(struct receipts *receipts) {
    struct receipt *first = STAILQ_FIRST(&receipts->list);
    STAILQ_REMOVE_HEAD(&receipts->list, next);
    for (int i = 0; i < receipts->mended_count; i++) {
        if (receipts->mended[i]->shown == first)
            receipts->mended[i]->shown = NULL;
    }
    receipts->count--;
    receipts->to_index -= first->index_ms != 0;
    free(first);
}

void receipts_free(struct inventory *inventory) {
    struct receipts *receipts = &inventory->receipts;
    while (receipts->count > 0)
        drop_first(receipts);
    while (receipts->mended_count > 0)
        free(receipts->mended[--receipts->mended_count]);
}

static struct mended *find(struct receipts *receipts, const char *id) {
    for (int i = 0; i < receipts->mended_count; i++) {
        if (strcmp(receipts->mended[i]->id, id) == 0)
            return receipts->mended[i];
    }
    return NULL;
}

/* The history in which an order is acknowledged now; 0 in a cluster, which has several. */
static unsigned number_now(struct inventory *inventory) {
    const struct redis *only = store_server(inventory->store, 0);
    const struct mended *mended = inventory->url.kind != REDIS_URL_CLUSTER && only
                                      ? find(&inventory->receipts, redis_history(only)->id)
                                      : NULL;
    return mended ? mended->number : 0;
}

void receipts_add(struct inventory *inventory, const char *item, const char *digest, const char *record) {
    struct receipts *receipts = &inventory->receipts;
    size_t size = strlen(record) + 1;
    struct receipt *receipt = receipts->kept ? malloc(sizeof *receipt + size) : NULL;
    if (!receipt) {
        receipts->dropped |= receipts->kept;
        return;
    }
    receipt->at_ms = clock_mono_ms(inventory->config.clock);
    receipt->by = number_now(inventory);
    receipt->index_ms = 0;
    stpcpy(receipt->item, item);
    stpcpy(receipt->digest, digest);
    memcpy(receipt->record, record, size);
    STAILQ_INSERT_TAIL(&receipts->list, receipt, next);
    receipts->count++;
}

/* ---- a history is shown the receipts ---- */

/* One receipt that is shown. */
struct showing {
    struct inventory *inventory;
    struct mended *mended;
    struct redis *redis;
    struct receipt *receipt;
};

static void show_more(struct inventory *inventory, struct mended *mended, struct redis *redis);

static int64_t rest_ms(const struct inventory *inventory) {
    return inventory->config.call_timeout_ms + REACH_MS;
}

static void mark_holds(struct inventory *inventory);

/* All were shown, or the connection is gone. */
static void pass_over(struct inventory *inventory, struct mended *mended) {
    int64_t now_ms = clock_mono_ms(inventory->config.clock);
    if (mended->failed) {
        mended->state = MENDED_NOT;
        mended->again_ms = now_ms + AGAIN_MS;
        mended->shown = NULL;
    } else if (mended->suspect && now_ms < mended->reached_ms + rest_ms(inventory)) {
        mended->state = MENDED_RESTS;
        return;
    } else {
        mended->state = MENDED_DONE;
        if (mended->suspect)
            mark_holds(inventory);
    }
    inventory->receipts.running--;
}

/* The entries of the index may be lost as well, which is on servers of its own. */
static void mark_holds(struct inventory *inventory) {
    struct receipts *receipts = &inventory->receipts;
    for (struct receipt *receipt = STAILQ_FIRST(&receipts->list); receipt;
         receipt = STAILQ_NEXT(receipt, next)) {
        struct inventory_order order;
        if (receipt->index_ms || !record_read(&order, receipt->item, receipt->digest, receipt->record) ||
            order.state != INVENTORY_STATE_HELD)
            continue;
        receipt->index_ms = order.expires_ms;
        receipts->to_index++;
    }
}

/* In a cluster another server has the item. */
static bool is_elsewhere(const char *error) {
    return strncmp(error, "MOVED ", 6) == 0 || strncmp(error, "ASK ", 4) == 0;
}

static void note(const struct showing *showing, const char *outcome) {
    struct inventory *inventory = showing->inventory;
    struct inventory_metrics *metrics = inventory->metrics;
    bool oldest = !showing->mended->told;
    showing->mended->told = true;
    if (strcmp(outcome, "there") == 0)
        return;
    showing->mended->suspect = true;
    if (oldest && inventory->receipts.dropped)
        metric_add(&metrics->unkept, 1);
    if (strcmp(outcome, "noted") == 0)
        return;
    metric_add(strcmp(outcome, "back") == 0 ? &metrics->put_back : &metrics->shortage, 1);
    if (inventory->config.on_mended)
        inventory->config.on_mended(inventory->config.on_mended_ctx, showing->receipt->item,
                                    showing->receipt->digest, outcome);
}

static void on_shown(void *ctx, const struct redis_value *value) {
    struct showing showing = *(struct showing *)ctx;
    struct mended *mended = showing.mended;
    const char *text = value ? redis_value_text(value) : NULL;
    free(ctx);
    mended->in_flight--;
    bool refused = value && redis_value_type(value) == REDIS_ERROR;
    if (!text || (refused && !is_elsewhere(text)))
        mended->failed = true;
    else if (!refused)
        note(&showing, text);
    if (refused && mended->failed)
        store_status(showing.inventory, value); /* keeps the error's text */
    if (!mended->failed)
        show_more(showing.inventory, mended, showing.redis);
    if (mended->in_flight == 0 && mended->state == MENDED_RUNS)
        pass_over(showing.inventory, mended);
}

static void show(struct inventory *inventory, struct mended *mended, struct redis *redis,
                 struct receipt *receipt) {
    struct showing *showing = malloc(sizeof *showing);
    struct sale_keys keys;
    if (!showing) {
        mended->failed = true;
        return;
    }
    *showing = (struct showing){inventory, mended, redis, receipt};
    sale_keys_make(&keys, receipt->item);
    const char *argv[] = {
        "EVALSHA",       putback_lua_sha1, "6",         keys.item,     keys.orders,
        keys.users,      keys.holds,       keys.events, keys.shortage, inventory_events(inventory),
        receipt->digest, receipt->record};
    mended->in_flight++;
    redis_greet(redis, on_shown, showing, sizeof argv / sizeof *argv, argv);
}

static void show_more(struct inventory *inventory, struct mended *mended, struct redis *redis) {
    while (!mended->failed && mended->in_flight < IN_FLIGHT_MAX) {
        struct receipt *next =
            mended->shown ? STAILQ_NEXT(mended->shown, next) : STAILQ_FIRST(&inventory->receipts.list);
        if (!next)
            return;
        mended->shown = next;
        if (next->by != mended->number)
            show(inventory, mended, redis, next);
    }
}

/* Shows what was not shown yet. */
static void begin_pass(struct inventory *inventory, struct mended *mended, struct redis *redis) {
    inventory->receipts.running += mended->state == MENDED_NOT || mended->state == MENDED_DONE;
    mended->state = MENDED_RUNS;
    mended->failed = false;
    redis_greet(redis, NULL, NULL, 3, (const char *[]){"SCRIPT", "LOAD", putback_lua});
    mended->in_flight++; /* until all that can be are in flight */
    show_more(inventory, mended, redis);
    mended->in_flight--;
    if (mended->in_flight == 0)
        pass_over(inventory, mended);
}

/* ---- histories ---- */

/* Something was acknowledged elsewhere since its last pass. */
static bool has_missed(const struct inventory *inventory, const struct mended *mended) {
    const struct receipt *receipt =
        mended->shown ? STAILQ_NEXT(mended->shown, next) : STAILQ_FIRST(&inventory->receipts.list);
    while (receipt && receipt->by == mended->number)
        receipt = STAILQ_NEXT(receipt, next);
    return receipt && inventory->url.kind != REDIS_URL_CLUSTER;
}

/* Room for one more; false: all are in use. */
static bool make_room(struct receipts *receipts) {
    int i = 0;
    while (i < receipts->mended_count && receipts->mended[i]->state != MENDED_DONE)
        i++;
    if (receipts->mended_count < RECEIPTS_HISTORIES)
        return true;
    if (i == receipts->mended_count)
        return false;
    free(receipts->mended[i]);
    receipts->mended_count--;
    for (; i < receipts->mended_count; i++)
        receipts->mended[i] = receipts->mended[i + 1];
    return true;
}

/* NULL when out of memory. */
static struct mended *enter(struct inventory *inventory, const struct replication *history) {
    struct receipts *receipts = &inventory->receipts;
    struct mended *mended = make_room(receipts) ? calloc(1, sizeof *mended) : NULL;
    if (!mended)
        return NULL;
    memcpy(mended->id, history->id, sizeof mended->id);
    mended->number = ++receipts->number;
    mended->suspect = receipts->kept && history->before[0];
    receipts->mended[receipts->mended_count++] = mended;
    return mended;
}

/* Others may have sold elsewhere meanwhile, or do so now. Sentinels name the old master for a second or two
 * after its successor was promoted, and it may be back. */
static bool is_suspect(const struct inventory *inventory, const struct mended *mended,
                       const struct server *server) {
    const struct receipts *receipts = &inventory->receipts;
    if (!receipts->kept || inventory->url.kind == REDIS_URL_CLUSTER)
        return false;
    bool elsewhere = receipts->sold_in && receipts->sold_in != mended->number;
    int64_t away_ms = mended->reached_ms - server->down_since_ms;
    return elsewhere || (inventory->url.kind == REDIS_URL_SENTINEL && away_ms > OUTAGE_MS);
}

/* The connection is a new one. */
static void note_reached(struct inventory *inventory, struct mended *mended, const struct server *server) {
    mended->reached_ms = redis_reached_ms(server->redis);
    if (!is_suspect(inventory, mended, server))
        return;
    mended->suspect = true;
    if (mended->state == MENDED_DONE)
        mended->state = MENDED_NOT;
}

void receipts_prepare(void *ctx, struct server *server) {
    struct inventory *inventory = ctx;
    const struct replication *history = redis_history(server->redis);
    inventory->receipts.kept |= history->replicas > 0;
    struct mended *mended = find(&inventory->receipts, history->id);
    int64_t now_ms = clock_mono_ms(inventory->config.clock);
    if (!mended && !(mended = enter(inventory, history)))
        return; /* it is asked again */
    if (mended->reached_ms != redis_reached_ms(server->redis))
        note_reached(inventory, mended, server);
    bool rested = now_ms >= mended->reached_ms + rest_ms(inventory);
    if ((mended->state == MENDED_NOT && now_ms >= mended->again_ms) ||
        (mended->state == MENDED_RESTS && rested) ||
        (mended->state == MENDED_DONE && has_missed(inventory, mended)))
        begin_pass(inventory, mended, server->redis);
    if (mended->state == MENDED_DONE) {
        inventory->receipts.sold_in = mended->number;
        server_admit(server);
    } else if (!mended->failed) {
        redis_note_error(server->redis,
                         "the server was promoted, or is back: what it lacks of the acknowledged "
                         "orders is put back before it sells");
    }
}

/* ---- now and then ---- */

/* Its server was replaced before it had rested. */
static void give_up(struct receipts *receipts, int64_t now_ms) {
    for (int i = 0; i < receipts->mended_count; i++) {
        struct mended *mended = receipts->mended[i];
        if (mended->state != MENDED_RESTS || now_ms - mended->reached_ms < RECEIPTS_KEEP_MS)
            continue;
        mended->state = MENDED_NOT;
        mended->shown = NULL;
        receipts->running--;
    }
}

static void drop_old(struct receipts *receipts, int64_t now_ms) {
    while (receipts->running == 0 && receipts->count > 0 &&
           (receipts->count > RECEIPTS_KEPT ||
            now_ms - STAILQ_FIRST(&receipts->list)->at_ms > RECEIPTS_KEEP_MS)) {
        receipts->dropped = true;
        drop_first(receipts);
    }
}

static void enter_holds(struct inventory *inventory) {
    struct receipts *receipts = &inventory->receipts;
    struct receipt *receipt = STAILQ_FIRST(&receipts->list);
    for (int n = 0; receipt && receipts->to_index > 0 && n < INDEX_AT_ONCE;
         receipt = STAILQ_NEXT(receipt, next)) {
        if (!receipt->index_ms)
            continue;
        due_touch(inventory->store, receipt->item, receipt->index_ms, NULL, NULL);
        receipt->index_ms = 0;
        receipts->to_index--;
        n++;
    }
}

struct question {
    struct inventory *inventory;
    struct redis *redis; /* calls on_history() before it is freed */
};

static void on_history(void *ctx, const struct redis_value *value) {
    struct question question = *(struct question *)ctx;
    const char *info = value ? redis_value_text(value) : NULL;
    struct replication now;
    free(ctx);
    if (!info || !replication_read(&now, info))
        return;
    struct receipts *receipts = &question.inventory->receipts;
    struct mended *mended = find(receipts, redis_history(question.redis)->id);
    receipts->kept |= now.replicas > 0;
    redis_note_history(question.redis, &now);
    if (mended) /* the same history, perhaps by another id */
        memcpy(mended->id, redis_history(question.redis)->id, sizeof mended->id);
}

static void ask_histories(struct inventory *inventory) {
    for (int i = 0; i < store_servers(inventory->store); i++) {
        struct redis *redis = store_server(inventory->store, i);
        bool asks = redis && redis_is_up(redis) && redis_history(redis)->id[0];
        struct question *question = asks ? malloc(sizeof *question) : NULL;
        if (!question)
            continue;
        *question = (struct question){inventory, redis};
        redis_callf(redis, on_history, question, "INFO replication");
    }
}

void receipts_tick(struct inventory *inventory) {
    struct receipts *receipts = &inventory->receipts;
    int64_t now_ms = clock_mono_ms(inventory->config.clock);
    give_up(receipts, now_ms);
    drop_old(receipts, now_ms);
    enter_holds(inventory);
    if (now_ms - receipts->asked_ms >= ASK_MS) {
        receipts->asked_ms = now_ms;
        ask_histories(inventory);
    }
}
