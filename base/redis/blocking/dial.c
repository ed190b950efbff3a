#include "base/redis/blocking/driver.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

const int64_t redis_dial_busy_poll_ns = 200000;

/* The `share`-th part of the time left. At least 1 ms: 0 would mean no limit to hiredis. */
static struct timeval dial_time_left(int64_t until_ns, int share) {
    int64_t left_us = (until_ns - clock_now_ns()) / 1000 / share;
    if (left_us < 1000)
        left_us = 1000;
    return (struct timeval){.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
}

redisReply *redis_dial_ask(redisContext *hiredis, int64_t until_ns, int argc, const char *argv[]) {
    bool in_time = redisSetTimeout(hiredis, dial_time_left(until_ns, 1)) == REDIS_OK;
    return in_time ? redisCommandArgv(hiredis, argc, argv, NULL) : NULL;
}

/* Sends a command and checks its reply. If that is an error, `error` is `refused` and the server's words; but
 * the answer to AUTH is not quoted, since it may contain the password. */
static bool dial_greet_with(redisContext *hiredis, int64_t until_ns, int argc, const char *argv[],
                            const char *refused, char *error, size_t size) {
    redisReply *reply = redis_dial_ask(hiredis, until_ns, argc, argv);
    bool good = reply && reply->type != REDIS_REPLY_ERROR, quotes = strcmp(argv[0], "AUTH") != 0;
    if (!reply)
        snprintf(error, size, "connected, but %s",
                 errno == EAGAIN ? "no answer came in time" : hiredis->errstr);
    else if (!good)
        snprintf(error, size, "%s%s%s", refused, quotes ? ": " : "", quotes ? reply->str : "");
    freeReplyObject(reply);
    return good;
}

static bool dial_greet(redisContext *hiredis, const struct redis_target *target, int64_t until_ns,
                       char *error, size_t size) {
    char database[16];
    const char *login[3], *select[] = {"SELECT", database};
    int argc = redis_target_login(target, login);
    const char *refused = target->user[0] ? "the user or the password is refused" : "the password is refused";
    snprintf(database, sizeof database, "%d", target->database);
    if (argc > 0 && !dial_greet_with(hiredis, until_ns, argc, login, refused, error, size))
        return false;
    return dial_greet_with(hiredis, until_ns, 2, select,
                           "the database, or a client without a password, is refused", error, size);
}

/* NULL: `*why`. Uses IPv6 only if there is no IPv4, as hiredis does. hiredis would spend its timeout on each
 * address, so dial_tcp() gives it one address at a time. */
static struct addrinfo *dial_look_up(const char *host, int port, const char **why) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    int status = getaddrinfo(host, service, &hints, &found);
    hints.ai_family = AF_INET6;
    if (status != 0)
        status = getaddrinfo(host, service, &hints, &found);
    *why = status != 0 ? gai_strerror(status) : NULL;
    return status != 0 ? NULL : found;
}

/* Tries one address after the other, each for its part of the time. */
static redisContext *dial_tcp(const struct addrinfo *found, int port, int64_t until_ns) {
    redisContext *hiredis = NULL;
    int count = 0;
    for (const struct addrinfo *each = found; each; each = each->ai_next)
        count++;
    for (const struct addrinfo *each = found; each && (!hiredis || hiredis->err); each = each->ai_next) {
        char address[NI_MAXHOST];
        redisFree(hiredis);
        hiredis = NULL;
        if (getnameinfo(each->ai_addr, each->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) ==
            0)
            hiredis = redisConnectWithTimeout(address, port, dial_time_left(until_ns, count));
        count--;
    }
    return hiredis;
}

redisContext *redis_dial_connect(const struct redis_target *target, int timeout_ms, int64_t *until_ns,
                                 const char **why) {
    struct addrinfo *found = target->port ? dial_look_up(target->host, target->port, why) : NULL;
    *until_ns = clock_now_ns() + (int64_t)timeout_ms * 1000000;
    if (*why)
        return NULL;
    redisContext *hiredis = found ? dial_tcp(found, target->port, *until_ns)
                                  : redisConnectUnixWithTimeout(target->host, dial_time_left(*until_ns, 1));
    if (found)
        freeaddrinfo(found);
    *why = !hiredis ? "out of memory" : hiredis->err ? hiredis->errstr : NULL;
    return hiredis;
}

redisContext *redis_dial(const struct redis_target *target, int timeout_ms, char *error, size_t error_size) {
    struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000L};
    /* When the connection is closed, unsent commands are dropped: their callers have been told that they were
     * not carried out. */
    struct linger drop = {.l_onoff = 1};
    const char *why = NULL;
    int64_t until_ns;
    redisContext *hiredis = redis_dial_connect(target, timeout_ms, &until_ns, &why);
    if (!why && setsockopt(hiredis->fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop) != 0)
        why = "the connection cannot be used";
    if (why)
        snprintf(error, error_size, "%s", why);
    else if (dial_greet(hiredis, target, until_ns, error, error_size) &&
             redisSetTimeout(hiredis, timeout) == REDIS_OK)
        return hiredis;
    redisFree(hiredis);
    return NULL;
}

/* ---- reading and writing ---- */

int redis_dial_write(int fd, const char *bytes, size_t length, int64_t until_ns, size_t *sent) {
    while (*sent < length) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        int64_t left_ms = (until_ns - clock_now_ns()) / 1000000;
        ssize_t n = send(fd, bytes + *sent, length - *sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            *sent += (size_t)n;
        else if (errno != EINTR && errno != EAGAIN)
            return errno;
        else if (left_ms <= 0)
            return ETIMEDOUT;
        else
            poll(&ready, 1, (int)left_ms);
    }
    return 0;
}

ssize_t redis_dial_read(int fd, char *bytes, size_t size, int64_t until_ns, _Atomic bool *quick) {
    int64_t since_ns = clock_now_ns();
    int64_t sleep_ns = atomic_load(quick) ? since_ns + redis_dial_busy_poll_ns : since_ns;
    ssize_t n;
    while ((n = recv(fd, bytes, size, MSG_DONTWAIT)) < 0 && errno == EAGAIN && clock_now_ns() < sleep_ns)
        sched_yield();
    if (n < 0 && errno == EAGAIN) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_ms = (until_ns - clock_now_ns()) / 1000000;
        if (left_ms <= 0)
            errno = ETIMEDOUT;
        else if (poll(&ready, 1, (int)left_ms) >= 0)
            n = recv(fd, bytes, size, MSG_DONTWAIT);
        atomic_store(quick, clock_now_ns() - since_ns < redis_dial_busy_poll_ns);
    }
    return n;
}
