/* What the tests stand on: checks, and real servers on free loopback ports.
 *
 *     int main(int argc, char **argv) {
 *         harness_begin(argc, argv);
 *         harness_run("sells the last unit", test_last_unit);
 *         return harness_finish();
 *     }
 *
 * A program takes `-l` (list its tests) or texts: only tests with one of them in their name run.
 *
 * What a test starts and does not end itself (processes, proxies, memory from here) is ended when the test
 * ends, passed or failed; what is started between tests lives until harness_finish(). Nothing here returns an
 * error that a test would only turn into a failure: it fails the test instead, unless its comment says
 * otherwise. */
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/servers/local_servers.h"
#include "base/servers/proxy.h"

/* ---- tests ---- */

void harness_begin(int argc, char **argv);
void harness_run(const char *name, void (*test)(void));
/* Ends what is left and returns the status that main() must return. */
int harness_finish(void);

/* A program that runs longer than ten minutes is killed, unless it says here, after harness_begin(), how
 * long it may take. */
void harness_limit(unsigned seconds);

/* The first check that fails ends the test. In a thread the test started it ends that thread, and the test is
 * marked. */
#define CHECK(cond)            ((cond) ? (void)0 : harness_fail(__FILE__, __LINE__, "%s is false", #cond))
#define CHECK_INT(got, want)   harness_check_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))
#define CHECK_STR(got, want)   harness_check_str(__FILE__, __LINE__, #got, (got), (want))
#define CHECK_HAS(text, piece) harness_check_has(__FILE__, __LINE__, #text, (text), (piece))
#define FAIL(...)              harness_fail(__FILE__, __LINE__, __VA_ARGS__)

void harness_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
void harness_check_int(const char *file, int line, const char *what, long long got, long long want);
void harness_check_str(const char *file, int line, const char *what, const char *got, const char *want);
void harness_check_has(const char *file, int line, const char *what, const char *text, const char *piece);

/* True once the running test has failed; between tests, once any has. */
bool harness_failed(void);

/* The seed for random tests: SECKILL_SEED, or made up; printed when first asked for. */
uint64_t harness_seed(void);
/* The next number of a splitmix64 sequence; `*position` starts as the seed. */
uint64_t harness_random(uint64_t *position);

/* This program's own directory, removed at the end if all passed. */
const char *harness_dir(void);
/* $SECKILL_BUILD: where the programs under test are. */
const char *harness_build(void);

/* Memory of zeros that is freed when the test ends; printf, and so many of one character, into such memory.
 */
void *harness_alloc(size_t size);
char *harness_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *harness_repeat(char c, size_t times);
/* Calls fn(arg) when the test ends; the last deferred comes first. */
void harness_defer(void (*fn)(void *arg), void *arg);

/* For docs/evidence.md, which make torture writes: a line of JSON in the file $SECKILL_EVIDENCE, if there is
 * one. What was attacked and how, how often, on which server (see redis_name()), and what was counted:
 * `"lost":%d` and the like; see test/evidence.py. */
void harness_evidence(const char *promise, const char *attack, long long times, const char *server,
                      const char *counts, ...) __attribute__((format(printf, 5, 6)));

int64_t harness_now_ms(void);
void harness_pause_ms(int ms);
/* Asks again and again, after 2 to 50 ms, until the condition holds (true) or the time is up (false). */
bool harness_wait(bool (*condition)(void *arg), void *arg, int timeout_ms);

/* ---- processes ---- */

/* base/servers/ starts and ends the real thing and returns errors; what follows fails the test instead, and
 * ends with the test what it started. proc_wait(), proc_running() and proc_stopped() are in
 * base/servers/proc.h. */

/* Fails the test if `error` is not NULL. */
#define MUST(error) harness_must(__FILE__, __LINE__, (error))
void harness_must(const char *file, int line, const char *error);

/* Starts argv[0] as proc_start() does: without this program's SECKILL_ variables, with output and errors
 * appended to the file `log`. Call from the main thread. */
