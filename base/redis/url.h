/* The URL of a store: one Redis, the master that Sentinels name, or a Redis Cluster. Pure. */
#ifndef BASE_REDIS_URL_H
#define BASE_REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/redis/slots.h"

/* One server and the account there. */
struct redis_target {
    char host[256]; /* the path of the socket where `port` is 0 */
    int port;
    char user[128];
    char password[256];
    int database;
};

/* Reads redis://[[user]:password@]host[:6379][/database] or unix://[[user]:password@]/path[?db=n]; %XX stands
 * for a character that would end a part. On failure `target` is untouched and `error` says what is wrong,
 * without the password. */
bool redis_target_parse(struct redis_target *target, const char *url, char *error, size_t error_size);

/* Writes the target without user and password. */
void redis_target_print(const struct redis_target *target, char *out, size_t out_size);

/* Whether both are the same server, whatever the account. */
bool redis_target_is_same(const struct redis_target *a, const struct redis_target *b);

struct redis_address redis_target_address(const struct redis_target *target);

/* The command that logs in there: writes its arguments, and returns how many there are; 0: there is no
 * account. */
int redis_target_login(const struct redis_target *target, const char *argv[3]);

enum redis_url_kind { REDIS_URL_ONE, REDIS_URL_SENTINEL, REDIS_URL_CLUSTER };

enum { REDIS_URL_SERVERS_MAX = 16 };

struct redis_url {
    enum redis_url_kind kind;
    int count;
    /* The one server; the Sentinels; or some servers of the cluster, which name the others. User and password
     * are those of the servers that have the data. */
    struct redis_target servers[REDIS_URL_SERVERS_MAX];
    char master[128]; /* the name by which the Sentinels know it */
};

/* Reads a URL as redis_target_parse() does, or redis-sentinel://[[user]:password@]host[:26379],…/MASTER, or
 * redis-cluster://[[user]:password@]host[:6379],…. On failure `url` is untouched and `error` says what is
 * wrong, without the password. */
bool redis_url_parse(struct redis_url *url, const char *text, char *error, size_t error_size);

/* The server at this address, with the URL's user, password and database. */
struct redis_target redis_url_target(const struct redis_url *url, const struct redis_address *address);

/* Writes the URL without user and password. */
void redis_url_print(const struct redis_url *url, char *out, size_t out_size);

#endif
