/* Private etcd servers, alone or as a cluster. */
#include "test/harness.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { START_MS = 30000, STOP_MS = 30000, COMMAND_MS = 30000, CALL_MS = 1000, MAX_ARGS = 64 };

/* A copy that lives as long as the server: until the test ends. */
static const char **collect(va_list args) {
    const char **list = harness_alloc(MAX_ARGS * sizeof *list);
    size_t n = 0;
    for (const char *arg; (arg = va_arg(args, const char *));) {
        CHECK(n < MAX_ARGS - 1);
        list[n++] = harness_format("%s", arg);
    }
    return list;
}

static void append(const char **argv, const char *const more[]) {
    size_t n = 0;
    while (argv[n])
        n++;
    for (size_t i = 0; more[i]; i++) {
        CHECK(n < 2 * MAX_ARGS - 1);
        argv[n++] = more[i];
    }
}

/* ---- what it says over HTTP ---- */

/* NULL: no answer, or not 200. */
static const char *call(const struct etcd_server *etcd, const char *method, const char *path,
                        const char *body) {
    struct web_conn conn;
    struct web_response response;
    if (!web_open_at(&conn, etcd->host, etcd->port, CALL_MS))
        return NULL;
    enum web_result result = web_request(&conn, method, path, NULL, body, &response);
    web_close(&conn);
    return result == WEB_OK && response.status == 200 ? response.body : NULL;
}

/* The digits of "NAME":"123" in the body; NULL if it is not there, as a number of 0 is not. */
static const char *number_of(const char *body, const char *name) {
    const char *at = strstr(body, harness_format("\"%s\":\"", name));
    if (!at)
        return NULL;
    at += strlen(name) + 4;
    return harness_format("%.*s", (int)strspn(at, "0123456789"), at);
}

/* Healthy is: knows a leader, and a read got the consent of a majority. Or it has ended, and will never be.
 */
static bool healthy_or_dead(void *arg) {
    struct etcd_server *etcd = arg;
    if (!proc_running(&etcd->proc))
        return true;
    const char *body = call(etcd, "GET", "/health", NULL);
    return body && strstr(body, "\"true\"");
}

static void wait_healthy(struct etcd_server *etcd) {
    if (!harness_wait(healthy_or_dead, etcd, START_MS) || !proc_running(&etcd->proc))
        FAIL("etcd on %s:%d is not healthy", etcd->host, etcd->port);
}

struct election {
    struct etcd_server *members;
    int count;
    int leader;
};

static bool takes_part(struct etcd_server *etcd) {
    return proc_running(&etcd->proc) && !etcd->paused && !etcd->net.cut;
}

/* All who take part name the same leader, and it is one of them. */
static bool agree(void *arg) {
    struct election *election = arg;
    const char *named = NULL;
    int leader = -1;
    for (int i = 0; i < election->count; i++) {
        if (!takes_part(&election->members[i]))
            continue;
        const char *body = call(&election->members[i], "POST", "/v3/maintenance/status", "{}");
        const char *its = body ? number_of(body, "leader") : NULL;
        if (!its || (named && strcmp(its, named) != 0))
            return false;
        named = its;
        const char *own = number_of(body, "member_id");
        if (own && strcmp(own, its) == 0)
            leader = i;
    }
    election->leader = leader;
    return leader >= 0;
}

int etcd_leader(struct etcd_server *members, int count) {
    struct election election = {.members = members, .count = count};
    int part = 0;
    for (int i = 0; i < count; i++)
        part += takes_part(&members[i]);
    if (2 * part <= count)
        FAIL("%d of %d members cannot elect a leader", part, count);
    if (!harness_wait(agree, &election, START_MS))
        FAIL("%d of %d members do not agree on a leader", part, count);
    return election.leader;
}

/* ---- the server ---- */

static void prepare(struct etcd_server *etcd, bool network, const char **options) {
    *etcd = (struct etcd_server){.options = options};
    if (network)
        net_add(&etcd->net);
    etcd->port = harness_free_port();
    etcd->peer_port = harness_free_port();
    snprintf(etcd->host, sizeof etcd->host, "%s", network ? etcd->net.address : "127.0.0.1");
    snprintf(etcd->peer_host, sizeof etcd->peer_host, "%s", network ? etcd->net.peer_address : "127.0.0.1");
    snprintf(etcd->name, sizeof etcd->name, "m%d", etcd->port);
    snprintf(etcd->dir, sizeof etcd->dir, "%s/etcd-%d", harness_dir(), etcd->port);
    CHECK_INT(mkdir(etcd->dir, 0700), 0);
}

