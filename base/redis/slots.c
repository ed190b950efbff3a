#include "base/redis/slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/redis/info.h"

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

bool redis_address_read(struct redis_address *address, const char *host, size_t length, int64_t port,
                        const char *asked) {
    if (length == 0) {
        host = asked;
        length = strlen(asked);
    }
    if (length == 0 || length >= REDIS_HOST_SIZE || (length == 1 && *host == '?') ||
        memchr(host, ' ', length) || memchr(host, '\0', length) || port < 1 || port > 65535)
        return false;
    memcpy(address->host, host, length);
    address->host[length] = '\0';
    address->port = (int)port;
    return true;
}

bool redis_epoch_is_older(int64_t told, int64_t known, int64_t *older_since_ms, int64_t now_ms) {
    if (told >= known)
        return false;
    if (*older_since_ms == 0)
        *older_since_ms = now_ms;
    return now_ms - *older_since_ms < REDIS_OLDER_MS;
}

int64_t redis_slots_epoch(const struct redis_value *reply) {
    const char *info = reply ? redis_value_text(reply) : NULL;
    char epoch[24] = "";
    return info && info_find(info, "cluster_current_epoch", epoch, sizeof epoch) ? strtoll(epoch, NULL, 10)
                                                                                 : 0;
}

/* ---- CLUSTER SLOTS: for each range its first and last slot, its master [host, port, …], its replicas ----
 */

/* The i-th element if it has this type; NULL otherwise. */
static const struct redis_value *element(const struct redis_value *list, size_t i, enum redis_type type) {
    const struct redis_value *value = i < redis_value_count(list) ? redis_value_at(list, i) : NULL;
    return value && redis_value_type(value) == type ? value : NULL;
}

static bool read_master(struct redis_address *address, const struct redis_value *master, const char *asked) {
    const struct redis_value *host = element(master, 0, REDIS_STRING),
                             *port = element(master, 1, REDIS_INTEGER);
    if (!port || (!host && !element(master, 0, REDIS_NIL)))
        return false;
    return redis_address_read(address, host ? redis_value_text(host) : "",
                              host ? redis_value_length(host) : 0, redis_value_integer(port, 0), asked);
}

/* The number of this master; REDIS_SLOT_NOBODY: there are too many. */
static int16_t find_or_add(struct redis_slots *slots, const struct redis_address *address) {
    int i = 0;
    while (i < slots->masters && !redis_address_is_same(&slots->master[i], address))
        i++;
    if (i == REDIS_MASTERS_MAX)
        return REDIS_SLOT_NOBODY;
    if (i == slots->masters)
        slots->master[slots->masters++] = *address;
    return (int16_t)i;
}

static void read_range(struct redis_slots *slots, const struct redis_value *range, const char *asked) {
    const struct redis_value *first = element(range, 0, REDIS_INTEGER),
                             *last = element(range, 1, REDIS_INTEGER),
                             *master = element(range, 2, REDIS_ARRAY);
    struct redis_address address;
    if (!first || !last || !master)
        return;
    int64_t from = redis_value_integer(first, -1), to = redis_value_integer(last, -1);
    if (from < 0 || from > to || to >= REDIS_SLOTS || !read_master(&address, master, asked))
        return;
    int16_t number = find_or_add(slots, &address);
    for (int64_t slot = from; slot <= to; slot++)
        slots->of_slot[slot] = number;
}

bool redis_slots_read(struct redis_slots *slots, const struct redis_value *reply, const char *asked,
                      int64_t epoch, int64_t now_ms) {
    if (epoch != 0 && redis_epoch_is_older(epoch, slots->epoch, &slots->older_since_ms, now_ms))
        return false;
    struct redis_slots *read = calloc(1, sizeof *read);
    if (!read)
        return false;
    read->epoch = epoch;
    for (int i = 0; i < REDIS_SLOTS; i++)
        read->of_slot[i] = REDIS_SLOT_NOBODY;
    for (size_t i = 0; i < redis_value_count(reply); i++)
        read_range(read, redis_value_at(reply, i), asked);
    bool found = read->masters > 0;
    if (found)
        *slots = *read;
    free(read);
    return found;
}

/* ---- the servers ---- */

void redis_owners_set(struct redis_owners *owners, int slot, void *owner) {
    owners->moves += owners->of_slot[slot] != owner;
    owners->of_slot[slot] = owner;
}

void redis_owners_install(struct redis_owners *owners, const struct redis_slots *slots,
                          void *const masters[]) {
    for (int slot = 0; slot < REDIS_SLOTS; slot++) {
        int16_t master = slots->of_slot[slot];
        redis_owners_set(owners, slot, master == REDIS_SLOT_NOBODY ? NULL : masters[master]);
    }
}

void redis_owners_forget(struct redis_owners *owners, const void *owner) {
    for (int slot = 0; slot < REDIS_SLOTS; slot++) {
        if (owners->of_slot[slot] == owner)
            redis_owners_set(owners, slot, NULL);
    }
}

bool redis_server_is_over(int64_t *idle_since_ms, bool is_idle, int64_t now_ms) {
    if (!is_idle || *idle_since_ms == 0)
        *idle_since_ms = is_idle ? now_ms : 0;
    return is_idle && now_ms - *idle_since_ms >= REDIS_SERVER_IDLE_MS;
}
