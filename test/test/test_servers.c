/* The servers, the proxy and the HTTP client that tests use, each against the real thing: what the harness
 * says of them is so. (Networks that are cut: test_net.c. What an operator starts by hand: test_deploy.c.) */
#include "test/harness.h"

#include <fcntl.h>
#include <glob.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 20000 };

/* ---- Redis ---- */

static void redis_keeps_what_it_said(void) {
    struct redis_server redis, replica;
    redis_start(&redis, "--maxmemory", "50mb", NULL);
    CHECK_STR(redis_command(&redis, "CONFIG", "GET", "maxmemory", NULL), "[maxmemory 52428800]");
    CHECK_STR(redis_command(&redis, "SET", "a", "1", NULL), "OK");
    CHECK_INT(redis_integer(&redis, "INCR", "a", NULL), 2);
    CHECK_STR(redis_command(&redis, "MGET", "a", "b", NULL), "[2 (nil)]");
    CHECK_HAS(redis_command(&redis, "NONSENSE", NULL), "(error) ERR unknown command");
    redis_start_replica(&replica, &redis);
    CHECK_STR(redis_command(&replica, "GET", "a", NULL), "2");
    CHECK_HAS(redis_command(&replica, "SET", "a", "2", NULL), "(error) READONLY");
    redis_kill(&redis);
    CHECK_STR(redis_command(&redis, "GET", "a", NULL), "(no reply)");
    redis_restart(&redis);
    CHECK_STR(redis_command(&redis, "GET", "a", NULL), "2");
    redis_stop(&redis);
    redis_wipe(&redis);
    redis_restart(&redis);
    CHECK_STR(redis_command(&redis, "GET", "a", NULL), "(nil)");
}

/* A crash in the middle of what a script wrote: nothing of it is there, neither after this start nor the
 * next. */
static void redis_forgets_half_a_script(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    redis_command(&redis, "SET", "before", "1", NULL);
    for (int i = 0; i < 2; i++) {
        redis_command(&redis, "EVAL", "redis.call('SET', KEYS[1], '1') return redis.call('SET', 'b', '2')",
                      "1", i ? "later" : "half", NULL);
        redis_kill(&redis);
        if (i == 0) {
            const char *file = harness_format("%s/appendonlydir/appendonly.aof.1.incr.aof", redis.dir);
            struct stat stat_of;
            CHECK_INT(stat(file, &stat_of), 0);
            CHECK_INT(truncate(file, stat_of.st_size - 25), 0);
        }
        redis_restart(&redis);
        CHECK_STR(redis_command(&redis, "EXISTS", "half", NULL), "0");
        CHECK_STR(redis_command(&redis, "EXISTS", "before", NULL), "1");
    }
    CHECK_STR(redis_command(&redis, "EXISTS", "later", NULL), "1");
}

static int mend(const struct redis_server *redis, const char *log) {
    int status;
    struct proc proc;
    const char *argv[] = {"deploy/mend-aof.sh", redis->dir, NULL};
    proc_spawn(&proc, argv, NULL, log);
    CHECK(proc_wait(&proc, WAIT_MS, &status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static off_t size_of(const char *file) {
    struct stat stat_of;
    CHECK_INT(stat(file, &stat_of), 0);
    return stat_of.st_size;
}

/* What is cut off is kept; and damage that is more than a last write is not cut off at all. */
static void mend_aof_loses_nothing(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    CHECK_INT(mend(&redis, harness_format("%s.mend", redis.dir)), 0);
    const char *file = harness_format("%s/appendonlydir/appendonly.aof.1.incr.aof", redis.dir);
    redis_command(&redis, "EVAL", "return redis.call('SET', 'x', string.rep('x', 5000000))", "0", NULL);
    redis_kill(&redis);
    char good[7];
    int fd = open(file, O_RDWR);
    CHECK_INT(pread(fd, good, 7, 24), 7);
    CHECK_INT(pwrite(fd, "garbage", 7, 24), 7);
    off_t size = size_of(file);
    CHECK(size > 5000000);
    CHECK_INT(mend(&redis, harness_format("%s.refused", redis.dir)), 1);
    CHECK_INT(size_of(file), size);
    CHECK_INT(pwrite(fd, good, 7, 24), 7);
    close(fd);
    CHECK_INT(truncate(file, 60), 0); /* in the middle of the first command */
    CHECK_INT(mend(&redis, harness_format("%s.mended", redis.dir)), 0);
    glob_t cut;
    CHECK_INT(glob(harness_format("%s.cut-*", file), 0, NULL, &cut), 0);
    CHECK_INT(cut.gl_pathc, 1);
    CHECK_INT(size_of(cut.gl_pathv[0]) + size_of(file), 60);
    globfree(&cut);
}

static void the_proxy_loses_things(void) {
    struct redis_server redis, through;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    through = redis;
    through.port = proxy_port(proxy);
    CHECK_STR(redis_command(&through, "SET", "a", "0", NULL), "OK");
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "(no reply)");
    proxy_set(proxy, PROXY_CUT, 0, NULL);
    CHECK_STR(redis_command(&through, "INCR", "a", NULL), "(no reply)");
    CHECK_STR(redis_command(&redis, "GET", "a", NULL), "1");
    CHECK_STR(redis_command(&through, "INCR", "a", NULL), "2");
    proxy_set(proxy, PROXY_CUT, 3, "INCR");
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "2");
    CHECK_STR(redis_command(&through, "INCR", "a", NULL), "(no reply)"); /* ":3\r" came */
    CHECK_INT(proxy_faults(proxy), 2);
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "3");
    proxy_set(proxy, PROXY_DELAY, 150, NULL);
    int64_t start = harness_now_ms();
    CHECK_STR(redis_command(&through, "PING", NULL), "PONG");
    CHECK(harness_now_ms() - start >= 150);
    proxy_stop(proxy);
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "(no reply)");
}

