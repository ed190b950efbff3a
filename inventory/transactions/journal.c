/* The journal of transactions: what was decided. Its parts are spread over a few slots of the store by a
 * transaction's id, so that no server of a cluster has all of it.
 *
 * A transaction goes on by one move of its record at a time (journal.lua). A move compares phase and nonce,
 * so of two processes that decide about a transaction one is first. A record is PHASE NONCE CREATED_MS
 * EXPIRES_MS USER ITEM:QUANTITY,...
 */
#include "inventory/transactions/transactions_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "journal.lua.h"

const struct phase_row phases[PHASES] = {
    [PHASE_NONE] = {"none", true, WRITE_NOTHING, PHASE_NONE, INVENTORY_STATE_ABORTED, WRITE_NOTHING},
    [PHASE_INTENT] = {"intent", false, WRITE_NOTHING, PHASE_ABORTING, INVENTORY_STATE_ABORTED, WRITE_NOTHING},
    /* putback.lua and the failpoints use this word, too. */
    [PHASE_ABORTING] = {"undoing", false, WRITE_ABORT, PHASE_NONE, INVENTORY_STATE_ABORTED, WRITE_NOTHING},
    [PHASE_HELD] = {"held", true, WRITE_NOTHING, PHASE_EXPIRING, INVENTORY_STATE_HELD, WRITE_DEBIT},
    [PHASE_CONFIRMING] = {"confirming", false, WRITE_CONFIRM, PHASE_CONFIRMED, INVENTORY_STATE_CONFIRMED,
                          WRITE_DEBIT},
    [PHASE_CANCELLING] = {"cancelling", false, WRITE_CANCEL, PHASE_CANCELLED, INVENTORY_STATE_CANCELLED,
                          WRITE_DEBIT},
    [PHASE_EXPIRING] = {"expiring", false, WRITE_EXPIRE, PHASE_EXPIRED, INVENTORY_STATE_EXPIRED, WRITE_DEBIT},
    [PHASE_CONFIRMED] = {"confirmed", true, WRITE_NOTHING, PHASE_CONFIRMED, INVENTORY_STATE_CONFIRMED,
                         WRITE_CONFIRM},
    [PHASE_CANCELLED] = {"cancelled", true, WRITE_NOTHING, PHASE_CANCELLED, INVENTORY_STATE_CANCELLED,
                         WRITE_CANCEL},
    [PHASE_EXPIRED] = {"expired", true, WRITE_NOTHING, PHASE_EXPIRED, INVENTORY_STATE_EXPIRED, WRITE_EXPIRE},
};

static const struct redis_script journal_script = {journal_lua, journal_lua_sha1};

void journal_field(char out[JOURNAL_FIELD_SIZE], const struct inventory_transaction *transaction) {
    snprintf(out, JOURNAL_FIELD_SIZE, "%c:%s", transaction->kind == INVENTORY_BASKET ? 'b' : 't',
             transaction->id);
}

void journal_print_lines(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction) {
    int length = 0;
    for (int i = 0; i < transaction->count; i++)
        length += snprintf(out + length, JOURNAL_RECORD_SIZE - (size_t)length, "%s%s:%lld", i ? "," : "",
                           transaction->lines[i].item, (long long)transaction->lines[i].quantity);
}

void journal_print(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction) {
    char lines[JOURNAL_RECORD_SIZE] = "";
    journal_print_lines(lines, transaction);
    snprintf(out, JOURNAL_RECORD_SIZE, "%s %s %lld %lld %s %s", phases[transaction->phase].name,
             transaction->nonce, (long long)transaction->created_ms, (long long)transaction->expires_ms,
             transaction->kind == INVENTORY_BASKET ? transaction->user : "-", lines);
}

bool journal_is_same(const struct inventory_transaction *a, const struct inventory_transaction *b) {
    bool same = a->kind == b->kind && a->count == b->count &&
                (a->kind == INVENTORY_TRANSFER || strcmp(a->user, b->user) == 0);
    for (int i = 0; same && i < a->count; i++)
        same =
            strcmp(a->lines[i].item, b->lines[i].item) == 0 && a->lines[i].quantity == b->lines[i].quantity;
    return same;
}

