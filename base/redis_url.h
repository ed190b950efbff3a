/* The URL of a store: one Redis, the master that Sentinels name, or a Redis Cluster. */
#ifndef BASE_REDIS_URL_H
#define BASE_REDIS_URL_H

#include "base/redis_target.h"

enum redis_url_kind { REDIS_URL_ONE, REDIS_URL_SENTINEL, REDIS_URL_CLUSTER };

enum { REDIS_URL_SERVERS_MAX = 16 };

struct redis_url {
    enum redis_url_kind kind;
    int count;
    /* The server; the Sentinels; or some servers of the cluster, by which the others are found. User and
     * password are those of the servers that have the data. */
    struct redis_target servers[REDIS_URL_SERVERS_MAX];
    char master[128]; /* its name, by which the Sentinels know it */
};

/* Reads redis://… and unix://… (see redis_target.h), redis-sentinel://[[user]:password@]host[:26379],…/MASTER
 * or redis-cluster://[[user]:password@]host[:6379],…; user and password have %XX for what would end a part.
 * On failure `url` is untouched and `error` says what is wrong, without the password. */
bool redis_url_parse(struct redis_url *url, const char *text, char *error, size_t error_size);

/* Writes it without user and password. */
void redis_url_print(const struct redis_url *url, char *out, size_t out_size);

#endif
