/* The harness on itself: what it must notice, it notices; what it starts, it ends. */
#include "test/harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void takes_too_long(void) {
    harness_limit(1);
    pause();
}

static int run_victim(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("int", fails_by_int);
    harness_run("text", fails_by_text);
    harness_run("thread", fails_by_thread);
    harness_run("server", fails_with_server);
    harness_run("passes", passes);
    harness_run("crash", crashes);
    harness_run("long", takes_too_long);
    return harness_finish();
}

/* Runs this program as the victim, with one argument; its exit status must be this. Returns what it says. */
static const char *run_self(const char *argument, int exit_status) {
    struct proc self;
    int status;
    const char *argv[] = {"/proc/self/exe", argument, NULL};
    const char *env[] = {"HARNESS_VICTIM=1", harness_format("TMPDIR=%s", harness_dir()), NULL};
    proc_spawn(&self, argv, env, harness_format("%s/victim-%s.log", harness_dir(), argument));
    CHECK(proc_wait(&self, 30000, &status));
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), exit_status);
    return proc_output(&self);
}

static void failures_are_red(void) {
    static const char *const reds[][2] = {{"int", "1 + 1 is 2, not 3"},
                                          {"text", "\"this\" is \"this\", not \"that\""},
                                          {"thread", "in a thread"}};
    for (size_t i = 0; i < sizeof reds / sizeof *reds; i++) {
        const char *output = run_self(reds[i][0], 1);
        CHECK_HAS(output, harness_format("FAIL %s", reds[i][0]));
        CHECK_HAS(output, reds[i][1]);
        CHECK_HAS(output, "---- 0 ok, 1 not");
    }
    run_self("no such test", 1);
    const char *green = run_self("passes", 0);
    CHECK_HAS(green, "ok   passes");
    CHECK_HAS(green, "---- 1 ok, 0 not");
}

static void a_failed_test_ends_its_servers(void) {
    const char *output = run_self("server", 1), *pid = strstr(output, "server ");
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
                             {"long", ": over its time limit\n0 passed, 1 failed\n"},
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

/* It has the environment that it is given, and not this program's SECKILL_ variables. */
static void a_process_is_seen(void) {
    struct proc proc;
    int status;
    const char *argv[] = {"sh", "-c", "echo ${SECKILL_STRATEGY-unset} $SECKILL_LISTEN $HOME; exit 7", NULL};
    const char *env[] = {"SECKILL_LISTEN=here", "HOME=there", NULL};
    setenv("SECKILL_STRATEGY", "naive", 1);
    proc_spawn(&proc, argv, env, harness_format("%s/env.log", harness_dir()));
    unsetenv("SECKILL_STRATEGY");
    CHECK(proc_wait(&proc, 10000, &status));
    CHECK_INT(WEXITSTATUS(status), 7);
    CHECK(!proc_running(&proc));
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

/* What test/evidence.py makes of one attack on this server, less the text and the commits. */
static const char *write_evidence(const char *server, int lost) {
    struct proc proc;
    int status;
    const char *lines = harness_format("%s/evidence.jsonl", harness_dir()),
               *document = harness_format("%s/evidence.md", harness_dir());
    unlink(lines);
    setenv("SECKILL_EVIDENCE", lines, 1);
    harness_evidence("none is lost", "a \xe2\x80\x93 kill", 30, server,
                     "\"acknowledged\":1234,\"lost\":%d,\"put_back\":0", lost);
    harness_evidence("one holds", "a kill", 5, server,
                     "\"grants\":7,\"grants_lost\":1,\"ttl_ms\":2000,\"overlap_ms\":%d,\"fences_twice\":0",
                     lost);
    unsetenv("SECKILL_EVIDENCE");
    const char *argv[] = {"python3", "test/evidence.py", lines, document, lost ? "a_program" : NULL, NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/evidence.log", harness_dir()));
    CHECK(proc_wait(&proc, 20000, &status));
    CHECK_INT(status, 0);
    const char *show[] = {"sed", "-nE", "/^(\\| [no]|- \\*\\*)/{s/ [0-9a-z]+ \\|$//;p}", document, NULL};
    proc_spawn(&proc, show, NULL, harness_format("%s/rows-%s%d", harness_dir(), server, lost));
    CHECK(proc_wait(&proc, 20000, &status));
    return proc_output(&proc);
}

static void evidence_is_kept(void) {
    static const char rows[] =
        "| none is lost | a \xe2\x80\x93 kill | 30 | Redis 7 | 1,234 | 2 | 0 | \xe2\x80\x93 | 2 |\n"
        "| none is lost | a \xe2\x80\x93 kill | 30 | Valkey 8 | 1,234 | 0 | 0 | \xe2\x80\x93 | 0 |\n"
        "| one holds | a kill | 5 | Redis 7 | 7 | 1 | 2 | 2,000 | 0 |\n"
        "| one holds | a kill | 5 | Valkey 8 | 7 | 1 | 0 | 2,000 | 0 |\n";
    write_evidence("Redis 7", 3);
    write_evidence("Valkey 8", 0);
    const char *text = write_evidence("Redis 7", 2);
    CHECK_HAS(text, "- **Redis 7**: ");
    CHECK_HAS(text, "; failed: a_program\n- **Valkey 8**: ");
    CHECK_STR(strstr(text, "| "), rows);
}

int main(int argc, char **argv) {
    if (getenv("HARNESS_VICTIM"))
        return run_victim(argc, argv);
    harness_begin(argc, argv);
    harness_run("failures are red", failures_are_red);
    harness_run("a failed test ends its servers", a_failed_test_ends_its_servers);
    harness_run("the runner counts", the_runner_counts);
    harness_run("a process is seen, and its environment is clean", a_process_is_seen);
    harness_run("ports differ", ports_differ);
    harness_run("evidence of other servers is kept", evidence_is_kept);
    return harness_finish();
}
