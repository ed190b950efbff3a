/* Real servers on this machine, which tests and the lab start: what every kind needs, and then each kind.
 *
 * Each server has a `proc`, so that proc_end() ends it and proc_signal() stops and continues it; proc.h also
 * says how errors are told. A start and a restart block until the server serves, unless their comment says
 * otherwise; a restart keeps ports, options and data, and the server must have ended. `dir` is made for the
 * server's data, and its log is DIR.log. Lists of texts have NULL at the end. */
#ifndef BASE_SERVERS_LOCAL_SERVERS_H
#define BASE_SERVERS_LOCAL_SERVERS_H

#include <stddef.h>

#include "base/preload/turned_clock.h"
#include "base/servers/proc.h"

/* ---- the directory of all logs and data: its name is chosen below $TMPDIR or /tmp ---- */

enum { DIRECTORY_SIZE = 200 };

struct directory {
    char path[DIRECTORY_SIZE];
    pid_t sweeper; /* a child process, which removes the directory */
    int alive;     /* a pipe that ends with this process */
};

/* Makes a directory PREFIX-XXXXXX. False: `errno` says why. */
bool directory_make(char path[DIRECTORY_SIZE], const char *prefix);
/* Makes a directory that is removed however this process ends, also by SIGKILL. A child of its own waits for
 * that end: call before threads are started. False: `errno` says why. */
bool directory_open(struct directory *directory, const char *prefix);
/* Removes it now, with all that is in it. */
void directory_close(struct directory *directory);
/* Removes a directory with all that is in it. */
void directory_remove(const char *path);

/* ---- servers of every kind ---- */

enum { LOCAL_SERVER_DIR_SIZE = 256 };

/* A TCP port of 127.0.0.1 that is free, and that no other program which asks here gets before this one ends;
 * 0: there is none. */
int local_server_free_port(void);
/* Chooses a free port, makes the directory `dir`, and copies its path. */
const char *local_server_place(int *port, char path[LOCAL_SERVER_DIR_SIZE], const char *dir);
/* Appends `more` to a command line, which has room for `size` words. */
const char *local_server_add_options(const char *argv[], size_t size, const char *const more[]);
/* The same with words that have blanks between them, which are overwritten; the command line points to them.
 */
const char *local_server_add_words(const char *argv[], size_t size, char *words);
/* proc_start() with the log DIR.log. */
const char *local_server_spawn(struct proc *proc, const char *const argv[], const char *const env[],
                               const char *dir);

/* Connects to an IPv4 address, sends `request` and reads until the server closes the connection, or `size` -
 * 1 bytes came. The answer ends with NUL. False: no byte came, and none within `timeout_ms`. */
bool local_server_ask(const char *host, int port, const char *request, char *answer, size_t size,
                      int timeout_ms);
/* Blocks until is_ready(arg). The error says whether the process has ended or is only not ready after
 * `timeout_ms`, and how its log ends. */
const char *local_server_await(const struct proc *proc, bool (*is_ready)(void *arg), void *arg,
                               int timeout_ms);
/* Removes all data of a server, which must have ended. */
const char *local_server_wipe(const struct proc *proc, const char *dir);

/* ---- Redis: redis-server, or Valkey under that name; alone or as a replica ---- */

enum { REDIS_SERVER_ARGS_MAX = 96, REDIS_SERVER_START_MS = 60000, REDIS_SERVER_COMMAND_MS = 10000 };

struct redis_server {
    struct proc proc;
    int port;
    char dir[LOCAL_SERVER_DIR_SIZE];
};

/* A wall clock that servers read in place of the machine's: a library that is loaded into them adds an
 * offset, which lies in a file that both sides map. */
struct redis_server_clock {
    struct turned_clock *turned;
    char preload[512], file[512]; /* what the servers' environment has of it */
};

/* `library` is turned-clock.so; `file` is made. */
const char *redis_server_clock_open(struct redis_server_clock *clock, const char *library, const char *file);

/* Starts a server with these options of its command line on a free port of 127.0.0.1. Unless the options say
 * so, it writes no data to disk. `clock` may be NULL. */
const char *redis_server_start(struct redis_server *server, const char *dir,
                               const struct redis_server_clock *clock, const char *const options[]);
const char *redis_server_restart(struct redis_server *server);
/* Blocks until the replica has copied its master's data and the link to it is up. */
const char *redis_server_await_sync(struct redis_server *replica);

/* Runs one command on a connection of its own. Returns the reply as text, which the caller frees: `5`,
 * `text`, `(nil)`, `[a b (nil)]`, `(error) NOSCRIPT …`, `(no reply)` if none came within `timeout_ms`. */
char *redis_server_command(int port, int timeout_ms, int argc, const char **argv);
/* The same for at most 16 words, NULL at the end, within REDIS_SERVER_COMMAND_MS. */
char *redis_server_do(const struct redis_server *server, ...) __attribute__((sentinel));
/* Sets `value` to what INFO says of `field`; to "" if there is no such line, or no answer within a second. */
void redis_server_info(const struct redis_server *server, const char *field, char *value, size_t size);

/* ---- Redis Sentinels: one alone, or three with the servers that they watch ---- */

struct sentinel_watch {
    const char *name; /* of the master */
    int master_port;  /* on 127.0.0.1 */
    int quorum;       /* so many must agree that the master is down */
    int down_after_ms, failover_timeout_ms;
};

/* Starts one Sentinel. Returns before it answers. */
const char *sentinel_server_start(struct redis_server *sentinel, const char *dir,
                                  const struct sentinel_watch *watch);
