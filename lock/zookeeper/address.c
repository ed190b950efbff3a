#include "lock/zookeeper/address.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { PORT = 2181 };

/* Returns 0 if it is not a port. */
static int read_port(const char *text, size_t length) {
    int port = 0;
    for (size_t i = 0; i < length && port <= 65535; i++)
        port = isdigit((unsigned char)text[i]) ? port * 10 + text[i] - '0' : 65536;
    return port <= 65535 ? port : 0;
}

/* Reads HOST[:PORT] or [IPV6][:PORT], and writes HOST:PORT or IPV6:PORT, as the C client wants it. Returns
 * NULL, or what is wrong. */
static const char *append_server(char **out, const char *text, size_t length) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:%";
    const char *end = text + length;
    bool is_address = length > 0 && *text == '[';
    const char *begin = text + is_address;
    const char *stop = memchr(begin, is_address ? ']' : ':', (size_t)(end - begin));
    if (!stop && is_address)
        return "has no ] to its [";
    stop = stop ? stop : end;
    const char *rest = stop + is_address;
    if (stop == begin)
        return "is empty";
    if (memchr(text, '@', length))
        return "has a user: there are none";
    if (strspn(begin, letters) < (size_t)(stop - begin) || (!is_address && memchr(begin, '%', length)))
        return "has a character that no host has";
    int port = rest == end ? PORT : *rest == ':' ? read_port(rest + 1, (size_t)(end - rest) - 1) : 0;
    if (port == 0)
        return "has a port that is not a number from 1 to 65535";
    *out += sprintf(*out, "%.*s:%d", (int)(stop - begin), begin, port);
    return NULL;
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
