/* Reconciles the items with the journal: compares both, page by page, and writes again what items lack.
 *
 * The journal says what each item of a transaction must have: the orders of a basket under digests that
 * follow from its nonce, the half of a transfer under the nonce itself. All of that was written before the
 * journal said so. So an item that lacks it has lost it in a failover, and nothing is compared too early. Or
 * another process has undone it: the decision was lost, that process took the transaction for undecided, and
 * then its maker put the decision back. */
#include "inventory/transactions/transactions_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "inventory/purchases/putback.h"

/* A server that is gone, and has no successor, must not be asked all the time. */
enum { AGAIN_MS = 3000 };

struct reconciling {
    struct transactions *transactions;
    bool mend;
    inventory_reconciled_fn *fn;
    void *ctx;
    unsigned part;
    struct scan scan;                          /* of the part's journal */
    int pending;                               /* transactions of this page, and 1 until all were begun */
    bool is_read;                              /* the part was read, as far as it can be */
    bool failed;                               /* something could not be asked */
    bool lost;                                 /* the reply to a write was lost; then `failed`, too */
    struct inventory_reconciled told, at_part; /* so far, and when the part began */
};

/* A transaction whose lines are compared. */
struct comparing {
    struct reconciling *in;
    struct inventory_transaction transaction;
    int pending; /* lines whose comparison has not ended, and 1 until all were begun */
    bool torn;
    enum inventory_step step; /* a step that a line of a held basket has taken; READ: none */
};

/* One line of the transaction, and the record that its item must have. */
struct line_compared {
    struct comparing *of;
    const struct inventory_line *line;
    enum receipt_kind kind;
    char name[INVENTORY_DIGEST_SIZE], field[FIELD_SIZE], record[RECORD_SIZE];
};

static void reconcile_begin_part(struct reconciling *in, unsigned part);

static void reconcile_end(struct reconciling *in) {
    struct transactions *transactions = in->transactions;
    transactions->reconciling = NULL;
    transactions->shared->torn |= in->mend ? in->failed : in->told.torn > 0;
    if (in->mend) {
        transactions->reconcile_again_ms = in->failed ? shared_now_ms(transactions->shared) + AGAIN_MS : 0;
        transactions->untold = in->lost || (in->failed && transactions->untold);
    }
    in->fn(in->ctx, in->failed ? INVENTORY_UNAVAILABLE : INVENTORY_OK, &in->told);
    free(in);
}

/* The page was compared. With `mend`, what could not be asked is left for the next time, and all else is
 * mended now. A count needs all or nothing. */
static void reconcile_count_down(struct reconciling *in) {
    if (--in->pending > 0)
        return;
    if (in->failed && !in->mend)
        reconcile_end(in);
    else if (!in->is_read && scan_go_on(&in->scan))
        return;
    else if (in->part + 1 < KEY_PARTS)
        reconcile_begin_part(in, in->part + 1);
    else
        reconcile_end(in);
}

/* ---- a line ---- */

/* A basket whose last step the journal has lost. */
struct settling {
    struct transactions *transactions;
    struct inventory_transaction transaction;
};

static void reconcile_on_settled(struct inventory_transaction *transaction, enum inventory_status status) {
    struct settling *settling = CONTAINER_OF(transaction, struct settling, transaction);
    settling->transactions->shared->torn |=
        status == INVENTORY_UNAVAILABLE || status == INVENTORY_UNKNOWN || status == INVENTORY_OVERLOADED;
    free(settling);
}

/* Settles the basket by the step, which stands. The step was asked for in time, so arrived_ns is as early as
 * can be. */
static void reconcile_settle(struct transactions *transactions,
                             const struct inventory_transaction *transaction, enum inventory_step step) {
    struct settling *settling = malloc(sizeof *settling);
    if (!settling) {
        transactions->shared->torn = true;
        return;
    }
    *settling = (struct settling){.transactions = transactions, .transaction = *transaction};
    settling->transaction.done = reconcile_on_settled;
    settling->transaction.arrived_ns = 1;
    inventory_transaction_settle(transactions->inventory, &settling->transaction, step);
}

static void reconcile_end_transaction(struct comparing *of) {
    struct reconciling *in = of->in;
    if (--of->pending > 0)
        return;
    in->told.torn += of->torn;
    if (in->mend && of->step != INVENTORY_READ)
        reconcile_settle(in->transactions, &of->transaction, of->step);
    free(of);
    reconcile_count_down(in);
}

