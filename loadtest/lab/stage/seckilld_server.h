/* seckilld, the service of this project. */
#ifndef LOADTEST_LAB_STAGE_SECKILLD_SERVER_H
#define LOADTEST_LAB_STAGE_SECKILLD_SERVER_H

#include "loadtest/lab/stage/server.h"

/* Of all admin calls in the lab. */
#define SECKILLD_ADMIN_TOKEN "lab"

/* On the Redis at `redis_port`, with these options; NULL at the end. */
struct server *seckilld_server_start(struct stage *stage, const char *name, int redis_port, ...)
    __attribute__((sentinel));

/* One request, with the right to do everything. `key`: its Idempotency-Key, or NULL. `body` may be NULL.
 * Returns the status, or 0: there was no answer within a second. The body of the answer, if `answer` is not
 * NULL, is cut off at its size. */
int seckilld_server_call(const struct server *server, const char *method, const char *path, const char *key,
                         const char *body, char *answer, size_t size);

/* Makes an item; fails the stage if it is not made. */
void seckilld_server_put_item(const struct server *server, const char *item, const char *terms);
struct seckilld_audit {
    int64_t stock, available, sold;
};
/* The stock of an item, as the service counts it from the orders. False: there is no answer. */
bool seckilld_server_audit(const struct server *server, const char *item, struct seckilld_audit *audit);
/* The same, as the item itself says. */
bool seckilld_server_read_item(const struct server *server, const char *item, struct seckilld_audit *audit);

#endif
