#include "base/redis_url.h"

#include <stdio.h>
#include <string.h>

#include "base/url_parts.h"

static const char sentinel_scheme[] = "redis-sentinel://", cluster_scheme[] = "redis-cluster://";
enum { SENTINEL_PORT = 26379, CLUSTER_PORT = 6379 };

static bool fail(const struct redis_url *url, char *error, size_t size, const char *what) {
    snprintf(error, size, "%s (want %s)", what,
             url->kind == REDIS_URL_SENTINEL ? "redis-sentinel://[[user]:password@]host[:port],host,…/MASTER"
                                             : "redis-cluster://[[user]:password@]host[:port],host,…");
    return false;
}

/* user:password or :password */
static bool read_userinfo(struct redis_target *all, const char *text, size_t length) {
    const char *colon = memchr(text, ':', length);
    return colon && percent_decode(all->user, sizeof all->user, text, (size_t)(colon - text)) &&
           percent_decode(all->password, sizeof all->password, colon + 1,
                          length - (size_t)(colon + 1 - text));
}

/* host,host,… */
static bool read_servers(struct redis_url *url, const struct redis_target *all, const char *text,
                         size_t length, char *error, size_t size) {
    const char *end = text + length;
    char what[100];
    while (true) {
        const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma ? comma : end;
        struct host host;
        if (url->count == REDIS_URL_SERVERS_MAX)
            return fail(url, error, size, "these are more servers than the 16 that can be named");
        const char *wrong = host_read(&host, text, (size_t)(stop - text),
                                      url->kind == REDIS_URL_SENTINEL ? SENTINEL_PORT : CLUSTER_PORT);
        if (!wrong && host.length >= sizeof all->host)
            wrong = "is too long";
        if (wrong) {
            snprintf(what, sizeof what, "host %d %s", url->count + 1, wrong);
            return fail(url, error, size, what);
        }
        struct redis_target *server = &url->servers[url->count++];
        *server = *all;
        memcpy(server->host, host.name, host.length);
        server->host[host.length] = '\0';
        server->port = host.port;
        if (!comma)
            return true;
        text = comma + 1;
    }
}

/* What follows the hosts: the master's name after a slash, or nothing. */
static const char *read_path(struct redis_url *url, const char *path) {
    if (url->kind == REDIS_URL_CLUSTER)
        return *path == '\0' || strcmp(path, "/") == 0 ? NULL : "a cluster has no databases, and no path";
    size_t length = *path == '/' ? strlen(path + 1) : 0;
    if (length == 0)
        return "the name of the master is missing";
    if (strpbrk(path + 1, "/?#") || !percent_decode(url->master, sizeof url->master, path + 1, length))
        return "the name of the master is too long, or has a sign that no name has";
    return NULL;
}

bool redis_url_parse(struct redis_url *url, const char *text, char *error, size_t error_size) {
    struct redis_url read = {.kind = REDIS_URL_ONE};
    struct redis_target all = {.host = ""};
    const char *rest = text;
    if (strncmp(text, sentinel_scheme, sizeof sentinel_scheme - 1) == 0) {
        read.kind = REDIS_URL_SENTINEL;
        rest += sizeof sentinel_scheme - 1;
    } else if (strncmp(text, cluster_scheme, sizeof cluster_scheme - 1) == 0) {
        read.kind = REDIS_URL_CLUSTER;
        rest += sizeof cluster_scheme - 1;
    } else {
        if (!redis_target_parse(&read.servers[0], text, error, error_size))
            return false;
        read.count = 1;
        *url = read;
        return true;
    }
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127)
            return fail(&read, error, error_size, "it has a control character, perhaps the end of a line");
    }
    size_t authority = strcspn(rest, "/?#");
    const char *path = rest + authority, *at = memrchr(rest, '@', authority);
    if (at && memchr(rest, ',', (size_t)(at - rest))) /* or a part of the hosts would be taken for it */
        return fail(&read, error, error_size, "a comma in user or password is written %2C");
    if (at && !read_userinfo(&all, rest, (size_t)(at - rest)))
        return fail(&read, error, error_size,
                    "user or password is wrong (write user:password@ or :password@, other signs as %XX)");
    rest = at ? at + 1 : rest;
    if (!read_servers(&read, &all, rest, (size_t)(path - rest), error, error_size))
        return false;
    const char *wrong = read_path(&read, path);
    if (wrong)
        return fail(&read, error, error_size, wrong);
    *url = read;
    return true;
}

void redis_url_print(const struct redis_url *url, char *out, size_t out_size) {
    if (url->kind == REDIS_URL_ONE) {
        redis_target_print(&url->servers[0], out, out_size);
        return;
    }
    size_t length = (size_t)snprintf(out, out_size, "%s",
                                     url->kind == REDIS_URL_SENTINEL ? sentinel_scheme : cluster_scheme);
    for (int i = 0; i < url->count && length < out_size; i++) {
        const struct redis_target *server = &url->servers[i];
        length += (size_t)snprintf(out + length, out_size - length,
                                   strchr(server->host, ':') ? "%s[%s]:%d" : "%s%s:%d", i ? "," : "",
                                   server->host, server->port);
    }
    if (url->kind == REDIS_URL_SENTINEL && length < out_size)
        snprintf(out + length, out_size - length, "/%s", url->master);
}
