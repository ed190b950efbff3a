/* A network that can be cut: namespaces without names, which the kernel removes once nobody is in them and no
 * descriptor of them is open. So nothing is left of one, however the program ends.
 *
 *     the test program           10.77.1.254 on the bridge `clients`
 *       link c1 ─ host 1: clients 10.77.1.1, peers 10.77.2.1 ─ link p1
 *       link c2 ─ host 2: …                                             to the bridge `peers`, where
 *                                                                       the test program has no address
 *
 * A link is cut at the bridge's end. To a host's sockets that is a network that loses everything: its
 * addresses and routes stay. */
#include "test/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RUN_MS = 20000, MOST_HOSTS = 200 };

static bool begun;

/* What a killed process had not yet sent keeps its namespace until nobody took it for so many tries. */
#define FEW_TRIES "echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries || :\n"

/* A script for sh, whose $1 and $2 are `number` and `door`. */
static void run(const char *script, int number, const char *door) {
    int status;
    struct proc sh;
    const char *argv[] = {"sh", "-ec", script, "sh", harness_format("%d", number), door, NULL};
    proc_spawn(&sh, argv, NULL, harness_format("%s/net.log", harness_dir()));
    CHECK(proc_wait(&sh, RUN_MS, &status));
    if (status)
        FAIL("status %d of: %s", status, script);
}

static void write_map(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* A user who is not root becomes root in a user namespace, where that is allowed. */
static void leave_the_machine(void) {
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWNET) == 0)
        return;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        FAIL("no network namespace to be had, but by root: %s", strerror(errno));
    write_map("/proc/self/setgroups", "deny");
    write_map("/proc/self/uid_map", harness_format("0 %u 1", uid));
    write_map("/proc/self/gid_map", harness_format("0 %u 1", gid));
}

void net_begin(void) {
    if (!*harness_dir() || begun)
        return; /* it only lists its tests */
    leave_the_machine();
    /* Addresses of their own, as a bridge takes over the address of each link that joins it. */
    run(FEW_TRIES "ip -batch - <<END\n"
                  "link set lo up\n"
                  "link add name clients address 02:00:00:00:01:fe type bridge\n"
                  "link add name peers address 02:00:00:00:02:fe type bridge\n"
                  "addr add 10.77.1.254/24 dev clients\n"
                  "link set clients up\n"
                  "link set peers up\n"
                  "END",
        0, "");
    begun = true;
}

static void leave(void *arg) {
    close((int)(intptr_t)arg);
}

void net_add(struct net_host *host) {
    static int hosts;
    CHECK(begun);
    CHECK(hosts < MOST_HOSTS);
    *host = (struct net_host){.number = ++hosts};
    snprintf(host->address, sizeof host->address, "10.77.1.%d", host->number);
    snprintf(host->peer_address, sizeof host->peer_address, "10.77.2.%d", host->number);
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK(home >= 0);
    CHECK_INT(unshare(CLONE_NEWNET), 0);
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK_INT(setns(home, CLONE_NEWNET), 0);
    close(home);
    CHECK(fd >= 0);
    harness_defer(leave, (void *)(intptr_t)fd);
    snprintf(host->door, sizeof host->door, "/proc/%d/fd/%d", (int)getpid(), fd);
    /* Neighbours that are known need not be asked for: who is not answered would soon be called unreachable,
     * and that is an answer. */
    run("mac=$(printf '02:00:00:00:01:%02x' $1)\n"
        "ip -batch - <<END\n"
        "link add name c$1 type veth peer name clients address $mac netns $2\n"
        "link add name p$1 type veth peer name peers netns $2\n"
        "link set c$1 master clients up\n"
        "link set p$1 master peers up\n"
        "neigh add 10.77.1.$1 lladdr $mac dev clients nud permanent\n"
        "END\n"
        "nsenter --net=$2 sh -e <<END\n" FEW_TRIES "ip -batch - <<BATCH\n"
        "link set lo up\n"
        "addr add 10.77.1.$1/24 dev clients\n"
        "addr add 10.77.2.$1/24 dev peers\n"
        "link set clients up\n"
        "link set peers up\n"
        "neigh add 10.77.1.254 lladdr 02:00:00:00:01:fe dev clients nud permanent\n"
        "BATCH\n"
        "END",
        host->number, host->door);
}

void net_cut(struct net_host *host) {
    run("ip link set c$1 down; ip link set p$1 down", host->number, host->door);
    host->cut = true;
}

void net_cut_peers(struct net_host *host) {
    run("ip link set p$1 down", host->number, host->door);
    host->cut = true;
}

void net_join(struct net_host *host) {
    run("ip link set c$1 up; ip link set p$1 up", host->number, host->door);
    host->cut = false;
}
