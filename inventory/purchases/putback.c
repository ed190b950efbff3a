#include "inventory/purchases/putback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "putback.lua.h"

enum { IN_FLIGHT_MAX = 256, AGAIN_MS = 100 };

/* ---- receipts ---- */

struct putback *putback_open(void) {
    struct putback *putback = calloc(1, sizeof *putback);
    if (putback)
        receipts_init(&putback->receipts);
    return putback;
}

void putback_free(struct putback *putback) {
    if (!putback)
        return;
    receipts_free(&putback->receipts);
    while (putback->history_count > 0)
        free(putback->histories[--putback->history_count]);
    free(putback);
}

struct history *putback_history(struct putback *putback, const char *id) {
    for (int i = 0; i < putback->history_count; i++) {
        if (strcmp(putback->histories[i]->id, id) == 0)
            return putback->histories[i];
    }
    return NULL;
}

void putback_keep_in(struct purchases *purchases, unsigned history, enum receipt_kind kind, const char *place,
                     const char *field, const char *record) {
    struct receipts *receipts = &purchases->putback->receipts;
    if (!receipts_skip(receipts, history))
        receipts_add(receipts, kind, place, field, record, history, shared_now_ms(purchases->shared), false);
}

void putback_keep(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                  const char *record) {
    struct journal_keys journal;
    struct sale_keys sale;
    if (kind == RECEIPT_JOURNAL)
        journal_keys_make(&journal, (unsigned)strtoul(place, NULL, 10));
    else
        sale_keys_make(&sale, place);
    const char *key = kind == RECEIPT_JOURNAL ? journal.journal : sale.item;
    putback_keep_in(purchases, router_history(purchases->shared->store, key), kind, place, field, record);
}

void putback_keep_order(struct purchases *purchases, unsigned history, const struct inventory_order *order,
                        const char *digest) {
    struct inventory_order kept = *order;
    char record[RECORD_SIZE];
    if (kept.returned) { /* as it was before, or later: the version only must be lower than now */
        kept.state = INVENTORY_STATE_CONFIRMED;
        kept.returned = 0;
        kept.version--;
    }
    record_print(record, &kept);
    putback_keep_in(purchases, history, RECEIPT_ORDER, order->item, digest, record);
}

void putback_keep_new(struct purchases *purchases, unsigned history, const struct inventory_order *order,
                      const char *digest) {
    struct receipts *receipts = &purchases->putback->receipts;
    char record[RECORD_SIZE];
    if (receipts_skip(receipts, history))
        return;
    record_print(record, order);
    receipts_add(receipts, RECEIPT_ORDER, order->item, digest, record, history,
                 shared_now_ms(purchases->shared), true);
}

void putback_forget(struct purchases *purchases, enum receipt_kind kind, const char *place,
                    const char *field) {
    struct receipt *receipt = receipts_find(&purchases->putback->receipts, kind, place, field);
    if (receipt)
        receipts_remove(&purchases->putback->receipts, receipt);
}

/* ---- one receipt is shown ---- */

static const struct redis_script putback_script = {putback_lua, putback_lua_sha1};

/* A call that shows something: of putback.lua; of create.lua for an item, whose record is its terms. */
struct putback_call {
    const struct redis_script *script;
    struct journal_keys part;
    struct sale_keys sale;
    const char *argv[SCRIPT_ARGV + 5 + 4]; /* the call's from SCRIPT_ARGV on */
    int keys, argc;
};

