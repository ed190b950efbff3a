#include "base/redis/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url_parts.h"

enum { PORT = 6379, SENTINEL_PORT = 26379 };

static const char *const schemes[] = {
    [REDIS_URL_SENTINEL] = "redis-sentinel://",
    [REDIS_URL_CLUSTER] = "redis-cluster://",
};
static const char *const forms[] = {
    [REDIS_URL_ONE] = "redis://[[user]:password@]host[:port][/database] or unix://[:password@]/path",
    [REDIS_URL_SENTINEL] = "redis-sentinel://[[user]:password@]host[:port],host,…/MASTER",
    [REDIS_URL_CLUSTER] = "redis-cluster://[[user]:password@]host[:port],host,…",
};

static bool url_refuse(enum redis_url_kind kind, char *error, size_t size, const char *what) {
    snprintf(error, size, "%s (want %s)", what, forms[kind]);
    return false;
}

/* Reads [user:password@] or [:password@] before `*rest`, and moves `*rest` behind it. The last @ ends the
 * password, so that an @ within it does no harm. A comma would hide a list of servers in the password. NULL,
 * or what is wrong. */
static const char *read_account(struct redis_target *target, const char **rest, size_t authority) {
    const char *text = *rest, *at = memrchr(text, '@', authority);
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127)
            return "it has a control character, perhaps the end of a line";
    }
    if (!at)
        return NULL;
    size_t length = (size_t)(at - text);
    const char *colon = memchr(text, ':', length);
    if (memchr(text, ',', length))
        return "a comma in user or password is written %2C";
    if (!colon || !percent_decode(target->user, sizeof target->user, text, (size_t)(colon - text)) ||
        !percent_decode(target->password, sizeof target->password, colon + 1, (size_t)(at - colon - 1)))
        return "user or password is wrong (write user:password@ or :password@, other signs as %XX)";
    *rest = at + 1;
    return NULL;
}

/* host[:port]. NULL, or what is wrong, to be said of the host. */
static const char *read_host(struct redis_target *target, const char *text, size_t length, int port) {
    struct host host;
    const char *wrong = host_read(&host, text, length, port);
    if (!wrong && host.length >= sizeof target->host)
        wrong = "is too long";
    if (wrong)
        return wrong;
    memcpy(target->host, host.name, host.length);
    target->host[host.length] = '\0';
    target->port = host.port;
    return NULL;
}

/* ---- one server ---- */

/* At most five digits, up to the end of the text. */
static bool read_database(const char *text, int *database) {
    size_t digits = strspn(text, "0123456789");
    *database = (int)strtol(text, NULL, 10);
    return digits >= 1 && digits <= 5 && text[digits] == '\0';
}

/* NULL, or what is wrong. */
static const char *read_unix(struct redis_target *target, const char *path) {
    const char *query = strchr(path, '?');
    size_t length = query ? (size_t)(query - path) : strlen(path);
    if (query && (strncmp(query, "?db=", 4) != 0 || !read_database(query + 4, &target->database)))
        return "what follows the ? is not db=NUMBER";
    if (*path != '/' || !percent_decode(target->host, sizeof target->host, path, length))
        return "the path of the socket must begin with /";
    return NULL;
}

/* NULL, or what is wrong, perhaps written to `what`. */
static const char *read_tcp(struct redis_target *target, const char *rest, char *what, size_t size) {
    const char *slash = strchr(rest, '/');
    size_t length = slash ? (size_t)(slash - rest) : strlen(rest);
    if (strpbrk(rest, "?#"))
        return "a ? or # has no meaning here";
    if (slash && slash[1] && !read_database(slash + 1, &target->database))
        return "the database after the / is not a number";
    if (memchr(rest, ',', length))
        return "the host has a comma, and it is one server";
    const char *wrong = read_host(target, rest, length, PORT);
    if (!wrong)
        return NULL;
    snprintf(what, size, "the host %s", wrong);
    return what;
}

bool redis_target_parse(struct redis_target *target, const char *url, char *error, size_t error_size) {
    struct redis_target read = {.host = ""};
    bool tcp = strncmp(url, "redis://", 8) == 0;
    char what[100];
    if (!tcp && strncmp(url, "unix://", 7) != 0)
        return url_refuse(REDIS_URL_ONE, error, error_size,
                          "the URL begins with neither redis:// nor unix://");
    const char *rest = url + (tcp ? 8 : 7);
    const char *wrong = read_account(&read, &rest, tcp ? strcspn(rest, "/?") : strlen(rest));
    if (!wrong)
        wrong = tcp ? read_tcp(&read, rest, what, sizeof what) : read_unix(&read, rest);
    if (wrong)
        return url_refuse(REDIS_URL_ONE, error, error_size, wrong);
    *target = read;
    return true;
}