/* ---- etcd ---- */

struct entry {
    const struct etcd_server *etcd;
    const char *value;
};

static bool is_put(void *arg) {
    const struct entry *entry = arg;
    return strcmp(etcd_command(entry->etcd, "put", "a", entry->value, "--command-timeout", "1s", NULL),
                  "OK") == 0;
}

/* Again and again: what comes to a leader that is just voted out gets no answer. */
static void put(const struct etcd_server *etcd, const char *value) {
    struct entry entry = {etcd, value};
    if (!harness_wait(is_put, &entry, WAIT_MS))
        FAIL("%s is not written by way of port %d", value, etcd->port);
}

static const char *get(const struct etcd_server *etcd) {
    return etcd_command(etcd, "get", "a", "--print-value-only", NULL);
}

static void etcd_keeps_what_it_said(void) {
    struct etcd_server etcd;
    etcd_start(&etcd, "--election-timeout", "1000", "--heartbeat-interval", "100", NULL);
    CHECK_HAS(etcd_command(&etcd, "lease", "grant", "1", NULL), "granted with TTL(2s)");
    put(&etcd, "1");
    CHECK_STR(etcd_command(&etcd, "get", "a", NULL), "a\n1");
    CHECK_HAS(etcd_command(&etcd, "nonsense", NULL), "unknown command");
    etcd_kill(&etcd);
    CHECK_HAS(etcd_command(&etcd, "get", "a", "--command-timeout", "100ms", NULL), "Error: ");
    etcd_restart(&etcd);
    CHECK_STR(get(&etcd), "1");
    etcd_stop(&etcd);
    etcd_wipe(&etcd);
    etcd_restart(&etcd);
    CHECK_STR(get(&etcd), "");
}

/* It outlives its leader, killed or paused; then a member's disk; then all of it ends, and comes back. */
static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void a_cluster_of_etcd(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    int first = etcd_leader(members, 3);
    put(&members[(first + 1) % 3], "1");
    CHECK_STR(get(&members[first]), "1");
    etcd_kill(&members[first]);
    int second = etcd_leader(members, 3);
    CHECK(second != first);
    put(&members[second], "2");
    etcd_restart(&members[first]);
    CHECK_STR(get(&members[first]), "2");
    CHECK(etcd_leader(members, 3) != first); /* it comes back as a follower */
    second = etcd_leader(members, 3);
    etcd_pause(&members[second]);
    CHECK(etcd_leader(members, 3) != second);
    CHECK_HAS(etcd_command(&members[second], "get", "a", "--command-timeout", "100ms", NULL), "Error: ");
    etcd_resume(&members[second]);
    const char *before = etcd_command(&members[0], "member", "list", NULL);
    etcd_replace(members, 3, second);
    CHECK_STR(get(&members[second]), "2");
    const char *after = etcd_command(&members[0], "member", "list", NULL);
    CHECK_INT(lines_of(after), lines_of(before)); /* an id has leading zeros, or has not */
    CHECK(strcmp(after, before) != 0);
    for (int i = 0; i < 2; i++)
        etcd_kill(&members[i]);
    CHECK_HAS(etcd_command(&members[2], "put", "a", "unknown", "--command-timeout", "1s", NULL), "Error: ");
    etcd_stop(&members[2]);
    etcd_restart_all(members, 3);
    etcd_leader(members, 3);
    const char *stands = get(&members[0]); /* the put may have reached its member's disk: nobody knows */
    CHECK(strcmp(stands, "2") == 0 || strcmp(stands, "unknown") == 0);
    for (int i = 1; i < 3; i++)
        CHECK_STR(get(&members[i]), stands);
}

/* ---- ZooKeeper ---- */

