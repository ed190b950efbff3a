/* The connection of the blocking driver, with a real Redis behind it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/redis/blocking/connection.h"
#include "test/harness.h"

enum { TIMEOUT_MS = 1000, THREADS = 16, PATIENCE_MS = 20000 };

static _Atomic bool slow_posts;

/* Before that of the C library: telling others takes time, in which all may change. */
int sem_post(sem_t *semaphore) { /* NOLINT(readability-inconsistent-declaration-parameter-name) */
    static int (*_Atomic real)(sem_t * semaphore);
    if (!real)
        real = (int (*)(sem_t *))dlsym(RTLD_NEXT, "sem_post");
    int status = real(semaphore);
    if (slow_posts)
        usleep(50);
    return status;
}

static struct redis_connection *open_connection(int port, const char *password, int timeout_ms) {
    struct redis_target target;
    char error[256];
    if (!redis_target_parse(&target, harness_format("redis://%s127.0.0.1:%d", password, port), error,
                            sizeof error))
        FAIL("%s", error);
    struct redis_connection *connection =
        redis_connection_open(&(struct redis_url){.count = 1, .servers = {target}}, timeout_ms, NULL);
    CHECK(connection != NULL);
    return connection;
}

static enum redis_status call(struct redis_connection *connection, struct redis_answer *answer, const char *a,
                              const char *b, const char *c) {
    const char *argv[] = {a, b, c};
    return redis_connection_call(connection, b ? c ? 3 : 2 : 1, argv, answer, NULL);
}

static void check_works(struct redis_connection *connection) {
    struct redis_answer answer;
    CHECK_INT(call(connection, &answer, "ECHO", "here", NULL), REDIS_ANSWERED);
    CHECK_STR(answer.text, "here");
}

static void answers(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", TIMEOUT_MS);
    struct redis_answer answer;
    CHECK_INT(call(connection, &answer, "GET", "nothing", NULL), REDIS_ANSWERED);
    CHECK_INT(answer.type, REDIS_NIL);
    CHECK_INT(call(connection, &answer, "SET", "k", "text"), REDIS_ANSWERED);
    CHECK_INT(answer.type, REDIS_STRING);
    CHECK_STR(answer.text, "OK");
    CHECK_INT(call(connection, &answer, "GET", "k", NULL), REDIS_ANSWERED);
    CHECK_STR(answer.text, "text");
    CHECK_INT(call(connection, &answer, "INCRBY", "n", "41"), REDIS_ANSWERED);
    CHECK_INT(answer.type, REDIS_INTEGER);
    CHECK_INT(answer.integer, 41);
    CHECK_INT(call(connection, &answer, "INCR", "k", NULL), REDIS_ANSWERED);
    CHECK_INT(answer.type, REDIS_ERROR);
    CHECK_HAS(answer.text, "not an integer");
    CHECK_INT(call(connection, &answer, "EVAL", "return {7,'x',-3,9,9}", "0"), REDIS_ANSWERED);
    CHECK_INT(answer.type, REDIS_ARRAY);
    CHECK_INT(call(connection, &answer, "EVAL", "return string.rep('y', 100000)", "0"), REDIS_ANSWERED);
    CHECK_INT(strlen(answer.text), REDIS_ANSWER_TEXT_SIZE - 1);
    char *large = harness_alloc(1000001);
    memset(large, 'z', 1000000);
    CHECK_INT(call(connection, &answer, "SET", "large", large), REDIS_ANSWERED);
    CHECK_INT(redis_integer(&redis, "STRLEN", "large", NULL), 1000000);
    redis_connection_close(connection);
    redis_connection_close(NULL);
}

static bool works_again(void *connection) {
    struct redis_answer answer;
    return call(connection, &answer, "PING", NULL, NULL) == REDIS_ANSWERED;
}