void proc_spawn(struct proc *proc, const char *const argv[], const char *const env[], const char *log);
/* The same program once more. */
void proc_respawn(struct proc *proc);
void proc_kill(struct proc *proc, int signal); /* SIGSTOP: and waits until it has stopped */
/* Everything it wrote so far. */
char *proc_output(const struct proc *proc);
/* Ends it with the test, and prints the end of its log if the test has failed. For what base/servers/ has
 * started. */
void harness_own(const struct proc *proc);

/* A port on 127.0.0.1 that is nobody's, and of no other test program, until this program ends. */
int harness_free_port(void);
/* A path NAME-N in harness_dir() that no other call returns. */
const char *harness_path(const char *name);
/* The arguments as an array, with NULL at the end; it lives until the test ends. */
const char **harness_list(va_list args);

/* A proxy that loses things, to put before Redis or ZooKeeper; see base/servers/proxy.h. It ends with the
 * test. */
struct proxy *proxy_start(int target_port);

/* ---- Redis ---- */

/* Starts a private server: append-only file, and the options that follow, as on its command line; NULL at the
 * end. The file is written before each reply, but not synced: that outlives kill -9, and no test waits for a
 * disk that others keep busy. All that start a server wait until it answers PING. */
void redis_start(struct redis_server *redis, ...) __attribute__((sentinel));
/* A replica of `master` (so: read-only), in sync with it. */
void redis_start_replica(struct redis_server *redis, const struct redis_server *master);
/* Waits until the replica has all that the master has written by now. WAIT cannot tell: it speaks of what its
 * own connection wrote. */
void redis_wait_copied(const struct redis_server *master, const struct redis_server *replica);
void redis_stop(struct redis_server *redis);    /* SIGTERM, and waits */
void redis_kill(struct redis_server *redis);    /* SIGKILL, and waits */
void redis_restart(struct redis_server *redis); /* same port, options and data; it must have ended */
void redis_wipe(struct redis_server *redis);    /* removes its data; it must have ended */
void redis_pause(struct redis_server *redis);   /* SIGSTOP */
void redis_resume(struct redis_server *redis);  /* SIGCONT */

/* The wall clock of the servers that are started from the first call on, until this program ends. */
struct turned_clock *redis_clock(void);

/* What the first server that was started says that it is: "Redis 7.0.15"; "": none was started. */
const char *redis_name(void);

/* One command on a connection of its own, NULL at the end. The reply as text: `5`, `text`, `(nil)`,
 * `[a b (nil)]`, `(error) NOSCRIPT …`, `(no reply)`. */
const char *redis_command(const struct redis_server *redis, ...) __attribute__((sentinel));
/* The same, where the reply must be an integer or the text of one. */
long long redis_integer(const struct redis_server *redis, ...) __attribute__((sentinel));

/* ---- a Redis Cluster: see base/servers/local_servers.h ---- */

void redis_cluster_start(struct redis_cluster *cluster, int masters, int replicas);
/* Adds a master without slots, to a cluster without replicas. */
struct redis_server *redis_cluster_add(struct redis_cluster *cluster);
/* redis-cluster://… of its first two servers. */
const char *redis_cluster_url(const struct redis_cluster *cluster);
/* Who has the key; NULL: nobody that answers. */
struct redis_server *redis_cluster_of(struct redis_cluster *cluster, const char *key);
/* The slot of `key` is on its way: from now on keys that have moved are answered by ASK, and scripts whose
 * keys are split by TRYAGAIN. */
void redis_cluster_begin_move(const char *key, const struct redis_server *from,
                              const struct redis_server *to);
/* Moves one key, by its whole name. */
void redis_cluster_move_key(const char *name, const struct redis_server *from, const struct redis_server *to);
/* Moves up to `most` keys of the slot, whichever come first; returns how many. */
int redis_cluster_move_keys(const char *key, const struct redis_server *from, const struct redis_server *to,
                            int most);
/* Tells all masters that the slot has moved. */
void redis_cluster_end_move(const struct redis_cluster *cluster, const char *key,
                            const struct redis_server *to);
/* All that, a key at a time, with pauses of its own. */
void redis_cluster_move(const struct redis_cluster *cluster, const char *key, const struct redis_server *from,
                        const struct redis_server *to, uint64_t *random);
/* FLUSHALL on all masters. */
void redis_cluster_flush(struct redis_cluster *cluster);