static const char *peer_url(const struct etcd_server *etcd) {
    return harness_format("http://%s:%d", etcd->peer_host, etcd->peer_port);
}

/* `state`: whether the cluster is "new" or "existing". */
static void spawn(struct etcd_server *etcd, const struct etcd_server *members, int count, const char *state) {
    const char *cluster = "";
    for (int i = 0; i < count; i++)
        cluster = harness_format("%s%s%s=%s", cluster, i ? "," : "", members[i].name, peer_url(&members[i]));
    const char *client = harness_format("%s://%s:%d", etcd->tls ? "https" : "http", etcd->host, etcd->port);
    const char *peer = peer_url(etcd);
    const char *argv[2 * MAX_ARGS] = {0};
    const char *const door[] = {"nsenter", harness_format("--net=%s", etcd->net.door), NULL};
    const char *const itself[] = {"etcd",     "--name", etcd->name,      "--data-dir", etcd->dir,
                                  "--logger", "zap",    "--log-outputs", "stderr",     NULL};
    const char *const urls[] = {"--listen-client-urls",
                                client,
                                "--advertise-client-urls",
                                client,
                                "--listen-peer-urls",
                                peer,
                                "--initial-advertise-peer-urls",
                                peer,
                                "--initial-cluster",
                                cluster,
                                "--initial-cluster-state",
                                state,
                                NULL};
    /* A member that skips most of its first election timeout, etcd's default, often deposes a leader that has
     * not found it yet. With the check a new member is not added before the others are 5 s together. */
    const char *const ways[] = {"--heartbeat-interval",
                                "30",
                                "--election-timeout",
                                "300",
                                "--initial-election-tick-advance=false",
                                "--strict-reconfig-check=false",
                                "--unsafe-no-fsync",
                                NULL};
    if (etcd->net.number)
        append(argv, door);
    append(argv, itself);
    append(argv, urls);
    append(argv, ways);
    append(argv, etcd->options);
    proc_spawn(&etcd->proc, argv, NULL, harness_format("%s.log", etcd->dir));
}

void etcd_start(struct etcd_server *etcd, ...) {
    va_list args;
    va_start(args, etcd);
    prepare(etcd, false, collect(args));
    va_end(args);
    spawn(etcd, etcd, 1, "new");
    wait_healthy(etcd);
}

static bool serves_securely(void *etcd) {
    return strstr(proc_output(&((struct etcd_server *)etcd)->proc), "serving client traffic securely");
}

void etcd_start_tls(struct etcd_server *etcd, ...) {
    va_list args;
    va_start(args, etcd);
    prepare(etcd, false, collect(args));
    va_end(args);
    etcd->tls = true;
    spawn(etcd, etcd, 1, "new");
    CHECK(harness_wait(serves_securely, etcd, START_MS));
}

static void wait_all_healthy(struct etcd_server *members, int count) {
    for (int i = 0; i < count; i++)
        wait_healthy(&members[i]);
}

/* A new member first asks the others whether it really is new. Of two that ask each other before they can
 * answer, each waits for two seconds: so one starts after the other. */
static bool serves_peers_or_dead(void *arg) {
    struct etcd_server *etcd = arg;
    return !proc_running(&etcd->proc) || strstr(proc_output(&etcd->proc), "serving peer traffic");
}

static void start_members(struct etcd_server *members, int count, bool network, const char **options) {
    for (int i = 0; i < count; i++)
        prepare(&members[i], network, options);
    for (int i = 0; i < count; i++) {
        spawn(&members[i], members, count, "new");
        if (!harness_wait(serves_peers_or_dead, &members[i], START_MS))
            FAIL("etcd on %s:%d does not start", members[i].host, members[i].port);
    }
    wait_all_healthy(members, count);
}

void etcd_start_cluster(struct etcd_server *members, int count, ...) {
    va_list args;
    va_start(args, count);
    start_members(members, count, false, collect(args));
    va_end(args);
}

void etcd_start_network(struct etcd_server *members, int count, ...) {
    va_list args;
    va_start(args, count);
    start_members(members, count, true, collect(args));
    va_end(args);
}

