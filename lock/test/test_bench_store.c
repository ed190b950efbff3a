/* Counting a Redis's commands, with a real one: neither one too many nor one too few. */
#include <stdio.h>
#include <string.h>

#include "lock/bench/store.h"
#include "test/harness.h"

static const char script[] =
    "redis.call('SET', 'a', 1) redis.call('INCR', 'a') return redis.call('PUBLISH', 'c', 'x')";

static struct bench_store *open_store(const char *url) {
    char error[256] = "untouched";
    struct bench_store *store = bench_store_open(url, error, sizeof error);
    if (!store)
        FAIL("%s: %s", url, error);
    CHECK_STR(error, "");
    return store;
}

static uint64_t commands_of(struct bench_store *store) {
    uint64_t commands = 0;
    CHECK(bench_store_commands(store, &commands));
    return commands;
}

static void carried_out(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct bench_store *store = open_store(harness_format("redis://127.0.0.1:%d?ttl=100", redis.port));
    uint64_t before = commands_of(store);
    CHECK_INT(commands_of(store) - before, 0);
    redis_command(&redis, "GET", "a", NULL);
    CHECK_INT(commands_of(store) - before, 1);
    CHECK_STR(redis_command(&redis, "EVAL", script, "0", NULL), "0");
    redis_command(&redis, "CLIENT", "ID", NULL);
    CHECK_INT(commands_of(store) - before, 1 + 4 + 1);
    bench_store_close(store);
    bench_store_close(NULL);
}

static void sent(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct bench_store *store = open_store(harness_format("redis://127.0.0.1:%d", redis.port));
    for (int round = 0; round < 3; round++) {
        uint64_t calls = 77;
        redis_command(&redis, "GET", "before", NULL);
        CHECK(bench_store_listen(store));
        redis_command(&redis, "EVAL", script, "0", NULL);
        for (int i = 0; i < 1000; i++)
            redis_command(&redis, "GET", "lua]", NULL);
        redis_command(&redis, "PUBLISH", "c", "x", NULL);
        CHECK(bench_store_heard(store, &calls));
        redis_command(&redis, "GET", "after", NULL);
        CHECK_INT(calls, 1 + 1000 + 1);
    }
    bench_store_close(store);
    CHECK_HAS(redis_command(&redis, "INFO", "clients", NULL), "connected_clients:1\r");
}

static void several_servers(void) {
    struct redis_server a, b;
    redis_start(&a, NULL);
    redis_start(&b, NULL);
    struct bench_store *store =
        open_store(harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d?ttl=100", a.port, b.port));
    uint64_t before = commands_of(store), calls = 0;
    CHECK(bench_store_listen(store));
    redis_command(&a, "EVAL", script, "0", NULL);
    redis_command(&b, "GET", "a", NULL);
    redis_command(&b, "GET", "a", NULL);
    CHECK(bench_store_heard(store, &calls));
    CHECK_INT(calls, 3);
    /* Ours too, outside of what is measured: to each a greeting, MONITOR and two marks. */
    CHECK_INT(commands_of(store) - before, 4 + 2 + 2 * 4);
    bench_store_close(store);
}

static void refuse(const char *url, const char *says) {
    char error[256];
    CHECK(!bench_store_open(url, error, sizeof error));
    CHECK_HAS(error, says);
}

static void not_to_be_asked(void) {
    char error[256] = "untouched";
    CHECK(!bench_store_open("local:", error, sizeof error));
    CHECK_STR(error, "");
    refuse("etcd://:1", "make no sense");
    refuse(harness_format("redis://127.0.0.1:%d", harness_free_port()), "refused");
    refuse("redis://127.0.0.1:none", "want redis://");
    struct redis_server redis;
    redis_start(&redis, NULL);
    redis_command(&redis, "CONFIG", "SET", "requirepass", "sesame", NULL);
    refuse(harness_format("redis://:open@127.0.0.1:%d", redis.port), "password is refused");
    bench_store_close(open_store(harness_format("redis://:sesame@127.0.0.1:%d", redis.port)));
}

/* As etcd counts them: three requests, whoever made them. */
static void sent_to_etcd(void) {
    struct etcd_server etcd;
    uint64_t before, after;
    etcd_start(&etcd, NULL);
    struct bench_store *store = open_store(harness_format("etcd://127.0.0.1:%d?ttl=100", etcd.port));
    CHECK(bench_store_calls(store, &before));
    for (int i = 0; i < 3; i++)
        etcd_command(&etcd, "put", "a", "b", NULL);
    CHECK(bench_store_calls(store, &after));
    CHECK_INT(after - before, 3);
    CHECK(!bench_store_commands(store, &after));
    CHECK(!bench_store_listen(store));
    etcd_kill(&etcd);
    CHECK(!bench_store_calls(store, &after));
    bench_store_close(store);
}

/* What is not allowed, or no longer there, is not known; nothing breaks. */
static void not_known(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    redis_command(&redis, "ACL", "SETUSER", "me", "on", ">pass", "~*", "+@all", "-monitor", NULL);
    struct bench_store *store = open_store(harness_format("redis://me:pass@127.0.0.1:%d", redis.port));
    uint64_t number;
    CHECK(!bench_store_listen(store));
    CHECK(bench_store_commands(store, &number));
    redis_command(&redis, "ACL", "SETUSER", "me", "+monitor", NULL);
    CHECK(bench_store_listen(store));
    redis_stop(&redis);
    CHECK(!bench_store_heard(store, &number));
    CHECK(!bench_store_commands(store, &number));
    CHECK(!bench_store_listen(store));
    bench_store_close(store);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("what was carried out", carried_out);
    harness_run("what was sent", sent);
    harness_run("several servers", several_servers);
    harness_run("what was sent to etcd", sent_to_etcd);
    harness_run("who cannot be asked", not_to_be_asked);
    harness_run("what cannot be known", not_known);
    return harness_finish();
}
