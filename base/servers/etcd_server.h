/* A real etcd, alone or as a cluster. */
#ifndef BASE_SERVERS_ETCD_SERVER_H
#define BASE_SERVERS_ETCD_SERVER_H

#include "base/servers/local_server.h"

enum { ETCD_SERVERS_MAX = 5, ETCD_SERVER_START_MS = 30000 };

/* A host in a network namespace of its own, which can be cut off. Every server on one has two links: one to
 * its peers, one to its clients. What is cut loses everything, and refuses and closes nothing. */
struct net_host {
    int number; /* 0: none, the server is on 127.0.0.1 */
    char address[24];
    char peer_address[24];
    char door[64]; /* a program gets into it by nsenter --net=DOOR */
    bool cut;
};

struct etcd_server {
    struct proc proc;
    struct net_host net;
    char host[24]; /* where clients reach it, an IPv4 address, */
    int port;      /* and its port */
    char peer_host[24];
    int peer_port;
    char name[32]; /* in its cluster */
    char dir[LOCAL_SERVER_DIR_SIZE];
    const char *const *options; /* added to its command line, NULL at the end; they outlive the server */
    bool paused;                /* by SIGSTOP; kept by the caller */
    bool tls;                   /* for its clients */
};

/* Chooses ports for a member, whose `net`, `options`, `tls` and `name` (may be "") are set, and makes `dir`.
 */
const char *etcd_server_prepare(struct etcd_server *etcd, const char *dir);

/* Starts prepared members as one new cluster, each writing to DIR.log. Blocks until all are healthy; members
 * with TLS, until they listen.
 *
 * An election takes 0.3 to 0.6 s, and so a lease may have a TTL of 1 s: etcd's least is 1.5 election
 * timeouts, in whole seconds, which is 2 s with its own defaults. Nothing is fsynced: what a process wrote
 * outlives its kill -9 in the kernel, and nobody takes the power away; but one slow fsync of a busy disk
 * would cost a leader its office. */
const char *etcd_servers_start(struct etcd_server members[], int count);
/* Starts members[which], which is wiped and was added to a cluster that runs. */
const char *etcd_server_join(struct etcd_server members[], int count, int which);
/* Starts every member that has ended, with its ports, options and data. Blocks until all are healthy, which
 * needs a majority. */
const char *etcd_servers_restart(struct etcd_server members[], int count);

/* Sets `leader` to the member that leads. Blocks until all that run, and are neither paused nor cut off,
 * agree on it; they must be a majority. */
const char *etcd_servers_leader(const struct etcd_server members[], int count, int *leader);

#endif
