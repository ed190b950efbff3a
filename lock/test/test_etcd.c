/* The lock in one etcd: what is in the store, what it costs, who is served when, and who is let in. Two
 * handles are two processes to the store. */
#include <stdlib.h>
#include <string.h>

#include "lock/test/etcd_tools.h"

static struct etcd_server etcd;

/* Nothing of the test before is left there. */
static void begin(void) {
    etcd_command(&etcd, "del", "--prefix", "lock", NULL);
}

static struct lock *open_lock(const char *options) {
    return etcd_tools_open(&etcd, options);
}

/* ---- in the store ---- */

static void in_the_store(void) {
    begin();
    struct lock *lock = open_lock("ttl=5000");
    struct lock_grant grant = tools_acquire(lock, "a");
    CHECK_INT(etcd_tools_count(&etcd, "lock/"), 1);
    CHECK_STR(etcd_tools_field(&etcd, "lock/a ", 0, "Value"), grant.owner);
    CHECK_STR(etcd_tools_field(&etcd, "lock/a ", 0, "CreateRevision"),
              harness_format("%llu", (unsigned long long)grant.fence));
    const char *lease = etcd_tools_lease(&etcd, "a", 0);
    CHECK_HAS(etcd_command(&etcd, "lease", "timetolive", lease, "--keys", NULL), "lock/a ");
    tools_release(lock, &grant);
    etcd_tools_check_no_trace(&etcd);
    CHECK(etcd_tools_count(&etcd, "lock session ") > 0); /* on its lease, until that runs out */
}

/* ---- what it costs ---- */

static bool watches_none(void *lock) {
    tools_use(lock, "free");
    return etcd_tools_watches(&etcd) == 0;
}

/* A lock without waiters is not watched any more after a while, also if there are no other waiters. */
static void watched_no_more(void) {
    enum { KEYS = 20 };
    begin();
    struct lock *holder = open_lock("ttl=60000"), *lock = open_lock("ttl=60000");
    for (int i = 0; i < KEYS; i++) {
        const char *key = harness_format("key-%d", i);
        struct lock_grant held = tools_acquire(holder, key);
        struct tools_waiter *waiter = tools_wait(lock, key, PATIENCE_MS, NULL);
        etcd_tools_wait_for_queue(&etcd, key, 2);
        tools_release(holder, &held);
        tools_serve(waiter);
    }
    CHECK_INT(etcd_tools_watches(&etcd), KEYS);
    CHECK(harness_wait(watches_none, lock, PATIENCE_MS));
}

struct hammer {
    pthread_t thread;
    struct lock *lock;
    const char *key;
    _Atomic long turns;
};

static _Atomic bool stop_hammering;

static void *hammer(void *arg) {
    struct hammer *hammer = arg;
    while (!stop_hammering) {
        struct lock_grant grant = tools_acquire(hammer->lock, hammer->key);
        hammer->turns++;
        tools_release(hammer->lock, &grant);
    }
    return NULL;
}

static void start_hammer(struct hammer *one, struct lock *lock, const char *key) {
    *one = (struct hammer){.lock = lock, .key = key};
    CHECK_INT(pthread_create(&one->thread, NULL, hammer, one), 0);
}

static bool has_had_many_turns(void *hammer) {
    return ((struct hammer *)hammer)->turns > 100;
}

/* Two threads that want it all the time get it by turns. One that only polled, once a second, would take
 * minutes. */
static void woken(void) {
    struct hammer hammers[2];
    begin();
    stop_hammering = false;
    for (int i = 0; i < 2; i++)
        start_hammer(&hammers[i], open_lock("ttl=60000"), "a");
    bool many = harness_wait(has_had_many_turns, &hammers[0], PATIENCE_MS) &&
                harness_wait(has_had_many_turns, &hammers[1], PATIENCE_MS);
    stop_hammering = true;
    for (int i = 0; i < 2; i++)
        pthread_join(hammers[i].thread, NULL);
    CHECK(many);
    etcd_tools_check_no_trace(&etcd);
}

/* ---- giving up ---- */

/* The process of one who waits has died, which is to lose its lease: those behind it wait on, and are served.
 * And if it lives after all it stands at the end. */
