#include "base/redis/blocking/driver.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A connection that is silent for so long gets a PING, and is closed if it stays silent. */
enum { SILENCE_MS = 1000, RETRY_MS = 100 };

struct redis_subscriber {
    struct redis_url url;
    const struct redis_hooks *hooks;
    pthread_t thread;
    int wake_fd; /* written to: the thread shall close the connection */
    _Atomic bool stop, has_ended, is_subscribed;
};

/* ---- on the thread ---- */

/* [subscribe CHANNEL 1], [message CHANNEL TEXT] or [pong …]. */
static void subscriber_on_reply(struct redis_subscriber *subscriber, const struct redis_value *reply) {
    const struct redis_hooks *hooks = subscriber->hooks;
    const char *kind = redis_value_count(reply) == 3 ? redis_value_text(redis_value_at(reply, 0)) : NULL;
    const char *text = kind ? redis_value_text(redis_value_at(reply, 2)) : NULL;
    if (kind && strcmp(kind, "message") == 0 && text) {
        hooks->message(hooks->message_ctx, text);
    } else if (kind && strcmp(kind, "subscribe") == 0) {
        atomic_store(&subscriber->is_subscribed, true);
        hooks->message(hooks->message_ctx, NULL);
    }
}

/* False: the connection is broken. */
static bool subscriber_read(struct redis_subscriber *subscriber, redisContext *hiredis) {
    void *reply = NULL;
    if (redisBufferRead(hiredis) != REDIS_OK)
        return false;
    while (redisGetReplyFromReader(hiredis, &reply) == REDIS_OK && reply) {
        subscriber_on_reply(subscriber, redis_value_of(reply));
        freeReplyObject(reply);
        reply = NULL;
    }
    return !hiredis->err;
}

static bool subscriber_send(redisContext *hiredis, const char *command, const char *argument) {
    int done = 0;
    if (redisAppendCommand(hiredis, argument ? "%s %s" : "%s", command, argument) != REDIS_OK)
        return false;
    while (!done) {
        if (redisBufferWrite(hiredis, &done) != REDIS_OK)
            return false;
    }
    return true;
}

/* Returns when the connection breaks, or the thread shall close it. */
static void subscriber_serve(struct redis_subscriber *subscriber, redisContext *hiredis) {
    bool pinged = false, good = subscriber_send(hiredis, "SUBSCRIBE", subscriber->hooks->channel);
    while (good) {
        struct pollfd fds[] = {{.fd = hiredis->fd, .events = POLLIN},
                               {.fd = subscriber->wake_fd, .events = POLLIN}};
        int ready = poll(fds, 2, SILENCE_MS);
        if (ready > 0 && fds[1].revents)
            return;
        if (ready == 0)
            good = !pinged && subscriber_send(hiredis, "PING", NULL);
        pinged = ready == 0;
        if (ready > 0 && fds[0].revents)
            good = subscriber_read(subscriber, hiredis);
    }
}

static void *subscriber_run(void *arg) {
    struct redis_subscriber *subscriber = arg;
    struct redis_named named = {.asked_epoch = 0};
    for (;;) {
        eventfd_t wakes;
        eventfd_read(subscriber->wake_fd, &wakes); /* a wake-up from here on is for the next connection */
        if (atomic_load(&subscriber->stop))
            break;
        redisContext *hiredis = redis_master_dial(&subscriber->url, SILENCE_MS, &named, NULL, 0);
        if (hiredis)
            subscriber_serve(subscriber, hiredis);
        atomic_store(&subscriber->is_subscribed, false);
        redisFree(hiredis);
        struct pollfd wake = {.fd = subscriber->wake_fd, .events = POLLIN};
        poll(&wake, 1, RETRY_MS);
    }
    atomic_store(&subscriber->has_ended, true);
    return NULL;
}

/* ---- called by other threads ---- */

struct redis_subscriber *redis_subscriber_open(const struct redis_url *url, const struct redis_hooks *hooks) {
    struct redis_subscriber *subscriber = calloc(1, sizeof *subscriber);
    if (!subscriber)
        return NULL;
    subscriber->url = *url;
    subscriber->hooks = hooks;
    subscriber->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (subscriber->wake_fd >= 0 && thread_start(&subscriber->thread, subscriber_run, subscriber))
        return subscriber;
    if (subscriber->wake_fd >= 0)
        close(subscriber->wake_fd);
    free(subscriber);
    return NULL;
}

void redis_subscriber_stop(struct redis_subscriber *subscriber) {
    if (!subscriber)
        return;
    atomic_store(&subscriber->stop, true);
    eventfd_write(subscriber->wake_fd, 1);
}

bool redis_subscriber_has_ended(const struct redis_subscriber *subscriber) {
    return !subscriber || atomic_load(&subscriber->has_ended);
}

void redis_subscriber_close(struct redis_subscriber *subscriber) {
    if (!subscriber)
        return;
    redis_subscriber_stop(subscriber);
    pthread_join(subscriber->thread, NULL);
    close(subscriber->wake_fd);
    free(subscriber);
}

void redis_subscriber_reconnect(struct redis_subscriber *subscriber) {
    if (subscriber)
        eventfd_write(subscriber->wake_fd, 1);
}

bool redis_subscriber_is_subscribed(const struct redis_subscriber *subscriber) {
    return subscriber && atomic_load(&subscriber->is_subscribed);
}
