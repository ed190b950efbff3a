/* The lock in etcd, when something is lost, or comes late: replies, requests, leases, streams, the store. Two
 * handles are two processes to the store. */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lock/test/etcd_tools.h"

static struct etcd_server etcd;

/* Nothing of the test before is left there. */
static void begin(void) {
    etcd_command(&etcd, "del", "--prefix", "lock/", NULL);
}

static struct lock *open_lock(const char *options) {
    return etcd_tools_open(&etcd, options);
}

/* ---- replies that are lost ---- */

/* It was done, and the reply does not come; then the connection breaks. */
static void lose_reply(struct proxy *proxy, const char *key, int count) {
    etcd_tools_wait_for_queue(&etcd, key, count);
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
}

static void *release_it(void *arg) {
    struct tools_waiter *waiter = arg;
    waiter->status = lock_release(waiter->lock, &waiter->grant);
    return NULL;
}

/* LOCK_OK, or LOCK_UNKNOWN where this machine was too slow: then it was asked for as long as a release asks.
 */
static enum lock_status release_and_lose_reply(struct proxy *proxy, struct tools_waiter *waiter) {
    enum { ASKS_FOR_MS = 500 };
    proxy_set(proxy, PROXY_DELAY, 60000, "lock/a ");
    int64_t began_ms = harness_now_ms();
    CHECK_INT(pthread_create(&waiter->thread, NULL, release_it, waiter), 0);
    lose_reply(proxy, "a", 0);
    enum lock_status status = tools_join(waiter);
    if (status != LOCK_UNKNOWN || harness_now_ms() - began_ms < ASKS_FOR_MS)
        tools_check_status(status, LOCK_OK);
    return status;
}

static void lost_replies(void) {
    enum { TIMES = 3, TRIES = 20 };
    begin();
    struct proxy *proxy = proxy_start(etcd.port);
    struct lock *lock = etcd_tools_open_by(proxy, "ttl=60000");
    tools_use(lock, "a");
    for (int known = 0, tries = 0; known < TIMES; tries++) {
        CHECK(tries < TRIES);
        proxy_set(proxy, PROXY_DELAY, 60000, "lock/a ");
        struct tools_waiter *waiter = tools_wait(lock, "a", PATIENCE_MS, NULL);
        lose_reply(proxy, "a", 1);
        tools_check_status(tools_join(waiter), LOCK_OK);
        CHECK_STR(etcd_tools_field(&etcd, "lock/a ", 0, "CreateRevision"),
                  harness_format("%llu", (unsigned long long)waiter->grant.fence));
        CHECK_STR(etcd_tools_field(&etcd, "lock/a ", 0, "Value"), waiter->grant.owner);
        CHECK_INT(etcd_tools_count(&etcd, "lock/"), 1);
        known += release_and_lose_reply(proxy, waiter) == LOCK_OK;
        etcd_tools_check_no_trace(&etcd);
    }
}

/* ---- requests that come late ---- */

enum { PAIRS_MAX = 16, CHUNK = 65536 };

/* A way to the server that holds back the first request with a certain text, and delivers it when it is told
 * to, however long its sender has given it up. What its sender sent after that on the same connection is
 * lost. */
static struct late {
    pthread_t thread;
    pthread_mutex_t mutex; /* for what follows */
    char text[64];         /* "": none is expected */
    bool stopping, has, delivers;
    size_t size;
    char chunk[CHUNK]; /* what is held back */
    int listener;      /* from here on the thread's */
    int count, held;   /* held: the pair whose request it is; -1: none */
    int client[PAIRS_MAX], server[PAIRS_MAX];
} late;
static struct proxy *other_way;

static int late_socket(int port, bool listens) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listens ? bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 16) != 0
                : connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        FAIL("no socket at port %d", port);
    return fd;
}

static void late_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void late_accept(void) {
    CHECK(late.count < PAIRS_MAX);
    late.client[late.count] = accept4(late.listener, NULL, NULL, SOCK_CLOEXEC);
    late.server[late.count] = late_socket(etcd.port, false);
    late.count++;
}

static void late_pass_request(int i) {
    char data[CHUNK];
    ssize_t got = recv(late.client[i], data, sizeof data, 0);
    if (got > 0 && i == late.held)
        return; /* lost */
    if (got > 0 && *late.text && memmem(data, (size_t)got, late.text, strlen(late.text))) {
        memcpy(late.chunk, data, (size_t)got);
        late.size = (size_t)got;
        late.has = true;
        late.held = i;
        *late.text = '\0';
        return;
    }
    if (got > 0 && send(late.server[i], data, (size_t)got, MSG_NOSIGNAL) == got)
        return;
    late_close(&late.client[i]);
    if (i != late.held)
        late_close(&late.server[i]);
}

