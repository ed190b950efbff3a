/* Deals: baskets and transfers, step by step.
 *
 *     check     look at all items, then into the journal
 *     make      look at all items; intent; take from each; decide; write what was decided; settle
 *     settle    what the journal has, and from there on
 *
 * The journal is the only memory: whatever went wrong on the way (a reply lost, a process dead, another who
 * was faster), a run begins again from what the journal says, and goes on from there by the table below. That
 * is also all that recovery does. It is two-phase commit (J. Gray, "Notes on Data Base Operating Systems",
 * 1978, section 5.8) with a coordinator that is a record, so that anybody can take it up: no item waits for a
 * process.
 *
 * What makes it safe: `intent` is left by one step of the journal only, to `undoing` or to what was decided,
 * so two who are at one deal cannot decide both ways. Every write to an item is done once, by the deal's
 * nonce, and a `take` that comes after its undoing finds it.
 *
 * So no lock is needed to settle a deal, or to finish what somebody left: only whoever makes one has locks,
 * so that two baskets do not undo each other. What he writes is refused if it carries an older token than the
 * item has seen, so that whoever was paused past the end of his locks takes nothing. */
#include "inventory/transactions/transaction.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct deal_phase_row deal_phases[DEAL_PHASES] = {
    [DEAL_NONE] = {"none", true, WRITE_NOTHING, DEAL_NONE, INVENTORY_STATE_UNDONE},
    [DEAL_INTENT] = {"intent", false, WRITE_NOTHING, DEAL_UNDOING, INVENTORY_STATE_UNDONE},
    [DEAL_UNDOING] = {"undoing", false, WRITE_UNDO, DEAL_NONE, INVENTORY_STATE_UNDONE},
    [DEAL_HELD] = {"held", true, WRITE_NOTHING, DEAL_EXPIRING, INVENTORY_STATE_HELD},
    [DEAL_CONFIRMING] = {"confirming", false, WRITE_CONFIRM, DEAL_CONFIRMED, INVENTORY_STATE_CONFIRMED},
    [DEAL_CANCELLING] = {"cancelling", false, WRITE_CANCEL, DEAL_CANCELLED, INVENTORY_STATE_CANCELLED},
    [DEAL_EXPIRING] = {"expiring", false, WRITE_EXPIRE, DEAL_EXPIRED, INVENTORY_STATE_EXPIRED},
    [DEAL_CONFIRMED] = {"confirmed", true, WRITE_NOTHING, DEAL_CONFIRMED, INVENTORY_STATE_CONFIRMED},
    [DEAL_CANCELLED] = {"cancelled", true, WRITE_NOTHING, DEAL_CANCELLED, INVENTORY_STATE_CANCELLED},
    [DEAL_EXPIRED] = {"expired", true, WRITE_NOTHING, DEAL_EXPIRED, INVENTORY_STATE_EXPIRED},
};

enum {
    OVERTAKEN_MOST = 8,
    FINISH_MS = 1000, /* after that others finish what was decided and is still not written */
};

static void read_journal(struct deal_run *run);
static void go_on(struct deal_run *run);

void deal_at_step(struct inventory *inventory, const char *when, const char *step, int part) {
    const struct inventory_config *config = &inventory->config;
    char text[48];
    if (!config->at_step)
        return;
    redis_push(inventory->redis); /* who dies here has sent what he has sent, no less and no more */
    snprintf(text, sizeof text, part < 0 ? "%s %s" : "%s %s %d", when, step, part);
    config->at_step(config->at_step_ctx, text);
}

/* ---- the end ---- */

void deal_finish(struct deal_run *run, enum inventory_status status) {
    struct inventory_deal *deal = run->deal;
    figure_add(&run->inventory->figures->waiting, (uint64_t)-1);
    free(run);
    deal->done(deal, status);
}

/* What it was when it was made. */
static enum inventory_state born(const struct inventory_deal *deal) {
    return deal->expires_ms ? INVENTORY_STATE_HELD : INVENTORY_STATE_CONFIRMED;
}

