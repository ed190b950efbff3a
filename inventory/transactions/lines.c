/* The lines of a transaction in their items: what each step writes (line.lua), the orders of the lines with
 * their digests, and the receipts of both. */
#include "inventory/transactions/transactions_internal.h"

#include <stdio.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "line.lua.h"

static const struct redis_script line_script = {line_lua, line_lua_sha1};

/* The words of line.lua, by write. A transfer writes to one of its two items at a time. WRITE_DISOWN takes
 * the units back where they arrived; then WRITE_ABORT gives them back to the sender. */
static const struct {
    const char *step; /* in the names of failpoints */
    const char *state;
    const char *transfer;
    int line; /* the line that a transfer writes to */
} writes[] = {
    [WRITE_DEBIT] = {"debit", NULL, "send", 0},       [WRITE_ABORT] = {"abort", "u", "refund", 0},
    [WRITE_CONFIRM] = {"confirm", "c", "receive", 1}, [WRITE_CANCEL] = {"cancel", "x", NULL, 0},
    [WRITE_EXPIRE] = {"expire", "e", NULL, 0},        [WRITE_SELL] = {"sell", NULL, NULL, 0},
    [WRITE_DISOWN] = {"disown", "u", "take-back", 1},
};

static bool lines_of_part(const struct transaction_part *part, int line) {
    const struct inventory_line *lines = part->run->transaction->lines;
    return strcmp(lines[part->line].item, lines[line].item) == 0;
}

int lines_part_of(const struct transaction_run *run, int line) {
    int p = 0;
    while (p < run->part_count && !lines_of_part(&run->parts[p], line))
        p++;
    return p;
}

int lines_of(const struct transaction_part *part, int lines[INVENTORY_LINES_MAX]) {
    int n = 0;
    for (int i = part->line; i < part->run->transaction->count; i++) {
        if (lines_of_part(part, i))
            lines[n++] = i;
    }
    return n;
}

void lines_make_parts(struct transaction_run *run) {
    const struct inventory_transaction *transaction = run->transaction;
    run->part_count = 0;
    for (int i = 0; i < transaction->count; i++) {
        int p = lines_part_of(run, i);
        if (p == run->part_count) {
            run->parts[run->part_count++] = (struct transaction_part){.run = run, .line = i};
            sale_keys_make(&run->parts[p].keys, transaction->lines[i].item);
        }
        run->parts[p].quantity += transaction->lines[i].quantity;
    }
}

/* The order as a write leaves it. */
static void lines_order_after(const struct inventory_transaction *transaction, int line,
                              enum line_write write, struct inventory_order *order) {
    static const enum inventory_state states[] = {
        [WRITE_DEBIT] = INVENTORY_STATE_HELD,        [WRITE_SELL] = INVENTORY_STATE_CONFIRMED,
        [WRITE_CONFIRM] = INVENTORY_STATE_CONFIRMED, [WRITE_CANCEL] = INVENTORY_STATE_CANCELLED,
        [WRITE_EXPIRE] = INVENTORY_STATE_EXPIRED,    [WRITE_ABORT] = INVENTORY_STATE_ABORTED,
        [WRITE_DISOWN] = INVENTORY_STATE_ABORTED};
    inventory_transaction_order(transaction, line, order);
    order->state = states[write];
    order->pending = write == WRITE_DEBIT;
    order->version = write == WRITE_DEBIT ? 1 : write == WRITE_DISOWN ? 3 : 2;
}

void lines_print_order(char out[RECORD_SIZE], const struct inventory_transaction *transaction, int line,
                       enum line_write write) {
    struct inventory_order order;
    lines_order_after(transaction, line, write, &order);
    record_print(out, &order);
}

void lines_print_move(char out[RECORD_SIZE], const struct inventory_transaction *transaction, int line,
                      enum line_write write) {
    const char *word = writes[write == WRITE_DISOWN ? WRITE_ABORT : write].transfer;
    snprintf(out, RECORD_SIZE, "%s %lld %s", word ? word : "", (long long)transaction->lines[line].quantity,
             transaction->id);
}

/* ---- replies ---- */

void lines_keep(struct transactions *transactions, const struct inventory_transaction *transaction, int line,
                enum line_write write) {
    char digest[INVENTORY_DIGEST_SIZE], record[RECORD_SIZE];
    lines_digest(transaction, line, digest);
    lines_print_order(record, transaction, line, write);
    putback_keep(transactions->purchases, RECEIPT_ORDER, transaction->lines[line].item, digest, record);
}

