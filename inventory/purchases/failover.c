/* After a failover: a server that may lack what was acknowledged gets it back before this inventory sells
 * there again.
 *
 * Redis replicates asynchronously: a replica can be promoted that does not have the last writes, and nobody
 * is told. So each connection to a server begins with the question for its history (struct replication). If
 * the history is new to this inventory, the server was promoted or restarted. Then all receipts are shown to
 * it (putback.lua), and what it lacks is put back, the newest state of each order.
 *
 * Then the server is in quarantine. It sells once all inventories that lived have shown their receipts
 * (membership.c), or when failover_quarantine_ms() is over. That is longer than the others need to notice:
 * they lose their connection, or a call runs into the time-out, or the question for the history does, which
 * each server is asked twice a second. An inventory with much to show says so each second; the others wait
 * for it, for QUARANTINE_MOST_MS at most. At the end of the quarantine, what did not fit is shown once more,
 * since others may have put back what frees its units. All wait for that, for REACH_MS beyond
 * failover_quarantine_ms() at most. What does not fit then is noted in the item (`shortage`), reported
 * (`on_loss`) and counted.
 *
 * The same question tells how far the replicas are, so that receipts are forgotten once replicas have what
 * they tell of. Where no replica was ever seen, and neither Sentinels nor the cluster know of one, the
 * store's disk has it. Then a receipt is forgotten by its age, but not while the server is away or does not
 * answer.
 *
 * It cannot put back
 * - what another inventory acknowledged in its last moments, if that inventory died too. Whoever waited for
 *   it in vain, or cannot know who lived, counts that (`unkept`);
 * - what had to be forgotten, or was forgotten because other replicas had it while the promoted one was not
 *   connected. That is counted (`unkept`) when a new history is met;
 * - what was forgotten because the server's disk had it, if the server goes on from older data, or from none.
 *   This inventory's last heartbeat is missing there, and that is counted (in a cluster only on the server
 *   that has the heartbeats);
 * - what was acknowledged at a master of a cluster that died without a successor. That is counted, too, if
 *   other masters got its slots;
 * - what was moved to a master of a cluster that died before its replica had it, except for the last moments;
 * - what does not fit any more because a new inventory sold first. To a new inventory a restarted master is
 *   like any other, and it sells at once, while the others have yet to notice.
 *
 * A master can come back while Sentinels are replacing it, and its successor would lack what it sells then.
 * So a server that Sentinels name is also in quarantine, for the whole time, if it was away for longer than a
 * moment; meanwhile the Sentinels are asked again. If it sells after all, its successor is shown what was
 * acknowledged elsewhere since the successor was last shown the receipts. (A server of a cluster does not
 * serve within two seconds of its start.) */
#include "inventory/purchases/putback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OUTAGE_MS is shorter than any failover, and longer than it takes to make a lost connection anew.
 *
 * Another instance takes at most a call's time-out to notice that its server is gone, and REACH_MS to ask in
 * the first place, to pass over Sentinels that are gone too, and to connect.
 *
 * HEARD_MS is the time of four questions: a server that answers none of them may be gone. */
enum {
    REACH_MS = 2000,
    AGAIN_MS = 100,
    SHOWING_MS = 1000,
    ASK_MS = 500,
    HEARD_MS = 2000,
    OUTAGE_MS = 250,
    REFRESH_MS = 250,
    QUARANTINE_MOST_MS = 60000 /* beyond the usual time: then the server was replaced meanwhile */
};

/* ---- histories ---- */

static const struct history *failover_find_number(const struct putback *putback, unsigned number) {
    int i = 0;
    while (i < putback->history_count && putback->histories[i]->number != number)
        i++;
    return i < putback->history_count ? putback->histories[i] : NULL;
}

static void failover_end(struct putback *putback, int i) {
    struct history *history = putback->histories[i];
    putback->running -= history->state == HISTORY_QUARANTINE;
    receipts_end_history(&putback->receipts, history->number);
    memmove(&putback->histories[i], &putback->histories[i + 1],
            (size_t)(--putback->history_count - i) * sizeof(struct history *));
    free(history);
}

/* Makes room for one more history: ends the oldest one that nobody waits for. Receipts of an ended history
 * never count as replicated, so a history that a server has is ended only if no other is left. False: there
 * is no room. */
