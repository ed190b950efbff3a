/* The harness on itself: what it must notice, it notices; what it starts, it ends. */
#include "test/harness.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a program of its own, which this one runs to see it fail ---- */

static void fails_by_int(void) {
    CHECK_INT(1 + 1, 3);
}

static void fails_by_text(void) {
    CHECK_STR("this", "that");
}

static void *fail_in_thread(void *arg) {
    (void)arg;
    FAIL("in a thread");
}

static void fails_by_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, fail_in_thread, NULL);
    pthread_join(thread, NULL);
}

static void fails_with_server(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    printf("     server %d\n", (int)redis.proc.pid);
    FAIL("with a server running");
}

static void passes(void) {
    CHECK(true);
}

static void crashes(void) {
    abort();
}

static int run_victim(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("int", fails_by_int);
    harness_run("text", fails_by_text);
    harness_run("thread", fails_by_thread);
    harness_run("server", fails_with_server);
    harness_run("passes", passes);
    harness_run("crash", crashes);
    return harness_finish();
}

/* Runs this program as the victim, with one argument; returns its wait status. */
static int run_self(const char *argument, char **output) {
    struct proc self;
    int status;
    char tmp[300];
    snprintf(tmp, sizeof tmp, "TMPDIR=%s", harness_dir());
    const char *argv[] = {"/proc/self/exe", argument, NULL};
    const char *env[] = {"HARNESS_VICTIM=1", tmp, NULL};
    proc_spawn(&self, argv, env, harness_format("%s/victim-%s.log", harness_dir(), argument));
    CHECK(proc_wait(&self, 30000, &status));
    *output = proc_output(&self);
    return status;
}

static void check_red(const char *test, const char *says) {
    char *output;
    int status = run_self(test, &output);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 1);
    CHECK_HAS(output, harness_format("FAIL %s", test));
    CHECK_HAS(output, says);
    CHECK_HAS(output, "---- 0 ok, 1 not");
}

static void a_failed_check_is_red(void) {
    check_red("int", "1 + 1 is 2, not 3");
    check_red("text", "\"this\" is \"this\", not \"that\"");
    check_red("thread", "in a thread");
}

static void a_passed_check_is_green(void) {
    char *output;
    CHECK_INT(run_self("passes", &output), 0);
    CHECK_HAS(output, "ok   passes");
    CHECK_HAS(output, "---- 1 ok, 0 not");
}

static void nothing_run_is_red(void) {
    char *output;
    CHECK_INT(WEXITSTATUS(run_self("no such test", &output)), 1);
}

static void a_failed_test_ends_its_servers(void) {
    char *output;
    CHECK_INT(WEXITSTATUS(run_self("server", &output)), 1);
    const char *pid = strstr(output, "server ");
    CHECK(pid != NULL);
    CHECK_INT(kill((pid_t)strtol(pid + strlen("server "), NULL, 10), 0), -1);
    CHECK_INT(errno, ESRCH);
    CHECK_HAS(output, "---- the end of");
}

/* The runner must count a program that died, and one that passed, and say so in its last line. */
static void the_runner_counts(void) {
    struct proc runner;
    int status;
    const char *script = harness_format("%s/victim", harness_dir());
    FILE *file = fopen(script, "we");
    CHECK(file != NULL);
    fprintf(file, "#!/bin/sh\nHARNESS_VICTIM=1 exec /proc/%d/exe \"$WHICH\"\n", (int)getpid());
    fclose(file);
    const char *runs[][2] = {{"passes", "\n1 passed, 0 failed\n"},
                             {"crash", "\n0 passed, 1 failed\n"},
                             {"int", "\n0 passed, 1 failed\n"},
                             {"no such test", "\n0 passed, 1 failed\n"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *argv[] = {"bash", "test/run.sh", script, NULL};
        const char *env[] = {harness_format("WHICH=%s", runs[i][0]),
                             harness_format("TMPDIR=%s", harness_dir()), NULL};
        CHECK_INT(chmod(script, 0700), 0);
        proc_spawn(&runner, argv, env, harness_format("%s/runner-%zu.log", harness_dir(), i));
        CHECK(proc_wait(&runner, 30000, &status));
        CHECK_INT(WEXITSTATUS(status), i == 0 ? 0 : 1);
        CHECK_HAS(proc_output(&runner), runs[i][1]);
    }
}

/* ---- processes and ports ---- */

static void an_end_is_seen(void) {
    struct proc proc;
    const char *argv[] = {"sh", "-c", "exit 7", NULL};
    int status;
    proc_spawn(&proc, argv, NULL, harness_format("%s/sh.log", harness_dir()));
    CHECK(proc_wait(&proc, 10000, &status));
    CHECK_INT(WEXITSTATUS(status), 7);
    CHECK(!proc_running(&proc));
}

static void the_environment_is_clean(void) {
    struct proc proc;
    int status;
    const char *argv[] = {"sh", "-c", "echo ${SECKILL_STRATEGY-unset} $SECKILL_LISTEN $HOME", NULL};
    const char *env[] = {"SECKILL_LISTEN=here", "HOME=there", NULL};
    setenv("SECKILL_STRATEGY", "naive", 1);
    proc_spawn(&proc, argv, env, harness_format("%s/env.log", harness_dir()));
    unsetenv("SECKILL_STRATEGY");
    CHECK(proc_wait(&proc, 10000, &status));
    CHECK_STR(proc_output(&proc), "unset here there\n");
}

static void ports_differ(void) {
    int seen[200];
    for (int i = 0; i < 200; i++) {
        seen[i] = harness_free_port();
        for (int k = 0; k < i; k++)
            CHECK(seen[k] != seen[i]);
    }
}

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
    if (getenv("HARNESS_VICTIM"))
        return run_victim(argc, argv);
    harness_begin(argc, argv);
    harness_run("a failed check is red", a_failed_check_is_red);
    harness_run("a passed check is green", a_passed_check_is_green);
    harness_run("nothing run is red", nothing_run_is_red);
    harness_run("a failed test ends its servers", a_failed_test_ends_its_servers);
    harness_run("the runner counts", the_runner_counts);
    harness_run("a program's status and end are seen", an_end_is_seen);
    harness_run("the environment is clean", the_environment_is_clean);
    harness_run("ports differ", ports_differ);
    harness_run("redis keeps what it said", redis_keeps_what_it_said);
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