static void putback_call_make(struct putback_call *call, const struct shared *shared, enum receipt_kind kind,
                              const char *place, const char *field, const char *record, const char *last) {
    static const char *const names[] = {
        [RECEIPT_MOVE] = "move", [RECEIPT_ORDER] = "order", [RECEIPT_JOURNAL] = "journal"};
    const struct sale_keys *sale = &call->sale;
    const char **key = call->argv + SCRIPT_ARGV;
    call->script = kind == RECEIPT_ITEM ? &create_script : &putback_script;
    if (kind == RECEIPT_ITEM) {
        sale_keys_make(&call->sale, place);
        call->keys = create_command(call->argv, shared, sale, record);
        call->argc = SCRIPT_ARGV + call->keys + CREATE_ARGS;
        return;
    }
    if (kind == RECEIPT_JOURNAL) {
        journal_keys_make(&call->part, (unsigned)strtoul(place, NULL, 10));
        memcpy(key, (const char *[]){call->part.journal, call->part.open}, 2 * sizeof *key);
        call->keys = 2;
    } else {
        sale_keys_make(&call->sale, place);
        memcpy(key, (const char *[]){sale->item, sale->holds, sale->due, sale->shortage}, 4 * sizeof *key);
        call->keys = shared_add_events(shared, sale, key, 4);
    }
    memcpy(key + call->keys, (const char *[]){names[kind], field, record, last}, 4 * sizeof *key);
    call->argc = SCRIPT_ARGV + call->keys + 4;
}

struct showing {
    struct purchases *purchases;
    struct history *history;
    struct redis *redis;
    enum receipt_kind kind;
    uint64_t seq; /* of the receipt, whose place a newer one may have taken by the time of the reply */
    char place[INVENTORY_NAME_MAX + 1], field[INVENTORY_NAME_MAX + 1];
};

static void putback_on_shown(void *ctx, const struct redis_value *value);

/* Runs a script on the server that is not up yet; `argv` as for router_run(). */
static void putback_greet(const struct showing *showing, const struct redis_script *script, int keys,
                          int argc, const char *argv[], redis_reply_fn *fn, void *ctx) {
    struct number count = number_of(keys);
    memcpy(argv, (const char *[]){"EVALSHA", script->sha1, count.text}, SCRIPT_ARGV * sizeof *argv);
    redis_greet(showing->redis, fn, ctx, argc, argv);
}

/* Expires holds that the server still has and that had ended on the lost server: they must not take the units
 * of the receipt that is shown next. An order may have been sold after that, by the lost server's clock, so
 * its time counts, too. */
static void putback_sweep(const struct showing *showing, const struct receipt *receipt) {
    struct sale_keys keys;
    struct inventory_order order = {.created_ms = 0};
    sale_keys_make(&keys, receipt_place(receipt));
    if (receipt->kind == RECEIPT_ORDER)
        record_read(&order, receipt_place(receipt), receipt_field(receipt), receipt_record(receipt));
    struct number created = number_of(order.created_ms);
    const char *argv[SETTLE_ARGV];
    int count = settle_command(argv, showing->purchases->shared, &keys,
                               (const char *[SETTLE_ARGS]){"over", "1000", created.text});
    putback_greet(showing, &settle_script, count, SCRIPT_ARGV + count + SETTLE_ARGS, argv, NULL, NULL);
}

static void putback_show(struct purchases *purchases, struct history *history, struct redis *redis,
                         const struct receipt *receipt) {
    struct showing *showing = malloc(sizeof *showing);
    if (!showing) {
        history->failed = true;
        return;
    }
    *showing = (struct showing){purchases, history, redis, receipt->kind, receipt->seq, "", ""};
    snprintf(showing->place, sizeof showing->place, "%s", receipt_place(receipt));
    snprintf(showing->field, sizeof showing->field, "%s", receipt_field(receipt));
    history->in_flight++;
    if ((receipt->kind == RECEIPT_ORDER || receipt->kind == RECEIPT_MOVE) && history->last)
        putback_sweep(showing, receipt);
    struct putback_call call;
    putback_call_make(&call, purchases->shared, receipt->kind, receipt_place(receipt), receipt_field(receipt),
                      receipt_record(receipt), history->last ? "yes" : "no");
    putback_greet(showing, call.script, call.keys, call.argc, call.argv, putback_on_shown, showing);
}

/* ---- the outcome ---- */

