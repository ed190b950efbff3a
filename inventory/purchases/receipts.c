#include "inventory/purchases/receipts.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 1024, PASS_MOST = 4096, SLAB_SIZE = 65536 };

/* ---- memory: one behind the other, in slabs ----
 * Receipts are forgotten in nearly the order in which they came. With malloc() they would lie between the
 * memory of requests, and a purchase would cost a third more. */

struct receipt_slab {
    struct receipt_slab *next; /* in the list of spare slabs */
    size_t size, used;
    int live; /* receipts in it */
};

/* A receipt that is larger than others has a slab of its own. */
static struct receipt_slab *receipts_new_slab(struct receipts *receipts, size_t least) {
    struct receipt_slab *slab = receipts->spare;
    size_t size = least < SLAB_SIZE ? SLAB_SIZE : least;
    if (slab && size == SLAB_SIZE)
        receipts->spare = slab->next;
    else
        slab = malloc(size);
    if (slab)
        *slab = (struct receipt_slab){.size = size, .used = sizeof *slab};
    return slab;
}

static void receipts_drop_slab(struct receipts *receipts, struct receipt_slab *slab) {
    if (slab->size > SLAB_SIZE) {
        free(slab);
        return;
    }
    slab->next = receipts->spare;
    receipts->spare = slab;
}

/* A slab with room for a receipt of this size; NULL: out of memory. */
static struct receipt_slab *receipts_slab_for(struct receipts *receipts, size_t size) {
    struct receipt_slab *last = receipts->slab;
    if (last && last->size - last->used >= size)
        return last;
    struct receipt_slab *slab = receipts_new_slab(receipts, sizeof *slab + size);
    if (!slab)
        return NULL;
    receipts->slab = slab;
    if (last && last->live == 0)
        receipts_drop_slab(receipts, last);
    return slab;
}

static void receipt_free(struct receipts *receipts, struct receipt *receipt) {
    struct receipt_slab *slab = (struct receipt_slab *)((char *)receipt - receipt->at);
    if (--slab->live == 0 && slab != receipts->slab)
        receipts_drop_slab(receipts, slab);
}

void receipts_init(struct receipts *receipts) {
    *receipts = (struct receipts){.max = RECEIPTS_MAX};
    TAILQ_INIT(&receipts->list);
}

void receipts_free(struct receipts *receipts) {
    for (struct receipt *receipt; (receipt = TAILQ_FIRST(&receipts->list));) {
        TAILQ_REMOVE(&receipts->list, receipt, next);
        receipt_free(receipts, receipt);
    }
    for (struct receipt_slab *slab; (slab = receipts->spare);) {
        receipts->spare = slab->next;
        free(slab);
    }
    free(receipts->slab);
    free(receipts->buckets);
    receipts_init(receipts);
}

/* ---- by name ---- */

/* FNV-1a. The names are digests, or chosen by the shop. */
static uint32_t receipts_hash_name(enum receipt_kind kind, const char *place, const char *field) {
    uint64_t hash = (14695981039346656037ULL ^ (uint64_t)kind) * 1099511628211ULL;
    for (; *place; place++)
        hash = (hash ^ (unsigned char)*place) * 1099511628211ULL;
    for (; *field; field++)
        hash = (hash ^ (unsigned char)*field) * 1099511628211ULL;
    return (uint32_t)(hash ^ hash >> 32);
}

static struct receipt **receipts_bucket(const struct receipts *receipts, uint32_t hash) {
    return &receipts->buckets[hash & (receipts->bucket_count - 1)].first;
}

/* There are buckets if there is a receipt: at least as many as receipts, unless out of memory. */
static bool receipts_make_buckets(struct receipts *receipts, size_t count) {
    struct receipt_bucket *buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return false;
    free(receipts->buckets);
    receipts->buckets = buckets;
    receipts->bucket_count = count;
    receipts->unindexed = TAILQ_FIRST(&receipts->list);
    return true;
}

