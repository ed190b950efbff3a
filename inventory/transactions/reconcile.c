/* The journal and the items are compared, page by page, and what the items lack is written again.
 *
 * The journal says what each item of a transaction must have: the orders of a basket under digests that
 * follow from its nonce, the half of a transfer under the nonce itself. All of that was written before the
 * journal said so. So an item that lacks it has lost it in a failover, and nothing is compared too early: what
 * goes on meanwhile only adds to the items (an order's version grows).
 *
 * The other way about, the journal of a part may be lost with what made it acknowledged. If the buyer came
 * back, another process has made the basket again, by another nonce. Whoever made the first one finds that the
 * journal has another (`differs`, see putback.lua) and undoes its own. */
#include "inventory/transactions/reconcile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "inventory/model/record.h"
#include "inventory/store/status.h"
#include "inventory/transactions/journal.h"
#include "inventory/transactions/lines.h"
#include "inventory/transactions/transaction.h"

/* Pages that are full follow each other by ticks of 50 ms, so that a large journal costs a running sale a few
 * percent. */
enum { PAGE = 500, CURSOR_SIZE = 24, DISOWN_AT_ONCE = 16 };

struct reconciling {
    struct inventory *inventory;
    bool mend;
    inventory_reconciled_fn *fn;
    void *ctx;
    unsigned part;
    char cursor[CURSOR_SIZE];
    unsigned history;                          /* in which the part is read */
    int pending;                               /* replies to come for this page, and 1 until all are asked for */
    bool waits;                                /* for the next tick */
    bool failed;                               /* a reply is missing */
    struct inventory_reconciled told, at_part; /* so far, and when the part began */
};

/* A transaction whose lines are compared. */
struct comparing {
    struct reconciling *in;
    struct inventory_transaction transaction;
    int pending;
    bool torn;
};

/* One line of it, and what its item must have. */
struct line_compared {
    struct comparing *of;
    int line;
    enum receipt_kind kind;
    char field[INVENTORY_DIGEST_SIZE], record[RECORD_SIZE];
};

static void read_page(struct reconciling *in);

static void end(struct reconciling *in) {
    struct inventory *inventory = in->inventory;
    inventory->reconciling = NULL;
    inventory->torn |= in->failed || !in->mend;
    in->fn(in->ctx, in->failed ? INVENTORY_UNAVAILABLE : INVENTORY_OK, &in->told);
    free(in);
}

static void begin_part(struct reconciling *in, unsigned part) {
    in->part = part;
    in->history = 0;
    in->at_part = in->told;
    stpcpy(in->cursor, "0");
}

static void count_down(struct reconciling *in) {
    if (--in->pending > 0)
        return;
    if (in->failed) {
        end(in);
    } else if (strcmp(in->cursor, "0") != 0) {
        in->waits = true;
    } else if (in->part + 1 < KEY_PARTS) {
        begin_part(in, in->part + 1);
        read_page(in);
    } else {
        end(in);
    }
}

/* ---- a line ---- */

static void end_line(struct line_compared *compared) {
    struct comparing *of = compared->of;
    struct reconciling *in = of->in;
    free(compared);
    if (--of->pending > 0)
        return;
    in->told.torn += of->torn;
    free(of);
    count_down(in);
}

static void on_mended(void *ctx, const enum inventory_loss_outcome *outcome) {
    struct line_compared *compared = ctx;
    struct reconciling *in = compared->of->in;
    const char *item = compared->of->transaction.lines[compared->line].item;
    in->failed |= !outcome;
    if (outcome && *outcome != INVENTORY_LOSS_NONE)
        putback_tell(in->inventory, compared->kind, item, compared->field, *outcome);
    if (outcome && *outcome <= INVENTORY_LOSS_BACK)
        in->told.mended += compared->of->transaction.lines[compared->line].quantity;
    end_line(compared);
}

/* Whether the item has what it must have, or something newer. */
static bool has(const struct line_compared *compared, const char *standing) {
    struct inventory_order now, must;
    if (compared->kind == RECEIPT_MOVE)
        return standing && strncmp(standing, compared->record, strcspn(compared->record, " ")) == 0;
    return standing && record_read(&now, "", "", standing) && record_read(&must, "", "", compared->record) &&
           (now.version > must.version || (now.version == must.version && now.state == must.state));
}

