/* Where a Redis is, as its URL says: the inventory's, and those of locks. */
#ifndef BASE_REDIS_TARGET_H
#define BASE_REDIS_TARGET_H

#include <stdbool.h>
#include <stddef.h>

/* Where Redis is: redis://[[user]:password@]host[:port][/database] or unix://[[user]:password@]/path[?db=n],
 * with %XX for what would end a part. */
struct redis_target {
    char host[256]; /* the socket's path where port is 0 */
    int port;
    char user[128];
    char password[256];
    int database;
};

/* Reads `url`. On failure `target` is untouched and `error` says what is wrong, without the password. */
bool redis_target_parse(struct redis_target *target, const char *url, char *error, size_t error_size);

/* Writes the target without user and password. */
void redis_target_print(const struct redis_target *target, char *out, size_t out_size);

#endif
