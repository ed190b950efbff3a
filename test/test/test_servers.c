/* The servers, the proxy and the HTTP client that tests use, each against the real thing. */
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

/* ---- Redis ---- */

static void redis_keeps_what_it_said(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    CHECK_STR(redis_command(&redis, "SET", "a", "1", NULL), "OK");
    CHECK_INT(redis_integer(&redis, "INCR", "a", NULL), 2);
    CHECK_STR(redis_command(&redis, "MGET", "a", "b", NULL), "[2 (nil)]");
    CHECK_HAS(redis_command(&redis, "NONSENSE", NULL), "(error) ERR unknown command");
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
    CHECK(proc_wait(&proc, 20000, &status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What is cut off is kept; and damage that is more than a last write is not cut off at all. */
static void mend_aof_loses_nothing(void) {
    struct redis_server redis;
    struct stat stat_of;
    redis_start(&redis, NULL);
    CHECK_INT(mend(&redis, harness_format("%s.mend", redis.dir)), 0);
    const char *file = harness_format("%s/appendonlydir/appendonly.aof.1.incr.aof", redis.dir);
    redis_command(&redis, "EVAL", "return redis.call('SET', 'x', string.rep('x', 5000000))", "0", NULL);
    redis_kill(&redis);
    CHECK_INT(stat(file, &stat_of), 0);
    char good[7];
    int fd = open(file, O_RDWR);
    CHECK_INT(pread(fd, good, 7, 24), 7);
    CHECK_INT(pwrite(fd, "garbage", 7, 24), 7);
    off_t size = stat_of.st_size;
    CHECK(size > 5000000);
    const char *log = harness_format("%s.refused", redis.dir);
    CHECK_INT(mend(&redis, log), 1);
    CHECK_INT(stat(file, &stat_of), 0);
    CHECK_INT(stat_of.st_size, size);
    CHECK_INT(pwrite(fd, good, 7, 24), 7);
    close(fd);
    CHECK_INT(truncate(file, 60), 0); /* in the middle of the first command */
    CHECK_INT(mend(&redis, harness_format("%s.mended", redis.dir)), 0);
    CHECK_INT(stat(file, &stat_of), 0);
    off_t left = stat_of.st_size;
    glob_t cut;
    CHECK_INT(glob(harness_format("%s.cut-*", file), 0, NULL, &cut), 0);
    CHECK_INT(cut.gl_pathc, 1);
    CHECK_INT(stat(cut.gl_pathv[0], &stat_of), 0);
    CHECK_INT(stat_of.st_size + left, 60);
    globfree(&cut);
}

static void redis_takes_options(void) {
    struct redis_server redis;
    redis_start(&redis, "--appendfsync", "everysec", "--maxmemory", "50mb", NULL);
    CHECK_STR(redis_command(&redis, "CONFIG", "GET", "appendfsync", NULL), "[appendfsync everysec]");
    CHECK_STR(redis_command(&redis, "CONFIG", "GET", "maxmemory", NULL), "[maxmemory 52428800]");
}

static void a_replica_is_read_only(void) {
    struct redis_server master, replica;
    redis_start(&master, NULL);
    CHECK_STR(redis_command(&master, "SET", "a", "1", NULL), "OK");
    redis_start_replica(&replica, &master);
    CHECK_STR(redis_command(&replica, "GET", "a", NULL), "1");
    CHECK_HAS(redis_command(&replica, "SET", "a", "2", NULL), "(error) READONLY");
}

struct pinger {
    struct redis_server *redis;
    const char *reply;
};

static void *ping(void *arg) {
    struct pinger *pinger = arg;
    pinger->reply = redis_command(pinger->redis, "PING", NULL);
    return NULL;
}

static void a_paused_redis_answers_later(void) {
    struct redis_server redis;
    struct pinger pinger = {.redis = &redis};
    pthread_t thread;
    int status;
    redis_start(&redis, NULL);
    redis_pause(&redis);
    CHECK_INT(waitpid(redis.proc.pid, &status, WUNTRACED), redis.proc.pid);
    CHECK(WIFSTOPPED(status));
    CHECK(proc_running(&redis.proc));
    pthread_create(&thread, NULL, ping, &pinger);
    redis_resume(&redis);
    pthread_join(thread, NULL);
    CHECK_STR(pinger.reply, "PONG");
}

/* ---- the proxy ---- */

static void the_proxy_passes_and_refuses(void) {
    struct redis_server redis, through;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    through = redis;
    through.port = proxy_port(proxy);
    CHECK_STR(redis_command(&through, "SET", "a", "1", NULL), "OK");
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "(no reply)");
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "1");
    proxy_stop(proxy);
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "(no reply)");
}

static void the_proxy_loses_a_reply(void) {
    struct redis_server redis, through;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    through = redis;
    through.port = proxy_port(proxy);
    proxy_set(proxy, PROXY_CUT, 0, NULL);
    CHECK_STR(redis_command(&through, "INCR", "a", NULL), "(no reply)");
    CHECK_STR(redis_command(&redis, "GET", "a", NULL), "1");
    CHECK_STR(redis_command(&through, "INCR", "a", NULL), "2");
    proxy_set(proxy, PROXY_CUT, 3, "INCR");
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "2");
    CHECK_STR(redis_command(&through, "INCR", "a", NULL), "(no reply)"); /* ":3\r" came */
    CHECK_INT(proxy_faults(proxy), 2);
    CHECK_STR(redis_command(&through, "GET", "a", NULL), "3");
}