/* It is at rest: what that means to the one who asked. */
void deal_conclude(struct deal_run *run) {
    struct inventory_deal *deal = run->deal;
    enum inventory_status status = INVENTORY_OK;
    deal->state = deal_phases[deal->phase].is;
    if (deal->phase == DEAL_NONE) {
        status = run->failure != INVENTORY_OK ? run->failure : INVENTORY_UNKNOWN_BASKET;
    } else if (run->make) {
        /* The first answer, whatever has become of it since. */
        deal->now = deal->state;
        deal->state = born(deal);
        status = run->mine ? INVENTORY_OK : INVENTORY_REPLAYED;
    } else if (run->step == INVENTORY_CONFIRM && deal->state != INVENTORY_STATE_CONFIRMED) {
        status = deal->state == INVENTORY_STATE_CANCELLED ? INVENTORY_CANCELLED : INVENTORY_EXPIRED;
    } else if (run->step == INVENTORY_CANCEL && deal->state != INVENTORY_STATE_CANCELLED) {
        status = deal->state == INVENTORY_STATE_CONFIRMED ? INVENTORY_CONFIRMED : INVENTORY_EXPIRED;
    }
    deal_finish(run, status);
}

/* ---- replies that were lost ---- */

void deal_lost(struct deal_run *run) {
    struct inventory *inventory = run->inventory;
    if (run->deadline_ms == 0)
        run->deadline_ms = clock_mono_ms(inventory->config.clock) + inventory->config.resolve_ms;
    run->next = inventory->lost_deals;
    inventory->lost_deals = run;
}

void deal_tick(struct inventory *inventory, bool all) {
    int64_t now_ms = clock_mono_ms(inventory->config.clock);
    bool up = !all && redis_is_up(inventory->redis);
    struct deal_run *list = inventory->lost_deals;
    inventory->lost_deals = NULL;
    while (list) {
        struct deal_run *run = list;
        list = run->next;
        if (up && now_ms < run->deadline_ms)
            read_journal(run);
        else if (all || now_ms >= run->deadline_ms)
            deal_finish(run, run->begun ? INVENTORY_UNKNOWN : INVENTORY_UNAVAILABLE);
        else
            deal_lost(run);
    }
}

/* ---- the journal ---- */

bool deal_is_same(const struct inventory_deal *a, const struct inventory_deal *b) {
    bool same = a->kind == b->kind && a->count == b->count &&
                (a->kind == INVENTORY_TRANSFER || strcmp(a->user, b->user) == 0);
    for (int i = 0; same && i < a->count; i++)
        same =
            strcmp(a->lines[i].item, b->lines[i].item) == 0 && a->lines[i].quantity == b->lines[i].quantity;
    return same;
}

/* The deal as the journal has it: the same that was wanted, or a reason to end. */
static enum inventory_status adopt(struct deal_run *run, const char *record) {
    struct inventory_deal *deal = run->deal, found = *deal;
    if (!journal_read(&found, record)) {
        snprintf(run->inventory->error, sizeof run->inventory->error,
                 "a record in the journal of baskets cannot be read");
        return INVENTORY_UNAVAILABLE;
    }
    if (!deal_is_same(&found, deal))
        return run->make ? INVENTORY_KEY_REUSED : INVENTORY_UNAVAILABLE;
    if (run->mine && strcmp(found.nonce, deal->nonce) != 0) {
        run->mine = false; /* another attempt stands there */
        run->taking_ns = 0;
    }
    memcpy(deal->nonce, found.nonce, sizeof deal->nonce);
    deal->phase = found.phase;
    deal->created_ms = found.created_ms;
    deal->expires_ms = found.expires_ms;
    return INVENTORY_OK;
}