static void not_there(void) {
    struct redis_server redis;
    struct redis_answer answer;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", TIMEOUT_MS);
    redis_stop(&redis);
    CHECK_INT(call(connection, &answer, "PING", NULL, NULL), REDIS_UNAVAILABLE);
    redis_restart(&redis);
    CHECK(harness_wait(works_again, connection, 5000));
    redis_connection_close(connection);
}

/* The command was carried out, its reply is lost: unknown, and the next call has a new connection. */
static void lost_reply(void) {
    struct redis_server redis;
    struct redis_answer answer;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    struct redis_connection *connection = open_connection(proxy_port(proxy), "", TIMEOUT_MS);
    for (int cut = 0; cut < 4; cut++) {
        CHECK(harness_wait(works_again, connection, 5000));
        proxy_set(proxy, PROXY_CUT, cut, "INCR");
        CHECK_INT(call(connection, &answer, "INCR", "n", NULL), REDIS_UNKNOWN);
        CHECK_INT(redis_integer(&redis, "GET", "n", NULL), cut + 1);
    }
    redis_connection_close(connection);
    proxy_stop(proxy);
}

static void slow_reply(void) {
    struct redis_server redis;
    struct redis_answer answer;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", 50);
    check_works(connection);
    redis_pause(&redis);
    int64_t began_ms = harness_now_ms();
    CHECK_INT(call(connection, &answer, "INCR", "n", NULL), REDIS_UNKNOWN);
    CHECK(harness_now_ms() - began_ms >= 49);
    redis_resume(&redis);
    CHECK(harness_wait(works_again, connection, 5000));
    CHECK_INT(redis_integer(&redis, "GET", "n", NULL), 1);
    redis_connection_close(connection);
}

/* All it takes to connect is within one time-out, however many steps there are. And where that leaves too
 * little of it nothing is sent, but the connection is there for the next. */
static void slow_to_connect(void) {
    enum { SLOW_MS = 1000, STEP_MS = 750 };
    struct redis_server redis;
    struct redis_answer answer;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    struct redis_connection *open = open_connection(proxy_port(proxy), "", SLOW_MS);
    proxy_set(proxy, PROXY_DELAY, STEP_MS, NULL);
    CHECK_INT(call(open, &answer, "INCR", "n", NULL), REDIS_UNAVAILABLE);
    CHECK_INT(call(open, &answer, "INCR", "n", NULL), REDIS_ANSWERED);
    CHECK_INT(answer.integer, 1);
    redis_command(&redis, "CONFIG", "SET", "requirepass", "sesame", NULL);
    struct redis_connection *closed = open_connection(proxy_port(proxy), ":sesame@", SLOW_MS);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(call(closed, &answer, "INCR", "n", NULL), REDIS_UNAVAILABLE);
        harness_pause_ms(110); /* until it connects again */
    }
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    CHECK(harness_wait(works_again, closed, PATIENCE_MS));
    redis_connection_close(open);
    redis_connection_close(closed);
    proxy_stop(proxy);
}

/* More answers than commands: the connection is closed, nothing else. */
static void answers_to_nothing(void) {
    struct redis_server redis;
    struct redis_answer answer;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", TIMEOUT_MS);
    CHECK_INT(call(connection, &answer, "MONITOR", NULL, NULL), REDIS_ANSWERED);
    for (int i = 0; i < 5; i++)
        redis_command(&redis, "PING", NULL);
    for (int i = 0; i < 5; i++)
        call(connection, &answer, "PING", NULL, NULL);
    check_works(connection);
    redis_connection_close(connection);
}

struct command {
    pthread_t thread;
    struct redis_connection *connection;
    const char *argv[3];
    enum redis_status status;
    struct redis_answer answer;
};

static void *carry_out(void *arg) {
    struct command *command = arg;
    command->status =
        call(command->connection, &command->answer, command->argv[0], command->argv[1], command->argv[2]);
    return NULL;
}

static void start(struct command *command, struct redis_connection *connection, const char *a, const char *b,
                  const char *c) {
    *command = (struct command){.connection = connection, .argv = {a, b, c}};
    CHECK_INT(pthread_create(&command->thread, NULL, carry_out, command), 0);
    harness_pause_ms(20);
}

