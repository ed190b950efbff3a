/* Transactions of many threads that go to etcd as one, and what becomes of those that cannot. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/etcd/etcd_store.h"
#include "lock/test/etcd_tools.h"

static struct etcd_server etcd;

/* ---- batches themselves ---- */

static struct lock_env env;
static struct etcd_session *session;
static struct etcd_batch *batch;
static const struct lock_limit patient = {.until_ns = INT64_MAX};

static void wake(void *layer, const char *key, const char *owner) {
    (void)layer, (void)key, (void)owner;
}

static void close_batch(void *arg) {
    (void)arg;
    etcd_batch_free(batch);
    etcd_session_close(session);
}

static void open_batch(int port) {
    const struct lock_config config = {.ctx = NULL};
    char error[LOCK_ERROR_SIZE];
    struct lock_url url;
    void *store;
    lock_env_init(&env, &config);
    env.wake = wake;
    CHECK(lock_url_parse(&url, harness_format("etcd://127.0.0.1:%d?ttl=60000", port), error, sizeof error));
    url.ttl_ms = 60000;
    tools_check_status(etcd_session_open(&url, &env, &store, error, sizeof error), LOCK_OK);
    session = store;
    CHECK((batch = etcd_batch_new(session)) != NULL);
    harness_defer(close_batch, NULL);
}

/* A thread with one operation. */
struct doing {
    pthread_t thread;
    struct etcd_op op;
    struct proxy *then_hangs; /* from this one's reply on it delays those after a "hang-here"; or NULL */
    struct lock_cancel *cancel;
    int64_t revision;
    enum etcd_status status;
    _Atomic int tid;
    _Atomic bool done;
};

static void read_revision(void *ctx, const struct etcd_reply *reply) {
    struct doing *doing = ctx;
    doing->revision = reply->revision;
    if (doing->then_hangs)
        proxy_set(doing->then_hangs, PROXY_DELAY, 60000, "hang-here");
}

static void *run(void *arg) {
    struct doing *doing = arg;
    const struct etcd_txn txn = {.then = &doing->op, .then_count = 1};
    const struct lock_limit limit = {.until_ns = INT64_MAX, .cancel = lock_cancel_of(doing->cancel)};
    doing->tid = gettid();
    doing->status = etcd_batch_do(batch, &txn, &limit, read_revision, doing);
    doing->done = true;
    return NULL;
}

static void start_with(struct doing *doing, struct etcd_op op, struct lock_cancel *cancel) {
    *doing = (struct doing){.op = op, .cancel = cancel};
    CHECK_INT(pthread_create(&doing->thread, NULL, run, doing), 0);
}

static void start(struct doing *doing, struct etcd_op op) {
    start_with(doing, op, NULL);
}

static bool is_done(void *doing) {
    return ((struct doing *)doing)->done;
}

/* Its thread sleeps: it is queued, or waits for etcd. */
static bool is_asleep(void *arg) {
    const struct doing *doing = arg;
    char text[256] = "";
    FILE *stat = doing->tid ? fopen(harness_format("/proc/self/task/%d/stat", doing->tid), "re") : NULL;
    if (!stat)
        return false;
    const char *at = fgets(text, sizeof text, stat) ? strrchr(text, ')') : NULL;
    fclose(stat);
    return at && at[2] == 'S';
}

static struct etcd_op put(const char *key, int64_t lease) {
    return (struct etcd_op){ETCD_PUT,
                            .put = {.key = etcd_text(key), .value = etcd_text("1"), .lease = lease}};
}

static struct etcd_op del(const char *key) {
    return (struct etcd_op){ETCD_DELETE, .del = {.key = etcd_text(key)}};
}

/* Nothing of the test before is left there. */
static void begin(void) {
    etcd_command(&etcd, "del", "--prefix", "", NULL);
}

enum { SLOW_MS = 300 }; /* less than a call may take */

static void connect(void) {
    struct doing doing;
    start(&doing, put("connected", 0));
    pthread_join(doing.thread, NULL);
    CHECK_INT(doing.status, ETCD_OK);
}

/* What comes while two are in flight gathers, and goes as one, in order, once the first is cancelled. Replies
 * come after that, but none once a request has `hangs` in it. On a busy machine some may come too late, and
 * go by themselves: then the test tries again. */
enum { TRIES = 10 };

