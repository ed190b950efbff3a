#include "test/pair.h"

#include <stdlib.h>
#include <string.h>

static bool is_followed(void *arg) {
    CHECK_STR(redis_command(arg, "SET", "probe", "1", NULL), "OK");
    const char *slave = strstr(redis_command(arg, "INFO", "replication", NULL), "state=online,offset=");
    return slave && strtoll(slave + strlen("state=online,offset="), NULL, 10) > 0;
}

void replica_wait(const struct redis_server *master) {
    struct redis_server server = *master;
    CHECK(harness_wait(is_followed, &server, 20000));
}

void replica_cut(const struct redis_server *master, const struct redis_server *replica) {
    redis_wait_copied(master, replica);
    CHECK_STR(redis_command(master, "ACL", "SETUSER", "default", "-psync", "-sync", NULL), "OK");
    CHECK_INT(redis_integer(master, "CLIENT", "KILL", "TYPE", "replica", NULL), 1);
}

void pair_start(struct pair *pair) {
    redis_start(&pair->master, "--repl-diskless-sync-delay", "0", NULL);
    pair->link = proxy_start(pair->master.port);
    pair->front = proxy_start(pair->master.port);
    pair->is_cut = false;
    redis_start(&pair->replica, "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1",
                harness_format("%d", proxy_port(pair->link)), NULL);
    replica_wait(&pair->master);
}

const char *pair_url(const struct pair *pair) {
    return harness_format("redis://127.0.0.1:%d", proxy_port(pair->front));
}

void pair_cut(struct pair *pair) {
    redis_wait_copied(&pair->master, &pair->replica);
    proxy_set(pair->link, PROXY_DELAY, 1000000, NULL);
    pair->is_cut = true;
}

void pair_mend(struct pair *pair) {
    proxy_set(pair->link, PROXY_REFUSE, 0, NULL);
    proxy_set(pair->link, PROXY_PASS, 0, NULL);
    pair->is_cut = false;
}

void pair_fail_over(struct pair *pair) {
    proxy_point(pair->front, pair->replica.port);
    CHECK_STR(redis_command(&pair->replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
    redis_kill(&pair->master);
}
