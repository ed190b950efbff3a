/* Two attempts at one transaction: the journal of the first was lost, and its buyer came back to another
 * process, which has made it again by another nonce. What the first one wrote to the items may stand, or be
 * put back. Its maker finds that the journal has another attempt (`differs`, see putback.lua), tells that,
 * and undoes its own here. */
#include "inventory/transactions/disown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "inventory/store/status.h"
#include "inventory/transactions/journal.h"
#include "inventory/transactions/lines.h"
#include "inventory/transactions/transaction.h"

enum { DISOWN_AT_ONCE = 16 };

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
    struct receipt *receipt = receipts_find_seq(receipts, RECEIPT_JOURNAL, part, field, disowning->seq);
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
    if (status != INVENTORY_OK ||
        (redis_value_type(value) == REDIS_STRING && journal_read(&found, redis_value_text(value)) &&
         strcmp(found.nonce, run->transaction->nonce) == 0))
        transaction_finish(run, status); /* or it is this one after all */
    else
        lines_write(run, WRITE_DISOWN, on_disowned_lines);
}

static void by_disowning(struct transaction_run *run) {
    const struct disowning *disowning = CONTAINER_OF(run->transaction, struct disowning, transaction);
    stpcpy(run->transaction->nonce, disowning->nonce);
    journal_ask(run->inventory, run->transaction, on_journal, run);
}

static void disown(struct inventory *inventory, struct receipt *receipt) {
    struct disowning *disowning = malloc(sizeof *disowning);
    const char *record = strchr(receipt_record(receipt), ' '); /* behind the time; see putback_keep() */
    if (!disowning || !journal_read_entry(&disowning->transaction, receipt_field(receipt), record + 1)) {
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

void disown_tick(struct inventory *inventory) {
    struct receipts *receipts = &inventory->putback.receipts;
    struct receipt *receipt = TAILQ_FIRST(&receipts->list), *next;
    for (int n = 0; receipt && receipts->to_index > 0 && n < DISOWN_AT_ONCE; receipt = next) {
        next = TAILQ_NEXT(receipt, next);
        if (!receipt->to_index || receipt->kind != RECEIPT_JOURNAL)
            continue;
        disown(inventory, receipt);
        n++;
    }
}
