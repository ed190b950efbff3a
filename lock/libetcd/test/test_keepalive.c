/* Leases that the client renews, and that it loses. */
#include <pthread.h>
#include <stdio.h>

#include "lock/libetcd/test/lease_recorder.h"

static struct etcd_server server;

/* ---- on one server ---- */

static void lease_is_renewed(void) {
    struct lease_recorder *lease = lease_recorder_new();
    struct lease_recorder *not_renewed = lease_recorder_new();
    struct etcd *etcd = tools_open(&server, 1);
    lease_recorder_grant(etcd, lease, 1, 200);
    lease_recorder_grant(etcd, not_renewed, 1, 60000);
    int64_t before_ns = etcd_keep_deadline_ns(lease->keep);
    for (int i = 0; i < 30; i++) {
        lease_recorder_check(etcd, lease);
        harness_pause_ms(100);
    }
    CHECK(etcd_keep_deadline_ns(lease->keep) > before_ns + 2 * second_ns);
    CHECK_INT(lease->lost, 0);
    CHECK_INT(not_renewed->lost, 1);
    CHECK_INT(etcd_keep_deadline_ns(not_renewed->keep), 0);
    CHECK_STATUS(lease_recorder_ttl(etcd, not_renewed->id, NULL), ETCD_NOT_FOUND);
    lease_recorder_drop(lease);
    lease_recorder_drop(not_renewed);
}

static void lost_when_revoked(void) {
    struct lease_recorder *one = lease_recorder_new();
    struct lease_recorder *two = lease_recorder_new();
    struct lease_recorder *other = lease_recorder_new();
    struct etcd *etcd = tools_open(&server, 1);
    lease_recorder_grant(etcd, one, 5, 50);
    lease_recorder_keep(etcd, two, one->id, 5, tools_in_ms(0), 70); /* the same lease */
    lease_recorder_grant(etcd, other, 5, 50);
    harness_pause_ms(300);
    lease_recorder_check(etcd, one);
    lease_recorder_check(etcd, two);
    CHECK_STATUS(etcd_lease_revoke(etcd, one->id, NULL), ETCD_OK);
    lease_recorder_wait_lost(one);
    lease_recorder_wait_lost(two);
    CHECK_INT(etcd_keep_deadline_ns(one->keep), 0);
    harness_pause_ms(150);
    CHECK_INT(other->lost, 0);
    lease_recorder_check(etcd, other);
}

/* Only the client's clock can tell. */
static void lost_while_server_paused(void) {
    struct lease_recorder *lease = lease_recorder_new();
    struct etcd *etcd = tools_open(&server, 1);
    lease_recorder_grant(etcd, lease, 1, 100);
    harness_pause_ms(300);
    etcd_pause(&server);
    harness_pause_ms(50); /* answers in flight */
    int64_t deadline_ns = etcd_keep_deadline_ns(lease->keep);
    lease_recorder_wait_lost(lease);
    etcd_resume(&server);
    CHECK(lease->lost_ns >= deadline_ns);
    printf("     lost %d ms after the deadline\n", (int)((lease->lost_ns - deadline_ns) / 1000000));
    CHECK_INT(etcd_keep_deadline_ns(lease->keep), 0);
    harness_pause_ms(300);
    CHECK_INT(etcd_keep_deadline_ns(lease->keep), 0);
}

static void started_before_server(void) {
    struct lease_recorder *lease = lease_recorder_new();
    struct lease_recorder *dropped = lease_recorder_new();
    struct lease_recorder *lost = lease_recorder_new();
    struct etcd_server later;
    etcd_start(&later, NULL);
    struct etcd *etcd = tools_open(&later, 1);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(etcd, 20);
    etcd_kill(&later);
    struct etcd *late = tools_open(&later, 1);
    lease_recorder_keep(late, lease, id, 20, granted_ns, 50);
    lease_recorder_keep(late, dropped, id, 20, granted_ns, 50);
    lease_recorder_keep(late, lost, id, 1, granted_ns - second_ns, 50); /* its time to live is over */
    lease_recorder_wait_lost(lost);
    lease_recorder_drop(dropped);
    etcd_restart(&later);
    int64_t before_ns = etcd_keep_deadline_ns(lease->keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(lease->keep) == before_ns; i++)
        harness_pause_ms(10);
    CHECK(etcd_keep_deadline_ns(lease->keep) > before_ns);
    lease_recorder_check(etcd, lease);
}

