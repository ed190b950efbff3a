#include "lock/libetcd/hub.h"

enum { LOOK_MS = 5, PAUSE_MS = 20, PAUSE_MAX_MS = 640, STEADY_MS = 1000, AUTH_MS = 200 };

static int64_t in_ms(int64_t now_ns, int ms) {
    return now_ns + (int64_t)ms * 1000000;
}

/* With the mutex held. Returns when to try again; INT64_MAX: it is open. */
static int64_t open_stream(struct etcd_hub *hub, int64_t now_ns) {
    if (now_ns < hub->retry_ns)
        return hub->retry_ns;
    int at = etcd_endpoints_pick(&hub->etcd->endpoints);
    if (at < 0)
        return in_ms(now_ns, LOOK_MS);
    if (!etcd_auth_poll(hub->etcd, hub->refused_token, at))
        return in_ms(now_ns, AUTH_MS); /* or woken before */
    hub->endpoint = at;
    hub->opened_ns = now_ns;
    hub->stream = etcd_stream_open(hub->etcd, at, hub->kind->path, &hub->user);
    if (!hub->stream)
        return in_ms(now_ns, PAUSE_MS);
    hub->kind->on_open(hub);
    return INT64_MAX;
}

static int64_t tick(struct etcd_ticker *ticker, int64_t now_ns) {
    struct etcd_hub *hub = (struct etcd_hub *)((char *)ticker - offsetof(struct etcd_hub, ticker));
    int64_t next_ns = INT64_MAX, open_ns = INT64_MAX;
    pthread_mutex_lock(&hub->mutex);
    /* A member that did not answer somebody else will not say anything here. */
    if (!hub->stopping && etcd_hub_stream(hub) && etcd_endpoints_shun(&hub->etcd->endpoints, hub->endpoint))
        etcd_hub_break(hub);
    if (!hub->stopping && !hub->stream && hub->kind->is_wanted(hub))
        open_ns = open_stream(hub, now_ns);
    if (!hub->stopping)
        next_ns = hub->kind->tick(hub, now_ns);
    pthread_mutex_unlock(&hub->mutex);
    return open_ns < next_ns ? open_ns : next_ns;
}

static struct etcd_hub *hub_of(struct etcd_stream_user *user) {
    return (struct etcd_hub *)((char *)user - offsetof(struct etcd_hub, user));
}

static void on_message(struct etcd_stream_user *user, struct etcd_answer *answer) {
    struct etcd_hub *hub = hub_of(user);
    pthread_mutex_lock(&hub->mutex);
    bool heard = !hub->broken && !hub->stopping;
    pthread_mutex_unlock(&hub->mutex);
    if (heard)
        hub->kind->on_message(hub, answer);
}

static void on_end(struct etcd_stream_user *user, const struct etcd_verdict *verdict, const char *text) {
    struct etcd_hub *hub = hub_of(user);
    int64_t now_ns = etcd_loop_now_ns();
    (void)text;
    pthread_mutex_lock(&hub->mutex);
    if (verdict->new_token)
        hub->refused_token = etcd_stream_token(hub->stream);
    hub->stream = NULL;
    hub->broken = false;
    etcd_endpoints_fail(&hub->etcd->endpoints, hub->endpoint, verdict->silent);
    /* The first time at once. Messages alone prove nothing: a server may answer and hang up, again and again.
     */
    if (now_ns >= in_ms(hub->opened_ns, STEADY_MS))
        hub->fails = 0;
    int pause_ms = hub->fails > 0 ? PAUSE_MS << (hub->fails < 6 ? hub->fails - 1 : 5) : 0;
    hub->retry_ns = in_ms(now_ns, pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS);
    hub->fails++;
    hub->ticker.next_ns = 0;
    hub->kind->on_broken(hub);
    pthread_cond_broadcast(&hub->gone);
    pthread_mutex_unlock(&hub->mutex);
}

void etcd_hub_init(struct etcd_hub *hub, struct etcd *etcd, const struct etcd_hub_kind *kind) {
    *hub = (struct etcd_hub){.kind = kind,
                             .etcd = etcd,
                             .ticker = {.tick = tick, .next_ns = INT64_MAX},
                             .user = {.on_message = on_message, .on_end = on_end}};
    pthread_mutex_init(&hub->mutex, NULL);
    pthread_cond_init(&hub->gone, NULL);
    etcd_loop_add(etcd->loop, &hub->ticker);
}

void etcd_hub_stop(struct etcd_hub *hub) {
    pthread_mutex_lock(&hub->mutex);
    hub->stopping = true;
    if (hub->stream)
        etcd_stream_cancel(hub->stream);
    while (hub->stream)
        pthread_cond_wait(&hub->gone, &hub->mutex);
    pthread_mutex_unlock(&hub->mutex);
}

void etcd_hub_destroy(struct etcd_hub *hub) {
    pthread_cond_destroy(&hub->gone);
    pthread_mutex_destroy(&hub->mutex);
}

void etcd_hub_break(struct etcd_hub *hub) {
    hub->broken = true;
    etcd_stream_cancel(hub->stream);
}

struct etcd_stream *etcd_hub_stream(const struct etcd_hub *hub) {
    return hub->broken ? NULL : hub->stream;
}

void etcd_hub_wake(struct etcd_hub *hub) {
    etcd_loop_wake(hub->etcd->loop, hub->etcd->endpoints.each[0].channel);
}
