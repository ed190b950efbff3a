/* Watches: many of them share one stream. When the stream breaks, each is created again where it stopped.
 *
 * A watch remembers `next`, the first revision that it may not have seen completely, and drops older events.
 * After a break the new watch starts at `next`; or at the revision before, if the watch has seen that one.
 * (After a compaction at `next` a server of version 3.4 would start there without an error, though it has
 * forgotten the deletions of that revision.) The server splits a revision only into fragments, which the
 * client joins before the user sees them. So no event is lost, and none comes twice.
 *
 * Only events, and progress that the server reports to one watch, raise `next`: the revision in the header of
 * other answers may be newer than the events that were sent. */
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/etcd_client.h"

enum { BUCKETS = 256 };

struct etcd_watch {
    struct etcd_watch *chain; /* in its bucket */
    struct etcd_watch_stream *watches;
    int64_t id;
    struct etcd_watch_config config;
    ProtobufCBinaryData key, range_end; /* in the arena */
    struct etcd_arena arena;
    int64_t next;  /* 0: not known before the server has created the watch */
    bool has_seen; /* the watch has seen next - 1; false: the user chose `next` */
    bool is_over;
    uint64_t denied_token; /* the server denied the watch with this token; 0: it did not */
    uint8_t *partial;      /* the received fragments, one after another */
    size_t partial_size;
};

/* A request to create a watch that the server has not confirmed yet. */
struct watch_creation {
    STAILQ_ENTRY(watch_creation) next;
    int64_t id;
};

struct etcd_watch_stream {
    struct etcd_shared_stream shared; /* first */
    struct etcd_watch *buckets[BUCKETS];
    int64_t newest_id;
    /* The creations in flight: the server confirms in the order of the requests, and does not name the watch
     * that it refuses. */
    STAILQ_HEAD(watch_creations, watch_creation) creations;
};

static struct etcd_watch_stream *watches_of(const struct etcd_shared_stream *shared) {
    return (struct etcd_watch_stream *)(uintptr_t)shared;
}

/* ---- with the mutex held ---- */

/* Returns where the pointer to the watch is, or belongs. */
static struct etcd_watch **watch_find(struct etcd_watch_stream *watches, int64_t id) {
    struct etcd_watch **at = &watches->buckets[(uint64_t)id % BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->chain;
    return at;
}

/* Removes the oldest creation, and returns the id of its watch; 0: there is none. */
static int64_t watch_take_creation(struct etcd_watch_stream *watches) {
    struct watch_creation *creation = STAILQ_FIRST(&watches->creations);
    if (!creation)
        return 0;
    int64_t id = creation->id;
    STAILQ_REMOVE_HEAD(&watches->creations, next);
    free(creation);
    return id;
}

static void watch_create(struct etcd_watch_stream *watches, struct etcd_watch *watch) {
    const struct etcd_watch_config *config = &watch->config;
    Pb__WatchCreateRequest creating = PB__WATCH_CREATE_REQUEST__INIT;
    Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
    int32_t filters[2];
    creating.key = watch->key;
    creating.range_end = watch->range_end;
    creating.start_revision = watch->next - watch->has_seen;
    creating.progress_notify = config->progress;
    creating.prev_kv = config->prev;
    creating.fragment = config->fragment;
    creating.watch_id = watch->id;
    creating.filters = filters;
    if (config->no_puts)
        filters[creating.n_filters++] = 0;
    if (config->no_deletes)
        filters[creating.n_filters++] = 1;
    request.request_case = PB__WATCH_REQUEST__REQUEST_CREATE;
    request.create = &creating;
    struct watch_creation *creation = calloc(1, sizeof *creation);
    if (!creation) {
        etcd_shared_stream_break(&watches->shared); /* the next stream creates it again */
        return;
    }
    creation->id = watch->id;
    STAILQ_INSERT_TAIL(&watches->creations, creation, next);
    etcd_shared_stream_send(&watches->shared, &request.base);
}

static void watch_drop_partial(struct etcd_watch *watch) {
    free(watch->partial);
    watch->partial = NULL;
    watch->partial_size = 0;
}

static void watch_free(struct etcd_watch *watch) {
    watch_drop_partial(watch);
    etcd_arena_free(&watch->arena);
    free(watch);
}

static void watch_on_open(struct etcd_shared_stream *shared) {
    struct etcd_watch_stream *watches = watches_of(shared);
    STAILQ_INIT(&watches->creations);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct etcd_watch *watch = watches->buckets[i]; watch; watch = watch->chain) {
            if (!watch->is_over && etcd_shared_stream_is_open(shared))
                watch_create(watches, watch);
        }
    }
}

