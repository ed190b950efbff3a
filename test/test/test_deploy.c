/* What is run by hand: make run, and servers to try things on. Each from a copy of the scripts, so that none
 * meets the data of the user who runs the tests. */
#include "test/harness.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 60000, STOP_MS = 30000 };

static int end_of(struct proc *proc) {
    int status;
    if (!proc_wait(proc, STOP_MS, &status))
        FAIL("it still runs. It said: %s", proc_output(proc));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct saying {
    struct proc *proc;
    const char *piece;
    size_t after; /* bytes of an earlier start's output */
};

static bool said_or_ended(void *arg) {
    struct saying *saying = arg;
    return !proc_running(saying->proc) || strstr(proc_output(saying->proc) + saying->after, saying->piece);
}

static void wait_said(struct proc *proc, size_t after, const char *piece) {
    struct saying saying = {proc, piece, after};
    if (!harness_wait(said_or_ended, &saying, START_MS) || !proc_running(proc))
        FAIL("it does not say \"%s\", but: %s", piece, proc_output(proc) + after);
}

/* An etcd that something else has started. */
static struct etcd_server etcd_on(int port) {
    struct etcd_server etcd = {.port = port, .host = "127.0.0.1"};
    return etcd;
}

static bool is_nobodys(int port) {
    struct web_conn conn;
    bool open = web_open(&conn, port);
    web_close(&conn);
    return !open;
}

/* `count` of them, one after the other. */
static int free_ports(int count) {
    int last = harness_free_port(), found = 1;
    while (found < count) {
        int next = harness_free_port();
        found = next == last + 1 ? found + 1 : 1;
        last = next;
    }
    return last - count + 1;
}

/* ---- make run ---- */

struct run {
    struct proc proc;
    const char *dir;
    int port;
    int etcd_port;
    struct redis_server redis; /* only to talk to */
    const char *path;          /* PATH=…; NULL: as it is */
};

static void take_ports(struct run *run) {
    run->path = NULL;
    run->port = harness_free_port();
    run->redis.port = harness_free_port();
    run->etcd_port = free_ports(2);
}

/* What a shell command says, which ends with this status. */
static const char *said_by(const char *command, int status) {
    static int number;
    struct proc proc;
    const char *argv[] = {"bash", "-c", command, NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/said-%d.log", harness_dir(), ++number));
    CHECK_INT(end_of(&proc), status);
    return proc_output(&proc);
}

/* The PATH of who is told of etcd's health in the words of etcd 3.5, whichever runs. */
static const char *path_of_etcd_35(void) {
    const char *bin = harness_format("%s/bin-etcd-3.5", harness_dir());
    said_by(harness_format("mkdir -p %s && ln -sf $(command -v curl) %s/real", bin, bin), 0);
    FILE *file = fopen(harness_format("%s/curl", bin), "we");
    CHECK(file);
    fprintf(file,
            "#!/bin/bash\nset -o pipefail\n%s/real \"$@\" | sed "
            "'s/^{\"health\":\"true\"}/{\"health\":\"true\",\"reason\":\"\"}/'\n",
            bin);
    int closed = fclose(file);
    CHECK_INT(closed, 0);
    said_by(harness_format("chmod 755 %s/curl", bin), 0);
    return harness_format("PATH=%s:%s", bin, getenv("PATH"));
}

/* Starts deploy/run.sh once more, with other flags. */
static void spawn_again(struct run *run, const char *const flags[3]) {
    static int number;
    char build[4096];
    CHECK(realpath(harness_build(), build));
    const char *argv[] = {harness_format("%s/deploy/run.sh", run->dir), flags[0], flags[1], flags[2], NULL};
    const char *env[] = {harness_format("SECKILL_BUILD=%s", build),
                         harness_format("SECKILL_LISTEN=127.0.0.1:%d", run->port),
                         harness_format("SECKILL_REDIS_PORT=%d", run->redis.port),
                         harness_format("SECKILL_ETCD_PORT=%d", run->etcd_port),
                         run->path,
                         NULL};
    proc_spawn(&run->proc, argv, env, harness_format("%s-%d.log", run->dir, ++number));
}

/* Starts deploy/run.sh with up to three flags, in a directory of its own. */
static void spawn_run(struct run *run, const char *const flags[3]) {
    static int number;
    run->dir = harness_format("%s/run-%d", harness_dir(), ++number);
    said_by(harness_format("mkdir %s && cp -r deploy %s", run->dir, run->dir), 0);
    spawn_again(run, flags);
}

static int buy(const struct run *run, const char *key) {
    return web_call(run->port, "POST", "/v1/purchases", harness_format("Idempotency-Key: %s\r\n", key),
                    "{\"item\":\"demo\",\"user\":\"alice\",\"quantity\":1}", NULL);
}

static void end_run(struct run *run, int signal, size_t after) {
    proc_kill(&run->proc, signal);
    CHECK_INT(end_of(&run->proc), 0);
    CHECK_HAS(proc_output(&run->proc) + after, "Ending: draining seckilld, then etcd and Redis.");
    CHECK(is_nobodys(run->port));
    CHECK(is_nobodys(run->redis.port));
    CHECK(is_nobodys(run->etcd_port));
    CHECK(is_nobodys(run->etcd_port + 1));
}

static void make_run_serves_and_keeps(void) {
    struct run run;
    take_ports(&run);
    run.path = path_of_etcd_35();
    spawn_run(&run, (const char *const[3]){NULL});
    wait_said(&run.proc, 0, "On sale: demo, 100 left");
    CHECK_INT(buy(&run, "k-1"), 201);
    struct etcd_server etcd = etcd_on(run.etcd_port);
    CHECK_STR(etcd_command(&etcd, "put", "a", "1", NULL), "OK");
    end_run(&run, SIGINT, 0);
    size_t before = strlen(proc_output(&run.proc));
    proc_respawn(&run.proc);
    wait_said(&run.proc, before, "On sale: demo, 99 left");
    CHECK_INT(buy(&run, "k-1"), 201);
    CHECK_STR(etcd_command(&etcd, "get", "a", "--print-value-only", NULL), "1");
    end_run(&run, SIGTERM, before);
}

/* Items keep the terms of the run that made them: that is said, and there is a way to begin anew. */
static void make_run_with_other_flags(void) {
    struct run run;
    struct web_response response;
    static const char *const locked[3] = {"--lock=redis:", "--teaching", "--strategy=locked"};
    static const char *const warning = "WARNING: an earlier run has put demo demo-0";
    take_ports(&run);
    spawn_run(&run, (const char *const[3]){NULL});
    wait_said(&run.proc, 0, "/v1/items/demo/audit\n\n");
    CHECK(!strstr(proc_output(&run.proc), "WARNING"));
    const char *reset = harness_format("%s/deploy/reset.sh", run.dir);
    CHECK_HAS(said_by(reset, 1), "It still runs");
    CHECK_INT(buy(&run, "k-1"), 201);
    end_run(&run, SIGTERM, 0);
    spawn_again(&run, locked);
    wait_said(&run.proc, 0, warning);
    wait_said(&run.proc, 0, "make reset");
    CHECK_HAS(proc_output(&run.proc), "still sold by\nstrategy batch.");
    end_run(&run, SIGTERM, 0);
    CHECK_HAS(said_by(reset, 0), "begins anew");
    spawn_again(&run, locked);
    wait_said(&run.proc, 0, "On sale: demo, 100 left");
    CHECK_INT(web_call(run.port, "GET", "/v1/items/demo", NULL, NULL, &response), 200);
    CHECK_HAS(response.body, "\"strategy\":\"locked\"");
    CHECK(!strstr(proc_output(&run.proc), "WARNING"));
    CHECK_INT(buy(&run, "k-1"), 201);
    /* A Redis lock leaves the number of its last grant behind. */
    CHECK_HAS(redis_command(&run.redis, "KEYS", "lock:*", NULL), "fence");
    end_run(&run, SIGTERM, 0);
}

static void close_it(void *fd) {
    close(*(int *)fd);
}

/* Somebody else listens there, until the test ends. */
static void occupy(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int *fd = harness_alloc(sizeof *fd);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)); /* others have used the port */
    CHECK(bind(*fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(*fd, 1) == 0);
    harness_defer(close_it, fd);
}

/* Whose port it is shows in what make run says. etcd has two. */
static void make_run_wants_its_ports(void) {
    static const char *const whose[] = {"", " (for Redis)", " (for etcd)", " (for etcd)"};
    for (int i = 0; i < 4; i++) {
        struct run run;
        take_ports(&run);
        int port = i == 0 ? run.port : i == 1 ? run.redis.port : run.etcd_port + (i == 3);
        occupy(port);
        spawn_run(&run, (const char *const[3]){NULL});
        CHECK_INT(end_of(&run.proc), 1);
        CHECK_HAS(proc_output(&run.proc), harness_format("Port %d%s is taken", port, whose[i]));
    }
    struct run run;
    take_ports(&run);
    spawn_run(&run, (const char *const[3]){"--no-such-flag"});
    CHECK_INT(end_of(&run.proc), 1);
    CHECK_HAS(proc_output(&run.proc), "--no-such-flag: no such flag");
}

/* ---- what is installed ---- */

/* What deploy/deps.sh says where nothing is installed and nothing can be: `programs` is all that PATH has. */
static const char *deps_of(const char *sets, const char *programs) {
    static int number;
    const char *bin = harness_format("%s/bin-%d", harness_dir(), ++number);
    const char *script =
        harness_format("mkdir %s && cd %s && for program in %s; do printf '#!/bin/bash\\n"
                       "[ $0 != %s/id ] || echo 1000\\nexit 1\\n' >$program && "
                       "chmod 755 $program || exit; done; cd %s && PATH=%s deploy/deps.sh %s",
                       bin, bin, programs, bin, "\"$OLDPWD\"", bin, sets);
    return said_by(script, 1);
}

static void running_installs_no_java(void) {
    static const char *const runs[] = {"apt-get dpkg-query id", ""};
    for (int i = 0; i < 2; i++) {
        const char *to_run = deps_of("build run", runs[i]), *to_test = deps_of("test", runs[i]);
        CHECK_HAS(to_run, "redis-server");
        CHECK_HAS(to_run, "etcd");
        CHECK(!strstr(to_run, " zookeeper") && !strstr(to_run, "java"));
        CHECK_HAS(to_test, " zookeeper");
    }
}

/* The unit finds its settings, and a later installation leaves them alone. */
static void make_install_brings_settings(void) {
    static const char *const kinds[] = {"asan", "tsan"};
    const char *san = "";
    for (int i = 0; i < 2; i++) {
        if (strstr(harness_build(), kinds[i]))
            san = kinds[i];
    }
    const char *root = harness_format("%s/root", harness_dir()), *conf = "/etc/seckill/seckilld.conf";
    const char *install = harness_format("MAKEFLAGS= make install SAN=%s DESTDIR=%s", san, root);
    said_by(install, 0);
    const char *unit =
        said_by(harness_format("cat %s/usr/local/lib/systemd/system/seckilld.service", root), 0);
    CHECK_HAS(unit, harness_format("ExecStart=/usr/local/bin/seckilld --config %s\n", conf));
    CHECK(!strstr(unit, "DIR@"));
    said_by(harness_format("cmp deploy/seckilld.conf %s%s && echo '# ours' >>%s%s", root, conf, root, conf),
            0);
    said_by(install, 0);
    CHECK_HAS(said_by(harness_format("cat %s%s", root, conf), 0), "# ours");
    said_by(harness_format("%s PREFIX=/opt/seckill", install), 0);
    CHECK_HAS(said_by(harness_format("cat %s/opt/seckill/lib/systemd/system/seckilld.service", root), 0),
              "/opt/seckill/bin/seckilld --config /opt/seckill/etc/seckill/seckilld.conf\n");
    said_by(harness_format("test -e %s/opt/seckill/etc/seckill/seckilld.conf", root), 0);
}

/* ---- scripts ---- */

/* Help helps, and does nothing else. */
static void scripts_help(void) {
    static const char *const scripts[] = {
        "deploy/cluster.sh", "deploy/deps.sh",      "deploy/etcd.sh",      "deploy/mend-aof.sh",
        "deploy/reset.sh",   "deploy/run.sh",       "deploy/sentinel.sh",  "deploy/zookeeper.sh",
        "loadtest/bench.sh", "loadtest/baskets.sh", "loadtest/masters.sh", "loadtest/oversell.sh"};
    const char *dir = harness_format("%s/help", harness_dir());
    said_by(harness_format("mkdir %s && cp -r deploy loadtest %s", dir, dir), 0);
    const char *before = said_by(harness_format("find %s | sort", dir), 0);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const char *name = strchr(scripts[i], '/') + 1, *said;
        said = said_by(harness_format("cd %s && %s --help", dir, scripts[i]), 0);
        if (strncmp(said, name, strlen(name)) != 0)
            FAIL("%s --help begins with: %s", scripts[i], said);
        CHECK_STR(said_by(harness_format("cd %s && %s -h", dir, scripts[i]), 0), said);
    }
    CHECK_STR(said_by(harness_format("find %s | sort", dir), 0), before);
}

