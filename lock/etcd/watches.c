#include "lock/etcd/waits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Who is told looks now and then all the same. */
enum { BUCKETS = 256, LOOK_MS = 1000, DEAF_LOOK_MS = 20, LINGER_S = 10, SWEEP_MS = 500 };

/* One lock, and its watch. */
struct room {
    struct room *next;
    struct etcd_waits *waits;
    char range[ETCD_KEY_SIZE];
    struct etcd_watch *watch;
    bool is_deaf;     /* the watch has ended */
    int64_t newest;   /* the revision up to which it has told */
    bool has_begun;   /* … once it has begun */
    int count;        /* of those who wait */
    int64_t empty_ns; /* since when nobody does */
    struct wait *first;
};

struct wait {
    struct wait *next;            /* in its bucket */
    struct wait *before, *behind; /* in its room */
    struct room *room;
    char key[LOCK_KEY_MAX + 1], owner[LOCK_OWNER_SIZE];
    struct etcd_place place;
};

struct etcd_waits {
    struct etcd_session *session;
    bool prefix;
    pthread_mutex_t mutex; /* not held while a watch is cancelled, which waits for its callback */
    int64_t sweep_ns;      /* for empty rooms: not before */
    struct room *rooms[BUCKETS];
    struct wait *waits[BUCKETS];
};

struct etcd_waits *etcd_waits_new(struct etcd_session *session, bool prefix) {
    struct etcd_waits *waits = calloc(1, sizeof *waits);
    if (!waits)
        return NULL;
    waits->session = session;
    waits->prefix = prefix;
    pthread_mutex_init(&waits->mutex, NULL);
    return waits;
}

void etcd_waits_free(struct etcd_waits *waits) {
    if (!waits)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        while (waits->waits[i]) {
            struct wait *next = waits->waits[i]->next;
            free(waits->waits[i]);
            waits->waits[i] = next;
        }
        while (waits->rooms[i]) {
            struct room *next = waits->rooms[i]->next;
            free(waits->rooms[i]); /* its watch has gone with the client */
            waits->rooms[i] = next;
        }
    }
    pthread_mutex_destroy(&waits->mutex);
    free(waits);
}

/* ---- with the mutex held ---- */

static size_t hash(const char *text) {
    uint32_t sum = 2166136261U; /* FNV-1a */
    for (const char *c = text; *c; c++)
        sum = (sum ^ (unsigned char)*c) * 16777619U;
    return sum % BUCKETS;
}

static struct wait **find_wait(struct etcd_waits *waits, const char *owner) {
    struct wait **at = &waits->waits[hash(owner)];
    while (*at && strcmp((*at)->owner, owner) != 0)
        at = &(*at)->next;
    return at;
}

static struct room **find_room(struct etcd_waits *waits, const char *range) {
    struct room **at = &waits->rooms[hash(range)];
    while (*at && strcmp((*at)->range, range) != 0)
        at = &(*at)->next;
    return at;
}

static void wake(const struct room *room, const struct wait *wait) {
    const struct lock_env *env = etcd_session_env(room->waits->session);
    env->wake(env->lock, wait->key, wait->owner);
}

/* Those who wait for what is gone; `key` NULL: all whose key was seen before `revision`. */
static void wake_those(const struct room *room, const struct etcd_bytes *key, int64_t revision) {
    for (const struct wait *wait = room->first; wait; wait = wait->behind) {
        bool theirs =
            key ? strlen(wait->place.name) == key->size && memcmp(wait->place.name, key->data, key->size) == 0
                : wait->place.seen < revision;
        if (theirs)
            wake(room, wait);
    }
}

static void join(struct room *room, struct wait *wait) {
    wait->room = room;
    wait->before = NULL;
    wait->behind = room->first;
    if (room->first)
        room->first->before = wait;
    room->first = wait;
    room->count++;
}

static void part(struct wait *wait) {
    struct room *room = wait->room;
    if (wait->before)
        wait->before->behind = wait->behind;
    else
        room->first = wait->behind;
    if (wait->behind)
        wait->behind->before = wait->before;
    if (--room->count == 0)
        room->empty_ns = clock_mono_ns(&clock_system);
}

/* Rooms in which nobody has waited for some time, out of the table; not each time, as there may be thousands.
 */
static struct room *take_empty(struct etcd_waits *waits) {
    int64_t now_ns = clock_mono_ns(&clock_system), until_ns = now_ns - LINGER_S * 1000000000L;
    struct room *empty = NULL;
    if (now_ns < waits->sweep_ns)
        return NULL;
    waits->sweep_ns = now_ns + SWEEP_MS * 1000000L;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct room **at = &waits->rooms[i]; *at;) {
            struct room *room = *at;
            bool is_empty = room->count == 0 && room->empty_ns < until_ns;
            if (!is_empty) {
                at = &room->next;
                continue;
            }
            *at = room->next;
            room->next = empty;
            empty = room;
        }
    }
    return empty;
}

/* ---- watching ---- */

