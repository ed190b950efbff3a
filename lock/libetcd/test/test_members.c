/* Members that fail in different ways while a client makes calls. */
#include "lock/libetcd/test/load.h"
#include "lock/libetcd/test/recorder.h"
#include "lock/libetcd/v3lock.h"

static struct etcd_server members[3]; /* started by each test, since a restarted process ends with the test */

/* A client that uses the leader, whose failure is the worst case. */
static struct etcd *open_to_leader(int *leader) {
    *leader = etcd_leader(members, 3);
    struct etcd *etcd = tools_open_at(
        harness_format("%s,%s", tools_endpoints(&members[*leader], 1), tools_endpoints(members, 3)));
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_status(etcd, 0, NULL, &status), ETCD_OK); /* it is connected */
    return etcd;
}

/* Members that failed are connected again too. */
static void all_answer(struct etcd *etcd) {
    for (size_t i = 0; i < etcd_endpoint_count(etcd); i++) {
        struct etcd_member_status status;
        CHECK_STATUS(etcd_member_status(etcd, i, NULL, &status), ETCD_OK);
        CHECK(status.leader_id != 0);
    }
}

static const struct fault {
    const char *what;
    void (*fault)(int which);
    void (*mend)(int which);
    bool away; /* there is no majority meanwhile */
} * fault;

static void fail_one(void) {
    int leader;
    etcd_start_cluster(members, 3, NULL);
    struct etcd *etcd = open_to_leader(&leader);
    struct recorder *recorder = recorder_watch_key(etcd, "load/read", 0);
    recorder_created(recorder);
    struct load *load = load_start(etcd);
    int asked = load_member(load, members, 3);
    CHECK_INT(asked, leader);
    fault->fault(asked);
    if (!fault->away)
        load_wait(load);
    harness_pause_ms(300);
    fault->mend(asked);
    load_wait(load);
    all_answer(etcd);
    load_wait(load);
    load_finish(load, fault->what, fault->away);
    tools_put(etcd, "load/read", "2");
    recorder_has(recorder, " load/read=2@");
}

static void kill_it(int which) {
    etcd_kill(&members[which]);
}

static void pause_it(int which) {
    etcd_pause(&members[which]);
}

static void resume(int which) {
    etcd_resume(&members[which]);
}

static void restart(int which) {
    etcd_restart(&members[which]);
}

static void kill_all(int which) {
    (void)which;
    for (int i = 0; i < 3; i++)
        etcd_kill(&members[i]);
}

static void restart_all(int which) {
    (void)which;
    etcd_restart_all(members, 3);
}

static void replace(int which) {
    etcd_replace(members, 3, which);
}

static const struct fault faults[] = {
    {"a member is killed", kill_it, restart, false},
    {"a member is paused", pause_it, resume, false},
    {"a member is replaced", kill_it, replace, false},
    {"all members are killed", kill_all, restart_all, true},
};

/* One after another, in the order of the endpoints; each is restarted before the next one is stopped. */
static void each_member_restarted(void) {
    int leader;
    etcd_start_cluster(members, 3, NULL);
    struct etcd *etcd = open_to_leader(&leader);
    struct load *load = load_start(etcd);
    for (int i = 0; i < 3; i++) {
        i ? etcd_kill(&members[(leader + i) % 3]) : etcd_stop(&members[leader]);
        load_wait(load);
        etcd_restart(&members[(leader + i) % 3]);
    }
    load_wait(load);
    all_answer(etcd);
    load_finish(load, "one after the other", false);
}

/* ---- endpoints that are wrong ---- */

static void wrong_endpoints(void) {
    etcd_start_cluster(members, 3, NULL);
    const char *a = tools_endpoints(&members[0], 1), *b = tools_endpoints(&members[1], 1);
    int nobody = harness_free_port();
    const char *const endpoints[] = {
        harness_format("127.0.0.1:%d,%s,%s", nobody, a, b),
        harness_format("%s,127.0.0.1:%d,%s", b, nobody, a),
        harness_format("127.0.0.1:%d,nosuchhost.invalid:1,%s", nobody, a),
        harness_format("%s,%s,%s", a, a, a),
    };
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        struct etcd *etcd = tools_open_at(endpoints[i]);
        tools_put(etcd, "wrong", "1");
        struct recorder *recorder = recorder_watch_key(etcd, "wrong", 0);
        recorder_created(recorder);
        tools_put(etcd, "wrong", "2");
        recorder_has(recorder, "wrong=2");
        CHECK_STR(tools_get(etcd, "wrong"), "2");
    }
}

