/* Leases that the client renews, and that it loses. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/libetcd/test/tools.h"

static const int64_t second_ns = 1000000000;

struct lease {
    struct etcd_keep *keep;
    int64_t id;
    _Atomic int64_t lost_ns;
    void (*then)(struct lease *); /* from on_lost */
    void *arg;
    atomic_int lost;     /* more than once ends the program */
    atomic_bool dropped; /* no callback may follow */
    atomic_bool held;    /* on_lost waits until this is false */
};

/* Lives as long as the program: its callback may come after the end of the test. */
static struct lease *lease_new(void) {
    enum { MOST = 100 };
    static struct lease leases[MOST];
    static int count;
    CHECK(count < MOST);
    return &leases[count++];
}

static void on_lost(void *ctx, int64_t id) {
    struct lease *lease = ctx;
    atomic_store(&lease->lost_ns, tools_in_ms(0));
    if (id != lease->id || atomic_fetch_add(&lease->lost, 1) > 0 || atomic_load(&lease->dropped)) {
        fprintf(stderr, "lease %lld is lost %d times\n", (long long)id, atomic_load(&lease->lost));
        abort();
    }
    while (atomic_load(&lease->held))
        harness_pause_ms(1);
    if (lease->then)
        lease->then(lease);
}

static void lease_keep(struct etcd *etcd, struct lease *lease, int64_t id, int64_t ttl_s, int64_t granted_ns,
                       int64_t every_ms) {
    lease->id = id;
    CHECK_STATUS(etcd_keep(etcd, id, ttl_s, granted_ns, every_ms, on_lost, lease, &lease->keep), ETCD_OK);
}

static void lease_grant(struct etcd *etcd, struct lease *lease, int64_t ttl_s, int64_t every_ms) {
    int64_t granted_ns = tools_in_ms(0);
    lease_keep(etcd, lease, tools_grant(etcd, ttl_s), ttl_s, granted_ns, every_ms);
}

static void lease_drop(struct lease *lease) {
    if (!lease->keep)
        abort(); /* lost before etcd_keep() returned */
    etcd_keep_drop(lease->keep);
    atomic_store(&lease->dropped, true);
}

static bool is_lost(void *arg) {
    return atomic_load(&((struct lease *)arg)->lost) > 0;
}

static void lease_wait_lost(struct lease *lease) {
    CHECK(harness_wait(is_lost, lease, PATIENCE_MS));
}

static enum etcd_status lease_ttl(struct etcd *etcd, int64_t id, int64_t *ttl_s) {
    struct etcd_lease_info *info = NULL;
    enum etcd_status status = etcd_lease_time_to_live(etcd, id, false, NULL, &info);
    if (status == ETCD_OK && ttl_s)
        *ttl_s = info->ttl_s;
    etcd_lease_info_free(info);
    return status;
}

/* Checks that the lease lives at least as long as the client says. The server answers whole seconds, rounded
 * down. */
static void lease_check(struct etcd *etcd, const struct lease *lease) {
    int64_t deadline_ns = etcd_keep_deadline_ns(lease->keep), ttl_s = 0;
    CHECK(deadline_ns > 0);
    CHECK_STATUS(lease_ttl(etcd, lease->id, &ttl_s), ETCD_OK);
    int64_t now_ns = tools_in_ms(0);
    if (deadline_ns > now_ns + (ttl_s + 1) * second_ns)
        FAIL("the deadline is %lld ms away, the lease has at most %lld s",
             (long long)((deadline_ns - now_ns) / 1000000), (long long)ttl_s + 1);
}

static struct etcd_server server;

/* ---- on one server ---- */

static void lease_is_renewed(void) {
    struct lease *lease = lease_new(), *not_renewed = lease_new();
    struct etcd *etcd = tools_open(&server, 1);
    lease_grant(etcd, lease, 1, 200);
    lease_grant(etcd, not_renewed, 1, 60000);
    int64_t before_ns = etcd_keep_deadline_ns(lease->keep);
    for (int i = 0; i < 30; i++) {
        lease_check(etcd, lease);
        harness_pause_ms(100);
    }
    CHECK(etcd_keep_deadline_ns(lease->keep) > before_ns + 2 * second_ns);
    CHECK_INT(lease->lost, 0);
    CHECK_INT(not_renewed->lost, 1);
    CHECK_INT(etcd_keep_deadline_ns(not_renewed->keep), 0);
    CHECK_STATUS(lease_ttl(etcd, not_renewed->id, NULL), ETCD_NOT_FOUND);
    lease_drop(lease);
    lease_drop(not_renewed);
}

