#include "lock/redis_dial.h"

#include <stdbool.h>
#include <sys/socket.h>

static bool greet(redisContext *hiredis, const struct redis_target *target) {
    redisReply *auth = NULL, *select = NULL;
    if (target->user[0])
        auth = redisCommand(hiredis, "AUTH %s %s", target->user, target->password);
    else if (target->password[0])
        auth = redisCommand(hiredis, "AUTH %s", target->password);
    bool known = !target->password[0] || (auth && auth->type != REDIS_REPLY_ERROR);
    if (known)
        select = redisCommand(hiredis, "SELECT %d", target->database);
    bool good = select && select->type != REDIS_REPLY_ERROR;
    freeReplyObject(select);
    freeReplyObject(auth);
    return good;
}

redisContext *redis_dial(const struct redis_target *target, int timeout_ms) {
    struct timeval patience = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000L};
    redisContext *hiredis = target->port ? redisConnectWithTimeout(target->host, target->port, patience)
                                         : redisConnectUnixWithTimeout(target->host, patience);
    /* What was not delivered when a connection is given up is not to be delivered later: by then its caller
     * has been told something, and may have done something about it. */
    struct linger drop = {.l_onoff = 1};
    if (hiredis && !hiredis->err && redisSetTimeout(hiredis, patience) == REDIS_OK &&
        setsockopt(hiredis->fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop) == 0 && greet(hiredis, target))
        return hiredis;
    redisFree(hiredis);
    return NULL;
}
