/* The servers of a play, and the links to them: real ones (base/servers/), on free ports of 127.0.0.1, with
 * their data in the play's directory. All end with the play. What starts one blocks until it serves, fails
 * the stage if it does not, and never returns NULL: a server of a stage that has failed does nothing. All
 * calls come from the main thread. */
#ifndef LOADTEST_LAB_STAGE_STAGE_SERVERS_H
#define LOADTEST_LAB_STAGE_STAGE_SERVERS_H

#include "base/servers/local_servers.h"
#include "base/servers/proxy.h"
#include "loadtest/lab/stage/stage.h"

enum { SERVER_NAME_SIZE = 32, SERVER_PATH_SIZE = 320, ETCD_MEMBERS_MAX = 3 };

enum server_kind { SERVER_REDIS, SERVER_ETCD, SERVER_ZOOKEEPER, SERVER_SECKILLD };

struct server {
    struct stage *stage;
    enum server_kind kind;
    char name[SERVER_NAME_SIZE]; /* as events call it: "redis", "node-2" */
    int port;
    struct proc *proc; /* of the one below; NULL: it was not started */
    union {
        struct redis_server redis; /* also a Sentinel */
        struct etcd_server etcd;
        struct zookeeper_server zookeeper;
        struct seckilld seckilld;
    };
    struct redis_server_clock clock; /* `turned` is NULL: it has the machine's clock */
};

/* ---- faults of all kinds ---- */

/* Records that it is now "master", or "replica". */
void server_record_role(const struct server *server, const char *role);
void server_kill(struct server *server); /* SIGKILL */
/* Starts a Redis or a seckilld again, with its port, options and what data it has left. It must have been
 * killed. */
void server_restart(struct server *server);

/* A link of the network before a server: it passes connections on to `port`. NULL, which all calls of proxy.h
 * accept: it cannot be started, and the stage has failed. */
struct proxy *stage_start_link(struct stage *stage, int port);

/* ---- Redis ---- */

/* With these options of its command line, NULL at the end; NULL: none. It writes no data to disk, unless they
 * say so. */
struct server *stage_start_redis(struct stage *stage, const char *name, const char *const options[]);
/* One whose wall clock can be moved. */
struct server *stage_start_redis_with_clock(struct stage *stage, const char *name);
void server_move_clock(struct server *server, int64_t jump_ms);
/* A replica that copies from `master_port`, which may be a link's. It is in sync when this returns. */
struct server *stage_start_replica(struct stage *stage, const char *name, int master_port);

/* Runs one command, NULL at the end. Returns the reply as redis_server_command() does, valid until the next
 * call; "" of a stage that has failed. A reply that is an error fails the stage. */
const char *server_command(const struct server *server, ...) __attribute__((sentinel));
/* A line of INFO: "master_link_status"; "" if there is no answer, or no such line. Valid until the next call.
 */
const char *server_info(const struct server *server, const char *field);

/* A Sentinel that watches the master at `master_port`, and whose one vote is enough. When this returns it
 * knows the replica. */
struct server *stage_start_sentinel(struct stage *stage, const char *name, int master_port);
/* Blocks until it names another master than the one at `old_port`, and records that `promoted` is master. */
void server_await_promotion(struct server *sentinel, int old_port, const struct server *promoted);

/* ---- etcd and ZooKeeper ---- */

/* `count` members of one cluster: NAME-1 and so on, or NAME if it is one. */
void stage_start_etcd(struct stage *stage, const char *name, int count, struct server *servers[]);
/* Which of them leads. */
int server_etcd_leader(struct server *const servers[], int count);
/* Ends the lease of the newest key below `prefix`, and with it the key. */
void server_revoke_newest_lease(const struct server *server, const char *prefix);

struct server *stage_start_zookeeper(struct stage *stage, const char *name);

/* ---- observers (observer.c) ----
 * An observer asks a lock server every few milliseconds who holds a key, and records each change: what the
 * store says, which may differ from what a client believes. It also reads the stock. */

struct clients;

/* Starts the observers of servers of one kind: one for each Redis or ZooKeeper, one for all members of an
 * etcd. There the oldest key below `prefix` holds the lock: "lock/", or "lock-rpc/". They end with the play.
 * Call after stage_begin(). While a server does not answer, nothing is recorded. */
void observer_watch(struct clients *clients, struct server *const servers[], int count, const char *prefix,
                    const char *key);

/* Reads the stock of an item and records it. Blocks. */
void observer_read_stock(const struct server *server, const char *item);
/* Sets the stock of an item to `units`, and records it. Blocks. */
void observer_fill_stock(const struct server *server, const char *item, int64_t units);

/* ---- for stage_sale.c ---- */

/* One that is not started yet; it ends with the play. */
struct server *server_new(struct stage *stage, const char *name, enum server_kind kind);
/* Where it has its data; its log is PATH.log. */
void server_path(const struct server *server, char path[SERVER_PATH_SIZE]);
/* Takes over what was started, also if it then failed, which fails the stage. */
void server_started(struct server *server, struct proc *proc, int port, const char *error);

#endif