/* Without a Redis the measurements say so, and wait for nothing. */
static void measuring_needs_a_redis(void) {
    const char *bin = harness_format("%s/no-redis", harness_dir());
    const char *path =
        harness_format("mkdir %s && for program in dirname mktemp rm tail; do ln -s $(command -v "
                       "$program) %s; done; PATH=%s exec $BASH loadtest/",
                       bin, bin, bin);
    CHECK_HAS(said_by(harness_format("%soversell.sh", path), 1), "redis-server is missing");
}

/* ---- three members of etcd ---- */

static void etcd_sh_starts_three(void) {
    struct proc proc;
    int port = free_ports(6);
    const char *argv[] = {"deploy/etcd.sh", harness_format("%s/three", harness_dir()),
                          harness_format("%d", port), NULL};
    const char *env[] = {path_of_etcd_35(), NULL};
    proc_spawn(&proc, argv, env, harness_format("%s/three.log", harness_dir()));
    wait_said(&proc, 0, "Ctrl-C ends it");
    struct etcd_server etcd[2] = {etcd_on(port), etcd_on(port + 2)};
    CHECK_STR(etcd_command(&etcd[0], "put", "a", "1", NULL), "OK");
    CHECK_STR(etcd_command(&etcd[1], "get", "a", "--print-value-only", NULL), "1");
    proc_kill(&proc, SIGINT);
    CHECK_INT(end_of(&proc), 0);
    for (int i = 0; i < 6; i++)
        CHECK(is_nobodys(port + i));
    size_t before = strlen(proc_output(&proc));
    proc_respawn(&proc);
    wait_said(&proc, before, "Ctrl-C ends it");
    CHECK_STR(etcd_command(&etcd[1], "get", "a", "--print-value-only", NULL), "1");
    proc_kill(&proc, SIGTERM);
    CHECK_INT(end_of(&proc), 0);
}