static bool failover_make_room(struct purchases *purchases) {
    struct putback *putback = purchases->putback;
    bool room = putback->history_count < RECEIPTS_HISTORIES;
    for (int i = 0; !room && i < 2 * putback->history_count; i++) {
        const struct history *history = putback->histories[i % putback->history_count];
        bool free_only = i < putback->history_count; /* in the first round */
        room = history->state != HISTORY_SHOWING && !history->asking &&
               !(free_only && router_of_history(purchases->shared->store, history->number));
        if (room)
            failover_end(putback, i % putback->history_count);
    }
    return room;
}

/* A restarted master has its replicas again in a while. Until they have their copy, each of them can be
 * promoted with what it had before. A promoted server was a replica itself; in a cluster the old master
 * becomes its replica. */
static int failover_expected_replicas(const struct purchases *purchases, const struct server *server) {
    const struct history *was = failover_find_number(purchases->putback, server->history);
    bool promoted = redis_history(server->redis)->before[0];
    return promoted ? purchases->shared->url.kind == REDIS_URL_CLUSTER : was ? was->replicas : 0;
}

static int64_t failover_offset(const struct history *history, uint64_t seq) {
    int64_t offset = INT64_MAX;
    for (unsigned i = 0; i < HISTORY_OFFSETS && i < history->offset_count; i++) {
        if (history->offsets[i].seq >= seq && history->offsets[i].offset < offset)
            offset = history->offsets[i].offset;
    }
    return offset;
}

static bool failover_is_up(const struct purchases *purchases, const struct history *history) {
    const struct redis *redis = router_of_history(purchases->shared->store, history->number);
    return redis && redis_is_up(redis) && redis_history(redis)->is_master;
}

/* Whether the promoted replica may lack receipts of this history that are not kept any more. `before`: the
 * history that the replica goes on from; NULL: nobody knows what it had. In a cluster the masters that are up
 * have their own. */
static bool failover_may_lack(struct purchases *purchases, const struct history *history,
                              const struct history *before, const struct replication *told) {
    bool cluster = purchases->shared->url.kind == REDIS_URL_CLUSTER;
    uint64_t dropped = receipts_dropped(&purchases->putback->receipts, history->number);
    if (!dropped)
        return false;
    if (!before)
        return !cluster || !failover_is_up(purchases, history);
    if (history == before)
        return failover_offset(history, dropped) >= told->parted;
    return history->number > before->number && !cluster;
}

/* Whether the promoted replica lacks what was forgotten because other replicas had it: it was not connected
 * then, or had no part in an earlier failover. */
static bool failover_lack_dropped(struct purchases *purchases, const struct replication *told) {
    struct putback *putback = purchases->putback;
    const struct history *before = putback_history(putback, told->before);
    for (int i = 0; told->before[0] && i < putback->history_count; i++) {
        if (failover_may_lack(purchases, putback->histories[i], before, told))
            return true;
    }
    return false;
}

/* Whether receipts were forgotten before they were replicated, so that more was lost than can be put back. */
static bool failover_lack_forgotten(struct purchases *purchases) {
    struct putback *putback = purchases->putback;
    bool lacks = receipts_take_forgotten(&putback->receipts, 0);
    for (int i = 0; i < putback->history_count; i++) {
        const struct history *history = putback->histories[i];
        if (purchases->shared->url.kind != REDIS_URL_CLUSTER || !failover_is_up(purchases, history))
            lacks |= receipts_take_forgotten(&putback->receipts, history->number);
    }
    return lacks;
}

/* Marks the histories that the server's history goes on from. If this inventory never saw its predecessor,
 * that may be each history whose server is away. False: this inventory sold in none of these. */
static bool failover_note_followed(struct purchases *purchases, const struct server *server) {
    struct putback *putback = purchases->putback;
    const char *id = redis_history(server->redis)->before;
    bool known = putback_history(putback, id), any = false;
    for (int i = 0; i < putback->history_count; i++) {
        struct history *history = putback->histories[i];
        bool is_followed = strcmp(history->id, id) == 0 || history->number == server->history ||
                           (*id && !known && !failover_is_up(purchases, history));
        history->is_followed |= is_followed;
        any |= is_followed && (history->sold || history->follows);
    }
    return any;
}

