#include "base/redis/blocking/sentinel_watch.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/redis/blocking/dial.h"
#include "base/redis/blocking/sentinels.h"

/* The longest pause between an answer and the next question; it is the timeout if that is less. */
enum { WATCH_MS = 250 };

struct redis_sentinel_watch {
    struct redis_url url;
    int timeout_ms;
    struct redis_connection *connection;
    void (*on_changed)(void *ctx);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t mutex; /* of `stop` */
    pthread_cond_t cond;
    bool stop;
};

/* False: the thread shall end. */
static bool watch_pause(struct redis_sentinel_watch *watch) {
    int ms = watch->timeout_ms < WATCH_MS ? watch->timeout_ms : WATCH_MS;
    int64_t until_ns = clock_now_ns() + ms * INT64_C(1000000);
    pthread_mutex_lock(&watch->mutex);
    while (!watch->stop && cond_wait_until(&watch->cond, &watch->mutex, until_ns))
        ;
    bool stop = watch->stop;
    pthread_mutex_unlock(&watch->mutex);
    return !stop;
}

static bool watch_says_the_same(const struct redis_named *a, const struct redis_named *b) {
    bool replacing = a->election.replacing;
    return replacing == b->election.replacing && (replacing || redis_target_is_same(&a->master, &b->master));
}

static void *watch_run(void *arg) {
    struct redis_sentinel_watch *watch = arg;
    struct redis_named named = {.asked_epoch = 0}, before;
    bool asked = false;
    while (watch_pause(watch)) {
        if (!redis_connection_was_reached(watch->connection, &named.election.epoch))
            continue;
        char why[REDIS_WHY_SIZE];
        bool is_named = redis_master_ask(&watch->url, watch->timeout_ms, &named, why, sizeof why);
        if (!is_named && !named.election.replacing) /* nothing is known: what is connected stays so */
            continue;
        bool left = redis_connection_follow(watch->connection, &named);
        if (left || (asked && !watch_says_the_same(&named, &before)))
            watch->on_changed(watch->ctx);
        before = named;
        asked = true;
    }
    return NULL;
}

struct redis_sentinel_watch *redis_sentinel_watch_start(const struct redis_url *url, int timeout_ms,
                                                        struct redis_connection *connection,
                                                        void (*on_changed)(void *ctx), void *ctx) {
    struct redis_sentinel_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    *watch = (struct redis_sentinel_watch){.url = *url,
                                           .timeout_ms = timeout_ms,
                                           .connection = connection,
                                           .on_changed = on_changed,
                                           .ctx = ctx};
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_cond_init(&watch->cond, NULL);
    if (thread_start(&watch->thread, watch_run, watch))
        return watch;
    pthread_cond_destroy(&watch->cond);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
    return NULL;
}

void redis_sentinel_watch_stop(struct redis_sentinel_watch *watch) {
    if (!watch)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->stop = true;
    pthread_cond_signal(&watch->cond);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->cond);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
}