static void late_pass_reply(int i) {
    char data[CHUNK];
    ssize_t got = recv(late.server[i], data, sizeof data, 0);
    if (got <= 0)
        late_close(&late.server[i]);
    else if (late.client[i] >= 0)
        send(late.client[i], data, (size_t)got, MSG_NOSIGNAL);
}

static void *late_carry(void *arg) {
    (void)arg;
    for (bool stopping = false; !stopping;) {
        struct pollfd polled[1 + 2 * PAIRS_MAX] = {{.fd = late.listener, .events = POLLIN}};
        int count = late.count;
        for (int i = 0; i < count; i++) {
            polled[1 + 2 * i] = (struct pollfd){.fd = late.client[i], .events = POLLIN};
            polled[2 + 2 * i] = (struct pollfd){.fd = late.server[i], .events = POLLIN};
        }
        poll(polled, (nfds_t)(1 + 2 * count), 10);
        pthread_mutex_lock(&late.mutex);
        if (polled[0].revents)
            late_accept();
        for (int i = 0; i < count; i++) {
            if (polled[1 + 2 * i].revents)
                late_pass_request(i);
            if (polled[2 + 2 * i].revents && late.server[i] >= 0)
                late_pass_reply(i);
        }
        if (late.delivers && late.size)
            send(late.server[late.held], late.chunk, late.size, MSG_NOSIGNAL);
        if (late.delivers)
            late.size = 0;
        stopping = late.stopping;
        pthread_mutex_unlock(&late.mutex);
    }
    return NULL;
}

static void late_stop(void *arg) {
    (void)arg;
    pthread_mutex_lock(&late.mutex);
    late.stopping = true;
    pthread_mutex_unlock(&late.mutex);
    pthread_join(late.thread, NULL);
    for (int i = 0; i < late.count; i++) {
        late_close(&late.client[i]);
        late_close(&late.server[i]);
    }
    late_close(&late.listener);
    pthread_mutex_destroy(&late.mutex);
}

/* A lock that goes to the store by the late way, and by another once that is silent. */
static struct lock *open_late(void) {
    int port = harness_free_port();
    memset(&late, 0, sizeof late);
    late.held = -1;
    late.listener = late_socket(port, true);
    pthread_mutex_init(&late.mutex, NULL);
    CHECK_INT(pthread_create(&late.thread, NULL, late_carry, NULL), 0);
    harness_defer(late_stop, NULL);
    other_way = proxy_start(etcd.port);
    proxy_set(other_way, PROXY_REFUSE, 0, NULL);
    struct lock *lock = tools_open(
        NULL, harness_format("etcd://127.0.0.1:%d,127.0.0.1:%d?ttl=4000", port, proxy_port(other_way)));
    tools_use(lock, "a");
    return lock;
}

/* From now on it waits for a request about the key "a". */
static void late_expect(void) {
    pthread_mutex_lock(&late.mutex);
    snprintf(late.text, sizeof late.text, "lock/a ");
    pthread_mutex_unlock(&late.mutex);
}

static bool late_has(void *arg) {
    (void)arg;
    pthread_mutex_lock(&late.mutex);
    bool has = late.has;
    pthread_mutex_unlock(&late.mutex);
    return has;
}

static void late_wait(void) {
    CHECK(harness_wait(late_has, NULL, PATIENCE_MS));
}

static bool has_one_more(void *txns) {
    return etcd_tools_requests(&etcd) > *(long long *)txns;
}

/* Returns when the server has carried it out. */
static void late_deliver(void) {
    long long before = etcd_tools_requests(&etcd);
    pthread_mutex_lock(&late.mutex);
    late.delivers = true;
    pthread_mutex_unlock(&late.mutex);
    CHECK(harness_wait(has_one_more, &before, PATIENCE_MS));
}

/* An attempt ends as unknown. Nothing is known to be left, and no thread asks for anything any more, when the
 * request comes: it puts nothing. */
static void a_late_request_of_one_who_gave_up(void) {
    begin();
    struct lock *lock = open_late();
    struct lock_grant grant;
    late_expect();
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 100), NULL, &grant), LOCK_UNKNOWN);
    late_wait();
    long long txns = etcd_tools_requests(&etcd);
    proxy_set(other_way, PROXY_PASS, 0, NULL);
    CHECK(harness_wait(has_one_more, &txns, PATIENCE_MS)); /* it is withdrawn, */
    harness_pause_ms(300);                                 /* whatever that takes */
    late_deliver();
    etcd_tools_wait_for_queue(&etcd, "a", 0);
}

/* The one before in the same process was given back with a request that comes late: in the meantime its name
 * is that of the holder. */
