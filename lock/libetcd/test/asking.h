/* Asking a server, for tests of what it answers: what is not answered fails the test, and replies live as
 * long as it. */
#ifndef LOCK_LIBETCD_TEST_ASKING_H
#define LOCK_LIBETCD_TEST_ASKING_H

#include "lock/libetcd/test/tools.h"

/* The program's server, and a client of it. */
extern struct asked {
    struct etcd_server server;
    struct etcd *etcd;
} asked;

struct etcd_reply *ask_op(const struct etcd_op *op);

#define RANGE(...)  ask_op(&(struct etcd_op){ETCD_RANGE, .range = {__VA_ARGS__}})
#define PUT(...)    ask_op(&(struct etcd_op){ETCD_PUT, .put = {__VA_ARGS__}})
#define DELETE(...) ask_op(&(struct etcd_op){ETCD_DELETE, .del = {__VA_ARGS__}})
#define TXN(...)    ask_op(&(struct etcd_op){ETCD_TXN, .txn = {__VA_ARGS__}})
#define T           etcd_text

struct etcd_bytes ask_bytes(const void *data, size_t size);
bool ask_same(struct etcd_bytes a, struct etcd_bytes b);
char *ask_text(struct etcd_bytes some);
/* "key=value key=value", and "key key". */
const char *ask_pairs(const struct etcd_reply *reply);
const char *ask_keys(const struct etcd_reply *reply);

/* A store without keys. */
void ask_begin(void);
/* All of them are true. */
bool ask_holds(const struct etcd_compare *compares, size_t count);
int64_t ask_put(const char *key, const char *value); /* the revision */

#endif