/* Blocks until it answers. */
const char *sentinel_server_await(struct redis_server *sentinel);

enum { REDIS_SENTINELS = 3, REDIS_SENTINEL_SERVERS_MAX = 3 };

/* A master with one replica or two, and three Sentinels that watch them by the name `shop`. */
struct redis_sentinel {
    int count;
    struct redis_server server[REDIS_SENTINEL_SERVERS_MAX]; /* at first the first is the master */
    struct redis_server sentinel[REDIS_SENTINELS];
};

/* Starts the Sentinels, in directories below `under`; `count` servers run. Blocks until they know the servers
 * and each other. A failover takes about two seconds. */
const char *sentinel_servers_watch(struct redis_sentinel *all, const char *under);

/* ---- a Redis Cluster: masters, and as many replicas of each as asked for ---- */

enum { REDIS_CLUSTER_MAX = 12 };

struct redis_cluster {
    int masters, count;
    struct redis_server server[REDIS_CLUSTER_MAX]; /* replica i of master m: masters * (1 + i) + m */
    char under[LOCAL_SERVER_DIR_SIZE];             /* where the servers have their directories */
    const struct redis_server_clock *clock;
    const char *const *options; /* of each server, see redis_server_start() */
};

/* Starts the servers with `under`, `clock` and `options` as they are set in `cluster`. Blocks until all know
 * each other and all slots are served. A slot is served also while another one is not, and a failover takes
 * about two seconds. Where it fails, `count` is the number of servers whose `proc` may run. */
const char *cluster_servers_start(struct redis_cluster *cluster, int masters, int replicas);
/* Adds a master without slots to a cluster without replicas: server[count - 1]. Blocks until all know it. */
const char *cluster_servers_add(struct redis_cluster *cluster);

/* ---- etcd: alone or as a cluster ---- */

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
    const char *const *options; /* added to its command line; they outlive the server */
    bool paused;                /* by SIGSTOP; kept by the caller */
    bool tls;                   /* for its clients */
};

/* Chooses ports for a member, whose `net`, `options`, `tls` and `name` (may be "") are set, and makes `dir`.
 */
const char *etcd_server_prepare(struct etcd_server *etcd, const char *dir);
/* Starts prepared members as one new cluster. Blocks until all are healthy; members with TLS, until they
 * listen.
 *
 * An election takes 0.3 to 0.6 s, and so a lease may have a TTL of 1 s: etcd's least is 1.5 election
 * timeouts, in whole seconds, which is 2 s with its own defaults. Nothing is fsynced: what a process wrote
 * outlives its kill -9 in the kernel, and nobody takes the power away; but one slow fsync of a busy disk
 * would cost a leader its office. */
const char *etcd_servers_start(struct etcd_server members[], int count);
/* Starts members[which], which is wiped and was added to a cluster that runs. */
const char *etcd_server_join(struct etcd_server members[], int count, int which);
/* Restarts every member that has ended. Blocks until all are healthy, which needs a majority. */
const char *etcd_servers_restart(struct etcd_server members[], int count);
/* Sets `leader` to the member that leads. Blocks until all that run, and are neither paused nor cut off,
 * agree on it; they must be a majority. */
const char *etcd_servers_leader(const struct etcd_server members[], int count, int *leader);

/* ---- ZooKeeper: alone or as an ensemble ---- */

enum { ZOOKEEPER_SERVERS_MAX = 3, ZOOKEEPER_SERVER_START_MS = 30000 };

struct zookeeper_server {
    struct proc proc;
    int port;
    char dir[LOCAL_SERVER_DIR_SIZE];
};

struct zookeeper_options {
    int tick_ms;             /* a session lives for two ticks at least, */
    int session_max_ms;      /* and for so long at most */
    const char *java_option; /* added to the command line; may be NULL */
};

/* Starts one server, which keeps its data in DIR/data, or an ensemble of `count`, in DIR-1 and so on. */
const char *zookeeper_servers_start(struct zookeeper_server servers[], int count, const char *dir,
                                    const struct zookeeper_options *options);
const char *zookeeper_server_restart(struct zookeeper_server *server);
/* What it answers to a word of four letters (srvr, wchs, …). False: nothing. */
bool zookeeper_server_ask(const struct zookeeper_server *server, const char *word, char *answer, size_t size);

/* ---- seckilld, the service of this project ---- */

enum { SECKILLD_SERVER_START_MS = 20000 };

struct seckilld {
    struct proc proc;
    int port; /* where it serves everything: with --operator-listen that one */
};

/* Starts `program` on a free port of 127.0.0.1, on the Redis at `redis_port`, with these options and `env`
 * ("NAME=value"). It writes to the file `log`. Blocks until GET /livez answers 200: its store may not have
 * been reached yet. */
const char *seckilld_server_start(struct seckilld *service, const char *program, int redis_port,
                                  const char *const options[], const char *const env[], const char *log);
const char *seckilld_server_restart(struct seckilld *service);
/* Blocks until GET /readyz answers 200. */
const char *seckilld_server_await_ready(struct seckilld *service);
/* Makes one request. `headers` are whole lines, each ended by "\r\n"; `body` may be NULL. Returns the status,
 * or 0 if there was no answer within a second. The body of the answer is cut off at `size`; `answer` may be
 * NULL. */
int seckilld_server_call(const struct seckilld *service, const char *method, const char *path,
                         const char *headers, const char *body, char *answer, size_t size);

#endif