/* PHASE_NONE: no phase has this name. */
static int journal_phase(const char *name) {
    int i = PHASES - 1;
    while (i > PHASE_NONE && strcmp(phases[i].name, name) != 0)
        i--;
    return i;
}

/* ITEM:QUANTITY,… */
static bool journal_read_lines(struct inventory_transaction *transaction, char *text) {
    char *rest = NULL;
    transaction->count = 0;
    for (char *line = strtok_r(text, ",", &rest); line; line = strtok_r(NULL, ",", &rest)) {
        char *colon = strchr(line, ':');
        if (!colon || transaction->count == INVENTORY_LINES_MAX ||
            !inventory_name_valid(line, (size_t)(colon - line)))
            return false;
        struct inventory_line *into = &transaction->lines[transaction->count++];
        *colon = '\0';
        char *end;
        *into = (struct inventory_line){.quantity = strtoll(colon + 1, &end, 10)};
        memcpy(into->item, line, (size_t)(colon - line) + 1);
        if (*end || into->quantity < 1 || into->quantity > INVENTORY_QUANTITY_MAX)
            return false;
    }
    return transaction->count > 0;
}

static bool journal_read_ms(const char *text, int64_t *ms) {
    char *end;
    if (!text)
        return false;
    *ms = strtoll(text, &end, 10);
    return end != text && *end == '\0' && *ms >= 0;
}

bool journal_read(struct inventory_transaction *transaction, const char *record) {
    struct inventory_transaction read = *transaction;
    char copy[JOURNAL_RECORD_SIZE], *rest = NULL;
    size_t length = strlen(record);
    if (length >= sizeof copy)
        return false;
    memcpy(copy, record, length + 1);
    const char *phase = strtok_r(copy, " ", &rest), *nonce = strtok_r(NULL, " ", &rest),
               *created = strtok_r(NULL, " ", &rest), *expires = strtok_r(NULL, " ", &rest),
               *user = strtok_r(NULL, " ", &rest);
    bool basket = read.kind == INVENTORY_BASKET;
    if (!phase || (read.phase = journal_phase(phase)) == PHASE_NONE || !nonce ||
        !inventory_digest_valid(nonce) || !journal_read_ms(created, &read.created_ms) ||
        !journal_read_ms(expires, &read.expires_ms) || !user ||
        (basket && !inventory_user_valid(user, strlen(user))) || !journal_read_lines(&read, rest) ||
        (!basket && read.count != 2))
        return false;
    snprintf(read.nonce, sizeof read.nonce, "%s", nonce);
    snprintf(read.user, sizeof read.user, "%s", basket ? user : "");
    *transaction = read;
    return true;
}

bool journal_read_entry(struct inventory_transaction *transaction, const char *field, const char *record) {
    if (!field || !record || (field[0] != 'b' && field[0] != 't') || field[1] != ':' ||
        !inventory_digest_valid(field + 2))
        return false;
    *transaction =
        (struct inventory_transaction){.kind = field[0] == 'b' ? INVENTORY_BASKET : INVENTORY_TRANSFER};
    memcpy(transaction->id, field + 2, sizeof transaction->id);
    return journal_read(transaction, record);
}

void journal_ask(struct transactions *transactions, const struct inventory_transaction *transaction,
                 redis_reply_fn *fn, void *ctx) {
    char field[JOURNAL_FIELD_SIZE];
    struct journal_keys keys;
    journal_keys_make(&keys, key_part(transaction->id));
    journal_field(field, transaction);
    router_callf(transactions->shared->store, keys.journal, fn, ctx, "HGET %s %s", keys.journal, field);
}