/* The leader gets the first answer and goes; the other thread reads on. */
static void the_next_reads(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", TIMEOUT_MS);
    struct command first, second;
    start(&first, connection, "BLPOP", "a", "0.1");
    start(&second, connection, "BLPOP", "b", "0.1");
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    CHECK_INT(first.status, REDIS_ANSWERED);
    CHECK_INT(second.status, REDIS_ANSWERED);
    redis_connection_close(connection);
}

/* A command that was not written to its end was not carried out, and will not be. */
static void not_written(void) {
    enum { LARGE = 40 * 1000 * 1000 };
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", 1500);
    check_works(connection);
    char *large = harness_alloc(LARGE + 1);
    memset(large, 'z', LARGE);
    redis_pause(&redis);
    struct command first, second;
    start(&first, connection, "SET", "large", large);
    harness_pause_ms(500); /* it is being written now, and stuck */
    start(&second, connection, "SET", "small", "z");
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    redis_resume(&redis);
    /* If the reader gave up before the writer, it is unknown whether what was being written was carried out.
     */
    CHECK(first.status == REDIS_UNAVAILABLE || first.status == REDIS_UNKNOWN);
    CHECK_INT(second.status, REDIS_UNAVAILABLE);
    CHECK(harness_wait(works_again, connection, 5000));
    CHECK_INT(redis_integer(&redis, "EXISTS", "large", "small", NULL), 0);
    redis_connection_close(connection);
}

struct caller {
    pthread_t thread;
    struct redis_connection *connection;
    int number, calls;
};

static void *echo(void *arg) {
    struct caller *caller = arg;
    for (int i = 0; i < caller->calls; i++) {
        char text[32];
        struct redis_answer answer;
        snprintf(text, sizeof text, "%d of %d", i, caller->number);
        CHECK_INT(call(caller->connection, &answer, "ECHO", text, NULL), REDIS_ANSWERED);
        CHECK_STR(answer.text, text);
    }
    return NULL;
}

/* Each hears its own answers. */
static void many_threads(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", 20000);
    struct caller callers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.connection = connection, .number = i, .calls = 1000};
        CHECK_INT(pthread_create(&callers[i].thread, NULL, echo, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    CHECK(!harness_failed());
    /* One connection, and the one that asks. */
    CHECK_HAS(redis_command(&redis, "INFO", "clients", NULL), "connected_clients:2\r");
    redis_connection_close(connection);
}

/* ---- cancelled ---- */

struct leaver {
    pthread_t thread;
    struct redis_connection *connection;
    struct cancel *cancel;
    enum redis_status status;
    long counted; /* not unavailable, so it may be there */
    long acknowledged;
    _Atomic bool *stop;
};

static enum redis_status count_until(struct leaver *leaver) {
    const char *argv[] = {"INCR", "n"};
    struct redis_answer answer;
    leaver->status = redis_connection_call(leaver->connection, 2, argv, &answer, leaver->cancel);
    leaver->counted += leaver->status != REDIS_UNAVAILABLE;
    leaver->acknowledged += leaver->status == REDIS_ANSWERED;
    return leaver->status;
}

static void *count_once(void *leaver) {
    count_until(leaver);
    return NULL;
}

/* They leave a store that hangs; what they have sent is done when it goes on, and its answers are nobody's.
 */
static void cancelled(void) {
    struct redis_server redis;
    struct redis_answer answer;
    redis_start(&redis, NULL);
    struct redis_connection *connection = open_connection(redis.port, "", PATIENCE_MS);
    struct leaver leavers[THREADS];
    check_works(connection);
    for (int others = 0; others < 2; others++) {
        struct command other;
        struct cancel cancel;
        cancel_init(&cancel);
        redis_pause(&redis);
        if (others)
            start(&other, connection, "ECHO", "other", NULL);
        for (int i = 0; i < THREADS; i++) {
            leavers[i] = (struct leaver){.connection = connection, .cancel = &cancel};
            CHECK_INT(pthread_create(&leavers[i].thread, NULL, count_once, &leavers[i]), 0);
        }
        harness_pause_ms(100);
        int64_t began_ms = harness_now_ms();
        cancel_call(&cancel);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(leavers[i].thread, NULL);
            CHECK_INT(leavers[i].status, REDIS_UNKNOWN);
        }
        CHECK(harness_now_ms() - began_ms < PATIENCE_MS / 2);
        redis_resume(&redis);
        if (others) {
            pthread_join(other.thread, NULL);
            CHECK_INT(other.status, REDIS_ANSWERED);
        }
        check_works(connection);
        CHECK_INT(call(connection, &answer, "GET", "n", NULL), REDIS_ANSWERED);
        CHECK_STR(answer.text, harness_format("%d", (others + 1) * THREADS));
        cancel_destroy(&cancel);
    }
    redis_connection_close(connection);
}