static void one_in_the_queue_is_gone(void) {
    begin();
    struct lock *holder = open_lock("ttl=60000");
    struct lock *first = open_lock("ttl=60000"), *second = open_lock("ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    struct tools_waiter *gone = tools_wait(first, "a", PATIENCE_MS, NULL);
    etcd_tools_wait_for_queue(&etcd, "a", 2);
    struct tools_waiter *next = tools_wait(second, "a", PATIENCE_MS, NULL);
    etcd_tools_wait_for_queue(&etcd, "a", 3);
    etcd_tools_revoke(&etcd, etcd_tools_lease(&etcd, "a", 1));
    etcd_tools_wait_for_queue(&etcd, "a", 3); /* again */
    CHECK(!next->done);
    tools_release(holder, &held);
    tools_check_status(tools_join(next), LOCK_OK);
    CHECK(!gone->done);
    tools_release(second, &next->grant);
    CHECK(tools_serve(gone) > next->grant.fence);
    etcd_tools_check_no_trace(&etcd);
}

/* ---- time ---- */

/* A grant has its time to live, and no more, though the lease lives on. */
static void times_to_live(void) {
    static const int ttls_ms[] = {10, 50, 300, 1000, 3000, 10000, 86400000};
    begin();
    for (size_t i = 0; i < sizeof ttls_ms / sizeof *ttls_ms; i++) {
        int64_t ttl_ns = ttls_ms[i] * 1000000LL, before_ns;
        struct lock *lock = open_lock(harness_format("ttl=%d", ttls_ms[i]));
        struct lock_grant grant;
        do { /* the calls of a short one take a few milliseconds at most, or it was not had */
            before_ns = lock_now_ns(lock);
        } while (lock_acquire(lock, "a", tools_in_ms(lock, PATIENCE_MS), NULL, &grant) != LOCK_OK);
        CHECK(grant.deadline_ns >= before_ns + ttl_ns / 8 * 7);
        CHECK(grant.deadline_ns <= lock_now_ns(lock) + ttl_ns);
        if (ttls_ms[i] <= 1000) {
            while (lock_remaining_ns(lock, &grant) > 0)
                harness_pause_ms(1);
            CHECK(lock_now_ns(lock) >= grant.deadline_ns);
            tools_check_status(lock_progress(lock, &grant), LOCK_LOST);
        }
        lock_release(lock, &grant);
        etcd_tools_wait_for_queue(&etcd, "a", 0);
    }
}

static long long seconds_left(const char *lease) {
    const char *said = etcd_command(&etcd, "lease", "timetolive", lease, NULL);
    const char *at = strstr(said, "remaining(");
    return at ? strtoll(at + strlen("remaining("), NULL, 10) : -1;
}

/* The lease has more time left, on the server, than any grant believes; also when nothing is heard any more
 * of its renewals. */
static void grant_and_lease(void) {
    enum { HAMMERS = 4 };
    static const char *const keys[HAMMERS] = {"w", "x", "y", "z"};
    struct hammer hammers[HAMMERS];
    begin();
    struct proxy *proxy = proxy_start(etcd.port);
    struct lock *lock = etcd_tools_open_by(proxy, "ttl=2000");
    stop_hammering = false;
    for (int i = 0; i < HAMMERS; i++)
        start_hammer(&hammers[i], lock, keys[i]);
    struct lock_grant grant = tools_acquire(lock, "a");
    const char *lease = etcd_tools_lease(&etcd, "a", 0);
    for (int i = 0; i < 10; i++) {
        tools_check_status(lock_extend(lock, &grant), LOCK_OK);
        long long left_s = seconds_left(lease); /* whole ones: up to one more */
        CHECK(lock_remaining_ns(lock, &grant) < (left_s + 1) * 1000000000);
    }
    stop_hammering = true;
    for (int i = 0; i < HAMMERS; i++) {
        pthread_join(hammers[i].thread, NULL);
        CHECK(hammers[i].turns > 0);
    }
    proxy_set(proxy, PROXY_DELAY, 60000, NULL);
    while (lock_remaining_ns(lock, &grant) > 0) {
        long long left_s = seconds_left(lease);
        CHECK(lock_remaining_ns(lock, &grant) < (left_s + 1) * 1000000000);
        if (lock_extend(lock, &grant) == LOCK_OK)
            CHECK(lock_remaining_ns(lock, &grant) < (left_s + 1) * 1000000000);
    }
    CHECK(seconds_left(lease) >= 0); /* it outlives the grant */
}

/* ---- passwords ---- */

static struct lock *open_as(const char *who) {
    return tools_open(NULL, harness_format("etcd://%s127.0.0.1:%d?ttl=4000", who, etcd.port));
}

/* Closed at once: what it may not take back it would go on asking for, and passwords cost the server time. */
static void check_denied(const char *who) {
    char error[LOCK_ERROR_SIZE];
    struct lock_grant grant;
    struct lock *lock;
    tools_check_status(lock_open(harness_format("etcd://%s127.0.0.1:%d?ttl=4000", who, etcd.port), NULL,
                                 &lock, error, sizeof error),
                       LOCK_OK);
    tools_check_status(lock_try(lock, "a", &grant), LOCK_UNAVAILABLE);
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 100), NULL, &grant), LOCK_UNAVAILABLE);
    lock_close(lock);
}