/* The answer to a renewal of a dropped keepalive must not count for a later one, which the server never
 * received. */
static void answer_belongs_to_one_renewal(void) {
    struct lease_recorder *first = lease_recorder_new();
    struct lease_recorder *second = lease_recorder_new();
    struct lease_recorder *other = lease_recorder_new();
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *direct = tools_open(&own, 1);
    struct proxy *proxy = proxy_start(own.port);
    const struct etcd_config config = {.endpoints = harness_format("127.0.0.1:%d", proxy_port(proxy)),
                                       .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(direct, 20);
    CHECK_STATUS(lease_recorder_ttl(etcd, id, NULL), ETCD_OK); /* connected */
    lease_recorder_keep(etcd, first, id, 20, granted_ns, 20);
    lease_recorder_keep(etcd, other, tools_grant(direct, 20), 20, granted_ns, 20);
    int64_t before_ns = etcd_keep_deadline_ns(first->keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(first->keep) == before_ns; i++)
        harness_pause_ms(1);
    proxy_set(proxy, PROXY_DELAY, 600, NULL);
    harness_pause_ms(100); /* a renewal was sent and answered, and the answer is delayed */
    etcd_pause(&own);
    int64_t paused_ns = tools_in_ms(0);
    lease_recorder_drop(first);
    harness_pause_ms(50);
    lease_recorder_keep(etcd, second, id, 20, granted_ns, 20);
    harness_pause_ms(1000);
    int64_t deadline_ns = etcd_keep_deadline_ns(second->keep), late_ns = etcd_keep_deadline_ns(other->keep);
    etcd_resume(&own);
    CHECK(late_ns <= paused_ns + 20 * second_ns); /* a renewal counts from when it was sent */
    if (deadline_ns > paused_ns + 20 * second_ns)
        FAIL("%d ms more than the server gave", (int)((deadline_ns - paused_ns) / 1000000 - 20000));
}

static void five_hundred_leases(void) {
    enum { LEASES = 500 };
    static struct lease_recorder lease[LEASES];
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < LEASES; i++) {
        lease[i] = (struct lease_recorder){0};
        lease_recorder_grant(etcd, &lease[i], 2, 400);
    }
    int64_t until_ns = tools_in_ms(2500);
    for (int i = 0; tools_in_ms(0) < until_ns; i = (i + 7) % LEASES)
        lease_recorder_check(etcd, &lease[i]);
    for (int i = 0; i < LEASES; i++) {
        CHECK_INT(lease[i].lost, 0);
        if (i % 2)
            lease_recorder_drop(&lease[i]);
    }
    for (int i = 0; i < LEASES; i += 2)
        CHECK_STATUS(etcd_lease_revoke(etcd, lease[i].id, NULL), ETCD_OK);
    for (int i = 0; i < LEASES; i += 2)
        lease_recorder_wait_lost(&lease[i]);
}

/* ---- dropped ---- */

static void *release_later(void *arg) {
    struct lease_recorder *lease = arg;
    harness_pause_ms(50);
    lease->arg = lease;
    atomic_store(&lease->held, false);
    return NULL;
}

static void dropping_waits_for_the_callback(void) {
    struct lease_recorder *lease = lease_recorder_new();
    struct etcd *etcd = tools_open(&server, 1);
    pthread_t thread;
    lease->held = true;
    lease_recorder_keep(etcd, lease, 4711, 1, tools_in_ms(-2000), 50); /* lost at once */
    lease_recorder_wait_lost(lease);
    CHECK_INT(pthread_create(&thread, NULL, release_later, lease), 0);
    lease_recorder_drop(lease);
    CHECK(lease->arg == lease);
    pthread_join(thread, NULL);
}