/* NULL when out of memory. */
static struct history *failover_enter(struct purchases *purchases, const struct server *server) {
    struct putback *putback = purchases->putback;
    const struct replication *told = redis_history(server->redis);
    int expected = failover_expected_replicas(purchases, server);
    bool lacks = failover_lack_dropped(purchases, told);
    struct history *history = failover_make_room(purchases) ? calloc(1, sizeof *history) : NULL;
    if (!history)
        return NULL;
    history->follows = failover_note_followed(purchases, server);
    memcpy(history->id, told->id, sizeof history->id);
    history->number = ++putback->number;
    /* The server was promoted or restarted, so others may have acknowledged what it lacks. */
    history->suspect = told->before[0] || server->history;
    history->may_end_early = true;
    history->silent = history->again = -1;
    history->replicas = expected;
    /* A promoted replica may lack the heartbeat. What it lacks is put back, so that does not count. */
    if (told->before[0])
        purchases->heartbeat_ms = 0;
    putback->histories[putback->history_count++] = history;
    receipts_begin_history(&putback->receipts, history->number);
    lacks |= history->suspect && failover_lack_forgotten(purchases);
    if (lacks)
        metric_add(&purchases->shared->metrics->unkept, 1);
    return history;
}

/* Whether this inventory sold last at this server: then Sentinels may be replacing it. */
static bool failover_is_back(const struct purchases *purchases, const struct server *server) {
    const struct redis_target *now = redis_address_now(server->redis), *last = &purchases->putback->sold_at;
    return purchases->shared->url.kind == REDIS_URL_SENTINEL &&
           (!last->host[0] || (strcmp(now->host, last->host) == 0 && now->port == last->port));
}

/* Whether others may have sold elsewhere meanwhile, or do so now. Sentinels name the old master for a second
 * or two after they promoted its successor, and the old one may be back. */
static bool failover_is_suspect(const struct purchases *purchases, const struct history *history,
                                const struct server *server) {
    unsigned sold_in = purchases->putback->sold_in;
    if (purchases->shared->url.kind == REDIS_URL_CLUSTER)
        return false;
    int64_t away_ms = history->reached_ms - server->down_since_ms;
    return (sold_in && sold_in != history->number) ||
           (purchases->shared->url.kind == REDIS_URL_SENTINEL && away_ms > OUTAGE_MS);
}

/* Called for each new connection to the history's server. */
static void failover_note_reached(struct purchases *purchases, struct history *history,
                                  const struct server *server) {
    history->reached_ms = history->refreshed_ms = redis_reached_ms(server->redis);
    if (failover_is_back(purchases, server))
        history->may_end_early = false;
    if (!failover_is_suspect(purchases, history, server))
        return;
    history->suspect = true;
    history->last = false;
    if (history->state == HISTORY_DONE) {
        history->state = HISTORY_NEW;
        /* The inventories noted as living have shown only what they had by then. */
        history->may_end_early = false;
        history->follows = purchases->putback->sold_in != history->number;
    }
}

/* While another inventory shows a long list, the quarantine goes on, but not for too long. */
static void failover_on_asked(void *ctx, const struct redis_value *value) {
    struct history *history = ctx;
    bool good = value && redis_value_count(value) == 3 && !history->is_late;
    history->asking = history->is_late = false;
    history->silent = good ? redis_value_integer(redis_value_at(value, 0), -1) : -1;
    history->again = good ? redis_value_integer(redis_value_at(value, 1), -1) : -1;
    bool show = good && redis_value_integer(redis_value_at(value, 2), 0) > 0;
    if (show)
        history->answered_ms = 0; /* an inventory that still shows is not late */
    if (show && history->state == HISTORY_QUARANTINE &&
        history->asked_ms < history->reached_ms + QUARANTINE_MOST_MS)
        history->quarantined_ms = history->asked_ms;
}

/* Tells the others how far this inventory is, and asks how far they are. `server`: NULL if it is up. */
static void failover_tell(struct purchases *purchases, struct history *history, struct server *server,
                          enum member_stage stage) {
    if (history->asking)
        return;
    history->asking = true;
    history->asked_ms = shared_now_ms(purchases->shared);
    membership_tell(purchases, server, history->id, history->follows, stage, failover_on_asked, history);
}

static void failover_ask_others(struct purchases *purchases, struct history *history, struct server *server) {
    bool shows = history->state != HISTORY_QUARANTINE;
    int64_t again_ms = history->asked_ms + (shows ? SHOWING_MS : AGAIN_MS);
    if (shared_now_ms(purchases->shared) >= again_ms)
        failover_tell(purchases, history, server,
                      shows               ? MEMBER_SHOWING
                      : history->is_short ? MEMBER_AGAIN
                                          : MEMBER_DONE);
}

