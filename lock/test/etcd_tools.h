/* Helpers for tests of locks in etcd. They read the store with etcdctl, or over HTTP. */
#ifndef LOCK_TEST_ETCD_TOOLS_H
#define LOCK_TEST_ETCD_TOOLS_H

#include "lock/test/tools.h"

/* etcd://HOST:PORT,…?OPTIONS */
const char *etcd_tools_url(const struct etcd_server *members, int count, const char *options);
struct lock *etcd_tools_open(const struct etcd_server *etcd, const char *options);
/* By way of a proxy. */
struct lock *etcd_tools_open_by(const struct proxy *proxy, const char *options);

/* How many keys begin with that; -1: no answer. */
int etcd_tools_count(const struct etcd_server *etcd, const char *prefix);
/* Waits until there are so many. */
void etcd_tools_wait_for(const struct etcd_server *etcd, const char *prefix, int count);
/* How many hold or wait for the lock `key`. */
void etcd_tools_wait_for_queue(const struct etcd_server *etcd, const char *key, int count);
/* Nothing of any lock is left there. */
void etcd_tools_check_no_trace(const struct etcd_server *etcd);

/* A field ("Value", "CreateRevision", "Lease", …) of the key that begins with that, the `nth` (from 0) by
 * create revision. */
const char *etcd_tools_field(const struct etcd_server *etcd, const char *prefix, int nth, const char *field);
/* The lease of the nth in the queue of `key`, in the form of etcdctl; and revoking it. */
const char *etcd_tools_lease(const struct etcd_server *etcd, const char *key, int nth);
void etcd_tools_revoke(const struct etcd_server *etcd, const char *lease);

/* How many transactions and deletions it has done. */
long long etcd_tools_requests(const struct etcd_server *etcd);
/* How many keys and prefixes are watched. */
int etcd_tools_watches(const struct etcd_server *etcd);

#endif