static void drop_itself(struct lease_recorder *lease) {
    lease_recorder_drop(lease);
}

static void drop_the_other(struct lease_recorder *lease) {
    lease_recorder_drop(lease->arg);
}

static void dropped_from_callbacks(void) {
    struct lease_recorder *itself = lease_recorder_new();
    struct lease_recorder *other = lease_recorder_new();
    struct lease_recorder *dropper = lease_recorder_new();
    struct etcd *etcd = tools_open(&server, 1);
    itself->then = drop_itself;
    dropper->then = drop_the_other;
    dropper->arg = other;
    int64_t id = tools_grant(etcd, 5), now_ns = tools_in_ms(0);
    lease_recorder_keep(etcd, itself, id, 5, now_ns, 30);
    lease_recorder_keep(etcd, other, tools_grant(etcd, 5), 5, now_ns, 30);
    lease_recorder_keep(etcd, dropper, id, 5, now_ns, 30);
    harness_pause_ms(100);
    CHECK_STATUS(etcd_lease_revoke(etcd, id, NULL), ETCD_OK);
    lease_recorder_wait_lost(itself);
    lease_recorder_wait_lost(dropper);
    CHECK_STATUS(etcd_lease_revoke(etcd, other->id, NULL), ETCD_OK);
    harness_pause_ms(100);
    CHECK_INT(other->lost, 0);
}

/* Leases that expire at the moment when their keepalive is dropped or started. The context of on_lost is
 * known by then. */
static void dropped_while_lost(void) {
    enum { ROUNDS = 400 };
    static struct lease_recorder lease[ROUNDS];
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < ROUNDS; i++) {
        lease[i] = (struct lease_recorder){0};
        if (i % 4 == 0) {
            lease[i].then = drop_itself; /* maybe before etcd_keep() has returned */
            lease_recorder_keep(etcd, &lease[i], 1 + i, 1, tools_in_ms(-1000), 50);
            lease_recorder_wait_lost(&lease[i]);
            continue;
        }
        lease_recorder_keep(etcd, &lease[i], 1 + i, 1, tools_in_ms(-1000 + i % 4 - 1), 50);
        if (i % 3)
            harness_pause_ms(1);
        lease_recorder_drop(&lease[i]);
    }
}

/* ---- closed ---- */

static void nothing(void *ctx, const struct etcd_watch_event *event) {
    (void)ctx;
    (void)event;
}

/* Callbacks may start watches, also while the client is being closed. */
static void begin_a_watch(struct lease_recorder *lease) {
    const struct etcd_watch_config config = {.key = etcd_text("a"), .on_event = nothing};
    struct etcd_watch *watch;
    harness_pause_ms(20);
    etcd_watch(lease->arg, &config, &watch);
}

static void closed_during_callback(void) {
    for (int i = 0; i < 10; i++) {
        struct lease_recorder *lease = lease_recorder_new();
        const struct etcd_config config = {.endpoints = i % 2 ? tools_endpoints(&server, 1) : "127.0.0.1:1"};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        lease->then = begin_a_watch;
        lease->arg = etcd;
        lease_recorder_keep(etcd, lease, 4711, 1, tools_in_ms(-1000), 50);
        lease_recorder_wait_lost(lease);
        etcd_close(etcd);
        atomic_store(&lease->dropped, true);
    }
}

static void closed_while_lost(void) {
    static struct lease_recorder lease[20][50];
    for (int i = 0; i < 20; i++) {
        const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        for (int j = 0; j < 50; j++) {
            lease[i][j] = (struct lease_recorder){0};
            lease_recorder_keep(etcd, &lease[i][j], 1 + j, 1, tools_in_ms(-1000 + j / 10), 50);
        }
        harness_pause_ms(i % 5);
        etcd_close(etcd);
        for (int j = 0; j < 50; j++)
            atomic_store(&lease[i][j].dropped, true);
    }
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
    return harness_finish();
}