static void on_line(void *ctx, const struct redis_value *value) {
    struct line_compared *compared = ctx;
    struct comparing *of = compared->of;
    struct reconciling *in = of->in;
    if (store_status(in->inventory, value) != INVENTORY_OK) {
        in->failed = true;
        end_line(compared);
        return;
    }
    if (has(compared, redis_value_text(value))) {
        end_line(compared);
        return;
    }
    of->torn = true;
    in->told.lacking += of->transaction.lines[compared->line].quantity;
    if (in->mend)
        putback_show(in->inventory, compared->kind, of->transaction.lines[compared->line].item,
                     compared->field, compared->record, on_mended, compared);
    else
        end_line(compared);
}

/* ---- a transaction ---- */

/* What the journal says was written to the items last; NOTHING: it is not decided, or undone. */
static enum line_write written(const struct inventory_transaction *transaction) {
    switch ((enum phase)transaction->phase) {
    case PHASE_HELD:
    case PHASE_CONFIRMING:
    case PHASE_CANCELLING:
    case PHASE_EXPIRING: return WRITE_DEBIT;
    case PHASE_CONFIRMED: return WRITE_CONFIRM;
    case PHASE_CANCELLED: return WRITE_CANCEL;
    case PHASE_EXPIRED: return WRITE_EXPIRE;
    default: return WRITE_NOTHING;
    }
}

static void compare_line(struct comparing *of, int line, enum line_write write) {
    struct reconciling *in = of->in;
    struct line_compared *compared = malloc(sizeof *compared);
    struct sale_keys keys;
    if (!compared) {
        in->failed = true;
        return;
    }
    *compared = (struct line_compared){.of = of, .line = line};
    sale_keys_make(&keys, of->transaction.lines[line].item);
    if (of->transaction.kind == INVENTORY_TRANSFER) {
        compared->kind = RECEIPT_MOVE;
        stpcpy(compared->field, of->transaction.nonce);
        lines_print_move(compared->record, line == 0 ? WRITE_DEBIT : WRITE_CONFIRM,
                         of->transaction.lines[line].quantity);
    } else {
        compared->kind = RECEIPT_ORDER;
        lines_digest(&of->transaction, line, compared->field);
        lines_print_order(compared->record, &of->transaction, line, write);
    }
    of->pending++;
    store_callf(in->inventory->store, on_line, compared, "HGET %s %s",
                compared->kind == RECEIPT_MOVE ? keys.restocks : keys.orders, compared->field);
}

static void compare(struct reconciling *in, const struct inventory_transaction *transaction) {
    enum line_write write = written(transaction);
    int lines = transaction->count;
    if (transaction->kind == INVENTORY_TRANSFER && write == WRITE_DEBIT)
        lines = 1; /* nothing has arrived yet */
    in->told.transactions++;
    in->told.in_flight += !phases[transaction->phase].at_rest;
    struct comparing *of = write != WRITE_NOTHING ? malloc(sizeof *of) : NULL;
    if (!of) {
        in->failed |= write != WRITE_NOTHING;
        return;
    }
    *of = (struct comparing){.in = in, .transaction = *transaction, .pending = 1};
    in->pending++;
    for (int i = 0; i < lines; i++)
        compare_line(of, i, write);
    if (--of->pending == 0) {
        free(of);
        count_down(in);
    }
}

/* ---- a page of the journal ---- */

static void on_page(void *ctx, const struct redis_value *value) {
    struct reconciling *in = ctx;
    struct journal_keys keys;
    bool good = store_status(in->inventory, value) == INVENTORY_OK && redis_value_count(value) == 2;
    journal_keys_make(&keys, in->part);
    unsigned history = store_history(in->inventory->store, keys.journal);
    if (good && in->history && history != in->history) { /* the cursor means nothing there */
        in->told = in->at_part;
        begin_part(in, in->part);
        in->waits = true;
        in->pending = 0;
        return;
    }
    in->history = history;
    in->failed |= !good;
    if (good) {
        const struct redis_value *page = redis_value_at(value, 1);
        snprintf(in->cursor, sizeof in->cursor, "%s", redis_value_text(redis_value_at(value, 0)));
        for (size_t i = 0; i + 1 < redis_value_count(page); i += 2) {
            struct inventory_transaction transaction;
            if (journal_read_entry(&transaction, redis_value_text(redis_value_at(page, i)),
                                   redis_value_text(redis_value_at(page, i + 1))))
                compare(in, &transaction);
        }
    }
    count_down(in);
}