static void gather(struct proxy *proxy, struct doing *doings, int count, const char *hangs) {
    struct doing first[2];
    struct lock_cancel *cancel = tools_new_cancel();
    connect();
    proxy_set(proxy, PROXY_DELAY, 60000, NULL);
    for (int i = 0; i < 2; i++) {
        start_with(&first[i], put(i ? "second" : "first", 0), i ? NULL : cancel);
        etcd_tools_wait_for(&etcd, i ? "second" : "first", 1);
    }
    for (int i = 0; i < count; i++) {
        CHECK_INT(pthread_create(&doings[i].thread, NULL, run, &doings[i]), 0);
        CHECK(harness_wait(is_asleep, &doings[i], PATIENCE_MS)); /* in this order */
    }
    lock_cancel(cancel);
    pthread_join(first[0].thread, NULL);
    proxy_set(proxy, PROXY_DELAY, 60000, hangs);
    pthread_join(first[1].thread, NULL);
}

static void do_together(struct proxy *proxy, struct doing *doings, const struct etcd_op *ops, int count) {
    for (int i = 0; i < count; i++)
        doings[i] = (struct doing){.op = ops[i]};
    gather(proxy, doings, count, "nothing");
    for (int i = 0; i < count; i++)
        pthread_join(doings[i].thread, NULL);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
}

/* One that is not valid, or hangs on no lease, has etcd refuse the whole: the rest is done all the same. */
static void one_is_refused(void) {
    enum { MANY = 4 };
    begin();
    struct proxy *proxy = proxy_start(etcd.port);
    open_batch(proxy_port(proxy));
    struct doing doings[MANY];
    const struct etcd_op good[] = {put("a", 0), put("b", 0), put("c", 0), del("first")},
                         bad[] = {put("y", 0), put("z", 12345), del("a"), put("", 0)};
    bool as_one = false;
    for (int tries = 0; !as_one && tries < TRIES; tries++) {
        do_together(proxy, doings, good, MANY);
        as_one = true;
        for (int i = 0; i < MANY; i++) {
            CHECK_INT(doings[i].status, ETCD_OK);
            as_one = as_one && doings[i].revision == doings[0].revision;
        }
    }
    CHECK(as_one);
    do_together(proxy, doings, bad, MANY);
    CHECK_INT(doings[0].status, ETCD_OK);
    CHECK_INT(doings[1].status, ETCD_NOT_FOUND); /* no such lease */
    CHECK_INT(doings[2].status, ETCD_OK);
    CHECK_INT(doings[3].status, ETCD_INVALID);
    CHECK_INT(etcd_tools_count(&etcd, "y"), 1);
    CHECK_INT(etcd_tools_count(&etcd, "z"), 0);
    CHECK_INT(etcd_tools_count(&etcd, "a"), 0);
}

/* Where all are refused together each goes alone. Who is done then goes at once, though the next hangs; and
 * once the leader is cancelled nothing more is sent. */
static bool go_one_by_one(struct proxy *proxy) {
    enum { DOINGS = 12, HANGS = 2 };
    struct doing doings[DOINGS];
    struct lock_cancel *cancel = tools_new_cancel();
    for (int i = 0; i < DOINGS; i++)
        doings[i] = (struct doing){.op = i == 1       ? put("no-lease", 12345)
                                         : i == HANGS ? put("hang-here", 0)
                                                      : put("each", 0),
                                   .then_hangs = i == 0 ? proxy : NULL,
                                   .cancel = i == 0 ? cancel : NULL};
    gather(proxy, doings, DOINGS, "nothing");
    CHECK(harness_wait(is_done, &doings[1], PATIENCE_MS));
    harness_pause_ms(50);
    bool good = !doings[DOINGS - 1].done;
    lock_cancel(cancel);
    for (int i = 0; i < DOINGS; i++)
        pthread_join(doings[i].thread, NULL);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    return good && doings[0].status == ETCD_OK && doings[1].status == ETCD_NOT_FOUND &&
           doings[HANGS].status == ETCD_UNKNOWN && doings[DOINGS - 1].status == ETCD_UNAVAILABLE;
}

static void one_by_one(void) {
    begin();
    struct proxy *proxy = proxy_start(etcd.port);
    open_batch(proxy_port(proxy));
    bool good = false;
    for (int tries = 0; !good && tries < TRIES; tries++)
        good = go_one_by_one(proxy);
    CHECK(good);
}