static void watch_on_broken(struct etcd_shared_stream *shared) {
    struct etcd_watch_stream *watches = watches_of(shared);
    while (watch_take_creation(watches))
        ;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct etcd_watch *watch = watches->buckets[i]; watch; watch = watch->chain)
            watch_drop_partial(watch);
    }
}

/* ---- answers of the server ---- */

/* The mutex is held before and after, but not during the callback. `watch` may be gone afterwards. */
static void watch_call_user(struct etcd_shared_stream *shared, struct etcd_watch *watch,
                            const struct etcd_watch_event *event) {
    etcd_shared_stream_enter_user(shared, watch);
    watch->config.on_event(watch->config.ctx, event);
    etcd_shared_stream_leave_user(shared);
}

static void watch_end(struct etcd_shared_stream *shared, struct etcd_watch *watch,
                      const struct etcd_watch_event *event) {
    watch->is_over = true;
    shared->wanted--;
    watch_drop_partial(watch);
    watch_call_user(shared, watch, event);
}

static void watch_on_cancelled(struct etcd_shared_stream *shared, struct etcd_watch *watch,
                               const Pb__WatchResponse *response) {
    const char *reason = response->cancel_reason;
    bool denied = strstr(reason, "permission denied") || strstr(reason, "auth") ||
                  strstr(reason, "user name is empty"); /* authentication was switched on meanwhile */
    uint64_t token = shared->token_number;
    if (response->compact_revision > 0) {
        watch_end(
            shared, watch,
            &(struct etcd_watch_event){.kind = ETCD_WATCH_COMPACTED, .revision = response->compact_revision});
    } else if (denied && shared->etcd->auth.user && watch->denied_token == 0) {
        /* The server does not say whether the user lacks the permission or the token has expired: try once
         * more with another token. */
        watch->denied_token = shared->refused_token = token;
        etcd_shared_stream_break(shared);
    } else {
        watch_end(shared, watch,
                  &(struct etcd_watch_event){.kind = ETCD_WATCH_ENDED,
                                             .status = denied ? ETCD_DENIED : ETCD_INVALID,
                                             .reason = reason});
    }
}

static void watch_advance(struct etcd_watch *watch, int64_t revision) {
    watch->next = revision + 1;
    watch->has_seen = true;
}

static void watch_on_created(struct etcd_shared_stream *shared, struct etcd_watch *watch,
                             const Pb__WatchResponse *response) {
    watch->denied_token = 0;
    if (watch->next == 0 && response->header)
        watch_advance(watch, response->header->revision);
    watch_call_user(shared, watch,
                    &(struct etcd_watch_event){.kind = ETCD_WATCH_CREATED, .revision = watch->next - 1});
}

/* Returns the events that are new, and their count; NULL: out of memory. */
static struct etcd_event *watch_read_events(struct etcd_arena *arena, const Pb__WatchResponse *response,
                                            int64_t next, size_t *count) {
    struct etcd_event *events = etcd_arena_array(arena, response->n_events, sizeof *events);
    *count = 0;
    for (size_t i = 0; events && i < response->n_events; i++) {
        const Pb__Event *from = response->events[i];
        if (!from->kv || from->kv->mod_revision < next)
            continue;
        struct etcd_event *event = &events[(*count)++];
        event->deleted = from->type == 1;
        event->kv = etcd_kv_unpack(from->kv);
        struct etcd_kv *prev = from->prev_kv ? etcd_arena_alloc(arena, sizeof *prev) : NULL;
        if (prev)
            *prev = etcd_kv_unpack(from->prev_kv);
        else if (from->prev_kv)
            return NULL;
        event->prev = prev;
    }
    return events;
}

static void watch_on_events(struct etcd_shared_stream *shared, struct etcd_watch *watch,
                            struct etcd_arena *arena, const Pb__WatchResponse *response) {
    struct etcd_watch_event event = {.kind = ETCD_WATCH_EVENTS};
    event.events = watch_read_events(arena, response, watch->next, &event.count);
    if (!event.events) {
        etcd_shared_stream_break(shared); /* the next stream sends them again */
        return;
    }
    if (event.count == 0)
        return;
    event.revision = event.events[event.count - 1].kv.mod_revision;
    watch_advance(watch, event.revision);
    watch_call_user(shared, watch, &event);
}

static void watch_on_progress(struct etcd_shared_stream *shared, struct etcd_watch *watch,
                              const Pb__WatchResponse *response) {
    int64_t revision = response->header ? response->header->revision : 0;
    if (revision >= watch->next)
        watch_advance(watch, revision);
    watch_call_user(shared, watch,
                    &(struct etcd_watch_event){.kind = ETCD_WATCH_PROGRESS, .revision = watch->next - 1});
}