static void reconcile_end_line(struct line_compared *compared) {
    struct comparing *of = compared->of;
    free(compared);
    reconcile_end_transaction(of);
}

/* A shortage is reported once, by the process that noted it. It is reported again if a reply was lost, since
 * that call may have noted it. */
static void reconcile_on_mended(void *ctx, const enum inventory_loss_outcome *outcome) {
    struct line_compared *compared = ctx;
    struct reconciling *in = compared->of->in;
    enum inventory_loss_outcome became = outcome ? *outcome : INVENTORY_LOSS_NOTED;
    if (!outcome)
        in->failed = in->lost = true;
    else if (became == INVENTORY_LOSS_NOTED && in->transactions->untold)
        became = INVENTORY_LOSS_SHORT;
    if (became != INVENTORY_LOSS_NONE && became != INVENTORY_LOSS_NOTED)
        putback_tell(in->transactions->purchases, compared->kind, compared->line->item, compared->name,
                     became);
    if (became <= INVENTORY_LOSS_BACK)
        in->told.mended += compared->line->quantity;
    reconcile_end_line(compared);
}

/* Whether the basket is ending, or its hold is over. */
static bool reconcile_needs_no_units(const struct comparing *of) {
    const struct inventory_transaction *transaction = &of->transaction;
    enum phase phase = (enum phase)transaction->phase;
    int64_t now_ms = clock_wall_ms(of->in->transactions->shared->config.clock);
    return phase == PHASE_CANCELLING || phase == PHASE_EXPIRING ||
           (phase == PHASE_HELD && now_ms >= transaction->expires_ms + INVENTORY_HOLD_GRACE_MS);
}

/* Whether the item has what it must have. A basket that was held when the journal was read may have been
 * settled since. */
static bool reconcile_has(const struct line_compared *compared, const char *standing,
                          const struct inventory_order *now) {
    struct inventory_order must;
    if (compared->kind == RECEIPT_MOVE)
        return standing && strcmp(standing, compared->record) == 0;
    if (!record_read(&must, "", "", compared->record))
        return false;
    bool held = must.state == INVENTORY_STATE_HELD;
    return (held && reconcile_needs_no_units(compared->of)) ||
           (now && (now->state == must.state || (held && now->state != INVENTORY_STATE_ABORTED)));
}

/* The decision was lost, and the order ended by another, weaker one: see transaction.c. Now the journal has
 * the decision again. Its steps do not end an order that has ended, so the order must become as the decision
 * leaves it. */
static void reconcile_overrule(struct line_compared *compared, const struct inventory_order *now) {
    const struct inventory_transaction *transaction = &compared->of->transaction;
    bool confirming = transaction->phase == PHASE_CONFIRMING,
         cancelling = transaction->phase == PHASE_CANCELLING;
    if (compared->kind == RECEIPT_ORDER &&
        (((confirming || cancelling) && now->state == INVENTORY_STATE_EXPIRED) ||
         (confirming && now->state == INVENTORY_STATE_CANCELLED)))
        lines_print_order(compared->record, transaction, (int)(compared->line - transaction->lines),
                          confirming ? WRITE_CONFIRM : WRITE_CANCEL);
}

/* The journal has lost the last step of a held basket, but an item has it. The step stands; a confirm goes
 * before a cancel. */
static void reconcile_note_step(struct comparing *of, const struct inventory_order *now) {
    if (of->transaction.phase != PHASE_HELD)
        return;
    if (now->state == INVENTORY_STATE_CONFIRMED)
        of->step = INVENTORY_CONFIRM;
    else if (now->state == INVENTORY_STATE_CANCELLED && of->step == INVENTORY_READ)
        of->step = INVENTORY_CANCEL;
}

static void reconcile_on_line(void *ctx, const struct redis_value *value) {
    struct line_compared *compared = ctx;
    struct reconciling *in = compared->of->in;
    bool good = store_status(in->transactions->shared, value) == INVENTORY_OK;
    const char *standing = good ? redis_value_text(value) : NULL;
    struct inventory_order now;
    bool is_order = standing && record_read(&now, "", "", standing);
    in->failed |= !good;
    if (is_order) {
        reconcile_overrule(compared, &now);
        reconcile_note_step(compared->of, &now);
    }
    if (!good || reconcile_has(compared, standing, is_order ? &now : NULL)) {
        reconcile_end_line(compared);
        return;
    }
    compared->of->torn = true;
    in->told.lacking += compared->line->quantity;
    if (in->mend)
        putback_decide(in->transactions->purchases, compared->kind, compared->line->item, compared->name,
                       compared->record, reconcile_on_mended, compared);
    else
        reconcile_end_line(compared);
}

