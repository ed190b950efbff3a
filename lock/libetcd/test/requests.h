/* Requests to one server. A request that fails ends the test, and replies live as long as the test. */
#ifndef LOCK_LIBETCD_TEST_REQUESTS_H
#define LOCK_LIBETCD_TEST_REQUESTS_H

#include "lock/libetcd/test/tools.h"

/* The server of the test program, and a client of it. */
extern struct requests {
    struct etcd_server server;
    struct etcd *etcd;
} requests;

struct etcd_reply *request_op(const struct etcd_op *op);

#define RANGE(...)  request_op(&(struct etcd_op){ETCD_RANGE, .range = {__VA_ARGS__}})
#define PUT(...)    request_op(&(struct etcd_op){ETCD_PUT, .put = {__VA_ARGS__}})
#define DELETE(...) request_op(&(struct etcd_op){ETCD_DELETE, .del = {__VA_ARGS__}})
#define TXN(...)    request_op(&(struct etcd_op){ETCD_TXN, .txn = {__VA_ARGS__}})
#define T           etcd_text

struct etcd_bytes request_bytes(const void *data, size_t size);
bool request_same(struct etcd_bytes a, struct etcd_bytes b);
char *request_text(struct etcd_bytes some);
/* "key=value key=value", and "key key". */
const char *request_pairs(const struct etcd_reply *reply);
const char *request_keys(const struct etcd_reply *reply);

/* Deletes all keys. */
void request_clear(void);
/* True: all compares hold. */
bool request_holds(const struct etcd_compare *compares, size_t count);
int64_t request_put(const char *key, const char *value); /* the revision */

#endif
