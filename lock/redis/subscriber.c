#include "lock/redis/subscriber.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/redis/sentinels.h"

/* A connection that is silent for so long gets a PING, and is closed if it stays silent. */
enum { SILENCE_MS = 1000, RETRY_MS = 100 };

struct redis_subscriber {
    struct redis_url url;
    const struct lock_env *env;
    pthread_t thread;
    int wake_fd; /* written to: the thread shall close the connection */
    _Atomic bool stop, has_ended, is_subscribed;
};

/* ---- on the thread ---- */

static void on_message(struct redis_subscriber *subscriber, const char *text) {
    char owner[LOCK_OWNER_SIZE];
    size_t length = strlen(text);
    if (length < sizeof owner || text[sizeof owner - 1] != ' ' || length > LOCK_KEY_MAX + sizeof owner)
        return;
    memcpy(owner, text, sizeof owner - 1);
    owner[sizeof owner - 1] = '\0';
    subscriber->env->wake(subscriber->env->lock, text + sizeof owner, owner);
}

/* [subscribe CHANNEL 1], [message CHANNEL TEXT] or [pong …]. */
static void on_reply(struct redis_subscriber *subscriber, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || !reply->element[0]->str)
        return;
    if (strcmp(reply->element[0]->str, "message") == 0 && reply->element[2]->str) {
        on_message(subscriber, reply->element[2]->str);
    } else if (strcmp(reply->element[0]->str, "subscribe") == 0) {
        atomic_store(&subscriber->is_subscribed, true);
        subscriber->env->wake(subscriber->env->lock, NULL, NULL);
    }
}

/* False: the connection is broken. */
static bool read_replies(struct redis_subscriber *subscriber, redisContext *hiredis) {
    void *reply = NULL;
    if (redisBufferRead(hiredis) != REDIS_OK)
        return false;
    while (redisGetReplyFromReader(hiredis, &reply) == REDIS_OK && reply) {
        on_reply(subscriber, reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    return !hiredis->err;
}

static bool send_command(redisContext *hiredis, const char *command, const char *argument) {
    int done = 0;
    if (redisAppendCommand(hiredis, argument ? "%s %s" : "%s", command, argument) != REDIS_OK)
        return false;
    while (!done) {
        if (redisBufferWrite(hiredis, &done) != REDIS_OK)
            return false;
    }
    return true;
}

/* Until the connection breaks, or the thread shall close it. */
static void read_messages(struct redis_subscriber *subscriber, redisContext *hiredis) {
    char channel[64];
    snprintf(channel, sizeof channel, "lock:wake:%016llx", (unsigned long long)subscriber->env->session);
    bool pinged = false, good = send_command(hiredis, "SUBSCRIBE", channel);
    while (good) {
        struct pollfd fds[] = {{.fd = hiredis->fd, .events = POLLIN},
                               {.fd = subscriber->wake_fd, .events = POLLIN}};
        int ready = poll(fds, 2, SILENCE_MS);
        if (ready > 0 && fds[1].revents)
            return;
        if (ready == 0)
            good = !pinged && send_command(hiredis, "PING", NULL);
        pinged = ready == 0;
        if (ready > 0 && fds[0].revents)
            good = read_replies(subscriber, hiredis);
    }
}

static void *run(void *arg) {
    struct redis_subscriber *subscriber = arg;
    struct redis_named named = {.asked_epoch = 0};
    for (;;) {
        eventfd_t wakes;
        eventfd_read(subscriber->wake_fd, &wakes); /* a wake-up from here on is for the next connection */
        if (atomic_load(&subscriber->stop))
            break;
        redisContext *hiredis = redis_master_dial(&subscriber->url, SILENCE_MS, &named, NULL, 0);
        if (hiredis)
            read_messages(subscriber, hiredis);
        atomic_store(&subscriber->is_subscribed, false);
        redisFree(hiredis);
        struct pollfd wake = {.fd = subscriber->wake_fd, .events = POLLIN};
        poll(&wake, 1, RETRY_MS);
    }
    atomic_store(&subscriber->has_ended, true);
    return NULL;
}

/* ---- called by other threads ---- */

struct redis_subscriber *redis_subscriber_open(const struct redis_url *url, const struct lock_env *env) {
    struct redis_subscriber *subscriber = calloc(1, sizeof *subscriber);
    if (!subscriber)
        return NULL;
    subscriber->url = *url;
    subscriber->env = env;
    subscriber->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (subscriber->wake_fd >= 0 && lock_env_start_thread(&subscriber->thread, run, subscriber))
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