static void a_late_gift(void) {
    enum { NAMES = 16 };
    begin();
    struct lock *lock = open_late();
    struct lock_grant grant = tools_acquire(lock, "a");
    struct tools_waiter *waiter = tools_wait(lock, "a", PATIENCE_MS, NULL);
    tools_wait_for_waiters(lock, 1);
    proxy_set(other_way, PROXY_PASS, 0, NULL);
    late_expect();
    tools_release(lock, &grant);
    char name = grant.owner[LOCK_OWNER_SIZE - 2];
    tools_check_status(tools_join(waiter), LOCK_OK);
    late_wait();
    grant = waiter->grant;
    for (int i = 0; i < NAMES && grant.owner[LOCK_OWNER_SIZE - 2] != name; i++) {
        tools_release(lock, &grant);
        grant = tools_acquire(lock, "a");
    }
    CHECK_INT(grant.owner[LOCK_OWNER_SIZE - 2], name);
    CHECK_INT(etcd_tools_count(&etcd, "lock/a "), 1);
    late_deliver();
    CHECK_INT(etcd_tools_count(&etcd, "lock/a "), 1);
    CHECK_STR(etcd_tools_field(&etcd, "lock/a ", 0, "Value"), grant.owner);
    tools_release(lock, &grant);
}

/* A release is carried out late: by then another owner has a key of the
 * same name. */
static void a_late_deletion(void) {
    enum { NAMES = 16 };
    begin();
    struct lock *lock = open_late();
    struct lock_grant grant = tools_acquire(lock, "a"), given = grant;
    proxy_set(other_way, PROXY_PASS, 0, NULL);
    late_expect();
    tools_release(lock, &grant);
    late_wait();
    etcd_tools_check_no_trace(&etcd);
    do {
        grant = tools_acquire(lock, "a");
        if (grant.owner[LOCK_OWNER_SIZE - 2] == given.owner[LOCK_OWNER_SIZE - 2])
            break;
        tools_release(lock, &grant);
    } while (true);
    CHECK_INT(etcd_tools_count(&etcd, "lock/a "), 1);
    late_deliver();
    CHECK_INT(etcd_tools_count(&etcd, "lock/a "), 1);
    CHECK_STR(etcd_tools_field(&etcd, "lock/a ", 0, "Value"), grant.owner);
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    tools_release(lock, &grant);
    etcd_tools_check_no_trace(&etcd);
    for (int i = 0; i < 2 * NAMES; i++) /* each name once more */
        tools_check_free(lock, "a");
}

/* ---- leases that are lost ---- */

/* The lease is lost while nothing is held: no holder is told. */
static void lost_while_idle(void) {
    begin();
    struct lock *lock = open_lock("");
    for (int i = 0; i < 2; i++) {
        struct lock_grant grant = tools_acquire(lock, "a");
        const char *lease = etcd_tools_lease(&etcd, "a", 0);
        tools_release(lock, &grant);
        etcd_tools_revoke(&etcd, lease);
        tools_check_free(lock, "a");
    }
}

static bool has_a_lease_or_gave_up(void *arg) {
    return ((struct tools_waiter *)arg)->done ||
           strchr(etcd_command(&etcd, "lease", "list", NULL), '\n') != NULL;
}

static void revoke_all(void) {
    char *leases = harness_format("%s", etcd_command(&etcd, "lease", "list", NULL));
    strsep(&leases, "\n"); /* how many they are */
    for (char *lease; (lease = strsep(&leases, "\n"));)
        etcd_tools_revoke(&etcd, lease);
}

/* The lease is lost before anything hangs on it: another one is got, and the lock with that. A busy machine
 * may take longer to see and revoke it than the call waits for its reply: then it is tried again. */
static void lost_when_new(void) {
    enum { LATE_MS = 400, TRIES = 10 };
    etcd_start(&etcd, NULL);
    struct proxy *proxy = proxy_start(etcd.port);
    struct lock *lock = etcd_tools_open_by(proxy, "ttl=60000");
    enum lock_status status = LOCK_UNAVAILABLE;
    struct tools_waiter *waiter = NULL;
    bool was_late = true;
    for (int i = 0; i < TRIES && was_late && status == LOCK_UNAVAILABLE; i++) {
        int64_t began_ms = harness_now_ms();
        proxy_set(proxy, PROXY_DELAY, 700, NULL);
        waiter = tools_wait(lock, "a", PATIENCE_MS, NULL);
        CHECK(harness_wait(has_a_lease_or_gave_up, waiter, PATIENCE_MS));
        revoke_all();
        proxy_set(proxy, PROXY_PASS, 0, NULL);
        was_late = harness_now_ms() - began_ms > LATE_MS;
        status = tools_join(waiter);
    }
    tools_check_status(status, LOCK_OK);
    tools_release(lock, &waiter->grant);
    etcd_tools_check_no_trace(&etcd);
}