void journal_move(struct transactions *transactions, const struct inventory_transaction *transaction,
                  enum phase to, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    char field[JOURNAL_FIELD_SIZE], from[48] = "", epoch[24] = "", record[JOURNAL_RECORD_SIZE] = "";
    struct number due = {""};
    struct inventory_transaction next = *transaction;
    struct journal_keys keys;
    journal_keys_make(&keys, key_part(transaction->id));
    next.phase = to;
    journal_field(field, transaction);
    if (transaction->phase != PHASE_NONE)
        snprintf(from, sizeof from, "%s %s ", phases[transaction->phase].name, transaction->nonce);
    if (to != PHASE_NONE)
        journal_print(record, &next);
    if (due_ms)
        due = number_of(due_ms);
    if (transaction->locked && transactions->shared->config.fencing)
        snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)transaction->lines[0].token.epoch);
    const char *argv[] = {NULL,   NULL,  NULL, keys.journal, keys.open, keys.epoch,
                          "move", field, from, record,       due.text,  epoch};
    router_run(transactions->shared->store, &journal_script, 3, sizeof argv / sizeof *argv, argv, fn, ctx);
}

void journal_keep(struct transactions *transactions, const struct inventory_transaction *transaction,
                  enum phase phase, int64_t due_ms) {
    char field[JOURNAL_FIELD_SIZE], record[24 + JOURNAL_RECORD_SIZE];
    struct number part = number_of(key_part(transaction->id));
    struct inventory_transaction now = *transaction;
    now.phase = phase;
    journal_field(field, transaction);
    int length = snprintf(record, sizeof record, "%lld ", (long long)due_ms);
    journal_print(record + length, &now);
    if (phase == PHASE_NONE)
        putback_forget(transactions->purchases, RECEIPT_JOURNAL, part.text, field);
    else
        putback_keep(transactions->purchases, RECEIPT_JOURNAL, part.text, field, record);
}

void journal_keep_found(struct transactions *transactions, const struct inventory_transaction *transaction) {
    enum phase phase = (enum phase)transaction->phase;
    int64_t due_ms = phase == PHASE_HELD     ? transaction->expires_ms + INVENTORY_HOLD_GRACE_MS
                     : phases[phase].at_rest ? 0
                                             : clock_wall_ms(transactions->shared->config.clock);
    if (phase != PHASE_INTENT && phases[phase].is != INVENTORY_STATE_ABORTED)
        journal_keep(transactions, transaction, phase, due_ms);
}

void journal_raise_epoch(struct transactions *transactions, unsigned part, uint64_t epoch, redis_reply_fn *fn,
                         void *ctx) {
    struct journal_keys keys;
    journal_keys_make(&keys, part);
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)epoch);
    const char *argv[] = {NULL,         NULL,      NULL,
                          keys.journal, keys.open, keys.epoch,
                          "raise",      number,    router_is_one(transactions->shared->store) ? "no" : "yes"};
    router_run(transactions->shared->store, &journal_script, 3, sizeof argv / sizeof *argv, argv, fn, ctx);
}

/* ---- find ---- */

static void journal_on_found(void *ctx, const struct redis_value *value) {
    struct inventory_transaction *transaction = ctx;
    enum inventory_status status = store_status(transaction->transactions->shared, value);
    if (status == INVENTORY_OK && redis_value_type(value) != REDIS_STRING) {
        status = INVENTORY_UNKNOWN_BASKET;
    } else if (status == INVENTORY_OK && !journal_read(transaction, redis_value_text(value))) {
        status = INVENTORY_UNAVAILABLE;
    } else if (status == INVENTORY_OK) {
        journal_keep_found(transaction->transactions, transaction);
        transaction->state = phases[transaction->phase].is;
        if (!phases[transaction->phase].at_rest)
            status = INVENTORY_PENDING;
    }
    transaction->done(transaction, status);
}

void inventory_transaction_find(struct inventory *inventory, struct inventory_transaction *transaction) {
    transaction->transactions = inventory->transactions;
    journal_ask(inventory->transactions, transaction, journal_on_found, transaction);
}

/* ---- transactions that were left unfinished ---- */

/* A claim goes from part to part until it has enough. Most parts have nothing due, which one command tells.
 */