static void lines_keep_part(const struct transaction_part *part) {
    const struct transaction_run *run = part->run;
    const struct inventory_transaction *transaction = run->transaction;
    int lines[INVENTORY_LINES_MAX], n = lines_of(part, lines);
    char record[RECORD_SIZE];
    lines_print_move(record, transaction, part->line, run->write);
    if (transaction->kind == INVENTORY_TRANSFER)
        putback_keep(run->transactions->purchases, RECEIPT_MOVE, transaction->lines[part->line].item,
                     transaction->nonce, record);
    for (int i = 0; transaction->kind == INVENTORY_BASKET && i < n; i++)
        lines_keep(run->transactions, transaction, lines[i], run->write);
}

static void lines_fail(struct transaction_run *run, enum inventory_status status, int line,
                       int64_t available) {
    struct inventory_transaction *transaction = run->transaction;
    if (run->status == INVENTORY_UNKNOWN || (run->status != INVENTORY_OK && transaction->failed <= line))
        return;
    run->status = status;
    transaction->failed = line;
    transaction->available = available;
}

/* The line with which the part exceeds `most` units. */
static int lines_line_beyond(const struct transaction_part *part, int64_t most) {
    int lines[INVENTORY_LINES_MAX], n = lines_of(part, lines), line = part->line;
    int64_t sum = 0;
    for (int i = 0; i < n && sum <= most; i++) {
        line = lines[i];
        sum += part->run->transaction->lines[line].quantity;
    }
    return line;
}

/* Notes the decision by which an order has ended otherwise. Of several the strongest counts. */
static bool lines_note_decided(struct transaction_run *run, const char *record) {
    enum phase decided = *record == 'c'   ? PHASE_CONFIRMING
                         : *record == 'x' ? PHASE_CANCELLING
                         : *record == 'e' ? PHASE_EXPIRING
                                          : PHASE_NONE;
    if (run->decided == PHASE_NONE || decided < run->decided)
        run->decided = decided;
    return decided != PHASE_NONE;
}

/* Notes a reply that begins with a word; false: the reply is unexpected. */
static bool lines_note_word(struct transaction_part *part, const struct redis_value *value) {
    struct transaction_run *run = part->run;
    size_t count = redis_value_count(value);
    const char *word = count ? redis_value_text(redis_value_at(value, 0)) : NULL;
    int64_t number = count > 1 ? redis_value_integer(redis_value_at(value, 1), 0) : 0;
    enum inventory_status status;
    if (!word)
        return false;
    if (strcmp(word, "done") == 0) {
        run->refunded |= number > 0;
        lines_keep_part(part);
        return true;
    }
    /* Aborted: another run with a newer fencing token did that before this debit. */
    if (strcmp(word, "stale") == 0 || strcmp(word, "aborted") == 0) {
        run->stale = true;
        return true;
    }
    if (strcmp(word, "short") == 0) {
        run->lacks = true;
        return true;
    }
    if (strcmp(word, "otherwise") == 0 && count > 1) {
        bool decided = lines_note_decided(run, redis_value_text(redis_value_at(value, 1)));
        run->shared->torn |= !decided; /* the order was aborted, or is lost: see reconcile.c */
        return decided;
    }
    if (!terms_refusal(word, &status))
        return false;
    bool too_many = status == INVENTORY_SOLD_OUT || status == INVENTORY_LIMIT;
    lines_fail(run, status, too_many ? lines_line_beyond(part, number) : part->line,
               status == INVENTORY_SOLD_OUT && number > 0 ? number : 0);
    return true;
}

/* Judges the terms as read. The line that exceeds the limit may differ from the line that exceeds the units.
 */
static void lines_judge(struct transaction_part *part, const struct inventory_item *item, int64_t had) {
    struct transaction_run *run = part->run;
    const struct inventory_transaction *transaction = run->transaction;
    bool basket = transaction->kind == INVENTORY_BASKET;
    part->available = item->available;
    part->limit = item->limit;
    part->had = had;
    enum inventory_status in_time =
        basket ? terms_judge_time(run->now_ms, item->starts_ms, item->ends_ms) : INVENTORY_OK;
    if (in_time != INVENTORY_OK)
        lines_fail(run, in_time, part->line, 0);
    if ((basket || part->line == 0) && part->quantity > item->available)
        lines_fail(run, INVENTORY_SOLD_OUT, lines_line_beyond(part, item->available),
                   item->available > 0 ? item->available : 0);
    if (!basket && part->line == 1 && item->initial + item->restocked + part->quantity > INVENTORY_STOCK_MAX)
        lines_fail(run, INVENTORY_TOO_MANY, part->line, 0);
    if (basket && item->limit && had + part->quantity > item->limit)
        lines_fail(run, INVENTORY_LIMIT, lines_line_beyond(part, item->limit - had), 0);
    if (basket && item->hold_ms && (run->hold_ms == 0 || item->hold_ms < run->hold_ms))
        run->hold_ms = item->hold_ms;
}