/* Of several receipts of one name, the newest comes first in its bucket. */
static void receipts_enter(struct receipts *receipts, struct receipt *receipt) {
    if (!receipt->indexed)
        receipt->hash = receipts_hash_name(receipt->kind, receipt_place(receipt), receipt_field(receipt));
    receipt->indexed = true;
    struct receipt **first = receipts_bucket(receipts, receipt->hash);
    receipt->chain = *first;
    *first = receipt;
}

static void receipts_enter_all(struct receipts *receipts) {
    size_t wanted = receipts->bucket_count;
    while (wanted <= (size_t)receipts->count)
        wanted *= 2;
    if (wanted > receipts->bucket_count)
        receipts_make_buckets(receipts, wanted);
    for (; receipts->unindexed; receipts->unindexed = TAILQ_NEXT(receipts->unindexed, next))
        receipts_enter(receipts, receipts->unindexed);
}

struct receipt *receipts_find(struct receipts *receipts, enum receipt_kind kind, const char *place,
                              const char *field) {
    if (receipts->count == 0)
        return NULL;
    receipts_enter_all(receipts);
    uint32_t hash = receipts_hash_name(kind, place, field);
    struct receipt *receipt = *receipts_bucket(receipts, hash);
    while (receipt &&
           (receipt->hash != hash || receipt->kind != kind || strcmp(receipt_field(receipt), field) != 0 ||
            strcmp(receipt_place(receipt), place) != 0))
        receipt = receipt->chain;
    return receipt;
}

static struct receipts_history *receipts_history_of(struct receipts *receipts, unsigned number) {
    int i = 0;
    while (i < receipts->history_count && receipts->histories[i].number != number)
        i++;
    return i < receipts->history_count ? &receipts->histories[i] : NULL;
}

struct receipt *receipts_find_seq(struct receipts *receipts, enum receipt_kind kind, const char *place,
                                  const char *field, uint64_t seq) {
    struct receipt *receipt = receipts_find(receipts, kind, place, field);
    while (receipt && receipt->seq != seq)
        receipt = receipt->chain; /* older ones follow the newest; no other name has this seq */
    return receipt;
}

static void receipts_leave_index(struct receipts *receipts, struct receipt *receipt) {
    struct receipt **at = receipts_bucket(receipts, receipt->hash);
    while (*at != receipt)
        at = &(*at)->chain;
    *at = receipt->chain;
}

void receipts_remove(struct receipts *receipts, struct receipt *receipt) {
    if (receipt->indexed)
        receipts_leave_index(receipts, receipt);
    if (receipts->unindexed == receipt)
        receipts->unindexed = TAILQ_NEXT(receipt, next);
    if (receipts->ticked == receipt)
        receipts->ticked = TAILQ_PREV(receipt, receipt_list, next);
    for (int i = 0; i < receipts->history_count; i++) {
        if (receipts->histories[i].passed == receipt)
            receipts->histories[i].passed = TAILQ_PREV(receipt, receipt_list, next);
    }
    TAILQ_REMOVE(&receipts->list, receipt, next);
    receipts->count--;
    receipts->todo -= receipt->todo;
    receipt_free(receipts, receipt);
}

void receipts_mark(struct receipts *receipts, struct receipt *receipt, bool todo) {
    receipts->todo += todo - receipt->todo;
    receipt->todo = todo;
    receipt->busy = false;
}

/* ---- coverage ---- */

static bool receipts_is_replicated(struct receipts *receipts, const struct receipt *receipt) {
    const struct receipts_history *history = receipts_history_of(receipts, receipt->history);
    return receipt->history == 0 || (history && receipt->seq <= history->replicated);
}

bool receipts_is_synced(struct receipts *receipts, unsigned number) {
    const struct receipts_history *history = receipts_history_of(receipts, number);
    return history && history->synced;
}

void receipts_set_synced(struct receipts *receipts, unsigned number, bool synced) {
    struct receipts_history *history = receipts_history_of(receipts, number);
    if (history)
        history->synced = synced;
}