void deal_found(struct deal_run *run, const struct redis_value *value) {
    run->found = INVENTORY_OK;
    if (redis_value_type(value) == REDIS_STRING)
        run->found = adopt(run, redis_value_text(value));
    else
        run->deal->phase = DEAL_NONE;
}

void deal_resume(struct deal_run *run, const struct redis_value *value) {
    deal_found(run, value);
    if (run->found == INVENTORY_OK)
        go_on(run);
    else
        deal_finish(run, run->found);
}

static void on_read(void *ctx, const struct redis_value *value) {
    struct deal_run *run = ctx;
    if (store_status(run->inventory, value) == INVENTORY_OK)
        deal_resume(run, value);
    else
        deal_lost(run);
}

static void read_journal(struct deal_run *run) {
    if (!journal_ask(run->inventory, run->deal, on_read, run))
        deal_lost(run);
}

static void on_told(void *ctx, const struct redis_value *value) {
    store_status(ctx, value);
}

/* A newer holder of a lock, or another lock, was seen: the rest is others' to do, and they need not wait.
 * Until then units are gone, so that no refusal is the last word. */
static void give_way(struct deal_run *run) {
    struct inventory *inventory = run->inventory;
    const struct deal_phase_row *row = &deal_phases[run->deal->phase];
    if (!row->at_rest)
        journal_move(inventory, run->deal, (enum deal_phase)run->deal->phase,
                     clock_wall_ms(inventory->config.clock), on_told, inventory);
    deal_finish(run, row->is == INVENTORY_STATE_UNDONE ? INVENTORY_STALE : INVENTORY_UNKNOWN);
}

static void on_moved(void *ctx, const struct redis_value *value) {
    struct deal_run *run = ctx;
    if (store_status(run->inventory, value) != INVENTORY_OK) {
        deal_lost(run);
        return;
    }
    deal_at_step(run->inventory, "after", deal_phases[run->to].name, -1);
    if (redis_value_integer(value, 0) < 0) {
        give_way(run);
    } else if (redis_value_type(value) == REDIS_INTEGER) {
        run->deal->phase = (int)run->to;
        go_on(run);
    } else if (++run->overtaken < OVERTAKEN_MOST) {
        deal_resume(run, value);
    } else {
        deal_finish(run, INVENTORY_UNKNOWN);
    }
}

/* When others may look after it: after an intent, once the locks of whoever makes it are over. */
static int64_t due_ms(const struct deal_run *run, enum deal_phase to) {
    const struct inventory_deal *deal = run->deal;
    int64_t now_ms = clock_wall_ms(run->inventory->config.clock);
    if (to == DEAL_HELD)
        return deal->expires_ms + INVENTORY_HOLD_GRACE_MS;
    if (deal_phases[to].at_rest)
        return 0;
    if (to == DEAL_INTENT)
        return now_ms + deal->lease_ms;
    return run->failure == INVENTORY_STALE ? now_ms : now_ms + FINISH_MS;
}

static void move(struct deal_run *run, enum deal_phase to) {
    run->to = to;
    run->begun = true;
    deal_at_step(run->inventory, "before", deal_phases[to].name, -1);
    if (!journal_move(run->inventory, run->deal, to, due_ms(run, to), on_moved, run))
        deal_lost(run);
}

/* ---- the steps ---- */

static void on_taken(struct deal_run *run) {
    if (run->status != INVENTORY_OK) {
        run->failure = run->status;
        move(run, DEAL_UNDOING);
    } else {
        move(run, run->deal->expires_ms ? DEAL_HELD : DEAL_CONFIRMING);
    }
}

