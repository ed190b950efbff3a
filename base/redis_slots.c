#include "base/redis_slots.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CRC-16/XMODEM: polynomial 0x1021, from zero, the highest bit first. */
static uint16_t crc16(const char *text, size_t length) {
    uint16_t crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc = (uint16_t)(crc ^ (unsigned char)text[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

int redis_slot(const char *key, size_t length) {
    const char *end = key + length, *open = memchr(key, '{', length);
    const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
    bool tagged = close && close > open + 1;
    return crc16(tagged ? open + 1 : key, tagged ? (size_t)(close - open - 1) : length) % REDIS_SLOTS;
}

bool redis_address_is_same(const struct redis_address *a, const struct redis_address *b) {
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* False: nobody knows the host (`?`), or it cannot be one. */
static bool read_host(char host[REDIS_HOST_SIZE], const char *text, size_t length, const char *asked) {
    if (length == 0) {
        text = asked;
        length = strlen(asked);
    }
    if (length >= REDIS_HOST_SIZE || (length == 1 && *text == '?') || memchr(text, ' ', length) ||
        memchr(text, '\0', length))
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    return length > 0;
}

/* ---- CLUSTER SLOTS: for each range its first and last slot, its master [host, port, …], its replicas ----
 */

static const redisReply *element(const redisReply *reply, size_t i, int type) {
    if (reply->type != REDIS_REPLY_ARRAY || i >= reply->elements)
        return NULL;
    return reply->element[i]->type == type ? reply->element[i] : NULL;
}

static bool read_master(struct redis_address *address, const redisReply *master, const char *asked) {
    const redisReply *host = element(master, 0, REDIS_REPLY_STRING),
                     *port = element(master, 1, REDIS_REPLY_INTEGER);
    bool null = element(master, 0, REDIS_REPLY_NIL) != NULL;
    if ((!host && !null) || !port || port->integer < 1 || port->integer > 65535)
        return false;
    address->port = (int)port->integer;
    return read_host(address->host, host ? host->str : "", host ? (size_t)host->len : 0, asked);
}

/* The number of this master; -1: there are too many. */
static int16_t number_of(struct redis_slots *slots, const struct redis_address *address) {
    int i = 0;
    while (i < slots->masters && !redis_address_is_same(&slots->master[i], address))
        i++;
    if (i == REDIS_MASTERS_MAX)
        return REDIS_SLOT_NOBODY;
    if (i == slots->masters)
        slots->master[slots->masters++] = *address;
    return (int16_t)i;
}

static void read_range(struct redis_slots *slots, const redisReply *range, const char *asked) {
    const redisReply *first = element(range, 0, REDIS_REPLY_INTEGER),
                     *last = element(range, 1, REDIS_REPLY_INTEGER),
                     *master = element(range, 2, REDIS_REPLY_ARRAY);
    struct redis_address address;
    if (!first || !last || !master || first->integer < 0 || first->integer > last->integer ||
        last->integer >= REDIS_SLOTS || !read_master(&address, master, asked))
        return;
    int16_t number = number_of(slots, &address);
    for (long long slot = first->integer; slot <= last->integer; slot++)
        slots->of_slot[slot] = number;
}

bool redis_slots_read(struct redis_slots *slots, const struct redisReply *reply, const char *asked) {
    struct redis_slots *read = calloc(1, sizeof *read);
    if (!read)
        return false;
    for (int i = 0; i < REDIS_SLOTS; i++)
        read->of_slot[i] = REDIS_SLOT_NOBODY;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        read_range(read, reply->element[i], asked);
    bool found = read->masters > 0;
    if (found)
        *slots = *read;
    free(read);
    return found;
}

/* ---- redirections ---- */

enum redis_redirect redis_redirect_read(const char *error, const char *asked, int *slot,
                                        struct redis_address *address) {
    bool moved = strncmp(error, "MOVED ", 6) == 0;
    if (!moved && strncmp(error, "ASK ", 4) != 0)
        return REDIS_NO_REDIRECT;
    char *end;
    long number = strtol(error + (moved ? 6 : 4), &end, 10);
    const char *host = *end == ' ' ? end + 1 : "", *colon = strrchr(host, ':'); /* an IPv6 address has more */
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    struct redis_address read = {.port = (int)port};
    if (number < 0 || number >= REDIS_SLOTS || port < 1 || port > 65535 || *end ||
        !read_host(read.host, host, (size_t)(colon - host), asked))
        return REDIS_NO_REDIRECT;
    *slot = (int)number;
    *address = read;
    return moved ? REDIS_MOVED : REDIS_ASK;
}

bool redis_error_is_passing(const char *error) {
    static const char *const words[] = {"TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "LOADING"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(error, words[i], strlen(words[i])) == 0)
            return true;
    }
    return false;
}