/* Whether something was acknowledged elsewhere since the history's last pass. */
static bool failover_has_missed(struct purchases *purchases, const struct history *history) {
    const struct receipt *receipt = TAILQ_FIRST(&purchases->putback->receipts.list);
    while (receipt && receipt->history == history->number)
        receipt = TAILQ_NEXT(receipt, next);
    return receipt && purchases->putback->receipts.seq != history->seen &&
           purchases->shared->url.kind != REDIS_URL_CLUSTER;
}

static int64_t failover_quarantine_ms(const struct purchases *purchases) {
    return purchases->shared->config.call_timeout_ms + REACH_MS;
}

/* Whether the quarantine waits for inventories that will show something again. An inventory that will do so
 * itself does it first. */
static bool failover_lacks_others(const struct history *history) {
    return !history->is_short && history->again > 0;
}

static bool failover_is_over(const struct purchases *purchases, const struct history *history) {
    int64_t now_ms = shared_now_ms(purchases->shared);
    int64_t since_ms =
        history->quarantined_ms > history->reached_ms ? history->quarantined_ms : history->reached_ms;
    if (failover_lacks_others(history) || (history->last && history->again < 0))
        return now_ms >= since_ms + failover_quarantine_ms(purchases) + REACH_MS &&
               now_ms >= history->ended_ms + REACH_MS;
    return now_ms >= since_ms + failover_quarantine_ms(purchases) ||
           (history->may_end_early && history->silent == 0);
}

/* Counts a failover once: clears the heartbeat, which would count it again. */
static void failover_count_unkept(struct purchases *purchases) {
    metric_add(&purchases->shared->metrics->unkept, 1);
    purchases->heartbeat_ms = 0;
}

/* Whether the promoted replica has all that was acknowledged: with --replicas each replica has it, if there
 * were no more of them. A master that goes on from a snapshot looks like a promoted replica, but has less
 * than its replicas had. */
static bool failover_is_copied(struct purchases *purchases, const struct server *server) {
    const struct replication *told = redis_history(server->redis);
    const struct history *was = putback_history(purchases->putback, told->before);
    return purchases->shared->config.replicas > 0 && was &&
           was->replicas <= purchases->shared->config.replicas && was->copied_offset < told->parted;
}

/* Whether an inventory that lived before has not shown its receipts: it died, or stands still. What it
 * acknowledged last may be lost, unless the disk had it. The same if nobody knows who lived. */
static bool failover_lacks_silent(const struct history *history) {
    return history->silent < 0 || (history->silent > 0 && !history->synced);
}

/* Counts the failover if another inventory was silent. An inventory that leaves has no heartbeat. A store
 * that refuses writes cannot be asked yet, so it is asked later. */
static void failover_note_silent(struct purchases *purchases, struct history *history,
                                 const struct server *server) {
    bool leaves = purchases->heartbeat_due_ms == INT64_MAX, first = !history->last;
    history->synced = receipts_is_synced(&purchases->putback->receipts, server->history);
    if (!history->follows || failover_is_copied(purchases, server) || (leaves && history->silent < 0))
        return;
    if (first && history->again < 0) {
        history->unsure = true;
        history->answered_ms = 0;
    } else if ((first && failover_lacks_silent(history)) ||
               (!history->synced && failover_lacks_others(history))) {
        failover_count_unkept(purchases);
    }
}

/* The server sells from now on. A new inventory says that it has nothing to show, since those that sold here
 * before may come later, and would wait for it. */
static void failover_admit(struct purchases *purchases, struct history *history, struct server *server) {
    if (!history->follows && server->history != history->number) {
        history->untold = true;
        failover_tell(purchases, history, server, MEMBER_DONE);
    }
    history->sold = true;
    purchases->putback->sold_in = server->history = history->number;
    purchases->putback->sold_at = *redis_address_now(server->redis);
    server_admit(server);
}

