/* How a waiter for a lock in etcd learns that its predecessor's key is gone: it watches the lock.
 *
 * There is one watch for each lock that a thread of this process waits for. The watch stays until ten seconds
 * after the last wait, because a new watch for each wait would be slower: a watch "from now on" begins at the
 * revision that the server read a moment before. If something is written in that moment the watch counts as
 * one from the past, and a loop of the server that runs every 100 ms serves it.
 *
 * At most one owner in this process waits for each lock: the local holder of its key (local_queue.h). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/etcd/etcd_store.h"

/* A waiter asks the store again after RETRY_MS in case a wake-up was lost; without a watch, more often. */
enum { BUCKETS = 256, RETRY_MS = 1000, UNWATCHED_RETRY_MS = 20, UNUSED_S = 10, SWEEP_MS = 500 };

/* The watch of one lock, and its waiter. */
struct watched {
    struct watched *next;
    struct etcd_watches *watches;
    char name[ETCD_KEY_SIZE];
    struct etcd_watch *watch;
    bool has_ended;              /* the watch has ended, or could not begin */
    bool has_begun;              /* the watch has begun, and reports all later revisions */
    int64_t newest;              /* the newest revision that the watch has reported */
    int64_t unused_ns;           /* when the last waiter left */
    char owner[LOCK_OWNER_SIZE]; /* the waiter; "": none */
    char key[LOCK_KEY_MAX + 1];
    struct etcd_place place;
};

struct etcd_watches {
    struct etcd_session *session;
    bool prefix;
    pthread_mutex_t mutex; /* not held while a watch is cancelled, which waits for its callback */
    int64_t sweep_ns;      /* when to look for unused watches again */
    struct watched *buckets[BUCKETS];
};

struct etcd_watches *etcd_watches_new(struct etcd_session *session, bool prefix) {
    struct etcd_watches *watches = calloc(1, sizeof *watches);
    if (!watches)
        return NULL;
    watches->session = session;
    watches->prefix = prefix;
    pthread_mutex_init(&watches->mutex, NULL);
    return watches;
}

void etcd_watches_free(struct etcd_watches *watches) {
    if (!watches)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        while (watches->buckets[i]) {
            struct watched *next = watches->buckets[i]->next;
            free(watches->buckets[i]); /* its watch was freed with the client */
            watches->buckets[i] = next;
        }
    }
    pthread_mutex_destroy(&watches->mutex);
    free(watches);
}

/* ---- with the mutex held ---- */

static struct watched **watches_find(struct etcd_watches *watches, const char *name) {
    struct watched **at = &watches->buckets[lock_hash_text(name) % BUCKETS];
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static void watched_wake(const struct watched *watched) {
    const struct lock_env *env = watched->watches->session->env;
    if (watched->owner[0])
        env->wake(env->lock, watched->key, watched->owner);
}

static bool watched_is_predecessor(const struct watched *watched, const struct etcd_bytes *key) {
    const char *name = watched->place.predecessor;
    return strlen(name) == key->size && memcmp(name, key->data, key->size) == 0;
}

/* Removes the watches that were unused for UNUSED_S, and returns them. It looks for them every SWEEP_MS and
 * not on each call, since there may be thousands. */
static struct watched *watches_take_unused(struct etcd_watches *watches) {
    int64_t now_ns = clock_now_ns(), until_ns = now_ns - UNUSED_S * 1000000000L;
    struct watched *unused = NULL;
    if (now_ns < watches->sweep_ns)
        return NULL;
    watches->sweep_ns = now_ns + SWEEP_MS * 1000000L;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct watched **at = &watches->buckets[i]; *at;) {
            struct watched *watched = *at;
            if (watched->owner[0] || watched->unused_ns >= until_ns) {
                at = &watched->next;
                continue;
            }
            *at = watched->next;
            watched->next = unused;
            unused = watched;
        }
    }
    return unused;
}

/* Without the mutex. */
static void watched_free_all(struct watched *watched) {
    while (watched) {
        struct watched *next = watched->next;
        etcd_watch_cancel(watched->watch);
        free(watched);
        watched = next;
    }
}

