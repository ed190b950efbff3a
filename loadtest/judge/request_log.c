#include <ctype.h>
#include <stdio.h>
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

/* Makes the array hold `needed` elements, by doubling. NULL when out of memory. */
static void *grow(void *array, size_t *capacity, size_t needed, size_t size) {
    if (needed <= *capacity)
        return array;
    size_t wanted = *capacity < 1024 ? 1024 : *capacity * 2;
    if (wanted < needed)
        wanted = needed;
    void *bigger = reallocarray(array, wanted, size);
    if (bigger != NULL)
        *capacity = wanted;
    return bigger;
}

struct log_line *request_log_add(struct request_log *log) {
    if (log->line_count == UINT32_MAX)
        return NULL;
    struct log_line *lines = grow(log->lines, &log->line_capacity, log->line_count + 1, sizeof *log->lines);
    if (lines == NULL)
        return NULL;
    log->lines = lines;
    lines[log->line_count] = (struct log_line){.key = 0};
    return &lines[log->line_count++];
}

static bool reserve_order(struct request_log *log, size_t id_size) {
    if (log->order_count >= UINT32_MAX - 1)
        return false;
    struct log_order *orders =
        grow(log->orders, &log->order_capacity, log->order_count + 1, sizeof *log->orders);
    log->orders = orders != NULL ? orders : log->orders;
    char *ids = grow(log->ids, &log->ids_capacity, log->ids_length + id_size, 1);
    log->ids = ids != NULL ? ids : log->ids;
    return orders != NULL && ids != NULL;
}

struct log_order *request_log_acknowledge(struct request_log *log, struct log_line *line, uint8_t part,
                                          const char *id, size_t id_length) {
    if (!reserve_order(log, id_length + 1)) {
        log->order_count -= part;
        return NULL;
    }
    struct log_order *order = &log->orders[log->order_count];
    *order = (struct log_order){
        .id = log->ids_length,
        .answered_ns = line->answered_ns,
        .line = (uint32_t)(line - log->lines),
        .part = part,
    };
    memcpy(log->ids + order->id, id, id_length);
    log->ids[order->id + id_length] = '\0';
    log->ids_length += id_length + 1;
    if (part == 0)
        line->order = (uint32_t)log->order_count;
    log->order_count++;
    return order;
}

/* A reason comes from the seller and goes to terminals: only letters, digits and -_. are kept. */
static void clean_reason(const char *name, size_t length, char clean[REQUEST_LOG_REASON]) {
    size_t kept = length < REQUEST_LOG_REASON ? length : REQUEST_LOG_REASON - 1;
    for (size_t i = 0; i < kept; i++) {
        char byte = name[i];
        clean[i] = isalnum((unsigned char)byte) || byte == '-' || byte == '_' || byte == '.' ? byte : '?';
    }
    clean[kept] = '\0';
}

uint8_t request_log_reason(struct request_log *log, const char *name, size_t length) {
    char clean[REQUEST_LOG_REASON];
    clean_reason(name, length, clean);
    for (unsigned i = 1; i < log->reason_count; i++) {
        if (strcmp(log->reasons[i], clean) == 0)
            return (uint8_t)i;
    }
    if (log->reason_count == REQUEST_LOG_REASONS)
        return REQUEST_LOG_REASONS - 1;
    unsigned number = log->reason_count++;
    snprintf(log->reasons[number], REQUEST_LOG_REASON, "%s",
             number == REQUEST_LOG_REASONS - 1 ? "other" : clean);
    return (uint8_t)number;
}

const char *request_log_order_id(const struct request_log *log, const struct log_order *order) {
    return log->ids + order->id;
}

static void match(struct request_log *log, uint32_t index) {
    struct log_order *order = &log->orders[index];
    uint32_t *first = &log->key_order[log->lines[order->line].key];
    order->extra = order->differs = false;
    order->next = 0;
    if (*first == 0)
        *first = index + 1;
    if (*first - 1 + order->part == index)
        return;
    struct log_order *known = &log->orders[*first - 1 + order->part];
    while (strcmp(request_log_order_id(log, known), request_log_order_id(log, order)) != 0) {
        if (order->absent) {
            order->extra = order->differs = true;
            return;
        }
        if (known->next == 0) {
            known->next = index;
            return;
        }
        known = &log->orders[known->next];
    }
    order->extra = true;
    order->differs = known->content != order->content;
}

bool request_log_match(struct request_log *log) {
    free(log->key_order);
    log->key_order = calloc((size_t)log->key_count + 1, sizeof *log->key_order);
    for (size_t i = 0; log->key_order != NULL && i < log->order_count; i++)
        match(log, (uint32_t)i);
    return log->key_order != NULL;
}
