/* Where the master is: at the first server of a URL, or where its Sentinels say. For the files that connect.
 *
 * A Sentinel may not have heard of a failover yet. So all are asked at once, and of those that answer in time
 * the one with the highest config epoch counts, which Sentinels count failovers by. While one of them is
 * replacing the master, no master is named: the old one may be back, and takes writes that its successor will
 * not have. */
#ifndef LOCK_REDIS_MASTER_H
#define LOCK_REDIS_MASTER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/redis_url.h"

enum { REDIS_MASTER_OLDER_MS = 10000 };

/* What Sentinels say; all 0 before they are asked for the first time. */
struct redis_named {
    struct redis_target master; /* with the URL's user and password. If none is named: who was asked last */
    /* Kept from one time to the next: of the newest failover that was heard of, and since when those who
     * answer have heard of older ones alone; 0: they have not. */
    int64_t epoch, older_since_ns;
    int64_t
        asked_epoch; /* when they were asked: who has heard of a newer failover since does not believe this */
    bool replacing;  /* none is named since a Sentinel is replacing the master */
};

/* Blocks for `timeout_ms` at most, whatever single Sentinels do, and for the look-up of their names. An
 * answer that is older than one before does not count, unless all Sentinels answer, or half of them have said
 * so for ten seconds: then they were made anew. False: no master is named, and `error` says why. */
bool redis_master_ask(const struct redis_url *url, int timeout_ms, struct redis_named *named, char *error,
                      size_t error_size);

/* As redis_dial() (dial.h), to that server; one that Sentinels name must say that it is a master.
 * `named->master` is which server that was, or the one that could not be reached. */
redisContext *redis_master_dial(const struct redis_url *url, int timeout_ms, struct redis_named *named,
                                char *error, size_t error_size);

#endif
