#include "lock/redis/subscriber.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/redis/dial.h"

/* A connection that says nothing for so long is asked, and given up if it still says nothing. */
enum { SILENCE_MS = 1000, RETRY_MS = 100 };

struct redis_listener {
    struct redis_target target;
    const struct lock_env *env;
    pthread_t thread;
    int wake_fd; /* written to: the connection is to be left */
    _Atomic bool stop, hears;
};

/* ---- on the thread ---- */

static void on_message(struct redis_listener *listener, const char *text) {
    char owner[LOCK_OWNER_SIZE];
    size_t length = strlen(text);
    if (length < sizeof owner || text[sizeof owner - 1] != ' ' || length > LOCK_KEY_MAX + sizeof owner)
        return;
    memcpy(owner, text, sizeof owner - 1);
    owner[sizeof owner - 1] = '\0';
    listener->env->wake(listener->env->lock, text + sizeof owner, owner);
}

/* [subscribe CHANNEL 1], [message CHANNEL TEXT] or [pong …]. */
static void on_reply(struct redis_listener *listener, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || !reply->element[0]->str)
        return;
    if (strcmp(reply->element[0]->str, "message") == 0 && reply->element[2]->str) {
        on_message(listener, reply->element[2]->str);
    } else if (strcmp(reply->element[0]->str, "subscribe") == 0) {
        atomic_store(&listener->hears, true);
        listener->env->wake(listener->env->lock, NULL, NULL);
    }
}

/* False: the connection is of no use any more. */
static bool read_replies(struct redis_listener *listener, redisContext *hiredis) {
    void *reply = NULL;
    if (redisBufferRead(hiredis) != REDIS_OK)
        return false;
    while (redisGetReplyFromReader(hiredis, &reply) == REDIS_OK && reply) {
        on_reply(listener, reply);
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

/* Until the connection breaks, or is to be left. */
static void listen_on(struct redis_listener *listener, redisContext *hiredis) {
    char channel[64];
    snprintf(channel, sizeof channel, "lock:wake:%016llx", (unsigned long long)listener->env->session);
    bool asked = false, good = send_command(hiredis, "SUBSCRIBE", channel);
    while (good) {
        struct pollfd fds[] = {{.fd = hiredis->fd, .events = POLLIN},
                               {.fd = listener->wake_fd, .events = POLLIN}};
        int ready = poll(fds, 2, SILENCE_MS);
        if (ready > 0 && fds[1].revents)
            return;
        if (ready == 0)
            good = !asked && send_command(hiredis, "PING", NULL);
        asked = ready == 0;
        if (ready > 0 && fds[0].revents)
            good = read_replies(listener, hiredis);
    }
}

static void *run(void *arg) {
    struct redis_listener *listener = arg;
    for (;;) {
        eventfd_t moved;
        eventfd_read(listener->wake_fd, &moved); /* before the name is looked up: later it is meant anew */
        if (atomic_load(&listener->stop))
            break;
        redisContext *hiredis = redis_dial(&listener->target, SILENCE_MS, NULL, 0);
        if (hiredis)
            listen_on(listener, hiredis);
        atomic_store(&listener->hears, false);
        redisFree(hiredis);
        struct pollfd wake = {.fd = listener->wake_fd, .events = POLLIN};
        poll(&wake, 1, RETRY_MS);
    }
    return NULL;
}

/* ---- */

struct redis_listener *redis_listener_open(const struct redis_target *target, const struct lock_env *env) {
    struct redis_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return NULL;
    listener->target = *target;
    listener->env = env;
    listener->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->wake_fd >= 0 && lock_env_start_thread(&listener->thread, run, listener))
        return listener;
    if (listener->wake_fd >= 0)
        close(listener->wake_fd);
    free(listener);
    return NULL;
}

void redis_listener_close(struct redis_listener *listener) {
    if (!listener)
        return;
    atomic_store(&listener->stop, true);
    eventfd_write(listener->wake_fd, 1);
    pthread_join(listener->thread, NULL);
    close(listener->wake_fd);
    free(listener);
}

void redis_listener_move(struct redis_listener *listener) {
    if (listener)
        eventfd_write(listener->wake_fd, 1);
}

bool redis_listener_hears(const struct redis_listener *listener) {
    return listener && atomic_load(&listener->hears);
}
