#include "base/servers/proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/servers/local_servers.h"

enum { PAIRS_MAX = 256, BUFFER_SIZE = 65536, BACKLOG = 128, SEND_S = 2, SLEEP_MS = 60000 };

/* A connection of a client, and the one to the server for it. */
struct proxy_pair {
    int client; /* -1: it has left, and what it sent is still kept back */
    int server;
    bool met;       /* the text `after` has passed here */
    int64_t due_ms; /* when a delayed reply may be read; 0: none waits */
    char *kept;     /* requests that are kept back */
    size_t kept_size;
};

struct proxy {
    int port;
    int wake; /* eventfd: the settings changed */
    pthread_t thread;

    pthread_mutex_t lock; /* of the settings */
    pthread_cond_t applied;
    int target_port;
    enum proxy_mode mode;
    int n, faults;
    char after[PROXY_TEXT_SIZE];
    char before[PROXY_TEXT_SIZE]; /* "": it is not to fall silent by itself */
    bool stopping, heals;
    bool dirty; /* the thread has not seen the settings yet */

    int listener; /* from here on of the thread alone; -1 while it refuses */
    struct proxy_pair pairs[PAIRS_MAX];
    size_t count;
};

/* ---- sockets ---- */

static int proxy_socket(int port, bool listening) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct timeval patience = {.tv_sec = SEND_S};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted sockets have it from the listener */
    if (listening ? bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, BACKLOG) == 0
                  : connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void proxy_drop_pair(struct proxy *proxy, size_t i) {
    free(proxy->pairs[i].kept);
    if (proxy->pairs[i].client >= 0)
        close(proxy->pairs[i].client);
    close(proxy->pairs[i].server);
    proxy->pairs[i] = proxy->pairs[--proxy->count];
}

static void proxy_drop_pairs(struct proxy *proxy) {
    while (proxy->count)
        proxy_drop_pair(proxy, 0);
}

static void proxy_accept(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->lock);
    int target_port = proxy->target_port;
    bool silent = proxy->mode == PROXY_SILENT;
    pthread_mutex_unlock(&proxy->lock);
    if (silent)
        return;
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client < 0 || proxy->count == PAIRS_MAX ? -1 : proxy_socket(target_port, false);
    if (server >= 0)
        proxy->pairs[proxy->count++] = (struct proxy_pair){.client = client, .server = server};
    else if (client >= 0)
        close(client);
}

/* ---- what passes ---- */

static void proxy_keep_back(struct proxy_pair *pair, const char *data, size_t size) {
    pair->kept = realloc(pair->kept, pair->kept_size + size);
    if (!pair->kept)
        abort();
    memcpy(pair->kept + pair->kept_size, data, size);
    pair->kept_size += size;
}

/* Sends what was kept back. If the client has left, its replies are read and thrown away. */
static void proxy_deliver(struct proxy_pair *pair) {
    if (send(pair->server, pair->kept, pair->kept_size, MSG_NOSIGNAL) < 0 || pair->client < 0)
        shutdown(pair->server, SHUT_WR);
    free(pair->kept);
    pair->kept = NULL;
    pair->kept_size = 0;
}

/* Under the lock. Returns how much of a request may pass: all, or what stands before the text at which the
 * link falls silent. */
static size_t proxy_passable(struct proxy *proxy, struct proxy_pair *pair, const char *data, size_t size) {
    const char *from = data;
    if (*proxy->after && !pair->met) {
        from = memmem(data, size, proxy->after, strlen(proxy->after));
        pair->met = from;
    }
    if (!*proxy->before || !pair->met)
        return size;
    const char *found = memmem(from, size - (size_t)(from - data), proxy->before, strlen(proxy->before));
    if (!found)
        return size;
    proxy->mode = PROXY_SILENT;
    proxy->before[0] = '\0';
    return (size_t)(found - data);
}

/* Passes a request on. False: the connection is over. */
static bool proxy_pass_request(struct proxy *proxy, struct proxy_pair *pair) {
    char data[BUFFER_SIZE];
    if (proxy_is_silent(proxy))
        return true;
    ssize_t got = recv(pair->client, data, sizeof data, 0);
    if (got <= 0 && pair->kept) {
        close(pair->client);
        pair->client = -1;
        return true;
    }
    if (got <= 0)
        return false;
    pthread_mutex_lock(&proxy->lock);
    ssize_t size = (ssize_t)proxy_passable(proxy, pair, data, (size_t)got);
    bool late = proxy->mode == PROXY_LATE && (!*proxy->after || pair->met);
    pthread_mutex_unlock(&proxy->lock);
    if (late) {
        proxy_keep_back(pair, data, (size_t)size);
        return true;
    }
    return send(pair->server, data, (size_t)size, MSG_NOSIGNAL) == size;
}