/* ---- watching ---- */

/* The client's loop calls it. */
static void watched_on_event(void *ctx, const struct etcd_watch_event *event) {
    struct watched *watched = ctx;
    pthread_mutex_lock(&watched->watches->mutex);
    if (event->kind == ETCD_WATCH_COMPACTED || event->kind == ETCD_WATCH_ENDED) {
        watched->has_ended = true;
        watched_wake(watched);
    } else if (event->kind == ETCD_WATCH_CREATED && !watched->has_begun) {
        watched->has_begun = true;
        watched->newest = event->revision;
        if (watched->place.read_revision < event->revision) /* deletions before that are not reported */
            watched_wake(watched);
    }
    for (size_t i = 0; i < event->count; i++) {
        watched->newest = event->events[i].kv.mod_revision;
        if (watched_is_predecessor(watched, &event->events[i].kv.key))
            watched_wake(watched);
    }
    pthread_mutex_unlock(&watched->watches->mutex);
}

/* With the mutex held, since etcd_watch() does not block. False: out of memory. */
static bool watched_begin(struct watched *watched) {
    struct etcd_watches *watches = watched->watches;
    struct etcd_watch_config config = {.key = etcd_text(watched->name),
                                       .prefix = watches->prefix,
                                       .no_puts = true,
                                       .on_event = watched_on_event,
                                       .ctx = watched};
    lock_env_count_requests(watches->session->env, 1);
    watched->has_ended = etcd_watch(watches->session->etcd, &config, &watched->watch) != ETCD_OK;
    watched->has_begun = false;
    return !watched->has_ended;
}

/* With the mutex held. NULL: out of memory. */
static struct watched *watches_find_or_add(struct etcd_watches *watches, const char *name) {
    struct watched **at = watches_find(watches, name), *watched = *at;
    if (watched || !(watched = calloc(1, sizeof *watched)))
        return watched;
    watched->watches = watches;
    snprintf(watched->name, sizeof watched->name, "%s", name);
    if (!watched_begin(watched)) {
        free(watched);
        return NULL;
    }
    return *at = watched;
}

/* ---- called by the locks ---- */

enum lock_status etcd_watches_wait(struct etcd_watches *watches, const char *name,
                                   struct lock_attempt *attempt, const struct etcd_place *place) {
    int retry_ms = UNWATCHED_RETRY_MS;
    struct etcd_watch *ended = NULL;
    pthread_mutex_lock(&watches->mutex);
    struct watched *unused = *watches_find(watches, name) ? NULL : watches_take_unused(watches);
    struct watched *watched = watches_find_or_add(watches, name);
    if (watched) {
        memcpy(watched->owner, attempt->grant.owner, sizeof watched->owner);
        memcpy(watched->key, attempt->grant.key, sizeof watched->key);
        watched->place = *place;
        if (watched->has_ended) {
            ended = watched->watch;
            watched->watch = NULL;
            watched_begin(watched);
        }
        bool is_late =
            watched->has_begun && watched->newest > place->read_revision; /* the predecessor may be gone */
        if (!watched->has_ended)
            retry_ms = is_late ? 0 : RETRY_MS;
    }
    pthread_mutex_unlock(&watches->mutex);
    etcd_watch_cancel(ended);
    watched_free_all(unused);
    attempt->retry_ns = lock_env_now_ns(watches->session->env) + (int64_t)retry_ms * 1000000;
    return LOCK_BUSY;
}

void etcd_watches_drop(struct etcd_watches *watches, const char *name, const char *owner) {
    pthread_mutex_lock(&watches->mutex);
    struct watched *watched = *watches_find(watches, name);
    if (watched && strcmp(watched->owner, owner) == 0) {
        watched->owner[0] = '\0';
        watched->unused_ns = clock_now_ns();
    }
    struct watched *unused = watches_take_unused(watches);
    pthread_mutex_unlock(&watches->mutex);
    watched_free_all(unused);
}
