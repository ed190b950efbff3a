/* Disowns one of two attempts at a transaction. The journal's record of the first attempt was lost in a
 * failover, and its buyer came back to another process, which made the transaction again by another nonce.
 * What the first attempt wrote to the items may stand, or be put back. Its maker finds that the journal has
 * another attempt (`differs`, see putback.lua), and undoes its own here. If the other attempt is not decided
 * yet, it waits for that; if the other one is aborted, its own stands again.
 *
 * A transfer's units are taken back where they arrived, and only then given to the sender, so that no unit is
 * created. If they are sold by now, both attempts stand. That is reported, and not tried again. */
#include "inventory/transactions/transactions_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "inventory/purchases/putback.h"

enum { DISOWN_AT_ONCE = 16 };

struct disowning {
    struct transactions *transactions;
    uint64_t seq; /* of the receipt */
    char nonce[INVENTORY_DIGEST_SIZE];
    struct inventory_transaction transaction;
};

/* The receipt of the attempt; NULL: it is gone. */
static struct receipt *disown_receipt(struct disowning *disowning) {
    char field[JOURNAL_FIELD_SIZE];
    struct number part = number_of(key_part(disowning->transaction.id));
    journal_field(field, &disowning->transaction);
    return receipts_find_seq(&disowning->transactions->purchases->putback->receipts, RECEIPT_JOURNAL,
                             part.text, field, disowning->seq);
}

static void disown_on_done(struct inventory_transaction *transaction, enum inventory_status status) {
    struct disowning *disowning = CONTAINER_OF(transaction, struct disowning, transaction);
    struct receipts *receipts = &disowning->transactions->purchases->putback->receipts;
    struct receipt *receipt = disown_receipt(disowning);
    if (receipt && status != INVENTORY_OK)
        receipts_mark(receipts, receipt, true); /* the next tick tries again */
    else if (receipt)
        receipts_remove(receipts, receipt);
    free(disowning);
}

static struct disowning *disown_of_run(const struct transaction_run *run) {
    return CONTAINER_OF(run->transaction, struct disowning, transaction);
}

/* Reports the outcome once, unless the attempt was not decided: then nobody was told of it. */
static void disown_tell(const struct transaction_run *run, enum inventory_loss_outcome outcome) {
    struct receipt *receipt = disown_receipt(disown_of_run(run));
    if (!receipt || receipt->told || phases[run->transaction->phase].is == INVENTORY_STATE_ABORTED)
        return;
    receipt->told = true;
    putback_tell(run->transactions->purchases, RECEIPT_JOURNAL, receipt_place(receipt),
                 receipt_field(receipt), outcome);
}

static void disown_on_lines(struct transaction_run *run) {
    if (run->status == INVENTORY_SOLD_OUT) {
        disown_tell(run, INVENTORY_LOSS_TWICE);
        transaction_finish(run, INVENTORY_OK);
    } else if (run->status == INVENTORY_OK && run->write == WRITE_DISOWN &&
               run->transaction->kind == INVENTORY_TRANSFER) {
        lines_write(run, WRITE_ABORT, disown_on_lines);
    } else {
        if (run->status == INVENTORY_OK)
            disown_tell(run, INVENTORY_LOSS_DIFFERS);
        transaction_finish(run, run->status);
    }
}

static void disown_on_back(void *ctx, const enum inventory_loss_outcome *outcome) {
    struct transaction_run *run = ctx;
    bool back = outcome && *outcome == INVENTORY_LOSS_BACK;
    if (back)
        disown_tell(run, INVENTORY_LOSS_BACK);
    transaction_finish(run, back ? INVENTORY_OK : INVENTORY_PENDING);
}

/* The journal has no attempt: puts its own one back. */
static void disown_put_back(struct transaction_run *run) {
    const struct receipt *receipt = disown_receipt(disown_of_run(run));
    if (receipt)
        putback_decide(run->transactions->purchases, RECEIPT_JOURNAL, receipt_place(receipt),
                       receipt_field(receipt), receipt_record(receipt), disown_on_back, run);
    else
        transaction_finish(run, INVENTORY_OK);
}

static void disown_on_journal(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    const struct inventory_transaction *own = run->transaction;
    struct inventory_transaction found = *own;
    enum inventory_status status = store_status(run->shared, value);
    if (status != INVENTORY_OK) {
        transaction_finish(run, status);
    } else if (redis_value_type(value) != REDIS_STRING) {
        disown_put_back(run);
    } else if (!journal_read(&found, redis_value_text(value)) || strcmp(found.nonce, own->nonce) != 0) {
        if (phases[found.phase].is == INVENTORY_STATE_ABORTED) { /* the other attempt is not decided */
            transaction_finish(run, INVENTORY_PENDING);
            return;
        }
        lines_write(run, WRITE_DISOWN, disown_on_lines);
    } else {
        /* The journal has this attempt again, perhaps with another decision. */
        if (own->phase != PHASE_HELD && phases[found.phase].is != phases[own->phase].is)
            disown_tell(run, INVENTORY_LOSS_DIFFERS);
        transaction_finish(run, INVENTORY_OK);
    }
}

static void disown_run(struct transaction_run *run) {
    stpcpy(run->transaction->nonce, disown_of_run(run)->nonce);
    journal_ask(run->transactions, run->transaction, disown_on_journal, run);
}

static void disown_begin(struct transactions *transactions, struct receipt *receipt) {
    struct disowning *disowning = malloc(sizeof *disowning);
    const char *record = strchr(receipt_record(receipt), ' '); /* follows the time; see putback_keep() */
    if (!disowning || !journal_read_entry(&disowning->transaction, receipt_field(receipt), record + 1)) {
        free(disowning);
        return;
    }
    disowning->transactions = transactions;
    disowning->seq = receipt->seq;
    stpcpy(disowning->nonce, disowning->transaction.nonce);
    disowning->transaction.done = disown_on_done;
    receipt->busy = true;
    transaction_begin(transactions, &disowning->transaction, disown_run, INVENTORY_READ);
}

void disown_tick(struct transactions *transactions) {
    struct receipts *receipts = &transactions->purchases->putback->receipts;
    struct receipt *receipt = TAILQ_FIRST(&receipts->list), *next;
    for (int n = 0; receipt && receipts->todo > 0 && n < DISOWN_AT_ONCE; receipt = next) {
        next = TAILQ_NEXT(receipt, next);
        if (!receipt->todo || receipt->busy)
            continue;
        disown_begin(transactions, receipt);
        n++;
    }
}