static void read_page(struct reconciling *in) {
    struct journal_keys keys;
    journal_keys_make(&keys, in->part);
    in->waits = false;
    in->pending = 1;
    store_callf(in->inventory->store, on_page, in, "HSCAN %s %s COUNT %d", keys.journal, in->cursor, PAGE);
}

bool inventory_transactions_are_suspect(const struct inventory *inventory) {
    return inventory->torn && !inventory->reconciling;
}

void inventory_transactions_reconcile(struct inventory *inventory, bool mend, inventory_reconciled_fn *fn,
                                      void *ctx) {
    struct reconciling *in = inventory->reconciling ? NULL : malloc(sizeof *in);
    if (!in) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *in = (struct reconciling){.inventory = inventory, .mend = mend, .fn = fn, .ctx = ctx, .waits = true};
    begin_part(in, 0);
    inventory->reconciling = in;
    if (mend)
        inventory->torn = false; /* what is lost from now on is for the next time */
}

/* ---- what was made again by another process ---- */

struct disowning {
    struct inventory *inventory;
    uint64_t seq; /* of the receipt */
    char nonce[INVENTORY_DIGEST_SIZE];
    struct inventory_transaction transaction;
};

static void on_disowned(struct inventory_transaction *transaction, enum inventory_status status) {
    struct disowning *disowning = CONTAINER_OF(transaction, struct disowning, transaction);
    struct receipts *receipts = &disowning->inventory->putback.receipts;
    char part[12], field[JOURNAL_FIELD_SIZE];
    snprintf(part, sizeof part, "%u", key_part(transaction->id));
    journal_field(field, transaction);
    struct receipt *receipt =
        receipts_find_seq(receipts, RECEIPT_JOURNAL, part, field, disowning->seq);
    if (receipt && status != INVENTORY_OK)
        receipts_mark(receipts, receipt, true); /* again */
    else if (receipt)
        receipts_remove(receipts, receipt);
    free(disowning);
}

static void on_disowned_lines(struct transaction_run *run) {
    transaction_finish(run, run->status);
}

static void on_journal(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    struct inventory_transaction found = *run->transaction;
    enum inventory_status status = store_status(run->inventory, value);
    bool is_others = status == INVENTORY_OK && redis_value_type(value) == REDIS_STRING &&
                     journal_read(&found, redis_value_text(value)) &&
                     strcmp(found.nonce, run->transaction->nonce) != 0;
    if (is_others)
        lines_write(run, WRITE_DISOWN, on_disowned_lines);
    else
        transaction_finish(run, status);
}

static void by_disowning(struct transaction_run *run) {
    const struct disowning *disowning = CONTAINER_OF(run->transaction, struct disowning, transaction);
    stpcpy(run->transaction->nonce, disowning->nonce);
    journal_ask(run->inventory, run->transaction, on_journal, run);
}

static void disown(struct inventory *inventory, struct receipt *receipt) {
    struct disowning *disowning = malloc(sizeof *disowning);
    const char *record = strchr(receipt_record(receipt), ' ');
    if (!disowning || !record ||
        !journal_read_entry(&disowning->transaction, receipt_field(receipt), record + 1)) {
        free(disowning);
        return;
    }
    disowning->inventory = inventory;
    disowning->seq = receipt->seq;
    stpcpy(disowning->nonce, disowning->transaction.nonce);
    disowning->transaction.done = on_disowned;
    receipts_mark(&inventory->putback.receipts, receipt, false);
    transaction_begin(inventory, &disowning->transaction, by_disowning, INVENTORY_READ);
}

/* ---- now and then ---- */

void reconcile_tick(struct inventory *inventory) {
    struct receipts *receipts = &inventory->putback.receipts;
    struct receipt *receipt = TAILQ_FIRST(&receipts->list), *next;
    if (inventory->reconciling && inventory->reconciling->waits)
        read_page(inventory->reconciling);
    for (int n = 0; receipt && receipts->to_index > 0 && n < DISOWN_AT_ONCE; receipt = next) {
        next = TAILQ_NEXT(receipt, next);
        if (!receipt->to_index || receipt->kind != RECEIPT_JOURNAL)
            continue;
        disown(inventory, receipt);
        n++;
    }
}

void reconcile_close(struct inventory *inventory) {
    if (!inventory->reconciling)
        return;
    inventory->reconciling->failed = true;
    end(inventory->reconciling);
}
