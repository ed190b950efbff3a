#include "inventory/test/transactions.h"
#include "inventory/transactions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/holds.h"

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
    struct bargain *bargain = (struct bargain *)transaction;
    if (bargain->answers++ > 0) {
        bargain->till->shop->fault = "a transaction was answered twice";
        return;
    }
    bargain->status = status;
    bargain->till->shop->open--;
}

struct bargain *bargain_new(struct till *till, const char *key, const char *lines) {
    struct bargain *bargain = harness_alloc(sizeof *bargain);
    struct inventory_transaction *transaction = &bargain->transaction;
    bargain->till = till;
    transaction->kind = key[0] == 't' ? INVENTORY_TRANSFER : INVENTORY_BASKET;
    inventory_key_digest(key, strlen(key), transaction->id);
    snprintf(transaction->user, sizeof transaction->user, "%s",
             transaction->kind == INVENTORY_BASKET ? "ann" : "");
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
    return bargain;
}

void bargain_begin(struct bargain *bargain, enum bargain_call call) {
    struct inventory_transaction *transaction = &bargain->transaction;
    struct till *till = bargain->till;
    bargain->answers = 0;
    transaction->locked = till->fence > 0;
    for (int i = 0; i < transaction->count; i++)
        transaction->lines[i].token =
            (struct inventory_fencing_token){.epoch = till->epoch, .fence = till->fence};
    till->shop->open++;
    switch (call) {
    case BARGAIN_CHECK: inventory_transaction_check(till->inventory, transaction); break;
    case BARGAIN_MAKE: make(till->inventory, transaction); break;
    case BARGAIN_FIND: inventory_transaction_find(till->inventory, transaction); break;
    case BARGAIN_FINISH: inventory_transaction_settle(till->inventory, transaction, INVENTORY_READ); break;
    case BARGAIN_CONFIRM:
        inventory_transaction_settle(till->inventory, transaction, INVENTORY_CONFIRM);
        break;
    case BARGAIN_CANCEL: inventory_transaction_settle(till->inventory, transaction, INVENTORY_CANCEL); break;
    }
}

static bool answered(void *arg) {
    return ((struct bargain *)arg)->answers > 0;
}

enum inventory_status bargain_wait(struct bargain *bargain) {
    shop_wait(bargain->till->shop, answered, bargain, "a transaction is answered");
    return bargain->status;
}

enum inventory_status bargain_do(struct bargain *bargain, enum bargain_call call) {
    bargain_begin(bargain, call);
    return bargain_wait(bargain);
}

enum inventory_status bargain_make(struct till *till, const char *key, const char *lines) {
    return bargain_do(bargain_new(till, key, lines), BARGAIN_MAKE);
}

/* ---- recovery ---- */

enum { CLAIM_MOST = 16 };

struct claimed {
    struct till *till;
    bool done;
    size_t count;
    struct bargain *bargains[CLAIM_MOST];
};

static void on_claimed(void *ctx, enum inventory_status status,
                       const struct inventory_transaction *transactions, size_t count) {
    struct claimed *claimed = ctx;
    claimed->done = true;
    claimed->count = status == INVENTORY_OK ? count : 0;
    for (size_t i = 0; i < claimed->count; i++) {
        claimed->bargains[i] = bargain_new(claimed->till, "b", "");
        claimed->bargains[i]->transaction = transactions[i];
        claimed->bargains[i]->transaction.done = on_done;
    }
}

static bool is_claimed(void *arg) {
    return ((struct claimed *)arg)->done;
}

static bool is_awake(void *arg) {
    return !expiry_rests(((struct till *)arg)->inventory);
}

int bargains_recover(struct till *till) {
    int recovered = 0;
    for (;;) {
        struct claimed claimed = {.till = till};
        shop_wait(till->shop, is_awake, till, "the store was slow a while ago");
        inventory_transaction_claim(till->inventory, CLAIM_MOST, 1000, on_claimed, &claimed);
        shop_wait(till->shop, is_claimed, &claimed, "transactions are claimed");
        if (claimed.count == 0)
            return recovered;
        for (size_t i = 0; i < claimed.count; i++, recovered++)
            bargain_do(claimed.bargains[i], BARGAIN_FINISH);
    }
}

const char *bargain_phase(const struct redis_server *redis, const struct bargain *bargain) {
    const struct inventory_transaction *transaction = &bargain->transaction;
    const char *field =
        harness_format("%c:%s", transaction->kind == INVENTORY_BASKET ? 'b' : 't', transaction->id);
    const char *record = redis_command(redis, "HGET", "seckill:{baskets}:journal", field, NULL);
    return strcmp(record, "(nil)") == 0 ? "none" : harness_format("%.*s", (int)strcspn(record, " "), record);
}