void deal_begin_attempt(struct deal_run *run) {
    unsigned char random[16];
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(run->deal->nonce, sizeof run->deal->nonce, random, sizeof random,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    run->mine = true;
    run->taking_ns = 0;
}

/* After a look: true where the deal is new and can be made; otherwise the run has gone on, or ended. The
 * journal was read after the items: a deal that is not in it was not there when they were looked at. */
static bool can_make(struct deal_run *run) {
    enum inventory_status status = run->found != INVENTORY_OK ? run->found : run->status;
    bool is_new = run->found != INVENTORY_OK || run->deal->phase == DEAL_NONE;
    if (!is_new)
        go_on(run);
    else if (status != INVENTORY_OK)
        deal_finish(run, status);
    return is_new && status == INVENTORY_OK;
}

static void on_looked(struct deal_run *run) {
    struct inventory_deal *deal = run->deal;
    if (!can_make(run))
        return;
    deal_begin_attempt(run);
    deal->created_ms = run->now_ms;
    deal->expires_ms = run->hold_ms ? run->now_ms + run->hold_ms : 0;
    move(run, DEAL_INTENT);
}

static void on_settled(void *ctx, const struct redis_value *value) {
    struct inventory *inventory = ctx;
    store_status(inventory, value);
    deal_at_step(inventory, "after", "settle", -1);
}

/* All is written: to tell the journal is not waited for, locked or not. Should it never hear, others find
 * nothing to do when they finish it. */
static void settle(struct deal_run *run, enum deal_phase to) {
    struct inventory *inventory = run->inventory;
    deal_at_step(inventory, "before", "settle", -1);
    journal_move(inventory, run->deal, to, 0, on_settled, inventory);
    run->deal->phase = (int)to;
    deal_conclude(run);
}

/* Its units are back, if it had any: how long they were gone. */
static void note_undone(struct deal_run *run) {
    const struct clock *clock = run->inventory->config.clock;
    struct inventory_deal *deal = run->deal;
    if (!run->gave_back || deal->undone_ns != 0)
        return;
    deal->undone_ns = run->taking_ns ? clock_mono_ns(clock) - run->taking_ns
                                     : (clock_wall_ms(clock) - deal->created_ms) * 1000000;
    if (deal->undone_ns < 1)
        deal->undone_ns = 1; /* the clock of whoever began it was ahead */
}

static void on_written(struct deal_run *run) {
    enum deal_phase next = deal_phases[run->deal->phase].next;
    if (run->status == INVENTORY_OK && run->deal->phase == DEAL_UNDOING)
        note_undone(run);
    if (run->status == INVENTORY_STALE)
        give_way(run);
    else if (run->status != INVENTORY_OK)
        deal_finish(run, INVENTORY_UNKNOWN); /* an item is gone */
    else if (deal_phases[next].at_rest && next != DEAL_NONE)
        settle(run, next);
    else
        move(run, next);
}

/* Whether the hold was over when the request arrived. */
static bool is_due(const struct deal_run *run) {
    const struct inventory_deal *deal = run->deal;
    return clock_wall_at_ms(run->inventory->config.clock, deal->arrived_ns) >= deal->expires_ms;
}

/* What a held basket is to become now. */
static void go_on_held(struct deal_run *run) {
    if (!run->make && is_due(run))
        move(run, DEAL_EXPIRING);
    else if (!run->make && run->step == INVENTORY_CONFIRM)
        move(run, DEAL_CONFIRMING);
    else if (!run->make && run->step == INVENTORY_CANCEL)
        move(run, DEAL_CANCELLING);
    else
        deal_conclude(run);
}

static void by_steps(struct deal_run *run) {
    deal_look(run, on_looked);
}

static void on_compared(void *ctx, const struct redis_value *value) {
    struct deal_run *run = ctx;
    if (store_status(run->inventory, value) != INVENTORY_OK) {
        deal_lost(run);
        return;
    }
    deal_found(run, value);
    if (can_make(run))
        deal_finish(run, INVENTORY_WANTS_LOCK);
}

static void on_checked(struct deal_run *run) {
    if (!journal_ask(run->inventory, run->deal, on_compared, run))
        deal_lost(run);
}

static void by_checking(struct deal_run *run) {
    deal_check_items(run, on_checked);
}

static void take(struct deal_run *run) {
    if (run->taking_ns == 0)
        run->taking_ns = clock_mono_ns(run->inventory->config.clock);
    deal_write(run, WRITE_TAKE, on_taken);
}

static void go_on(struct deal_run *run) {
    enum deal_phase phase = (enum deal_phase)run->deal->phase;
    const struct deal_phase_row *row = &deal_phases[phase];
    if (phase == DEAL_NONE && run->make && run->failure == INVENTORY_OK)
        run->make(run);
    else if (phase == DEAL_INTENT && run->mine)
        take(run);
    else if (phase == DEAL_HELD)
        go_on_held(run);
    else if (row->at_rest)
        deal_conclude(run);
    else if (run->make && run->make != by_steps && row->is == INVENTORY_STATE_UNDONE)
        deal_finish(run, INVENTORY_PENDING);
    else if (!run->make && run->step != INVENTORY_LOOK && row->is == INVENTORY_STATE_UNDONE)
        deal_finish(run, INVENTORY_UNKNOWN_BASKET); /* it may be under way: its buyer does not know it yet */
    else if (row->write == WRITE_NOTHING)
        move(run, row->next);
    else
        deal_write(run, row->write, on_written);
}

/* ---- the calls ---- */

void deal_begin(struct inventory *inventory, struct inventory_deal *deal, void (*make)(struct deal_run *run),
                enum inventory_step step) {
    struct deal_run *run = malloc(sizeof *run + sizeof run->parts[0] * (size_t)deal->count);
    if (!run || inventory->figures->waiting >= (uint64_t)inventory->config.queue_max) {
        free(run);
        deal->done(deal, INVENTORY_OVERLOADED);
        return;
    }
    *run = (struct deal_run){.inventory = inventory, .deal = deal, .make = make, .step = step};
    deal->nonce[0] = '\0';
    deal->undone_ns = 0;
    deal_parts_make(run);
    figure_add(&inventory->figures->waiting, 1);
    if (!redis_is_up(inventory->redis))
        deal_finish(run, INVENTORY_UNAVAILABLE);
    else if (make)
        make(run);
    else
        read_journal(run);
}

void inventory_deal_make(struct inventory *inventory, struct inventory_deal *deal) {
    deal_begin(inventory, deal, by_steps, INVENTORY_LOOK);
}

void inventory_deal_check(struct inventory *inventory, struct inventory_deal *deal) {
    deal_begin(inventory, deal, by_checking, INVENTORY_LOOK);
}

void inventory_deal_settle(struct inventory *inventory, struct inventory_deal *deal,
                           enum inventory_step step) {
    deal_begin(inventory, deal, NULL, step);
}

/* ---- looking one up ---- */

struct find {
    struct inventory *inventory;
    struct inventory_deal *deal;
};

static void on_looked_up(void *ctx, const struct redis_value *value) {
    struct find find = *(struct find *)ctx;
    struct inventory_deal *deal = find.deal;
    free(ctx);
    enum inventory_status status = store_status(find.inventory, value);
    if (status == INVENTORY_OK && redis_value_type(value) != REDIS_STRING) {
        status = INVENTORY_UNKNOWN_BASKET;
    } else if (status == INVENTORY_OK && !journal_read(deal, redis_value_text(value))) {
        status = INVENTORY_UNAVAILABLE;
    } else if (status == INVENTORY_OK) {
        deal->state = deal_phases[deal->phase].is;
        if (!deal_phases[deal->phase].at_rest)
            status = INVENTORY_PENDING;
    }
    deal->done(deal, status);
}

void inventory_deal_find(struct inventory *inventory, struct inventory_deal *deal) {
    struct find *find = malloc(sizeof *find);
    if (!find) {
        deal->done(deal, INVENTORY_OVERLOADED);
        return;
    }
    *find = (struct find){.inventory = inventory, .deal = deal};
    if (!journal_ask(inventory, deal, on_looked_up, find)) {
        free(find);
        deal->done(deal, INVENTORY_UNAVAILABLE);
    }
}