static void lost_when_revoked(void) {
    struct lease *one = lease_new(), *two = lease_new(), *other = lease_new();
    struct etcd *etcd = tools_open(&server, 1);
    lease_grant(etcd, one, 5, 50);
    lease_keep(etcd, two, one->id, 5, tools_in_ms(0), 70); /* the same lease */
    lease_grant(etcd, other, 5, 50);
    harness_pause_ms(300);
    lease_check(etcd, one);
    lease_check(etcd, two);
    CHECK_STATUS(etcd_lease_revoke(etcd, one->id, NULL), ETCD_OK);
    lease_wait_lost(one);
    lease_wait_lost(two);
    CHECK_INT(etcd_keep_deadline_ns(one->keep), 0);
    harness_pause_ms(150);
    CHECK_INT(other->lost, 0);
    lease_check(etcd, other);
}

/* Only the client's clock can tell. */
static void lost_while_server_paused(void) {
    struct lease *lease = lease_new();
    struct etcd *etcd = tools_open(&server, 1);
    lease_grant(etcd, lease, 1, 100);
    harness_pause_ms(300);
    etcd_pause(&server);
    harness_pause_ms(50); /* answers in flight */
    int64_t deadline_ns = etcd_keep_deadline_ns(lease->keep);
    lease_wait_lost(lease);
    etcd_resume(&server);
    CHECK(lease->lost_ns >= deadline_ns);
    printf("     lost %d ms after the deadline\n", (int)((lease->lost_ns - deadline_ns) / 1000000));
    CHECK_INT(etcd_keep_deadline_ns(lease->keep), 0);
    harness_pause_ms(300);
    CHECK_INT(etcd_keep_deadline_ns(lease->keep), 0);
}

static void started_before_server(void) {
    struct lease *lease = lease_new(), *dropped = lease_new(), *lost = lease_new();
    struct etcd_server later;
    etcd_start(&later, NULL);
    struct etcd *etcd = tools_open(&later, 1);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(etcd, 20);
    etcd_kill(&later);
    struct etcd *late = tools_open(&later, 1);
    lease_keep(late, lease, id, 20, granted_ns, 50);
    lease_keep(late, dropped, id, 20, granted_ns, 50);
    lease_keep(late, lost, id, 1, granted_ns - second_ns, 50); /* its time to live is over */
    lease_wait_lost(lost);
    lease_drop(dropped);
    etcd_restart(&later);
    int64_t before_ns = etcd_keep_deadline_ns(lease->keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(lease->keep) == before_ns; i++)
        harness_pause_ms(10);
    CHECK(etcd_keep_deadline_ns(lease->keep) > before_ns);
    lease_check(etcd, lease);
}

/* The answer to a renewal of a dropped keepalive must not count for a later one, which the server never
 * received. */
static void answer_belongs_to_one_renewal(void) {
    struct lease *first = lease_new(), *second = lease_new(), *other = lease_new();
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *direct = tools_open(&own, 1);
    struct proxy *proxy = proxy_start(own.port);
    const struct etcd_config config = {.endpoints = harness_format("127.0.0.1:%d", proxy_port(proxy)),
                                       .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(direct, 20);
    CHECK_STATUS(lease_ttl(etcd, id, NULL), ETCD_OK); /* connected */
    lease_keep(etcd, first, id, 20, granted_ns, 20);
    lease_keep(etcd, other, tools_grant(direct, 20), 20, granted_ns, 20);
    int64_t before_ns = etcd_keep_deadline_ns(first->keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(first->keep) == before_ns; i++)
        harness_pause_ms(1);
    proxy_set(proxy, PROXY_DELAY, 600, NULL);
    harness_pause_ms(100); /* a renewal was sent and answered, and the answer is delayed */
    etcd_pause(&own);
    int64_t paused_ns = tools_in_ms(0);
    lease_drop(first);
    harness_pause_ms(50);
    lease_keep(etcd, second, id, 20, granted_ns, 20);
    harness_pause_ms(1000);
    int64_t deadline_ns = etcd_keep_deadline_ns(second->keep), late_ns = etcd_keep_deadline_ns(other->keep);
    etcd_resume(&own);
    CHECK(late_ns <= paused_ns + 20 * second_ns); /* a renewal counts from when it was sent */
    if (deadline_ns > paused_ns + 20 * second_ns)
        FAIL("%d ms more than the server gave", (int)((deadline_ns - paused_ns) / 1000000 - 20000));
}

static void five_hundred_leases(void) {
    enum { LEASES = 500 };
    static struct lease lease[LEASES];
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < LEASES; i++) {
        lease[i] = (struct lease){0};
        lease_grant(etcd, &lease[i], 2, 400);
    }
    int64_t until_ns = tools_in_ms(2500);
    for (int i = 0; tools_in_ms(0) < until_ns; i = (i + 7) % LEASES)
        lease_check(etcd, &lease[i]);
    for (int i = 0; i < LEASES; i++) {
        CHECK_INT(lease[i].lost, 0);
        if (i % 2)
            lease_drop(&lease[i]);
    }
    for (int i = 0; i < LEASES; i += 2)
        CHECK_STATUS(etcd_lease_revoke(etcd, lease[i].id, NULL), ETCD_OK);
    for (int i = 0; i < LEASES; i += 2)
        lease_wait_lost(&lease[i]);
}

