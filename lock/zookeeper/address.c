#include "lock/zookeeper/address.h"

#include <stdio.h>
#include <string.h>

#include "base/url_parts.h"

enum { PORT = 2181 };

/* Reads HOST[:PORT], and writes HOST:PORT without brackets, as the C client wants it. Returns NULL, or what
 * is wrong. */
static const char *append_server(char **out, const char *text, size_t length) {
    struct host host;
    if (memchr(text, '@', length))
        return "has a user: there are none";
    const char *wrong = host_read(&host, text, length, PORT);
    if (!wrong)
        *out += sprintf(*out, "%.*s:%d", (int)host.length, host.name, host.port);
    return wrong;
}

/* Returns NULL, or what is wrong. */
static const char *read_chroot(const char *text, char *root) {
    int levels = 0;
    size_t length = strlen(text);
    if (length >= ZOOKEEPER_ROOT_SIZE - sizeof "/lock" + 1)
        return "is too long";
    if (strpbrk(text, " ,#@"))
        return "has a space, a comma, a # or an @ in it; it stands once, behind the last server";
    for (const char *at = text; *at; levels++) {
        size_t level = strcspn(at + 1, "/");
        if (level == 0 || (level == 1 && at[1] == '.') || (level == 2 && at[1] == '.' && at[2] == '.'))
            return "has a level that is empty, . or ..";
        at += 1 + level;
    }
    stpcpy(stpcpy(root, text), "/lock");
    return levels < ZOOKEEPER_LEVELS_MAX ? NULL : "is too deep";
}

bool zookeeper_address_read(const char *address, char servers[ZOOKEEPER_SERVERS_SIZE],
                            char root[ZOOKEEPER_ROOT_SIZE], char *what, size_t size) {
    const char *at = address, *end = address + strcspn(address, "/"), *wrong;
    char *out = servers;
    for (int number = 1;; number++) {
        size_t server = strcspn(at, ",/");
        wrong = append_server(&out, at, server);
        if (wrong) {
            snprintf(what, size, "server %d %s", number, wrong);
            return false;
        }
        at += server;
        if (at == end)
            break;
        *out++ = ',';
        at++;
    }
    *out = '\0';
    wrong = read_chroot(strcmp(end, "/") == 0 ? "" : end, root);
    if (wrong)
        snprintf(what, size, "the path %s", wrong);
    return !wrong;
}

void zookeeper_address_node(const char *root, char *path, const char *key, const char *name) {
    char *at = stpcpy(path, root);
    *at++ = '/';
    for (const char *c = key; *c; c++) {
        if (*c == '/' || *c == '%' || (*c == '.' && c == key))
            at += snprintf(at, 4, "%%%02X", (unsigned char)*c);
        else
            *at++ = *c;
    }
    *at = '\0';
    if (name)
        stpcpy(stpcpy(at, "/"), name);
}
