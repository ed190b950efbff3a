/* Leases that are kept alive, and lost. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/etcd/test/seen.h"

static const int64_t second_ns = 1000000000;

static struct etcd_server server;

/* A lease that is kept. */
struct kept {
    struct etcd_keep *keep;
    int64_t id;
    atomic_int lost;
    _Atomic int64_t lost_ns;
    atomic_bool dropped; /* nothing may come any more */
    atomic_bool held;    /* on_lost waits until this is false */
    void (*then)(struct kept *);
    void *arg;
};

static void on_lost(void *ctx, int64_t id) {
    struct kept *kept = ctx;
    atomic_store(&kept->lost_ns, tools_in_ms(0));
    if (id != kept->id || atomic_fetch_add(&kept->lost, 1) > 0 || atomic_load(&kept->dropped)) {
        fprintf(stderr, "lease %lld is lost %d times\n", (long long)id, atomic_load(&kept->lost));
        abort();
    }
    while (atomic_load(&kept->held))
        harness_pause_ms(1);
    if (kept->then)
        kept->then(kept);
}

static void keep_granted(struct etcd *etcd, struct kept *kept, int64_t id, int64_t ttl_s, int64_t granted_ns,
                         int64_t every_ms) {
    kept->id = id;
    CHECK_STATUS(etcd_keep(etcd, id, ttl_s, granted_ns, every_ms, on_lost, kept, &kept->keep), ETCD_OK);
}

static void keep_new(struct etcd *etcd, struct kept *kept, int64_t ttl_s, int64_t every_ms) {
    int64_t granted_ns = tools_in_ms(0);
    keep_granted(etcd, kept, tools_grant(etcd, ttl_s), ttl_s, granted_ns, every_ms);
}

static void drop(struct kept *kept) {
    etcd_keep_drop(kept->keep);
    atomic_store(&kept->dropped, true);
}

static bool is_lost(void *arg) {
    return atomic_load(&((struct kept *)arg)->lost) > 0;
}

static void wait_lost(struct kept *kept) {
    CHECK(harness_wait(is_lost, kept, PATIENCE_MS));
}

static enum etcd_status look(struct etcd *etcd, int64_t id, int64_t *ttl_s) {
    struct etcd_lease_info *info = NULL;
    enum etcd_status status = etcd_lease_look(etcd, id, false, NULL, &info);
    if (status == ETCD_OK && ttl_s)
        *ttl_s = info->ttl_s;
    etcd_lease_info_free(info);
    return status;
}

/* The lease lives at least as long as the client says; the server tells whole seconds, rounded down. */
static void check_deadline(struct etcd *etcd, const struct kept *kept) {
    int64_t deadline_ns = etcd_keep_deadline_ns(kept->keep), ttl_s = 0;
    CHECK(deadline_ns > 0);
    CHECK_STATUS(look(etcd, kept->id, &ttl_s), ETCD_OK);
    int64_t now_ns = tools_in_ms(0);
    if (deadline_ns > now_ns + (ttl_s + 1) * second_ns)
        FAIL("the deadline is %lld ms away, the lease has at most %lld s",
             (long long)((deadline_ns - now_ns) / 1000000), (long long)ttl_s + 1);
}

/* ---- on one server ---- */

/* Static, as what is kept when a test ends is still heard of. */
#define KEPT(name)                                                                                           \
    static struct kept name;                                                                                 \
    name = (struct kept) {                                                                                   \
        0                                                                                                    \
    }

static void kept_alive(void) {
    KEPT(kept);
    KEPT(not_renewed);
    struct etcd *etcd = tools_open(&server, 1);
    keep_new(etcd, &kept, 1, 200);
    keep_new(etcd, &not_renewed, 1, 60000);
    int64_t before_ns = etcd_keep_deadline_ns(kept.keep);
    for (int i = 0; i < 30; i++) {
        check_deadline(etcd, &kept);
        harness_pause_ms(100);
    }
    CHECK(etcd_keep_deadline_ns(kept.keep) > before_ns + 2 * second_ns);
    CHECK_INT(kept.lost, 0);
    CHECK_INT(not_renewed.lost, 1);
    CHECK_INT(etcd_keep_deadline_ns(not_renewed.keep), 0);
    CHECK_STATUS(look(etcd, not_renewed.id, NULL), ETCD_NOT_FOUND);
    drop(&kept);
    drop(&not_renewed);
}

