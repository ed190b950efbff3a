/* Leases that are kept alive, and lost. */
#include <pthread.h>
#include <stdio.h>

#include "lock/libetcd/test/kept.h"

static struct etcd_server server;

/* ---- on one server ---- */

static void kept_alive(void) {
    struct kept *kept = kept_make();
    struct kept *not_renewed = kept_make();
    struct etcd *etcd = tools_open(&server, 1);
    kept_new(etcd, kept, 1, 200);
    kept_new(etcd, not_renewed, 1, 60000);
    int64_t before_ns = etcd_keep_deadline_ns(kept->keep);
    for (int i = 0; i < 30; i++) {
        kept_check(etcd, kept);
        harness_pause_ms(100);
    }
    CHECK(etcd_keep_deadline_ns(kept->keep) > before_ns + 2 * second_ns);
    CHECK_INT(kept->lost, 0);
    CHECK_INT(not_renewed->lost, 1);
    CHECK_INT(etcd_keep_deadline_ns(not_renewed->keep), 0);
    CHECK_STATUS(kept_look(etcd, not_renewed->id, NULL), ETCD_NOT_FOUND);
    kept_drop(kept);
    kept_drop(not_renewed);
}

static void lost_when_revoked(void) {
    struct kept *one = kept_make();
    struct kept *two = kept_make();
    struct kept *other = kept_make();
    struct etcd *etcd = tools_open(&server, 1);
    kept_new(etcd, one, 5, 50);
    kept_granted(etcd, two, one->id, 5, tools_in_ms(0), 70); /* the same lease */
    kept_new(etcd, other, 5, 50);
    harness_pause_ms(300);
    kept_check(etcd, one);
    kept_check(etcd, two);
    CHECK_STATUS(etcd_lease_revoke(etcd, one->id, NULL), ETCD_OK);
    kept_wait_lost(one);
    kept_wait_lost(two);
    CHECK_INT(etcd_keep_deadline_ns(one->keep), 0);
    harness_pause_ms(150);
    CHECK_INT(other->lost, 0);
    kept_check(etcd, other);
}

/* The clock tells, as nobody else does. */
static void lost_while_the_server_stands_still(void) {
    struct kept *kept = kept_make();
    struct etcd *etcd = tools_open(&server, 1);
    kept_new(etcd, kept, 1, 100);
    harness_pause_ms(300);
    etcd_pause(&server);
    harness_pause_ms(50); /* answers that were under way */
    int64_t deadline_ns = etcd_keep_deadline_ns(kept->keep);
    kept_wait_lost(kept);
    etcd_resume(&server);
    CHECK(kept->lost_ns >= deadline_ns);
    printf("     lost %d ms after the deadline\n", (int)((kept->lost_ns - deadline_ns) / 1000000));
    CHECK_INT(etcd_keep_deadline_ns(kept->keep), 0);
    harness_pause_ms(300);
    CHECK_INT(etcd_keep_deadline_ns(kept->keep), 0);
}

static void begun_before_the_server(void) {
    struct kept *kept = kept_make();
    struct kept *dropped = kept_make();
    struct kept *lost = kept_make();
    struct etcd_server later;
    etcd_start(&later, NULL);
    struct etcd *etcd = tools_open(&later, 1);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(etcd, 20);
    etcd_kill(&later);
    struct etcd *late = tools_open(&later, 1);
    kept_granted(late, kept, id, 20, granted_ns, 50);
    kept_granted(late, dropped, id, 20, granted_ns, 50);
    kept_granted(late, lost, id, 1, granted_ns - second_ns, 50); /* its time is over */
    kept_wait_lost(lost);
    kept_drop(dropped);
    etcd_restart(&later);
    int64_t before_ns = etcd_keep_deadline_ns(kept->keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(kept->keep) == before_ns; i++)
        harness_pause_ms(10);
    CHECK(etcd_keep_deadline_ns(kept->keep) > before_ns);
    kept_check(etcd, kept);
}