/* Until it is had, whatever the store does meanwhile. */
static void *go_on(void *arg) {
    struct tools_waiter *waiter = arg;
    do {
        waiter->status =
            lock_acquire(waiter->lock, waiter->key, waiter->deadline_ns, waiter->cancel, &waiter->grant);
    } while (waiter->status == LOCK_UNAVAILABLE || waiter->status == LOCK_UNKNOWN);
    waiter->done = true;
    return NULL;
}

static struct tools_waiter *persist(struct lock *lock, const char *key) {
    return tools_wait_by(go_on, lock, key, 3LL * PATIENCE_MS, NULL);
}

/* The store stands still for longer than the leases live. */
static void the_store_is_paused(void) {
    enum { LEASE_MS = 3000 };
    begin();
    struct lock *holder = open_lock("ttl=1000"), *other = open_lock("ttl=1000");
    struct lock_grant held = tools_acquire(holder, "a");
    struct tools_waiter *waiter = persist(other, "a");
    etcd_tools_wait_for_queue(&etcd, "a", 2);
    etcd_pause(&etcd);
    int64_t paused_ms = harness_now_ms();
    tools_check_status(lock_release(holder, &held), LOCK_UNKNOWN);
    while (harness_now_ms() - paused_ms < LEASE_MS + 300)
        harness_pause_ms(10);
    CHECK(!waiter->done);
    etcd_resume(&etcd);
    tools_check_status(tools_join(waiter), LOCK_OK);
    CHECK(waiter->grant.fence > held.fence);
    lock_release(other, &waiter->grant);
    etcd_tools_wait_for_queue(&etcd, "a", 0);
    tools_use(holder, "a");
    tools_check_free(other, "a");
}

/* ---- streams that break, and a store that forgets ---- */

static void compact(void) {
    const char *revision = etcd_tools_field(&etcd, "lock session ", 0, "Revision");
    etcd_command(&etcd, "put", "something", "else", NULL);
    CHECK_HAS(etcd_command(&etcd, "compact", revision, NULL), "compacted");
}

/* The watch receives nothing while the lock is released, and the events are lost. */
static void compacted_while_deaf(void) {
    begin();
    struct proxy *proxy = proxy_start(etcd.port);
    struct lock *holder = open_lock("ttl=60000"), *other = etcd_tools_open_by(proxy, "ttl=60000");
    for (int i = 0; i < 2; i++) {
        struct lock_grant held = tools_acquire(holder, "a");
        struct tools_waiter *waiter = persist(other, "a");
        etcd_tools_wait_for_queue(&etcd, "a", 2);
        harness_pause_ms(100); /* it watches */
        proxy_set(proxy, PROXY_REFUSE, 0, NULL);
        tools_release(holder, &held);
        compact();
        compact();
        CHECK(!waiter->done);
        proxy_set(proxy, PROXY_PASS, 0, NULL);
        tools_serve(waiter);
        etcd_tools_wait_for_queue(&etcd, "a", 0);
    }
}

/* The store is killed while an owner waits: its keys stay, and so do the places in the queue. */
static void killed_while_waiting(void) {
    etcd_start(&etcd, NULL);
    struct proxy *proxy = proxy_start(etcd.port);
    struct lock *holder = open_lock("ttl=60000"), *other = etcd_tools_open_by(proxy, "ttl=60000");
    struct lock_grant held = tools_acquire(holder, "a");
    struct tools_waiter *waiter = persist(other, "a");
    etcd_tools_wait_for_queue(&etcd, "a", 2);
    etcd_kill(&etcd);
    etcd_restart(&etcd);
    harness_pause_ms(100);
    CHECK(!waiter->done);
    proxy_set(proxy, PROXY_REFUSE, 0, NULL); /* and is away again when the waiter becomes the first */
    CHECK(lock_remaining_ns(holder, &held) > 0);
    tools_release(holder, &held);
    etcd_kill(&etcd);
    etcd_restart(&etcd);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    CHECK(tools_serve(waiter) > held.fence);
    etcd_tools_wait_for_queue(&etcd, "a", 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    etcd_start(&etcd, NULL);
    harness_run("lost replies", lost_replies);
    harness_run("a late request of one who gave up", a_late_request_of_one_who_gave_up);
    harness_run("a late gift", a_late_gift);
    harness_run("a late deletion", a_late_deletion);
    harness_run("lost while idle", lost_while_idle);
    harness_run("the store is paused", the_store_is_paused);
    harness_run("compacted while deaf", compacted_while_deaf);
    /* With a server of their own, which these kill, or look into. */
    harness_run("lost when new", lost_when_new);
    harness_run("killed while one waits", killed_while_waiting);
    return harness_finish();
}
