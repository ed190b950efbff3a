/* A URL of a lock, of a Redis, and an address in a ZooKeeper. What is read of it is whole and can be used;
 * what is not leaves everything as it was, and says why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis/url.h"
#include "lock/zookeeper/zookeeper_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds)
        abort();
}

static void must_be_visible(const char *text) {
    for (; *text; text++)
        must((unsigned char)*text >= ' ' && *text != 127);
}

static void must_be_host(const char *host, size_t length) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:%";
    must(length > 0 && strspn(host, letters) >= length);
}

/* The printed URL means the same server. */
static void read_redis(const char *text) {
    char error[256] = "", printed[512];
    struct redis_target target = {.port = 77}, again;
    if (!redis_target_parse(&target, text, error, sizeof error)) {
        must(target.port == 77 && error[0]);
        return;
    }
    must(target.port >= 0 && target.port <= 65535 && target.database >= 0);
    if (target.port == 0)
        return; /* a path is printed for people */
    must_be_host(target.host, strlen(target.host));
    redis_target_print(&target, printed, sizeof printed);
    if (strchr(target.host, '%'))
        return; /* so is a zone */
    if (!redis_target_parse(&again, printed, error, sizeof error))
        abort();
    must(strcmp(again.host, target.host) == 0 && again.port == target.port &&
         again.database == target.database);
}

static void read_zookeeper(const char *address) {
    char servers[ZOOKEEPER_SERVERS_SIZE], root[ZOOKEEPER_ROOT_SIZE], what[128] = "";
    if (!zookeeper_address_read(address, servers, root, what, sizeof what)) {
        must(what[0]);
        return;
    }
    size_t length = strlen(root);
    must(root[0] == '/' && length >= 5 && strcmp(root + length - 5, "/lock") == 0);
    for (const char *at = servers;; at++) {
        size_t server = strcspn(at, ",");
        must_be_host(at, server);
        must(memrchr(at, ':', server));
        at += server;
        if (!*at)
            break;
    }
}

static void read_lock(const char *text) {
    char error[256] = "";
    struct lock_url url = {.ttl_ms = -1};
    if (!lock_url_parse(&url, text, error, sizeof error)) {
        must(url.ttl_ms == -1 && error[0]);
        return;
    }
    must(url.scheme[0]);
    must(url.ttl_ms == 0 || (url.ttl_ms >= LOCK_TTL_MIN_MS && url.ttl_ms <= LOCK_TTL_MAX_MS));
    must_be_visible(url.address);
    must_be_visible(url.variant);
    must_be_visible(url.ca_file);
    read_zookeeper(url.address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    read_redis(text);
    read_lock(text);
    free(text);
    return 0;
}