static bool lines_note_read(struct transaction_part *part, const struct redis_value *value) {
    struct inventory_item item;
    const char *word = redis_value_count(value) == 3 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    if (!word || strcmp(word, "read") != 0)
        return lines_note_word(part, value);
    if (!item_read(&item, part->run->transaction->lines[part->line].item, redis_value_at(value, 1)))
        return false;
    lines_judge(part, &item, redis_value_integer(redis_value_at(value, 2), 0));
    return true;
}

void lines_count_down(struct transaction_run *run, bool good) {
    if (!good)
        run->status = INVENTORY_UNKNOWN;
    if (--run->pending > 0)
        return;
    if (run->stale && run->status != INVENTORY_UNKNOWN)
        run->status = INVENTORY_STALE;
    run->then(run);
}

static void lines_on_reply(void *ctx, const struct redis_value *value) {
    struct transaction_part *part = ctx;
    struct transaction_run *run = part->run;
    bool good = store_status(run->shared, value) == INVENTORY_OK;
    if (good && !(run->write == WRITE_NOTHING ? lines_note_read : lines_note_word)(part, value)) {
        snprintf(run->shared->error, sizeof run->shared->error,
                 "item %s is not as the journal of baskets has it", run->transaction->lines[part->line].item);
        good = false;
    }
    lines_count_down(run, good);
}

/* ---- calls ---- */

enum { HEAD = 4 + 2, ARGV_MAX = SCRIPT_ARGV + HEAD + 2 + 2 * INVENTORY_LINES_MAX };

static void lines_call(struct transaction_part *part, const char *what, int more_count,
                       const char *const *more) {
    const struct sale_keys *keys = &part->keys;
    const struct inventory_line *line = &part->run->transaction->lines[part->line];
    char token[FENCING_TOKEN_SIZE] = "";
    if (part->run->transaction->locked && part->run->shared->config.fencing)
        fencing_token_print(token, &line->token);
    const char *argv[ARGV_MAX] = {NULL, NULL, NULL, keys->item, keys->token, keys->shortage};
    int key_count = shared_add_events(part->run->shared, keys, argv + SCRIPT_ARGV, 3);
    int argc = SCRIPT_ARGV + key_count;
    argv[argc++] = what;
    argv[argc++] = token;
    memcpy(argv + argc, more, sizeof *more * (size_t)more_count);
    router_run(part->run->shared->store, &line_script, key_count, argc + more_count, argv, lines_on_reply,
               part);
}

void lines_digest(const struct inventory_transaction *transaction, int line,
                  char digest[INVENTORY_DIGEST_SIZE]) {
    char text[INVENTORY_DIGEST_SIZE + 8];
    int length = snprintf(text, sizeof text, "%s:%d", transaction->nonce, line);
    inventory_key_digest("", text, (size_t)length, digest);
}

void inventory_transaction_order(const struct inventory_transaction *transaction, int line,
                                 struct inventory_order *order) {
    char digest[INVENTORY_DIGEST_SIZE];
    lines_digest(transaction, line, digest);
    *order = (struct inventory_order){.quantity = transaction->lines[line].quantity,
                                      .state = transaction->state,
                                      .created_ms = transaction->created_ms,
                                      .expires_ms = transaction->expires_ms};
    snprintf(order->id, sizeof order->id, "%s:%s", transaction->lines[line].item, digest);
    snprintf(order->item, sizeof order->item, "%s", transaction->lines[line].item);
    snprintf(order->user, sizeof order->user, "%s", transaction->user);
    snprintf(order->basket, sizeof order->basket, "%s", transaction->id);
}

bool inventory_transaction_has_order(const struct inventory_transaction *transaction,
                                     const struct inventory_order *order) {
    for (int i = 0; i < transaction->count; i++) {
        struct inventory_order of_line;
        inventory_transaction_order(transaction, i, &of_line);
        if (strcmp(of_line.id, order->id) == 0)
            return true;
    }
    return false;
}

/* Adds the digests of the part's lines, then their records as line.lua writes them: held or sold orders, or
 * aborted ones. */
