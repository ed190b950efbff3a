#include "loadtest/lab/stage/proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadtest/lab/stage/process.h"

enum { PAIRS_MAX = 64, BUFFER_SIZE = 65536, TEXT_SIZE = 64 };

struct pair {
    int client, server;
    bool met; /* the text `after` has gone to the server */
};

/* One thread touches the sockets. */
struct proxy {
    struct stage *stage;
    int port, target_port, listener, wake;
    pthread_t thread;
    pthread_mutex_t mutex; /* of the next six */
    pthread_cond_t applied;
    bool cut, heals, ending;
    char after[TEXT_SIZE], before[TEXT_SIZE]; /* "": it is not to be cut */
    bool changed;                             /* the thread has not seen it yet */
    struct pair pairs[PAIRS_MAX];             /* of the thread */
    int count;
};

/* ---- sockets ---- */

static int open_socket(int port, bool listens) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct timeval patience = {.tv_sec = 2};
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (listens ? bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, PAIRS_MAX) == 0
                : connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void drop_pair(struct proxy *proxy, int i) {
    close(proxy->pairs[i].client);
    close(proxy->pairs[i].server);
    proxy->pairs[i] = proxy->pairs[--proxy->count];
}

static void accept_pair(struct proxy *proxy) {
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client < 0 || proxy->count == PAIRS_MAX ? -1 : open_socket(proxy->target_port, false);
    if (server >= 0)
        proxy->pairs[proxy->count++] = (struct pair){.client = client, .server = server};
    else if (client >= 0)
        close(client);
}

/* ---- the thread ---- */

/* Of a request: how much may pass. Where it is to be cut, that is what stands before the text. */
static size_t passable(struct proxy *proxy, struct pair *pair, const char *data, size_t length) {
    const char *from = data, *found = NULL;
    pthread_mutex_lock(&proxy->mutex);
    if (proxy->after[0] != '\0' && !pair->met) {
        from = memmem(data, length, proxy->after, strlen(proxy->after));
        pair->met = from != NULL;
    }
    if (proxy->after[0] != '\0' && pair->met)
        found = memmem(from, length - (size_t)(from - data), proxy->before, strlen(proxy->before));
    if (found != NULL) {
        proxy->cut = true;
        proxy->after[0] = '\0';
    }
    pthread_mutex_unlock(&proxy->mutex);
    return found != NULL ? (size_t)(found - data) : length;
}