struct claim {
    struct transactions *transactions;
    struct shared *shared;
    inventory_claim_fn *fn;
    void *ctx;
    int64_t claim_ms, sent_ms;
    struct journal_keys part;
    int asked;    /* parts */
    bool replied; /* a part has */
    size_t most, count;
    struct inventory_transaction claimed[];
};

static void claim_next(struct claim *claim);

/* A part that cannot be reached is left to the next claim. */
static void claim_on_claimed(void *ctx, const struct redis_value *value) {
    struct claim *claim = ctx;
    bool good = store_status(claim->shared, value) == INVENTORY_OK;
    size_t found = good ? redis_value_count(value) / 2 : 0;
    expiry_note_call(claim->transactions->purchases, claim->sent_ms);
    claim->replied |= good;
    for (size_t i = 0; i < found && claim->count < claim->most; i++)
        claim->count +=
            journal_read_entry(&claim->claimed[claim->count], redis_value_text(redis_value_at(value, 2 * i)),
                               redis_value_text(redis_value_at(value, 2 * i + 1)));
    claim_next(claim);
}

static void claim_part(struct claim *claim) {
    int64_t now_ms = clock_wall_ms(claim->shared->config.clock);
    claim->sent_ms = shared_now_ms(claim->shared);
    struct number now = number_of(now_ms), until = number_of(now_ms + claim->claim_ms),
                  most = number_of((int64_t)(claim->most - claim->count));
    const char *argv[] = {
        NULL,     NULL,       NULL,     claim->part.journal, claim->part.open, claim->part.epoch, "claim",
        now.text, until.text, most.text};
    router_run(claim->shared->store, &journal_script, 3, sizeof argv / sizeof *argv, argv, claim_on_claimed,
               claim);
}

static void claim_on_due(void *ctx, const struct redis_value *value) {
    struct claim *claim = ctx;
    bool good = store_status(claim->shared, value) == INVENTORY_OK;
    expiry_note_call(claim->transactions->purchases, claim->sent_ms);
    claim->replied |= good;
    if (good && redis_value_count(value) > 0 && !expiry_is_paused(claim->transactions->purchases))
        claim_part(claim);
    else
        claim_next(claim);
}

/* After a stall nothing more is claimed: confirms that arrived in time go first. */
static void claim_next(struct claim *claim) {
    struct transactions *transactions = claim->transactions;
    if (claim->asked == KEY_PARTS || claim->count == claim->most ||
        expiry_is_paused(transactions->purchases) || !router_is_up(transactions->shared->store, NULL)) {
        claim->fn(claim->ctx, claim->replied ? INVENTORY_OK : INVENTORY_UNAVAILABLE, claim->claimed,
                  claim->count);
        free(claim);
        return;
    }
    claim->asked++;
    journal_keys_make(&claim->part, transactions->claim_part++ % KEY_PARTS);
    claim->sent_ms = shared_now_ms(transactions->shared);
    router_callf(transactions->shared->store, claim->part.open, claim_on_due, claim,
                 "ZRANGEBYSCORE %s -inf %lld LIMIT 0 1", claim->part.open,
                 (long long)clock_wall_ms(transactions->shared->config.clock));
}

void inventory_transaction_claim(struct inventory *inventory, int most, int64_t claim_ms,
                                 inventory_claim_fn *fn, void *ctx) {
    struct transactions *transactions = inventory->transactions;
    if (expiry_is_paused(transactions->purchases)) {
        fn(ctx, INVENTORY_OK, NULL, 0);
        return;
    }
    struct claim *claim = malloc(sizeof *claim + sizeof claim->claimed[0] * (size_t)most);
    if (!claim) {
        fn(ctx, INVENTORY_OVERLOADED, NULL, 0);
        return;
    }
    *claim = (struct claim){.transactions = transactions,
                            .shared = transactions->shared,
                            .fn = fn,
                            .ctx = ctx,
                            .claim_ms = claim_ms,
                            .most = (size_t)most};
    claim_next(claim);
}