static int lines_add_lines(const struct transaction_part *part, enum line_write write, const char **argv,
                           char digests[][INVENTORY_DIGEST_SIZE], char records[][RECORD_SIZE]) {
    const struct inventory_transaction *transaction = part->run->transaction;
    bool debit = write == WRITE_DEBIT || write == WRITE_SELL;
    int lines[INVENTORY_LINES_MAX], n = lines_of(part, lines);
    for (int i = 0; i < n; i++) {
        struct inventory_order order;
        lines_order_after(transaction, lines[i], debit ? write : WRITE_ABORT, &order);
        record_print(records[i], &order);
        lines_digest(transaction, lines[i], digests[i]);
        argv[i] = digests[i];
        argv[n + i] = records[i];
    }
    return 2 * n;
}

static void lines_write_basket(struct transaction_part *part) {
    const struct transaction_run *run = part->run;
    char digests[INVENTORY_LINES_MAX][INVENTORY_DIGEST_SIZE], records[INVENTORY_LINES_MAX][RECORD_SIZE];
    enum line_write write = run->write;
    bool debit = write == WRITE_DEBIT || write == WRITE_SELL;
    const char *more[2 + 2 * INVENTORY_LINES_MAX];
    struct number now = number_of(clock_wall_ms(run->shared->config.clock));
    more[0] = debit ? now.text : writes[write].state;
    more[1] = run->transaction->user;
    int count = lines_add_lines(part, write, more + 2, digests, records);
    lines_call(part, debit ? "debit" : write == WRITE_DISOWN ? "disown" : "settle", 2 + count, more);
}

static void lines_write_transfer(struct transaction_part *part) {
    struct number quantity = number_of(part->quantity);
    const char *const more[] = {part->run->transaction->nonce, quantity.text, part->run->transaction->id};
    lines_call(part, writes[part->run->write].transfer, 3, more);
}

/* Sends a call for each part, or for the part of one line. They leave together, so the store syncs its file
 * once. The caller counts down once all are sent. */
static void lines_send(struct transaction_run *run, enum line_write write, const char *step, int line,
                       transaction_part_fn *fn, transaction_run_fn *then) {
    run->write = write;
    run->then = then;
    run->status = INVENTORY_OK;
    run->stale = run->lacks = false;
    run->decided = PHASE_NONE;
    run->pending = 1; /* until all calls are sent */
    for (int p = 0; p < run->part_count; p++) {
        if (run->parts[p].done || (line >= 0 && run->parts[p].line != line))
            continue;
        failpoint(run->shared, "before", step, p);
        run->pending++;
        fn(&run->parts[p]);
        failpoint(run->shared, "after", step, p);
    }
}

static void lines_read_part(struct transaction_part *part) {
    const char *more[1 + ITEM_FIELDS] = {part->run->transaction->user};
    memcpy(more + 1, item_fields, sizeof item_fields);
    lines_call(part, part->run->fenced ? "read-fenced" : "read", 1 + ITEM_FIELDS, more);
}

static void lines_begin_read(struct transaction_run *run, transaction_part_fn *fn, transaction_run_fn *then) {
    run->hold_ms = 0;
    run->now_ms = clock_wall_ms(run->shared->config.clock);
    lines_send(run, WRITE_NOTHING, "read", -1, fn, then);
}

void lines_read(struct transaction_run *run, bool fenced, transaction_run_fn *then) {
    run->fenced = fenced;
    lines_begin_read(run, lines_read_part, then);
}

static void lines_on_item(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    struct transaction_part *part = ctx;
    if (status == INVENTORY_OK)
        lines_judge(part, item, 0);
    else if (status == INVENTORY_UNKNOWN_ITEM)
        lines_fail(part->run, status, part->line, 0);
    lines_count_down(part->run, status == INVENTORY_OK || status == INVENTORY_UNKNOWN_ITEM);
}

static void lines_ask_item(struct transaction_part *part) {
    struct transaction_run *run = part->run;
    inventory_item_get(run->transactions->inventory, run->transaction->lines[part->line].item, lines_on_item,
                       part);
}

void lines_check(struct transaction_run *run, transaction_run_fn *then) {
    lines_begin_read(run, lines_ask_item, then);
    lines_count_down(run, true);
}

void lines_write(struct transaction_run *run, enum line_write write, transaction_run_fn *then) {
    bool basket = run->transaction->kind == INVENTORY_BASKET;
    lines_send(run, write, writes[write].step, basket ? -1 : writes[write].line,
               basket ? lines_write_basket : lines_write_transfer, then);
    lines_count_down(run, true);
}

void lines_each_part(struct transaction_run *run, enum line_write write, const char *failpoint_name,
                     transaction_part_fn *fn, transaction_run_fn *then) {
    lines_send(run, write, failpoint_name, -1, fn, then);
    lines_count_down(run, true);
}