static void end(struct etcd_server *etcd, int signal) {
    int status;
    proc_kill(&etcd->proc, signal);
    if (!proc_wait(&etcd->proc, STOP_MS, &status))
        FAIL("etcd on %s:%d still runs", etcd->host, etcd->port);
    etcd->paused = false;
}

void etcd_stop(struct etcd_server *etcd) {
    end(etcd, SIGTERM);
}

void etcd_kill(struct etcd_server *etcd) {
    end(etcd, SIGKILL);
}

void etcd_restart(struct etcd_server *etcd) {
    proc_respawn(&etcd->proc);
    wait_healthy(etcd);
}

void etcd_restart_all(struct etcd_server *members, int count) {
    for (int i = 0; i < count; i++) {
        if (!proc_running(&members[i].proc))
            proc_respawn(&members[i].proc);
    }
    wait_all_healthy(members, count);
}

void etcd_wipe(struct etcd_server *etcd) {
    int status;
    struct proc rm;
    CHECK(!proc_running(&etcd->proc));
    const char *argv[] = {"sh", "-c", "rm -rf \"$1\" && mkdir -m 700 \"$1\"", "sh", etcd->dir, NULL};
    proc_spawn(&rm, argv, NULL, harness_format("%s.rm.log", etcd->dir));
    CHECK(proc_wait(&rm, STOP_MS, &status));
    CHECK_INT(status, 0);
}

void etcd_pause(struct etcd_server *etcd) {
    proc_kill(&etcd->proc, SIGSTOP);
    etcd->paused = true;
}

void etcd_resume(struct etcd_server *etcd) {
    proc_kill(&etcd->proc, SIGCONT);
    etcd->paused = false;
}

/* Its id in the cluster's list, lines of "ID, STATE, NAME, …". */
static const char *id_of(const char *list, const char *name) {
    const char *at = strstr(list, harness_format(", %s, ", name));
    if (!at)
        FAIL("no member %s in: %s", name, list);
    while (at > list && at[-1] != '\n')
        at--;
    return harness_format("%.*s", (int)strcspn(at, ","), at);
}

struct addition {
    const struct etcd_server *by;
    const struct etcd_server *added;
    const char *said;
};

static bool add(void *arg) {
    struct addition *addition = arg;
    addition->said = etcd_command(addition->by, "member", "add", addition->added->name, "--peer-urls",
                                  peer_url(addition->added), NULL);
    return strstr(addition->said, "added to cluster") != NULL;
}

void etcd_replace(struct etcd_server *members, int count, int which) {
    struct etcd_server *etcd = &members[which];
    if (proc_running(&etcd->proc))
        etcd_kill(etcd);
    const struct etcd_server *other = &members[etcd_leader(members, count)];
    const char *id = id_of(etcd_command(other, "member", "list", NULL), etcd->name);
    CHECK_HAS(etcd_command(other, "member", "remove", id, NULL), "removed from cluster");
    etcd_wipe(etcd);
    /* An id is made of the addresses and the second. One that was given and taken away in this second is not
     * given again. */
    struct addition addition = {.by = other, .added = etcd};
    if (!harness_wait(add, &addition, START_MS))
        FAIL("member %s is not added: %s", etcd->name, addition.said);
    spawn(etcd, members, count, "existing");
    wait_healthy(etcd);
}

/* ---- commands ---- */

const char *etcd_command(const struct etcd_server *etcd, ...) {
    static atomic_int number;
    const char *argv[2 * MAX_ARGS] = {"etcdctl", "--endpoints",
                                      harness_format("%s:%d", etcd->host, etcd->port)};
    const char *env[] = {"ETCDCTL_API=3", NULL};
    struct proc proc;
    int status;
    va_list args;
    va_start(args, etcd);
    append(argv, collect(args));
    va_end(args);
    const char *log = harness_format("%s/etcdctl-%d.log", harness_dir(), ++number);
    proc_spawn(&proc, argv, env, log);
    if (!proc_wait(&proc, COMMAND_MS, &status))
        FAIL("etcdctl %s still runs", argv[3]);
    char *text = proc_output(&proc);
    unlink(log); /* a failed test tells the ends of logs, and there are many of these */
    size_t length = strlen(text);
    if (length && text[length - 1] == '\n')
        text[length - 1] = '\0';
    return text;
}