/* ---- three Sentinels: see base/servers/local_servers.h ---- */

void redis_sentinel_start(struct redis_sentinel *sentinel); /* with one replica */
void redis_sentinel_start_with(struct redis_sentinel *sentinel, int replicas);
/* redis-sentinel://…/shop of all Sentinels. */
const char *redis_sentinel_url(const struct redis_sentinel *sentinel);
/* The master, by what the servers say of themselves; NULL: none of them is. */
struct redis_server *redis_sentinel_master(struct redis_sentinel *sentinel);
/* Starts all that, and a replica that takes no other master; then has the first Sentinel begin a failover to
 * the second server. It names that server when this returns, and waits for the stubborn replica for ten
 * seconds. */
void redis_sentinel_start_stalled(struct redis_sentinel *sentinel, struct redis_server *stubborn);

/* ---- a master and its replica, and the links to them ---- */

struct pair {
    struct redis_server master, replica;
    struct proxy *link, *front; /* between the two; to the one that is master */
    bool is_cut;
};

/* Waits until the replica follows. */
void pair_start(struct pair *pair);
const char *pair_url(const struct pair *pair);
/* What the master writes from now on does not get to the replica. */
void pair_cut(struct pair *pair);
void pair_mend(struct pair *pair);
/* Kills the master. The replica is master, and the front leads to it; what it had not got is lost. */
void pair_fail_over(struct pair *pair);

/* Waits until a replica follows the server: it has acknowledged something. Until it does so for the first
 * time, once a second, it is not sent what is new. */
void replica_wait(const struct redis_server *master);
/* Once the replica has all, it gets nothing of what the master writes from now on. */
void replica_cut(const struct redis_server *master, const struct redis_server *replica);

/* ---- the journal of baskets and transfers in a Redis: all its parts together ---- */

long long journal_open(const struct redis_server *redis);  /* how many are unfinished */
long long journal_count(const struct redis_server *redis); /* how many there are */
/* As if there had been grants of this lock epoch. */
void journal_set_epoch(const struct redis_server *redis, const char *epoch);

/* ---- items of an inventory, see inventory/model/keys.h ---- */

/* The key of ITEM, or of ITEM:WHAT. */
const char *stock_key(const char *item);
/* How many orders the item has. */
long long stock_orders(const struct redis_server *redis, const char *item);
/* The units with which it was created; adds some to them, as nobody may. */
long long stock_initial(const struct redis_server *redis, const char *item);
void stock_add_initial(const struct redis_server *redis, const char *item, int change);

/* ---- ZooKeeper ---- */

/* A private server with a tick of 200 ms, alone, or one of at most three. All that start one wait until it
 * serves. */
void zookeeper_start(struct zookeeper_server *server);
/* One that lets a session live for `session_max_ms` at most, not for a minute. */
void zookeeper_start_bounded(struct zookeeper_server *server, int session_max_ms);
void zookeeper_start_ensemble(struct zookeeper_server servers[], int count);
int zookeeper_leader(const struct zookeeper_server servers[], int count); /* which of them leads */
void zookeeper_kill(struct zookeeper_server *server);                     /* SIGKILL, and waits */
void zookeeper_restart(struct zookeeper_server *server); /* same port and data; it must have ended */
void zookeeper_pause(struct zookeeper_server *server);   /* SIGSTOP */
void zookeeper_resume(struct zookeeper_server *server);  /* SIGCONT */

/* What it answers to a word of four letters (srvr, wchs, …); "" if nothing. */
const char *zookeeper_ask(const struct zookeeper_server *server, const char *word);
/* The children of a node in the order of their names, with spaces between, "" if it has none; "(none)" if
 * there is no such node. */
const char *zookeeper_list(const struct zookeeper_server *server, const char *path);
void zookeeper_delete(const struct zookeeper_server *server, const char *path);

/* ---- a network that can be cut: its hosts are in base/servers/local_servers.h ---- */

/* Puts the test program, and all it starts from now on, into a network of its own, which ends with it. Call
 * after harness_begin(), before anything is started. 127.0.0.1 is another one there. */
