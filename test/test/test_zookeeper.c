/* The private ZooKeepers of the harness, and deploy/zookeeper.sh by hand. */
#include <signal.h>
#include <string.h>

#include "test/harness.h"

enum { PATIENCE_MS = 30000 };

static void alone(void) {
    struct zookeeper_server server;
    zookeeper_start(&server);
    CHECK_HAS(zookeeper_ask(&server, "srvr"), "Mode: standalone");
    CHECK_STR(zookeeper_list(&server, "/"), "zookeeper");
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

static void three(void) {
    struct zookeeper_server servers[3];
    zookeeper_start_ensemble(servers, 3);
    int leader = zookeeper_leader(servers, 3);
    zookeeper_kill(&servers[leader]);
    CHECK_STR(zookeeper_list(&servers[(leader + 1) % 3], "/"), "zookeeper"); /* it has found a new one */
    CHECK(zookeeper_leader(servers, 3) != leader);
    zookeeper_restart(&servers[leader]);
}

static bool all_serve(void *arg) {
    struct zookeeper_server *servers = arg;
    for (int i = 0; i < 3; i++) {
        if (!strstr(zookeeper_ask(&servers[i], "srvr"), "Mode: "))
            return false;
    }
    return true;
}

static bool none_is_there(void *arg) {
    struct zookeeper_server *servers = arg;
    struct web_conn conn;
    for (int i = 0; i < 3; i++) {
        bool there = web_open(&conn, servers[i].port);
        web_close(&conn);
        if (there)
            return false;
    }
    return true;
}

/* Nine ports in a row, which are nobody's. */
static int find_ports(void) {
    for (int first = 0, count = 0;;) {
        int port = harness_free_port();
        count = port == first + count ? count + 1 : 1;
        if (count == 1)
            first = port;
        if (count == 9)
            return first;
    }
}

static void by_hand(void) {
    struct zookeeper_server servers[3];
    struct proc proc;
    int first = find_ports(), status;
    const char *argv[] = {"deploy/zookeeper.sh", harness_format("%s/three", harness_dir()),
                          harness_format("%d", first), NULL};
    for (int i = 0; i < 3; i++)
        servers[i].port = first + i;
    proc_spawn(&proc, argv, NULL, harness_format("%s/three.log", harness_dir()));
    CHECK(harness_wait(all_serve, servers, PATIENCE_MS));
    CHECK_HAS(proc_output(&proc), harness_format("zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d\n",
                                                 first, first + 1, first + 2));
    zookeeper_leader(servers, 3);
    proc_kill(&proc, SIGTERM);
    CHECK(proc_wait(&proc, PATIENCE_MS, &status));
    CHECK(harness_wait(none_is_there, servers, PATIENCE_MS));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("one ZooKeeper", alone);
    harness_run("three ZooKeepers", three);
    harness_run("deploy/zookeeper.sh", by_hand);
    return harness_finish();
}