/* ---- dropped ---- */

static void *release_later(void *arg) {
    struct lease *lease = arg;
    harness_pause_ms(50);
    lease->arg = lease;
    atomic_store(&lease->held, false);
    return NULL;
}

static void dropping_waits_for_the_callback(void) {
    struct lease *lease = lease_new();
    struct etcd *etcd = tools_open(&server, 1);
    pthread_t thread;
    lease->held = true;
    lease_keep(etcd, lease, 4711, 1, tools_in_ms(-2000), 50); /* lost at once */
    lease_wait_lost(lease);
    CHECK_INT(pthread_create(&thread, NULL, release_later, lease), 0);
    lease_drop(lease);
    CHECK(lease->arg == lease);
    pthread_join(thread, NULL);
}

static void drop_itself(struct lease *lease) {
    lease_drop(lease);
}

static void drop_the_other(struct lease *lease) {
    lease_drop(lease->arg);
}

static void dropped_from_callbacks(void) {
    struct lease *itself = lease_new(), *other = lease_new(), *dropper = lease_new();
    struct etcd *etcd = tools_open(&server, 1);
    itself->then = drop_itself;
    dropper->then = drop_the_other;
    dropper->arg = other;
    int64_t id = tools_grant(etcd, 5), now_ns = tools_in_ms(0);
    lease_keep(etcd, itself, id, 5, now_ns, 30);
    lease_keep(etcd, other, tools_grant(etcd, 5), 5, now_ns, 30);
    lease_keep(etcd, dropper, id, 5, now_ns, 30);
    harness_pause_ms(100);
    CHECK_STATUS(etcd_lease_revoke(etcd, id, NULL), ETCD_OK);
    lease_wait_lost(itself);
    lease_wait_lost(dropper);
    CHECK_STATUS(etcd_lease_revoke(etcd, other->id, NULL), ETCD_OK);
    harness_pause_ms(100);
    CHECK_INT(other->lost, 0);
}

/* Leases that expire at the moment when their keepalive is dropped or started. The context of on_lost is
 * known by then. */
static void dropped_while_lost(void) {
    enum { ROUNDS = 400 };
    static struct lease lease[ROUNDS];
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < ROUNDS; i++) {
        lease[i] = (struct lease){0};
        if (i % 4 == 0) {
            lease[i].then = drop_itself; /* maybe before etcd_keep() has returned */
            lease_keep(etcd, &lease[i], 1 + i, 1, tools_in_ms(-1000), 50);
            lease_wait_lost(&lease[i]);
            continue;
        }
        lease_keep(etcd, &lease[i], 1 + i, 1, tools_in_ms(-1000 + i % 4 - 1), 50);
        if (i % 3)
            harness_pause_ms(1);
        lease_drop(&lease[i]);
    }
}

/* ---- closed ---- */

static void nothing(void *ctx, const struct etcd_watch_event *event) {
    (void)ctx, (void)event;
}

/* Callbacks may start watches, also while the client is being closed. */
static void begin_a_watch(struct lease *lease) {
    const struct etcd_watch_config config = {.key = etcd_text("a"), .on_event = nothing};
    struct etcd_watch *watch;
    harness_pause_ms(20);
    etcd_watch(lease->arg, &config, &watch);
}

static void closed_during_callback(void) {
    for (int i = 0; i < 10; i++) {
        struct lease *lease = lease_new();
        const struct etcd_config config = {.endpoints = i % 2 ? tools_endpoints(&server, 1) : "127.0.0.1:1"};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        lease->then = begin_a_watch;
        lease->arg = etcd;
        lease_keep(etcd, lease, 4711, 1, tools_in_ms(-1000), 50);
        lease_wait_lost(lease);
        etcd_close(etcd);
        atomic_store(&lease->dropped, true);
    }
}