static void one_zookeeper(void) {
    struct zookeeper_server server;
    zookeeper_start(&server);
    CHECK_HAS(zookeeper_ask(&server, "srvr"), "Mode: standalone");
    CHECK_STR(zookeeper_list(&server, "/zookeeper"), "config quota");
    CHECK_STR(zookeeper_list(&server, "/none"), "(none)");
    zookeeper_pause(&server);
    CHECK_STR(zookeeper_ask(&server, "srvr"), "");
    zookeeper_resume(&server);
    zookeeper_kill(&server);
    CHECK_STR(zookeeper_ask(&server, "srvr"), "");
    zookeeper_restart(&server);
    CHECK_HAS(zookeeper_ask(&server, "srvr"), "Mode: standalone");
}

static void three_zookeepers(void) {
    struct zookeeper_server servers[3];
    zookeeper_start_ensemble(servers, 3);
    int leader = zookeeper_leader(servers, 3);
    zookeeper_kill(&servers[leader]);
    CHECK_STR(zookeeper_list(&servers[(leader + 1) % 3], "/"), "zookeeper"); /* it has found a new one */
    CHECK(zookeeper_leader(servers, 3) != leader);
    zookeeper_restart(&servers[leader]);
}

/* ---- the HTTP client, against a thread that says what the test wants said ---- */

struct speaker {
    int listener;
    pthread_t thread;
    const char *says;
    char *heard;
};

static void *speak(void *arg) {
    struct speaker *speaker = arg;
    int fd = accept(speaker->listener, NULL, NULL);
    ssize_t got = recv(fd, speaker->heard, 1023, 0);
    if (got > 0 && send(fd, speaker->says, strlen(speaker->says), MSG_NOSIGNAL) > 0)
        shutdown(fd, SHUT_WR);
    while (recv(fd, speaker->heard + 512, 256, 0) > 0)
        ;
    close(fd);
    return NULL;
}

/* Connects to it. */
static void start_speaker(struct speaker *speaker, const char *says, struct web_conn *conn) {
    int port = harness_free_port();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    speaker->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    speaker->says = says;
    speaker->heard = harness_alloc(1024);
    CHECK_INT(bind(speaker->listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(speaker->listener, 8), 0);
    CHECK_INT(pthread_create(&speaker->thread, NULL, speak, speaker), 0);
    CHECK(web_open(conn, port));
}

static void stop_speaker(struct speaker *speaker, struct web_conn *conn) {
    web_close(conn);
    pthread_join(speaker->thread, NULL);
    close(speaker->listener);
}

static void the_client_reads_pipelined_answers(void) {
    struct speaker speaker;
    struct web_conn conn;
    struct web_response response;
    start_speaker(
        &speaker,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nLocation: /x\r\nContent-Length: 3\r\n\r\n"
        "oneHTTP/1.1 409 Conflict\r\n\r\ntwo",
        &conn);
    CHECK_INT(web_request(&conn, "POST", "/p", "X-A: b\r\n", "{}", &response), WEB_OK);
    CHECK_INT(response.status, 100);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 201);
    CHECK_STR(response.body, "one");
    CHECK_STR(web_header(&response, "location"), "/x");
    CHECK(!web_header(&response, "Retry-After"));
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 409);
    CHECK_STR(response.body, "two");
    stop_speaker(&speaker, &conn);
    CHECK_STR(speaker.heard, "POST /p HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\nContent-Length: 2\r\n\r\n{}");
}

static void the_client_tells_failures_apart(void) {
    struct speaker speaker;
    struct web_conn conn;
    struct web_response response;
    CHECK_INT(web_call(harness_free_port(), "GET", "/", NULL, NULL, &response), 0);
    CHECK_STR(response.body, "");
    start_speaker(&speaker, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", &conn);
    CHECK_INT(web_request(&conn, "GET", "/", NULL, NULL, &response), WEB_CLOSED);
    stop_speaker(&speaker, &conn);
    start_speaker(&speaker, "+OK, but what is HTTP?\r\n\r\n", &conn);
    conn.timeout_ms = 50;
    CHECK_INT(web_read_response(&conn, &response), WEB_TIMEOUT);
    conn.timeout_ms = 10000;
    CHECK_INT(web_request(&conn, "GET", "/", NULL, NULL, &response), WEB_GARBAGE);
    stop_speaker(&speaker, &conn);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("redis keeps what it said", redis_keeps_what_it_said);
    harness_run("redis forgets half a script", redis_forgets_half_a_script);
    harness_run("mend-aof.sh loses nothing", mend_aof_loses_nothing);
    harness_run("the proxy loses things", the_proxy_loses_things);
    harness_run("etcd keeps what it said", etcd_keeps_what_it_said);
    harness_run("a cluster of etcd", a_cluster_of_etcd);
    harness_run("one ZooKeeper", one_zookeeper);
    harness_run("three ZooKeepers", three_zookeepers);
    harness_run("the client reads pipelined answers", the_client_reads_pipelined_answers);
    harness_run("the client tells failures apart", the_client_tells_failures_apart);
    return harness_finish();
}