void net_begin(void);
void net_add(struct net_host *host);       /* a new one, until the test ends */
void net_cut(struct net_host *host);       /* away from all */
void net_cut_peers(struct net_host *host); /* only from its peers: clients still reach it */
void net_join(struct net_host *host);      /* back again */

/* ---- etcd ---- */

/* Starts a private etcd with the options that follow, as on its command line; NULL at the end. All that start
 * one wait until it is healthy. */
void etcd_start(struct etcd_server *etcd, ...) __attribute__((sentinel));
/* The same for clients with TLS; the options say with which certificates. etcd_command() cannot talk to it.
 */
void etcd_start_tls(struct etcd_server *etcd, ...) __attribute__((sentinel));
/* A cluster of `count` members, each with these options. */
void etcd_start_cluster(struct etcd_server *members, int count, ...) __attribute__((sentinel));
/* The same, each member on a host of its own; the program must have called net_begin(). */
void etcd_start_network(struct etcd_server *members, int count, ...) __attribute__((sentinel));
/* Which member leads: waits until all that run, neither paused nor cut off, agree on it; they must be a
 * majority. */
int etcd_leader(struct etcd_server *members, int count);

void etcd_stop(struct etcd_server *etcd); /* SIGTERM, and waits: some seconds if clients have streams open */
void etcd_kill(struct etcd_server *etcd); /* SIGKILL, and waits */
/* Same ports, options and data; it must have ended. Without a majority no member gets healthy, so a cluster
 * that is down is started by restart_all: every member that has ended, then it waits. */
void etcd_restart(struct etcd_server *etcd);
void etcd_restart_all(struct etcd_server *members, int count);
void etcd_wipe(struct etcd_server *etcd);   /* removes its data; it must have ended */
void etcd_pause(struct etcd_server *etcd);  /* SIGSTOP */
void etcd_resume(struct etcd_server *etcd); /* SIGCONT */
/* What is done about a dead disk: the member is killed, removed from the cluster, wiped, and added again as a
 * new one with the same addresses. A majority of the others must run. */
void etcd_replace(struct etcd_server *members, int count, int which);

/* etcdctl (API 3) with that server as its only endpoint, NULL at the end. Returns what it printed, errors
 * too, less the last newline. It gives up after 5 s unless told another --command-timeout. From the main
 * thread. */
const char *etcd_command(const struct etcd_server *etcd, ...) __attribute__((sentinel));

/* ---- certificates ---- */

/* Each is a certificate NAME.pem and its key NAME.key in harness_dir(): one that signs others, and one that
 * is signed, for so many days from now (-1: its time is over), for "IP:127.0.0.1,DNS:localhost" or the like,
 * to be used as "serverAuth,clientAuth" or one of them. */
void certificate_authority(const char *name);
void certificate_make(const char *name, const char *authority, int days, const char *alternative_names,
                      const char *use);
/* The path; `kind` is "pem" or "key". */
const char *certificate_file(const char *name, const char *kind);

/* ---- HTTP ---- */

struct web_conn {
    int fd; /* -1 once closed */
    int timeout_ms;
    size_t held; /* bytes of `buffer` that were read and not yet asked for */
    char buffer[16384];
};

struct web_response {
    int status;
    char *headers; /* from the status line to the empty line */
    char *body;    /* ends in NUL */
    size_t len;
};

enum web_result {
    WEB_OK,
    WEB_CLOSED,  /* by the other side, before the response was whole; also: not connected */
    WEB_TIMEOUT, /* it took longer than timeout_ms (10 s unless changed) */
    WEB_GARBAGE, /* it does not speak HTTP */
};

/* Connects to 127.0.0.1; false if nobody listens. */
bool web_open(struct web_conn *conn, int port);
/* The same to another IPv4 address; within `timeout_ms`, which also becomes the connection's. */
bool web_open_at(struct web_conn *conn, const char *host, int port, int timeout_ms);
void web_close(struct web_conn *conn);
/* Sends a request and reads its response. `headers` are whole lines, each ended by "\r\n"; Host, unless it is
 * the first of them, and, with a body, Content-Length are added. `headers` and `body` may be NULL. */
enum web_result web_request(struct web_conn *conn, const char *method, const char *path, const char *headers,
                            const char *body, struct web_response *response);