/* The answer to a renewal of what was dropped says nothing of a later one, which the server never saw. */
static void an_answer_is_nobody_elses(void) {
    struct kept *first = kept_make();
    struct kept *second = kept_make();
    struct kept *other = kept_make();
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *direct = tools_open(&own, 1);
    struct proxy *proxy = proxy_start(own.port);
    const struct etcd_config config = {.endpoints = harness_format("127.0.0.1:%d", proxy_port(proxy)),
                                       .timeout_ms = PATIENCE_MS};
    struct etcd *etcd = tools_open_config(&config);
    int64_t granted_ns = tools_in_ms(0), id = tools_grant(direct, 20);
    CHECK_STATUS(kept_look(etcd, id, NULL), ETCD_OK); /* connected */
    kept_granted(etcd, first, id, 20, granted_ns, 20);
    kept_granted(etcd, other, tools_grant(direct, 20), 20, granted_ns, 20);
    int64_t before_ns = etcd_keep_deadline_ns(first->keep);
    for (int i = 0; i < 1000 && etcd_keep_deadline_ns(first->keep) == before_ns; i++)
        harness_pause_ms(1);
    proxy_set(proxy, PROXY_DELAY, 600, NULL);
    harness_pause_ms(100); /* one has been sent and answered, and the answer is late */
    etcd_pause(&own);
    int64_t paused_ns = tools_in_ms(0);
    kept_drop(first);
    harness_pause_ms(50);
    kept_granted(etcd, second, id, 20, granted_ns, 20);
    harness_pause_ms(1000);
    int64_t deadline_ns = etcd_keep_deadline_ns(second->keep), late_ns = etcd_keep_deadline_ns(other->keep);
    etcd_resume(&own);
    CHECK(late_ns <= paused_ns + 20 * second_ns); /* it counts from when it was sent */
    if (deadline_ns > paused_ns + 20 * second_ns)
        FAIL("%d ms more than the server gave", (int)((deadline_ns - paused_ns) / 1000000 - 20000));
}

static void five_hundred(void) {
    enum { LEASES = 500 };
    static struct kept kept[LEASES];
    struct etcd *etcd = tools_open(&server, 1);
    for (int i = 0; i < LEASES; i++) {
        kept[i] = (struct kept){0};
        kept_new(etcd, &kept[i], 2, 400);
    }
    int64_t until_ns = tools_in_ms(2500);
    for (int i = 0; tools_in_ms(0) < until_ns; i = (i + 7) % LEASES)
        kept_check(etcd, &kept[i]);
    for (int i = 0; i < LEASES; i++) {
        CHECK_INT(kept[i].lost, 0);
        if (i % 2)
            kept_drop(&kept[i]);
    }
    for (int i = 0; i < LEASES; i += 2)
        CHECK_STATUS(etcd_lease_revoke(etcd, kept[i].id, NULL), ETCD_OK);
    for (int i = 0; i < LEASES; i += 2)
        kept_wait_lost(&kept[i]);
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
    struct kept *kept = kept_make();
    struct etcd *etcd = tools_open(&server, 1);
    pthread_t thread;
    kept->held = true;
    kept_granted(etcd, kept, 4711, 1, tools_in_ms(-2000), 50); /* lost at once */
    kept_wait_lost(kept);
    CHECK_INT(pthread_create(&thread, NULL, release_later, kept), 0);
    kept_drop(kept);
    CHECK(kept->arg == kept);
    pthread_join(thread, NULL);
}

static void drop_itself(struct kept *kept) {
    kept_drop(kept);
}

static void drop_the_other(struct kept *kept) {
    kept_drop(kept->arg);
}

static void dropped_from_callbacks(void) {
    struct kept *itself = kept_make();
    struct kept *other = kept_make();
    struct kept *dropper = kept_make();
    struct etcd *etcd = tools_open(&server, 1);
    itself->then = drop_itself;
    dropper->then = drop_the_other;
    dropper->arg = other;
    int64_t id = tools_grant(etcd, 5), now_ns = tools_in_ms(0);
    kept_granted(etcd, itself, id, 5, now_ns, 30);
    kept_granted(etcd, other, tools_grant(etcd, 5), 5, now_ns, 30);
    kept_granted(etcd, dropper, id, 5, now_ns, 30);
    harness_pause_ms(100);
    CHECK_STATUS(etcd_lease_revoke(etcd, id, NULL), ETCD_OK);
    kept_wait_lost(itself);
    kept_wait_lost(dropper);
    CHECK_STATUS(etcd_lease_revoke(etcd, other->id, NULL), ETCD_OK);
    harness_pause_ms(100);
    CHECK_INT(other->lost, 0);
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
            kept_granted(etcd, &kept[i], 1 + i, 1, tools_in_ms(-1000), 50);
            kept_wait_lost(&kept[i]);
            continue;
        }
        kept_granted(etcd, &kept[i], 1 + i, 1, tools_in_ms(-1000 + i % 4 - 1), 50);
        if (i % 3)
            harness_pause_ms(1);
        kept_drop(&kept[i]);
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
        struct kept *kept = kept_make();
        const struct etcd_config config = {.endpoints = i % 2 ? tools_endpoints(&server, 1) : "127.0.0.1:1"};
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        kept->then = begin_a_watch;
        kept->arg = etcd;
        kept_granted(etcd, kept, 4711, 1, tools_in_ms(-1000), 50);
        kept_wait_lost(kept);
        etcd_close(etcd);
        atomic_store(&kept->dropped, true);
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
            kept_granted(etcd, &kept[i][j], 1 + j, 1, tools_in_ms(-1000 + j / 10), 50);
        }
        harness_pause_ms(i % 5);
        etcd_close(etcd);
        for (int j = 0; j < 50; j++)
            atomic_store(&kept[i][j].dropped, true);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
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
    return harness_finish();
}
