/* A TCP proxy that loses replies: one thread, which alone touches the sockets. */
#include "test/harness.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_PAIRS = 256 };

struct pair {
    int client;
    int server;
    bool met;       /* the text waited for has passed here */
    int64_t due_ms; /* when a delayed reply may be read; 0: none waits */
    char *kept;     /* requests that are kept back */
    size_t kept_size;
};

struct proxy {
    int port;
    int target_port;
    int wake; /* eventfd: the settings changed */
    pthread_t thread;
    bool joined;

    pthread_mutex_t lock; /* of the settings, and of the target */
    pthread_cond_t applied;
    bool stopping;
    bool dirty; /* the thread has not seen them yet */
    enum proxy_mode mode;
    int n;
    char after[64];
    int faults;

    int listener; /* from here on: the thread's; -1 while refusing */
    struct pair pairs[MAX_PAIRS];
    size_t count;
};

static int open_socket(int port, bool listening) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {2, 0};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted sockets have it from the listener */
    bool ok = listening ? bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 128) == 0
                        : connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (ok)
        return fd;
    close(fd);
    return -1;
}

static void drop_pair(struct proxy *proxy, size_t i) {
    free(proxy->pairs[i].kept);
    if (proxy->pairs[i].client >= 0)
        close(proxy->pairs[i].client);
    close(proxy->pairs[i].server);
    proxy->pairs[i] = proxy->pairs[--proxy->count];
}

static void accept_pair(struct proxy *proxy) {
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    pthread_mutex_lock(&proxy->lock);
    int target_port = proxy->target_port;
    pthread_mutex_unlock(&proxy->lock);
    int server = client < 0 || proxy->count == MAX_PAIRS ? -1 : open_socket(target_port, false);
    if (server >= 0)
        proxy->pairs[proxy->count++] = (struct pair){.client = client, .server = server};
    else if (client >= 0)
        close(client);
}

static void keep_back(struct pair *pair, const char *data, size_t size) {
    pair->kept = realloc(pair->kept, pair->kept_size + size);
    if (!pair->kept)
        abort();
    memcpy(pair->kept + pair->kept_size, data, size);
    pair->kept_size += size;
}

/* What was kept back arrives at last. Whose client has left gets its replies, and nobody reads them. */
static void deliver(struct pair *pair) {
    if (send(pair->server, pair->kept, pair->kept_size, MSG_NOSIGNAL) < 0 || pair->client < 0)
        shutdown(pair->server, SHUT_WR);
    free(pair->kept);
    pair->kept = NULL;
    pair->kept_size = 0;
}

/* Passes a request on; false when the connection is over. */
static bool pass_request(struct proxy *proxy, struct pair *pair) {
    char data[65536];
    ssize_t got = recv(pair->client, data, sizeof data, 0);
    if (got <= 0 && pair->kept) {
        close(pair->client);
        pair->client = -1;
        return true;
    }
    if (got <= 0)
        return false;
    pthread_mutex_lock(&proxy->lock);
    if (*proxy->after && memmem(data, (size_t)got, proxy->after, strlen(proxy->after)))
        pair->met = true;
    bool late = proxy->mode == PROXY_LATE && (!*proxy->after || pair->met);
    pthread_mutex_unlock(&proxy->lock);
    if (late) {
        keep_back(pair, data, (size_t)got);
        return true;
    }
    return send(pair->server, data, (size_t)got, MSG_NOSIGNAL) == got;
}

/* Passes a reply on, or as much of it as the mode lets through; false when the connection is over. */
static bool pass_reply(struct proxy *proxy, struct pair *pair) {
    char data[65536];
    ssize_t keep;
    bool cut = false;
    pthread_mutex_lock(&proxy->lock);
    if (proxy->mode == PROXY_REFUSE) { /* just set, and not applied yet */
        pthread_mutex_unlock(&proxy->lock);
        return false;
    }
    bool meant = !*proxy->after || pair->met;
    if (meant && proxy->mode == PROXY_DELAY && !pair->due_ms) {
        pair->due_ms = harness_now_ms() + proxy->n;
        pthread_mutex_unlock(&proxy->lock);
        return true;
    }
    pair->due_ms = 0;
    ssize_t got = keep = recv(pair->server, data, sizeof data, 0);
    if (meant && proxy->mode == PROXY_CUT && got > 0) {
        cut = got > proxy->n;
        keep = cut ? proxy->n : got;
        proxy->n -= (int)keep;
        if (cut) {
            proxy->mode = PROXY_PASS;
            proxy->faults++;
        }
    }
    pthread_mutex_unlock(&proxy->lock);
    bool sent = got > 0 && (pair->client < 0 || send(pair->client, data, (size_t)keep, MSG_NOSIGNAL) == keep);
    return sent && !cut;
}

