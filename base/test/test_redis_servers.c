/* The servers of a cluster: made-up ones, of which one server tells the map of slots. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/redis/blocking/servers.h"
#include "test/harness.h"

enum { MASTERS = 6, TIMEOUT_MS = 270, PATIENCE_MS = 20000 };

static int ports[MASTERS];

static int open_listener(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 64) == 0 &&
          getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *port = ntohs(address.sin_port); /* the system has chosen one that is free */
    return fd;
}

/* To one client, who logs in, asks for the epoch and then for the map. The slots are those of the first
 * masters.
 */
static void tell_map(int listener, int epoch, int masters) {
    char info[64], map[1024], request[256];
    int info_length = snprintf(info, sizeof info, "$24\r\ncluster_current_epoch:%02d\r\n", epoch);
    int length = snprintf(map, sizeof map, "*%d\r\n", masters);
    for (int i = 0; i < masters; i++)
        length += snprintf(map + length, sizeof map - (size_t)length,
                           "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", REDIS_SLOTS * i / MASTERS,
                           REDIS_SLOTS * (i + 1) / MASTERS - 1, ports[i]);
    int fd = accept(listener, NULL, NULL);
    if (read(fd, request, sizeof request) > 0 && write(fd, "+OK\r\n", 5) == 5 &&
        read(fd, request, sizeof request) > 0 && write(fd, info, (size_t)info_length) == info_length &&
        read(fd, request, sizeof request) > 0)
        (void)!write(fd, map, (size_t)length);
    close(fd);
}

static void *tell(void *listener) {
    tell_map(*(int *)listener, 2, MASTERS);
    return NULL;
}

static _Atomic bool tells_newest;

/* At first the last slots are nobody's. Then the server tells an older map, and then one that is not older.
 */
static void *tell_more(void *listener) {
    tell_map(*(int *)listener, 2, MASTERS - 1);
    tell_map(*(int *)listener, 1, MASTERS);
    tells_newest = true;
    tell_map(*(int *)listener, 2, MASTERS);
    return NULL;
}

static const char *key_at(int master) {
    for (int i = 0;; i++) {
        const char *key = harness_format("%d", i);
        if (redis_slot(key, strlen(key)) * MASTERS / REDIS_SLOTS == master)
            return key;
    }
}

/* Each subscriber is in a connect of a second, and none at the same point of it: who waits for one after the
 * other, and tells each only then, waits for almost six seconds. */
static void closed(void) {
    enum { APART_MS = 180, MOST_MS = 3000 };
    struct redis_hooks hooks = {.channel = "news"};
    struct redis_url url;
    char why[200];
    int port, listener = open_listener(&port), hung[MASTERS];
    pthread_t thread;
    for (int i = 0; i < MASTERS; i++)
        hung[i] = open_listener(&ports[i]);
    CHECK_INT(pthread_create(&thread, NULL, tell, &listener), 0);
    CHECK(redis_url_parse(&url, harness_format("redis-cluster://127.0.0.1:%d", port), why, sizeof why));
    struct redis_servers *servers = redis_servers_open(&url, TIMEOUT_MS, &hooks);
    for (int i = MASTERS; i-- > 0;) {
        CHECK(!redis_servers_are_subscribed(servers, key_at(i), true));
        harness_pause_ms(APART_MS);
    }
    pthread_join(thread, NULL);
    int64_t since_ms = harness_now_ms();
    redis_servers_close(servers);
    int64_t took_ms = harness_now_ms() - since_ms;
    if (took_ms > MOST_MS)
        FAIL("closing took %d ms", (int)took_ms);
    for (int i = 0; i < MASTERS; i++)
        close(hung[i]);
    close(listener);
}

static _Atomic int moves;

static void on_moved(void *ctx) {
    (void)ctx;
    moves++;
}

/* A key of nobody asks for the map. After the older map only keys are used whose server is known: the map is
 * asked for all the same. */
static bool has_moved(void *servers) {
    redis_servers_are_subscribed(servers, key_at(tells_newest ? 0 : MASTERS - 1), false);
    return moves > 0;
}

static void close_servers(void *servers) {
    redis_servers_close(servers);
}

/* A slot that was nobody's, as far as was known, has a server: that may not have what another granted before.
 * The first map is no such change, and a map that is older than the last one is not believed. */
static void nobodys(void) {
    static struct redis_hooks hooks = {.moved = on_moved};
    struct redis_url url;
    char why[200];
    pthread_t thread;
    moves = 0;
    int listener = open_listener(&ports[0]);
    for (int i = 1; i < MASTERS; i++)
        ports[i] = harness_free_port();
    CHECK_INT(pthread_create(&thread, NULL, tell_more, &listener), 0);
    CHECK(redis_url_parse(&url, harness_format("redis-cluster://127.0.0.1:%d", ports[0]), why, sizeof why));
    struct redis_servers *servers = redis_servers_open(&url, TIMEOUT_MS, &hooks);
    harness_defer(close_servers, servers);
    CHECK(!redis_servers_are_subscribed(servers, key_at(0), false));
    CHECK_INT(moves, 0);
    CHECK(harness_wait(has_moved, servers, PATIENCE_MS));
    CHECK(tells_newest);
    pthread_join(thread, NULL);
    CHECK_INT(moves, 1);
    close(listener);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("closed while all masters hang", closed);
    harness_run("a slot that was nobody's", nobodys);
    return harness_finish();
}