static void the_proxy_delays(void) {
    struct redis_server redis, through;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    through = redis;
    through.port = proxy_port(proxy);
    proxy_set(proxy, PROXY_DELAY, 150, NULL);
    int64_t start = harness_now_ms();
    CHECK_STR(redis_command(&through, "PING", NULL), "PONG");
    CHECK(harness_now_ms() - start >= 150);
}

/* ---- the HTTP client, against a thread that says what the test wants said ---- */

struct speaker {
    int listener;
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

static pthread_t start_speaker(struct speaker *speaker, int port, const char *says) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    pthread_t thread;
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    speaker->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(speaker->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    speaker->says = says;
    speaker->heard = harness_alloc(1024);
    CHECK_INT(bind(speaker->listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(speaker->listener, 8), 0);
    CHECK_INT(pthread_create(&thread, NULL, speak, speaker), 0);
    return thread;
}

static void stop_speaker(struct speaker *speaker, pthread_t thread) {
    pthread_join(thread, NULL);
    close(speaker->listener);
}

static void the_client_reads_pipelined_answers(void) {
    struct speaker speaker;
    struct web_conn conn;
    struct web_response response;
    int port = harness_free_port();
    pthread_t thread = start_speaker(
        &speaker, port,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nLocation: /x\r\nContent-Length: 3\r\n\r\n"
        "oneHTTP/1.1 409 Conflict\r\n\r\ntwo");
    CHECK(web_open(&conn, port));
    CHECK_INT(web_request(&conn, "POST", "/p", "X-A: b\r\n", "{}", &response), WEB_OK);
    CHECK_INT(response.status, 100);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 201);
    CHECK_STR(response.body, "one");
    CHECK_STR(web_header(&response, "location"), "/x");
    CHECK(web_header(&response, "Retry-After") == NULL);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 409);
    CHECK_STR(response.body, "two");
    web_close(&conn);
    stop_speaker(&speaker, thread);
    CHECK_STR(speaker.heard, "POST /p HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\nContent-Length: 2\r\n\r\n{}");
}

static void the_client_tells_failures_apart(void) {
    struct speaker speaker;
    struct web_conn conn;
    struct web_response response;
    int port = harness_free_port();
    CHECK_INT(web_call(port, "GET", "/", NULL, NULL, &response), 0);
    CHECK_STR(response.body, "");
    pthread_t thread = start_speaker(&speaker, port, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort");
    CHECK(web_open(&conn, port));
    CHECK_INT(web_request(&conn, "GET", "/", NULL, NULL, &response), WEB_CLOSED);
    web_close(&conn);
    stop_speaker(&speaker, thread);
    thread = start_speaker(&speaker, port, "+OK, but what is HTTP?\r\n\r\n");
    CHECK(web_open(&conn, port));
    conn.timeout_ms = 50;
    CHECK_INT(web_read_response(&conn, &response), WEB_TIMEOUT);
    conn.timeout_ms = 10000;
    CHECK_INT(web_request(&conn, "GET", "/", NULL, NULL, &response), WEB_GARBAGE);
    web_close(&conn);
    stop_speaker(&speaker, thread);
}

/* ---- the service ---- */

static void the_service_starts_and_ends(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_response response;
    redis_start(&redis, NULL);
    seckilld_start(&service, redis.port, "--workers", "1", NULL);
    seckilld_wait_ready(&service, 200);
    CHECK_INT(web_call(service.port, "PUT", "/v1/items/a", SECKILLD_ADMIN, "{\"stock\":1}", &response), 201);
    seckilld_kill(&service);
    CHECK_INT(web_call(service.port, "GET", "/livez", NULL, NULL, NULL), 0);
    seckilld_restart(&service);
    seckilld_wait_ready(&service, 200);
    CHECK_INT(web_call(service.port, "GET", "/v1/items/a", NULL, NULL, &response), 200);
    CHECK_HAS(response.body, "\"stock\":1,");
    CHECK_INT(seckilld_stop(&service), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("redis keeps what it said", redis_keeps_what_it_said);
    harness_run("redis forgets half a script", redis_forgets_half_a_script);
    harness_run("mend-aof.sh loses nothing", mend_aof_loses_nothing);
    harness_run("redis takes options", redis_takes_options);
    harness_run("a replica is read-only", a_replica_is_read_only);
    harness_run("a paused redis answers later", a_paused_redis_answers_later);
    harness_run("the proxy passes and refuses", the_proxy_passes_and_refuses);
    harness_run("the proxy loses a reply", the_proxy_loses_a_reply);
    harness_run("the proxy delays", the_proxy_delays);
    harness_run("the client reads pipelined answers", the_client_reads_pipelined_answers);
    harness_run("the client tells failures apart", the_client_tells_failures_apart);
    harness_run("the service starts and ends", the_service_starts_and_ends);
    return harness_finish();
}