static enum inventory_loss_outcome putback_read_outcome(enum receipt_kind kind,
                                                        const struct redis_value *value) {
    static const char *const words[] = {
        [INVENTORY_LOSS_NONE] = "there",      [INVENTORY_LOSS_BACK] = "back",
        [INVENTORY_LOSS_SHORT] = "short",     [INVENTORY_LOSS_NOTED] = "noted",
        [INVENTORY_LOSS_DIFFERS] = "differs", [INVENTORY_LOSS_UNKNOWN_ITEM] = "unknown-item"};
    if (kind == RECEIPT_ITEM) {
        int64_t result = redis_value_integer(value, 0);
        return result == 1 ? INVENTORY_LOSS_BACK : result == 0 ? INVENTORY_LOSS_NONE : INVENTORY_LOSS_DIFFERS;
    }
    const char *text = redis_value_text(value);
    int i = text ? text_index(words, sizeof words / sizeof *words, text) : -1;
    return i >= 0 ? (enum inventory_loss_outcome)i : INVENTORY_LOSS_DIFFERS;
}

void putback_tell(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                  enum inventory_loss_outcome outcome) {
    struct inventory_metrics *metrics = purchases->shared->metrics;
    metric_add(outcome == INVENTORY_LOSS_BACK ? &metrics->put_back : &metrics->shortage, 1);
    if (purchases->shared->config.on_loss)
        purchases->shared->config.on_loss(
            purchases->shared->config.on_loss_ctx,
            &(struct inventory_loss){.kind = (enum inventory_loss_kind)kind,
                                     .item = kind == RECEIPT_JOURNAL ? "" : place,
                                     .name = field,
                                     .outcome = outcome});
}

static void putback_note(const struct showing *showing, enum inventory_loss_outcome outcome) {
    struct purchases *purchases = showing->purchases;
    struct history *history = showing->history;
    struct receipts *receipts = &purchases->putback->receipts;
    struct receipt *receipt =
        receipts_find_seq(receipts, showing->kind, showing->place, showing->field, showing->seq);
    bool fits = outcome != INVENTORY_LOSS_SHORT && outcome != INVENTORY_LOSS_UNKNOWN_ITEM;
    history->suspect |= outcome != INVENTORY_LOSS_NONE;
    history->is_short |= receipt && !fits && !history->last;
    if (!receipt || (!fits && !history->last))
        return;
    if (outcome == INVENTORY_LOSS_DIFFERS && receipt->kind == RECEIPT_JOURNAL) {
        receipts_mark(receipts, receipt, true); /* transactions/disown.c undoes and reports it */
    } else {
        if (outcome == INVENTORY_LOSS_BACK || (outcome != INVENTORY_LOSS_NONE && !receipt->told))
            putback_tell(purchases, receipt->kind, receipt_place(receipt), receipt_field(receipt), outcome);
        receipt->told = outcome > INVENTORY_LOSS_BACK;
    }
    receipts_adopt(receipts, receipt, history->number, shared_now_ms(purchases->shared));
}

/* ---- a pass: all receipts are shown ---- */

/* Whether it was sold at another server of the cluster while this pass ran: that server has its item. A pass
 * over all that is sold meanwhile might never end. */
static bool putback_is_of_another(const struct purchases *purchases, const struct history *history,
                                  const struct receipt *receipt) {
    const struct redis *redis =
        receipt->seq > history->began ? router_of_history(purchases->shared->store, receipt->history) : NULL;
    return redis && redis_is_up(redis);
}

static void putback_show_more(struct purchases *purchases, struct history *history, struct redis *redis) {
    while (!history->failed && history->in_flight < IN_FLIGHT_MAX) {
        const struct receipt *next = receipts_pass(&purchases->putback->receipts, history->number);
        if (!next)
            return;
        if (!putback_is_of_another(purchases, history, next))
            putback_show(purchases, history, redis, next);
    }
}

/* All receipts were shown, or the connection is gone. */
static void putback_end_pass(struct purchases *purchases, struct history *history) {
    if (history->failed) {
        history->state = HISTORY_NEW;
        history->again_ms = shared_now_ms(purchases->shared) + AGAIN_MS;
        history->last = false;
        purchases->putback->running--;
    } else if (history->suspect && (!history->last || history->is_short)) {
        history->state = HISTORY_QUARANTINE;
        history->ended_ms = shared_now_ms(purchases->shared);
        history->quarantined_ms = history->last ? history->quarantined_ms : history->ended_ms;
        history->is_short &= !history->last;
        history->silent = history->again = -1;
        history->is_late = history->asking;
        history->asked_ms = INT64_MIN / 2;
    } else {
        putback_end(purchases, history);
    }
}

