#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/judge/request_log.h"

void ledger_init(struct ledger *ledger) {
    memset(ledger, 0, sizeof *ledger);
    ledger->reason_count = 1;
}

void ledger_free(struct ledger *ledger) {
    free(ledger->lines);
    free(ledger->orders);
    free(ledger->ids);
    free(ledger->key_order);
    memset(ledger, 0, sizeof *ledger);
}

/* Makes *array hold `needed` elements, by doubling. */
static bool grow(void **array, size_t *room, size_t needed, size_t size) {
    if (needed <= *room) {
        return true;
    }
    size_t wanted = *room < 1024 ? 1024 : *room * 2;
    if (wanted < needed) {
        wanted = needed;
    }
    void *bigger = reallocarray(*array, wanted, size);
    if (bigger == NULL) {
        return false;
    }
    *array = bigger;
    *room = wanted;
    return true;
}

bool ledger_reserve(struct ledger *ledger, size_t lines) {
    void *array = ledger->lines;
    bool good = grow(&array, &ledger->line_room, ledger->line_count + lines, sizeof *ledger->lines);
    ledger->lines = array;
    return good;
}

struct ledger_line *ledger_add(struct ledger *ledger) {
    if (ledger->line_count == UINT32_MAX || !ledger_reserve(ledger, 1)) {
        return NULL;
    }
    struct ledger_line *line = &ledger->lines[ledger->line_count++];
    memset(line, 0, sizeof *line);
    return line;
}

static bool make_room(struct ledger *ledger, size_t id_size) {
    void *array = ledger->orders;
    bool good = ledger->order_count < UINT32_MAX - 1 &&
                grow(&array, &ledger->order_room, ledger->order_count + 1, sizeof *ledger->orders);
    ledger->orders = array;
    if (!good) {
        return false;
    }
    array = ledger->ids;
    good = grow(&array, &ledger->ids_room, ledger->ids_length + id_size, 1);
    ledger->ids = array;
    return good;
}

struct ledger_order *ledger_acknowledge(struct ledger *ledger, struct ledger_line *line, uint8_t part,
                                        const char *id, size_t id_length) {
    if (!make_room(ledger, id_length + 1)) {
        ledger->order_count -= part;
        return NULL;
    }
    char *copy = ledger->ids + ledger->ids_length;
    memcpy(copy, id, id_length);
    copy[id_length] = '\0';
    struct ledger_order *order = &ledger->orders[ledger->order_count];
    *order = (struct ledger_order){
        .id = ledger->ids_length,
        .answered_ns = line->answered_ns,
        .line = (uint32_t)(line - ledger->lines),
        .part = part,
    };
    ledger->ids_length += id_length + 1;
    if (part == 0) {
        line->order = (uint32_t)ledger->order_count;
    }
    ledger->order_count++;
    return order;
}

/* A reason is shown on terminals and comes from the seller: nothing but what a name is made of. */
static size_t clean_reason(const char *name, size_t length, char clean[LEDGER_REASON]) {
    size_t kept = length < LEDGER_REASON ? length : LEDGER_REASON - 1;
    for (size_t i = 0; i < kept; i++) {
        bool fine = isalnum((unsigned char)name[i]) || strchr("-_.", name[i]) != NULL;
        clean[i] = '?';
        if (fine && name[i] != '\0') {
            clean[i] = name[i];
        }
    }
    clean[kept] = '\0';
    return kept;
}

uint8_t ledger_reason(struct ledger *ledger, const char *name, size_t length) {
    char clean[LEDGER_REASON];
    size_t kept = clean_reason(name, length, clean);
    for (unsigned i = 1; i < ledger->reason_count; i++) {
        if (strcmp(ledger->reasons[i], clean) == 0) {
            return (uint8_t)i;
        }
    }
    if (ledger->reason_count == LEDGER_REASONS) {
        return LEDGER_REASONS - 1;
    }
    unsigned number = ledger->reason_count++;
    if (number == LEDGER_REASONS - 1) {
        strcpy(ledger->reasons[number], "other");
    } else {
        memcpy(ledger->reasons[number], clean, kept + 1);
    }
    return (uint8_t)number;
}

const char *ledger_order_id(const struct ledger *ledger, const struct ledger_order *order) {
    return ledger->ids + order->id;
}

static void match(struct ledger *ledger, uint32_t index) {
    struct ledger_order *order = &ledger->orders[index];
    uint32_t *first = &ledger->key_order[ledger->lines[order->line].key];
    if (*first == 0) {
        *first = index + 1;
    }
    if (*first - 1 + order->part == index) {
        return;
    }
    struct ledger_order *known = &ledger->orders[*first - 1 + order->part];
    for (;;) {
        if (strcmp(ledger_order_id(ledger, known), ledger_order_id(ledger, order)) == 0) {
            order->extra = true;
            order->differs = known->content != order->content;
            return;
        }
        if (order->absent) {
            order->extra = true;
            order->differs = true;
            return;
        }
        if (known->next == 0) {
            known->next = index;
            return;
        }
        known = &ledger->orders[known->next];
    }
}

bool ledger_match(struct ledger *ledger) {
    free(ledger->key_order);
    ledger->key_order = calloc((size_t)ledger->key_count + 1, sizeof *ledger->key_order);
    if (ledger->key_order == NULL) {
        return false;
    }
    for (size_t i = 0; i < ledger->order_count; i++) {
        ledger->orders[i].extra = false;
        ledger->orders[i].differs = false;
        ledger->orders[i].next = 0;
    }
    for (size_t i = 0; i < ledger->order_count; i++) {
        match(ledger, (uint32_t)i);
    }
    return true;
}