/* ---- a transaction ---- */

static void reconcile_compare_line(struct comparing *of, int i, enum line_write write) {
    const struct inventory_transaction *transaction = &of->transaction;
    struct line_compared *compared = malloc(sizeof *compared);
    struct sale_keys keys;
    if (!compared) {
        of->in->failed = true;
        return;
    }
    *compared = (struct line_compared){.of = of, .line = &transaction->lines[i], .kind = RECEIPT_ORDER};
    sale_keys_make(&keys, compared->line->item);
    if (transaction->kind == INVENTORY_TRANSFER) {
        compared->kind = RECEIPT_MOVE;
        stpcpy(compared->name, transaction->nonce);
        move_field_make(compared->field, transaction->nonce);
        lines_print_move(compared->record, transaction, i, i == 0 ? WRITE_DEBIT : WRITE_CONFIRM);
    } else {
        lines_digest(transaction, i, compared->name);
        stpcpy(compared->field, compared->name);
        lines_print_order(compared->record, transaction, i, write);
    }
    of->pending++;
    router_call(of->in->transactions->shared->store, reconcile_on_line, compared, 3,
                (const char *[]){"HGET", keys.item, compared->field});
}

static void reconcile_compare(struct reconciling *in, const struct inventory_transaction *transaction) {
    enum line_write write = phases[transaction->phase].written;
    bool has_arrived = transaction->kind == INVENTORY_BASKET || write == WRITE_CONFIRM;
    struct comparing *of = write != WRITE_NOTHING ? malloc(sizeof *of) : NULL;
    in->told.transactions++;
    in->told.in_flight += !phases[transaction->phase].at_rest;
    if (!of) {
        in->failed |= write != WRITE_NOTHING;
        return;
    }
    *of = (struct comparing){.in = in, .transaction = *transaction, .pending = 1};
    in->pending++;
    for (int i = 0; i < (has_arrived ? transaction->count : 1); i++)
        reconcile_compare_line(of, i, write);
    if (--of->pending == 0) { /* out of memory; the page is not over yet */
        free(of);
        in->pending--;
    }
}

/* ---- the journal ---- */

static void reconcile_on_page(void *ctx, const struct redis_value *page, bool again) {
    struct reconciling *in = ctx;
    in->is_read = !page;
    in->failed |= !page;
    in->pending = 1;
    if (again)
        in->told = in->at_part;
    for (size_t i = 0; page && !again && i + 1 < redis_value_count(page); i += 2) {
        struct inventory_transaction transaction;
        if (journal_read_entry(&transaction, redis_value_text(redis_value_at(page, i)),
                               redis_value_text(redis_value_at(page, i + 1))))
            reconcile_compare(in, &transaction);
    }
    reconcile_count_down(in);
}

static void reconcile_begin_part(struct reconciling *in, unsigned part) {
    struct transactions *transactions = in->transactions;
    struct journal_keys keys;
    journal_keys_make(&keys, part);
    in->part = part;
    in->at_part = in->told;
    scan_begin(&in->scan, transactions->shared, keys.journal, reconcile_on_page, in);
}

void reconcile_tick(struct transactions *transactions) {
    if (transactions->reconciling)
        scan_tick(&transactions->reconciling->scan);
}

void reconcile_close(struct transactions *transactions) {
    if (!transactions->reconciling)
        return;
    transactions->reconciling->failed = true;
    reconcile_end(transactions->reconciling);
}

bool inventory_transactions_are_suspect(const struct inventory *inventory) {
    const struct transactions *transactions = inventory->transactions;
    return transactions->shared->torn && !transactions->reconciling &&
           shared_now_ms(transactions->shared) >= transactions->reconcile_again_ms;
}

void inventory_transactions_suspect(struct inventory *inventory) {
    inventory->shared.torn = true;
}

void inventory_transactions_reconcile(struct inventory *inventory, bool mend, inventory_reconciled_fn *fn,
                                      void *ctx) {
    struct transactions *transactions = inventory->transactions;
    struct reconciling *in = transactions->reconciling ? NULL : malloc(sizeof *in);
    if (!in) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *in = (struct reconciling){.transactions = transactions, .mend = mend, .fn = fn, .ctx = ctx};
    transactions->reconciling = in;
    if (mend)
        transactions->shared->torn = false; /* what is lost from now on is left to the next comparison */
    reconcile_begin_part(in, 0);
}
