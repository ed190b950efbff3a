#include "lock/etcd_waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256 };

struct wait {
    struct wait *next;
    const struct lock_env *env;
    char key[LOCK_KEY_MAX + 1], owner[LOCK_OWNER_SIZE];
    struct etcd_place place;
    struct etcd_watch *watch; /* of the place's name; NULL: none */
    _Atomic bool blind;       /* the watch has ended */
};

struct etcd_waits {
    struct etcd_session *session;
    pthread_mutex_t
        mutex; /* for the lists; not held while a watch is cancelled, which waits for its callback */
    struct wait *buckets[BUCKETS];
};

struct etcd_waits *etcd_waits_new(struct etcd_session *session) {
    struct etcd_waits *waits = calloc(1, sizeof *waits);
    if (!waits)
        return NULL;
    waits->session = session;
    pthread_mutex_init(&waits->mutex, NULL);
    return waits;
}

void etcd_waits_free(struct etcd_waits *waits) {
    if (!waits)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        while (waits->buckets[i]) {
            struct wait *next = waits->buckets[i]->next;
            free(waits->buckets[i]); /* its watch has gone with the client */
            waits->buckets[i] = next;
        }
    }
    pthread_mutex_destroy(&waits->mutex);
    free(waits);
}

static struct wait **find(struct etcd_waits *waits, const char *owner) {
    size_t hash = 0;
    for (const char *c = owner + LOCK_OWNER_SIZE / 2; *c; c++) /* the half that is counted */
        hash = hash * 31 + (unsigned char)*c;
    struct wait **at = &waits->buckets[hash % BUCKETS];
    while (*at && strcmp((*at)->owner, owner) != 0)
        at = &(*at)->next;
    return at;
}

static struct wait *look_up(struct etcd_waits *waits, const char *owner) {
    pthread_mutex_lock(&waits->mutex);
    struct wait *wait = *find(waits, owner);
    pthread_mutex_unlock(&waits->mutex);
    return wait;
}

bool etcd_waits_find(struct etcd_waits *waits, const char *owner, struct etcd_place *place) {
    const struct wait *wait = look_up(waits, owner);
    if (wait)
        *place = wait->place;
    return wait != NULL;
}

static struct wait *add(struct etcd_waits *waits, const struct lock_grant *grant) {
    struct wait *wait = calloc(1, sizeof *wait);
    if (!wait)
        return NULL;
    wait->env = etcd_session_env(waits->session);
    memcpy(wait->key, grant->key, sizeof wait->key);
    memcpy(wait->owner, grant->owner, sizeof wait->owner);
    pthread_mutex_lock(&waits->mutex);
    *find(waits, wait->owner) = wait;
    pthread_mutex_unlock(&waits->mutex);
    return wait;
}

/* From the loop of the client: the key has gone; or the watch has just begun; or it has ended. */
static void on_event(void *ctx, const struct etcd_watch_event *event) {
    struct wait *wait = ctx;
    if (event->kind == ETCD_WATCH_COMPACTED || event->kind == ETCD_WATCH_ENDED)
        atomic_store(&wait->blind, true);
    wait->env->wake(wait->env->layer, wait->key, wait->owner);
}

bool etcd_waits_note(struct etcd_waits *waits, const struct lock_grant *grant,
                     const struct etcd_place *place) {
    struct wait *wait = look_up(waits, grant->owner);
    if (!wait && !(wait = add(waits, grant)))
        return false;
    bool watches = wait->watch && strcmp(wait->place.name, place->name) == 0 && !atomic_load(&wait->blind);
    if (!watches) {
        etcd_watch_cancel(wait->watch);
        wait->watch = NULL;
    }
    wait->place = *place;
    if (watches || !place->name[0])
        return watches;
    struct etcd_watch_config config = {
        .key = etcd_text(place->name), .no_puts = true, .on_event = on_event, .ctx = wait};
    atomic_store(&wait->blind, false);
    return etcd_watch(etcd_session_client(waits->session), &config, &wait->watch) == ETCD_OK;
}

void etcd_waits_drop(struct etcd_waits *waits, const char *owner) {
    pthread_mutex_lock(&waits->mutex);
    struct wait **at = find(waits, owner), *wait = *at;
    if (wait)
        *at = wait->next;
    pthread_mutex_unlock(&waits->mutex);
    if (wait)
        etcd_watch_cancel(wait->watch);
    free(wait);
}
