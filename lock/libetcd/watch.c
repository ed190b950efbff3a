/* Watches: many over one stream, and each goes on where it was when the stream breaks.
 *
 * A watch remembers the first revision of which it may not have seen everything, `next`. What is older is
 * dropped. What is created anew starts there, or, where the revision before was seen, with that one: a server
 * of 3.4 that is compacted at `next` would start there without a word, and has forgotten the deletions of
 * that revision. The server never splits a revision but into fragments, which are
 * put together before anybody sees them. So nothing is lost, and nothing comes twice.
 *
 * `next` grows with the events only, and with progress that the server reports to one watch: the revision in
 * the header of other answers can be newer than what has been sent. */
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/hub.h"
#include "lock/libetcd/message.h"

enum { BUCKETS = 256 };

struct etcd_watch {
    struct etcd_watch *chain; /* in its bucket */
    struct etcd_watcher *watcher;
    int64_t id;
    struct etcd_watch_config config; /* its bytes are in the arena */
    struct etcd_arena arena;
    int64_t next;  /* 0: not known before it is created */
    bool has_seen; /* next - 1, not only been told to start at next */
    bool is_over;
    uint64_t denied_token; /* refused with this one; 0: it was not */
    uint8_t *partial;      /* fragments so far, as they came */
    size_t partial_size;
};

/* Sent, and not confirmed. */
struct creation {
    struct creation *next;
    int64_t id;
};

struct etcd_watcher {
    struct etcd_hub hub;
    struct etcd_watch *buckets[BUCKETS];
    size_t live; /* watches that are not over */
    int64_t newest_id;
    /* Of this stream. The server confirms in the order of the requests, and does not say which one it
     * refuses. */
    struct creation *first, **last;
};

static struct etcd_watcher *watcher_of(const struct etcd_hub *hub) {
    return (struct etcd_watcher *)((char *)(uintptr_t)hub - offsetof(struct etcd_watcher, hub));
}

/* ---- with the mutex held ---- */

static struct etcd_watch **find(struct etcd_watcher *watcher, int64_t id) {
    struct etcd_watch **at = &watcher->buckets[(uint64_t)id % BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->chain;
    return at;
}

static int64_t take_creation(struct etcd_watcher *watcher) {
    struct creation *creation = watcher->first;
    if (!creation)
        return 0;
    int64_t id = creation->id;
    watcher->first = creation->next;
    if (!watcher->first)
        watcher->last = &watcher->first;
    free(creation);
    return id;
}

static void create(struct etcd_watcher *watcher, struct etcd_watch *watch) {
    const struct etcd_watch_config *config = &watch->config;
    Pb__WatchCreateRequest creating = PB__WATCH_CREATE_REQUEST__INIT;
    Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
    int32_t filters[2];
    creating.key = etcd_message_bytes(config->key);
    creating.range_end = etcd_message_bytes(config->end);
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
    struct creation *creation = calloc(1, sizeof *creation);
    if (!creation) {
        etcd_hub_break(&watcher->hub); /* and tries again later */
        return;
    }
    creation->id = watch->id;
    *watcher->last = creation;
    watcher->last = &creation->next;
    etcd_stream_send(watcher->hub.stream, &request.base);
}

static void drop_partial(struct etcd_watch *watch) {
    free(watch->partial);
    watch->partial = NULL;
    watch->partial_size = 0;
}

static bool is_wanted(const struct etcd_hub *hub) {
    return watcher_of(hub)->live > 0;
}

static void on_open(struct etcd_hub *hub) {
    struct etcd_watcher *watcher = watcher_of(hub);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct etcd_watch *watch = watcher->buckets[i]; watch; watch = watch->chain) {
            if (!watch->is_over && etcd_hub_stream(hub))
                create(watcher, watch);
        }
    }
}

static void on_broken(struct etcd_hub *hub) {
    struct etcd_watcher *watcher = watcher_of(hub);
    while (watcher->first)
        take_creation(watcher);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct etcd_watch *watch = watcher->buckets[i]; watch; watch = watch->chain)
            drop_partial(watch);
    }
}

static int64_t tick(struct etcd_hub *hub, int64_t now_ns) {
    (void)hub;
    (void)now_ns;
    return INT64_MAX;
}

/* ---- what the server says ---- */

/* Called, and returns, with the mutex held. Afterwards the watch may be gone. */
static void tell(struct etcd_hub *hub, struct etcd_watch *watch, const struct etcd_watch_event *event) {
    struct etcd_watch_config config = watch->config;
    etcd_loop_enter(hub->etcd->loop, watch);
    pthread_mutex_unlock(&hub->mutex);
    config.on_event(config.ctx, event);
    etcd_loop_leave(hub->etcd->loop);
    pthread_mutex_lock(&hub->mutex);
}

