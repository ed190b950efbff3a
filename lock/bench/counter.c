#include "lock/bench/counter.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { SERVERS = 16, PATIENCE_S = 5, ANSWER_MAX = 1 << 20 };

/* How to ask, and which lines of the answer end in a number to be added up. */
static const struct kind {
    const char *scheme, *port, *request, *line;
} kinds[] = {
    /* Whole requests, and what comes over streams: new watches, renewals of leases. */
    {"etcd://", "2379", "GET /metrics HTTP/1.0\r\n\r\n", "grpc_server_msg_received_total{"},
    {"zookeeper://", "2181", "mntr", "zk_packets_received\t"},
};

struct bench_counter {
    const struct kind *kind;
    int count;
    struct {
        char host[256], port[8];
    } servers[SERVERS];
};

/* HOST[:PORT] or [ADDRESS]:PORT. */
static bool add_server(struct bench_counter *counter, const char *text, size_t length) {
    const char *bracket = text[0] == '[' ? memchr(text, ']', length) : NULL;
    const char *host = bracket ? text + 1 : text, *end = text + length;
    const char *after = bracket ? bracket + 1 : text;
    const char *colon = memchr(after, ':', (size_t)(end - after));
    size_t host_length = (size_t)((bracket ? bracket : colon ? colon : end) - host);
    size_t port_length = colon ? (size_t)(end - colon - 1) : 0;
    if (counter->count == SERVERS || host_length == 0 || host_length >= sizeof counter->servers[0].host ||
        port_length >= sizeof counter->servers[0].port)
        return false;
    snprintf(counter->servers[counter->count].host, sizeof counter->servers[0].host, "%.*s", (int)host_length,
             host);
    snprintf(counter->servers[counter->count].port, sizeof counter->servers[0].port, "%.*s", (int)port_length,
             colon ? colon + 1 : "");
    if (port_length == 0)
        snprintf(counter->servers[counter->count].port, sizeof counter->servers[0].port, "%s",
                 counter->kind->port);
    counter->count++;
    return true;
}

static const struct kind *find_kind(const char *url) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(url, kinds[i].scheme, strlen(kinds[i].scheme)) == 0)
            return &kinds[i];
    }
    return NULL;
}

struct bench_counter *bench_counter_open(const char *url, char *error, size_t error_size) {
    const struct kind *kind = find_kind(url);
    error[0] = '\0';
    if (!kind)
        return NULL;
    struct bench_counter *counter = calloc(1, sizeof *counter);
    if (!counter) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    counter->kind = kind;
    const char *at = url + strlen(kind->scheme), *user = strchr(at, '@');
    for (at = user ? user + 1 : at;;) {
        size_t length = strcspn(at, ",/?");
        if (!add_server(counter, at, length)) {
            snprintf(error, error_size, "its servers make no sense");
            bench_counter_close(counter);
            return NULL;
        }
        at += length;
        if (*at != ',')
            return counter;
        at++;
    }
}

void bench_counter_close(struct bench_counter *counter) {
    free(counter);
}

/* ---- asking ---- */

static int dial(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        const struct timeval patience = {.tv_sec = PATIENCE_S};
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

/* All that it answers, as text; NULL: it does not, or not to the end. */
static char *ask(const char *host, const char *port, const char *request) {
    size_t length = 0, wanted = strlen(request);
    int fd = dial(host, port);
    char *answer = fd >= 0 ? malloc(ANSWER_MAX) : NULL;
    ssize_t got = answer && send(fd, request, wanted, MSG_NOSIGNAL) == (ssize_t)wanted ? 1 : -1;
    while (got > 0 && length < ANSWER_MAX - 1) {
        got = recv(fd, answer + length, ANSWER_MAX - 1 - length, 0);
        length += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    if (got != 0) {
        free(answer);
        return NULL;
    }
    answer[length] = '\0';
    return answer;
}

/* Both write it as a number that may have an exponent. False: there is no such line. */
static bool add_up(const char *answer, const char *start, uint64_t *sum) {
    bool found = false;
    for (const char *line = strstr(answer, start); line; line = strstr(line + 1, start)) {
        const char *end = line + strcspn(line, "\n"), *number = end;
        while (number > line && number[-1] != ' ' && number[-1] != '\t')
            number--;
        if (line > answer && line[-1] != '\n')
            continue;
        *sum += (uint64_t)strtod(number, NULL);
        found = true;
    }
    return found;
}

bool bench_counter_read(struct bench_counter *counter, uint64_t *messages) {
    uint64_t sum = 0;
    for (int i = 0; i < counter->count; i++) {
        char *answer = ask(counter->servers[i].host, counter->servers[i].port, counter->kind->request);
        bool good = answer && add_up(answer, counter->kind->line, &sum);
        free(answer);
        if (!good)
            return false;
    }
    *messages = sum;
    return true;
}
