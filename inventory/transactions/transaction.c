/* Transactions: baskets and transfers, phase by phase.
 *
 *     check     read all items, then the journal
 *     make      read all items; intent; debit each; decide; write the decision to each; settle
 *     settle    go on from what the journal says
 *
 * The journal is the only memory. Whatever goes wrong (a lost reply, a dead process, another process that was
 * faster), a run begins again from what the journal says, and goes on by the table of phases in journal.c.
 * Recovery does the same. This is two-phase commit (J. Gray, "Notes on Data Base Operating Systems", 1978,
 * section 5.8) with a record as its coordinator. Any process can go on with a record, so no item waits for a
 * process.
 *
 * What makes it safe: one move of the journal leaves `intent`, either to `aborting` or to the decision, so
 * two runs of one transaction cannot decide differently. Every write to an item is done once, by the
 * transaction's nonce, and a late debit finds that it was aborted.
 *
 * So a transaction is settled or finished without a lock. Only the caller that makes a transaction holds
 * locks, so that two baskets do not abort each other. Its writes are refused if their fencing token is older
 * than one that the item has seen, so a holder that was paused past the end of its locks debits nothing. */
#include "inventory/transactions/transactions_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OVERTAKEN_MOST = 8,
    FINISH_MS = 1000, /* after this time others finish what was decided and is not written yet */
};

static void transaction_read_journal(struct transaction_run *run);
static void transaction_go_on(struct transaction_run *run);

/* ---- the end ---- */

void transaction_finish(struct transaction_run *run, enum inventory_status status) {
    struct inventory_transaction *transaction = run->transaction;
    metric_add(&run->shared->metrics->waiting, (uint64_t)-1);
    free(run);
    transaction->done(transaction, status);
}

/* The transaction is at rest: the answer to the caller. */
void transaction_conclude(struct transaction_run *run) {
    struct inventory_transaction *transaction = run->transaction;
    enum inventory_status status;
    transaction->state = phases[transaction->phase].is;
    if (transaction->phase == PHASE_NONE) {
        if (run->mine)
            journal_keep(run->transactions, transaction, PHASE_NONE, 0); /* the intent was removed */
        status = run->failure != INVENTORY_OK ? run->failure : INVENTORY_UNKNOWN_BASKET;
    } else if (run->make) {
        status = run->mine ? INVENTORY_OK : INVENTORY_REPLAYED;
    } else {
        status = step_answers[run->step][transaction->state];
    }
    transaction_finish(run, status);
}

/* ---- replies that were lost ---- */

void transaction_lost(struct transaction_run *run) {
    struct transactions *transactions = run->transactions;
    if (run->deadline_ms == 0)
        run->deadline_ms = shared_now_ms(transactions->shared) + transactions->shared->config.resolve_ms;
    run->next = transactions->lost_transactions;
    transactions->lost_transactions = run;
}

void transaction_tick(struct transactions *transactions, bool all) {
    int64_t now_ms = shared_now_ms(transactions->shared);
    bool up = !all && router_is_up(transactions->shared->store, NULL);
    struct transaction_run *list = transactions->lost_transactions;
    transactions->lost_transactions = NULL;
    while (list) {
        struct transaction_run *run = list;
        list = run->next;
        if (up && now_ms < run->deadline_ms)
            transaction_read_journal(run);
        else if (all || now_ms >= run->deadline_ms)
            transaction_finish(run, run->begun ? INVENTORY_UNKNOWN : INVENTORY_UNAVAILABLE);
        else
            transaction_lost(run);
    }
}

/* ---- the journal ---- */

/* Adopts the record if it is the same request; otherwise returns the status to finish with. */
static enum inventory_status transaction_adopt(struct transaction_run *run, const char *record) {
    struct inventory_transaction *transaction = run->transaction, found = *transaction;
    if (!journal_read(&found, record)) {
        snprintf(run->shared->error, sizeof run->shared->error,
                 "a record in the journal of baskets cannot be read");
        return INVENTORY_UNAVAILABLE;
    }
    if (!journal_is_same(&found, transaction))
        return run->make ? INVENTORY_KEY_REUSED : INVENTORY_UNAVAILABLE;
    if (run->mine && strcmp(found.nonce, transaction->nonce) != 0) {
        run->mine = false; /* the journal has another attempt */
        run->debit_ns = 0;
    }
    memcpy(transaction->nonce, found.nonce, sizeof transaction->nonce);
    transaction->phase = found.phase;
    transaction->created_ms = found.created_ms;
    transaction->expires_ms = found.expires_ms;
    journal_keep_found(run->transactions, transaction);
    return INVENTORY_OK;
}

