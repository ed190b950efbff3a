/* Makes a basket by one script (basket.lua), if one Redis holds all keys. No other client sees the basket
 * half made, so there is nothing to abort or recover, and no lock to acquire.
 *
 * The script reads the journal first and writes the basket to it last. So a call whose reply was lost is sent
 * again with the same nonce: at most one of the two calls is carried out, and the journal tells whose basket
 * it is. */
#include <stdio.h>
#include <string.h>

#include "basket.lua.h"
#include "inventory/transactions/transactions_internal.h"

static const struct redis_script basket_script = {basket_lua, basket_lua_sha1};

/* The keys of the journal and of an item; the arguments before the lines, and of a line. */
enum { JOURNAL_KEYS = 2, ITEM_KEYS = 2, HEAD = 7, LINE_ARGS = 3 };
enum { ARGV_MAX = SCRIPT_ARGV + JOURNAL_KEYS + HEAD + (ITEM_KEYS + LINE_ARGS) * INVENTORY_LINES_MAX };

/* The store did not carry out this call. It may have carried out an earlier call of this run whose reply was
 * lost. */
static void basket_script_on_error(struct transaction_run *run, const char *text) {
    if (strncmp(text, "CROSSSLOT", 9) == 0)
        transaction_finish(run, INVENTORY_CROSS_SLOT);
    else if (run->deadline_ms == 0)
        transaction_finish(run, INVENTORY_UNAVAILABLE);
    else
        transaction_lost(run);
}

/* The reply is {word, line, available}. If the reply to an earlier call was lost, that call may still be
 * carried out. */
static void basket_script_on_refusal(struct transaction_run *run, const struct redis_value *value) {
    const char *word = redis_value_count(value) == 3 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    enum inventory_status status;
    if (!word || !terms_refusal(word, &status)) {
        snprintf(run->shared->error, sizeof run->shared->error, "a reply of basket.lua is not known");
        transaction_finish(run, INVENTORY_UNAVAILABLE);
        return;
    }
    int64_t available = redis_value_integer(redis_value_at(value, 2), 0);
    run->transaction->failed = (int)redis_value_integer(redis_value_at(value, 1), 0);
    run->transaction->available = status == INVENTORY_SOLD_OUT && available > 0 ? available : 0;
    transaction_finish(run, run->deadline_ms == 0 ? status : INVENTORY_UNKNOWN);
}

/* Keeps receipts for the orders of a basket that was just made. A basket that is not at rest is another
 * run's. */
static void basket_script_keep(struct transaction_run *run, const char *record) {
    struct transactions *transactions = run->transactions;
    struct inventory_transaction made = *run->transaction;
    if (!journal_read(&made, record) || !phases[made.phase].at_rest)
        return;
    bool held = made.phase == PHASE_HELD, sold = made.phase == PHASE_CONFIRMED && made.expires_ms == 0;
    for (int i = 0; (held || sold) && i < made.count; i++)
        lines_keep(transactions, &made, i, held ? WRITE_DEBIT : WRITE_SELL);
}

static void basket_script_on_reply(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    enum inventory_status status = store_status(run->shared, value);
    if (status == INVENTORY_UNKNOWN) {
        transaction_lost(run);
        return;
    }
    failpoint(run->shared, "after", "basket", -1);
    if (status != INVENTORY_OK) {
        basket_script_on_error(run, redis_value_text(value));
    } else if (redis_value_type(value) == REDIS_STRING) {
        basket_script_keep(run, redis_value_text(value));
        transaction_resume(run, value);
    } else {
        basket_script_on_refusal(run, value);
    }
}

static void basket_script_begin(struct transaction_run *run) {
    struct inventory_transaction *transaction = run->transaction;
    char field[JOURNAL_FIELD_SIZE], lines[JOURNAL_RECORD_SIZE];
    struct number items[INVENTORY_LINES_MAX], quantities[INVENTORY_LINES_MAX];
    struct number now, grace = number_of(INVENTORY_HOLD_GRACE_MS);
    char digests[INVENTORY_LINES_MAX][INVENTORY_DIGEST_SIZE];
    struct journal_keys journal;
    if (!run->mine)
        transaction_begin_attempt(run);
    failpoint(run->shared, "before", "basket", -1);
    run->begun = true;
    now = number_of(clock_wall_ms(run->shared->config.clock));
    journal_keys_make(&journal, key_part(transaction->id));
    const char *argv[ARGV_MAX] = {NULL, NULL, NULL, journal.journal, journal.open};
    int argc = SCRIPT_ARGV + JOURNAL_KEYS;
    for (int p = 0; p < run->part_count; p++) {
        argv[argc++] = run->parts[p].keys.item;
        argc = shared_add_events(run->shared, &run->parts[p].keys, argv, argc);
    }
    int keys = argc - SCRIPT_ARGV;
    journal_field(field, transaction);
    journal_print_lines(lines, transaction);
    const char *const head[HEAD] = {run->shared->config.events ? "2" : "1",
                                    field,
                                    transaction->nonce,
                                    now.text,
                                    grace.text,
                                    transaction->user,
                                    lines};
    memcpy(argv + argc, head, sizeof head);
    argc += HEAD;
    for (int i = 0; i < transaction->count; i++) {
        items[i] = number_of(lines_part_of(run, i) + 1);
        quantities[i] = number_of(transaction->lines[i].quantity);
        lines_digest(transaction, i, digests[i]);
        argv[argc++] = items[i].text;
        argv[argc++] = quantities[i].text;
        argv[argc++] = digests[i];
    }
    router_run(run->shared->store, &basket_script, keys, argc, argv, basket_script_on_reply, run);
}

void inventory_transaction_make_at_once(struct inventory *inventory,
                                        struct inventory_transaction *transaction) {
    transaction_begin(inventory->transactions, transaction, basket_script_begin, INVENTORY_READ);
}