/* Takes over changed settings; false when told to stop. */
static bool apply(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->lock);
    bool refuse = proxy->mode == PROXY_REFUSE || proxy->stopping;
    bool go_on = !proxy->stopping;
    if (proxy->dirty) {
        for (size_t i = 0; i < proxy->count; i++) {
            proxy->pairs[i].met = false, proxy->pairs[i].due_ms = 0;
            if (proxy->pairs[i].kept && proxy->mode != PROXY_LATE)
                deliver(&proxy->pairs[i]);
        }
        if (refuse) {
            while (proxy->count)
                drop_pair(proxy, 0);
            if (proxy->listener >= 0)
                close(proxy->listener);
            proxy->listener = -1;
        } else if (proxy->listener < 0) {
            proxy->listener = open_socket(proxy->port, true);
        }
        proxy->dirty = false;
        pthread_cond_broadcast(&proxy->applied);
    }
    pthread_mutex_unlock(&proxy->lock);
    return go_on;
}

/* How long poll may sleep, and which replies must wait: a socket of -1 is not looked at. */
static int prepare(const struct proxy *proxy, struct pollfd *polled) {
    int64_t now = harness_now_ms();
    int64_t sleep = 60000;
    polled[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    for (size_t i = 0; i < proxy->count; i++) {
        const struct pair *pair = &proxy->pairs[i];
        bool wait = pair->due_ms > now;
        if (wait && pair->due_ms - now < sleep)
            sleep = pair->due_ms - now;
        polled[2 + 2 * i] = (struct pollfd){.fd = pair->client, .events = POLLIN};
        polled[3 + 2 * i] = (struct pollfd){.fd = wait ? -1 : pair->server, .events = POLLIN};
    }
    return (int)sleep;
}

static void *serve(void *arg) {
    struct proxy *proxy = arg;
    struct pollfd polled[2 + 2 * MAX_PAIRS];
    while (apply(proxy)) {
        int sleep = prepare(proxy, polled);
        nfds_t n = 2 + 2 * proxy->count;
        if (poll(polled, n, sleep) < 0 && errno != EINTR)
            break;
        uint64_t wakes;
        if (polled[0].revents && read(proxy->wake, &wakes, sizeof wakes) < 0)
            break;
        /* From the last down, as dropping one moves the last into its place. */
        for (size_t i = proxy->count; i-- > 0;) {
            struct pair *pair = &proxy->pairs[i];
            if ((polled[2 + 2 * i].revents && !pass_request(proxy, pair)) ||
                (polled[3 + 2 * i].revents && !pass_reply(proxy, pair)))
                drop_pair(proxy, i);
        }
        if (polled[1].revents)
            accept_pair(proxy);
    }
    return NULL;
}

static void change(struct proxy *proxy) {
    uint64_t one = 1;
    proxy->dirty = true;
    if (write(proxy->wake, &one, sizeof one) < 0)
        abort();
    while (proxy->dirty)
        pthread_cond_wait(&proxy->applied, &proxy->lock);
}

static void destroy(void *arg) {
    struct proxy *proxy = arg;
    proxy_stop(proxy);
    close(proxy->wake);
    pthread_mutex_destroy(&proxy->lock);
    pthread_cond_destroy(&proxy->applied);
    free(proxy);
}

struct proxy *proxy_start(int target_port) {
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy)
        abort();
    proxy->port = harness_free_port();
    proxy->target_port = target_port;
    proxy->wake = eventfd(0, EFD_CLOEXEC);
    proxy->listener = open_socket(proxy->port, true);
    pthread_mutex_init(&proxy->lock, NULL);
    pthread_cond_init(&proxy->applied, NULL);
    CHECK(proxy->wake >= 0 && proxy->listener >= 0);
    CHECK_INT(pthread_create(&proxy->thread, NULL, serve, proxy), 0);
    harness_defer(destroy, proxy);
    return proxy;
}

int proxy_port(const struct proxy *proxy) {
    return proxy->port;
}

void proxy_set(struct proxy *proxy, enum proxy_mode mode, int n, const char *after) {
    pthread_mutex_lock(&proxy->lock);
    proxy->mode = mode;
    proxy->n = n;
    snprintf(proxy->after, sizeof proxy->after, "%s", after ? after : "");
    change(proxy);
    pthread_mutex_unlock(&proxy->lock);
}

void proxy_point(struct proxy *proxy, int target_port) {
    pthread_mutex_lock(&proxy->lock);
    proxy->target_port = target_port;
    pthread_mutex_unlock(&proxy->lock);
}

int proxy_faults(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->lock);
    int faults = proxy->faults;
    pthread_mutex_unlock(&proxy->lock);
    return faults;
}

void proxy_stop(struct proxy *proxy) {
    if (proxy->joined)
        return;
    pthread_mutex_lock(&proxy->lock);
    proxy->stopping = true;
    change(proxy);
    pthread_mutex_unlock(&proxy->lock);
    pthread_join(proxy->thread, NULL);
    proxy->joined = true;
}