void receipts_set_away(struct receipts *receipts, unsigned number, bool away) {
    struct receipts_history *history = receipts_history_of(receipts, number);
    if (history)
        history->away = away;
}

bool receipts_skip(struct receipts *receipts, unsigned number) {
    if (receipts->count > 0 || !receipts_is_synced(receipts, number))
        return false;
    receipts_history_of(receipts, number)->dropped = ++receipts->seq;
    return true;
}

uint64_t receipts_dropped(struct receipts *receipts, unsigned number) {
    const struct receipts_history *history = receipts_history_of(receipts, number);
    return history ? history->dropped : 0;
}

int receipts_open(struct receipts *receipts) {
    const struct receipt *receipt = TAILQ_FIRST(&receipts->list);
    int open = 0;
    for (; receipt; receipt = TAILQ_NEXT(receipt, next))
        open += receipt->todo || !receipts_is_replicated(receipts, receipt);
    return open;
}

void receipts_begin_history(struct receipts *receipts, unsigned number) {
    receipts->histories[receipts->history_count++] = (struct receipts_history){.number = number};
}

void receipts_end_history(struct receipts *receipts, unsigned number) {
    struct receipts_history *history = receipts_history_of(receipts, number);
    receipts->forgotten |= history->forgotten > history->replicated;
    *history = receipts->histories[--receipts->history_count];
}

void receipts_begin_pass(struct receipts *receipts, unsigned number) {
    receipts_history_of(receipts, number)->passed = NULL;
}

struct receipt *receipts_pass(struct receipts *receipts, unsigned number) {
    struct receipts_history *history = receipts_history_of(receipts, number);
    struct receipt *receipt;
    do {
        receipt = history->passed ? TAILQ_NEXT(history->passed, next) : TAILQ_FIRST(&receipts->list);
        history->passed = receipt ? receipt : history->passed;
    } while (receipt && receipt->history == number);
    return receipt;
}

void receipts_set_replicated(struct receipts *receipts, unsigned number, uint64_t seq) {
    struct receipts_history *history = receipts_history_of(receipts, number);
    if (history && seq > history->replicated)
        history->replicated = seq;
}

bool receipts_take_forgotten(struct receipts *receipts, unsigned number) {
    struct receipts_history *history = receipts_history_of(receipts, number);
    bool forgotten = history ? history->forgotten > history->replicated : number == 0 && receipts->forgotten;
    if (history)
        history->forgotten = 0;
    else if (number == 0)
        receipts->forgotten = false;
    return forgotten;
}

static void receipts_note_forgotten(struct receipts *receipts, unsigned number, uint64_t seq) {
    struct receipts_history *history = receipts_history_of(receipts, number);
    if (!history)
        receipts->forgotten = true;
    else if (history->forgotten < seq)
        history->forgotten = seq;
}

/* ---- adding and forgetting ---- */

static struct receipt *receipt_new(struct receipts *receipts, enum receipt_kind kind, const char *place,
                                   const char *field, const char *record) {
    size_t place_size = strlen(place) + 1, field_size = strlen(field) + 1, record_size = strlen(record) + 1;
    size_t size = sizeof(struct receipt) + place_size + field_size + record_size;
    size = (size + _Alignof(struct receipt) - 1) / _Alignof(struct receipt) * _Alignof(struct receipt);
    struct receipt_slab *slab = receipts_slab_for(receipts, size);
    if (!slab)
        return NULL;
    struct receipt *receipt = (struct receipt *)((char *)slab + slab->used);
    *receipt = (struct receipt){.at = (uint32_t)slab->used,
                                .kind = kind,
                                .field_at = (uint16_t)place_size,
                                .record_at = (uint16_t)(place_size + field_size)};
    memcpy(receipt->text, place, place_size);
    memcpy(receipt->text + place_size, field, field_size);
    memcpy(receipt->text + place_size + field_size, record, record_size);
    slab->used += size;
    slab->live++;
    return receipt;
}

/* The version of an order's record; see record.h. */
static long receipts_version(const char *record) {
    return record[0] && record[1] != ' ' ? strtol(record + 1, NULL, 10) : 1;
}