static void transaction_note_journal(struct transaction_run *run, const struct redis_value *value) {
    run->found = INVENTORY_OK;
    if (redis_value_type(value) == REDIS_STRING)
        run->found = transaction_adopt(run, redis_value_text(value));
    else
        run->transaction->phase = PHASE_NONE;
}

void transaction_resume(struct transaction_run *run, const struct redis_value *value) {
    transaction_note_journal(run, value);
    if (run->found == INVENTORY_OK)
        transaction_go_on(run);
    else
        transaction_finish(run, run->found);
}

/* False: the reply was lost, and the run begins again later. */
static bool transaction_has_reply(struct transaction_run *run, const struct redis_value *value) {
    bool good = store_status(run->shared, value) == INVENTORY_OK;
    if (!good)
        transaction_lost(run);
    return good;
}

static void transaction_on_journal(void *ctx, const struct redis_value *value) {
    if (transaction_has_reply(ctx, value))
        transaction_resume(ctx, value);
}

static void transaction_read_journal(struct transaction_run *run) {
    journal_ask(run->transactions, run->transaction, transaction_on_journal, run);
}

static void transaction_on_yielded(void *ctx, const struct redis_value *value) {
    store_status(ctx, value);
}

/* A newer holder of a lock, or a newer lock, was seen. Others do the rest, and may begin at once. Until then
 * the debited units are gone, so that no refusal is final. */
static void transaction_yield(struct transaction_run *run) {
    struct transactions *transactions = run->transactions;
    const struct phase_row *row = &phases[run->transaction->phase];
    if (!row->at_rest)
        journal_move(transactions, run->transaction, (enum phase)run->transaction->phase,
                     clock_wall_ms(transactions->shared->config.clock), transaction_on_yielded,
                     transactions->shared);
    transaction_finish(run, row->is == INVENTORY_STATE_ABORTED ? INVENTORY_STALE : INVENTORY_UNKNOWN);
}

/* The time from which others may finish the transaction. After an intent: when its maker's leases are over.
 */
static int64_t transaction_due_ms(const struct transaction_run *run, enum phase to) {
    const struct inventory_transaction *transaction = run->transaction;
    int64_t now_ms = clock_wall_ms(run->shared->config.clock);
    if (to == PHASE_HELD)
        return transaction->expires_ms + INVENTORY_HOLD_GRACE_MS;
    if (phases[to].at_rest)
        return 0;
    if (to == PHASE_INTENT)
        return now_ms + transaction->lease_ms;
    return run->failure == INVENTORY_STALE ? now_ms : now_ms + FINISH_MS;
}

static void transaction_on_moved(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    if (!transaction_has_reply(run, value))
        return;
    failpoint(run->shared, "after", phases[run->to].name, -1);
    if (redis_value_integer(value, 0) < 0) {
        transaction_yield(run);
    } else if (redis_value_type(value) == REDIS_INTEGER) {
        run->transaction->phase = (int)run->to;
        journal_keep(run->transactions, run->transaction, run->to, transaction_due_ms(run, run->to));
        transaction_go_on(run);
    } else if (++run->overtaken < OVERTAKEN_MOST) {
        /* This run aborts what may have been decided after all: see putback.lua. */
        run->shared->torn |= run->transaction->phase == PHASE_ABORTING;
        transaction_resume(run, value);
    } else {
        transaction_finish(run, INVENTORY_UNKNOWN);
    }
}

static void transaction_move(struct transaction_run *run, enum phase to) {
    run->to = to;
    run->begun = true;
    failpoint(run->shared, "before", phases[to].name, -1);
    journal_move(run->transactions, run->transaction, to, transaction_due_ms(run, to), transaction_on_moved,
                 run);
}

/* ---- the steps ---- */

/* A reply was lost in lines.c: the run begins again from the journal. */
static bool transaction_is_lost(struct transaction_run *run) {
    if (run->status != INVENTORY_UNKNOWN)
        return false;
    transaction_lost(run);
    return true;
}

static void transaction_on_debited(struct transaction_run *run) {
    if (transaction_is_lost(run))
        return;
    if (run->status != INVENTORY_OK) {
        run->failure = run->status;
        transaction_move(run, PHASE_ABORTING);
    } else {
        transaction_move(run, run->transaction->expires_ms ? PHASE_HELD : PHASE_CONFIRMING);
    }
}

void transaction_begin_attempt(struct transaction_run *run) {
    digest_draw(run->transaction->nonce);
    run->mine = true;
    run->debit_ns = 0;
}

/* After a read. True: the transaction is new and can be made; otherwise the run has gone on, or ended. The
 * journal was read after the items: if it does not have the transaction, it did not have it when the items
 * were read. */
