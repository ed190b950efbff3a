/* How far the replicas of each server are. What all connected replicas have counts as replicated
 * (receipts.h). Where there are no replicas: whether the server syncs each write to its disk. */
#include "inventory/purchases/putback.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_EACH = 10 }; /* questions for the history for each question for the configuration */

struct question {
    struct purchases *purchases;
    struct redis *redis; /* calls replicas_on_history() before it is freed */
    uint64_t seq;        /* the newest receipt when it was asked */
    int64_t asked_ms;    /* the reply may be read much later, if this process stood still */
};

/* Whether there may be a replica that can be promoted: one that was seen, or that Sentinels or the cluster
 * know. */
static bool replicas_can_promote(const struct purchases *purchases, const struct history *history) {
    return history->replicas > 0 || purchases->shared->config.replicas > 0 ||
           purchases->shared->url.kind == REDIS_URL_SENTINEL ||
           (purchases->shared->url.kind == REDIS_URL_CLUSTER && !history->is_alone);
}

void replicas_note(struct history *history, const struct replication *now) {
    if (history->replicas < now->connected)
        history->replicas = now->connected;
}

/* What was acknowledged up to this receipt was written below the offset, and need not be kept. */
static void replicas_note_replicated(struct purchases *purchases, struct history *history, uint64_t seq,
                                     int64_t offset) {
    unsigned count = history->offset_count;
    receipts_set_replicated(&purchases->putback->receipts, history->number, seq);
    if (count && history->offsets[(count - 1) % HISTORY_OFFSETS].seq >= seq)
        return;
    history->offsets[count % HISTORY_OFFSETS].seq = seq;
    history->offsets[count % HISTORY_OFFSETS].offset = offset;
    history->offset_count++;
}

static void replicas_note_info(struct purchases *purchases, struct history *history,
                               const struct replication *now, const char *info, uint64_t seq) {
    struct receipts *receipts = &purchases->putback->receipts;
    replicas_note(history, now);
    if (!replicas_can_promote(purchases, history)) {
        replicas_note_replicated(purchases, history, seq, now->offset);
        return;
    }
    receipts_set_synced(receipts, history->number, false);
    if (now->connected > 0 && replication_count(info, history->mark_offset) == now->connected) {
        history->copied_offset = history->mark_offset;
        replicas_note_replicated(purchases, history, history->mark, history->mark_offset);
    } else if (history->mark) {
        return;
    }
    history->mark = seq;
    history->mark_offset = now->offset;
}

/* Whether the server syncs a write before its reply, by its CONFIG. */
static bool replicas_syncs(const struct redis_value *value) {
    int good = 0;
    for (size_t i = 0; value && i + 1 < redis_value_count(value); i += 2) {
        const char *name = redis_value_text(redis_value_at(value, i)),
                   *set = redis_value_text(redis_value_at(value, i + 1));
        good += name && set &&
                ((strcmp(name, "appendonly") == 0 && strcmp(set, "yes") == 0) ||
                 (strcmp(name, "appendfsync") == 0 && strcmp(set, "always") == 0) ||
                 (strcmp(name, "no-appendfsync-on-rewrite") == 0 && strcmp(set, "no") == 0));
    }
    return good == 3;
}

static void replicas_on_config(void *ctx, const struct redis_value *value) {
    struct question question = *(struct question *)ctx;
    struct purchases *purchases = question.purchases;
    const struct history *history = putback_history(purchases->putback, redis_history(question.redis)->id);
    free(ctx);
    if (history)
        receipts_set_synced(&purchases->putback->receipts, history->number,
                            replicas_syncs(value) && !replicas_can_promote(purchases, history));
}

/* CLUSTER NODES has a line for each: ID ADDRESS FLAGS MASTER …, with the asked server's id as the master of
 * its replicas, be they connected or not. */
static void replicas_on_nodes(void *ctx, const struct redis_value *value) {
    struct question question = *(struct question *)ctx;
    struct history *history = putback_history(question.purchases->putback, redis_history(question.redis)->id);
    const char *nodes = value ? redis_value_text(value) : NULL,
               *line = nodes ? strstr(nodes, "myself") : NULL;
    char of_own[48] = " ";
    free(ctx);
    if (!history || !line)
        return;
    while (line > nodes && line[-1] != '\n')
        line--;
    size_t length = strcspn(line, " ");
    if (length + 3 > sizeof of_own)
        return;
    memcpy(of_own + 1, line, length);
    stpcpy(of_own + 1 + length, " ");
    history->is_alone = !strstr(nodes, of_own);
}

static void replicas_send(struct redis *redis, const struct question *question, redis_reply_fn *fn, int argc,
                          const char **argv) {
    struct question *copy = malloc(sizeof *copy);
    if (!copy)
        return;
    *copy = *question;
    if (redis_is_up(redis))
        redis_call(redis, fn, copy, argc, argv);
    else
        redis_greet(redis, fn, copy, argc, argv);
}

/* Inventories that come later know the history only by this id. */
static void replicas_rename_history(struct history *history, const char *id) {
    memcpy(history->id, id, sizeof history->id);
    history->untold = true;
    history->again = -1;
    history->is_late = history->asking;
}

static void replicas_on_history(void *ctx, const struct redis_value *value) {
    struct question question = *(struct question *)ctx;
    const char *info = value ? redis_value_text(value) : NULL;
    struct replication now;
    free(ctx);
    if (!info || !replication_read(&now, info))
        return;
    struct history *history = putback_history(question.purchases->putback, redis_history(question.redis)->id);
    redis_note_history(question.redis, &now);
    if (!history)
        return;
    /* It is the same history, perhaps by another id; or the connection is broken by now. */
    if (strcmp(history->id, redis_history(question.redis)->id) != 0)
        replicas_rename_history(history, redis_history(question.redis)->id);
    if (!redis_is_up(question.redis))
        return;
    history->heard_ms = question.asked_ms;
    if (strcmp(history->id, now.id) == 0)
        replicas_note_info(question.purchases, history, &now, info, question.seq);
    if (history->replicas > 0 || history->questions++ % CONFIG_EACH != 0)
        return;
    if (question.purchases->shared->url.kind == REDIS_URL_CLUSTER)
        replicas_send(question.redis, &question, replicas_on_nodes, 2, (const char *[]){"CLUSTER", "NODES"});
    if (!replicas_can_promote(question.purchases, history))
        replicas_send(question.redis, &question, replicas_on_config, 3,
                      (const char *[]){"CONFIG", "GET", "*append*"});
}

void replicas_ask_one(struct purchases *purchases, struct redis *redis) {
    struct question question = {purchases, redis, purchases->putback->receipts.seq,
                                shared_now_ms(purchases->shared)};
    if (redis_history(redis)->id[0])
        replicas_send(redis, &question, replicas_on_history, 2, (const char *[]){"INFO", "replication"});
}

void replicas_ask(struct purchases *purchases) {
    for (int i = 0; i < router_servers(purchases->shared->store); i++) {
        struct redis *redis = router_server(purchases->shared->store, i);
        if (redis && redis_is_up(redis))
            replicas_ask_one(purchases, redis);
    }
}
