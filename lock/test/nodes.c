#include "lock/test/nodes.h"

#include <stdlib.h>
#include <string.h>

enum lock_status nodes_try(struct lock *lock, const char *key) {
    struct lock_grant grant;
    return lock_try(lock, key, &grant);
}

struct nodes nodes;

void nodes_start(int count, bool proxies) {
    nodes = (struct nodes){.count = count};
    for (int i = 0; i < count; i++) {
        redis_start(&nodes.redis[i], NULL);
        if (proxies)
            nodes.proxy[i] = proxy_start(nodes.redis[i].port);
    }
}

const char *nodes_url(int64_t ttl_ms) {
    const char *url = "redlock://";
    for (int i = 0; i < nodes.count; i++)
        url = harness_format("%s%s127.0.0.1:%d", url, i ? "," : "",
                             nodes.proxy[i] ? proxy_port(nodes.proxy[i]) : nodes.redis[i].port);
    return harness_format("%s?ttl=%lld", url, (long long)ttl_ms);
}

struct lock *nodes_open(int64_t ttl_ms) {
    return tools_open(NULL, nodes_url(ttl_ms));
}

struct lock *nodes_begin(int64_t ttl_ms, bool proxies) {
    nodes_start(3, proxies);
    return nodes_open(ttl_ms);
}

const char *nodes_value(int node, const char *key) {
    return redis_command(&nodes.redis[node], "GET", harness_format("lock:{%s}", key), NULL);
}

bool nodes_has(int node, const struct lock_grant *grant) {
    return strncmp(nodes_value(node, grant->key), grant->owner, strlen(grant->owner)) == 0;
}

static long figure(int node, const char *section, const char *name) {
    const char *info = redis_command(&nodes.redis[node], "INFO", section, NULL);
    const char *at = strstr(info, name);
    return at ? strtol(at + strlen(name), NULL, 10) : 0;
}

long nodes_scripts(int node) {
    return figure(node, "commandstats", "cmdstat_eval:calls=");
}

long nodes_expired(int node) {
    return figure(node, "stats", "expired_keys:");
}

struct gone {
    int node;
    const char *key;
    long scripts;
};

static bool is_gone(void *arg) {
    const struct gone *gone = arg;
    return nodes_scripts(gone->node) >= gone->scripts &&
           strcmp(nodes_value(gone->node, gone->key), "(nil)") == 0;
}

void nodes_wait_gone(int node, const char *key, long scripts) {
    CHECK(harness_wait(is_gone, &(struct gone){node, key, scripts}, PATIENCE_MS));
    CHECK_INT(nodes_expired(node), 0);
}