/* Under the lock. Returns how much of a reply of `got` bytes may pass; `cut` tells that the connection ends
 * there. */
static ssize_t proxy_cut_reply(struct proxy *proxy, ssize_t got, bool *cut) {
    ssize_t keep = got > proxy->n ? proxy->n : got;
    *cut = got > proxy->n;
    proxy->n -= (int)keep;
    if (*cut) {
        proxy->mode = PROXY_PASS;
        proxy->faults++;
    }
    return keep;
}

/* Passes a reply on, or as much of it as the mode lets through. False: the connection is over. */
static bool proxy_pass_reply(struct proxy *proxy, struct proxy_pair *pair) {
    char data[BUFFER_SIZE];
    bool cut = false;
    pthread_mutex_lock(&proxy->lock);
    enum proxy_mode mode = proxy->mode;
    bool meant = !*proxy->after || pair->met;
    bool delays = meant && mode == PROXY_DELAY && !pair->due_ms;
    if (delays)
        pair->due_ms = clock_now_ms() + proxy->n;
    if (delays || mode == PROXY_SILENT ||
        mode == PROXY_REFUSE) { /* the last two just set, and not applied yet */
        pthread_mutex_unlock(&proxy->lock);
        return mode != PROXY_REFUSE;
    }
    pair->due_ms = 0;
    ssize_t got = recv(pair->server, data, sizeof data, 0), keep = got;
    if (meant && mode == PROXY_CUT && got > 0)
        keep = proxy_cut_reply(proxy, got, &cut);
    pthread_mutex_unlock(&proxy->lock);
    bool sent = got > 0 && (pair->client < 0 || send(pair->client, data, (size_t)keep, MSG_NOSIGNAL) == keep);
    return sent && !cut;
}

/* ---- the thread ---- */

/* Under the lock. */
static void proxy_apply_settings(struct proxy *proxy) {
    for (size_t i = 0; i < proxy->count; i++) {
        proxy->pairs[i].met = false;
        proxy->pairs[i].due_ms = 0;
        if (proxy->pairs[i].kept && proxy->mode != PROXY_LATE)
            proxy_deliver(&proxy->pairs[i]);
    }
    if (proxy->stopping || proxy->mode == PROXY_REFUSE) {
        proxy_drop_pairs(proxy);
        if (proxy->listener >= 0)
            close(proxy->listener);
        proxy->listener = -1;
    } else if (proxy->listener < 0) {
        proxy->listener = proxy_socket(proxy->port, true);
    }
    if (proxy->heals)
        proxy_drop_pairs(proxy);
    proxy->heals = proxy->dirty = false;
    pthread_cond_broadcast(&proxy->applied);
}

/* Returns for how long poll may sleep, or -1 when the thread is to end. A descriptor of -1 is not polled. */
static int proxy_prepare(struct proxy *proxy, struct pollfd *polled) {
    int64_t now_ms = clock_now_ms(), sleep_ms = SLEEP_MS;
    pthread_mutex_lock(&proxy->lock);
    if (proxy->dirty)
        proxy_apply_settings(proxy);
    bool silent = proxy->mode == PROXY_SILENT, stopping = proxy->stopping;
    pthread_mutex_unlock(&proxy->lock);
    polled[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = silent ? -1 : proxy->listener, .events = POLLIN};
    for (size_t i = 0; i < proxy->count; i++) {
        const struct proxy_pair *pair = &proxy->pairs[i];
        bool waits = pair->due_ms > now_ms;
        if (waits && pair->due_ms - now_ms < sleep_ms)
            sleep_ms = pair->due_ms - now_ms;
        polled[2 + 2 * i] = (struct pollfd){.fd = silent ? -1 : pair->client, .events = POLLIN};
        polled[3 + 2 * i] = (struct pollfd){.fd = silent || waits ? -1 : pair->server, .events = POLLIN};
    }
    return stopping ? -1 : (int)sleep_ms;
}