static bool transaction_can_make(struct transaction_run *run) {
    enum inventory_status status = run->found != INVENTORY_OK ? run->found : run->status;
    bool is_new = run->found != INVENTORY_OK || run->transaction->phase == PHASE_NONE;
    if (!is_new)
        transaction_go_on(run);
    else if (status != INVENTORY_OK)
        transaction_finish(run, status);
    return is_new && status == INVENTORY_OK;
}

static void transaction_on_items(struct transaction_run *run) {
    struct inventory_transaction *transaction = run->transaction;
    if (transaction_is_lost(run) || !transaction_can_make(run))
        return;
    transaction_begin_attempt(run);
    transaction->created_ms = run->now_ms;
    transaction->expires_ms = run->hold_ms ? run->now_ms + run->hold_ms : 0;
    transaction_move(run, PHASE_INTENT);
}

static void transaction_on_settled(void *ctx, const struct redis_value *value) {
    struct transactions *transactions = ctx;
    store_status(transactions->shared, value);
    failpoint(transactions->shared, "after", "settle", -1);
}

/* All is written: ends the run without waiting for the journal's reply. If the move is lost, others finish
 * the transaction again and find nothing to do. */
static void transaction_finish_phase(struct transaction_run *run, enum phase to) {
    struct transactions *transactions = run->transactions;
    failpoint(transactions->shared, "before", "settle", -1);
    journal_move(transactions, run->transaction, to, 0, transaction_on_settled, transactions);
    run->transaction->phase = (int)to;
    transaction_conclude(run);
}

/* The transaction's units are back: notes how long they were gone. */
static void transaction_note_aborted(struct transaction_run *run) {
    const struct clock *clock = run->shared->config.clock;
    struct inventory_transaction *transaction = run->transaction;
    if (!run->refunded || transaction->aborted_ns != 0)
        return;
    transaction->aborted_ns = run->debit_ns ? clock_mono_ns(clock) - run->debit_ns
                                            : (clock_wall_ms(clock) - transaction->created_ms) * 1000000;
    if (transaction->aborted_ns < 1)
        transaction->aborted_ns = 1; /* its maker's clock was ahead */
}

/* A failover lost decided units, and they were sold again. The decision stands, and is carried out when there
 * are units. A retry gets the first answer; a confirm gets UNKNOWN until it is carried out. */
static void transaction_answer_lacking(struct transaction_run *run) {
    if (run->make && !run->mine)
        transaction_conclude(run);
    else
        transaction_finish(run, INVENTORY_UNKNOWN);
}

/* Orders have ended by another decision, which the journal lost in a failover. Of two decisions the stronger
 * one stands: confirm, then cancel, then expire, then abort, of which nobody is told. reconcile.c corrects
 * what was written for the other one. */
static void transaction_go_on_as_decided(struct transaction_run *run) {
    enum phase phase = (enum phase)run->transaction->phase;
    run->shared->torn = true;
    if (phase == PHASE_ABORTING || run->decided < phase)
        transaction_move(run, run->decided);
    else
        transaction_finish(run, INVENTORY_UNKNOWN);
}

static void transaction_on_written(struct transaction_run *run) {
    enum phase next = phases[run->transaction->phase].next;
    if (transaction_is_lost(run))
        return;
    if (run->decided != PHASE_NONE) {
        transaction_go_on_as_decided(run);
        return;
    }
    if (run->status == INVENTORY_OK && run->transaction->phase == PHASE_ABORTING)
        transaction_note_aborted(run);
    if (run->status == INVENTORY_STALE)
        transaction_yield(run);
    else if (run->lacks)
        transaction_answer_lacking(run);
    else if (run->status != INVENTORY_OK)
        transaction_finish(run, INVENTORY_UNKNOWN); /* an item is gone */
    else if (phases[next].at_rest && next != PHASE_NONE)
        transaction_finish_phase(run, next);
    else
        transaction_move(run, next);
}

/* The next phase of a held basket, whose hold may have been over when the request arrived. */
static void transaction_go_on_held(struct transaction_run *run) {
    static const enum phase by_step[] = {[INVENTORY_READ] = PHASE_HELD,
                                         [INVENTORY_CONFIRM] = PHASE_CONFIRMING,
                                         [INVENTORY_CANCEL] = PHASE_CANCELLING};
    bool over = clock_wall_at_ms(run->shared->config.clock, run->transaction->arrived_ns) >=
                run->transaction->expires_ms;
    enum phase to = over ? PHASE_EXPIRING : by_step[run->step];
    if (run->make || to == PHASE_HELD)
        transaction_conclude(run);
    else
        transaction_move(run, to);
}