static void receipts_drop(struct receipts *receipts, struct receipt *receipt) {
    struct receipts_history *history = receipts_history_of(receipts, receipt->history);
    if (history && history->dropped < receipt->seq)
        history->dropped = receipt->seq;
    receipts_remove(receipts, receipt);
}

static void receipts_forget_one(struct receipts *receipts) {
    struct receipt *oldest = TAILQ_FIRST(&receipts->list);
    if (!receipts_is_replicated(receipts, oldest))
        receipts_note_forgotten(receipts, oldest->history, oldest->seq);
    receipts_drop(receipts, oldest);
}

void receipts_add(struct receipts *receipts, enum receipt_kind kind, const char *place, const char *field,
                  const char *record, unsigned history, int64_t now_ms, bool is_first) {
    bool can_find = receipts->buckets || receipts_make_buckets(receipts, FIRST_BUCKETS);
    struct receipt *receipt = can_find ? receipt_new(receipts, kind, place, field, record) : NULL;
    receipts->seq++;
    if (!receipt) {
        receipts_note_forgotten(receipts, history, receipts->seq);
        return;
    }
    struct receipt *older = is_first ? NULL : receipts_find(receipts, kind, place, field);
    if (older && kind == RECEIPT_ORDER &&
        receipts_version(receipt_record(older)) > receipts_version(record)) {
        /* It was read on another connection, before the other receipt's version was written. */
        receipt_free(receipts, receipt);
        return;
    }
    if (older && older->todo)
        older = NULL; /* an attempt that must still be undone: it stays */
    if (older)
        receipts_remove(receipts, older);
    else if (receipts->count >= receipts->max)
        receipts_forget_one(receipts);
    receipt->seq = receipts->seq;
    receipt->at_ms = now_ms;
    receipt->history = history;
    TAILQ_INSERT_TAIL(&receipts->list, receipt, next);
    if (!receipts->unindexed)
        receipts->unindexed = receipt;
    receipts->count++;
}

void receipts_adopt(struct receipts *receipts, struct receipt *receipt, unsigned history, int64_t now_ms) {
    receipt->at_ms = now_ms;
    receipt->history = history;
    receipt->seq = ++receipts->seq;
}

/* Whether the receipt goes. `all_stay`: whether all behind it stay. */
static bool receipts_is_old(struct receipts *receipts, const struct receipt *receipt, int64_t now_ms,
                            bool *all_stay) {
    const struct receipts_history *history = receipts_history_of(receipts, receipt->history);
    int64_t age_ms = history && history->synced ? INT64_MAX : now_ms - receipt->at_ms;
    bool many = receipts->count > RECEIPTS_REPLICATED_MOST;
    bool replicated = receipts_is_replicated(receipts, receipt) && !(history && history->away);
    *all_stay = age_ms <= RECEIPTS_REPLICATED_SHORT_MS ||
                (!many && (!replicated || age_ms <= RECEIPTS_REPLICATED_LONG_MS));
    return replicated && !*all_stay && !receipt->todo;
}

/* Receipts behind the first one that is not replicated stay for longer, unless there are many. A call passes
 * over at most PASS_MOST receipts, since the loop's other work waits; the next call goes on there. */
void receipts_tick(struct receipts *receipts, int64_t now_ms) {
    struct receipt *receipt =
        receipts->ticked ? TAILQ_NEXT(receipts->ticked, next) : TAILQ_FIRST(&receipts->list);
    bool all_stay = false;
    for (int passed = 0; receipt && passed < PASS_MOST;) {
        struct receipt *next = TAILQ_NEXT(receipt, next);
        if (receipts_is_old(receipts, receipt, now_ms, &all_stay)) {
            receipts_drop(receipts, receipt);
        } else if (all_stay) {
            break;
        } else {
            receipts->ticked = receipt;
            passed++;
        }
        receipt = next;
    }
    if (!receipt || all_stay)
        receipts->ticked = NULL;
}