static void *count_and_leave(void *arg) {
    struct leaver *leaver = arg;
    while (!*leaver->stop) {
        if (count_until(leaver) != REDIS_ANSWERED)
            harness_pause_ms(1);
    }
    return NULL;
}

/* The half of a crowd leaves at once what does not come at once, while the store stands still now and then,
 * and breaks the connection as often as it can: the caller that reads for the others, one that writes and one
 * that is answered may be at any point of their work. */
static void crowd_that_leaves(void) {
    struct redis_server redis;
    redis_start(&redis, "--appendfsync", "no", NULL);
    struct redis_connection *connection = open_connection(redis.port, "", 200),
                            *killer = open_connection(redis.port, "", 2000);
    struct cancel cancel;
    struct leaver leavers[THREADS];
    _Atomic bool stop = false;
    long acknowledged = 0, counted = 0;
    cancel_init(&cancel);
    cancel_call(&cancel);
    slow_posts = true;
    for (int i = 0; i < THREADS; i++) {
        leavers[i] =
            (struct leaver){.connection = connection, .cancel = i % 2 ? &cancel : NULL, .stop = &stop};
        CHECK_INT(pthread_create(&leavers[i].thread, NULL, count_and_leave, &leavers[i]), 0);
    }
    uint64_t random = harness_seed();
    for (int64_t until_ms = harness_now_ms() + 2500; harness_now_ms() < until_ms;) {
        struct redis_answer answer;
        const char *kill[] = {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"};
        for (int kills = (int)(harness_random(&random) % 300); kills > 0; kills--)
            redis_connection_call(killer, 6, kill, &answer, NULL);
        redis_pause(&redis);
        harness_pause_ms((int)(harness_random(&random) % 60));
        redis_resume(&redis);
        harness_pause_ms((int)(harness_random(&random) % 20));
    }
    stop = true;
    slow_posts = false;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(leavers[i].thread, NULL);
        acknowledged += leavers[i].acknowledged;
        counted += leavers[i].counted;
    }
    CHECK(harness_wait(works_again, connection, 5000));
    long there = (long)redis_integer(&redis, "GET", "n", NULL);
    if (acknowledged == 0 || there < acknowledged || there > counted)
        FAIL("%ld acknowledged, %ld at most, and the store has %ld", acknowledged, counted, there);
    cancel_destroy(&cancel);
    redis_connection_close(connection);
    redis_connection_close(killer);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("answers", answers);
    harness_run("not there, then there", not_there);
    harness_run("a lost reply", lost_reply);
    harness_run("a slow reply", slow_reply);
    harness_run("slow to connect", slow_to_connect);
    harness_run("answers to nothing", answers_to_nothing);
    harness_run("the next reads", the_next_reads);
    harness_run("what was not written", not_written);
    harness_run("many threads", many_threads);
    harness_run("cancelled", cancelled);
    harness_run("a crowd that leaves", crowd_that_leaves);
    return harness_finish();
}
