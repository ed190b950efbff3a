/* Networks that are cut, with etcd in them; and that nothing of them is left. */
#include "test/harness.h"

#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 20000 };

struct expected {
    const struct etcd_server *etcd;
    const char *value;
};

static bool is_put(void *arg) {
    struct expected *put = arg;
    const char *said = etcd_command(put->etcd, "put", "a", put->value, "--command-timeout", "1s", NULL);
    return strcmp(said, "OK") == 0;
}

/* Again and again: what comes to a leader that is just voted out gets no answer. */
static void put(const struct etcd_server *etcd, const char *value) {
    struct expected expected = {etcd, value};
    if (!harness_wait(is_put, &expected, WAIT_MS))
        FAIL("%s is not written by way of %s", value, etcd->host);
}

static void put_fails(const struct etcd_server *etcd) {
    CHECK_HAS(etcd_command(etcd, "put", "a", "lost", "--command-timeout", "700ms", NULL), "Error: ");
}

/* What this member holds, whatever the others may have written since. */
static const char *get_own(const struct etcd_server *etcd) {
    return etcd_command(etcd, "get", "a", "--print-value-only", "--consistency", "s", NULL);
}

static bool has_caught_up(void *arg) {
    struct expected *expected = arg;
    return strcmp(get_own(expected->etcd), expected->value) == 0;
}

static void catches_up(const struct etcd_server *etcd, const char *value) {
    struct expected expected = {etcd, value};
    if (!harness_wait(has_caught_up, &expected, WAIT_MS))
        FAIL("a is \"%s\", not \"%s\"", get_own(etcd), value);
}

/* ---- what is left of a network ---- */

/* In a process of its own: a network with servers in it, which ends by a failed test or a SIGKILL. */
static void fall(void) {
    struct etcd_server members[3];
    struct stat its;
    etcd_start_network(members, 3, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(stat(members[i].net.door, &its), 0);
        printf("server %d in %lu\n", (int)members[i].proc.pid, (unsigned long)its.st_ino);
    }
    CHECK_INT(stat("/proc/self/ns/net", &its), 0);
    printf("server %d in %lu\n", (int)getpid(), (unsigned long)its.st_ino);
    fflush(stdout);
    const char *how = getenv("NET_VICTIM");
    if (how && strcmp(how, "killed") == 0)
        raise(SIGKILL);
    FAIL("as it should");
}

static bool has_ended(void *arg) {
    char state = 'Z';
    FILE *file = fopen(harness_format("/proc/%s/stat", (const char *)arg), "re");
    if (!file)
        return true;
    bool read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return !read || state == 'Z';
}

/* lsns fails if a process ends while lsns reads about it: any process, also one of another test. */
static bool lists_namespaces(void *arg) {
    struct proc lsns;
    int status;
    static int number;
    const char *argv[] = {"lsns", "-n", "-t", "net", "-o", "NS", NULL};
    proc_spawn(&lsns, argv, NULL, harness_format("%s/lsns-%d.log", harness_dir(), ++number));
    CHECK(proc_wait(&lsns, WAIT_MS, &status));
    *(const char **)arg = proc_output(&lsns);
    return status == 0;
}

static const char *namespaces(void) {
    const char *list = NULL;
    CHECK(harness_wait(lists_namespaces, &list, WAIT_MS));
    return list;
}

static void leaves_nothing(const char *how, int expected_status) {
    struct proc victim;
    int status, servers = 0;
    const char *argv[] = {"/proc/self/exe", NULL};
    const char *env[] = {harness_format("NET_VICTIM=%s", how), harness_format("TMPDIR=%s", harness_dir()),
                         NULL};
    proc_spawn(&victim, argv, env, harness_format("%s/victim-%s.log", harness_dir(), how));
    CHECK(proc_wait(&victim, WAIT_MS, &status));
    CHECK_INT(status, expected_status);
    const char *at = proc_output(&victim);
    for (; (at = strstr(at, "server ")); servers++) {
        char pid[16], name[32];
        CHECK_INT(sscanf(at, "server %15[0-9] in %31[0-9]", pid, name), 2);
        if (!harness_wait(has_ended, pid, WAIT_MS))
            FAIL("process %s still runs", pid);
        if (strstr(namespaces(), name))
            FAIL("namespace %s is still there", name);
        at++;
    }
    CHECK_INT(servers, 4);
    CHECK_INT(if_nametoindex("clients") + if_nametoindex("c1"), 0);
}