void putback_end(struct purchases *purchases, struct history *history) {
    history->state = HISTORY_DONE;
    metric_add(&purchases->shared->metrics->unkept, history->unshown);
    purchases->shared->torn |= history->suspect;
    history->seen = purchases->putback->receipts.seq;
    purchases->putback->running--;
}

void putback_begin_pass(struct purchases *purchases, struct history *history, struct redis *redis) {
    purchases->putback->running += history->state == HISTORY_NEW || history->state == HISTORY_DONE;
    history->last |= history->state == HISTORY_QUARANTINE;
    history->is_short &= history->last;
    history->state = HISTORY_SHOWING;
    history->failed = history->unshown = false;
    history->began = purchases->putback->receipts.seq;
    receipts_begin_pass(&purchases->putback->receipts, history->number);
    redis_greet(redis, NULL, NULL, 3, (const char *[]){"SCRIPT", "LOAD", putback_script.text});
    redis_greet(redis, NULL, NULL, 3, (const char *[]){"SCRIPT", "LOAD", create_script.text});
    redis_greet(redis, NULL, NULL, 3, (const char *[]){"SCRIPT", "LOAD", settle_script.text});
    history->in_flight++; /* until as many calls are in flight as may be */
    putback_show_more(purchases, history, redis);
    if (--history->in_flight == 0)
        putback_end_pass(purchases, history);
}

/* Another server of the cluster has the item. */
static bool putback_is_elsewhere(const char *error) {
    return strncmp(error, "MOVED ", 6) == 0;
}

/* The item's slot is moving, or no server has it. The items of other slots do not wait for it. ASK: the
 * slot's next server may have the item, or this server has lost it. */
static bool putback_is_nowhere(const char *error) {
    return strncmp(error, "TRYAGAIN", 8) == 0 || strncmp(error, "ASK ", 4) == 0 ||
           strstr(error, "Hash slot not served");
}

static void putback_on_shown(void *ctx, const struct redis_value *value) {
    struct showing showing = *(struct showing *)ctx;
    struct history *history = showing.history;
    bool refused = value && redis_value_type(value) == REDIS_ERROR;
    free(ctx);
    history->in_flight--;
    if (refused && putback_is_nowhere(redis_value_text(value)))
        history->suspect = history->unshown = true;
    else if (!value || (refused && !putback_is_elsewhere(redis_value_text(value))))
        history->failed = true;
    else if (!refused)
        putback_note(&showing, putback_read_outcome(showing.kind, value));
    if (refused && history->failed)
        redis_note_error(showing.redis, redis_value_text(value));
    putback_show_more(showing.purchases, history, showing.redis);
    if (history->in_flight == 0 && history->state == HISTORY_SHOWING)
        putback_end_pass(showing.purchases, history);
}

/* ---- a decision, without a receipt ---- */

struct asking {
    enum receipt_kind kind;
    putback_shown_fn *fn;
    void *ctx;
};

static void putback_on_decided(void *ctx, const struct redis_value *value) {
    struct asking asking = *(struct asking *)ctx;
    free(ctx);
    bool good = value && redis_value_type(value) == REDIS_STRING;
    enum inventory_loss_outcome outcome =
        good ? putback_read_outcome(asking.kind, value) : INVENTORY_LOSS_NONE;
    asking.fn(asking.ctx, good ? &outcome : NULL);
}

void putback_decide(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                    const char *record, putback_shown_fn *fn, void *ctx) {
    struct asking *asking = malloc(sizeof *asking);
    struct putback_call call;
    if (!asking) {
        fn(ctx, NULL);
        return;
    }
    *asking = (struct asking){kind, fn, ctx};
    putback_call_make(&call, purchases->shared, kind, place, field, record, "decided");
    router_run(purchases->shared->store, call.script, call.keys, call.argc, call.argv, putback_on_decided,
               asking);
}