static void lost_when_revoked(void) {
    KEPT(one);
    KEPT(two);
    KEPT(other);
    struct etcd *etcd = tools_open(&server, 1);
    keep_new(etcd, &one, 5, 50);
    keep_granted(etcd, &two, one.id, 5, tools_in_ms(0), 70); /* the same lease */
    keep_new(etcd, &other, 5, 50);
    harness_pause_ms(300);
    check_deadline(etcd, &one);
    check_deadline(etcd, &two);
    CHECK_STATUS(etcd_lease_revoke(etcd, one.id, NULL), ETCD_OK);
    wait_lost(&one);
    wait_lost(&two);
    CHECK_INT(etcd_keep_deadline_ns(one.keep), 0);
    harness_pause_ms(150);
    CHECK_INT(other.lost, 0);
    check_deadline(etcd, &other);
}

/* The clock tells, as nobody else does. */
static void lost_while_the_server_stands_still(void) {
    KEPT(kept);
    struct etcd *etcd = tools_open(&server, 1);
    keep_new(etcd, &kept, 1, 100);
    harness_pause_ms(300);
    etcd_pause(&server);
    harness_pause_ms(50); /* answers that were under way */
    int64_t deadline_ns = etcd_keep_deadline_ns(kept.keep);
    wait_lost(&kept);
    etcd_resume(&server);
    CHECK(kept.lost_ns >= deadline_ns);
    printf("     lost %d ms after the deadline\n", (int)((kept.lost_ns - deadline_ns) / 1000000));
    CHECK_INT(etcd_keep_deadline_ns(kept.keep), 0);
    harness_pause_ms(300);
    CHECK_INT(etcd_keep_deadline_ns(kept.keep), 0);
}

static void begun_before_the_server(void) {
    KEPT(kept);
    KEPT(dropped);
    KEPT(lost);
    struct etcd_server later;
    etcd_start(&later, NULL);
    struct etcd *etcd = tools_open(&later, 1);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(etcd, 20);
    etcd_kill(&later);
    struct etcd *late = tools_open(&later, 1);
    keep_granted(late, &kept, id, 20, granted_ns, 50);
    keep_granted(late, &dropped, id, 20, granted_ns, 50);
    keep_granted(late, &lost, id, 1, granted_ns - second_ns, 50); /* its time is over */
    wait_lost(&lost);
    drop(&dropped);
    etcd_restart(&later);
    int64_t before_ns = etcd_keep_deadline_ns(kept.keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(kept.keep) == before_ns; i++)
        harness_pause_ms(10);
    CHECK(etcd_keep_deadline_ns(kept.keep) > before_ns);
    check_deadline(etcd, &kept);
}

/* The answer to a renewal of what was dropped says nothing of a later one, which the server never saw. */
static void an_answer_is_nobody_elses(void) {
    KEPT(first);
    KEPT(second);
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *direct = tools_open(&own, 1);
    struct proxy *proxy = proxy_start(own.port);
    const struct etcd_config config = {.endpoints = harness_format("127.0.0.1:%d", proxy_port(proxy)),
                                       .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(direct, 20);
    CHECK_STATUS(look(etcd, id, NULL), ETCD_OK); /* connected */
    keep_granted(etcd, &first, id, 20, granted_ns, 20);
    int64_t before_ns = etcd_keep_deadline_ns(first.keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(first.keep) == before_ns; i++)
        harness_pause_ms(1);
    proxy_set(proxy, PROXY_DELAY, 600, NULL);
    harness_pause_ms(100); /* one has been sent and answered, and the answer is late */
    etcd_pause(&own);
    int64_t paused_ns = tools_in_ms(0);
    drop(&first);
    harness_pause_ms(50);
    keep_granted(etcd, &second, id, 20, granted_ns, 20);
    harness_pause_ms(1000);
    int64_t deadline_ns = etcd_keep_deadline_ns(second.keep);
    etcd_resume(&own);
    if (deadline_ns > paused_ns + 20 * second_ns)
        FAIL("%d ms more than the server gave", (int)((deadline_ns - paused_ns) / 1000000 - 20000));
}

static void five_hundred(void) {
    enum { LEASES = 500 };
    static struct kept kept[LEASES];
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < LEASES; i++) {
        kept[i] = (struct kept){0};
        keep_new(etcd, &kept[i], 2, 400);
    }
    int64_t until_ns = tools_in_ms(2500);
    for (int i = 0; tools_in_ms(0) < until_ns; i = (i + 7) % LEASES)
        check_deadline(etcd, &kept[i]);
    for (int i = 0; i < LEASES; i++) {
        CHECK_INT(kept[i].lost, 0);
        if (i % 2)
            drop(&kept[i]);
    }
    for (int i = 0; i < LEASES; i += 2)
        CHECK_STATUS(etcd_lease_revoke(etcd, kept[i].id, NULL), ETCD_OK);
    for (int i = 0; i < LEASES; i += 2)
        wait_lost(&kept[i]);
}

