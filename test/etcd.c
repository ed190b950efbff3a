/* etcd under test, alone or as a cluster; and certificates for it. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/harness.h"

enum { STOP_MS = 30000, COMMAND_MS = 30000, OPENSSL_MS = 20000, ARGS_MAX = 80 };

/* ---- starting ---- */

static void start(struct etcd_server *members, int count, bool network, bool tls, const char **options) {
    for (int i = 0; i < count; i++) {
        members[i] = (struct etcd_server){.options = options, .tls = tls};
        if (network)
            net_add(&members[i].net);
        MUST(etcd_server_prepare(&members[i], harness_path("etcd")));
    }
    const char *error = etcd_servers_start(members, count);
    for (int i = 0; i < count; i++)
        harness_own(&members[i].proc);
    MUST(error);
}

void etcd_start(struct etcd_server *etcd, ...) {
    va_list args;
    va_start(args, etcd);
    start(etcd, 1, false, false, harness_list(args));
    va_end(args);
}

void etcd_start_tls(struct etcd_server *etcd, ...) {
    va_list args;
    va_start(args, etcd);
    start(etcd, 1, false, true, harness_list(args));
    va_end(args);
}

void etcd_start_cluster(struct etcd_server *members, int count, ...) {
    va_list args;
    va_start(args, count);
    start(members, count, false, false, harness_list(args));
    va_end(args);
}

void etcd_start_network(struct etcd_server *members, int count, ...) {
    va_list args;
    va_start(args, count);
    start(members, count, true, false, harness_list(args));
    va_end(args);
}

int etcd_leader(struct etcd_server *members, int count) {
    int leader;
    MUST(etcd_servers_leader(members, count, &leader));
    return leader;
}

/* ---- ending, and starting again ---- */

static void end(struct etcd_server *etcd, int signal) {
    MUST(proc_end(&etcd->proc, signal, STOP_MS));
    etcd->paused = false;
}

void etcd_stop(struct etcd_server *etcd) {
    end(etcd, SIGTERM);
}

void etcd_kill(struct etcd_server *etcd) {
    end(etcd, SIGKILL);
}

void etcd_restart(struct etcd_server *etcd) {
    etcd_restart_all(etcd, 1);
}

void etcd_restart_all(struct etcd_server *members, int count) {
    MUST(etcd_servers_restart(members, count));
}

void etcd_wipe(struct etcd_server *etcd) {
    MUST(local_server_wipe(&etcd->proc, etcd->dir));
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
    const char *url = harness_format("http://%s:%d", addition->added->peer_host, addition->added->peer_port);
    addition->said =
        etcd_command(addition->by, "member", "add", addition->added->name, "--peer-urls", url, NULL);
    return strstr(addition->said, "added to cluster");
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
    if (!harness_wait(add, &addition, ETCD_SERVER_START_MS))
        FAIL("member %s is not added: %s", etcd->name, addition.said);
    const char *error = etcd_server_join(members, count, which);
    harness_own(&etcd->proc);
    MUST(error);
}

/* ---- commands ---- */

const char *etcd_command(const struct etcd_server *etcd, ...) {
    const char *argv[ARGS_MAX] = {"etcdctl", "--endpoints", harness_format("%s:%d", etcd->host, etcd->port)};
    const char *env[] = {"ETCDCTL_API=3", NULL};
    const char *log = harness_format("%s.log", harness_path("etcdctl"));
    struct proc proc;
    int status;
    va_list args;
    va_start(args, etcd);
    MUST(local_server_add_options(argv, ARGS_MAX, (const char *const *)harness_list(args)));
    va_end(args);
    proc_spawn(&proc, argv, env, log);
    if (!proc_wait(&proc, COMMAND_MS, &status))
        FAIL("etcdctl %s still runs", argv[3]);
    char *text = proc_output(&proc);
    unlink(log); /* a failed test prints the ends of logs, and there are many of these */
    size_t length = strlen(text);
    if (length && text[length - 1] == '\n')
        text[length - 1] = '\0';
    return text;
}

/* ---- certificates of our own making, by openssl ---- */

static void run_openssl(const char *script) {
    struct proc proc;
    int status;
    const char *argv[] = {"sh", "-ec", harness_format("cd '%s'\n%s", harness_dir(), script), NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/openssl.log", harness_dir()));
    CHECK(proc_wait(&proc, OPENSSL_MS, &status));
    CHECK_INT(status, 0);
}

#define NEW_KEY " -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=%1$s' -keyout %1$s.key "

void certificate_authority(const char *name) {
    run_openssl(harness_format("openssl req -x509 -days 2" NEW_KEY "-out %1$s.pem", name));
}

void certificate_make(const char *name, const char *authority, int days, const char *alternative_names,
                      const char *use) {
    run_openssl(harness_format(
        "openssl req" NEW_KEY "-out %1$s.csr\n"
        "printf 'subjectAltName=%4$s\\nextendedKeyUsage=%5$s\\n' >%1$s.ext\n"
        "openssl x509 -req -in %1$s.csr -CA %2$s.pem -CAkey %2$s.key -CAcreateserial -days %3$d"
        " -extfile %1$s.ext -out %1$s.pem",
        name, authority, days, alternative_names, use));
}

const char *certificate_file(const char *name, const char *kind) {
    return harness_format("%s/%s.%s", harness_dir(), name, kind);
}