static void a_network_leaves_nothing(void) {
    leaves_nothing("fails", 1 << 8);
    leaves_nothing("killed", SIGKILL);
}

static bool only_bridges(void *arg) {
    struct if_nameindex *links = if_nameindex();
    int *count = arg;
    *count = 0;
    while (links[*count].if_name)
        (*count)++;
    if_freenameindex(links);
    return *count == 3; /* and lo */
}

static void links_end_with_their_test(void) {
    int count;
    if (!harness_wait(only_bridges, &count, WAIT_MS))
        FAIL("%d links, not 3", count);
}

/* ---- what is cut ---- */

/* Neither refused nor closed: time goes by and nothing comes, on old connections and new ones. */
static void nothing_comes_through(const struct etcd_server *etcd, struct web_conn *old) {
    struct web_conn conn;
    struct web_response response;
    old->timeout_ms = 100;
    CHECK_INT(web_request(old, "GET", "/version", NULL, NULL, &response), WEB_TIMEOUT);
    errno = 0;
    CHECK(!web_open_at(&conn, etcd->host, etcd->port, 100));
    CHECK_INT(errno, EINPROGRESS);
}

static struct etcd_server members[3];

/* Its connections are only slow. */
static void cut_leader_off(void) {
    struct web_conn old;
    struct web_response response;
    int first = etcd_leader(members, 3);
    put(&members[first], "1");
    CHECK(web_open_at(&old, members[first].host, members[first].port, 1000));
    net_cut(&members[first].net);
    nothing_comes_through(&members[first], &old);
    int second = etcd_leader(members, 3);
    CHECK(second != first);
    put(&members[second], "2");
    put_fails(&members[first]);
    net_join(&members[first].net);
    catches_up(&members[first], "2");
    old.timeout_ms = 10000;
    CHECK_INT(web_read_response(&old, &response), WEB_OK);
    CHECK_INT(response.status, 200);
    web_close(&old);
}

/* It answers its clients, but cannot write, and does not know what the others wrote. */
static void cut_leader_off_from_its_peers(void) {
    int first = etcd_leader(members, 3);
    put(&members[first], "3");
    net_cut_peers(&members[first].net);
    put_fails(&members[first]);
    int second = etcd_leader(members, 3);
    CHECK(second != first);
    put(&members[second], "4");
    CHECK_STR(get_own(&members[first]), "3");
    CHECK_HAS(etcd_command(&members[first], "get", "a", "--command-timeout", "700ms", NULL), "Error: ");
    net_join(&members[first].net);
    catches_up(&members[first], "4");
}

/* One follower is missed by none; without the other there is no majority; then all are cut off. */
static void cut_followers_off(void) {
    int leader = etcd_leader(members, 3);
    net_cut(&members[(leader + 1) % 3].net);
    put(&members[leader], "5");
    CHECK_INT(etcd_leader(members, 3), leader);
    net_cut_peers(&members[(leader + 2) % 3].net);
    put_fails(&members[leader]);
    net_cut(&members[leader].net);
    for (int i = 0; i < 3; i++)
        net_join(&members[i].net);
    put(&members[etcd_leader(members, 3)], "6");
    for (int i = 0; i < 3; i++)
        catches_up(&members[i], "6");
}

/* A process that is started again, or a new member, is where the old one was. */
static void restart_and_replace(void) {
    int first = etcd_leader(members, 3);
    etcd_kill(&members[first]);
    etcd_restart(&members[first]);
    catches_up(&members[first], "6");
    etcd_replace(members, 3, first);
    catches_up(&members[first], "6");
    net_cut(&members[first].net);
    put_fails(&members[first]);
    put(&members[etcd_leader(members, 3)], "7");
    net_join(&members[first].net);
    catches_up(&members[first], "7");
}

static void members_are_cut_off(void) {
    etcd_start_network(members, 3, NULL);
    cut_leader_off();
    cut_leader_off_from_its_peers();
    cut_followers_off();
    restart_and_replace();
}

int main(int argc, char **argv) {
    bool victim = getenv("NET_VICTIM") != NULL;
    harness_begin(argc, argv);
    if (victim) {
        net_begin();
        harness_run("falls", fall);
        return harness_finish();
    }
    harness_run("a network leaves nothing", a_network_leaves_nothing);
    net_begin();
    harness_run("members of etcd are cut off, and back again", members_are_cut_off);
    harness_run("links end with their test", links_end_with_their_test);
    return harness_finish();
}