static void *proxy_serve(void *arg) {
    struct proxy *proxy = arg;
    struct pollfd polled[2 + 2 * PAIRS_MAX];
    for (int sleep_ms; (sleep_ms = proxy_prepare(proxy, polled)) >= 0;) {
        if (poll(polled, 2 + 2 * proxy->count, sleep_ms) < 0 && errno != EINTR)
            break;
        uint64_t wakes;
        if (polled[0].revents && read(proxy->wake, &wakes, sizeof wakes) < 0)
            break;
        /* From the last down: a drop moves the last into its place. */
        for (size_t i = proxy->count; i-- > 0;) {
            struct proxy_pair *pair = &proxy->pairs[i];
            if ((polled[2 + 2 * i].revents && !proxy_pass_request(proxy, pair)) ||
                (polled[3 + 2 * i].revents && !proxy_pass_reply(proxy, pair)))
                proxy_drop_pair(proxy, i);
        }
        if (polled[1].revents)
            proxy_accept(proxy);
    }
    return NULL;
}

/* ---- begin and end ---- */

/* Takes the lock. */
static bool proxy_begin_change(struct proxy *proxy) {
    if (proxy)
        pthread_mutex_lock(&proxy->lock);
    return proxy;
}

/* Blocks until the thread has applied the settings, and releases the lock. */
static void proxy_end_change(struct proxy *proxy) {
    const uint64_t one = 1;
    proxy->dirty = true;
    if (write(proxy->wake, &one, sizeof one) < 0)
        abort(); /* impossible: the number in it is small */
    while (proxy->dirty)
        pthread_cond_wait(&proxy->applied, &proxy->lock);
    pthread_mutex_unlock(&proxy->lock);
}

static void proxy_dispose(struct proxy *proxy) {
    if (proxy->listener >= 0)
        close(proxy->listener);
    if (proxy->wake >= 0)
        close(proxy->wake);
    pthread_mutex_destroy(&proxy->lock);
    pthread_cond_destroy(&proxy->applied);
    free(proxy);
}

struct proxy *proxy_open(int target_port) {
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy)
        return NULL;
    proxy->port = local_server_free_port();
    proxy->target_port = target_port;
    proxy->wake = eventfd(0, EFD_CLOEXEC);
    proxy->listener = proxy->port ? proxy_socket(proxy->port, true) : -1;
    pthread_mutex_init(&proxy->lock, NULL);
    pthread_cond_init(&proxy->applied, NULL);
    if (proxy->wake >= 0 && proxy->listener >= 0 &&
        pthread_create(&proxy->thread, NULL, proxy_serve, proxy) == 0)
        return proxy;
    proxy_dispose(proxy);
    return NULL;
}

void proxy_free(struct proxy *proxy) {
    if (!proxy_begin_change(proxy))
        return;
    proxy->stopping = true;
    proxy_end_change(proxy);
    pthread_join(proxy->thread, NULL);
    proxy_dispose(proxy);
}

int proxy_port(const struct proxy *proxy) {
    return proxy ? proxy->port : 0;
}

/* ---- settings ---- */

void proxy_set(struct proxy *proxy, enum proxy_mode mode, int n, const char *after) {
    if (!proxy_begin_change(proxy))
        return;
    proxy->mode = mode;
    proxy->n = n;
    snprintf(proxy->after, sizeof proxy->after, "%s", after ? after : "");
    proxy->before[0] = '\0';
    proxy_end_change(proxy);
}

void proxy_stop(struct proxy *proxy) {
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
}

void proxy_silence(struct proxy *proxy) {
    proxy_set(proxy, PROXY_SILENT, 0, NULL);
}

void proxy_silence_between(struct proxy *proxy, const char *after, const char *before) {
    if (!proxy_begin_change(proxy))
        return;
    snprintf(proxy->after, sizeof proxy->after, "%s", after);
    snprintf(proxy->before, sizeof proxy->before, "%s", before);
    proxy_end_change(proxy);
}

void proxy_heal(struct proxy *proxy) {
    if (!proxy_begin_change(proxy))
        return;
    proxy->mode = PROXY_PASS;
    proxy->heals = true;
    proxy_end_change(proxy);
}

bool proxy_is_silent(struct proxy *proxy) {
    if (!proxy_begin_change(proxy))
        return false;
    bool silent = proxy->mode == PROXY_SILENT;
    pthread_mutex_unlock(&proxy->lock);
    return silent;
}

void proxy_point(struct proxy *proxy, int target_port) {
    if (!proxy_begin_change(proxy))
        return;
    proxy->target_port = target_port;
    pthread_mutex_unlock(&proxy->lock);
}

int proxy_faults(struct proxy *proxy) {
    if (!proxy_begin_change(proxy))
        return 0;
    int faults = proxy->faults;
    pthread_mutex_unlock(&proxy->lock);
    return faults;
}
