#include "lock/redis_dial.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>

/* Was it done? Takes the reply. */
static bool is_good(redisReply *reply) {
    bool good = reply && reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return good;
}

/* What it refuses; NULL: nothing. */
static const char *greet(redisContext *hiredis, const struct redis_target *target) {
    if (target->user[0] && !is_good(redisCommand(hiredis, "AUTH %s %s", target->user, target->password)))
        return "the user or the password is refused";
    if (!target->user[0] && target->password[0] &&
        !is_good(redisCommand(hiredis, "AUTH %s", target->password)))
        return "the password is refused";
    if (!is_good(redisCommand(hiredis, "SELECT %d", target->database)))
        return "the database, or a client without a password, is refused";
    return NULL;
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
    if (!why)
        why = greet(hiredis, target);
    if (!why)
        return hiredis;
    snprintf(error, error_size, "%s", why);
    redisFree(hiredis);
    return NULL;
}