/* ---- dropped ---- */

static void *release_later(void *arg) {
    struct kept *kept = arg;
    harness_pause_ms(50);
    kept->arg = kept;
    atomic_store(&kept->held, false);
    return NULL;
}

static void dropping_waits_for_the_callback(void) {
    KEPT(kept);
    struct etcd *etcd = tools_open(&server, 1);
    pthread_t thread;
    kept.held = true;
    keep_granted(etcd, &kept, 4711, 1, tools_in_ms(-2000), 50); /* lost at once */
    wait_lost(&kept);
    CHECK_INT(pthread_create(&thread, NULL, release_later, &kept), 0);
    drop(&kept);
    CHECK(kept.arg == &kept);
    pthread_join(thread, NULL);
}

static void drop_itself(struct kept *kept) {
    drop(kept);
}

static void drop_the_other(struct kept *kept) {
    drop(kept->arg);
}

static void dropped_from_callbacks(void) {
    KEPT(itself);
    KEPT(other);
    KEPT(dropper);
    struct etcd *etcd = tools_open(&server, 1);
    itself.then = drop_itself;
    dropper.then = drop_the_other;
    dropper.arg = &other;
    int64_t id = tools_grant(etcd, 5), now_ns = tools_in_ms(0);
    keep_granted(etcd, &itself, id, 5, now_ns, 30);
    keep_granted(etcd, &other, tools_grant(etcd, 5), 5, now_ns, 30);
    keep_granted(etcd, &dropper, id, 5, now_ns, 30);
    harness_pause_ms(100);
    CHECK_STATUS(etcd_lease_revoke(etcd, id, NULL), ETCD_OK);
    wait_lost(&itself);
    wait_lost(&dropper);
    CHECK_STATUS(etcd_lease_revoke(etcd, other.id, NULL), ETCD_OK);
    harness_pause_ms(100);
    CHECK_INT(other.lost, 0);
}

/* Leases whose time is up at the moment when they are dropped, or kept. What a keep is lost with knows it. */
static void dropped_as_they_are_lost(void) {
    enum { ROUNDS = 400 };
    static struct kept kept[ROUNDS];
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < ROUNDS; i++) {
        kept[i] = (struct kept){0};
        if (i % 4 == 0) {
            kept[i].then = drop_itself; /* maybe before etcd_keep() has returned */
            keep_granted(etcd, &kept[i], 1 + i, 1, tools_in_ms(-1000), 50);
            wait_lost(&kept[i]);
            continue;
        }
        keep_granted(etcd, &kept[i], 1 + i, 1, tools_in_ms(-1000 + i % 4 - 1), 50);
        if (i % 3)
            harness_pause_ms(1);
        drop(&kept[i]);
    }
}

/* ---- closed ---- */

static void nothing(void *ctx, const struct etcd_watch_event *event) {
    (void)ctx;
    (void)event;
}

/* Callbacks may begin watches, also while the client is about to be closed. */
static void begin_a_watch(struct kept *kept) {
    const struct etcd_watch_config config = {.key = etcd_text("a"), .on_event = nothing};
    struct etcd_watch *watch;
    harness_pause_ms(20);
    etcd_watch(kept->arg, &config, &watch);
}

static void closed_within_a_callback(void) {
    for (int i = 0; i < 10; i++) {
        KEPT(kept);
        const struct etcd_config config = {.endpoints = i % 2 ? tools_endpoints(&server, 1) : "127.0.0.1:1"};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        kept.then = begin_a_watch;
        kept.arg = etcd;
        keep_granted(etcd, &kept, 4711, 1, tools_in_ms(-1000), 50);
        wait_lost(&kept);
        etcd_close(etcd);
        atomic_store(&kept.dropped, true);
    }
}

static void closed_while_they_are_lost(void) {
    static struct kept kept[20][50];
    for (int i = 0; i < 20; i++) {
        const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        for (int j = 0; j < 50; j++) {
            kept[i][j] = (struct kept){0};
            keep_granted(etcd, &kept[i][j], 1 + j, 1, tools_in_ms(-1000 + j / 10), 50);
        }
        harness_pause_ms(i % 5);
        etcd_close(etcd);
        for (int j = 0; j < 50; j++)
            atomic_store(&kept[i][j].dropped, true);
    }
}

/* ---- with three members ---- */

