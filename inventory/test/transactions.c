#include "inventory/test/transactions.h"
#include "inventory/transactions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/purchases.h"
#include "inventory/transactions/transactions_internal.h"

enum way way;

static const char *const way_names[WAYS] = {
    [IN_STEPS] = "in steps", [AT_ONCE] = "at once", [NAIVELY] = "naive"};

void run_ways(const char *what, void (*test)(void), enum way last) {
    for (int i = 0; i < WAYS && i <= (int)last; i++) {
        way = (enum way)i;
        harness_run(harness_format("%s: %s", way_names[i], what), test);
    }
    way = IN_STEPS;
}

static void make(struct inventory *inventory, struct inventory_transaction *transaction) {
    static void (*const makes[])(struct inventory * inventory, struct inventory_transaction * transaction) = {
        [IN_STEPS] = inventory_transaction_make,
        [AT_ONCE] = inventory_transaction_make_at_once,
        [NAIVELY] = inventory_transaction_make_naive};
    makes[transaction->kind == INVENTORY_BASKET ? way : IN_STEPS](inventory, transaction);
}

static void on_done(struct inventory_transaction *transaction, enum inventory_status status) {
    struct txn *txn = (struct txn *)transaction;
    if (txn->answers++ > 0) {
        txn->seller->shop->fault = "a transaction was answered twice";
        return;
    }
    txn->status = status;
    txn->seller->shop->open--;
}

struct txn *txn_new_of(struct seller *seller, const char *user, const char *key, const char *lines) {
    struct txn *txn = harness_alloc(sizeof *txn);
    struct inventory_transaction *transaction = &txn->transaction;
    txn->seller = seller;
    transaction->kind = key[0] == 't' ? INVENTORY_TRANSFER : INVENTORY_BASKET;
    snprintf(transaction->user, sizeof transaction->user, "%s", user);
    inventory_key_digest(transaction->user, key, strlen(key), transaction->id);
    while (*lines) {
        struct inventory_line *line = &transaction->lines[transaction->count++];
        char *end;
        size_t length = strcspn(lines, ":");
        CHECK(lines[length] == ':' && transaction->count <= INVENTORY_LINES_MAX);
        snprintf(line->item, sizeof line->item, "%.*s", (int)length, lines);
        line->quantity = strtoll(lines + length + 1, &end, 10);
        lines = *end == ' ' ? end + 1 : end;
    }
    transaction->lease_ms = 10000;
    transaction->done = on_done;
    return txn;
}

struct txn *txn_new(struct seller *seller, const char *key, const char *lines) {
    return txn_new_of(seller, key[0] == 't' ? "" : "ann", key, lines);
}

void txn_begin(struct txn *txn, enum txn_call call) {
    struct inventory_transaction *transaction = &txn->transaction;
    struct seller *seller = txn->seller;
    txn->answers = 0;
    transaction->locked = seller->fence > 0;
    for (int i = 0; i < transaction->count; i++)
        transaction->lines[i].token =
            (struct inventory_fencing_token){.epoch = seller->epoch, .fence = seller->fence};
    seller->shop->open++;
    switch (call) {
    case TXN_CHECK: inventory_transaction_check(seller->inventory, transaction); break;
    case TXN_MAKE: make(seller->inventory, transaction); break;
    case TXN_FIND: inventory_transaction_find(seller->inventory, transaction); break;
    case TXN_FINISH: inventory_transaction_settle(seller->inventory, transaction, INVENTORY_READ); break;
    case TXN_CONFIRM: inventory_transaction_settle(seller->inventory, transaction, INVENTORY_CONFIRM); break;
    case TXN_CANCEL: inventory_transaction_settle(seller->inventory, transaction, INVENTORY_CANCEL); break;
    }
}

static bool answered(void *arg) {
    return ((struct txn *)arg)->answers > 0;
}

enum inventory_status txn_wait(struct txn *txn) {
    shop_wait(txn->seller->shop, answered, txn, "a transaction is answered");
    return txn->status;
}

enum inventory_status txn_do(struct txn *txn, enum txn_call call) {
    txn_begin(txn, call);
    return txn_wait(txn);
}

enum inventory_status txn_make(struct seller *seller, const char *key, const char *lines) {
    return txn_do(txn_new(seller, key, lines), TXN_MAKE);
}

/* ---- recovery ---- */

enum { CLAIM_MOST = 16 };

struct claimed {
    struct seller *seller;
    bool done;
    size_t count;
    struct txn *txns[CLAIM_MOST];
};

static void on_claimed(void *ctx, enum inventory_status status,
                       const struct inventory_transaction *transactions, size_t count) {
    struct claimed *claimed = ctx;
    claimed->done = true;
    claimed->count = status == INVENTORY_OK ? count : 0;
    for (size_t i = 0; i < claimed->count; i++) {
        claimed->txns[i] = txn_new(claimed->seller, "b", "");
        claimed->txns[i]->transaction = transactions[i];
        claimed->txns[i]->transaction.done = on_done;
    }
}