static void end(struct etcd_hub *hub, struct etcd_watch *watch, const struct etcd_watch_event *event) {
    watch->is_over = true;
    watcher_of(hub)->live--;
    drop_partial(watch);
    tell(hub, watch, event);
}

static void on_cancelled(struct etcd_hub *hub, struct etcd_watch *watch, const Pb__WatchResponse *response) {
    const char *reason = response->cancel_reason;
    bool denied = strstr(reason, "permission denied") || strstr(reason, "auth") ||
                  strstr(reason, "user name is empty"); /* it wants a token, which it did not before */
    uint64_t token = etcd_stream_token(hub->stream);
    if (response->compact_revision > 0) {
        end(hub, watch,
            &(struct etcd_watch_event){.kind = ETCD_WATCH_COMPACTED, .revision = response->compact_revision});
    } else if (denied && hub->etcd->user && watch->denied_token == 0) {
        /* The server does not say whether the user may not, or the token has run out: once more with another.
         */
        watch->denied_token = hub->refused_token = token;
        etcd_hub_break(hub);
    } else {
        end(hub, watch,
            &(struct etcd_watch_event){
                .kind = ETCD_WATCH_ENDED, .status = denied ? ETCD_DENIED : ETCD_INVALID, .reason = reason});
    }
}

static void see(struct etcd_watch *watch, int64_t revision) {
    watch->next = revision + 1;
    watch->has_seen = true;
}

static void on_created(struct etcd_hub *hub, struct etcd_watch *watch, const Pb__WatchResponse *response) {
    watch->denied_token = 0;
    if (watch->next == 0 && response->header)
        see(watch, response->header->revision);
    tell(hub, watch, &(struct etcd_watch_event){.kind = ETCD_WATCH_CREATED, .revision = watch->next - 1});
}

/* Those that are new; NULL when out of memory. */
static struct etcd_event *read_events(struct etcd_arena *arena, const Pb__WatchResponse *response,
                                      int64_t next, size_t *count) {
    struct etcd_event *events = etcd_arena_array(arena, response->n_events, sizeof *events);
    *count = 0;
    for (size_t i = 0; events && i < response->n_events; i++) {
        const Pb__Event *from = response->events[i];
        if (!from->kv || from->kv->mod_revision < next)
            continue;
        struct etcd_event *event = &events[(*count)++];
        event->deleted = from->type == 1;
        etcd_message_kv(&event->kv, from->kv);
        struct etcd_kv *prev = from->prev_kv ? etcd_arena_alloc(arena, sizeof *prev) : NULL;
        if (prev)
            etcd_message_kv(prev, from->prev_kv);
        else if (from->prev_kv)
            return NULL;
        event->prev = prev;
    }
    return events;
}

static void on_events(struct etcd_hub *hub, struct etcd_watch *watch, struct etcd_arena *arena,
                      const Pb__WatchResponse *response) {
    struct etcd_watch_event event = {.kind = ETCD_WATCH_EVENTS};
    event.events = read_events(arena, response, watch->next, &event.count);
    if (!event.events) {
        etcd_hub_break(hub); /* they come again */
        return;
    }
    if (event.count == 0)
        return;
    event.revision = event.events[event.count - 1].kv.mod_revision;
    see(watch, event.revision);
    tell(hub, watch, &event);
}

static void on_progress(struct etcd_hub *hub, struct etcd_watch *watch, const Pb__WatchResponse *response) {
    int64_t revision = response->header ? response->header->revision : 0;
    if (revision >= watch->next)
        see(watch, revision);
    tell(hub, watch, &(struct etcd_watch_event){.kind = ETCD_WATCH_PROGRESS, .revision = watch->next - 1});
}

static bool append(struct etcd_watch *watch, const struct etcd_answer *answer) {
    uint8_t *grown = realloc(watch->partial, watch->partial_size + answer->size);
    if (!grown)
        return false;
    memcpy(grown + watch->partial_size, answer->data, answer->size);
    watch->partial = grown;
    watch->partial_size += answer->size;
    return true;
}

/* A message that follows another one is merged with it, in Protocol Buffers: its events come after the
 * other's. */
static void on_fragment(struct etcd_hub *hub, struct etcd_watch *watch, struct etcd_answer *answer,
                        bool is_last) {
    if (!append(watch, answer)) {
        etcd_hub_break(hub);
        return;
    }
    if (!is_last)
        return;
    Pb__WatchResponse *whole = (Pb__WatchResponse *)protobuf_c_message_unpack(
        &pb__watch_response__descriptor, &answer->arena.allocator, watch->partial_size, watch->partial);
    drop_partial(watch);
    if (whole)
        on_events(hub, watch, &answer->arena, whole);
    else
        etcd_hub_break(hub);
}