/* A client that talks to this one as long as it can. */
static struct etcd *open_first(struct etcd_server *members, int which) {
    const struct etcd_config config = {
        .endpoints =
            harness_format("%s,%s", tools_endpoints(&members[which], 1), tools_endpoints(members, 3)),
        .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_look(etcd, 0, NULL, &status), ETCD_OK); /* it is connected */
    return etcd;
}

static void check_for(struct etcd *etcd, struct kept *kept, int64_t ms) {
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(20)) {
        if (atomic_load(&kept->lost))
            FAIL("the lease is lost");
        check_deadline(etcd, kept);
    }
}

/* The least that was left of it. */
static int least_left_ms(struct kept *kept, int64_t ms) {
    int64_t least_ns = INT64_MAX;
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; harness_pause_ms(2)) {
        int64_t left_ns = etcd_keep_deadline_ns(kept->keep) - tools_in_ms(0);
        least_ns = left_ns < least_ns ? left_ns : least_ns;
    }
    if (atomic_load(&kept->lost))
        FAIL("the lease is lost");
    return (int)(least_ns / 1000000);
}

/* Before the time to live is over, long before the pings of HTTP/2 would tell. */
static void a_stuck_member_is_left(struct etcd_server *members, int which) {
    static struct kept kept[2]; /* one for each test */
    struct etcd *others = tools_open(&members[(which + 1) % 3], 1);
    static int tests;
    struct kept *one = &kept[tests++];
    keep_new(open_first(members, which), one, 3, 500);
    check_for(others, one, 700);
    CHECK_INT(seen_serving(members, 3, "LeaseKeepAlive"), which);
    etcd_pause(&members[which]);
    printf("     of 3 s at least %d ms were left\n", least_left_ms(one, 4500));
    check_deadline(others, one);
    etcd_resume(&members[which]);
    check_for(others, one, 300);
    CHECK(seen_serving(members, 3, "LeaseKeepAlive") != which);
    drop(one);
}

static void a_stuck_follower_is_left(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, (etcd_leader(members, 3) + 1) % 3);
}

static void a_stuck_leader_is_left(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    a_stuck_member_is_left(members, etcd_leader(members, 3));
}

/* For SECKILL_ETCD_MINUTES, or 12 s. */
static void kept_while_leaders_are_killed(void) {
    KEPT(kept);
    KEPT(shorter);
    struct etcd_server members[3];
    const char *minutes = getenv("SECKILL_ETCD_MINUTES");
    int64_t ms = minutes && *minutes ? strtol(minutes, NULL, 10) * 60000 : 12000;
    int kills = 0;
    etcd_start_cluster(members, 3, NULL);
    struct etcd *etcd = tools_open(members, 3), *looker = tools_open(members, 3);
    keep_new(etcd, &kept, 5, 1000);
    keep_new(etcd, &shorter, 3, 300);
    for (int64_t until_ns = tools_in_ms(ms); tools_in_ms(0) < until_ns; kills++) {
        int leader = etcd_leader(members, 3);
        etcd_kill(&members[leader]);
        check_for(looker, &kept, 1200);
        etcd_restart(&members[leader]);
        check_for(looker, &shorter, 300);
    }
    CHECK_INT(kept.lost + shorter.lost, 0);
    printf("     %d leaders were killed\n", kills);
}

int main(int argc, char **argv) {
    const char *minutes = getenv("SECKILL_ETCD_MINUTES");
    harness_begin(argc, argv);
    if (minutes && *minutes)
        harness_limit(120 + 60 * (unsigned)strtoul(minutes, NULL, 10));
    if (*harness_dir())
        etcd_start(&server, NULL);
    harness_run("kept alive", kept_alive);
    harness_run("lost when revoked", lost_when_revoked);
    harness_run("lost while the server stands still", lost_while_the_server_stands_still);
    harness_run("begun before the server", begun_before_the_server);
    harness_run("an answer is nobody else's", an_answer_is_nobody_elses);
    harness_run("five hundred", five_hundred);
    harness_run("dropping waits for the callback", dropping_waits_for_the_callback);
    harness_run("dropped from callbacks", dropped_from_callbacks);
    harness_run("dropped as they are lost", dropped_as_they_are_lost);
    harness_run("closed while they are lost", closed_while_they_are_lost);
    harness_run("closed within a callback", closed_within_a_callback);
    harness_run("a stuck follower is left", a_stuck_follower_is_left);
    harness_run("a stuck leader is left", a_stuck_leader_is_left);
    harness_run("kept while leaders are killed", kept_while_leaders_are_killed);
    return harness_finish();
}