void redis_target_print(const struct redis_target *target, char *out, size_t out_size) {
    if (target->port == 0)
        snprintf(out, out_size, "unix://%s?db=%d", target->host, target->database);
    else
        snprintf(out, out_size, strchr(target->host, ':') ? "redis://[%s]:%d/%d" : "redis://%s:%d/%d",
                 target->host, target->port, target->database);
}

bool redis_target_is_same(const struct redis_target *a, const struct redis_target *b) {
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

struct redis_address redis_target_address(const struct redis_target *target) {
    struct redis_address address = {.port = target->port};
    snprintf(address.host, sizeof address.host, "%s", target->host);
    return address;
}

int redis_target_login(const struct redis_target *target, const char *argv[3]) {
    int argc = 0;
    if (!target->user[0] && !target->password[0])
        return 0;
    argv[argc++] = "AUTH";
    if (target->user[0])
        argv[argc++] = target->user;
    argv[argc++] = target->password;
    return argc;
}

/* ---- several servers ---- */

/* host,host,…. NULL, or what is wrong, perhaps written to `what`. */
static const char *read_servers(struct redis_url *url, const char *text, size_t length, char *what,
                                size_t size) {
    const struct redis_target account = url->servers[0];
    const char *end = text + length;
    while (true) {
        const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma ? comma : end;
        if (url->count == REDIS_URL_SERVERS_MAX)
            return "these are more servers than the 16 that can be named";
        struct redis_target *server = &url->servers[url->count++];
        *server = account;
        const char *wrong = read_host(server, text, (size_t)(stop - text),
                                      url->kind == REDIS_URL_SENTINEL ? SENTINEL_PORT : PORT);
        if (wrong) {
            snprintf(what, size, "host %d %s", url->count, wrong);
            return what;
        }
        if (!comma)
            return NULL;
        text = comma + 1;
    }
}

/* What follows the hosts: the master's name after a slash, or nothing. NULL, or what is wrong. */
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

/* The servers behind the scheme. NULL, or what is wrong, perhaps written to `what`. */
static const char *read_several(struct redis_url *url, const char *rest, char *what, size_t size) {
    const char *path = rest + strcspn(rest, "/?#");
    const char *wrong = read_account(&url->servers[0], &rest, (size_t)(path - rest));
    if (!wrong)
        wrong = read_servers(url, rest, (size_t)(path - rest), what, size);
    return wrong ? wrong : read_path(url, path);
}

static bool has_scheme(const char *text, enum redis_url_kind kind) {
    return strncmp(text, schemes[kind], strlen(schemes[kind])) == 0;
}

bool redis_url_parse(struct redis_url *url, const char *text, char *error, size_t error_size) {
    struct redis_url read = {.kind = has_scheme(text, REDIS_URL_SENTINEL)  ? REDIS_URL_SENTINEL
                                     : has_scheme(text, REDIS_URL_CLUSTER) ? REDIS_URL_CLUSTER
                                                                           : REDIS_URL_ONE};
    char what[100];
    if (read.kind == REDIS_URL_ONE) {
        read.count = 1;
        if (!redis_target_parse(&read.servers[0], text, error, error_size))
            return false;
    } else {
        const char *wrong = read_several(&read, text + strlen(schemes[read.kind]), what, sizeof what);
        if (wrong)
            return url_refuse(read.kind, error, error_size, wrong);
    }
    *url = read;
    return true;
}

struct redis_target redis_url_target(const struct redis_url *url, const struct redis_address *address) {
    struct redis_target target = url->servers[0];
    snprintf(target.host, sizeof target.host, "%s", address->host);
    target.port = address->port;
    return target;
}

void redis_url_print(const struct redis_url *url, char *out, size_t out_size) {
    if (url->kind == REDIS_URL_ONE) {
        redis_target_print(&url->servers[0], out, out_size);
        return;
    }
    size_t length = (size_t)snprintf(out, out_size, "%s", schemes[url->kind]);
    for (int i = 0; i < url->count && length < out_size; i++) {
        const struct redis_target *server = &url->servers[i];
        length += (size_t)snprintf(out + length, out_size - length,
                                   strchr(server->host, ':') ? "%s[%s]:%d" : "%s%s:%d", i ? "," : "",
                                   server->host, server->port);
    }
    if (url->kind == REDIS_URL_SENTINEL && length < out_size)
        snprintf(out + length, out_size - length, "/%s", url->master);
}