/* The two halves, for what no decent client does. A response of 1xx counts as one. */
enum web_result web_send_raw(struct web_conn *conn, const void *data, size_t size);
void web_send_text(struct web_conn *conn, const char *text); /* fails the test where it is not taken */
enum web_result web_read_response(struct web_conn *conn, struct web_response *response);
/* The same, where the response has no body whatever its Content-Length says (HEAD). */
enum web_result web_read_head(struct web_conn *conn, struct web_response *response);
/* Waits until the other side closes (WEB_CLOSED), throwing away what it sends. */
enum web_result web_read_end(struct web_conn *conn);

/* The value of the first header of that name, NULL if there is none. */
const char *web_header(const struct web_response *response, const char *name);

/* A request on a connection of its own. Returns the status, 0 if there was no response; `response` may be
 * NULL and is never left undefined. */
int web_call(int port, const char *method, const char *path, const char *headers, const char *body,
             struct web_response *response);

/* ---- the service ---- */

#define SECKILLD_ADMIN "Authorization: Bearer test-token\r\n"

/* Starts seckilld on a free port with the admin token test-token and the options that follow, NULL at the
 * end. All that start it wait until GET /livez answers 200. */
void seckilld_start(struct seckilld *service, int redis_port, ...) __attribute__((sentinel));
/* And waits until its store is there, too. */
void seckilld_start_ready(struct seckilld *service, int redis_port, ...) __attribute__((sentinel));
/* The same program, which is killed or stopped on the way of a basket or transfer: `stop_at` is "KILL 7", its
 * 7th step counted from 0, "STOP before take 0", … (test/stops.c; it prints its steps). */
void seckilld_start_stopping(struct seckilld *service, const char *stop_at, int redis_port, ...)
    __attribute__((sentinel));
/* Waits until GET /readyz answers `status`: 200, the store is there; 503, it is not. */
void seckilld_wait_ready(struct seckilld *service, int status);
/* Until it is 200 without a reason: a service is ready as soon as one master of a cluster is there. */
void seckilld_wait_whole(struct seckilld *service);
/* Waits until its log has the text. */
void seckilld_wait_log(const struct seckilld *service, const char *text);
void seckilld_restart(struct seckilld *service); /* same port and options; it must have ended */
/* SIGTERM; returns its exit status, or 128 and the signal that ended it. */
int seckilld_stop(struct seckilld *service);
void seckilld_kill(struct seckilld *service); /* SIGKILL, and waits */

/* ---- a browser ---- */

struct browser {
    struct proc driver;
    int port;
    char session[64];
};

/* Starts chromium without a screen, with a window of this size; it ends with the test. */
void browser_start(struct browser *browser, int width, int height);
void browser_open(const struct browser *browser, const char *url);
void browser_resize(const struct browser *browser, int width, int height);

/* Clicks the first element of this CSS selector with the mouse, once it is there and can be clicked. */
void browser_click(const struct browser *browser, const char *selector);
/* Presses keys where the focus is. */
void browser_type(const struct browser *browser, const char *keys);
#define BROWSER_TAB   "\xee\x80\x84"
#define BROWSER_ENTER "\xee\x80\x87"
#define BROWSER_END   "\xee\x80\x90"
#define BROWSER_HOME  "\xee\x80\x91"
#define BROWSER_LEFT  "\xee\x80\x92"
#define BROWSER_RIGHT "\xee\x80\x94"
#define BROWSER_DOWN  "\xee\x80\x95"

/* Runs the body of a function in the page. What it returns, as text: a string as it is, else as JSON. */
const char *browser_run(const struct browser *browser, const char *script);
/* Runs it until it returns something that is neither false nor null nor "". */
void browser_wait(const struct browser *browser, const char *script);
/* A text as JavaScript has it, in quotes. */
const char *browser_quote(const char *text);

/* What the page wrote to the console since the last call, errors among it; and the addresses that it asked
 * for. A line each. */
const char *browser_console(const struct browser *browser);
const char *browser_requests(const struct browser *browser);

/* Saves what is seen as NAME.png in the directory $SECKILL_SHOTS, if it is set. */
void browser_shoot(const struct browser *browser, const char *name);

#endif