/* Passes on what is there; false when the connection is over. */
static bool pass(struct proxy *proxy, struct pair *pair, int from, bool is_request) {
    char buffer[BUFFER_SIZE];
    ssize_t got = recv(from, buffer, BUFFER_SIZE, 0);
    if (got <= 0)
        return false;
    size_t length = is_request ? passable(proxy, pair, buffer, (size_t)got) : (size_t)got;
    return send(is_request ? pair->server : pair->client, buffer, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static bool is_cut(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->mutex);
    bool cut = proxy->cut;
    pthread_mutex_unlock(&proxy->mutex);
    return cut;
}

static void serve_pair(struct proxy *proxy, int i, const struct pollfd polled[2]) {
    bool open = true;
    for (int side = 0; side < 2 && open && !is_cut(proxy); side++)
        open = polled[side].revents == 0 || pass(proxy, &proxy->pairs[i], polled[side].fd, side == 0);
    if (!open)
        drop_pair(proxy, i);
}

/* Takes over what was changed; false at the end. While it is cut, new connections wait in the queue of the
 * listening socket, as on a network that loses everything. */
static bool apply(struct proxy *proxy, bool *cut) {
    pthread_mutex_lock(&proxy->mutex);
    bool heals = proxy->heals, ending = proxy->ending;
    *cut = proxy->cut;
    proxy->heals = proxy->changed = false;
    pthread_cond_broadcast(&proxy->applied);
    pthread_mutex_unlock(&proxy->mutex);
    while ((heals || ending) && proxy->count > 0)
        drop_pair(proxy, 0);
    return !ending;
}

static void *serve(void *arg) {
    struct proxy *proxy = arg;
    struct pollfd polled[2 + 2 * PAIRS_MAX];
    bool cut;
    while (apply(proxy, &cut)) {
        int count = proxy->count;
        polled[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = cut ? -1 : proxy->listener, .events = POLLIN};
        for (int i = 0; i < count; i++) {
            polled[2 + 2 * i] = (struct pollfd){.fd = cut ? -1 : proxy->pairs[i].client, .events = POLLIN};
            polled[3 + 2 * i] = (struct pollfd){.fd = cut ? -1 : proxy->pairs[i].server, .events = POLLIN};
        }
        uint64_t wakes;
        if (poll(polled, 2 + 2 * (nfds_t)count, -1) < 0 ||
            (polled[0].revents != 0 && read(proxy->wake, &wakes, sizeof wakes) < 0))
            continue;
        for (int i = count; i-- > 0;) { /* from the last on: to drop one moves the last into its place */
            if (polled[2 + 2 * i].revents != 0 || polled[3 + 2 * i].revents != 0)
                serve_pair(proxy, i, &polled[2 + 2 * i]);
        }
        if (polled[1].revents != 0 && !is_cut(proxy))
            accept_pair(proxy);
    }
    return NULL;
}

/* ---- calls ---- */

/* Under the mutex. Returns when the thread has seen it. */
static void apply_change(struct proxy *proxy) {
    const uint64_t one = 1;
    proxy->changed = true;
    if (write(proxy->wake, &one, sizeof one) < 0)
        abort(); /* impossible: the number in it is small */
    while (proxy->changed)
        pthread_cond_wait(&proxy->applied, &proxy->mutex);
}

static void end(void *part) {
    struct proxy *proxy = part;
    if (proxy->port != 0) {
        pthread_mutex_lock(&proxy->mutex);
        proxy->ending = true;
        apply_change(proxy);
        pthread_mutex_unlock(&proxy->mutex);
        pthread_join(proxy->thread, NULL);
        close(proxy->listener);
    }
    close(proxy->wake);
    pthread_cond_destroy(&proxy->applied);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

struct proxy *proxy_start(struct stage *stage, int port) {
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL)
        abort(); /* a scenario counts on it, and has no use for less */
    proxy->stage = stage;
    proxy->target_port = port;
    proxy->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&proxy->mutex, NULL);
    pthread_cond_init(&proxy->applied, NULL);
    int own_port = process_free_port();
    proxy->listener = own_port != 0 ? open_socket(own_port, true) : -1;
    if (proxy->listener >= 0 && pthread_create(&proxy->thread, NULL, serve, proxy) == 0)
        proxy->port = own_port;
    else
        stage_fail(stage, "a proxy cannot be started");
    stage_add(stage, end, proxy);
    return proxy;
}

int proxy_port(const struct proxy *proxy) {
    return proxy->port;
}

void proxy_cut(struct proxy *proxy) {
    if (stage_failed(proxy->stage))
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = true;
    apply_change(proxy);
    pthread_mutex_unlock(&proxy->mutex);
}

void proxy_cut_between(struct proxy *proxy, const char *after, const char *before) {
    pthread_mutex_lock(&proxy->mutex);
    snprintf(proxy->after, sizeof proxy->after, "%s", after);
    snprintf(proxy->before, sizeof proxy->before, "%s", before);
    pthread_mutex_unlock(&proxy->mutex);
}

bool proxy_is_cut(struct proxy *proxy) {
    return is_cut(proxy);
}

void proxy_heal(struct proxy *proxy) {
    if (stage_failed(proxy->stage))
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = false;
    proxy->heals = true;
    apply_change(proxy);
    pthread_mutex_unlock(&proxy->mutex);
}