/* ---- answers that are lost ---- */

/* The server does the write, and the connection is closed before the answer: the outcome is unknown, and the
 * write is not repeated unless it is idempotent. */
static void answers_are_lost(void) {
    enum { ROUNDS = 8 };
    struct etcd_server server;
    etcd_start(&server, NULL);
    struct proxy *proxy = proxy_start(server.port);
    struct etcd *etcd = tools_open_at(harness_format("127.0.0.1:%d", proxy_port(proxy)));
    int64_t done = 0, again = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const char *once = harness_format("once/%d", i), *twice = harness_format("twice/%d", i);
        const struct etcd_put put = {.key = etcd_text(once)}, repeated = {.key = etcd_text(twice)};
        const struct etcd_range range = {.key = etcd_text(once)}, other = {.key = etcd_text(twice)};
        const struct etcd_call idempotent = {.idempotent = true};
        struct etcd_reply *reply = NULL;
        tools_get(etcd, once); /* it is connected */
        /* Other answers of the server, from before it notices, do not count. */
        proxy_set(proxy, PROXY_CUT, 0, once);
        CHECK_STATUS(etcd_put(etcd, &put, NULL, NULL), ETCD_UNKNOWN);
        tools_get(etcd, once);
        proxy_set(proxy, PROXY_CUT, 0, NULL);
        CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
        CHECK(reply->kv_count == 0 || reply->kvs[0].version == 1);
        done += (int64_t)reply->kv_count;
        etcd_reply_free(reply);
        proxy_set(proxy, PROXY_CUT, 0, twice);
        CHECK_STATUS(etcd_put(etcd, &repeated, &idempotent, NULL), ETCD_OK);
        CHECK_STATUS(etcd_range(etcd, &other, NULL, &reply), ETCD_OK);
        CHECK_INT(reply->kv_count, 1);
        again += reply->kvs[0].version - 1;
        etcd_reply_free(reply);
    }
    CHECK(done > 0 && again > 0);
    CHECK_INT(proxy_faults(proxy), 3 * ROUNDS);
}

/* ---- calls that rightly take long ---- */

/* The client does not leave a member because a lock was waited for until the deadline. It would do so each
 * time; on a busy machine it may leave a member now and then that was slow with something else. */
static void waiting_for_a_lock(void) {
    enum { TIMES = 4, LONG_MS = 500 };
    int stayed = 0;
    struct etcd_bytes *key = NULL, *none;
    int64_t revision;
    etcd_start_cluster(members, 2, NULL);
    struct etcd *etcd = tools_open(members, 2);
    int64_t holder = tools_grant(etcd, 60), waiter = tools_grant(etcd, 60);
    CHECK_STATUS(etcd_lock(etcd, etcd_text("l"), holder, NULL, &key, &revision), ETCD_OK);
    for (int i = 0; i < TIMES; i++) {
        uint64_t member = tools_answering(etcd);
        const struct etcd_call call = {.deadline_ns = tools_in_ms(LONG_MS)};
        CHECK_STATUS(etcd_lock(etcd, etcd_text("l"), waiter, &call, &none, &revision), ETCD_UNKNOWN);
        stayed += tools_answering(etcd) == member;
    }
    CHECK(stayed > 0);
    etcd_lock_key_free(key);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("wrong endpoints", wrong_endpoints);
    harness_run("answers are lost", answers_are_lost);
    harness_run("waiting for a lock", waiting_for_a_lock);
    harness_run("each member is restarted", each_member_restarted);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        fault = &faults[i];
        harness_run(fault->what, fail_one);
    }
    return harness_finish();
}