/* A thread without time for a reply, or that is already cancelled, sends nothing. */
static void not_worth_sending(void) {
    enum { CALL_MS = 450 };
    struct doing doing;
    struct lock_cancel *cancel = tools_new_cancel();
    const struct etcd_op op = put("late", 0);
    const struct etcd_txn txn = {.then = &op, .then_count = 1};
    begin();
    open_batch(etcd.port);
    connect();
    for (int i = 0; i < 10; i++) {
        const struct lock_limit limit = {.until_ns = lock_env_now_ns(&env) + CALL_MS / 10 * 1000000L};
        CHECK_INT(etcd_batch_do(batch, &txn, &limit, read_revision, &doing), ETCD_UNAVAILABLE);
    }
    lock_cancel(cancel);
    start_with(&doing, op, cancel);
    pthread_join(doing.thread, NULL);
    CHECK_INT(doing.status, ETCD_UNAVAILABLE);
    CHECK_INT(etcd_tools_count(&etcd, "late"), 0);
}

/* Two are in flight, and of two that wait the first, which leads, is cancelled: the other has its answer.
 * Once nobody else waits for it, it is given up. */
static void a_leader_is_cancelled(void) {
    struct doing first[2], leader, other;
    struct lock_cancel *cancel = tools_new_cancel(), *later = tools_new_cancel();
    begin();
    struct proxy *proxy = proxy_start(etcd.port);
    open_batch(proxy_port(proxy));
    connect();
    proxy_set(proxy, PROXY_DELAY, SLOW_MS, NULL);
    for (int i = 0; i < 2; i++) {
        start(&first[i], put(i ? "second" : "first", 0));
        etcd_tools_wait_for(&etcd, i ? "second" : "first", 1);
    }
    start_with(&leader, put("leader", 0), cancel);
    CHECK(harness_wait(is_asleep, &leader, PATIENCE_MS));
    start(&other, put("other", 0));
    etcd_tools_wait_for(&etcd, "leader", 1); /* both are in flight */
    lock_cancel(cancel);
    pthread_join(other.thread, NULL);
    CHECK_INT(other.status, ETCD_OK);
    pthread_join(leader.thread, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(first[i].thread, NULL);
    proxy_set(proxy, PROXY_DELAY, PATIENCE_MS, NULL);
    start_with(&leader, put("alone", 0), later);
    etcd_tools_wait_for(&etcd, "alone", 1);
    lock_cancel(later);
    pthread_join(leader.thread, NULL);
    CHECK_INT(leader.status, ETCD_UNKNOWN);
}

/* Whatever a grant might be good for otherwise, it is not for longer than its lease; nor on a lease that is
 * not the session's. */
static void grants_of_a_lease(void) {
    enum { TTL_S = 60, LEASE_S = 70, LATE_S = 3600 };
    struct etcd_epoch epoch;
    struct lock_grant grant;
    begin();
    open_batch(etcd.port);
    int64_t before_ns = lock_env_now_ns(&env);
    tools_check_status(etcd_session_get_epoch(session, &epoch, &patient), LOCK_OK);
    tools_check_status(etcd_session_set_deadline(session, epoch.lease, before_ns, &grant), LOCK_OK);
    CHECK_INT(grant.deadline_ns, before_ns + TTL_S * 1000000000LL);
    tools_check_status(
        etcd_session_set_deadline(session, epoch.lease, before_ns + LATE_S * 1000000000LL, &grant), LOCK_OK);
    CHECK(grant.deadline_ns < lock_env_now_ns(&env) + (LEASE_S - 1) * 1000000000LL);
    tools_check_status(etcd_session_set_deadline(session, epoch.lease + 1, before_ns, &grant), LOCK_UNKNOWN);
    CHECK_HAS(
        etcd_command(&etcd, "lease", "revoke", harness_format("%llx", (unsigned long long)epoch.lease), NULL),
        "revoked");
    for (int64_t lease = epoch.lease; epoch.lease == lease; harness_pause_ms(10)) {
        etcd_session_doubt_epoch(session, &epoch);
        tools_check_status(etcd_session_get_epoch(session, &epoch, &patient), LOCK_OK);
    }
    CHECK_INT(epoch.version, 1);
}

/* ---- locks of many threads ---- */

struct taking {
    pthread_t thread;
    struct lock *lock;
    const char *key;
    int turns;
    bool is_free;
    bool was_slow;          /* a call took longer than a store takes that has nothing else to do */
    enum lock_status wrong; /* the first that should not be */
    uint64_t fence;
};

enum { LATE_MS = 100 };

/* A store that shares its machine with much else may take longer than a call waits. Then the turn is tried
 * again: what is in doubt is settled meanwhile. */
static enum lock_status try_patiently(struct taking *taking, struct lock_grant *grant) {
    enum lock_status status, want = taking->is_free ? LOCK_OK : LOCK_BUSY;
    int64_t until_ns = clock_now_ns() + PATIENCE_MS * 1000000LL, began_ns;
    do {
        began_ns = clock_now_ns();
        status = lock_try(taking->lock, taking->key, grant);
        taking->was_slow |= clock_now_ns() - began_ns > LATE_MS * 1000000LL;
    } while (status != want && status != LOCK_OK && taking->was_slow && began_ns < until_ns);
    return status;
}

static void *take_turns(void *arg) {
    struct taking *taking = arg;
    for (int i = 0; i < taking->turns && taking->wrong == LOCK_OK; i++) {
        struct lock_grant grant;
        enum lock_status status = try_patiently(taking, &grant);
        if (status != (taking->is_free ? LOCK_OK : LOCK_BUSY))
            taking->wrong = status == LOCK_OK ? LOCK_STALE : status;
        if (status != LOCK_OK)
            continue;
        if (grant.fence <= taking->fence)
            taking->wrong = LOCK_STALE;
        taking->fence = grant.fence;
        int64_t began_ns = clock_now_ns();
        status = lock_release(taking->lock, &grant);
        taking->was_slow |= clock_now_ns() - began_ns > LATE_MS * 1000000LL;
        if (status != LOCK_OK && !taking->was_slow)
            taking->wrong = status;
    }
    return NULL;
}

/* Two hundred threads, each with a key of its own, and each second one in vain. They share requests, and do
 * not notice. */
static void many_threads(void) {
    enum { THREADS = 200, TURNS = 10, ALONE = THREADS / 2 * TURNS * 3, MOST = ALONE / 4 * 3 };
    static struct taking takings[THREADS];
    static struct lock_grant held[THREADS];
    begin();
    struct lock *lock = etcd_tools_open(&etcd, ""), *other = etcd_tools_open(&etcd, "ttl=60000");
    for (int i = 0; i < THREADS; i++) {
        const char *key = harness_format("key-%d", i);
        takings[i] = (struct taking){.lock = lock, .key = key, .turns = TURNS, .is_free = i % 2 == 0};
        if (i % 2)
            held[i] = tools_acquire(other, key);
    }
    tools_check_free(lock, "warm");
    long long before = etcd_tools_requests(&etcd);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&takings[i].thread, NULL, take_turns, &takings[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(takings[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        tools_check_status(takings[i].wrong, LOCK_OK);
    CHECK(etcd_tools_requests(&etcd) - before < MOST); /* ALONE if each went by itself */
    CHECK_INT(etcd_tools_count(&etcd, "lock/"), THREADS / 2);
    for (int i = 1; i < THREADS; i += 2)
        tools_release(other, &held[i]);
    etcd_tools_check_no_trace(&etcd);
}

/* Somebody has raised the epoch under those who are in flight: they are refused, and go again with another.
 */
static void raised(void) {
    enum { THREADS = 20, TURNS = 20, TIMES = 5 };
    static struct taking takings[THREADS];
    begin();
    struct lock *lock = etcd_tools_open(&etcd, "ttl=60000");
    struct lock_grant grant = tools_acquire(lock, "a");
    const char *epoch = etcd_tools_field(&etcd, "lock session ", 0, "Key");
    const char *lease = etcd_tools_lease(&etcd, "a", 0);
    for (int k = 0; k < TIMES; k++) {
        for (int i = 0; i < THREADS; i++) {
            takings[i] = (struct taking){
                .lock = lock, .key = harness_format("key-%d", i), .turns = TURNS, .is_free = true};
            CHECK_INT(pthread_create(&takings[i].thread, NULL, take_turns, &takings[i]), 0);
        }
        CHECK_STR(etcd_command(&etcd, "put", "--lease", lease, epoch, "", NULL), "OK");
        for (int i = 0; i < THREADS; i++) {
            pthread_join(takings[i].thread, NULL);
            tools_check_status(takings[i].wrong, LOCK_OK);
        }
        tools_check_free(lock, "b");
    }
    CHECK_STR(etcd_tools_lease(&etcd, "a", 0), lease);
    tools_release(lock, &grant);
    etcd_tools_check_no_trace(&etcd);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    etcd_start(&etcd, NULL);
    harness_run("one is refused", one_is_refused);
    harness_run("one by one", one_by_one);
    harness_run("what is not worth sending", not_worth_sending);
    harness_run("a leader is cancelled", a_leader_is_cancelled);
    harness_run("grants of a lease", grants_of_a_lease);
    harness_run("many threads", many_threads);
    harness_run("an epoch that is raised", raised);
    return harness_finish();
}