/* Protocol Buffers merges two messages that are unpacked as one: the events of the second follow those of the
 * first. */
static void watch_on_fragment(struct etcd_shared_stream *shared, struct etcd_watch *watch,
                              struct etcd_answer *answer, bool is_last) {
    uint8_t *grown = realloc(watch->partial, watch->partial_size + answer->size);
    if (!grown) {
        etcd_shared_stream_break(shared);
        return;
    }
    memcpy(grown + watch->partial_size, answer->data, answer->size);
    watch->partial = grown;
    watch->partial_size += answer->size;
    if (!is_last)
        return;
    Pb__WatchResponse *whole = (Pb__WatchResponse *)protobuf_c_message_unpack(
        &pb__watch_response__descriptor, &answer->arena.allocator, watch->partial_size, watch->partial);
    watch_drop_partial(watch);
    if (whole)
        watch_on_events(shared, watch, &answer->arena, whole);
    else
        etcd_shared_stream_break(shared);
}

static void watch_on_message(struct etcd_shared_stream *shared, struct etcd_answer *answer) {
    struct etcd_watch_stream *watches = watches_of(shared);
    const Pb__WatchResponse *response = etcd_answer_unpack(answer, &pb__watch_response__descriptor);
    if (!response) {
        etcd_shared_stream_break(shared);
        return;
    }
    int64_t id = response->created ? watch_take_creation(watches) : response->watch_id;
    struct etcd_watch *watch = *watch_find(watches, id);
    if (!watch || watch->is_over)
        return; /* the user has cancelled it */
    if (response->canceled)
        watch_on_cancelled(shared, watch, response);
    else if (response->created)
        watch_on_created(shared, watch, response);
    else if (response->fragment || watch->partial)
        watch_on_fragment(shared, watch, answer, !response->fragment);
    else if (response->n_events > 0)
        watch_on_events(shared, watch, &answer->arena, response);
    else
        watch_on_progress(shared, watch, response);
}

static void watch_destroy(struct etcd_shared_stream *shared) {
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct etcd_watch *watch = watches_of(shared)->buckets[i], *next; watch; watch = next) {
            next = watch->chain;
            watch_free(watch);
        }
    }
}

const struct etcd_shared_stream_kind etcd_watch_stream_kind = {
    .path = "/etcdserverpb.Watch/Watch",
    .size = sizeof(struct etcd_watch_stream),
    .on_open = watch_on_open,
    .on_broken = watch_on_broken,
    .on_message = watch_on_message,
    .destroy = watch_destroy,
};

/* ---- the interface ---- */

enum etcd_status etcd_watch(struct etcd *etcd, const struct etcd_watch_config *config,
                            struct etcd_watch **watch) {
    struct etcd_watch_stream *watches = watches_of(etcd->watches);
    struct etcd_watch *made = calloc(1, sizeof *made);
    if (!made)
        return ETCD_NOMEM;
    etcd_arena_init(&made->arena);
    made->watches = watches;
    made->config = *config;
    made->next = config->revision;
    if (!etcd_key_range_pack(&made->arena, config->key, config->end, config->prefix, &made->key,
                             &made->range_end)) {
        watch_free(made);
        return ETCD_NOMEM;
    }
    pthread_mutex_lock(&watches->shared.mutex);
    made->id = ++watches->newest_id;
    *watch_find(watches, made->id) = made;
    watches->shared.wanted++;
    *watch = made; /* before the first callback */
    bool open = etcd_shared_stream_is_open(&watches->shared);
    if (open)
        watch_create(watches, made);
    pthread_mutex_unlock(&watches->shared.mutex);
    if (!open)
        etcd_loop_wake(&etcd->loop);
    return ETCD_OK;
}

void etcd_watch_cancel(struct etcd_watch *watch) {
    if (!watch)
        return;
    struct etcd_shared_stream *shared = &watch->watches->shared;
    pthread_mutex_lock(&shared->mutex);
    shared->wanted -= watch->is_over ? 0 : 1;
    if (!watch->is_over && etcd_shared_stream_is_open(shared)) {
        Pb__WatchCancelRequest cancelling = PB__WATCH_CANCEL_REQUEST__INIT;
        Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
        cancelling.watch_id = watch->id;
        request.request_case = PB__WATCH_REQUEST__REQUEST_CANCEL;
        request.cancel = &cancelling;
        etcd_shared_stream_send(shared, &request.base);
    }
    watch->is_over = true;
    etcd_shared_stream_quiesce(shared, watch);
    *watch_find(watch->watches, watch->id) = watch->chain;
    watch_free(watch);
    pthread_mutex_unlock(&shared->mutex);
}
