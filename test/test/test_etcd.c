/* The etcd servers that tests use: what the harness says of them is so. */
#include "test/harness.h"

#include <string.h>

enum { WAIT_MS = 20000 };

struct entry {
    const struct etcd_server *etcd;
    const char *key;
    const char *value;
};

static bool is_put(void *arg) {
    struct entry *entry = arg;
    const char *said =
        etcd_command(entry->etcd, "put", entry->key, entry->value, "--command-timeout", "1s", NULL);
    return strcmp(said, "OK") == 0;
}

/* Again and again: what comes to a leader that is just voted out gets no answer. */
static void put(const struct etcd_server *etcd, const char *key, const char *value) {
    struct entry entry = {etcd, key, value};
    if (!harness_wait(is_put, &entry, WAIT_MS))
        FAIL("%s is not written by way of port %d", value, etcd->port);
}

static const char *get(const struct etcd_server *etcd, const char *key) {
    return etcd_command(etcd, "get", key, "--print-value-only", NULL);
}

/* ---- one server ---- */

static void etcd_keeps_what_it_said(void) {
    struct etcd_server etcd;
    etcd_start(&etcd, NULL);
    put(&etcd, "a", "1");
    CHECK_STR(etcd_command(&etcd, "get", "a", NULL), "a\n1");
    CHECK_HAS(etcd_command(&etcd, "nonsense", NULL), "unknown command");
    etcd_kill(&etcd);
    CHECK_HAS(etcd_command(&etcd, "get", "a", "--command-timeout", "100ms", NULL), "Error: ");
    etcd_restart(&etcd);
    CHECK_STR(get(&etcd, "a"), "1");
    etcd_stop(&etcd);
    etcd_restart(&etcd);
    CHECK_STR(get(&etcd, "a"), "1");
    etcd_stop(&etcd);
    etcd_wipe(&etcd);
    etcd_restart(&etcd);
    CHECK_STR(etcd_command(&etcd, "get", "a", NULL), "");
}

static void etcd_takes_options(void) {
    struct etcd_server etcd;
    etcd_start(&etcd, "--max-txn-ops", "7", "--election-timeout", "1000", "--heartbeat-interval", "100",
               NULL);
    CHECK_HAS(proc_output(&etcd.proc), "\"election-timeout\":\"1s\"");
    CHECK_HAS(etcd_command(&etcd, "lease", "grant", "1", NULL), "granted with TTL(2s)");
    etcd_stop(&etcd);
    etcd_start(&etcd, NULL);
    CHECK_HAS(etcd_command(&etcd, "lease", "grant", "1", NULL), "granted with TTL(1s)");
}

/* Its connections are HTTP/2, which the proxy knows nothing of: of a request, keys and values pass as they
 * are, but not the method's name; and what CUT takes may be a frame that answers nothing, and comes before
 * the request is seen to. So whether it happened is open. */
static void the_proxy_stands_before_etcd(void) {
    struct etcd_server etcd, through;
    etcd_start(&etcd, NULL);
    struct proxy *proxy = proxy_start(etcd.port);
    through = etcd;
    through.port = proxy_port(proxy);
    put(&through, "a", "1");
    proxy_set(proxy, PROXY_DELAY, 100, NULL);
    int64_t start = harness_now_ms();
    CHECK_STR(get(&through, "a"), "1");
    CHECK(harness_now_ms() - start >= 100);
    proxy_set(proxy, PROXY_CUT, 0, "second");
    CHECK_HAS(etcd_command(&through, "put", "a", "second", "--command-timeout", "1s", NULL), "Error: ");
    CHECK_INT(proxy_faults(proxy), 1);
    const char *now = get(&through, "a");
    CHECK(strcmp(now, "1") == 0 || strcmp(now, "second") == 0);
    put(&through, "a", "3");
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    CHECK_HAS(etcd_command(&through, "get", "a", "--command-timeout", "100ms", NULL), "Error: ");
    CHECK_STR(get(&etcd, "a"), "3");
}

/* ---- a cluster ---- */

static void a_cluster_outlives_its_leader(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    int first = etcd_leader(members, 3);
    put(&members[(first + 1) % 3], "a", "1");
    CHECK_STR(get(&members[first], "a"), "1");
    etcd_kill(&members[first]);
    int second = etcd_leader(members, 3);
    CHECK(second != first);
    put(&members[second], "a", "2");
    etcd_restart(&members[first]);
    CHECK_STR(get(&members[first], "a"), "2");
    CHECK(etcd_leader(members, 3) != first); /* it comes back as a follower */
}

static void a_paused_leader_is_replaced(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    int first = etcd_leader(members, 3);
    etcd_pause(&members[first]);
    int second = etcd_leader(members, 3);
    CHECK(second != first);
    put(&members[second], "a", "1");
    CHECK_HAS(etcd_command(&members[first], "get", "a", "--command-timeout", "100ms", NULL), "Error: ");
    etcd_resume(&members[first]);
    CHECK(etcd_leader(members, 3) != first);
    CHECK_STR(get(&members[first], "a"), "1");
}

static void a_cluster_comes_back_from_nothing(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    put(&members[0], "a", "1");
    for (int i = 0; i < 3; i++)
        i == 1 ? etcd_stop(&members[i]) : etcd_kill(&members[i]);
    etcd_restart_all(members, 3);
    etcd_leader(members, 3);
    for (int i = 0; i < 3; i++)
        CHECK_STR(get(&members[i], "a"), "1");
}

static void one_of_three_does_not_write(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    etcd_kill(&members[0]);
    etcd_kill(&members[1]);
    CHECK_HAS(etcd_command(&members[2], "put", "a", "1", "--command-timeout", "1s", NULL), "Error: ");
    etcd_restart_all(members, 3);
    put(&members[2], "a", "2");
    CHECK_STR(get(&members[0], "a"), "2");
}

static int lines(const char *text) {
    int count = 1;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* The leader's disk, then a follower's, then the same once more. */
static void members_are_replaced(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    put(&members[0], "a", "1");
    const char *before = etcd_command(&members[0], "member", "list", NULL);
    int first = etcd_leader(members, 3);
    etcd_replace(members, 3, first);
    CHECK_STR(get(&members[first], "a"), "1");
    int second = (first + 1) % 3;
    etcd_replace(members, 3, second);
    CHECK_STR(get(&members[second], "a"), "1");
    etcd_replace(members, 3, second);
    CHECK_STR(get(&members[second], "a"), "1");
    const char *after = etcd_command(&members[0], "member", "list", NULL);
    CHECK_INT(lines(after), lines(before));
    CHECK(strcmp(after, before) != 0);
    /* They count: with another one gone there still is a majority. */
    etcd_kill(&members[(first + 2) % 3]);
    put(&members[etcd_leader(members, 3)], "a", "2");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("etcd keeps what it said", etcd_keeps_what_it_said);
    harness_run("etcd takes options", etcd_takes_options);
    harness_run("the proxy stands before etcd", the_proxy_stands_before_etcd);
    harness_run("a cluster outlives its leader", a_cluster_outlives_its_leader);
    harness_run("a paused leader is replaced", a_paused_leader_is_replaced);
    harness_run("a cluster comes back from nothing", a_cluster_comes_back_from_nothing);
    harness_run("one of three does not write", one_of_three_does_not_write);
    harness_run("members are replaced", members_are_replaced);
    return harness_finish();
}
