#include "loadtest/lab/stage/link.h"

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
struct link {
    struct stage *stage;
    int port, listener, wake;
    pthread_t thread;
    pthread_mutex_t mutex; /* of the next seven */
    pthread_cond_t applied;
    int next_port;
    bool cut, heals, ending;
    char after[TEXT_SIZE], before[TEXT_SIZE]; /* "": it is not to be cut */
    bool changed;                             /* the thread has not seen it yet */
    int target_port;                          /* of the thread, as the next two */
    struct pair pairs[PAIRS_MAX];
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

static void drop_pair(struct link *link, int i) {
    close(link->pairs[i].client);
    close(link->pairs[i].server);
    link->pairs[i] = link->pairs[--link->count];
}

static void accept_pair(struct link *link) {
    int client = accept4(link->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client < 0 || link->count == PAIRS_MAX ? -1 : open_socket(link->target_port, false);
    if (server >= 0)
        link->pairs[link->count++] = (struct pair){.client = client, .server = server};
    else if (client >= 0)
        close(client);
}

/* ---- the thread ---- */

/* Of a request: how much may pass. Where it is to be cut, that is what stands before the text. */
static size_t passable(struct link *link, struct pair *pair, const char *data, size_t length) {
    const char *from = data, *found = NULL;
    pthread_mutex_lock(&link->mutex);
    if (link->after[0] != '\0' && !pair->met) {
        from = memmem(data, length, link->after, strlen(link->after));
        pair->met = from != NULL;
    }
    if (link->after[0] != '\0' && pair->met)
        found = memmem(from, length - (size_t)(from - data), link->before, strlen(link->before));
    if (found != NULL) {
        link->cut = true;
        link->after[0] = '\0';
    }
    pthread_mutex_unlock(&link->mutex);
    return found != NULL ? (size_t)(found - data) : length;
}

/* Passes on what is there; false when the connection is over. */
static bool pass(struct link *link, struct pair *pair, int from, bool is_request) {
    char buffer[BUFFER_SIZE];
    ssize_t got = recv(from, buffer, BUFFER_SIZE, 0);
    if (got <= 0)
        return false;
    size_t length = is_request ? passable(link, pair, buffer, (size_t)got) : (size_t)got;
    return send(is_request ? pair->server : pair->client, buffer, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static bool is_cut(struct link *link) {
    pthread_mutex_lock(&link->mutex);
    bool cut = link->cut;
    pthread_mutex_unlock(&link->mutex);
    return cut;
}

static void serve_pair(struct link *link, int i, const struct pollfd polled[2]) {
    bool open = true;
    for (int side = 0; side < 2 && open && !is_cut(link); side++)
        open = polled[side].revents == 0 || pass(link, &link->pairs[i], polled[side].fd, side == 0);
    if (!open)
        drop_pair(link, i);
}

/* Takes over what was changed; false at the end. While it is cut, new connections wait in the queue of the
 * listening socket, as on a network that loses everything. */
static bool apply(struct link *link, bool *cut) {
    pthread_mutex_lock(&link->mutex);
    bool heals = link->heals, ending = link->ending;
    *cut = link->cut;
    link->target_port = link->next_port;
    link->heals = link->changed = false;
    pthread_cond_broadcast(&link->applied);
    pthread_mutex_unlock(&link->mutex);
    while ((heals || ending) && link->count > 0)
        drop_pair(link, 0);
    return !ending;
}

static void *serve(void *arg) {
    struct link *link = arg;
    struct pollfd polled[2 + 2 * PAIRS_MAX];
    bool cut;
    while (apply(link, &cut)) {
        int count = link->count;
        polled[0] = (struct pollfd){.fd = link->wake, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = cut ? -1 : link->listener, .events = POLLIN};
        for (int i = 0; i < count; i++) {
            polled[2 + 2 * i] = (struct pollfd){.fd = cut ? -1 : link->pairs[i].client, .events = POLLIN};
            polled[3 + 2 * i] = (struct pollfd){.fd = cut ? -1 : link->pairs[i].server, .events = POLLIN};
        }
        uint64_t wakes;
        if (poll(polled, 2 + 2 * (nfds_t)count, -1) < 0 ||
            (polled[0].revents != 0 && read(link->wake, &wakes, sizeof wakes) < 0))
            continue;
        for (int i = count; i-- > 0;) { /* from the last on: to drop one moves the last into its place */
            if (polled[2 + 2 * i].revents != 0 || polled[3 + 2 * i].revents != 0)
                serve_pair(link, i, &polled[2 + 2 * i]);
        }
        if (polled[1].revents != 0 && !is_cut(link))
            accept_pair(link);
    }
    return NULL;
}

/* ---- calls ---- */

/* Under the mutex. Returns when the thread has seen it. */
static void apply_change(struct link *link) {
    const uint64_t one = 1;
    link->changed = true;
    if (write(link->wake, &one, sizeof one) < 0)
        abort(); /* impossible: the number in it is small */
    while (link->changed)
        pthread_cond_wait(&link->applied, &link->mutex);
}

static void end(void *part) {
    struct link *link = part;
    if (link->port != 0) {
        pthread_mutex_lock(&link->mutex);
        link->ending = true;
        apply_change(link);
        pthread_mutex_unlock(&link->mutex);
        pthread_join(link->thread, NULL);
        close(link->listener);
    }
    close(link->wake);
    pthread_cond_destroy(&link->applied);
    pthread_mutex_destroy(&link->mutex);
    free(link);
}

struct link *link_start(struct stage *stage, int port) {
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        abort(); /* a scenario counts on it, and has no use for less */
    link->stage = stage;
    link->next_port = port;
    link->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&link->mutex, NULL);
    pthread_cond_init(&link->applied, NULL);
    int own_port = process_free_port();
    link->listener = own_port != 0 ? open_socket(own_port, true) : -1;
    if (link->listener >= 0 && pthread_create(&link->thread, NULL, serve, link) == 0)
        link->port = own_port;
    else
        stage_fail(stage, "a link cannot be started");
    stage_add(stage, end, link);
    return link;
}

int link_port(const struct link *link) {
    return link->port;
}

void link_cut(struct link *link) {
    if (stage_failed(link->stage))
        return;
    pthread_mutex_lock(&link->mutex);
    link->cut = true;
    apply_change(link);
    pthread_mutex_unlock(&link->mutex);
}

void link_cut_between(struct link *link, const char *after, const char *before) {
    pthread_mutex_lock(&link->mutex);
    snprintf(link->after, sizeof link->after, "%s", after);
    snprintf(link->before, sizeof link->before, "%s", before);
    pthread_mutex_unlock(&link->mutex);
}

bool link_is_cut(struct link *link) {
    return is_cut(link);
}

static void renew(struct link *link, int port) {
    if (stage_failed(link->stage))
        return;
    pthread_mutex_lock(&link->mutex);
    link->cut = false;
    link->heals = true;
    link->next_port = port;
    apply_change(link);
    pthread_mutex_unlock(&link->mutex);
}

void link_heal(struct link *link) {
    renew(link, link->next_port);
}

void link_move(struct link *link, int port) {
    renew(link, port);
}