static void on_response(struct etcd_hub *hub, struct etcd_answer *answer, const Pb__WatchResponse *response) {
    struct etcd_watcher *watcher = watcher_of(hub);
    int64_t id = response->created ? take_creation(watcher) : response->watch_id;
    struct etcd_watch *watch = *find(watcher, id);
    if (!watch || watch->is_over)
        return; /* cancelled meanwhile */
    if (response->canceled)
        on_cancelled(hub, watch, response);
    else if (response->created)
        on_created(hub, watch, response);
    else if (response->fragment || watch->partial)
        on_fragment(hub, watch, answer, !response->fragment);
    else if (response->n_events > 0)
        on_events(hub, watch, &answer->arena, response);
    else
        on_progress(hub, watch, response);
}

static void on_message(struct etcd_hub *hub, struct etcd_answer *answer) {
    const Pb__WatchResponse *response = etcd_answer_unpack(answer, &pb__watch_response__descriptor);
    pthread_mutex_lock(&hub->mutex);
    if (response)
        on_response(hub, answer, response);
    else
        etcd_hub_break(hub);
    pthread_mutex_unlock(&hub->mutex);
}

static const struct etcd_hub_kind kind = {
    .path = "/etcdserverpb.Watch/Watch",
    .is_wanted = is_wanted,
    .on_open = on_open,
    .on_broken = on_broken,
    .on_message = on_message,
    .tick = tick,
};

/* ---- etcd.h and client.h ---- */

struct etcd_watcher *etcd_watcher_new(struct etcd *etcd) {
    struct etcd_watcher *watcher = calloc(1, sizeof *watcher);
    if (!watcher)
        return NULL;
    watcher->last = &watcher->first;
    etcd_hub_init(&watcher->hub, etcd, &kind);
    return watcher;
}

void etcd_watcher_stop(struct etcd_watcher *watcher) {
    etcd_hub_stop(&watcher->hub);
}

static void destroy(struct etcd_watch *watch) {
    drop_partial(watch);
    etcd_arena_free(&watch->arena);
    free(watch);
}

void etcd_watcher_free(struct etcd_watcher *watcher) {
    if (!watcher)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (watcher->buckets[i]) {
            struct etcd_watch *next = watcher->buckets[i]->chain;
            destroy(watcher->buckets[i]);
            watcher->buckets[i] = next;
        }
    }
    etcd_hub_destroy(&watcher->hub);
    free(watcher);
}

/* A copy in the watch's arena, with the range as the server wants it. */
static bool copy_range(struct etcd_watch *watch, const struct etcd_watch_config *config) {
    ProtobufCBinaryData key, end;
    if (!etcd_message_range(&watch->arena, config->key, config->end, config->prefix, &key, &end))
        return false;
    uint8_t *copy = etcd_arena_alloc(&watch->arena, key.len + end.len);
    if (!copy)
        return false;
    if (key.len > 0)
        memcpy(copy, key.data, key.len);
    if (end.len > 0)
        memcpy(copy + key.len, end.data, end.len);
    watch->config.key = (struct etcd_bytes){copy, key.len};
    watch->config.end = (struct etcd_bytes){copy + key.len, end.len};
    return true;
}

enum etcd_status etcd_watch(struct etcd *etcd, const struct etcd_watch_config *config,
                            struct etcd_watch **watch) {
    struct etcd_watcher *watcher = etcd->watcher;
    struct etcd_watch *made = calloc(1, sizeof *made);
    if (!made)
        return ETCD_NOMEM;
    etcd_arena_init(&made->arena);
    made->watcher = watcher;
    made->config = *config;
    made->next = config->revision;
    if (!copy_range(made, config)) {
        destroy(made);
        return ETCD_NOMEM;
    }
    pthread_mutex_lock(&watcher->hub.mutex);
    made->id = ++watcher->newest_id;
    *find(watcher, made->id) = made;
    watcher->live++;
    *watch = made; /* before the first callback */
    bool open = etcd_hub_stream(&watcher->hub);
    if (open)
        create(watcher, made);
    pthread_mutex_unlock(&watcher->hub.mutex);
    if (!open)
        etcd_hub_wake(&watcher->hub);
    return ETCD_OK;
}

void etcd_watch_cancel(struct etcd_watch *watch) {
    if (!watch)
        return;
    struct etcd_hub *hub = &watch->watcher->hub;
    pthread_mutex_lock(&hub->mutex);
    struct etcd_watch **at = find(watch->watcher, watch->id);
    *at = watch->chain;
    watch->watcher->live -= watch->is_over ? 0 : 1;
    if (!watch->is_over && etcd_hub_stream(hub)) {
        Pb__WatchCancelRequest cancelling = PB__WATCH_CANCEL_REQUEST__INIT;
        Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
        cancelling.watch_id = watch->id;
        request.request_case = PB__WATCH_REQUEST__REQUEST_CANCEL;
        request.cancel = &cancelling;
        etcd_stream_send(hub->stream, &request.base);
    }
    pthread_mutex_unlock(&hub->mutex);
    etcd_loop_quiesce(hub->etcd->loop, watch);
    destroy(watch);
}