void failover_prepare(void *ctx, struct server *server) {
    struct purchases *purchases = ctx;
    struct history *history = putback_history(purchases->putback, redis_history(server->redis)->id);
    if (!history && !(history = failover_enter(purchases, server)))
        return; /* prepare is called again */
    if (history->reached_ms != redis_reached_ms(server->redis))
        failover_note_reached(purchases, history, server);
    replicas_note(history, redis_history(server->redis));
    /* The history's id may have changed, and inventories that come later know only the new one. */
    int64_t now_ms = shared_now_ms(purchases->shared);
    if (now_ms >= history->refreshed_ms + REFRESH_MS) {
        history->refreshed_ms = now_ms;
        replicas_ask_one(purchases, server->redis);
    }
    if (history->state == HISTORY_QUARANTINE || history->state == HISTORY_SHOWING || history->failed)
        failover_ask_others(purchases, history, server);
    bool over = history->state == HISTORY_QUARANTINE && failover_is_over(purchases, history);
    if (over)
        failover_note_silent(purchases, history, server);
    if (over && history->last)
        putback_end(purchases, history);
    if ((over && history->state == HISTORY_QUARANTINE) ||
        (history->state == HISTORY_NEW && now_ms >= history->again_ms) ||
        (history->state == HISTORY_DONE && failover_has_missed(purchases, history)))
        putback_begin_pass(purchases, history, server->redis);
    if (history->state == HISTORY_DONE)
        failover_admit(purchases, history, server);
    else if (!history->failed)
        redis_note_error(server->redis,
                         "the server was promoted, or is back: what it lacks of the acknowledged "
                         "orders is put back before it sells");
}

void failover_lost(void *ctx, const struct server *server) {
    struct purchases *purchases = ctx;
    const struct history *history = failover_find_number(purchases->putback, server->history);
    if (history && !history->is_followed)
        metric_add(&purchases->shared->metrics->unkept, 1);
}

/* ---- now and then ---- */

/* Asks again whether all others had shown their receipts. Those that live say so by themselves; they get the
 * time of a quarantine for that. */
static void failover_judge_unsure(struct purchases *purchases, struct history *history) {
    int64_t now_ms = shared_now_ms(purchases->shared);
    if (history->again >= 0 && history->answered_ms == 0)
        history->answered_ms = now_ms;
    bool late = history->answered_ms && now_ms - history->answered_ms >= failover_quarantine_ms(purchases);
    history->untold &= history->again < 0;
    if (history->again >= 0 && (history->silent == 0 || late || !history->unsure)) {
        if (history->unsure && failover_lacks_silent(history))
            failover_count_unkept(purchases);
        history->unsure = false;
    } else if (now_ms >= history->asked_ms + SHOWING_MS) {
        failover_tell(purchases, history, NULL, MEMBER_DONE);
    }
}

/* A server that was replaced in quarantine begins anew if it comes back. */
static void failover_give_up(struct purchases *purchases, struct history *history) {
    int64_t since_ms = shared_now_ms(purchases->shared) - history->quarantined_ms;
    if (history->state != HISTORY_QUARANTINE ||
        since_ms < failover_quarantine_ms(purchases) + QUARANTINE_MOST_MS)
        return;
    history->state = HISTORY_NEW;
    purchases->putback->running--;
}

/* A connection counts as up until its loss is noticed, which is too late after a pause of this process. So
 * the server must have answered a moment ago. */
static void failover_forget_old(struct purchases *purchases) {
    struct putback *putback = purchases->putback;
    for (int i = 0; i < putback->history_count; i++) {
        const struct history *history = putback->histories[i];
        const struct redis *redis = router_of_history(purchases->shared->store, history->number);
        bool answers =
            redis && redis_is_up(redis) && shared_now_ms(purchases->shared) - history->heard_ms < HEARD_MS;
        receipts_set_away(&putback->receipts, history->number, redis && !answers);
    }
    receipts_tick(&putback->receipts, shared_now_ms(purchases->shared));
}

void failover_tick(struct purchases *purchases) {
    struct putback *putback = purchases->putback;
    for (int i = 0; i < putback->history_count; i++) {
        struct history *history = putback->histories[i];
        failover_give_up(purchases, history);
        history->unsure &= !history->is_followed; /* then its successor is asked about */
        history->untold &= !history->is_followed;
        if ((history->unsure || history->untold) && history->state == HISTORY_DONE)
            failover_judge_unsure(purchases, history);
    }
    if (putback->running == 0)
        failover_forget_old(purchases);
    if (putback->draining || shared_now_ms(purchases->shared) - putback->asked_ms >= ASK_MS) {
        putback->asked_ms = shared_now_ms(purchases->shared);
        replicas_ask(purchases);
    }
}