/* From the loop of the client. */
static void on_event(void *ctx, const struct etcd_watch_event *event) {
    struct room *room = ctx;
    pthread_mutex_lock(&room->waits->mutex);
    if (event->kind == ETCD_WATCH_COMPACTED || event->kind == ETCD_WATCH_ENDED) {
        room->is_deaf = true;
        wake_those(room, NULL, INT64_MAX);
    } else if (event->kind == ETCD_WATCH_CREATED && !room->has_begun) {
        room->has_begun = true;
        room->newest = event->revision;
        wake_those(room, NULL, event->revision); /* what went before that was not told */
    }
    for (size_t i = 0; i < event->count; i++) {
        room->newest = event->events[i].kv.mod_revision;
        wake_those(room, &event->events[i].kv.key, 0);
    }
    pthread_mutex_unlock(&room->waits->mutex);
}

/* With the mutex held; etcd_watch() does not block. */
static bool watch(struct room *room) {
    struct etcd_waits *waits = room->waits;
    struct etcd_watch_config config = {.key = etcd_text(room->range),
                                       .prefix = waits->prefix,
                                       .no_puts = true,
                                       .on_event = on_event,
                                       .ctx = room};
    room->is_deaf = etcd_watch(etcd_session_client(waits->session), &config, &room->watch) != ETCD_OK;
    room->has_begun = false;
    return !room->is_deaf;
}

/* The same. NULL when out of memory. */
static struct room *open_room(struct etcd_waits *waits, const char *range) {
    struct room *room = calloc(1, sizeof *room);
    if (!room)
        return NULL;
    room->waits = waits;
    snprintf(room->range, sizeof room->range, "%s", range);
    if (!watch(room)) {
        free(room);
        return NULL;
    }
    *find_room(waits, range) = room;
    return room;
}

static void close_rooms(struct room *room) {
    while (room) {
        struct room *next = room->next;
        etcd_watch_cancel(room->watch);
        free(room);
        room = next;
    }
}

/* ---- etcd_waits.h ---- */

bool etcd_waits_find(struct etcd_waits *waits, const char *owner, struct etcd_place *place) {
    pthread_mutex_lock(&waits->mutex);
    const struct wait *wait = *find_wait(waits, owner);
    if (wait)
        *place = wait->place;
    pthread_mutex_unlock(&waits->mutex);
    return wait != NULL;
}

/* With the mutex held. NULL when out of memory. */
static struct wait *find_or_add(struct etcd_waits *waits, const struct lock_grant *grant, const char *range) {
    struct wait **at = find_wait(waits, grant->owner), *wait = *at;
    struct room *room = *find_room(waits, range);
    if (!room && !(room = open_room(waits, range)))
        return NULL;
    if (!wait && !(wait = calloc(1, sizeof *wait)))
        return NULL;
    if (*at) {
        part(wait);
    } else {
        *at = wait;
        memcpy(wait->key, grant->key, sizeof wait->key);
        memcpy(wait->owner, grant->owner, sizeof wait->owner);
    }
    join(room, wait);
    return wait;
}

enum etcd_wait etcd_waits_note(struct etcd_waits *waits, const struct lock_grant *grant, const char *range,
                               const struct etcd_place *place) {
    enum etcd_wait told = ETCD_WAIT_DEAF;
    struct etcd_watch *ended = NULL;
    pthread_mutex_lock(&waits->mutex);
    struct room *empty = *find_room(waits, range) ? NULL : take_empty(waits);
    struct wait *wait = find_or_add(waits, grant, range);
    if (wait) {
        struct room *room = wait->room;
        wait->place = *place;
        if (room->is_deaf) {
            ended = room->watch;
            room->watch = NULL;
            watch(room);
        }
        if (!room->is_deaf)
            told = room->has_begun && room->newest > place->seen ? ETCD_WAIT_PASSED : ETCD_WAIT_TOLD;
    }
    pthread_mutex_unlock(&waits->mutex);
    etcd_watch_cancel(ended);
    close_rooms(empty);
    return told;
}

void etcd_waits_drop(struct etcd_waits *waits, const char *owner) {
    pthread_mutex_lock(&waits->mutex);
    struct wait **at = find_wait(waits, owner), *wait = *at;
    if (wait) {
        *at = wait->next;
        part(wait);
    }
    struct room *empty = take_empty(waits);
    pthread_mutex_unlock(&waits->mutex);
    free(wait);
    close_rooms(empty);
}

enum lock_status etcd_waits_busy(struct etcd_waits *waits, enum etcd_wait wait,
                                 struct lock_attempt *attempt) {
    static const int look_ms[] = {
        [ETCD_WAIT_TOLD] = LOOK_MS, [ETCD_WAIT_PASSED] = 0, [ETCD_WAIT_DEAF] = DEAF_LOOK_MS};
    attempt->retry_ns = lock_env_now_ns(etcd_session_env(waits->session)) + (int64_t)look_ms[wait] * 1000000;
    return LOCK_BUSY;
}