/* ---- three ZooKeepers ---- */

static bool all_serve(void *arg) {
    const struct zookeeper_server *servers = arg;
    for (int i = 0; i < 3; i++)
        if (!strstr(zookeeper_ask(&servers[i], "srvr"), "Mode: "))
            return false;
    return true;
}

static void zookeeper_sh_starts_three(void) {
    struct zookeeper_server servers[3];
    struct proc proc;
    int port = free_ports(9);
    const char *argv[] = {"deploy/zookeeper.sh", harness_format("%s/zookeepers", harness_dir()),
                          harness_format("%d", port), NULL};
    for (int i = 0; i < 3; i++)
        servers[i].port = port + i;
    proc_spawn(&proc, argv, NULL, harness_format("%s/zookeepers.log", harness_dir()));
    CHECK(harness_wait(all_serve, servers, START_MS));
    CHECK_HAS(proc_output(&proc), harness_format("zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d\n", port,
                                                 port + 1, port + 2));
    zookeeper_leader(servers, 3);
    proc_kill(&proc, SIGTERM);
    end_of(&proc);
    for (int i = 0; i < 3; i++)
        CHECK(is_nobodys(port + i));
}

/* ---- several servers of Redis ---- */

/* seckilld with the flags that the script has shown. */
static void start_shop(struct seckilld *service, struct proc *script, size_t after) {
    const char *line = strstr(proc_output(script) + after, "seckilld --redis ");
    char url[200];
    CHECK(line && sscanf(line, "seckilld --redis %199s --replicas 1", url) == 1);
    seckilld_start(service, 0, "--redis", harness_format("%s", url), "--replicas", "1", NULL);
    seckilld_wait_whole(service);
}