static void check_can(const char *who) {
    struct lock *lock = open_as(who), *other = open_as(who);
    /* To check a password is meant to take time, and takes a busy machine longer than a call may. */
    tools_use_at_last(lock, "a");
    tools_use_at_last(other, "a");
    struct lock_grant grant = tools_acquire(lock, "a");
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    harness_pause_ms(100);
    CHECK(!waiter->done);
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    tools_release(lock, &grant);
    tools_serve(waiter);
}

static void passwords(void) {
    etcd_start(&etcd, NULL);
    CHECK_HAS(etcd_command(&etcd, "user", "add", "root:s3cr:et@/?%", NULL), "created");
    CHECK_HAS(etcd_command(&etcd, "user", "grant-role", "root", "root", NULL), "granted");
    CHECK_HAS(etcd_command(&etcd, "user", "add", "al:s3cret", NULL), "created");
    CHECK_HAS(etcd_command(&etcd, "role", "add", "locks", NULL), "created");
    CHECK_HAS(etcd_command(&etcd, "user", "grant-role", "al", "locks", NULL), "granted");
    CHECK_HAS(etcd_command(&etcd, "auth", "enable", NULL), "Enabled");
    check_can("root:s3cr%3aet%40%2F%3f%25@");
    check_can("root:s3cr:et@%2F%3f%25@"); /* what need not be written so */
    check_denied("");
    check_denied("root:s3cr@");
    check_denied("root:@");
    check_denied("nobody:s3cret@");
    /* The permissions are those on the keys of locks. */
    check_denied("al:s3cret@");
    CHECK_HAS(etcd_command(&etcd, "--command-timeout", "20s", "--user", "root:s3cr:et@/?%", "role",
                           "grant-permission", "locks", "readwrite", "--prefix", "lock", NULL),
              "updated");
    check_can("al:s3cret@");
}

/* ---- certificates ---- */

static int start_secure(void) {
    struct etcd_server server;
    etcd_start_tls(&server, "--cert-file", certificate_file("both", "pem"), "--key-file",
                   certificate_file("both", "key"), "--trusted-ca-file", certificate_file("ca", "pem"),
                   "--client-cert-auth", NULL);
    return server.port;
}

static void certificates(void) {
    static const char here[] = "IP:127.0.0.1", both_uses[] = "serverAuth,clientAuth";
    certificate_authority("ca");
    certificate_authority("other");
    certificate_make("both", "ca", 2, here, both_uses);
    certificate_make("stranger", "other", 2, here, both_uses);
    const char *where = harness_format("etcd://127.0.0.1:%d?ttl=4000", start_secure());
    const char *ca = certificate_file("ca", "pem"), *pem = certificate_file("both", "pem"),
               *key = certificate_file("both", "key");
    struct lock *lock = tools_open(NULL, harness_format("%s&ca=%s&cert=%s&key=%s", where, ca, pem, key));
    tools_use(lock, "a");
    const char *const wrong[] = {
        where, harness_format("%s&ca=%s", where, ca),
        harness_format("%s&ca=%s&cert=%s&key=%s", where, certificate_file("other", "pem"), pem, key),
        harness_format("%s&ca=%s&cert=%s&key=%s", where, ca, certificate_file("stranger", "pem"),
                       certificate_file("stranger", "key"))};
    struct lock_grant grant;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        tools_check_status(lock_try(tools_open(NULL, wrong[i]), "a", &grant), LOCK_UNAVAILABLE);
    tools_refuse(harness_format("%s&cert=%s&key=%s", where, pem, key), NULL, "want ");
    tools_refuse(harness_format("%s&ca=%s&cert=%s", where, ca, pem), NULL, "want ");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    etcd_start(&etcd, NULL);
    harness_run("what is in the store", in_the_store);
    harness_run("watched no more", watched_no_more);
    harness_run("woken", woken);
    harness_run("one in the queue is gone", one_in_the_queue_is_gone);
    harness_run("times to live", times_to_live);
    harness_run("a grant and its lease", grant_and_lease);
    /* With servers of their own. */
    harness_run("passwords", passwords);
    harness_run("certificates", certificates);
    return harness_finish();
}
