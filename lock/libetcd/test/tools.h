/* Helpers of the tests of libetcd. */
#ifndef LOCK_LIBETCD_TEST_TOOLS_H
#define LOCK_LIBETCD_TEST_TOOLS_H

#include "lock/libetcd/etcd.h"
#include "test/harness.h"

enum { PATIENCE_MS = 20000 };

#define CHECK_STATUS(got, want) tools_check_status(__FILE__, __LINE__, #got, (got), (want))

void tools_check_status(const char *file, int line, const char *what, enum etcd_status got,
                        enum etcd_status want);

/* HOST:PORT,… for these servers. */
const char *tools_endpoints(const struct etcd_server *servers, int count);
/* A client of these servers, with a time-out of PATIENCE_MS; closed when the test ends. */
struct etcd *tools_open(const struct etcd_server *servers, int count);
/* The same with any configuration. Fails the test where it cannot. */
struct etcd *tools_open_config(const struct etcd_config *config);

/* Users of a server without authentication, which is switched on then: root (password rootpw) may do
 * everything; alice (secret-word) may read and write all keys; bob (bobpw) may read keys that begin with b.
 */
void tools_add_users(const struct etcd_server *server);
void tools_enable_auth(const struct etcd_server *server);
struct etcd *tools_open_as(const struct etcd_server *server, const char *user, const char *password);

/* The same for an endpoint that is not an etcd_server. */
struct etcd *tools_open_at(const char *endpoints);
/* The number of threads inside calls. */
size_t tools_blocked(struct etcd *etcd);

/* CLOCK_MONOTONIC, `ms` milliseconds from now. */
int64_t tools_in_ms(int64_t ms);

/* A failure ends the test. */
int64_t tools_put(struct etcd *etcd, const char *key, const char *value); /* the revision */
const char *tools_get(struct etcd *etcd, const char *key);                /* NULL: there is none */
int64_t tools_grant(struct etcd *etcd, int64_t ttl_s);
uint64_t tools_answering(struct etcd *etcd); /* the id of the member that answers */

/* A write and a read of the key a, and what becomes of them: within `ms`, or 0: as the client is configured.
 */
extern const struct etcd_put tools_put_a;
extern const struct etcd_range tools_range_a;
void tools_check_put(struct etcd *etcd, int64_t ms, enum etcd_status want);
void tools_check_range(struct etcd *etcd, int64_t ms, enum etcd_status want);

#endif