static void check_left(const struct seckilld *service, int left) {
    static const char *const items[] = {"a", "b", "c"}; /* with a cluster each on another master */
    struct web_response reply;
    for (int i = 0; i < 3; i++) {
        web_call(service->port, "GET", harness_format("/v1/items/%s", items[i]), NULL, NULL, &reply);
        CHECK_HAS(reply.body, harness_format("\"available\":%d,", left));
    }
}

static bool knows_ten(void *server) {
    return strstr(redis_command(server, "CLUSTER", "INFO", NULL), "cluster_known_nodes:10");
}

/* A tenth server, as docs/grow.md adds them. */
static void grow_cluster(int port) {
    struct redis_server tenth, first = {.port = port};
    redis_start(&tenth, "--cluster-enabled", "yes", "--cluster-port",
                harness_format("%d", harness_free_port()), NULL);
    CHECK_STR(redis_command(&tenth, "CLUSTER", "MEET", "127.0.0.1", harness_format("%d", port),
                            harness_format("%d", port + 9), NULL),
              "OK");
    CHECK(harness_wait(knows_ten, &first, 20000));
}

/* What was sold is there the next time; nothing runs when the script has ended. */
static void starts_and_keeps(const char *script, int ports, void (*grow)(int port)) {
    struct proc proc;
    struct seckilld service;
    int port = free_ports(ports);
    /* a name with a blank in it */
    const char *argv[] = {script, harness_format("%s/%d servers", harness_dir(), ports),
                          harness_format("%d", port), NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/%d-servers.log", harness_dir(), ports));
    wait_said(&proc, 0, "Ctrl-C ends them");
    start_shop(&service, &proc, 0);
    for (const char *item = "abc"; *item; item++)
        CHECK_INT(web_call(service.port, "PUT", harness_format("/v1/items/%c", *item),
                           "Authorization: Bearer test-token\r\n", "{\"stock\":10}", NULL),
                  201);
    for (const char *item = "abc"; *item; item++)
        CHECK_INT(web_call(service.port, "POST", "/v1/purchases", "Idempotency-Key: k\r\n",
                           harness_format("{\"item\":\"%c\",\"user\":\"ann\",\"quantity\":1}", *item), NULL),
                  201);
    check_left(&service, 9);
    if (grow)
        grow(port);
    CHECK_INT(seckilld_stop(&service), 0);
    proc_kill(&proc, SIGINT);
    CHECK_INT(end_of(&proc), 0);
    for (int i = 0; i < ports; i++)
        CHECK(is_nobodys(port + i));
    size_t before = strlen(proc_output(&proc));
    proc_respawn(&proc);
    wait_said(&proc, before, "Ctrl-C ends them");
    start_shop(&service, &proc, before);
    check_left(&service, 9);
    CHECK_INT(seckilld_stop(&service), 0);
    proc_kill(&proc, SIGTERM);
    CHECK_INT(end_of(&proc), 0);
}

/* A Redis that writes its first AOF says no to one SIGTERM, and then goes on. */
static void scripts_end_what_refuses(void) {
    said_by(
        harness_format(
            "dir=%s deploy=deploy; . deploy/servers.sh; start $dir/refuses.log bash -c 'trap \"trap - TERM\" "
            "TERM; echo ready; while :; do sleep 0.1; done'; wait_for it grep -q ready $dir/refuses.log",
            harness_dir()),
        0);
}

static void sentinel_sh(void) {
    starts_and_keeps("deploy/sentinel.sh", 6, NULL);
}

static void cluster_sh(void) {
    starts_and_keeps("deploy/cluster.sh", 18, grow_cluster);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("make run serves and keeps", make_run_serves_and_keeps);
    harness_run("make run says what is kept, and make reset removes it", make_run_with_other_flags);
    harness_run("make run wants its ports, and flags that there are", make_run_wants_its_ports);
    harness_run("running installs no Java", running_installs_no_java);
    harness_run("make install brings settings, once", make_install_brings_settings);
    harness_run("scripts help", scripts_help);
    harness_run("measuring needs a Redis", measuring_needs_a_redis);
    harness_run("etcd.sh starts three", etcd_sh_starts_three);
    harness_run("zookeeper.sh starts three", zookeeper_sh_starts_three);
    harness_run("scripts end what refuses to end", scripts_end_what_refuses);
    harness_run("sentinel.sh starts and keeps", sentinel_sh);
    harness_run("cluster.sh starts and keeps", cluster_sh);
    return harness_finish();
}