static void transaction_on_journal_too(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    bool good = store_status(run->shared, value) == INVENTORY_OK;
    if (good)
        transaction_note_journal(run, value);
    lines_count_down(run, good);
}

static void transaction_on_journal_after(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    if (!transaction_has_reply(run, value))
        return;
    transaction_note_journal(run, value);
    transaction_on_items(run);
}

static void transaction_on_items_first(struct transaction_run *run) {
    if (!transaction_is_lost(run))
        journal_ask(run->transactions, run->transaction, transaction_on_journal_after, run);
}

/* Makes the transaction in steps. Reads the items, and the journal after them; on one server both at once.
 * The debit takes only units that are there then, so this read need not refuse older fencing tokens. */
static void transaction_by_steps(struct transaction_run *run) {
    bool at_once = router_is_one(run->shared->store);
    lines_read(run, false, at_once ? transaction_on_items : transaction_on_items_first);
    if (at_once) {
        run->pending++;
        journal_ask(run->transactions, run->transaction, transaction_on_journal_too, run);
    }
    lines_count_down(run, true);
}

static void transaction_on_compared(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    if (!transaction_has_reply(run, value))
        return;
    transaction_note_journal(run, value);
    if (transaction_can_make(run))
        transaction_finish(run, INVENTORY_WANTS_LOCK);
}

static void transaction_on_checked(struct transaction_run *run) {
    if (!transaction_is_lost(run))
        journal_ask(run->transactions, run->transaction, transaction_on_compared, run);
}

static void transaction_by_checking(struct transaction_run *run) {
    lines_check(run, transaction_on_checked);
}

static void transaction_go_on(struct transaction_run *run) {
    enum phase phase = (enum phase)run->transaction->phase;
    const struct phase_row *row = &phases[phase];
    bool undecided = row->is == INVENTORY_STATE_ABORTED;
    if (phase == PHASE_NONE && run->make && run->failure == INVENTORY_OK) {
        run->make(run);
    } else if (phase == PHASE_INTENT && run->mine) {
        if (run->debit_ns == 0)
            run->debit_ns = clock_mono_ns(run->shared->config.clock);
        lines_write(run, WRITE_DEBIT, transaction_on_debited);
    } else if (phase == PHASE_HELD) {
        transaction_go_on_held(run);
    } else if (row->at_rest) {
        transaction_conclude(run);
    } else if (run->make && run->make != transaction_by_steps && undecided) {
        transaction_finish(run, INVENTORY_PENDING);
    } else if (!run->make && run->step != INVENTORY_READ && undecided) {
        transaction_finish(run,
                           INVENTORY_UNKNOWN_BASKET); /* in flight, perhaps: its buyer does not know it */
    } else if (row->write == WRITE_NOTHING) {
        transaction_move(run, row->next);
    } else {
        lines_write(run, row->write, transaction_on_written);
    }
}

/* ---- the calls ---- */

void transaction_begin(struct transactions *transactions, struct inventory_transaction *transaction,
                       transaction_run_fn *make, enum inventory_step step) {
    struct transaction_run *run = malloc(sizeof *run + sizeof run->parts[0] * (size_t)transaction->count);
    if (!run || transactions->shared->metrics->waiting >= (uint64_t)transactions->shared->config.queue_max) {
        free(run);
        transaction->done(transaction, INVENTORY_OVERLOADED);
        return;
    }
    *run = (struct transaction_run){.transactions = transactions,
                                    .shared = transactions->shared,
                                    .transaction = transaction,
                                    .make = make,
                                    .step = step};
    transaction->nonce[0] = '\0';
    transaction->aborted_ns = 0;
    lines_make_parts(run);
    metric_add(&transactions->shared->metrics->waiting, 1);
    if (!router_is_up(transactions->shared->store, NULL))
        transaction_finish(run, INVENTORY_UNAVAILABLE);
    else if (make)
        make(run);
    else
        transaction_read_journal(run);
}

void inventory_transaction_make(struct inventory *inventory, struct inventory_transaction *transaction) {
    transaction_begin(inventory->transactions, transaction, transaction_by_steps, INVENTORY_READ);
}

void inventory_transaction_check(struct inventory *inventory, struct inventory_transaction *transaction) {
    transaction_begin(inventory->transactions, transaction, transaction_by_checking, INVENTORY_READ);
}

void inventory_transaction_settle(struct inventory *inventory, struct inventory_transaction *transaction,
                                  enum inventory_step step) {
    transaction_begin(inventory->transactions, transaction, NULL, step);
}
