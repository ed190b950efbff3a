#include "lock/redis_dial.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>

/* Was it done? Takes the reply. `refused` is told where it was not; with `quotes` the server's words too:
 * those about an AUTH that it does not know have the password in them. */
static bool is_good(const redisContext *hiredis, redisReply *reply, const char *refused, bool quotes,
                    char *error, size_t size) {
    bool good = reply && reply->type != REDIS_REPLY_ERROR, silent = !reply && errno == EAGAIN;
    if (!reply)
        snprintf(error, size, "connected, but %s", silent ? "no answer came in time" : hiredis->errstr);
    else if (!good)
        snprintf(error, size, "%s%s%s", refused, quotes ? ": " : "", quotes ? reply->str : "");
    freeReplyObject(reply);
    return good;
}

static bool greet(redisContext *hiredis, const struct redis_target *target, char *error, size_t size) {
    if (target->user[0] &&
        !is_good(hiredis, redisCommand(hiredis, "AUTH %s %s", target->user, target->password),
                 "the user or the password is refused", false, error, size))
        return false;
    if (!target->user[0] && target->password[0] &&
        !is_good(hiredis, redisCommand(hiredis, "AUTH %s", target->password), "the password is refused",
                 false, error, size))
        return false;
    return is_good(hiredis, redisCommand(hiredis, "SELECT %d", target->database),
                   "the database, or a client without a password, is refused", true, error, size);
}

redisContext *redis_dial(const struct redis_target *target, int timeout_ms, char *error, size_t error_size) {
    struct timeval patience = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000L};
    /* What was not delivered when a connection is given up is not to be delivered later: by then its caller
     * has been told something, and may have done something about it. */
    struct linger drop = {.l_onoff = 1};
    redisContext *hiredis = target->port ? redisConnectWithTimeout(target->host, target->port, patience)
                                         : redisConnectUnixWithTimeout(target->host, patience);
    const char *why = !hiredis ? "out of memory" : hiredis->err ? hiredis->errstr : NULL;
    if (!why && (redisSetTimeout(hiredis, patience) != REDIS_OK ||
                 setsockopt(hiredis->fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop) != 0))
        why = "the connection cannot be used";
    if (why)
        snprintf(error, error_size, "%s", why);
    else if (greet(hiredis, target, error, error_size))
        return hiredis;
    redisFree(hiredis);
    return NULL;
}
