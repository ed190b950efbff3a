#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/judge/request_log.h"

void request_log_init(struct request_log *log) {
    memset(log, 0, sizeof *log);
    log->reason_count = 1;
}

void request_log_free(struct request_log *log) {
    free(log->lines);
    free(log->orders);
    free(log->ids);
    free(log->key_order);
    memset(log, 0, sizeof *log);
}

/* Makes *array hold `needed` elements, by doubling. */
static bool grow(void **array, size_t *capacity, size_t needed, size_t size) {
    if (needed <= *capacity) {
        return true;
    }
    size_t wanted = *capacity < 1024 ? 1024 : *capacity * 2;
    if (wanted < needed) {
        wanted = needed;
    }
    void *bigger = reallocarray(*array, wanted, size);
    if (bigger == NULL) {
        return false;
    }
    *array = bigger;
    *capacity = wanted;
    return true;
}

bool request_log_reserve(struct request_log *log, size_t lines) {
    void *array = log->lines;
    bool good = grow(&array, &log->line_capacity, log->line_count + lines, sizeof *log->lines);
    log->lines = array;
    return good;
}

struct log_line *request_log_add(struct request_log *log) {
    if (log->line_count == UINT32_MAX || !request_log_reserve(log, 1)) {
        return NULL;
    }
    struct log_line *line = &log->lines[log->line_count++];
    memset(line, 0, sizeof *line);
    return line;
}

static bool reserve_order(struct request_log *log, size_t id_size) {
    void *array = log->orders;
    bool good = log->order_count < UINT32_MAX - 1 &&
                grow(&array, &log->order_capacity, log->order_count + 1, sizeof *log->orders);
    log->orders = array;
    if (!good) {
        return false;
    }
    array = log->ids;
    good = grow(&array, &log->ids_capacity, log->ids_length + id_size, 1);
    log->ids = array;
    return good;
}

struct log_order *request_log_acknowledge(struct request_log *log, struct log_line *line, uint8_t part,
                                          const char *id, size_t id_length) {
    if (!reserve_order(log, id_length + 1)) {
        log->order_count -= part;
        return NULL;
    }
    char *copy = log->ids + log->ids_length;
    memcpy(copy, id, id_length);
    copy[id_length] = '\0';
    struct log_order *order = &log->orders[log->order_count];
    *order = (struct log_order){
        .id = log->ids_length,
        .answered_ns = line->answered_ns,
        .line = (uint32_t)(line - log->lines),
        .part = part,
    };
    log->ids_length += id_length + 1;
    if (part == 0) {
        line->order = (uint32_t)log->order_count;
    }
    log->order_count++;
    return order;
}

/* A reason comes from the seller and goes to terminals: only letters, digits and -_. are kept. */
static size_t clean_reason(const char *name, size_t length, char clean[REQUEST_LOG_REASON]) {
    size_t kept = length < REQUEST_LOG_REASON ? length : REQUEST_LOG_REASON - 1;
    for (size_t i = 0; i < kept; i++) {
        bool allowed = isalnum((unsigned char)name[i]) || strchr("-_.", name[i]) != NULL;
        clean[i] = '?';
        if (allowed && name[i] != '\0') {
            clean[i] = name[i];
        }
    }
    clean[kept] = '\0';
    return kept;
}

uint8_t request_log_reason(struct request_log *log, const char *name, size_t length) {
    char clean[REQUEST_LOG_REASON];
    size_t kept = clean_reason(name, length, clean);
    for (unsigned i = 1; i < log->reason_count; i++) {
        if (strcmp(log->reasons[i], clean) == 0) {
            return (uint8_t)i;
        }
    }
    if (log->reason_count == REQUEST_LOG_REASONS) {
        return REQUEST_LOG_REASONS - 1;
    }
    unsigned number = log->reason_count++;
    if (number == REQUEST_LOG_REASONS - 1) {
        strcpy(log->reasons[number], "other");
    } else {
        memcpy(log->reasons[number], clean, kept + 1);
    }
    return (uint8_t)number;
}

const char *request_log_order_id(const struct request_log *log, const struct log_order *order) {
    return log->ids + order->id;
}

static void match(struct request_log *log, uint32_t index) {
    struct log_order *order = &log->orders[index];
    uint32_t *first = &log->key_order[log->lines[order->line].key];
    if (*first == 0) {
        *first = index + 1;
    }
    if (*first - 1 + order->part == index) {
        return;
    }
    struct log_order *known = &log->orders[*first - 1 + order->part];
    for (;;) {
        if (strcmp(request_log_order_id(log, known), request_log_order_id(log, order)) == 0) {
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
        known = &log->orders[known->next];
    }
}

bool request_log_match(struct request_log *log) {
    free(log->key_order);
    log->key_order = calloc((size_t)log->key_count + 1, sizeof *log->key_order);
    if (log->key_order == NULL) {
        return false;
    }
    for (size_t i = 0; i < log->order_count; i++) {
        log->orders[i].extra = false;
        log->orders[i].differs = false;
        log->orders[i].next = 0;
    }
    for (size_t i = 0; i < log->order_count; i++) {
        match(log, (uint32_t)i);
    }
    return true;
}