static void closed_while_lost(void) {
    static struct lease lease[20][50];
    for (int i = 0; i < 20; i++) {
        const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        for (int j = 0; j < 50; j++) {
            lease[i][j] = (struct lease){0};
            lease_keep(etcd, &lease[i][j], 1 + j, 1, tools_in_ms(-1000 + j / 10), 50);
        }
        harness_pause_ms(i % 5);
        etcd_close(etcd);
        for (int j = 0; j < 50; j++)
            atomic_store(&lease[i][j].dropped, true);
    }
}

/* ---- while members fail ---- */

/* A client that uses this member as long as it can. */
static struct etcd *open_first(struct etcd_server *members, int which) {
    struct etcd *etcd = tools_open_at(
        harness_format("%s,%s", tools_endpoints(&members[which], 1), tools_endpoints(members, 3)));
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_status(etcd, 0, NULL, &status), ETCD_OK);
    CHECK(tools_answering(etcd) == status.member_id);
    return etcd;
}

static void check_for(struct etcd *etcd, struct lease *lease, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        if (atomic_load(&lease->lost))
            FAIL("the lease is lost");
        lease_check(etcd, lease);
    }
}

/* A leader that resumes has counted all leases down meanwhile, and may have them revoked before it learns
 * that it is deposed, or through its successor (etcd issue 15247). The client must report that, and nothing
 * else. True: the lease lives. */
static bool kept_or_told(struct etcd *etcd, struct lease *lease, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        bool lost = atomic_load(&lease->lost);
        enum etcd_status status = lease_ttl(etcd, lease->id, NULL);
        if (status == ETCD_NOT_FOUND) {
            lease_wait_lost(lease);
            return false;
        }
        CHECK_STATUS(status, ETCD_OK);
        CHECK(!lost);
    }
    return true;
}

/* Within the time to live, long before the HTTP/2 pings would notice. */
static void a_stuck_member_is_left(struct etcd_server *members, int which, bool leads) {
    struct etcd *others = tools_open(&members[(which + 1) % 3], 1);
    struct lease *one = lease_new();
    lease_grant(open_first(members, which), one, 3, 500);
    check_for(others, one, 700);
    etcd_pause(&members[which]);
    check_for(others, one, 3500);
    etcd_resume(&members[which]);
    if (!leads)
        check_for(others, one, 600);
    else if (!kept_or_told(others, one, 600))
        return;
    lease_drop(one);
}

static void leaves_stuck_follower(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, (etcd_leader(members, 3) + 1) % 3, false);
}

static void leaves_stuck_leader(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, etcd_leader(members, 3), true);
}

static void renewed_while_leaders_killed(void) {
    enum { KILLS = 3 };
    struct lease *lease = lease_new(), *shorter = lease_new();
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    struct etcd *etcd = tools_open(members, 3), *looker = tools_open(members, 3);
    lease_grant(etcd, lease, 5, 1000);
    lease_grant(etcd, shorter, 3, 300);
    for (int i = 0; i < KILLS; i++) {
        int leader = etcd_leader(members, 3);
        etcd_kill(&members[leader]);
        check_for(looker, lease, 1200);
        etcd_restart(&members[leader]);
        check_for(looker, shorter, 300);
    }
    CHECK_INT(lease->lost + shorter->lost, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir())
        etcd_start(&server, NULL);
    harness_run("a lease is renewed", lease_is_renewed);
    harness_run("lost when revoked", lost_when_revoked);
    harness_run("lost while the server is paused", lost_while_server_paused);
    harness_run("started before the server", started_before_server);
    harness_run("an answer belongs to one renewal", answer_belongs_to_one_renewal);
    harness_run("five hundred leases", five_hundred_leases);
    harness_run("dropping waits for the callback", dropping_waits_for_the_callback);
    harness_run("dropped from callbacks", dropped_from_callbacks);
    harness_run("dropped while being lost", dropped_while_lost);
    harness_run("client closed while leases are lost", closed_while_lost);
    harness_run("client closed during a callback", closed_during_callback);
    harness_run("the client leaves a stuck follower", leaves_stuck_follower);
    harness_run("the client leaves a stuck leader", leaves_stuck_leader);
    harness_run("renewed while leaders are killed", renewed_while_leaders_killed);
    return harness_finish();
}
