#include "lock/test/nodes.h"

#include <stdlib.h>
#include <string.h>

enum lock_status nodes_try(struct lock *lock, const char *key) {
    struct lock_grant grant;
    return lock_try(lock, key, &grant);
}

void nodes_start(struct nodes *nodes, int count, bool proxies) {
    *nodes = (struct nodes){.count = count};
    for (int i = 0; i < count; i++) {
        redis_start(&nodes->redis[i], NULL);
        if (proxies)
            nodes->proxy[i] = proxy_start(nodes->redis[i].port);
    }
}

struct lock *nodes_open(const struct nodes *nodes, int64_t ttl_ms, const struct lock_config *config) {
    char error[LOCK_ERROR_SIZE];
    struct lock *lock = NULL;
    const char *url = "redlock://";
    for (int i = 0; i < nodes->count; i++)
        url = harness_format("%s%s127.0.0.1:%d", url, i ? "," : "",
                             nodes->proxy[i] ? proxy_port(nodes->proxy[i]) : nodes->redis[i].port);
    url = harness_format("%s?ttl=%lld", url, (long long)ttl_ms);
    if (lock_open(url, config, &lock, error, sizeof error) != LOCK_OK)
        FAIL("%s: %s", url, error);
    return lock;
}

const char *nodes_value(const struct nodes *nodes, int node, const char *key) {
    return redis_command(&nodes->redis[node], "GET", harness_format("lock:{%s}", key), NULL);
}

bool nodes_has(const struct nodes *nodes, int node, const struct lock_grant *grant) {
    return strncmp(nodes_value(nodes, node, grant->key), grant->owner, strlen(grant->owner)) == 0;
}

static long figure(const struct nodes *nodes, int node, const char *section, const char *name) {
    const char *info = redis_command(&nodes->redis[node], "INFO", section, NULL);
    const char *at = strstr(info, name);
    return at ? strtol(at + strlen(name), NULL, 10) : 0;
}

long nodes_scripts(const struct nodes *nodes, int node) {
    return figure(nodes, node, "commandstats", "cmdstat_eval:calls=");
}

long nodes_expired(const struct nodes *nodes, int node) {
    return figure(nodes, node, "stats", "expired_keys:");
}

struct gone {
    struct nodes *nodes;
    int node;
    const char *key;
    long scripts;
};

static bool is_gone(void *arg) {
    const struct gone *gone = arg;
    return nodes_scripts(gone->nodes, gone->node) >= gone->scripts &&
           strcmp(nodes_value(gone->nodes, gone->node, gone->key), "(nil)") == 0;
}

void nodes_wait_gone(struct nodes *nodes, int node, const char *key, long scripts) {
    struct gone gone = {nodes, node, key, scripts};
    CHECK(harness_wait(is_gone, &gone, PATIENCE_MS));
    CHECK_INT(nodes_expired(nodes, node), 0);
}