int txns_recover(struct seller *seller) {
    int recovered = 0;
    for (;;) {
        struct claimed claimed = {.seller = seller};
        SHOP_UNTIL(seller->shop, !expiry_is_paused(seller->inventory->purchases),
                   "the store was slow a while ago");
        inventory_transaction_claim(seller->inventory, CLAIM_MOST, 1000, on_claimed, &claimed);
        SHOP_UNTIL(seller->shop, claimed.done, "transactions are claimed");
        if (claimed.count == 0)
            return recovered;
        for (size_t i = 0; i < claimed.count; i++, recovered++)
            txn_do(claimed.txns[i], TXN_FINISH);
    }
}

struct reconciling_done {
    bool done;
    enum inventory_status status;
    struct inventory_reconciled told;
};

static void on_reconciled(void *ctx, enum inventory_status status, const struct inventory_reconciled *told) {
    struct reconciling_done *done = ctx;
    *done = (struct reconciling_done){.done = true, .status = status};
    if (told)
        done->told = *told;
}

enum inventory_status txns_reconcile_once(struct seller *seller, bool mend,
                                          struct inventory_reconciled *told) {
    struct reconciling_done done = {.done = false};
    inventory_transactions_reconcile(seller->inventory, mend, on_reconciled, &done);
    SHOP_UNTIL(seller->shop, done.done, "the journal is compared");
    *told = done.told;
    return done.status;
}

struct inventory_reconciled txns_reconcile(struct seller *seller, bool mend) {
    struct inventory_reconciled told;
    while (txns_reconcile_once(seller, mend, &told) != INVENTORY_OK)
        ;
    return told;
}

static struct journal_keys keys_of(const struct txn *txn) {
    struct journal_keys keys;
    journal_keys_make(&keys, key_part(txn->transaction.id));
    return keys;
}

static char *field_of(const struct txn *txn) {
    return harness_format("%c:%s", txn->transaction.kind == INVENTORY_BASKET ? 'b' : 't',
                          txn->transaction.id);
}

const char *txn_record(const struct redis_server *redis, const struct txn *txn) {
    return redis_command(redis, "HGET", keys_of(txn).journal, field_of(txn), NULL);
}

void txn_set_record(const struct redis_server *redis, const struct txn *txn, const char *record, bool open) {
    redis_command(redis, "HSET", keys_of(txn).journal, field_of(txn), record, NULL);
    if (open)
        redis_command(redis, "ZADD", keys_of(txn).open, "1", field_of(txn), NULL);
}

const char *txn_phase(const struct redis_server *redis, const struct txn *txn) {
    const char *record = txn_record(redis, txn);
    return strcmp(record, "(nil)") == 0 ? "none" : harness_format("%.*s", (int)strcspn(record, " "), record);
}

void items_put_three(struct seller *seller) {
    item_put_with(seller, "phone", 100, 0, 0);
    item_put_with(seller, "lamp", 100, 0, 0);
    item_put_with(seller, "held", 100, 0, 600000);
}

struct txn *txn_same(struct seller *seller, const struct txn *of) {
    struct txn *txn = harness_alloc(sizeof *txn);
    *txn = *of;
    txn->seller = seller;
    return txn;
}

void txn_check_order(struct seller *seller, const struct txn *txn, int line, const char *state) {
    struct inventory_order order;
    inventory_transaction_order(&txn->transaction, line, &order);
    CHECK_STATUS(order_step(seller, order.id, INVENTORY_READ, &order), INVENTORY_OK);
    CHECK_STR(inventory_state_name(order.state), state);
}

void txn_lose_line(const struct redis_server *redis, const struct txn *txn, int line, const char *counted) {
    struct inventory_order order;
    const char *key = stock_key(txn->transaction.lines[line].item);
    inventory_transaction_order(&txn->transaction, line, &order);
    CHECK_STR(redis_command(redis, "HDEL", key, strchr(order.id, ':') + 1, NULL), "1");
    redis_command(redis, "HINCRBY", key, "available", "1", NULL);
    redis_command(redis, "HINCRBY", key, counted, "-1", NULL);
}

struct summed {
    bool done;
    enum inventory_status status;
    struct inventory_audit_sum sum;
};

static void on_sum(void *ctx, enum inventory_status status, const struct inventory_audit_sum *sum) {
    struct summed *summed = ctx;
    summed->done = true;
    summed->status = status;
    if (sum)
        summed->sum = *sum;
}

struct inventory_audit_sum txns_audit_all(struct seller *seller) {
    struct summed summed = {.done = false}, second = {.done = false};
    inventory_audit_all(seller->inventory, on_sum, &summed);
    inventory_audit_all(seller->inventory, on_sum, &second);
    CHECK(second.done);
    CHECK_STATUS(second.status, INVENTORY_OVERLOADED);
    SHOP_UNTIL(seller->shop, summed.done, "all is audited");
    CHECK_STATUS(summed.status, INVENTORY_OK);
    return summed.sum;
}
